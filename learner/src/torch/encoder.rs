//! From a picture to feature maps at strides 2, 4, 8, 16 and 32.

use serde::{Deserialize, Serialize};
use tch::{Tensor, nn};

use crate::torch::block::{Block, Norm, size};
use crate::torch::efficientnet::{self, EfficientNet};

/// Which encoder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EncoderConfig {
    /// Five stages of a stride-2 and a residual 3 × 3 convolution.
    Plain {
        /// Channels after each stage.
        widths: [usize; 5],
    },
    /// `EfficientNet-B5`, as the published AdaBins has it, with its own batch normalisation: maps of 24, 40, 64, 176 and
    /// 2048 channels.
    #[serde(rename = "efficientnet-b5")]
    EfficientNetB5,
}

impl EncoderConfig {
    /// Channels of the maps at strides 2, 4, 8, 16 and 32.
    #[must_use]
    pub fn channels(&self) -> [usize; 5] {
        match self {
            Self::Plain { widths } => *widths,
            Self::EfficientNetB5 => efficientnet::CHANNELS,
        }
    }

    pub(crate) fn build(&self, path: &nn::Path, norm: Norm) -> Box<dyn Encoder> {
        match self {
            Self::Plain { widths } => Box::new(Plain::new(path, widths, norm)),
            Self::EfficientNetB5 => Box::new(EfficientNet::new(path)),
        }
    }
}

/// A network that gives five maps, each half the size of the one before.
pub trait Encoder: Send + std::fmt::Debug {
    /// `picture` is `[B, 3, H, W]`, normalised; the maps are `[B, channels[i], H / 2^(i+1), W / 2^(i+1)]`.
    fn forward(&self, picture: &Tensor, train: bool) -> Vec<Tensor>;
}

#[derive(Debug)]
struct Plain {
    stages: Vec<(Block, Block)>,
}

impl Plain {
    fn new(path: &nn::Path, widths: &[usize; 5], norm: Norm) -> Self {
        let mut from = 3;
        let stages = widths
            .iter()
            .enumerate()
            .map(|(i, &width)| {
                let stage = path / format!("stage{}", i + 1);
                let to = size(width);
                let pair = (
                    Block::new(&(&stage / "down"), from, to, 2, norm),
                    Block::new(&(&stage / "same"), to, to, 1, norm),
                );
                from = to;
                pair
            })
            .collect();
        Self { stages }
    }
}

impl Encoder for Plain {
    fn forward(&self, picture: &Tensor, train: bool) -> Vec<Tensor> {
        let mut maps: Vec<Tensor> = Vec::with_capacity(self.stages.len());
        for (down, same) in &self.stages {
            let half = down.forward(maps.last().unwrap_or(picture), train);
            maps.push(&half + same.forward(&half, train));
        }
        maps
    }
}
