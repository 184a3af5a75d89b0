//! Weights from safetensors files that others wrote.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tch::nn::VarStore;
use tch::{Kind, Tensor};

use crate::error::LearnError;
use crate::torch::names::Meaning;
pub use crate::torch::names::Names;
use crate::torch::network::NetworkKind;

/// A safetensors file to begin with. `learner/tools/to_safetensors.py` makes one from a PyTorch state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pretrained {
    /// The file.
    pub path: PathBuf,
    /// Under which names it holds its tensors.
    pub names: Names,
}

/// What was taken from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The network's tensors that were read, by their names here.
    pub tensors: Vec<String>,
    /// The network's tensors that the file rightly lacks, and that keep their drawn start.
    pub drawn: Vec<String>,
    /// The file's tensors that have no place in the network, by their names there.
    pub unused: Vec<String>,
}

impl Pretrained {
    /// Reads the file into a network's store: all that it must have, or nothing.
    ///
    /// # Errors
    ///
    /// [`LearnError::Pretrained`] if the file cannot be read, holds a tensor of no known name, lacks one that it should
    /// have, or has one of another shape or with numbers that are not finite. All such tensors are named.
    pub fn load(&self, vars: &VarStore, kind: NetworkKind) -> Result<Loaded, LearnError> {
        let read = Tensor::read_safetensors(&self.path)
            .map_err(|error| self.wrong(format!("it is no readable safetensors file ({error})")))?;
        let wanted: BTreeMap<String, Tensor> = vars.variables().into_iter().collect();
        let mut found: BTreeMap<String, Tensor> = BTreeMap::new();
        let (mut unused, mut surplus, mut twice) = (Vec::new(), Vec::new(), Vec::new());
        for (theirs, tensor) in read {
            match self.names.meaning(kind, &theirs)? {
                Meaning::Unused => unused.push(theirs),
                Meaning::Tensor(name) if wanted.contains_key(&name) => {
                    if found.insert(name, tensor).is_some() {
                        twice.push(theirs);
                    }
                }
                Meaning::Tensor(_) | Meaning::Unknown => surplus.push(theirs),
            }
        }
        let (drawn, missing): (Vec<String>, Vec<String>) = wanted
            .keys()
            .filter(|name| !found.contains_key(*name))
            .cloned()
            .partition(|name| self.may_lack(name));
        let shapes: Vec<String> = found
            .iter()
            .filter_map(|(name, tensor)| {
                let (found, wanted) = (tensor.size(), wanted.get(name)?.size());
                (found != wanted).then(|| format!("{name} is {found:?} there and {wanted:?} here"))
            })
            .collect();
        let spoilt: Vec<String> = found
            .iter()
            .filter(|(_, tensor)| tensor.isfinite().all().int64_value(&[]) == 0)
            .map(|(name, _)| name.clone())
            .collect();
        let complaints: Vec<String> = [
            ("missing", &missing),
            ("surplus", &surplus),
            ("there twice", &twice),
            ("of another shape", &shapes),
            ("not finite", &spoilt),
        ]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{} {what}: {}", names.len(), listed(names)))
        .collect();
        if !complaints.is_empty() {
            return Err(self.wrong(complaints.join("; ")));
        }
        for (name, tensor) in &found {
            if let Some(target) = wanted.get(name) {
                tch::no_grad(|| target.shallow_clone().f_copy_(&tensor.to_kind(Kind::Float)))?;
            }
        }
        Ok(Loaded {
            tensors: found.into_keys().collect(),
            drawn,
            unused,
        })
    }

    /// A classifier has no decoder, and no norms on the maps of its inner stages.
    fn may_lack(&self, name: &str) -> bool {
        let norm = name
            .strip_prefix("encoder.norm")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        self.names.encoder_only() && (norm || !name.starts_with("encoder."))
    }

    fn wrong(&self, what: String) -> LearnError {
        LearnError::Pretrained {
            path: self.path.clone(),
            what,
        }
    }
}

/// The first names of a list, and how many more there are.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::metrics::DepthRange;
    use crate::torch::network::{NetworkConfig, NetworkSize};

    const RANGE: DepthRange = DepthRange {
        min_m: 0.2,
        cap_m: 80.0,
    };

    fn store(kind: NetworkKind, seed: u64) -> VarStore {
        let config = NetworkConfig::new(kind, NetworkSize::Tiny, RANGE);
        let vars = VarStore::new(Device::Cpu);
        config.build(&vars.root()).unwrap();
        config.draw(&vars, seed).unwrap();
        vars
    }

    fn written(tensors: &[(String, Tensor)], names: Names) -> (tempfile::TempDir, Pretrained) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights.safetensors");
        Tensor::write_safetensors(tensors, &path).unwrap();
        (dir, Pretrained { path, names })
    }

    fn tensors(vars: &VarStore) -> Vec<(String, Tensor)> {
        vars.variables()
            .into_iter()
            .map(|(n, t)| (n, t.detach()))
            .collect()
    }

    fn same(a: &VarStore, b: &VarStore) -> bool {
        let other = b.variables();
        a.variables()
            .iter()
            .all(|(name, tensor)| tensor.equal(&other[name]))
    }

    #[test]
    fn own_files_come_back() {
        for kind in [NetworkKind::AdaBins, NetworkKind::NewCrfs, NetworkKind::DcDepth] {
            let (from, to) = (store(kind, 1), store(kind, 2));
            let (_dir, file) = written(&tensors(&from), Names::Own);
            assert!(!same(&from, &to));
            let loaded = file.load(&to, kind).unwrap();
            assert!(same(&from, &to), "{kind:?}");
            assert_eq!(loaded.tensors.len(), from.variables().len());
            assert_eq!((loaded.drawn.len(), loaded.unused.len()), (0, 0));
        }
    }

    /// A classifier's file under the names of the Swin release: head unused, inner norms and decoder stay drawn.
    #[test]
    fn a_classifier_fills_the_encoder() {
        let kind = NetworkKind::NewCrfs;
        let (from, to, before) = (store(kind, 1), store(kind, 2), store(kind, 2));
        let mut file: Vec<(String, Tensor)> = tensors(&from)
            .into_iter()
            .filter_map(|(name, tensor)| Some((name.strip_prefix("encoder.")?.to_owned(), tensor)))
            .filter(|(name, _)| !name.starts_with("norm"))
            .collect();
        let one = || Tensor::ones([1], (Kind::Float, Device::Cpu));
        for name in [
            "head.weight",
            "norm.bias",
            "layers.0.blocks.0.attn.relative_position_index",
        ] {
            file.push((name.to_owned(), one()));
        }
        let (_dir, file) = written(&file, Names::Swin);
        let loaded = file.load(&to, kind).unwrap();
        assert_eq!(loaded.unused.len(), 3);
        assert!(loaded.drawn.contains(&"encoder.norm0.weight".to_owned()));
        let (from, to, before) = (from.variables(), to.variables(), before.variables());
        for (name, tensor) in &to {
            let source = if name.starts_with("encoder.") {
                &from
            } else {
                &before
            };
            assert!(tensor.equal(&source[name]), "{name}");
        }
    }

    #[test]
    fn everything_wrong_is_named_and_nothing_is_loaded() {
        let kind = NetworkKind::AdaBins;
        let (from, to, before) = (store(kind, 1), store(kind, 2), store(kind, 2));
        let mut file = tensors(&from);
        file.retain(|(name, _)| name != "bins.out.bias");
        for (name, tensor) in &mut file {
            match name.as_str() {
                "bins.positions" => *tensor = Tensor::zeros([65, 32], (Kind::Float, Device::Cpu)),
                "bins.out.weight" => *tensor = tensor.full_like(f64::NAN),
                _ => {}
            }
        }
        file.push(("optimiser.state".to_owned(), Tensor::from(1.0_f32)));
        let (_dir, file) = written(&file, Names::Own);
        let error = file.load(&to, kind).unwrap_err().to_string();
        for part in [
            "weights.safetensors",
            "1 missing: bins.out.bias",
            "1 surplus: optimiser.state",
            "bins.positions is [65, 32] there and [64, 32] here",
            "1 not finite: bins.out.weight",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(same(&to, &before));
    }

    #[test]
    fn half_precision_is_read() {
        let kind = NetworkKind::AdaBins;
        let (from, to) = (store(kind, 1), store(kind, 2));
        let half: Vec<(String, Tensor)> = tensors(&from)
            .into_iter()
            .map(|(name, tensor)| (name, tensor.to_kind(Kind::Half)))
            .collect();
        let (_dir, file) = written(&half, Names::Own);
        file.load(&to, kind).unwrap();
        for (name, tensor) in to.variables() {
            assert_eq!(tensor.kind(), Kind::Float);
            let gap = (&tensor - &from.variables()[&name]).abs().max().double_value(&[]);
            assert!(gap < 1e-3, "{name} {gap}");
        }
    }

    #[test]
    fn files_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.safetensors");
        let file = Pretrained {
            path: path.clone(),
            names: Names::Own,
        };
        let vars = store(NetworkKind::AdaBins, 1);
        for bytes in [
            None,
            Some(vec![]),
            Some(vec![0xff; 40]),
            Some(b"\x02\0\0\0\0\0\0\0{}".to_vec()),
        ] {
            if let Some(bytes) = &bytes {
                std::fs::write(&path, bytes).unwrap();
            }
            let error = file.load(&vars, NetworkKind::AdaBins).unwrap_err();
            assert!(matches!(error, LearnError::Pretrained { .. }), "{bytes:?}");
            assert!(error.to_string().contains("x.safetensors"), "{error}");
        }
    }
}
