//! One pass through a network: scoring, or training with its random omissions.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use tch::{Device, Kind, Tensor};

/// Whether a pass trains, and if so what it leaves out at random.
///
/// Omissions come from a seed of the training plan, not from libtorch's global state, so a plan replays.
#[derive(Debug)]
pub struct Pass(Option<ChaCha20Rng>);

impl Pass {
    /// A pass that scores: nothing is left out and no running statistic moves.
    #[must_use]
    pub fn evaluate() -> Self {
        Self(None)
    }

    /// A pass that trains.
    #[must_use]
    pub fn train(seed: u64) -> Self {
        Self(Some(ChaCha20Rng::seed_from_u64(seed)))
    }

    /// Whether it trains.
    #[must_use]
    pub fn is_train(&self) -> bool {
        self.0.is_some()
    }

    /// `branch`, `[B, …]`, or zeros instead for a share `rate` of the pictures; what is kept is enlarged so that the mean
    /// stays. After Huang et al., "Deep Networks with Stochastic Depth" (ECCV 2016).
    pub fn drop_path(&mut self, branch: Tensor, rate: f64) -> Tensor {
        match self.kept(&branch, rate) {
            Some(kept) => branch * (kept / (1.0 - rate)),
            None => branch,
        }
    }

    /// `new`, `[B, …]`, or `old` instead for a share `rate` of the pictures.
    pub fn skip(&mut self, new: Tensor, old: &Tensor, rate: f64) -> Tensor {
        match self.kept(&new, rate) {
            Some(kept) => &new * &kept + old * (1.0 - kept),
            None => new,
        }
    }

    /// `values` with a share `rate` of its numbers zeroed and the rest enlarged so that the mean stays.
    pub fn dropout(&mut self, values: Tensor, rate: f64) -> Tensor {
        let Some(rng) = self.0.as_mut().filter(|_| rate > 0.0) else {
            return values;
        };
        let kept = draw(rng, values.numel(), rate, values.device()).view(values.size().as_slice());
        values * (kept / (1.0 - rate))
    }

    /// One 0 or 1 a picture, `[B, 1, …]`; `None` if nothing is left out.
    fn kept(&mut self, like: &Tensor, rate: f64) -> Option<Tensor> {
        let rng = self.0.as_mut().filter(|_| rate > 0.0)?;
        let mut shape = vec![1; like.dim()];
        let pictures = like.size().first().copied().unwrap_or(0);
        if let Some(first) = shape.first_mut() {
            *first = pictures;
        }
        let count = usize::try_from(pictures).unwrap_or(0);
        Some(draw(rng, count, rate, like.device()).view(shape.as_slice()))
    }
}

/// Zeros with probability `rate`, else ones.
fn draw(rng: &mut ChaCha20Rng, count: usize, rate: f64, device: Device) -> Tensor {
    let values: Vec<u8> = (0..count)
        .map(|_| u8::from(f64::from(rng.next_u32()) >= rate * 4_294_967_296.0))
        .collect();
    Tensor::from_slice(&values).to_device(device).to_kind(Kind::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(shape: &[i64]) -> Tensor {
        Tensor::ones(shape, (Kind::Float, Device::Cpu))
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(tensor.flatten(0, -1)).unwrap()
    }

    #[test]
    fn scoring_leaves_nothing_out() {
        let mut pass = Pass::evaluate();
        assert_eq!(values(&pass.drop_path(ones(&[3, 2]), 0.9)), [1.0; 6]);
        assert_eq!(values(&pass.dropout(ones(&[3, 2]), 0.9)), [1.0; 6]);
        assert_eq!(values(&pass.skip(ones(&[2, 1]), &ones(&[2, 1]), 0.9)), [1.0; 2]);
    }

    #[test]
    fn whole_pictures_are_dropped_and_the_mean_stays() {
        let kept = Pass::train(3).drop_path(ones(&[4000, 2]), 0.3);
        let rows: Vec<f32> = values(&kept);
        assert!(
            rows.chunks(2)
                .all(|row| row == [0.0, 0.0] || row.iter().all(|v| (v - 1.0 / 0.7).abs() < 1e-6))
        );
        // Four standard errors of a mean of 4000.
        assert!((kept.mean(Kind::Double).double_value(&[]) - 1.0).abs() < 0.042);
    }

    #[test]
    fn skipped_pictures_keep_the_old_state() {
        let mixed = Pass::train(5).skip(ones(&[400, 3]) * 2.0, &ones(&[400, 3]), 0.25);
        let new = values(&mixed).chunks(3).filter(|row| row == &[2.0; 3]).count();
        let old = values(&mixed).chunks(3).filter(|row| row == &[1.0; 3]).count();
        assert_eq!(new + old, 400);
        // Four standard deviations, √75 each.
        assert!((265..=335).contains(&new), "{new}");
    }

    #[test]
    fn equal_seeds_leave_out_alike() {
        let drop = |seed| values(&Pass::train(seed).dropout(ones(&[500]), 0.5));
        assert_eq!(drop(1), drop(1));
        assert_ne!(drop(1), drop(2));
    }
}
