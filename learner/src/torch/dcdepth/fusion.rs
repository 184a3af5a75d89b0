//! All maps of the encoder brought to the coarsest one's size and fused.

use tch::nn::{self, Module};
use tch::{Kind, Tensor};

use crate::torch::block::{Norm, NormLayer, size};
use crate::torch::dct::DctDownsample;
use crate::torch::layer::{Conv, ConvSpec, linear};

/// Weighs the channels of a map by what the whole map holds.
///
/// After Hu, Shen and Sun, "Squeeze-and-Excitation Networks" (CVPR 2018), section 3.
#[derive(Debug)]
pub(super) struct ChannelWeights {
    squeeze: nn::Linear,
    excite: nn::Linear,
}

impl ChannelWeights {
    pub(super) fn new(path: &nn::Path, width: usize, reduction: usize) -> Self {
        let few = (width / reduction.max(1)).max(16);
        let path = path / "attention";
        Self {
            squeeze: linear(&(&path / 0), width, few, true),
            excite: linear(&(&path / 2), few, width, true),
        }
    }

    pub(super) fn forward(&self, map: &Tensor) -> Tensor {
        let mean = map.mean_dim([2, 3].as_slice(), false, Kind::Float);
        let weights = self
            .excite
            .forward(&self.squeeze.forward(&mean).hardswish())
            .sigmoid();
        map * weights.unsqueeze(-1).unsqueeze(-1)
    }
}

/// The fusion.
#[derive(Debug)]
pub(super) struct Fusion {
    downs: Vec<DctDownsample>,
    weights: ChannelWeights,
    pointwise: Conv,
    depthwise: Conv,
    norm: NormLayer,
}

impl Fusion {
    pub(super) fn new(path: &nn::Path, channels: [usize; 4], width: usize, norm: Norm) -> Self {
        let [finer @ .., deepest] = channels;
        let downs = path / "downs";
        let downs = finer
            .into_iter()
            .zip([8, 4, 2])
            .enumerate()
            .map(|(i, (from, factor))| DctDownsample::new(&(&downs / i), factor, 4, from, width, norm))
            .collect();
        let all = 3 * width + deepest;
        let fuse = path / "fuse";
        Self {
            downs,
            weights: ChannelWeights::new(&(&fuse / 0), all, 16),
            pointwise: ConvSpec::square(all, width, 1).build(&(&fuse / 1)),
            depthwise: ConvSpec::square(width, width, 7)
                .groups(width)
                .bias(false)
                .build(&(&fuse / 2)),
            norm: NormLayer::new(&(&fuse / 3), size(width), norm),
        }
    }

    /// `maps` at strides 4, 8, 16 and 32; returns `[B, width, H / 32, W / 32]`.
    pub(super) fn forward(&self, maps: &[Tensor], train: bool) -> Tensor {
        let mut parts: Vec<Tensor> = self
            .downs
            .iter()
            .zip(maps)
            .map(|(down, map)| down.forward(map, train))
            .collect();
        parts.extend(maps.last().map(Tensor::shallow_clone));
        let map = self.weights.forward(&Tensor::cat(&parts, 1));
        let map = self.depthwise.forward(&self.pointwise.forward(&map));
        self.norm.forward(&map, train).hardswish()
    }
}
