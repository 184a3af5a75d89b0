//! What a federated strategy adds to a client's gradient.

use std::fmt;

use crate::error::LearnError;
use crate::layout::{TensorClass, TensorSpec};
use crate::weights::Weights;

/// Added to the gradient `g` of every shared tensor at each step: `g + linear + proximal · (w − anchor)`.
///
/// It is the gradient of `⟨linear, w⟩ + proximal/2 · ‖w − anchor‖²`. `FedProx` has the second part (Li et al. 2020,
/// section 3), SCAFFOLD the first (Karimireddy et al. 2020, algorithm 1, line 10), `FedDyn` both (Acar et al. 2021,
/// algorithm 1). Buffers and private tensors are never corrected: they are no arguments of the function that the
/// corrections are about. A learner that shortens gradients does so before it adds this, so that a control variate
/// stays the mean of the gradients that were used.
#[derive(Clone)]
pub struct Correction {
    anchor: Weights,
    linear: Vec<f32>,
    proximal: f32,
    optimiser: LocalOptimiser,
}

/// Which optimiser applies a corrected gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalOptimiser {
    /// The learner's own, with its schedule.
    Own,
    /// Plain gradient descent at the plan's rate, without momentum, decay or schedule. Control variates are read off the
    /// way a model went, which says nothing of gradients under any other optimiser.
    Sgd,
}

impl Correction {
    /// A correction around `anchor`, the model a round started from. `linear` is in layout order, one number for each
    /// uploaded number; `None` is all zeros, and so are its entries for buffers, whatever they hold.
    ///
    /// # Errors
    ///
    /// [`LearnError::Length`] if `linear` has another length than the model, [`LearnError::NonFinite`] naming the first
    /// number that is not finite, [`LearnError::Proximal`] if `proximal` is negative or not finite.
    pub fn new(
        anchor: Weights,
        linear: Option<Vec<f32>>,
        proximal: f32,
        optimiser: LocalOptimiser,
    ) -> Result<Self, LearnError> {
        if !(proximal.is_finite() && proximal >= 0.0) {
            return Err(LearnError::Proximal { value: proximal });
        }
        let layout = anchor.layout().clone();
        let linear = linear.unwrap_or_else(|| vec![0.0; layout.upload_len()]);
        // Checks length and finiteness, with the tensor's name.
        let mut linear = Weights::new(&layout, linear)?.values().to_vec();
        let mut rest = linear.as_mut_slice();
        for spec in layout.uploaded() {
            let (own, tail) = rest.split_at_mut_checked(spec.len()).unwrap_or_default();
            if spec.class == TensorClass::Buffer {
                own.fill(0.0);
            }
            rest = tail;
        }
        Ok(Self {
            anchor,
            linear,
            proximal,
            optimiser,
        })
    }

    /// The model it is around.
    #[must_use]
    pub fn anchor(&self) -> &Weights {
        &self.anchor
    }

    /// Weight of the proximal term.
    #[must_use]
    pub fn proximal(&self) -> f32 {
        self.proximal
    }

    /// Who applies it.
    #[must_use]
    pub fn optimiser(&self) -> LocalOptimiser {
        self.optimiser
    }

    /// The uploaded tensors in layout order, each with its linear part and its anchor.
    pub fn tensors(&self) -> impl Iterator<Item = (&TensorSpec, &[f32], &[f32])> {
        let mut rest = self.linear.as_slice();
        self.anchor.tensors().map(move |(spec, anchor)| {
            let (own, tail) = rest.split_at_checked(spec.len()).unwrap_or((rest, &[]));
            rest = tail;
            (spec, own, anchor)
        })
    }

    /// Refuses a correction of another model.
    ///
    /// # Errors
    ///
    /// [`LearnError::LayoutMismatch`].
    pub fn check(&self, layout: &crate::Layout) -> Result<(), LearnError> {
        self.anchor.check(layout)
    }
}

impl fmt::Debug for Correction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The linear part is what a client's gradients have been: as good as its data.
        write!(
            f,
            "Correction(proximal {}, {:?}, values withheld)",
            self.proximal, self.optimiser
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    fn anchor() -> Weights {
        let layout = Layout::new(vec![
            TensorSpec::new("w", [2], TensorClass::Shared),
            TensorSpec::new("own", [5], TensorClass::Private),
            TensorSpec::new("mean", [1], TensorClass::Buffer),
        ])
        .unwrap();
        Weights::new(&layout, vec![1.0, 2.0, 3.0]).unwrap()
    }

    #[test]
    fn buffers_are_never_corrected() {
        let made = Correction::new(anchor(), Some(vec![4.0, 5.0, 6.0]), 0.5, LocalOptimiser::Sgd).unwrap();
        let parts: Vec<(&str, &[f32], &[f32])> = made
            .tensors()
            .map(|(spec, linear, anchor)| (spec.name.as_str(), linear, anchor))
            .collect();
        assert_eq!(
            parts,
            [
                ("w", &[4.0, 5.0][..], &[1.0, 2.0][..]),
                ("mean", &[0.0][..], &[3.0][..])
            ]
        );
    }

    #[test]
    fn what_is_no_correction_is_refused_by_name() {
        let make = |linear, proximal| Correction::new(anchor(), linear, proximal, LocalOptimiser::Own).err();
        assert!(make(None, 0.0).is_none());
        assert!(matches!(
            make(Some(vec![0.0; 2]), 0.0),
            Some(LearnError::Length { .. })
        ));
        assert!(matches!(
            make(Some(vec![0.0, f32::NAN, 0.0]), 0.0),
            Some(LearnError::NonFinite { tensor, index: 1, .. }) if tensor == "w"
        ));
        for bad in [-0.1, f32::NAN, f32::INFINITY] {
            assert!(matches!(make(None, bad), Some(LearnError::Proximal { .. })));
        }
    }
}
