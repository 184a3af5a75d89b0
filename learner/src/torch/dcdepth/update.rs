//! The steps: each refines all coefficients so far and adds finer ones.

use tch::nn;
use tch::{Kind, Tensor};

use crate::torch::block::size;
use crate::torch::dcdepth::DcDepthConfig;
use crate::torch::dcdepth::input::{Input, SeparableGru};
use crate::torch::dct::{diagonals, inverse, patterns};
use crate::torch::layer::{Conv, ConvSpec, Edge};
use crate::torch::network::Step;
use crate::torch::pass::Pass;
use crate::torch::pyramid::LightPyramid;

/// Pixels a side of a patch.
pub(super) const SIDE: usize = 8;
const COUNT: usize = SIDE * SIDE;
/// Number of steps.
pub const STEPS: usize = 9;
/// How many anti-diagonals are known after each step; the last step refines.
const KNOWN: [usize; STEPS] = [1, 2, 3, 4, 5, 6, 8, 15, 15];

/// The coefficients known after each step, in the order in which the step's outputs come. The last step's outputs are
/// row-major.
fn known() -> [Vec<i64>; STEPS] {
    let diagonals = diagonals(SIDE);
    let mut sets = KNOWN.map(|n| diagonals.iter().take(n).flatten().map(|&i| size(i)).collect());
    if let Some(last) = sets.last_mut() {
        *last = (0..size(COUNT)).collect();
    }
    sets
}

/// The loop over the steps.
#[derive(Debug)]
pub(super) struct Update {
    known: Vec<Tensor>,
    patterns: Tensor,
    input: Input,
    gru: SeparableGru,
    embeddings: Vec<Tensor>,
    pyramid: LightPyramid,
    outputs: Vec<Conv>,
    scale: f64,
    skip: f64,
}

impl Update {
    pub(super) fn new(path: &nn::Path, config: &DcDepthConfig, hidden: usize) -> Self {
        let device = path.device();
        let heads = path / "heads";
        let embeddings = &heads / "idx_embed";
        let known = known();
        let outputs = known
            .iter()
            .enumerate()
            .map(|(k, set)| {
                ConvSpec::square(hidden, set.len(), 3)
                    .edge(Edge::Replicate)
                    .build(&(&heads / "convs" / k))
            })
            .collect();
        Self {
            known: known
                .iter()
                .map(|set| Tensor::from_slice(set).to_device(device))
                .collect(),
            patterns: patterns(SIDE).to_device(device),
            input: Input::new(
                &(path / "in_proj"),
                config.features,
                config.feature_heads,
                COUNT,
                hidden,
            ),
            gru: SeparableGru::new(&(path / "gru"), hidden, hidden),
            embeddings: (0..STEPS)
                .map(|k| embeddings.zeros(&k.to_string(), &[1, size(hidden), 1, 1]))
                .collect(),
            pyramid: LightPyramid::new(&(&heads / "ppm"), hidden),
            outputs,
            scale: unit(config.range.cap_m),
            skip: config.skip,
        }
    }

    /// `state` is `[B, hidden, h, w]`. What a step passes on to the next is not differentiated through.
    pub(super) fn forward(&self, mut state: Tensor, pass: &mut Pass) -> Vec<Step> {
        let (batch, _, height, width) = state.size4().unwrap_or_default();
        let zeros = Tensor::zeros([batch, size(COUNT), height, width], (Kind::Float, state.device()));
        let mut steps: Vec<Step> = Vec::with_capacity(STEPS);
        let parts = self.known.iter().zip(&self.embeddings).zip(&self.outputs);
        for (k, ((set, embedding), output)) in parts.enumerate() {
            if let (Some(last), Some(seen)) = (steps.last(), k.checked_sub(1).and_then(|k| self.known.get(k)))
            {
                let coefficients = last.coefficients.detach().index_select(1, seen);
                let input = self.input.forward(&last.log_depth.detach(), &coefficients);
                state = pass.skip(self.gru.forward(&state, &input), &state, self.skip);
            }
            let residual = output.forward(&self.pyramid.forward(&(&state + embedding)));
            let residual = zeros.index_copy(1, set, &residual);
            let coefficients = match steps.last() {
                Some(last) => residual + last.coefficients.detach(),
                None => residual,
            };
            let log_depth = inverse(&coefficients, &self.patterns, SIDE) * self.scale;
            steps.push(Step {
                log_depth,
                coefficients,
            });
        }
        steps
    }
}

/// What a coefficient of 1 stands for: half a patch's side times ln of the largest depth.
#[expect(clippy::cast_precision_loss, reason = "8")]
fn unit(cap_m: f32) -> f64 {
    f64::from(cap_m).ln() * SIDE as f64 * 0.5
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    #[test]
    fn steps_say_the_published_numbers_of_coefficients() {
        let counts = known().map(|set| set.len());
        assert_eq!(counts, [1, 3, 6, 10, 15, 21, 36, 64, 64]);
        assert_eq!(known()[1], [0, 8, 1]);
        assert_eq!(known()[8][..3], [0, 1, 2]);
    }

    /// A patch flat at 5 m, in a network that reaches 10 m, is stored as 1.397940.
    #[test]
    fn coefficients_are_in_the_published_unit() {
        let coefficients = Tensor::zeros([1, 64, 1, 1], (Kind::Float, Device::Cpu));
        let _ = coefficients.select(1, 0).fill_(1.397_940);
        let depth = (inverse(&coefficients, &patterns(8), 8) * unit(10.0)).exp();
        let values: Vec<f64> = Vec::try_from(depth.flatten(0, -1).to_kind(Kind::Double)).unwrap();
        assert_eq!(values.len(), 64);
        assert!(values.iter().all(|d| (d - 5.0).abs() < 1e-4), "{values:?}");
    }
}
