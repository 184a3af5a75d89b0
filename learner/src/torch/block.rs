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

/// A normalisation of maps.
#[derive(Debug)]
pub(crate) enum NormLayer {
    Group {
        groups: i64,
        weight: Tensor,
        bias: Tensor,
    },
    Batch(nn::BatchNorm),
}

impl Block {
    pub(crate) fn new(path: &nn::Path, from: i64, to: i64, stride: i64, norm: Norm) -> Self {
        Self::with_bias(path, from, to, stride, norm, false)
    }

    /// A bias before a norm says nothing new; published weights have it all the same.
    pub(crate) fn with_bias(
        path: &nn::Path,
        from: i64,
        to: i64,
        stride: i64,
        norm: Norm,
        bias: bool,
    ) -> Self {
        let config = nn::ConvConfig {
            stride,
            padding: 1,
            bias,
            ..nn::ConvConfig::default()
        };
        let conv = nn::conv2d(path / "conv", from, to, 3, config);
        let norm = NormLayer::new(&(path / "norm"), to, norm);
        Self { conv, norm }
    }

    pub(crate) fn forward(&self, input: &Tensor, train: bool) -> Tensor {
        let map = self.conv.forward(input);
        self.norm.forward(&map, train).leaky_relu()
    }
}

impl NormLayer {
    pub(crate) fn new(path: &nn::Path, width: i64, norm: Norm) -> Self {
        match norm {
            Norm::Group(channels) => Self::Group {
                groups: (width / size(channels)).max(1),
                weight: path.ones("weight", &[width]),
                bias: path.zeros("bias", &[width]),
            },
            Norm::Batch => Self::Batch(nn::batch_norm2d(path, width, nn::BatchNormConfig::default())),
        }
    }

    pub(crate) fn forward(&self, map: &Tensor, train: bool) -> Tensor {
        match self {
            Self::Group { groups, weight, bias } => {
                map.group_norm(*groups, Some(weight), Some(bias), 1e-5, false)
            }
            Self::Batch(norm) => norm.forward_t(map, train),
        }
    }
}

/// A size as libtorch wants it. Sizes of networks are far below the limit.
pub(crate) fn size(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
