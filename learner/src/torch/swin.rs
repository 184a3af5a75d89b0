//! A Swin transformer that hands out the maps of its four stages.
//!
//! After Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows" (ICCV 2021).

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::{self, Module};

use crate::error::LearnError;
use crate::torch::layer::{Conv, ConvSpec, layer_norm, linear};
use crate::torch::pass::Pass;
use crate::torch::window::{BlockSpec, WindowBlock, Windows};

/// Sizes of a Swin transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwinConfig {
    /// Channels of the first stage; each further stage has twice as many.
    pub width: usize,
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Attention heads of each stage.
    pub heads: [usize; 4],
    /// Side of a window in pixels of the stage's map.
    pub window: usize,
    /// Share of pictures for which the last block's branches are left out in training; grows from 0 over the blocks.
    pub drop_path: f64,
}

impl SwinConfig {
    /// Swin-T of the paper. Both depth networks train it with a drop-path rate of 0.3.
    #[must_use]
    pub fn tiny(window: usize) -> Self {
        Self {
            width: 96,
            depths: [2, 2, 6, 2],
            heads: [3, 6, 12, 24],
            window,
            drop_path: 0.3,
        }
    }

    /// Swin-B.
    #[must_use]
    pub fn base(window: usize) -> Self {
        Self {
            width: 128,
            depths: [2, 2, 18, 2],
            heads: [4, 8, 16, 32],
            ..Self::tiny(window)
        }
    }

    /// Swin-L.
    #[must_use]
    pub fn large(window: usize) -> Self {
        Self {
            width: 192,
            heads: [6, 12, 24, 48],
            ..Self::base(window)
        }
    }

    /// The smallest useful one, about 200,000 parameters, for networks that train on one CPU core.
    #[must_use]
    pub fn smallest() -> Self {
        Self {
            width: 12,
            depths: [1, 1, 2, 1],
            heads: [1, 2, 4, 4],
            window: 4,
            drop_path: 0.0,
        }
    }

    /// Channels of the maps at strides 4, 8, 16 and 32.
    #[must_use]
    pub fn channels(&self) -> [usize; 4] {
        [1, 2, 4, 8].map(|times| times * self.width)
    }

    /// Refuses sizes that do not go together.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] naming the setting.
    pub fn check(&self) -> Result<(), LearnError> {
        let wrong = |what: String| Err(LearnError::Network { what });
        if self.width == 0 || self.window == 0 || self.depths.contains(&0) {
            return wrong("encoder.width, encoder.window and encoder.depths must be at least 1".to_owned());
        }
        for (channels, heads) in self.channels().into_iter().zip(self.heads) {
            if heads == 0 || !channels.is_multiple_of(heads) {
                return wrong(format!(
                    "a stage of {channels} channels cannot be split among {heads} heads: change encoder.heads"
                ));
            }
        }
        if !(0.0..1.0).contains(&self.drop_path) {
            return wrong(format!(
                "encoder.drop_path is {} but must be at least 0 and below 1",
                self.drop_path
            ));
        }
        Ok(())
    }
}

/// The encoder.
#[derive(Debug)]
pub(crate) struct Swin {
    patches: Conv,
    patch_norm: nn::LayerNorm,
    stages: Vec<Stage>,
    window: usize,
}

#[derive(Debug)]
struct Stage {
    blocks: Vec<WindowBlock>,
    norm: nn::LayerNorm,
    merge: Option<(nn::LayerNorm, nn::Linear)>,
}

impl Swin {
    pub(crate) fn new(path: &nn::Path, config: &SwinConfig) -> Self {
        let all: usize = config.depths.iter().sum();
        let mut before = 0;
        let stages = config
            .channels()
            .into_iter()
            .zip(config.depths)
            .zip(config.heads)
            .enumerate()
            .map(|(s, ((width, depth), heads))| {
                let layer = path / "layers" / s;
                let blocks = (0..depth)
                    .map(|b| {
                        let spec = BlockSpec {
                            width,
                            heads,
                            window: config.window,
                            shifted: b % 2 == 1,
                            given_values: false,
                            drop_path: config.drop_path * share(before + b, all),
                        };
                        WindowBlock::new(&(&layer / "blocks" / b), spec)
                    })
                    .collect();
                before += depth;
                let merge = &layer / "downsample";
                Stage {
                    blocks,
                    norm: layer_norm(&(path / format!("norm{s}")), width),
                    merge: (s < 3).then(|| {
                        (
                            layer_norm(&(&merge / "norm"), 4 * width),
                            linear(&(&merge / "reduction"), 4 * width, 2 * width, false),
                        )
                    }),
                }
            })
            .collect();
        let patches = path / "patch_embed";
        Self {
            patches: ConvSpec::square(3, config.width, 4)
                .stride(4)
                .padding(0)
                .build(&(&patches / "proj")),
            patch_norm: layer_norm(&(&patches / "norm"), config.width),
            stages,
            window: config.window,
        }
    }

    /// `pictures` is `[B, 3, H, W]`, normalised, with sides that are multiples of 32; the maps are
    /// `[B, channels[i], H / 2^(i+2), W / 2^(i+2)]`.
    pub(crate) fn forward(&self, pictures: &Tensor, pass: &mut Pass) -> Vec<Tensor> {
        let map = self.patches.forward(pictures).permute([0, 2, 3, 1]);
        let mut map = self.patch_norm.forward(&map.contiguous());
        let mut maps = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            let (_, height, width, _) = map.size4().unwrap_or_default();
            let windows = Windows::new(self.window, height, width);
            let mask = windows.mask(map.device());
            for block in &stage.blocks {
                map = block.forward(&map, None, windows, &mask, pass);
            }
            maps.push(stage.norm.forward(&map).permute([0, 3, 1, 2]).contiguous());
            if let Some((norm, reduction)) = &stage.merge {
                map = reduction.forward(&norm.forward(&gather(&map)));
            }
        }
        maps
    }
}

/// Drop-path rates rise evenly from 0 to 1 times the last block's.
#[expect(clippy::cast_precision_loss, reason = "a few dozen blocks")]
fn share(block: usize, all: usize) -> f64 {
    block as f64 / all.saturating_sub(1).max(1) as f64
}

/// `[B, H, W, C]` to `[B, H/2, W/2, 4C]`: of every four neighbours upper left, lower left, upper right, lower right.
fn gather(map: &Tensor) -> Tensor {
    let every = |y: i64, x: i64| map.slice(1, y, None, 2).slice(2, x, None, 2);
    Tensor::cat(&[every(0, 0), every(1, 0), every(0, 1), every(1, 1)], -1)
}

/// Root-mean-square size at which weights of transformer blocks start, by the tensor's name; `None` for other tensors.
pub(crate) fn start(name: &str, shape: &[i64]) -> Option<f32> {
    let table = name.ends_with("relative_position_bias_table");
    let matrix = name.contains(".blocks.") && name.ends_with("weight") && shape.len() == 2;
    (table || matrix || name.ends_with("downsample.reduction.weight")).then_some(0.02)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    /// Runs an encoder on zeros and says the maps' shapes.
    fn shapes(config: &SwinConfig, height: i64, width: i64) -> (usize, Vec<Vec<i64>>) {
        let vars = nn::VarStore::new(Device::Cpu);
        let encoder = Swin::new(&vars.root(), config);
        let picture = Tensor::zeros([1, 3, height, width], (Kind::Float, Device::Cpu));
        let maps = tch::no_grad(|| encoder.forward(&picture, &mut Pass::evaluate()));
        let count = vars.trainable_variables().iter().map(Tensor::numel).sum();
        (count, maps.iter().map(Tensor::size).collect())
    }

    /// Published classifiers without their head, plus the norms of the three earlier maps.
    ///
    /// Swin-T has 28,288,354 parameters, its head 768 x 1000 + 1000, its last norm is kept (torchvision's documentation).
    #[test]
    fn tiny_has_the_published_size_and_shapes() {
        let (count, shapes) = shapes(&SwinConfig::tiny(7), 64, 96);
        let norms = 2 * (96 + 192 + 384);
        assert_eq!(count, 28_288_354 - 769_000 + norms);
        assert_eq!(
            shapes,
            [[1, 96, 16, 24], [1, 192, 8, 12], [1, 384, 4, 6], [1, 768, 2, 3]]
        );
    }

    /// Shapes at 480 x 640 and the sizes of the larger ones.
    #[test]
    #[ignore = "hundreds of millions of parameters"]
    fn all_have_the_published_sizes() {
        let (_, at_nyu) = shapes(&SwinConfig::tiny(7), 480, 640);
        assert_eq!(
            at_nyu,
            [
                [1, 96, 120, 160],
                [1, 192, 60, 80],
                [1, 384, 30, 40],
                [1, 768, 15, 20]
            ]
        );
        // Swin-B: 87,768,224 with a head of 1024 x 1000 + 1000 (torchvision).
        let (base, _) = shapes(&SwinConfig::base(7), 64, 64);
        assert_eq!(base, 87_768_224 - 1_025_000 + 2 * (128 + 256 + 512));
        // The backbone of the large DCDepth.
        let (large, _) = shapes(&SwinConfig::large(12), 64, 64);
        assert_eq!(large, 195_201_204);
    }

    #[test]
    fn neighbours_are_gathered_column_first() {
        let map = Tensor::arange(8, (Kind::Float, Device::Cpu)).view([1, 2, 4, 1]);
        let values = Vec::<f32>::try_from(gather(&map).flatten(0, -1)).unwrap();
        assert_eq!(values, [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]);
    }

    #[test]
    fn sizes_must_go_together() {
        let changes: [fn(&mut SwinConfig); 4] = [
            |c| c.heads[2] = 5,
            |c| c.window = 0,
            |c| c.drop_path = 1.0,
            |c| c.depths[1] = 0,
        ];
        for change in changes {
            let mut config = SwinConfig::tiny(7);
            change(&mut config);
            assert!(matches!(config.check(), Err(LearnError::Network { .. })));
        }
        for config in [
            SwinConfig::tiny(7),
            SwinConfig::base(7),
            SwinConfig::large(12),
            SwinConfig::smallest(),
        ] {
            assert!(config.check().is_ok());
        }
    }

    #[test]
    fn drop_path_rises_to_the_last_block() {
        assert_eq!([share(0, 24), share(23, 24), share(0, 1)], [0.0, 1.0, 0.0]);
    }
}
