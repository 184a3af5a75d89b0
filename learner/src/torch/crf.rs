//! One stage of a decoder made of neural window fully connected conditional random fields.
//!
//! After Yuan et al., "NeW CRFs: Neural Window Fully-connected CRFs for Monocular Depth Estimation" (CVPR 2022),
//! section 3.3: the encoder's map says which pixels belong together, the coarser stage's map says what they are.

use tch::Tensor;
use tch::nn::{self, Module};

use crate::error::LearnError;
use crate::torch::layer::{Conv, ConvSpec, layer_norm};
use crate::torch::pass::Pass;
use crate::torch::window::{BlockSpec, WindowBlock, Windows};

/// Side of a window in pixels.
const WINDOW: usize = 7;
/// Blocks of a stage, the second in shifted windows.
const BLOCKS: usize = 2;

/// Sizes of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CrfSpec {
    /// Channels of the encoder's map.
    pub(crate) features: usize,
    /// Channels of the coarser stage's map.
    pub(crate) values: usize,
    /// Channels of the stage.
    pub(crate) width: usize,
    /// Attention heads.
    pub(crate) heads: usize,
    /// Share of pictures for which a branch is left out in training.
    pub(crate) drop_path: f64,
}

impl CrfSpec {
    /// The stages of a decoder, coarsest first: each hands a quarter of its channels on, at twice the size.
    ///
    /// `features` are the encoder's channels, coarsest first, `first` is what the coarsest stage is given.
    pub(crate) fn chain(
        features: &[usize],
        widths: &[usize],
        heads: &[usize],
        first: usize,
        drop_path: f64,
    ) -> Result<Vec<Self>, LearnError> {
        let wrong = |what: String| Err(LearnError::Network { what });
        let mut values = first;
        let mut specs = Vec::new();
        for ((&features, &width), &heads) in features.iter().zip(widths).zip(heads) {
            if width == 0 || heads == 0 || !width.is_multiple_of(heads) {
                return wrong(format!(
                    "a decoder stage of {width} channels cannot be split among {heads} heads: change crf.widths or crf.heads"
                ));
            }
            if !width.is_multiple_of(4) {
                return wrong(format!(
                    "a decoder stage has {width} channels but hands a quarter on: make crf.widths multiples of 4"
                ));
            }
            specs.push(Self {
                features,
                values,
                width,
                heads,
                drop_path,
            });
            values = width / 4;
        }
        Ok(specs)
    }
}

/// The stage.
#[derive(Debug)]
pub(crate) struct CrfStage {
    features: Option<Conv>,
    values: Option<Conv>,
    blocks: Vec<WindowBlock>,
    norm: nn::LayerNorm,
}

impl CrfStage {
    pub(crate) fn new(path: &nn::Path, spec: CrfSpec) -> Self {
        let width = spec.width;
        let project = |from: usize, name: &str| {
            (from != width).then(|| ConvSpec::square(from, width, 3).build(&(path / name)))
        };
        let blocks = (0..BLOCKS)
            .map(|b| {
                let spec = BlockSpec {
                    width,
                    heads: spec.heads,
                    window: WINDOW,
                    shifted: b % 2 == 1,
                    given_values: true,
                    drop_path: spec.drop_path,
                };
                WindowBlock::new(&(path / "crf_layer" / "blocks" / b), spec)
            })
            .collect();
        Self {
            features: project(spec.features, "proj_x"),
            values: project(spec.values, "proj_v"),
            blocks,
            norm: layer_norm(&(path / "norm_crf"), width),
        }
    }

    /// Both maps are `[B, C, H, W]` of one size; returns `[B, width, H, W]`.
    pub(crate) fn forward(&self, features: &Tensor, values: &Tensor, pass: &mut Pass) -> Tensor {
        let last = |map: &Tensor, project: &Option<Conv>| match project {
            Some(conv) => conv.forward(map).permute([0, 2, 3, 1]).contiguous(),
            None => map.permute([0, 2, 3, 1]).contiguous(),
        };
        let mut map = last(features, &self.features);
        let values = last(values, &self.values);
        let (_, height, width, _) = map.size4().unwrap_or_default();
        let windows = Windows::new(WINDOW, height, width);
        let mask = windows.mask(map.device());
        for block in &self.blocks {
            map = block.forward(&map, Some(&values), windows, &mask, pass);
        }
        self.norm.forward(&map).permute([0, 3, 1, 2]).contiguous()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_chain_by_quarters() {
        let specs = CrfSpec::chain(&[1536, 768, 384], &[1024, 512, 192], &[32, 16, 8], 512, 0.3).unwrap();
        let values: Vec<usize> = specs.iter().map(|s| s.values).collect();
        assert_eq!(values, [512, 256, 128]);
        assert!(CrfSpec::chain(&[8], &[6], &[2], 8, 0.0).is_err());
        assert!(CrfSpec::chain(&[8], &[8], &[3], 8, 0.0).is_err());
    }
}
