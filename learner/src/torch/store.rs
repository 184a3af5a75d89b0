//! A network's tensors as a layout: flat weights in and out, private tensors kept apart.

use std::collections::{BTreeMap, BTreeSet};

use tch::nn::VarStore;
use tch::{Device, Tensor};

use crate::error::LearnError;
use crate::layout::{Layout, TensorClass, TensorSpec};
use crate::tensor::{PrivateTensor, SharedTensor};
use crate::weights::Weights;

/// The tensors of one network, sorted by name.
#[derive(Debug)]
pub struct Store {
    vars: VarStore,
    tensors: BTreeMap<String, Tensor>,
    /// Names of the tensors that an optimiser changes.
    trained: BTreeSet<String>,
    layout: Layout,
}

/// Everything a round may change, private tensors too. Stays on this machine.
pub struct Snapshot {
    tensors: BTreeMap<String, Tensor>,
}

impl Store {
    /// Takes a network's variables.
    ///
    /// `shared` is the allow-list: tensors whose names start with one of its prefixes travel, trained ones as
    /// [`TensorClass::Shared`], others (running statistics) as [`TensorClass::Buffer`]. `private` prefixes take
    /// precedence. A tensor on neither list is private.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] if a prefix matches no tensor, which is a misspelt name that would otherwise send what
    /// should stay; [`LearnError::Layout`] if nothing would travel.
    pub fn new(vars: VarStore, shared: &[&str], private: &[String]) -> Result<Self, LearnError> {
        let tensors: BTreeMap<String, Tensor> = vars.variables().into_iter().collect();
        for prefix in private {
            if prefix.is_empty() || !tensors.keys().any(|name| name.starts_with(prefix)) {
                let names: Vec<&str> = tensors.keys().filter_map(|name| name.split('.').next()).collect();
                let mut parts = names;
                parts.dedup();
                let what = format!(
                    "no tensor's name starts with private = '{prefix}'; parts are {}",
                    parts.join(", ")
                );
                return Err(LearnError::Network { what });
            }
        }
        Self::classified(vars, |name| {
            private.iter().any(|prefix| name.starts_with(prefix))
                || !shared.iter().any(|prefix| name.starts_with(prefix))
        })
    }

    /// Takes a network's variables; those for which `stays` is true are private.
    ///
    /// # Errors
    ///
    /// [`LearnError::Layout`] if nothing would travel.
    pub fn classified(vars: VarStore, stays: impl Fn(&str) -> bool) -> Result<Self, LearnError> {
        let tensors: BTreeMap<String, Tensor> = vars.variables().into_iter().collect();
        let specs = tensors
            .iter()
            .map(|(name, tensor)| {
                let class = match (stays(name), tensor.requires_grad()) {
                    (true, _) => TensorClass::Private,
                    (false, true) => TensorClass::Shared,
                    (false, false) => TensorClass::Buffer,
                };
                let shape: Vec<usize> = tensor
                    .size()
                    .iter()
                    .map(|&d| usize::try_from(d).unwrap_or(0))
                    .collect();
                TensorSpec::new(name.as_str(), shape, class)
            })
            .collect();
        let trained = tensors
            .iter()
            .filter(|(_, tensor)| tensor.requires_grad())
            .map(|(name, _)| name.clone());
        Ok(Self {
            vars,
            trained: trained.collect(),
            tensors,
            layout: Layout::new(specs)?,
        })
    }

    /// The layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The variables, for an optimiser.
    #[must_use]
    pub fn vars(&self) -> &VarStore {
        &self.vars
    }

    /// Where the tensors live.
    #[must_use]
    pub fn device(&self) -> Device {
        self.vars.device()
    }

    /// A tensor by its name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The uploaded tensors.
    ///
    /// # Errors
    ///
    /// [`LearnError::NonFinite`] naming the tensor.
    pub fn weights(&self) -> Result<Weights, LearnError> {
        let tensors = self
            .layout
            .uploaded()
            .map(|spec| SharedTensor::new(spec, self.values(&spec.name)?));
        Weights::assemble(&self.layout, &tensors.collect::<Result<Vec<_>, _>>()?)
    }

    /// Replaces the uploaded tensors; private ones keep their values.
    ///
    /// # Errors
    ///
    /// [`LearnError::LayoutMismatch`] for another model's weights; nothing changes then.
    pub fn load(&self, weights: &Weights) -> Result<(), LearnError> {
        weights.check(&self.layout)?;
        for (spec, values) in weights.tensors() {
            if let Some(tensor) = self.tensors.get(&spec.name) {
                let source = Tensor::from_slice(values).view(tensor.size().as_slice());
                tch::no_grad(|| tensor.shallow_clone().f_copy_(&source))?;
            }
        }
        Ok(())
    }

    /// The tensors that stay.
    ///
    /// # Errors
    ///
    /// [`LearnError::Torch`] if libtorch cannot hand them over.
    pub fn private(&self) -> Result<Vec<PrivateTensor>, LearnError> {
        self.layout
            .private()
            .map(|spec| PrivateTensor::new(spec, self.values(&spec.name)?))
            .collect()
    }

    /// Replaces the tensors that stay.
    ///
    /// # Errors
    ///
    /// [`LearnError::TensorOrder`] unless they are exactly the layout's private ones in order; nothing changes then.
    pub fn load_private(&self, tensors: &[PrivateTensor]) -> Result<(), LearnError> {
        let mut expected = self.layout.private();
        let end = || "the end".to_owned();
        let mut given = tensors.iter().map(PrivateTensor::spec);
        loop {
            match (expected.next(), given.next()) {
                (None, None) => break,
                (wanted, found) if wanted == found => {}
                (wanted, found) => {
                    return Err(LearnError::TensorOrder {
                        found: found.map_or_else(end, |spec| spec.name.clone()),
                        expected: wanted.map_or_else(end, |spec| spec.name.clone()),
                    });
                }
            }
        }
        for tensor in tensors {
            if let Some(own) = self.tensors.get(&tensor.spec().name) {
                let source = Tensor::from_slice(tensor.values()).view(own.size().as_slice());
                tch::no_grad(|| own.shallow_clone().f_copy_(&source))?;
            }
        }
        Ok(())
    }

    /// Lets gradients reach the trained tensors that stay, or those that travel, or both.
    ///
    /// An optimiser passes over tensors without a gradient, moments included.
    ///
    /// # Errors
    ///
    /// [`LearnError::Torch`] if libtorch refuses.
    pub fn train_only(&self, kept: bool, shared: bool) -> Result<(), LearnError> {
        for spec in self.layout.specs() {
            let on = match spec.class {
                TensorClass::Private => kept && self.trained.contains(&spec.name),
                TensorClass::Shared => shared,
                TensorClass::Buffer => continue,
            };
            if let Some(tensor) = self.tensors.get(&spec.name) {
                let _ = tensor.f_set_requires_grad(on)?;
            }
        }
        Ok(())
    }

    /// A copy of all tensors.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let copy = |(name, tensor): (&String, &Tensor)| (name.clone(), tensor.detach().copy());
        Snapshot {
            tensors: self.tensors.iter().map(copy).collect(),
        }
    }

    /// Puts all tensors back as they were.
    ///
    /// # Errors
    ///
    /// [`LearnError::Torch`] if libtorch refuses a copy.
    pub fn restore(&self, snapshot: &Snapshot) -> Result<(), LearnError> {
        for (tensor, saved) in self.tensors.values().zip(snapshot.tensors.values()) {
            tch::no_grad(|| tensor.shallow_clone().f_copy_(saved))?;
        }
        Ok(())
    }

    /// The first number that is not finite, private tensors included: tensor, position, number.
    ///
    /// # Errors
    ///
    /// [`LearnError::Torch`] if libtorch cannot hand a tensor over.
    pub fn find_non_finite(&self) -> Result<Option<(String, usize, f32)>, LearnError> {
        for (name, tensor) in &self.tensors {
            if tensor.isfinite().all().int64_value(&[]) != 0 {
                continue;
            }
            let values = self.values(name)?;
            if let Some((index, value)) = values.iter().enumerate().find(|(_, v)| !v.is_finite()) {
                return Ok(Some((name.clone(), index, *value)));
            }
        }
        Ok(None)
    }

    fn values(&self, name: &str) -> Result<Vec<f32>, LearnError> {
        let tensor = self.tensors.get(name).ok_or_else(|| LearnError::Network {
            what: format!("no tensor '{name}'"),
        })?;
        Ok(Vec::try_from(
            tensor.detach().to_device(Device::Cpu).contiguous().flatten(0, -1),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use tch::nn;

    use super::*;
    use crate::torch::initial::draw;

    fn store(private: &[String]) -> Result<Store, LearnError> {
        let vars = VarStore::new(Device::Cpu);
        let root = vars.root();
        let _ = nn::conv2d(&root / "body" / "conv", 2, 3, 3, nn::ConvConfig::default());
        let _ = nn::batch_norm2d(&root / "body" / "norm", 3, nn::BatchNormConfig::default());
        let _ = nn::linear(&root / "head", 3, 1, nn::LinearConfig::default());
        let _ = nn::linear(&root / "other", 3, 1, nn::LinearConfig::default());
        draw(&vars, 1)?;
        Store::new(vars, &["body.", "head."], private)
    }

    fn class(store: &Store, name: &str) -> TensorClass {
        store.layout().find(name).unwrap().class
    }

    #[test]
    fn only_the_allow_list_travels() {
        let store = store(&["head.".to_owned()]).unwrap();
        assert_eq!(class(&store, "body.conv.weight"), TensorClass::Shared);
        assert_eq!(class(&store, "body.norm.running_mean"), TensorClass::Buffer);
        assert_eq!(class(&store, "head.weight"), TensorClass::Private);
        assert_eq!(class(&store, "other.weight"), TensorClass::Private, "on no list");
        // conv 54 + 3, norm 4 x 3.
        assert_eq!(store.layout().upload_len(), 69);
    }

    #[test]
    fn a_misspelt_private_prefix_is_refused() {
        for prefix in ["haed.", ""] {
            let error = store(&[prefix.to_owned()]).unwrap_err();
            assert!(error.to_string().contains("body, head, other"), "{error}");
        }
    }

    #[test]
    fn private_values_survive_load_and_are_not_in_the_bytes() {
        let store = store(&["head.".to_owned()]).unwrap();
        let marks: Vec<f32> = store
            .private()
            .unwrap()
            .iter()
            .flat_map(|t| t.values().to_vec())
            .collect();
        assert!(marks.iter().filter(|m| **m != 0.0).count() >= 6);
        let weights = store.weights().unwrap();
        let bytes = weights.to_bytes();
        for mark in marks.iter().filter(|m| **m != 0.0) {
            assert!(!bytes.windows(4).any(|w| w == mark.to_le_bytes()));
        }
        let zero = Weights::new(store.layout(), vec![0.25; 69]).unwrap();
        store.load(&zero).unwrap();
        assert_eq!(store.weights().unwrap(), zero);
        let after: Vec<f32> = store
            .private()
            .unwrap()
            .iter()
            .flat_map(|t| t.values().to_vec())
            .collect();
        assert_eq!(after, marks);
    }

    #[test]
    fn snapshots_restore_private_tensors_too() {
        let store = store(&["head.".to_owned()]).unwrap();
        let (before, saved) = (store.weights().unwrap(), store.snapshot());
        let private = |s: &Store| {
            s.private()
                .unwrap()
                .iter()
                .flat_map(|t| t.values().to_vec())
                .collect::<Vec<_>>()
        };
        let private_before = private(&store);
        for tensor in store.tensors.values() {
            let _ = tch::no_grad(|| tensor.shallow_clone().fill_(f64::NAN));
        }
        assert!(matches!(store.weights(), Err(LearnError::NonFinite { .. })));
        assert!(store.find_non_finite().unwrap().is_some());
        store.restore(&saved).unwrap();
        assert_eq!(store.weights().unwrap(), before);
        assert_eq!(private(&store), private_before);
        assert!(store.find_non_finite().unwrap().is_none());
    }

    #[test]
    fn foreign_weights_change_nothing() {
        let store = store(&[]).unwrap();
        let before = store.weights().unwrap();
        let other = Layout::new(vec![TensorSpec::new("w", [73], TensorClass::Shared)]).unwrap();
        let foreign = Weights::new(&other, vec![1.0; 73]).unwrap();
        assert!(matches!(
            store.load(&foreign),
            Err(LearnError::LayoutMismatch { .. })
        ));
        assert_eq!(store.weights().unwrap(), before);
    }
}
