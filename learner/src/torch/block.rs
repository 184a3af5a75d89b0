//! Convolution, normalisation, activation: the brick of encoder and decoder.

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::{self, Module, ModuleT};

/// What stands between a convolution and its activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Group normalisation over groups of this many channels. Independent of the batch, so right for the few frames a
    /// small client has, and without running statistics to average.
    Group(usize),
    /// Batch normalisation, as the published network has. Its running statistics are [`Buffer`](crate::TensorClass)
    /// tensors.
    Batch,
}

/// 3 × 3 convolution without bias, normalisation, leaky `ReLU` with slope 0.01.
#[derive(Debug)]
pub(crate) struct Block {
    conv: nn::Conv2D,
    norm: NormLayer,
}

#[derive(Debug)]
enum NormLayer {
    Group {
        groups: i64,
        weight: Tensor,
        bias: Tensor,
    },
    Batch(nn::BatchNorm),
}

impl Block {
    pub(crate) fn new(path: &nn::Path, from: i64, to: i64, stride: i64, norm: Norm) -> Self {
        let config = nn::ConvConfig {
            stride,
            padding: 1,
            bias: false,
            ..nn::ConvConfig::default()
        };
        let conv = nn::conv2d(path / "conv", from, to, 3, config);
        let norm_path = path / "norm";
        let norm = match norm {
            Norm::Group(channels) => NormLayer::Group {
                groups: (to / size(channels)).max(1),
                weight: norm_path.ones("weight", &[to]),
                bias: norm_path.zeros("bias", &[to]),
            },
            Norm::Batch => NormLayer::Batch(nn::batch_norm2d(norm_path, to, nn::BatchNormConfig::default())),
        };
        Self { conv, norm }
    }

    pub(crate) fn forward(&self, input: &Tensor, train: bool) -> Tensor {
        let map = self.conv.forward(input);
        let map = match &self.norm {
            NormLayer::Group { groups, weight, bias } => {
                map.group_norm(*groups, Some(weight), Some(bias), 1e-5, false)
            }
            NormLayer::Batch(norm) => norm.forward_t(&map, train),
        };
        map.leaky_relu()
    }
}

/// A size as libtorch wants it. Sizes of networks are far below the limit.
pub(crate) fn size(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
