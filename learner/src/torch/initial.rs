//! The common start: weights drawn from a seed, equal bit for bit on every machine.
//!
//! Drawn by a named generator with additions and one multiplication a number, not by libtorch, whose generator is global
//! and may change with its version. Private tensors are drawn too, and alike on all clients: federated training of
//! private embeddings works only from a common draw.

use std::collections::BTreeMap;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use tch::nn::VarStore;
use tch::{Kind, Tensor};

use crate::error::LearnError;

/// Fills all tensors of a store.
///
/// By name and shape: `weight` of rank 2 and more, uniform with variance 2 / fan-in (He et al. 2015); of an output layer
/// (`out.weight`), a tenth of that; `positions`, uniform within ±0.05; norms' `weight` and `running_var`, ones; all else
/// zeros.
///
/// # Errors
///
/// [`LearnError::Torch`] if libtorch refuses a copy.
pub fn draw(store: &VarStore, seed: u64) -> Result<(), LearnError> {
    draw_as(store, seed, |_, _| None)
}

/// As [`draw`], but where `sizes` gives a root-mean-square size for a tensor's name and shape, it is drawn uniformly with
/// that one. A size of 0 leaves the tensor zero.
///
/// # Errors
///
/// [`LearnError::Torch`] if libtorch refuses a copy.
pub(crate) fn draw_as(
    store: &VarStore,
    seed: u64,
    sizes: impl Fn(&str, &[i64]) -> Option<f32>,
) -> Result<(), LearnError> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let tensors: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
    for (name, tensor) in tensors {
        let shape = tensor.size();
        let count: usize = tensor.numel();
        let half_width = match sizes(&name, &shape) {
            // A uniform number within ±h has the root-mean-square size h / √3.
            Some(size) => Some(size * 3.0_f32.sqrt()),
            None => half_width(&name, &shape),
        };
        let values: Vec<f32> = match half_width {
            Some(half) => (0..count).map(|_| half * signed_unit(&mut rng)).collect(),
            None if name.ends_with("weight") || name.ends_with("running_var") => vec![1.0; count],
            None => vec![0.0; count],
        };
        let source = Tensor::from_slice(&values)
            .view(shape.as_slice())
            .to_kind(Kind::Float);
        tch::no_grad(|| tensor.shallow_clone().f_copy_(&source))?;
    }
    Ok(())
}

/// Half the width of a tensor's uniform distribution; `None` if it starts constant.
fn half_width(name: &str, shape: &[i64]) -> Option<f32> {
    if name.ends_with("positions") {
        return Some(0.05);
    }
    let inputs = shape
        .get(1..)
        .filter(|_| shape.len() >= 2 && name.ends_with("weight"))?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "layers have far fewer than 2^24 inputs"
    )]
    let fan_in = inputs.iter().product::<i64>().max(1) as f32;
    // A uniform number within ±h has variance h² / 3.
    let he = (6.0 / fan_in).sqrt();
    Some(if name.ends_with("out.weight") {
        0.1 * he
    } else {
        he
    })
}

/// Uniform in −1..1 with 24 bits.
fn signed_unit(rng: &mut ChaCha20Rng) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "24 bits fit an f32")]
    let unit = (rng.next_u32() >> 8) as f32 / (1 << 24) as f32;
    2.0 * unit - 1.0
}

#[cfg(test)]
mod tests {
    use tch::{Device, nn};

    use super::*;

    fn store() -> VarStore {
        let store = VarStore::new(Device::Cpu);
        let root = store.root();
        let _ = nn::conv2d(&root / "a", 8, 16, 3, nn::ConvConfig::default());
        let _ = nn::batch_norm2d(&root / "norm", 16, nn::BatchNormConfig::default());
        let _ = nn::conv2d(&root / "out", 16, 4, 1, nn::ConvConfig::default());
        let _ = root.zeros("positions", &[9, 4]);
        store
    }

    fn values(store: &VarStore, name: &str) -> Vec<f32> {
        Vec::try_from(store.variables()[name].flatten(0, -1)).unwrap()
    }

    #[test]
    fn equal_seeds_equal_bits() {
        let (a, b, c) = (store(), store(), store());
        draw(&a, 1).unwrap();
        draw(&b, 1).unwrap();
        draw(&c, 2).unwrap();
        for name in a.variables().keys() {
            assert_eq!(values(&a, name), values(&b, name), "{name}");
        }
        assert_ne!(values(&a, "a.weight"), values(&c, "a.weight"));
    }

    #[test]
    fn each_kind_of_tensor_starts_as_documented() {
        let store = store();
        draw(&store, 7).unwrap();
        let he = (6.0_f32 / 72.0).sqrt();
        let weights = values(&store, "a.weight");
        assert!(weights.iter().all(|w| w.abs() <= he));
        let variance = weights.iter().map(|w| w * w).sum::<f32>() / 1152.0;
        assert!(
            (variance * 36.0 - 1.0).abs() < 0.15,
            "variance {variance}, expected 2/72"
        );
        assert!(
            values(&store, "out.weight")
                .iter()
                .all(|w| w.abs() <= 0.1 * (6.0_f32 / 16.0).sqrt())
        );
        assert!(
            values(&store, "positions")
                .iter()
                .all(|w| w.abs() <= 0.05 && *w != 0.0)
        );
        assert_eq!(values(&store, "norm.weight"), vec![1.0; 16]);
        assert_eq!(values(&store, "norm.running_var"), vec![1.0; 16]);
        assert_eq!(values(&store, "norm.running_mean"), vec![0.0; 16]);
        assert_eq!(values(&store, "a.bias"), vec![0.0; 16]);
    }
}
