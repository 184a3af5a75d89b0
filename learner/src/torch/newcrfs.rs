//! A `NeWCRFs` network: Swin transformer, pooling pyramid, window random fields from coarse to fine.
//!
//! After Yuan et al., "NeW CRFs: Neural Window Fully-connected CRFs for Monocular Depth Estimation" (CVPR 2022).

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn;

use crate::error::LearnError;
use crate::metrics::DepthRange;
use crate::torch::bins::Spacing;
use crate::torch::block::Norm;
use crate::torch::crf::{CrfSpec, CrfStage};
use crate::torch::layer::{Conv, ConvSpec};
use crate::torch::network::{DepthNetwork, Prediction, check_picture, encoder_path};
use crate::torch::pass::Pass;
use crate::torch::pyramid::{Pyramid, PyramidConfig};
use crate::torch::swin::{Swin, SwinConfig};

/// All sizes of a network. Every client of a federation uses the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewCrfsConfig {
    /// Input width in pixels, a multiple of 32.
    pub width: usize,
    /// Input height in pixels, a multiple of 32.
    pub height: usize,
    /// Depths that the network can say.
    pub range: DepthRange,
    /// Encoder.
    pub encoder: SwinConfig,
    /// Pyramid on the encoder's coarsest map.
    pub pyramid: PyramidConfig,
    /// Channels of the decoder's stages at strides 32, 16, 8 and 4 (published: 1024, 512, 256, 128).
    pub widths: [usize; 4],
    /// Attention heads of the same stages (published: 32, 16, 8, 4).
    pub heads: [usize; 4],
    /// What the output, a number from 0 to 1, means: `linear`, as published, is a share of the largest depth, with nothing
    /// that keeps it above the smallest; `log` runs from the smallest to the largest in equal ratios.
    pub spacing: Spacing,
}

impl NewCrfsConfig {
    /// The smallest useful network: about 400,000 parameters, 128 × 96 input.
    #[must_use]
    pub fn tiny(range: DepthRange) -> Self {
        Self {
            width: 128,
            height: 96,
            range,
            encoder: SwinConfig::smallest(),
            pyramid: PyramidConfig {
                width: 24,
                group: 8,
                norm: Norm::Group(8),
            },
            widths: [48, 32, 24, 16],
            heads: [4, 4, 2, 2],
            spacing: Spacing::Log,
        }
    }

    /// The published network with Swin-L in windows of 7: 270 million parameters, 640 × 480 input (NYU).
    ///
    /// Published inputs for KITTI are 1120 × 352 in training and 1216 × 352 in scoring.
    #[must_use]
    pub fn published(range: DepthRange) -> Self {
        Self {
            width: 640,
            height: 480,
            range,
            encoder: SwinConfig::large(7),
            pyramid: PyramidConfig {
                width: 512,
                group: 2,
                norm: Norm::Batch,
            },
            widths: [1024, 512, 256, 128],
            heads: [32, 16, 8, 4],
            spacing: Spacing::Linear,
        }
    }

    /// Refuses configurations that cannot be built.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] naming the setting, [`LearnError::Metrics`] for a range that is none.
    pub fn check(&self) -> Result<(), LearnError> {
        check_picture(self.width, self.height, self.range)?;
        self.encoder.check()?;
        let pyramid = &self.pyramid;
        if pyramid.width == 0 || pyramid.group == 0 || !pyramid.width.is_multiple_of(pyramid.group) {
            return Err(LearnError::Network {
                what: format!(
                    "pyramid.width {} must be a positive multiple of pyramid.group {}",
                    pyramid.width, pyramid.group
                ),
            });
        }
        self.stages().map(|_| ())
    }

    fn stages(&self) -> Result<Vec<CrfSpec>, LearnError> {
        let mut features = self.encoder.channels();
        features.reverse();
        CrfSpec::chain(&features, &self.widths, &self.heads, self.pyramid.width, 0.0)
    }
}

/// The network. Its tensors live in the store whose path it was built with.
#[derive(Debug)]
pub struct NewCrfs {
    encoder: Swin,
    pyramid: Pyramid,
    stages: Vec<CrfStage>,
    head: Conv,
    range: DepthRange,
    spacing: Spacing,
}

impl NewCrfs {
    /// Adds the network's tensors to a store.
    ///
    /// # Errors
    ///
    /// As [`NewCrfsConfig::check`].
    pub fn new(path: &nn::Path, config: &NewCrfsConfig) -> Result<Self, LearnError> {
        config.check()?;
        let [_, _, _, deepest] = config.encoder.channels();
        let [_, _, _, finest] = config.widths;
        let stages = config.stages()?;
        Ok(Self {
            encoder: Swin::new(&encoder_path(path), &config.encoder),
            pyramid: Pyramid::new(&(path / "pyramid"), deepest, &config.pyramid),
            stages: ["crf3", "crf2", "crf1", "crf0"]
                .iter()
                .zip(stages)
                .map(|(name, spec)| CrfStage::new(&(path / name), spec))
                .collect(),
            head: ConvSpec::square(finest, 1, 3).build(&(path / "head" / "out")),
            range: config.range,
            spacing: config.spacing,
        })
    }
}

impl DepthNetwork for NewCrfs {
    fn features(&self, pictures: &Tensor) -> Option<Tensor> {
        self.encoder.forward(pictures, &mut Pass::evaluate()).pop()
    }

    fn forward(&self, pictures: &Tensor, pass: &mut Pass) -> Prediction {
        let (_, _, height, width) = pictures.size4().unwrap_or_default();
        let maps = self.encoder.forward(pictures, pass);
        let mut map = maps.last().map_or_else(Tensor::new, |deepest| {
            self.pyramid.forward(deepest, pass.is_train())
        });
        for (i, (stage, features)) in self.stages.iter().zip(maps.iter().rev()).enumerate() {
            if i > 0 {
                map = map.pixel_shuffle(2);
            }
            map = stage.forward(features, &map, pass);
        }
        let share = self
            .head
            .forward(&map)
            .sigmoid()
            .upsample_bilinear2d([height, width], false, None, None);
        let (low, high) = (f64::from(self.range.min_m), f64::from(self.range.cap_m));
        Prediction::of_depth(match self.spacing {
            Spacing::Linear => share * high,
            Spacing::Log => (share * (high / low).ln() + low.ln()).exp(),
        })
    }
}

#[cfg(test)]
mod tests {
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    use super::*;
    use crate::torch::initial::draw;

    const RANGE: DepthRange = DepthRange {
        min_m: 1e-3,
        cap_m: 10.0,
    };

    fn with(encoder: SwinConfig) -> NewCrfsConfig {
        NewCrfsConfig {
            encoder,
            ..NewCrfsConfig::published(RANGE)
        }
    }

    fn count(config: &NewCrfsConfig) -> usize {
        let vars = VarStore::new(Device::Cpu);
        NewCrfs::new(&vars.root(), config).unwrap();
        vars.trainable_variables().iter().map(Tensor::numel).sum()
    }

    /// Numbers counted in the published code.
    #[test]
    fn it_has_the_published_size_with_swin_t() {
        assert_eq!(count(&with(SwinConfig::tiny(7))), 88_455_283);
    }

    #[test]
    #[ignore = "hundreds of millions of parameters"]
    fn it_has_the_published_sizes() {
        assert_eq!(count(&with(SwinConfig::base(7))), 139_981_297);
        assert_eq!(count(&with(SwinConfig::large(7))), 270_444_877);
    }

    #[test]
    #[ignore = "a quarter of a minute"]
    fn published_forward_at_full_size() {
        let config = with(SwinConfig::tiny(7));
        let vars = VarStore::new(Device::Cpu);
        let network = NewCrfs::new(&vars.root(), &config).unwrap();
        draw(&vars, 1).unwrap();
        let pictures = Tensor::arange(3 * 480 * 640, (Kind::Float, Device::Cpu))
            .view([1, 3, 480, 640])
            .sin();
        let pass = &mut Pass::evaluate();
        let (maps, depth) = tch::no_grad(|| {
            let maps = network.encoder.forward(&pictures, pass);
            (maps, network.forward(&pictures, pass))
        });
        let pyramid = tch::no_grad(|| network.pyramid.forward(&maps[3], false));
        assert_eq!(pyramid.size(), [1, 512, 15, 20]);
        assert_eq!(depth.depth().size(), [1, 1, 480, 640]);
        assert!(depth.depth().max().double_value(&[]) <= 10.0);
    }

    #[test]
    fn sizes_must_go_together() {
        let changes: [fn(&mut NewCrfsConfig); 5] = [
            |c| c.height = 90,
            |c| c.heads[1] = 5,
            |c| c.widths[3] = 6,
            |c| c.pyramid.group = 0,
            |c| c.encoder.heads[0] = 5,
        ];
        for change in changes {
            let mut config = NewCrfsConfig::tiny(RANGE);
            change(&mut config);
            assert!(matches!(config.check(), Err(LearnError::Network { .. })));
        }
        assert!(NewCrfsConfig::tiny(RANGE).check().is_ok());
    }
}
