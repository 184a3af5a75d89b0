//! The tensors that stay, as bytes: for a client's own checkpoint, which the caller encrypts.

use std::fmt;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::error::LearnError;
use crate::layout::Layout;
use crate::tensor::PrivateTensor;

/// A model's private tensors as opaque bytes. Wiped from memory when dropped; cannot be cloned, serialised or printed.
///
/// ```compile_fail,E0599
/// fn twice(state: &veilsum_learner::PrivateState) -> veilsum_learner::PrivateState {
///     state.clone()
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn sends<T: serde::Serialize>() {}
/// sends::<veilsum_learner::PrivateState>();
/// ```
pub struct PrivateState(Zeroizing<Vec<u8>>);

impl PrivateState {
    /// Packs a layout's private tensors: a mark, the SHA-256 of their names and shapes (32 bytes), then every number as
    /// little-endian IEEE 754.
    ///
    /// # Errors
    ///
    /// [`LearnError::PrivateState`] unless they are exactly the layout's private ones in order, [`LearnError::NonFinite`]
    /// if a number is not finite.
    pub fn pack(layout: &Layout, tensors: &[PrivateTensor]) -> Result<Self, LearnError> {
        if !layout.private().eq(tensors.iter().map(PrivateTensor::spec)) {
            return Err(LearnError::PrivateState {
                reason: "the tensors are not the layout's private ones in order",
            });
        }
        let numbers: usize = layout.private().map(crate::layout::TensorSpec::len).sum();
        // Reserved at once: a buffer that grows leaves unwiped copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(HEAD + 4 * numbers));
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(&schema(layout));
        for tensor in tensors {
            for (index, value) in tensor.values().iter().enumerate() {
                if !value.is_finite() {
                    return Err(LearnError::NonFinite {
                        tensor: tensor.spec().name.clone(),
                        index,
                        value: *value,
                    });
                }
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        Ok(Self(bytes))
    }

    /// Takes bytes out of a decrypted checkpoint. They are checked by [`PrivateState::unpack`].
    #[must_use]
    pub fn from_bytes(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// The bytes, to encrypt.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The tensors, for a model with this layout.
    ///
    /// # Errors
    ///
    /// [`LearnError::PrivateState`] for bytes of another layout or length, [`LearnError::NonFinite`] for NaN or infinity.
    pub fn unpack(&self, layout: &Layout) -> Result<Vec<PrivateTensor>, LearnError> {
        let wrong = |reason| Err(LearnError::PrivateState { reason });
        let Some((head, mut body)) = self.0.split_at_checked(HEAD) else {
            return wrong("it is shorter than its head");
        };
        let Some(digest) = head.strip_prefix(MARK.as_slice()) else {
            return wrong("it does not begin as saved private tensors do");
        };
        if digest != schema(layout) {
            return wrong("its tensors have other names or shapes");
        }
        let mut tensors = Vec::new();
        for spec in layout.private() {
            let Some((own, rest)) = body.split_at_checked(4 * spec.len()) else {
                return wrong("it is cut short");
            };
            body = rest;
            let (numbers, _) = own.as_chunks::<4>();
            let values: Vec<f32> = numbers.iter().map(|b| f32::from_le_bytes(*b)).collect();
            if let Some((index, value)) = values.iter().enumerate().find(|(_, v)| !v.is_finite()) {
                return Err(LearnError::NonFinite {
                    tensor: spec.name.clone(),
                    index,
                    value: *value,
                });
            }
            tensors.push(PrivateTensor::new(spec, values)?);
        }
        if body.is_empty() {
            Ok(tensors)
        } else {
            wrong("bytes are left over")
        }
    }
}

impl fmt::Debug for PrivateState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateState({} bytes withheld)", self.0.len())
    }
}

/// Names and shapes of the private tensors, hashed as [`Layout::digest`] hashes the others.
fn schema(layout: &Layout) -> [u8; 32] {
    let mut hash = Sha256::new();
    for spec in layout.private() {
        hash.update((spec.name.len() as u64).to_le_bytes());
        hash.update(spec.name.as_bytes());
        hash.update((spec.shape.len() as u64).to_le_bytes());
        for &size in &spec.shape {
            hash.update((size as u64).to_le_bytes());
        }
    }
    hash.finalize().into()
}

const MARK: &[u8; 16] = b"veilsum private1";
const HEAD: usize = MARK.len() + 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{TensorClass, TensorSpec};

    fn layout(name: &str, len: usize) -> Layout {
        Layout::new(vec![
            TensorSpec::new("w", [2], TensorClass::Shared),
            TensorSpec::new(name, [len], TensorClass::Private),
            TensorSpec::new("q", [1], TensorClass::Private),
        ])
        .unwrap()
    }

    fn tensors(layout: &Layout) -> Vec<PrivateTensor> {
        let values = |n: usize| {
            (0..n)
                .map(|i| 0.5 + f32::from(u8::try_from(i).unwrap()))
                .collect()
        };
        layout
            .private()
            .map(|spec| PrivateTensor::new(spec, values(spec.len())).unwrap())
            .collect()
    }

    #[test]
    fn what_is_packed_comes_back() {
        let layout = layout("p", 3);
        let state = PrivateState::pack(&layout, &tensors(&layout)).unwrap();
        let again = PrivateState::from_bytes(Zeroizing::new(state.as_bytes().to_vec()));
        let back = again.unpack(&layout).unwrap();
        assert_eq!(back[0].values(), [0.5, 1.5, 2.5]);
        assert_eq!(back[1].values(), [0.5]);
        assert!(!format!("{state:?}").contains("0.5") && format!("{state:?}").contains("withheld"));
    }

    #[test]
    fn other_models_and_cut_or_broken_bytes_are_refused() {
        let own = layout("p", 3);
        let whole = PrivateState::pack(&own, &tensors(&own))
            .unwrap()
            .as_bytes()
            .to_vec();
        let read = |bytes: Vec<u8>, layout: &Layout| {
            PrivateState::from_bytes(Zeroizing::new(bytes))
                .unpack(layout)
                .map(|t| t.len())
        };
        assert_eq!(read(whole.clone(), &own).unwrap(), 2);
        for (name, len) in [("p2", 3), ("p", 4)] {
            assert!(matches!(
                read(whole.clone(), &layout(name, len)),
                Err(LearnError::PrivateState { .. })
            ));
        }
        for len in 0..whole.len() {
            assert!(
                matches!(
                    read(whole[..len].to_vec(), &own),
                    Err(LearnError::PrivateState { .. })
                ),
                "{len}"
            );
        }
        let longer = [whole.clone(), vec![0]].concat();
        assert!(matches!(read(longer, &own), Err(LearnError::PrivateState { .. })));
        let mut nan = whole.clone();
        nan[HEAD..HEAD + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(
            matches!(read(nan, &own), Err(LearnError::NonFinite { tensor, index: 0, .. }) if tensor == "p")
        );
        let mut mark = whole;
        mark[0] ^= 1;
        assert!(matches!(read(mark, &own), Err(LearnError::PrivateState { .. })));
        let mut short = tensors(&own);
        short.pop();
        assert!(matches!(
            PrivateState::pack(&own, &short),
            Err(LearnError::PrivateState { .. })
        ));
    }
}
