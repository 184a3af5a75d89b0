//! Flat weights and updates.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::LearnError;
use crate::layout::Layout;
use crate::tensor::SharedTensor;

/// The uploaded tensors of a model as one flat vector, in layout order, every number finite.
///
/// Private tensors are not in here: there is no place for them in the layout's flat order.
///
/// Two are equal if their uploaded schemas and their numbers are.
#[derive(Clone)]
pub struct Weights {
    layout: Layout,
    values: Vec<f32>,
}

impl Weights {
    /// Tags a flat vector with its layout.
    ///
    /// # Errors
    ///
    /// [`LearnError::Length`] if there are not [`Layout::upload_len`] numbers, [`LearnError::NonFinite`] naming tensor
    /// and position for the first NaN or infinity.
    pub fn new(layout: &Layout, values: Vec<f32>) -> Result<Self, LearnError> {
        check(layout, &values)?;
        Ok(Self {
            layout: layout.clone(),
            values,
        })
    }

    /// Joins the tensors that travel. Takes [`SharedTensor`]s only, so a private tensor is a type error here.
    ///
    /// # Errors
    ///
    /// [`LearnError::TensorOrder`] unless the tensors are exactly the layout's uploaded ones in order; otherwise as
    /// [`Weights::new`].
    pub fn assemble(layout: &Layout, tensors: &[SharedTensor]) -> Result<Self, LearnError> {
        let mut values = Vec::with_capacity(layout.upload_len());
        let mut expected = layout.uploaded();
        for tensor in tensors {
            let wanted = expected.next();
            if wanted != Some(tensor.spec()) {
                return Err(LearnError::TensorOrder {
                    found: tensor.spec().name.clone(),
                    expected: wanted.map_or_else(|| "the end".to_owned(), |spec| spec.name.clone()),
                });
            }
            values.extend_from_slice(tensor.values());
        }
        if let Some(spec) = expected.next() {
            return Err(LearnError::TensorOrder {
                found: "the end".to_owned(),
                expected: spec.name.clone(),
            });
        }
        Self::new(layout, values)
    }

    /// Cuts the flat vector back into tensors, in layout order.
    pub fn tensors(&self) -> impl Iterator<Item = (&crate::layout::TensorSpec, &[f32])> {
        let mut rest = self.values.as_slice();
        self.layout.uploaded().map(move |spec| {
            let (head, tail) = rest.split_at_checked(spec.len()).unwrap_or((rest, &[]));
            rest = tail;
            (spec, head)
        })
    }

    /// The numbers.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The layout they follow.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The digest of that layout.
    #[must_use]
    pub fn layout_digest(&self) -> [u8; 32] {
        self.layout.digest()
    }

    /// Refuses weights of another model.
    ///
    /// # Errors
    ///
    /// [`LearnError::LayoutMismatch`] if the uploaded tensors are not `layout`'s.
    pub fn check(&self, layout: &Layout) -> Result<(), LearnError> {
        same_layout(layout.digest(), self.layout_digest())
    }

    /// SHA-256 of [`Weights::to_bytes`]: which model this is, for plans and logs.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        Sha256::digest(self.to_bytes()).into()
    }

    /// What local training changed: `self − base`. The only way to make a [`Delta`].
    ///
    /// # Errors
    ///
    /// [`LearnError::LayoutMismatch`] if the two models differ in their uploaded tensors, [`LearnError::NonFinite`] if
    /// a difference overflows `f32`.
    pub fn minus(&self, base: &Self) -> Result<Delta, LearnError> {
        same_layout(self.layout_digest(), base.layout_digest())?;
        let values: Vec<f32> = self
            .values
            .iter()
            .zip(&base.values)
            .map(|(new, old)| new - old)
            .collect();
        check(&self.layout, &values)?;
        Ok(Delta {
            layout: self.layout.clone(),
            values,
        })
    }

    /// The model after adding a mean update, such as an opened cluster sum divided by its weight.
    ///
    /// # Errors
    ///
    /// [`LearnError::Length`] if the update has another length, [`LearnError::NonFinite`] if a result is not finite.
    pub fn plus(&self, update: &[f32]) -> Result<Self, LearnError> {
        check(&self.layout, update)?;
        let values = self.values.iter().zip(update).map(|(w, u)| w + u).collect();
        Self::new(&self.layout, values)
    }

    /// The mean of several models, such as a client's start from the clusters it belongs to. Summed in `f64` in the
    /// order given, so equal inputs give equal bytes.
    ///
    /// # Errors
    ///
    /// [`LearnError::NothingToAverage`] for an empty list, [`LearnError::LayoutMismatch`] if layouts differ.
    pub fn mean<'a>(models: impl IntoIterator<Item = &'a Self>) -> Result<Self, LearnError> {
        let mut models = models.into_iter();
        let first = models.next().ok_or(LearnError::NothingToAverage)?;
        let mut sum: Vec<f64> = first.values.iter().map(|&w| f64::from(w)).collect();
        let mut count = 1.0;
        for model in models {
            same_layout(first.layout_digest(), model.layout_digest())?;
            for (total, &w) in sum.iter_mut().zip(&model.values) {
                *total += f64::from(w);
            }
            count += 1.0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a mean of f32 values lies in f32's range"
        )]
        let values = sum.into_iter().map(|total| (total / count) as f32).collect();
        Self::new(&first.layout, values)
    }

    /// Layout digest (32 bytes), then every number as little-endian IEEE 754.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(&self.layout, &self.values)
    }

    /// Reads what [`Weights::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// [`LearnError::LayoutMismatch`] if the bytes are for another layout, [`LearnError::Length`] if they are cut short
    /// or too many, [`LearnError::NonFinite`] for NaN or infinity.
    pub fn from_bytes(layout: &Layout, bytes: &[u8]) -> Result<Self, LearnError> {
        let wrong_length = || LearnError::Length {
            expected: layout.upload_len(),
            found: bytes.len().saturating_sub(32) / 4,
        };
        let (digest, body) = bytes.split_first_chunk::<32>().ok_or_else(wrong_length)?;
        same_layout(layout.digest(), *digest)?;
        let (numbers, rest) = body.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(wrong_length());
        }
        Self::new(layout, numbers.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }
}

impl PartialEq for Weights {
    fn eq(&self, other: &Self) -> bool {
        self.layout_digest() == other.layout_digest() && self.values == other.values
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weights({} numbers)", self.values.len())
    }
}

/// What one client's training changed in the uploaded tensors: finite, in layout order, unclipped and unweighted.
///
/// Made by [`Weights::minus`] alone.
pub struct Delta {
    layout: Layout,
    values: Vec<f32>,
}

impl Delta {
    /// The numbers.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The layout they follow.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The digest of that layout.
    #[must_use]
    pub fn layout_digest(&self) -> [u8; 32] {
        self.layout.digest()
    }

    /// Euclidean length, in `f64`.
    #[must_use]
    pub fn norm(&self) -> f64 {
        self.values
            .iter()
            .map(|&v| f64::from(v) * f64::from(v))
            .sum::<f64>()
            .sqrt()
    }

    /// Layout digest (32 bytes), then every number as little-endian IEEE 754. For tests and local storage: what goes
    /// to a server is quantised and masked first.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(&self.layout, &self.values)
    }
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One client's update is as good as its data: never print its numbers.
        write!(f, "Delta({} numbers, values withheld)", self.values.len())
    }
}

fn check(layout: &Layout, values: &[f32]) -> Result<(), LearnError> {
    if values.len() != layout.upload_len() {
        return Err(LearnError::Length {
            expected: layout.upload_len(),
            found: values.len(),
        });
    }
    let Some((at, value)) = values.iter().enumerate().find(|(_, v)| !v.is_finite()) else {
        return Ok(());
    };
    let (tensor, index) = layout
        .locate(at)
        .map_or_else(|| (String::new(), at), |(spec, index)| (spec.name.clone(), index));
    Err(LearnError::NonFinite {
        tensor,
        index,
        value: *value,
    })
}

fn same_layout(expected: [u8; 32], found: [u8; 32]) -> Result<(), LearnError> {
    if expected == found {
        Ok(())
    } else {
        Err(LearnError::LayoutMismatch { expected, found })
    }
}

fn to_bytes(layout: &Layout, values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + 4 * values.len());
    bytes.extend_from_slice(&layout.digest());
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::{TensorClass, TensorSpec};
    use crate::tensor::PrivateTensor;

    fn layout() -> Layout {
        Layout::new(vec![
            TensorSpec::new("body.weight", [2, 2], TensorClass::Shared),
            TensorSpec::new("pose.embed", [3], TensorClass::Private),
            TensorSpec::new("norm.mean", [2], TensorClass::Buffer),
        ])
        .unwrap()
    }

    #[test]
    fn length_and_finiteness_are_checked_by_name() {
        assert!(matches!(
            Weights::new(&layout(), vec![0.0; 9]),
            Err(LearnError::Length {
                expected: 6,
                found: 9
            })
        ));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = vec![0.0; 6];
            values[5] = bad;
            let error = Weights::new(&layout(), values).unwrap_err();
            assert!(
                matches!(&error, LearnError::NonFinite { tensor, index: 1, .. } if tensor == "norm.mean"),
                "{error}"
            );
            assert!(error.to_string().contains("norm.mean"), "{error}");
        }
    }

    #[test]
    fn a_difference_that_overflows_is_named() {
        let big = Weights::new(&layout(), vec![f32::MAX; 6]).unwrap();
        let small = Weights::new(&layout(), vec![f32::MIN; 6]).unwrap();
        assert!(
            matches!(big.minus(&small), Err(LearnError::NonFinite { tensor, index: 0, .. }) if tensor == "body.weight")
        );
        assert!(matches!(
            big.plus(&[f32::MAX; 6]),
            Err(LearnError::NonFinite { .. })
        ));
        assert!(matches!(
            big.plus(&[f32::NAN; 6]),
            Err(LearnError::NonFinite { .. })
        ));
    }

    #[test]
    fn other_layouts_are_refused() {
        let other = Layout::new(vec![TensorSpec::new("w", [6], TensorClass::Shared)]).unwrap();
        let a = Weights::new(&layout(), vec![1.0; 6]).unwrap();
        let b = Weights::new(&other, vec![1.0; 6]).unwrap();
        assert!(matches!(a.minus(&b), Err(LearnError::LayoutMismatch { .. })));
        assert!(matches!(
            Weights::from_bytes(&other, &a.to_bytes()),
            Err(LearnError::LayoutMismatch { .. })
        ));
        assert!(matches!(
            Weights::mean([&a, &b]),
            Err(LearnError::LayoutMismatch { .. })
        ));
        assert!(matches!(Weights::mean([]), Err(LearnError::NothingToAverage)));
    }

    #[test]
    fn tensors_must_be_the_uploaded_ones_in_order() {
        let layout = layout();
        let of = |i: usize, n: usize| SharedTensor::new(&layout.specs()[i], vec![1.0; n]).unwrap();
        assert!(Weights::assemble(&layout, &[of(0, 4), of(2, 2)]).is_ok());
        assert!(matches!(
            Weights::assemble(&layout, &[of(2, 2), of(0, 4)]),
            Err(LearnError::TensorOrder { .. })
        ));
        assert!(
            matches!(Weights::assemble(&layout, &[of(0, 4)]), Err(LearnError::TensorOrder { found, .. }) if found == "the end")
        );
        assert!(
            matches!(Weights::assemble(&layout, &[of(0, 4), of(2, 2), of(2, 2)]), Err(LearnError::TensorOrder { expected, .. }) if expected == "the end")
        );
    }

    /// A model with a private tensor of recognisable numbers: none of them is in the upload's bytes.
    #[test]
    fn private_values_are_not_in_the_bytes() {
        let layout = layout();
        let marks = [123.456_f32, -0.987_654, 3.0e-7];
        let private = PrivateTensor::new(&layout.specs()[1], marks.to_vec()).unwrap();
        let base = Weights::new(&layout, vec![0.0; 6]).unwrap();
        let shared = vec![
            SharedTensor::new(&layout.specs()[0], vec![0.1, 0.2, 0.3, 0.4]).unwrap(),
            SharedTensor::new(&layout.specs()[2], vec![0.5, 0.6]).unwrap(),
        ];
        let weights = Weights::assemble(&layout, &shared).unwrap();
        let delta = weights.minus(&base).unwrap();
        for bytes in [weights.to_bytes(), delta.to_bytes()] {
            assert_eq!(bytes.len(), 32 + 4 * 6);
            for mark in private.values() {
                assert!(
                    !bytes
                        .windows(4)
                        .any(|w| w == mark.to_le_bytes() || w == mark.to_be_bytes())
                );
            }
            // The search finds what is there.
            assert!(bytes.windows(4).any(|w| w == 0.3_f32.to_le_bytes()));
        }
    }

    #[test]
    fn mean_of_one_is_itself_and_of_two_lies_between() {
        let a = Weights::new(&layout(), vec![1.0; 6]).unwrap();
        let b = Weights::new(&layout(), vec![4.0; 6]).unwrap();
        assert_eq!(Weights::mean([&a]).unwrap(), a);
        assert_eq!(Weights::mean([&a, &b]).unwrap().values(), [2.5; 6]);
    }

    proptest! {
        #[test]
        fn bytes_round_trip(values in prop::collection::vec(-1e30_f32..1e30, 6)) {
            let weights = Weights::new(&layout(), values).unwrap();
            let back = Weights::from_bytes(&layout(), &weights.to_bytes()).unwrap();
            prop_assert_eq!(back.fingerprint(), weights.fingerprint());
            prop_assert_eq!(back, weights);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), tagged: bool) {
            let layout = layout();
            let mut message = if tagged { layout.digest().to_vec() } else { Vec::new() };
            message.extend(bytes);
            if let Ok(weights) = Weights::from_bytes(&layout, &message) {
                prop_assert_eq!(weights.to_bytes(), message);
                prop_assert!(weights.values().iter().all(|v| v.is_finite()));
            }
        }

        #[test]
        fn base_plus_delta_is_the_model(old in prop::collection::vec(-100_i16..100, 6), new in prop::collection::vec(-100_i16..100, 6)) {
            // Small integers: f32 arithmetic is exact.
            let of = |v: Vec<i16>| Weights::new(&layout(), v.into_iter().map(f32::from).collect()).unwrap();
            let (old, new) = (of(old), of(new));
            let delta = new.minus(&old).unwrap();
            prop_assert_eq!(old.plus(delta.values()).unwrap(), new);
        }
    }
}
