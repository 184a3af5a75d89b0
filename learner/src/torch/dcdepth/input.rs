//! What a step sees of the prediction so far, and how that changes its state.

use tch::nn::{self, Module};
use tch::{Kind, Tensor};

use crate::torch::block::size;
use crate::torch::dcdepth::fusion::ChannelWeights;
use crate::torch::layer::{Conv, ConvSpec, Edge, layer_norm, linear};

/// Features of a depth map and of its coefficients, one for each patch.
#[derive(Debug)]
pub(super) struct Input {
    depth: [Conv; 3],
    coefficients: Coefficients,
    weights: ChannelWeights,
    depthwise: Conv,
    pointwise: Conv,
}

impl Input {
    pub(super) fn new(path: &nn::Path, width: usize, heads: usize, count: usize, hidden: usize) -> Self {
        let depth = path / "depth_in";
        let conv = |from, to, side, name: nn::Path| {
            ConvSpec::square(from, to, side)
                .stride(2)
                .edge(Edge::Replicate)
                .build(&name)
        };
        let fuse = path / "fuse";
        Self {
            depth: [
                conv(1, width / 2, 7, &depth / 0 / 0),
                conv(width / 2, width, 3, &depth / 1 / 0),
                conv(width, width, 3, &depth / 2),
            ],
            coefficients: Coefficients::new(&(path / "depth_freq_in"), width, heads, count),
            weights: ChannelWeights::new(&(&fuse / 0), 2 * width, 8),
            depthwise: ConvSpec::square(2 * width, 2 * width, 7)
                .groups(2 * width)
                .edge(Edge::Replicate)
                .build(&(&fuse / 1 / 0)),
            pointwise: ConvSpec::square(2 * width, hidden, 1).build(&(&fuse / 1 / 1)),
        }
    }

    /// `log_depth` is `[B, 1, 8h, 8w]`, `coefficients` `[B, n, h, w]`; returns `[B, hidden, h, w]`.
    pub(super) fn forward(&self, log_depth: &Tensor, coefficients: &Tensor) -> Tensor {
        let [first, second, third] = &self.depth;
        let seen = first.forward(log_depth).hardswish();
        let seen = third.forward(&second.forward(&seen).hardswish());
        let read = self.coefficients.forward(coefficients);
        let both = self.weights.forward(&Tensor::cat(&[seen, read], 1));
        self.pointwise.forward(&self.depthwise.forward(&both))
    }
}

/// Reads any number of coefficients: each coefficient's map becomes tokens, which one learned query attends to in every
/// patch.
#[derive(Debug)]
struct Coefficients {
    class: Tensor,
    positions: Tensor,
    tokens: [Conv; 3],
    query: nn::Linear,
    key_value: nn::Linear,
    out: nn::Linear,
    norm: nn::LayerNorm,
    width: i64,
    heads: i64,
}

impl Coefficients {
    fn new(path: &nn::Path, width: usize, heads: usize, count: usize) -> Self {
        let tokens = path / "tokenize";
        let conv = |from, to, side, name: nn::Path| {
            ConvSpec::square(from, to, side)
                .edge(Edge::Replicate)
                .build(&name)
        };
        let attention = path / "attn";
        Self {
            class: path.zeros("cls_token", &[1, 1, size(width)]),
            positions: path.zeros("pos_embed", &[1, size(count), size(width)]),
            tokens: [
                conv(1, width / 2, 7, &tokens / 0 / 0),
                conv(width / 2, width, 3, &tokens / 1 / 0),
                conv(width, width, 3, &tokens / 2),
            ],
            query: linear(&(&attention / "q"), width, width, true),
            key_value: linear(&(&attention / "kv"), width, 2 * width, true),
            out: linear(&(&attention / "proj"), width, width, true),
            norm: layer_norm(&(path / "norm"), width),
            width: size(width),
            heads: size(heads),
        }
    }

    /// `[B, n, h, w]` to `[B, width, h, w]`.
    ///
    /// The query is the same in every patch. So keys need not be computed: a head's logits are the tokens times one
    /// vector, and what all keys' biases add is the same for all tokens and falls out of the softmax. Values are computed
    /// once for each head's mixture of tokens instead of for each token.
    fn forward(&self, coefficients: &Tensor) -> Tensor {
        let (batch, count, height, width) = coefficients.size4().unwrap_or_default();
        let (channels, heads) = (self.width, self.heads);
        let each = channels / heads.max(1);
        let pixels = batch * height * width;
        let [first, second, third] = &self.tokens;
        let maps = coefficients.reshape([batch * count, 1, height, width]);
        let maps = second.forward(&first.forward(&maps).hardswish()).hardswish();
        // [pixels, count, channels]
        let tokens = third
            .forward(&maps)
            .view([batch, count, channels, height, width])
            .permute([0, 3, 4, 1, 2])
            .reshape([pixels, count, channels])
            + self.positions.narrow(1, 0, count);
        let class = self.norm.forward(&self.class);
        let tokens = Tensor::cat(
            &[
                class.expand([pixels, 1, channels], false),
                self.norm.forward(&tokens),
            ],
            1,
        );
        #[expect(clippy::cast_precision_loss, reason = "a head's width is small")]
        let scale = 1.0 / (each as f64).sqrt();
        let query = self.query.forward(&class).view([heads, 1, each]) * scale;
        let keys = self
            .key_value
            .ws
            .narrow(0, 0, channels)
            .view([heads, each, channels]);
        let values = self.key_value.ws.narrow(0, channels, channels);
        // [channels, heads]
        let probe = query.matmul(&keys).view([heads, channels]).transpose(0, 1);
        let shares = tokens.matmul(&probe).softmax(1, Kind::Float);
        // [heads, pixels, channels]
        let mixtures = shares.transpose(1, 2).matmul(&tokens).transpose(0, 1);
        let values = values.view([heads, each, channels]).transpose(1, 2);
        let mixed = mixtures
            .matmul(&values)
            .permute([1, 0, 2])
            .reshape([pixels, channels]);
        let mixed = match &self.key_value.bs {
            Some(bias) => mixed + bias.narrow(0, channels, channels),
            None => mixed,
        };
        (self.out.forward(&mixed) + self.class.view([1, channels]))
            .view([batch, height, width, channels])
            .permute([0, 3, 1, 2])
            .contiguous()
    }
}

/// A gated recurrent unit whose gates see a row, then one whose gates see a column.
///
/// After Teed and Deng, "RAFT: Recurrent All-Pairs Field Transforms for Optical Flow" (ECCV 2020), section 3.3.
#[derive(Debug)]
pub(super) struct SeparableGru {
    passes: [[Conv; 3]; 2],
}

impl SeparableGru {
    pub(super) fn new(path: &nn::Path, hidden: usize, input: usize) -> Self {
        let gates = |kernel: [usize; 2], number: usize| {
            ["convz", "convr", "convq"].map(|name| {
                ConvSpec::new(hidden + input, hidden, kernel).build(&(path / format!("{name}{number}")))
            })
        };
        Self {
            passes: [gates([1, 5], 1), gates([5, 1], 2)],
        }
    }

    /// Both `[B, …, h, w]`; returns the new state.
    pub(super) fn forward(&self, state: &Tensor, input: &Tensor) -> Tensor {
        let mut state = state.shallow_clone();
        for [update, reset, candidate] in &self.passes {
            let both = Tensor::cat(&[&state, input], 1);
            let z = update.forward(&both).sigmoid();
            let r = reset.forward(&both).sigmoid();
            let new = candidate.forward(&Tensor::cat(&[&(r * &state), input], 1)).tanh();
            state = state.lerp_tensor(&new, &z);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;
    use tch::nn::VarStore;

    use super::*;
    use crate::torch::initial::draw;

    /// Against attention written out with keys and values for every token.
    #[test]
    fn reading_coefficients_is_cross_attention() {
        let vars = VarStore::new(Device::Cpu);
        let read = Coefficients::new(&vars.root(), 8, 2, 5);
        draw(&vars, 3).unwrap();
        for tensor in [&read.class, &read.positions, read.key_value.bs.as_ref().unwrap()] {
            let numbers = Tensor::arange(size(tensor.numel()), (Kind::Float, Device::Cpu)).sin();
            let numbers = numbers.view(tensor.size().as_slice());
            tch::no_grad(|| tensor.shallow_clone().copy_(&numbers));
        }
        let input = Tensor::arange(2 * 3 * 4 * 5, (Kind::Float, Device::Cpu))
            .view([2, 3, 4, 5])
            .cos();
        let found = tch::no_grad(|| read.forward(&input));
        let expected = tch::no_grad(|| {
            let [first, second, third] = &read.tokens;
            let maps = second
                .forward(&first.forward(&input.view([6, 1, 4, 5])).hardswish())
                .hardswish();
            let tokens = third.forward(&maps).view([2, 3, 8, 4, 5]);
            let tokens = tokens.permute([0, 3, 4, 1, 2]).reshape([40, 3, 8]) + read.positions.narrow(1, 0, 3);
            let class = read.class.expand([40, 1, 8], false);
            let tokens = read.norm.forward(&Tensor::cat(&[class, tokens], 1));
            let query = read
                .query
                .forward(&tokens.narrow(1, 0, 1))
                .view([40, 1, 2, 4])
                .transpose(1, 2);
            let key_value = read.key_value.forward(&tokens).view([40, 4, 2, 2, 4]);
            let (key, value) = (
                key_value.select(2, 0).transpose(1, 2),
                key_value.select(2, 1).transpose(1, 2),
            );
            let shares = (query.matmul(&key.transpose(-2, -1)) / 2.0).softmax(-1, Kind::Float);
            let mixed = shares.matmul(&value).transpose(1, 2).reshape([40, 8]);
            (read.out.forward(&mixed) + read.class.view([1, 8]))
                .view([2, 4, 5, 8])
                .permute([0, 3, 1, 2])
        });
        assert_eq!(found.size(), expected.size());
        let gap = (found - &expected).abs().max().double_value(&[]);
        assert!(gap < 1e-5, "{gap}");
        assert!(expected.std(false).double_value(&[]) > 0.01);
    }

    /// With all weights zero every gate is half open and the candidate is 0: two passes quarter the state.
    #[test]
    fn half_open_gates_quarter_the_state() {
        let vars = VarStore::new(Device::Cpu);
        let gru = SeparableGru::new(&vars.root(), 3, 2);
        let state = Tensor::ones([1, 3, 4, 4], (Kind::Float, Device::Cpu));
        let input = Tensor::ones([1, 2, 4, 4], (Kind::Float, Device::Cpu));
        let new = tch::no_grad(|| gru.forward(&state, &input));
        assert!((new - 0.25).abs().max().double_value(&[]) < 1e-6);
    }
}
