//! From five maps back up to one at stride 2.

use serde::{Deserialize, Serialize};
use tch::nn::{self, Module};
use tch::{Tensor, nn::ConvConfig};

use crate::torch::block::{Block, Norm, size};
use crate::torch::layer::{Conv, ConvSpec};

/// Widths of the decoder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecoderConfig {
    /// Channels to which the coarsest map is brought first (published: 2048).
    pub bottleneck: usize,
    /// Channels after the blocks at strides 16, 8, 4 and 2 (published: 1024, 512, 256, 128).
    pub widths: [usize; 4],
    /// 3 × 3 convolutions in a block (published: 2).
    pub convolutions: usize,
    /// What else belongs to it.
    pub form: DecoderForm,
}

/// Which of the published decoder's further parts there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecoderForm {
    /// None.
    Lean,
    /// All: biases before norms, a 3 × 3 convolution at the end, and padding around the first 1 × 1 convolution, which
    /// adds a border of bias values that the first enlarging then shrinks away again. Pretrained weights need them.
    Published,
}

/// Four times: enlarge to the next finer encoder map, join, convolve.
#[derive(Debug)]
pub struct Decoder {
    bottleneck: nn::Conv2D,
    blocks: Vec<Vec<Block>>,
    last: Option<Conv>,
}

impl Decoder {
    pub(crate) fn new(path: &nn::Path, config: &DecoderConfig, encoder: [usize; 5], norm: Norm) -> Self {
        let [skip2, skip4, skip8, skip16, deepest] = encoder;
        let mut from = size(config.bottleneck);
        let published = config.form == DecoderForm::Published;
        let first = ConvConfig {
            padding: i64::from(published),
            ..ConvConfig::default()
        };
        let bottleneck = nn::conv2d(path / "bottleneck", size(deepest), from, 1, first);
        let joins = [skip16, skip8, skip4, skip2];
        let blocks = config
            .widths
            .iter()
            .zip(joins)
            .enumerate()
            .map(|(i, (&width, skip))| {
                let block = path / format!("up{}", i + 1);
                let to = size(width);
                let mut input = from + size(skip);
                from = to;
                (0..config.convolutions.max(1))
                    .map(|c| {
                        let block = &block / format!("conv{}", c + 1);
                        let from = std::mem::replace(&mut input, to);
                        Block::with_bias(&block, from, to, 1, norm, published)
                    })
                    .collect()
            })
            .collect();
        let [_, _, _, width] = config.widths;
        Self {
            bottleneck,
            blocks,
            last: published.then(|| ConvSpec::square(width, width, 3).build(&(path / "last"))),
        }
    }

    /// `maps` as an [`Encoder`](crate::torch::encoder::Encoder) gives them; returns `[B, widths[3], H / 2, W / 2]`.
    pub(crate) fn forward(&self, maps: &[Tensor], train: bool) -> Tensor {
        let mut joins = maps.iter().rev();
        let mut map = joins
            .next()
            .map_or_else(Tensor::new, |deepest| self.bottleneck.forward(deepest));
        for (skip, block) in joins.zip(&self.blocks) {
            let (_, _, height, width) = skip.size4().unwrap_or_default();
            let large = map.upsample_bilinear2d([height, width], true, None, None);
            map = Tensor::cat(&[&large, skip], 1);
            for convolution in block {
                map = convolution.forward(&map, train);
            }
        }
        match &self.last {
            Some(last) => last.forward(&map),
            None => map,
        }
    }
}
