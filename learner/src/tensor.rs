//! Shared and private tensors, kept apart by type.

use std::fmt;

use crate::error::LearnError;
use crate::layout::TensorSpec;

/// A tensor that may leave the machine: shared weights or float buffers.
///
/// The only thing from which [`Weights`](crate::Weights) can be assembled, and so the only thing from which an update
/// can come.
#[derive(Clone, PartialEq)]
pub struct SharedTensor {
    spec: TensorSpec,
    values: Vec<f32>,
}

impl SharedTensor {
    /// Pairs a spec with its numbers, row-major.
    ///
    /// # Errors
    ///
    /// [`LearnError::PrivateTensor`] if the spec says the tensor stays, [`LearnError::TensorLength`] if the count is
    /// not the shape's.
    pub fn new(spec: &TensorSpec, values: Vec<f32>) -> Result<Self, LearnError> {
        if !spec.class.is_uploaded() {
            return Err(LearnError::PrivateTensor {
                tensor: spec.name.clone(),
            });
        }
        check_len(spec, values.len())?;
        Ok(Self {
            spec: spec.clone(),
            values,
        })
    }

    /// Name, shape and class.
    #[must_use]
    pub fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// The numbers, row-major.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}

impl fmt::Debug for SharedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedTensor({} {:?})", self.spec.name, self.spec.shape)
    }
}

/// A tensor that stays on the machine, such as a camera's position embedding or a client's own output head.
///
/// No conversion leads from here to an upload, and it cannot be cloned, serialised or printed:
///
/// ```compile_fail,E0308
/// use veilsum_learner::{Layout, PrivateTensor, TensorClass, TensorSpec, Weights};
/// let spec = TensorSpec::new("pose.embed", [2], TensorClass::Private);
/// let layout = Layout::new(vec![
///     TensorSpec::new("w", [1], TensorClass::Shared),
///     spec.clone(),
/// ]).unwrap();
/// let stays = PrivateTensor::new(&spec, vec![0.5, 0.25]).unwrap();
/// let upload = Weights::assemble(&layout, &[stays]); // expected `SharedTensor`, found `PrivateTensor`
/// ```
///
/// ```compile_fail,E0277
/// fn sends<T: serde::Serialize>() {}
/// sends::<veilsum_learner::PrivateTensor>();
/// ```
pub struct PrivateTensor {
    spec: TensorSpec,
    values: Vec<f32>,
}

impl PrivateTensor {
    /// Pairs a private spec with its numbers, row-major.
    ///
    /// # Errors
    ///
    /// [`LearnError::NotPrivate`] if the spec says the tensor travels, [`LearnError::TensorLength`] if the count is not
    /// the shape's.
    pub fn new(spec: &TensorSpec, values: Vec<f32>) -> Result<Self, LearnError> {
        if spec.class.is_uploaded() {
            return Err(LearnError::NotPrivate {
                tensor: spec.name.clone(),
            });
        }
        check_len(spec, values.len())?;
        Ok(Self {
            spec: spec.clone(),
            values,
        })
    }

    /// Name, shape and class.
    #[must_use]
    pub fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// The numbers, for this machine's own model.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The numbers, to train them.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }
}

impl fmt::Debug for PrivateTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PrivateTensor({} {:?}, values withheld)",
            self.spec.name, self.spec.shape
        )
    }
}

fn check_len(spec: &TensorSpec, found: usize) -> Result<(), LearnError> {
    if spec.checked_len() == Some(found) {
        Ok(())
    } else {
        Err(LearnError::TensorLength {
            tensor: spec.name.clone(),
            shape: spec.shape.clone(),
            found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::TensorClass;

    #[test]
    fn each_type_takes_only_its_class() {
        let shared = TensorSpec::new("s", [2], TensorClass::Shared);
        let private = TensorSpec::new("p", [2], TensorClass::Private);
        assert!(
            matches!(SharedTensor::new(&private, vec![0.0; 2]), Err(LearnError::PrivateTensor { tensor }) if tensor == "p")
        );
        assert!(
            matches!(PrivateTensor::new(&shared, vec![0.0; 2]), Err(LearnError::NotPrivate { tensor }) if tensor == "s")
        );
        assert!(matches!(
            SharedTensor::new(&shared, vec![0.0; 3]),
            Err(LearnError::TensorLength { found: 3, .. })
        ));
        assert!(matches!(
            PrivateTensor::new(&private, vec![]),
            Err(LearnError::TensorLength { found: 0, .. })
        ));
    }

    #[test]
    fn private_values_do_not_print() {
        let spec = TensorSpec::new("p", [1], TensorClass::Private);
        let text = format!("{:?}", PrivateTensor::new(&spec, vec![1234.5]).unwrap());
        assert!(!text.contains("1234"), "{text}");
    }
}
