//! A `DCDepth` network: depth patches in the frequency domain, predicted from the flat parts to the fine ones.
//!
//! After Wang et al., "DCDepth: Progressive Monocular Depth Estimation in Discrete Cosine Domain" (NeurIPS 2024).

mod fusion;
mod input;
mod update;

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn;

use crate::error::LearnError;
use crate::metrics::DepthRange;
use crate::torch::block::Norm;
use crate::torch::crf::{CrfSpec, CrfStage};
use crate::torch::dcdepth::fusion::Fusion;
use crate::torch::dcdepth::update::Update;
use crate::torch::dct::DctDownsample;
use crate::torch::layer::{Conv, ConvSpec};
use crate::torch::network::{DepthNetwork, Prediction, check_picture, encoder_path};
use crate::torch::pass::Pass;
use crate::torch::swin::{Swin, SwinConfig};

pub use update::STEPS;

/// All sizes of a network. Every client of a federation uses the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DcDepthConfig {
    /// Input width in pixels, a multiple of 32.
    pub width: usize,
    /// Input height in pixels, a multiple of 32.
    pub height: usize,
    /// Depths that the network says. Its largest must be above 1 m: outputs are in units of its logarithm.
    pub range: DepthRange,
    /// Normalisation in the fusion of the encoder's maps.
    pub norm: Norm,
    /// Encoder.
    pub encoder: SwinConfig,
    /// Channels of the fused map (published: 512).
    pub fused: usize,
    /// Channels of the decoder's stages at strides 32, 16 and 8; the last is also the width of the state that the steps
    /// update (published: 1024, 512, 192).
    pub widths: [usize; 3],
    /// Attention heads of the same stages (published: 32, 16, 8).
    pub heads: [usize; 3],
    /// Channels of what each step sees of the depth and of the coefficients so far (published: 128, with 8 heads).
    pub features: usize,
    /// Attention heads over the coefficients.
    pub feature_heads: usize,
    /// Share of pictures for which a branch of a decoder stage is left out in training (published: 0.3).
    pub drop_path: f64,
    /// Share of pictures whose state a step leaves as it is in training (published: 0.3).
    pub skip: f64,
}

impl DcDepthConfig {
    /// The smallest useful network: about 500,000 parameters, 128 × 96 input.
    #[must_use]
    pub fn tiny(range: DepthRange) -> Self {
        Self {
            width: 128,
            height: 96,
            range,
            norm: Norm::Group(4),
            encoder: SwinConfig::smallest(),
            fused: 24,
            widths: [48, 32, 24],
            heads: [4, 4, 2],
            features: 16,
            feature_heads: 2,
            drop_path: 0.0,
            skip: 0.0,
        }
    }

    /// The published network with Swin-L in windows of 12: 260 million parameters, 640 × 480 input (NYU).
    #[must_use]
    pub fn published(range: DepthRange) -> Self {
        Self {
            width: 640,
            height: 480,
            range,
            norm: Norm::Batch,
            encoder: SwinConfig::large(12),
            fused: 512,
            widths: [1024, 512, 192],
            heads: [32, 16, 8],
            features: 128,
            feature_heads: 8,
            drop_path: 0.3,
            skip: 0.3,
        }
    }

    /// Refuses configurations that cannot be built.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] naming the setting, [`LearnError::Metrics`] for a range that is none.
    pub fn check(&self) -> Result<(), LearnError> {
        let wrong = |what: String| Err(LearnError::Network { what });
        check_picture(self.width, self.height, self.range)?;
        self.encoder.check()?;
        if self.range.cap_m <= 1.0 {
            return wrong(format!(
                "the largest depth is {} m but this network counts in units of its logarithm: set range.cap_m above 1",
                self.range.cap_m
            ));
        }
        if self.fused == 0 || self.features < 2 {
            return wrong("fused must be at least 1 and features at least 2".to_owned());
        }
        if self.feature_heads == 0 || !self.features.is_multiple_of(self.feature_heads) {
            return wrong(format!(
                "features {} must be a multiple of feature_heads {}",
                self.features, self.feature_heads
            ));
        }
        let [first, ..] = self.encoder.channels();
        for width in [self.fused, first] {
            if let Norm::Group(channels) = self.norm
                && (channels == 0 || !width.is_multiple_of(channels))
            {
                return wrong(format!(
                    "width {width} is no multiple of the {channels} channels of a norm's group"
                ));
            }
        }
        for (name, rate) in [("drop_path", self.drop_path), ("skip", self.skip)] {
            if !(0.0..1.0).contains(&rate) {
                return wrong(format!("{name} is {rate} but must be at least 0 and below 1"));
            }
        }
        self.stages().map(|_| ())
    }

    fn stages(&self) -> Result<Vec<CrfSpec>, LearnError> {
        let mut features = self.encoder.channels();
        features.reverse();
        CrfSpec::chain(&features, &self.widths, &self.heads, self.fused, self.drop_path)
    }
}

/// The network. Its tensors live in the store whose path it was built with.
#[derive(Debug)]
pub struct DcDepth {
    encoder: Swin,
    fusion: Fusion,
    stages: Vec<CrfStage>,
    context: DctDownsample,
    state: Conv,
    update: Update,
    range: DepthRange,
}

impl DcDepth {
    /// Adds the network's tensors to a store.
    ///
    /// # Errors
    ///
    /// As [`DcDepthConfig::check`].
    pub fn new(path: &nn::Path, config: &DcDepthConfig) -> Result<Self, LearnError> {
        config.check()?;
        let channels = config.encoder.channels();
        let [finest, ..] = channels;
        let [_, _, hidden] = config.widths;
        let update = path / "update";
        Ok(Self {
            encoder: Swin::new(&encoder_path(path), &config.encoder),
            fusion: Fusion::new(&(path / "decoder"), channels, config.fused, config.norm),
            stages: ["crf3", "crf2", "crf1"]
                .iter()
                .zip(config.stages()?)
                .map(|(name, spec)| CrfStage::new(&(path / name), spec))
                .collect(),
            context: DctDownsample::new(&(&update / "project_context"), 2, 2, finest, finest, config.norm),
            state: ConvSpec::square(hidden + finest, hidden, 3).build(&(&update / "project_hidden")),
            update: Update::new(&update, config, hidden),
            range: config.range,
        })
    }
}

impl DepthNetwork for DcDepth {
    fn features(&self, pictures: &Tensor) -> Option<Tensor> {
        self.encoder.forward(pictures, &mut Pass::evaluate()).pop()
    }

    fn forward(&self, pictures: &Tensor, pass: &mut Pass) -> Prediction {
        let maps = self.encoder.forward(pictures, pass);
        let mut map = self.fusion.forward(&maps, pass.is_train());
        for (i, (stage, features)) in self.stages.iter().zip(maps.iter().rev()).enumerate() {
            if i > 0 {
                map = map.pixel_shuffle(2);
            }
            map = stage.forward(features, &map, pass);
        }
        let context = maps.first().map_or_else(Tensor::new, |finest| {
            self.context.forward(finest, pass.is_train())
        });
        let state = self.state.forward(&Tensor::cat(&[map, context], 1)).tanh();
        Prediction::of_steps(self.update.forward(state, pass), self.range)
    }
}

/// Root-mean-square size at which a tensor outside the encoder starts, by its name; `None` for the usual one.
pub(crate) fn start(name: &str) -> Option<f32> {
    if name.contains(".idx_embed.") || name.ends_with("cls_token") {
        return Some(1e-4);
    }
    if let Some(step) = name
        .strip_prefix("update.heads.convs.")
        .and_then(|rest| rest.strip_suffix(".weight"))
    {
        let step: usize = step.parse().unwrap_or(0);
        // The last step refines what is nearly right, and starts by leaving it alone.
        return Some(if step + 1 == STEPS {
            0.0
        } else {
            0.02 * 0.8_f32.powi(i32::try_from(step).unwrap_or(0))
        });
    }
    let small = [".attention.", ".attn.", ".ppm."];
    let matrix = name.ends_with("weight") && small.iter().any(|part| name.contains(part));
    let outside = !name.starts_with("encoder.") && !name.contains(".blocks.");
    (name.ends_with("pos_embed") || (matrix && outside)).then_some(0.02)
}

#[cfg(test)]
mod tests {
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    use super::*;

    const RANGE: DepthRange = DepthRange {
        min_m: 0.1,
        cap_m: 10.0,
    };

    fn with(encoder: SwinConfig) -> DcDepthConfig {
        DcDepthConfig {
            encoder,
            ..DcDepthConfig::published(RANGE)
        }
    }

    fn count(config: &DcDepthConfig) -> usize {
        let vars = VarStore::new(Device::Cpu);
        DcDepth::new(&vars.root(), config).unwrap();
        vars.trainable_variables().iter().map(Tensor::numel).sum()
    }

    /// Numbers counted in the published code.
    #[test]
    fn it_has_the_published_size_with_swin_t() {
        assert_eq!(count(&with(SwinConfig::tiny(7))), 79_706_294);
    }

    #[test]
    #[ignore = "hundreds of millions of parameters"]
    fn it_has_the_published_size() {
        assert_eq!(count(&with(SwinConfig::large(12))), 259_523_936);
    }

    #[test]
    #[ignore = "a minute"]
    fn published_forward_at_full_size() {
        let config = with(SwinConfig::tiny(7));
        let vars = VarStore::new(Device::Cpu);
        let network = DcDepth::new(&vars.root(), &config).unwrap();
        crate::torch::NetworkConfig::DcDepth(config)
            .draw(&vars, 1)
            .unwrap();
        let pictures = Tensor::arange(3 * 480 * 640, (Kind::Float, Device::Cpu))
            .view([1, 3, 480, 640])
            .sin();
        let prediction = tch::no_grad(|| network.forward(&pictures, &mut Pass::evaluate()));
        assert_eq!(prediction.depth().size(), [1, 1, 480, 640]);
        assert_eq!(prediction.steps().len(), 9);
        assert_eq!(prediction.steps()[8].coefficients.size(), [1, 64, 60, 80]);
    }

    #[test]
    fn heads_start_smaller_step_by_step() {
        assert_eq!(start("update.heads.convs.0.weight"), Some(0.02));
        assert!((start("update.heads.convs.2.weight").unwrap() - 0.0128).abs() < 1e-7);
        assert_eq!(start("update.heads.convs.8.weight"), Some(0.0));
        assert_eq!(start("update.heads.idx_embed.3"), Some(1e-4));
        assert_eq!(start("crf3.proj_x.weight"), None);
    }

    #[test]
    fn sizes_must_go_together() {
        let changes: [fn(&mut DcDepthConfig); 6] = [
            |c| c.width = 100,
            |c| c.range.cap_m = 0.9,
            |c| c.feature_heads = 3,
            |c| c.skip = 1.0,
            |c| c.fused = 10,
            |c| c.heads[2] = 5,
        ];
        for change in changes {
            let mut config = DcDepthConfig::tiny(RANGE);
            change(&mut config);
            assert!(matches!(config.check(), Err(LearnError::Network { .. })));
        }
        assert!(DcDepthConfig::tiny(RANGE).check().is_ok());
    }
}
