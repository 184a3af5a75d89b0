//! Pooling pyramids: what a coarse map says about larger and larger parts of the picture, put beside it.
//!
//! After Zhao et al., "Pyramid Scene Parsing Network" (CVPR 2017), section 3.2.

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn;

use crate::torch::block::{Norm, NormLayer, size};
use crate::torch::layer::{Conv, ConvSpec};

/// Cells a side of the pooled maps.
const CELLS: [i64; 4] = [1, 2, 3, 6];

/// Sizes of a pyramid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PyramidConfig {
    /// Channels of each pooled map and of the output (published: 512).
    pub width: usize,
    /// Channels of a group of the pooled maps' normalisation (published: 2, that is 256 groups).
    pub group: usize,
    /// Normalisation of the output (published: batch, the network's only one).
    pub norm: Norm,
}

/// The pyramid on an encoder's coarsest map.
#[derive(Debug)]
pub(crate) struct Pyramid {
    pools: Vec<(Conv, NormLayer)>,
    join: Conv,
    norm: NormLayer,
}

impl Pyramid {
    pub(crate) fn new(path: &nn::Path, from: usize, config: &PyramidConfig) -> Self {
        let width = config.width;
        let pools = (0..CELLS.len())
            .map(|i| {
                let pool = path / "pools" / i;
                let conv = ConvSpec::square(from, width, 1).bias(false);
                let norm = NormLayer::new(&(&pool / "norm"), size(width), Norm::Group(config.group));
                (conv.build(&(&pool / "conv")), norm)
            })
            .collect();
        let join = path / "join";
        Self {
            pools,
            join: ConvSpec::square(from + CELLS.len() * width, width, 3)
                .bias(false)
                .build(&(&join / "conv")),
            norm: NormLayer::new(&(&join / "norm"), size(width), config.norm),
        }
    }

    /// `[B, C, H, W]` to `[B, width, H, W]`.
    pub(crate) fn forward(&self, map: &Tensor, train: bool) -> Tensor {
        let (_, _, height, width) = map.size4().unwrap_or_default();
        let mut maps = vec![map.shallow_clone()];
        for ((conv, norm), cells) in self.pools.iter().zip(CELLS) {
            let pooled = map.adaptive_avg_pool2d([cells, cells]);
            let pooled = norm.forward(&conv.forward(&pooled), train).relu();
            maps.push(pooled.upsample_bilinear2d([height, width], false, None, None));
        }
        let joined = self.join.forward(&Tensor::cat(&maps, 1));
        self.norm.forward(&joined, train).relu()
    }
}

/// Cells of a pyramid over a map that is not square: the shorter side as given, the longer one in proportion, halves to
/// the even number.
fn proportional(cells: i64, height: i64, width: i64) -> [i64; 2] {
    #[expect(clippy::cast_precision_loss, reason = "sides of maps are small")]
    let ratio = |long: i64, short: i64| long as f64 / short.max(1) as f64;
    #[expect(clippy::cast_precision_loss, reason = "at most six cells")]
    #[expect(clippy::cast_possible_truncation, reason = "rounded, and small")]
    let scaled = |ratio: f64| (ratio * cells as f64).round_ties_even() as i64;
    if height >= width {
        [scaled(ratio(height, width)), cells]
    } else {
        [cells, scaled(ratio(width, height))]
    }
}

/// A pyramid that keeps the map's width, without norms, over cells that are about square.
#[derive(Debug)]
pub(crate) struct LightPyramid {
    pools: Vec<Conv>,
    depthwise: Conv,
    pointwise: Conv,
}

impl LightPyramid {
    pub(crate) fn new(path: &nn::Path, width: usize) -> Self {
        let all = (CELLS.len() + 1) * width;
        let squeeze = path / "squeeze" / 0;
        Self {
            pools: (0..CELLS.len())
                .map(|i| ConvSpec::square(width, width, 1).build(&(path / "pool_convs" / i)))
                .collect(),
            depthwise: ConvSpec::square(all, all, 7)
                .groups(all)
                .edge(crate::torch::layer::Edge::Replicate)
                .build(&(&squeeze / 0)),
            pointwise: ConvSpec::square(all, width, 1).build(&(&squeeze / 1)),
        }
    }

    /// `[B, width, H, W]` to the same.
    pub(crate) fn forward(&self, map: &Tensor) -> Tensor {
        let (_, _, height, width) = map.size4().unwrap_or_default();
        let mut maps = vec![map.shallow_clone()];
        for (conv, cells) in self.pools.iter().zip(CELLS) {
            let pooled = map.adaptive_avg_pool2d(proportional(cells, height, width));
            maps.push(
                conv.forward(&pooled)
                    .upsample_bilinear2d([height, width], true, None, None),
            );
        }
        let joined = self.depthwise.forward(&Tensor::cat(&maps, 1));
        self.pointwise.forward(&joined).hardswish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_the_map_and_ties_go_to_even() {
        assert_eq!(proportional(3, 60, 80), [3, 4]);
        assert_eq!(proportional(6, 44, 140), [6, 19]);
        assert_eq!(proportional(2, 80, 60), [3, 2]);
        // 1.25 · 2 = 2.5 and 1.25 · 6 = 7.5.
        assert_eq!(proportional(2, 4, 5), [2, 2]);
        assert_eq!(proportional(6, 4, 5), [6, 8]);
        assert_eq!(proportional(1, 12, 16), [1, 1]);
    }
}
