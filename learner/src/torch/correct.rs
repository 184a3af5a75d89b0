//! A strategy's correction on the gradients of a network's tensors.

use tch::Tensor;

use crate::correction::Correction;
use crate::error::LearnError;
use crate::layout::TensorClass;
use crate::torch::store::Store;

/// The shared tensors with what is added to their gradients.
pub(super) struct Corrected {
    /// Tensor, linear part, anchor.
    tensors: Vec<(Tensor, Tensor, Tensor)>,
    proximal: f64,
}

impl Corrected {
    pub(super) fn new(store: &Store, correction: &Correction) -> Result<Self, LearnError> {
        correction.check(store.layout())?;
        let mut tensors = Vec::new();
        for (spec, linear, anchor) in correction.tensors() {
            let Some(own) = store
                .tensor(&spec.name)
                .filter(|_| spec.class == TensorClass::Shared)
            else {
                continue;
            };
            let like = |values: &[f32]| {
                Tensor::from_slice(values)
                    .view(own.size().as_slice())
                    .to_device(store.device())
            };
            tensors.push((own.shallow_clone(), like(linear), like(anchor)));
        }
        Ok(Self {
            tensors,
            proximal: f64::from(correction.proximal()),
        })
    }

    /// Adds to the gradients there are; a tensor that the loss does not reach has none and stays.
    pub(super) fn add(&self) -> Result<(), LearnError> {
        for (own, linear, anchor) in &self.tensors {
            let mut gradient = own.grad();
            if !gradient.defined() {
                continue;
            }
            tch::no_grad(|| {
                let _ = gradient.f_add_(linear)?;
                if self.proximal > 0.0 {
                    let pull = (own - anchor) * self.proximal;
                    let _ = gradient.f_add_(&pull)?;
                }
                Ok::<(), tch::TchError>(())
            })?;
        }
        Ok(())
    }
}
