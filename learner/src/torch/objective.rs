//! The whole of what a depth network's training minimises.

use tch::{Kind, Tensor};

use crate::torch::loss::{Pooling, Silog, chamfer, frequency, silog_of_log, smoothness};
use crate::torch::network::{NetworkKind, NetworkSize, Prediction};

/// Which losses, and their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// Form of the scale-invariant log loss.
    pub silog: Silog,
    /// Over what its means are taken.
    pub pooling: Pooling,
    /// True depths count only above this, metres (published for NeWCRFs and DCDepth: 0.1 for NYU, 1 for KITTI).
    pub above_m: f32,
    /// Weight of the bin-centre loss, for a network with bins (published: 0.1).
    pub chamfer: f64,
    /// Every n-th row and column of the true depth enters the bin-centre loss (published: 1).
    pub chamfer_stride: i64,
    /// Weight of a step over that of the step after it, for a network with steps (published: 0.8).
    pub step_decay: f64,
    /// Weight of the coefficients' size from the second step on (published: 0.002 for NYU, 0.005 for Eigen).
    pub frequency: f64,
    /// Weight of the edge-aware smoothness from the fifth step on (published: 0 for NYU, 0.005 for Eigen).
    pub smoothness: f64,
}

impl Objective {
    /// What each network is trained with. Published ones have the constants for NYU.
    #[must_use]
    pub fn new(kind: NetworkKind, size: NetworkSize) -> Self {
        let base = Self {
            silog: Silog::Lambda(0.85),
            pooling: Pooling::Batch,
            above_m: 0.0,
            chamfer: 0.0,
            chamfer_stride: 1,
            step_decay: 0.8,
            frequency: 0.0,
            smoothness: 0.0,
        };
        let above_m = match size {
            NetworkSize::Tiny => 0.0,
            NetworkSize::Published => 0.1,
        };
        match (kind, size) {
            // A quarter of the rows and columns says as much about where depths lie, at a sixteenth of the cost.
            (NetworkKind::AdaBins, NetworkSize::Tiny) => Self {
                silog: Silog::Unbiased,
                chamfer: 0.02,
                chamfer_stride: 4,
                ..base
            },
            (NetworkKind::AdaBins, NetworkSize::Published) => Self {
                silog: Silog::Unbiased,
                chamfer: 0.1,
                ..base
            },
            (NetworkKind::NewCrfs, _) => Self { above_m, ..base },
            (NetworkKind::DcDepth, _) => Self {
                pooling: Pooling::Picture,
                frequency: 0.002,
                above_m,
                ..base
            },
        }
    }

    /// The loss of a prediction for `pictures`, `[B, 3, H, W]`, with true depths `[B, 1, H, W]`; `None` if no pixel
    /// counts. Pictures without such a pixel have no say.
    #[must_use]
    pub fn of(&self, prediction: &Prediction, pictures: &Tensor, truth: &Tensor) -> Option<Tensor> {
        let truth = &self.counted(truth);
        let silog = |log_depth: &Tensor| silog_of_log(log_depth, truth, self.silog, self.pooling);
        let steps = prediction.steps();
        if steps.is_empty() {
            let main = silog(&prediction.depth().clamp_min(1e-6).log())?;
            let Some(centres) = prediction.centres().filter(|_| self.chamfer > 0.0) else {
                return Some(main);
            };
            let stride = self.chamfer_stride.max(1);
            let sparse = truth.slice(2, None, None, stride).slice(3, None, None, stride);
            return Some(match chamfer(centres, &sparse) {
                Some(bins) => main + bins * self.chamfer,
                None => main,
            });
        }
        let mut total = Tensor::zeros([] as [i64; 0], (Kind::Float, truth.device()));
        for ((k, step), weight) in steps.iter().enumerate().zip(self.step_weights(steps.len())) {
            let mut loss = silog(&step.log_depth)?;
            if k > 0 && self.frequency > 0.0 {
                loss += frequency(&step.coefficients) * self.frequency;
            }
            if k > 3 && self.smoothness > 0.0 {
                loss += smoothness(&step.log_depth, pictures) * self.smoothness;
            }
            total += loss * weight;
        }
        Some(total)
    }

    /// True depths with what does not count as 0, which is unknown.
    fn counted(&self, truth: &Tensor) -> Tensor {
        if self.above_m > 0.0 {
            truth.masked_fill(&truth.le(f64::from(self.above_m)), 0.0)
        } else {
            truth.shallow_clone()
        }
    }

    /// A geometric row of weights that sums to 1, the last the largest.
    fn step_weights(&self, steps: usize) -> Vec<f64> {
        let mut weights: Vec<f64> = std::iter::successors(Some(1.0), |weight| Some(weight * self.step_decay))
            .take(steps)
            .collect();
        let sum: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= sum;
        }
        weights.reverse();
        weights
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::metrics::DepthRange;
    use crate::torch::network::Step;

    const RANGE: DepthRange = DepthRange {
        min_m: 0.1,
        cap_m: 10.0,
    };

    fn map(values: &[f32]) -> Tensor {
        Tensor::from_slice(values).view([-1, 1, 1, 3])
    }

    fn steps(log_depth: &Tensor, count: usize) -> Prediction {
        let steps = (0..count).map(|_| Step {
            log_depth: log_depth.shallow_clone(),
            coefficients: Tensor::ones([1, 64, 1, 1], (Kind::Float, Device::Cpu)),
        });
        Prediction::of_steps(steps.collect(), RANGE)
    }

    #[test]
    fn step_weights_are_geometric_and_sum_to_one() {
        let weights = Objective::new(NetworkKind::DcDepth, NetworkSize::Tiny).step_weights(9);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(weights.windows(2).all(|w| (w[0] / w[1] - 0.8).abs() < 1e-12));
        // 0.2 / (1 - 0.8^9).
        assert!((weights[8] - 0.231_005).abs() < 1e-6);
    }

    /// Nine equal steps with g = (0.1, −0.2, 0.3) give the golden λ form, plus what eight of them pay for coefficients.
    #[test]
    fn steps_add_up() {
        let truth = map(&[2.0, 3.0, 4.0]);
        let log_depth = truth.log() + map(&[0.1, -0.2, 0.3]);
        let pictures = Tensor::zeros([1, 3, 1, 3], (Kind::Float, Device::Cpu));
        let mut objective = Objective::new(NetworkKind::DcDepth, NetworkSize::Tiny);
        let value = |o: &Objective| {
            o.of(&steps(&log_depth, 9), &pictures, &truth)
                .unwrap()
                .double_value(&[])
        };
        objective.frequency = 0.0;
        assert!((value(&objective) - 2.070_963).abs() < 1e-5);
        // Coefficients of 1 everywhere cost exactly their weight; the first step, worth 0.038756, pays nothing.
        objective.frequency = 1.0;
        assert!((value(&objective) - 2.070_963 - (1.0 - 0.038_756)).abs() < 1e-5);
    }

    #[test]
    fn depths_that_do_not_count_have_no_say() {
        let truth = map(&[2.0, 0.5, 4.0]);
        let prediction = Prediction::of_depth(&truth * map(&[1.2, 7.0, 0.9]));
        let pictures = Tensor::zeros([1, 3, 1, 3], (Kind::Float, Device::Cpu));
        let mut objective = Objective::new(NetworkKind::NewCrfs, NetworkSize::Tiny);
        objective.above_m = 1.0;
        let found = objective.of(&prediction, &pictures, &truth).unwrap();
        let without = objective
            .of(&prediction, &pictures, &map(&[2.0, 0.0, 4.0]))
            .unwrap();
        assert!((found - without).abs().double_value(&[]) < 1e-6);
        assert!(
            objective
                .of(&prediction, &pictures, &map(&[0.9, f32::NAN, 1.0]))
                .is_none()
        );
    }
}
