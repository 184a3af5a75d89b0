//! `EfficientNet-B5`: inverted residual blocks with squeeze and excitation.
//!
//! After Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (ICML 2019). Padding and
//! normalisation are those of the published `TensorFlow` weights, tensor names those under which PyTorch users know them.

use tch::Tensor;
use tch::nn::{self, ModuleT};

use crate::torch::encoder::Encoder;
use crate::torch::layer::{Conv, ConvSpec, Edge, batch_norm};

/// A group of blocks of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stage {
    blocks: usize,
    kernel: usize,
    stride: usize,
    expansion: usize,
    width: usize,
}

const fn stage(blocks: usize, kernel: usize, stride: usize, expansion: usize, width: usize) -> Stage {
    Stage {
        blocks,
        kernel,
        stride,
        expansion,
        width,
    }
}

/// The base network's stages, 1.6 times as wide and 2.2 times as deep.
const STAGES: [Stage; 7] = [
    stage(3, 3, 1, 1, 24),
    stage(5, 3, 2, 6, 40),
    stage(5, 5, 2, 6, 64),
    stage(7, 3, 2, 6, 128),
    stage(7, 5, 1, 6, 176),
    stage(9, 5, 2, 6, 304),
    stage(3, 3, 1, 6, 512),
];
const STEM: usize = 48;
const HEAD: usize = 2048;
/// Stages after which a map is handed out; the fifth map comes from the head.
const TAPS: [usize; 4] = [0, 1, 2, 4];
const EPS: f64 = 1e-3;

/// Channels of the maps at strides 2, 4, 8, 16 and 32.
pub(crate) const CHANNELS: [usize; 5] = [24, 40, 64, 176, HEAD];

/// The encoder. Its last map is the head's convolution before any normalisation, as AdaBins takes it; the norm that
/// classification puts behind it would be dead weight and is left out.
#[derive(Debug)]
pub(crate) struct EfficientNet {
    stem: Conv,
    stem_norm: nn::BatchNorm,
    stages: Vec<Vec<InvertedResidual>>,
    head: Conv,
}

impl EfficientNet {
    pub(crate) fn new(path: &nn::Path) -> Self {
        let mut from = STEM;
        let stages = STAGES
            .iter()
            .enumerate()
            .map(|(s, stage)| {
                (0..stage.blocks)
                    .map(|b| {
                        let block = path / "blocks" / s / b;
                        let stride = if b == 0 { stage.stride } else { 1 };
                        let input = std::mem::replace(&mut from, stage.width);
                        InvertedResidual::new(&block, input, stride, *stage)
                    })
                    .collect()
            })
            .collect();
        let stem = ConvSpec::square(3, STEM, 3)
            .stride(2)
            .bias(false)
            .edge(Edge::Same);
        Self {
            stem: stem.build(&(path / "conv_stem")),
            stem_norm: batch_norm(&(path / "bn1"), STEM, EPS),
            stages,
            head: ConvSpec::square(from, HEAD, 1)
                .bias(false)
                .build(&(path / "conv_head")),
        }
    }
}

impl Encoder for EfficientNet {
    fn forward(&self, picture: &Tensor, train: bool) -> Vec<Tensor> {
        let mut map = self
            .stem_norm
            .forward_t(&self.stem.forward(picture), train)
            .silu();
        let mut maps = Vec::with_capacity(CHANNELS.len());
        for (s, stage) in self.stages.iter().enumerate() {
            for block in stage {
                map = block.forward(&map, train);
            }
            if TAPS.contains(&s) {
                maps.push(map.shallow_clone());
            }
        }
        maps.push(self.head.forward(&map));
        maps
    }
}

/// Widen, filter each channel, weigh the channels, narrow; a shortcut where the shape allows one.
#[derive(Debug)]
struct InvertedResidual {
    widen: Option<(Conv, nn::BatchNorm)>,
    depthwise: (Conv, nn::BatchNorm),
    squeeze: Conv,
    excite: Conv,
    narrow: (Conv, nn::BatchNorm),
    shortcut: bool,
}

impl InvertedResidual {
    fn new(path: &nn::Path, from: usize, stride: usize, stage: Stage) -> Self {
        let wide = from * stage.expansion;
        let widens = stage.expansion > 1;
        // The published names number norms and 1 x 1 convolutions in the order in which a block has them.
        let (second, third, narrow) = if widens {
            ("bn2", "bn3", "conv_pwl")
        } else {
            ("bn1", "bn2", "conv_pw")
        };
        let filter = ConvSpec::square(wide, wide, stage.kernel)
            .stride(stride)
            .groups(wide)
            .bias(false)
            .edge(Edge::Same);
        // A quarter of the block's input, not of its widened map.
        let few = from / 4;
        let point = |from, to| ConvSpec::square(from, to, 1);
        let normed = |name: &str, width| batch_norm(&(path / name), width, EPS);
        Self {
            widen: widens.then(|| {
                (
                    point(from, wide).bias(false).build(&(path / "conv_pw")),
                    normed("bn1", wide),
                )
            }),
            depthwise: (filter.build(&(path / "conv_dw")), normed(second, wide)),
            squeeze: point(wide, few).build(&(path / "se" / "conv_reduce")),
            excite: point(few, wide).build(&(path / "se" / "conv_expand")),
            narrow: (
                point(wide, stage.width).bias(false).build(&(path / narrow)),
                normed(third, stage.width),
            ),
            shortcut: stride == 1 && from == stage.width,
        }
    }

    fn forward(&self, input: &Tensor, train: bool) -> Tensor {
        let normed =
            |(conv, norm): &(Conv, nn::BatchNorm), map: &Tensor| norm.forward_t(&conv.forward(map), train);
        let map = match &self.widen {
            Some(widen) => normed(&self.depthwise, &normed(widen, input).silu()),
            None => normed(&self.depthwise, input),
        }
        .silu();
        let mean = map.adaptive_avg_pool2d([1, 1]);
        let weights = self.excite.forward(&self.squeeze.forward(&mean).silu()).sigmoid();
        let map = normed(&self.narrow, &(map * weights));
        if self.shortcut { map + input } else { map }
    }
}

#[cfg(test)]
mod tests {
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    use super::*;
    use crate::torch::initial::draw;

    fn encoder() -> (VarStore, EfficientNet) {
        let vars = VarStore::new(Device::Cpu);
        let encoder = EfficientNet::new(&(vars.root() / "encoder"));
        draw(&vars, 1).unwrap();
        (vars, encoder)
    }

    /// 28,340,784 trained numbers were counted in the published encoder; 2 x 2048 of them are the head's unused norm.
    #[test]
    fn it_has_the_published_size() {
        let (vars, _) = encoder();
        let count: usize = vars.trainable_variables().iter().map(Tensor::numel).sum();
        assert_eq!(count, 28_340_784 - 2 * 2048);
    }

    #[test]
    fn maps_have_the_published_shapes() {
        let (_, encoder) = encoder();
        // 104 / 32 is not whole: sizes round up.
        let picture = Tensor::zeros([1, 3, 64, 104], (Kind::Float, Device::Cpu));
        let maps = tch::no_grad(|| encoder.forward(&picture, false));
        let shapes: Vec<Vec<i64>> = maps.iter().map(Tensor::size).collect();
        assert_eq!(
            shapes,
            [
                [1, 24, 32, 52],
                [1, 40, 16, 26],
                [1, 64, 8, 13],
                [1, 176, 4, 7],
                [1, 2048, 2, 4]
            ]
        );
    }

    #[test]
    fn every_tensor_is_trained() {
        let (vars, encoder) = encoder();
        let picture = Tensor::arange(2 * 3 * 64 * 64, (Kind::Float, Device::Cpu))
            .view([2, 3, 64, 64])
            .sin();
        let maps = encoder.forward(&picture, true);
        let sum = maps.iter().fold(Tensor::from(0.0_f32), |sum, map| {
            sum + map.square().mean(Kind::Float)
        });
        sum.backward();
        for (name, tensor) in vars.variables() {
            assert!(
                !tensor.requires_grad() || tensor.grad().defined(),
                "{name} has no gradient"
            );
        }
    }
}
