//! Convolutions between and after the levels of the BEV map.

use tch::Tensor;
use tch::nn::{self, Module};

use crate::torch::bevt::cross_view::point;
use crate::torch::block::{Norm, NormLayer, size};

/// A residual bottleneck to a quarter of the width.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    convs: [nn::Conv2D; 3],
    norms: [NormLayer; 3],
}

impl Bottleneck {
    pub(crate) fn new(path: &nn::Path, width: i64, kind: Norm) -> Self {
        let inner = width / 4;
        Self {
            convs: [
                point(&(path / "conv1"), width, inner, false),
                square(&(path / "conv2"), inner, inner, false),
                point(&(path / "conv3"), inner, width, false),
            ],
            norms: [
                NormLayer::new(&(path / "norm1"), inner, kind),
                NormLayer::new(&(path / "norm2"), inner, kind),
                NormLayer::new(&(path / "norm3"), width, kind),
            ],
        }
    }

    pub(crate) fn forward(&self, map: &Tensor, train: bool) -> Tensor {
        let [conv1, conv2, conv3] = &self.convs;
        let [norm1, norm2, norm3] = &self.norms;
        let x = norm1.forward(&conv1.forward(map), train).relu();
        let x = norm2.forward(&conv2.forward(&x), train).relu();
        (norm3.forward(&conv3.forward(&x), train) + map).relu()
    }
}

/// Half the size, without losing a number: four neighbours become four channels.
#[derive(Debug)]
pub(crate) struct Downsample {
    narrow: nn::Conv2D,
    mix: nn::Conv2D,
    norm: NormLayer,
    point: nn::Conv2D,
    last: NormLayer,
}

impl Downsample {
    pub(crate) fn new(path: &nn::Path, width: i64, kind: Norm) -> Self {
        Self {
            narrow: square(&(path / "narrow"), width, width / 4, false),
            mix: square(&(path / "mix"), width, width, false),
            norm: NormLayer::new(&(path / "norm"), width, kind),
            point: point(&(path / "point"), width, width, false),
            last: NormLayer::new(&(path / "last"), width, kind),
        }
    }

    pub(crate) fn forward(&self, map: &Tensor, train: bool) -> Tensor {
        let x = self.mix.forward(&self.narrow.forward(map).pixel_unshuffle(2));
        let x = self.point.forward(&self.norm.forward(&x, train).relu());
        self.last.forward(&x, train)
    }
}

/// Doublings back to the label's grid.
#[derive(Debug)]
pub(crate) struct Decoder {
    stages: Vec<[(nn::Conv2D, NormLayer); 2]>,
}

impl Decoder {
    pub(crate) fn new(path: &nn::Path, from: usize, widths: &[usize], kind: Norm) -> Self {
        let mut from = size(from);
        let stages = widths.iter().enumerate().map(|(i, &width)| {
            let to = size(width);
            let stage = path / format!("up{}", i + 1);
            let brick = |name: &str, from: i64| {
                let own = &stage / name;
                (
                    square(&(&own / "conv"), from, to, true),
                    NormLayer::new(&(&own / "norm"), to, kind),
                )
            };
            let pair = [brick("before", from), brick("after", to)];
            from = to;
            pair
        });
        Self {
            stages: stages.collect(),
        }
    }

    pub(crate) fn forward(&self, map: &Tensor, train: bool) -> Tensor {
        let mut x = map.shallow_clone();
        for [(conv1, norm1), (conv2, norm2)] in &self.stages {
            x = norm1.forward(&conv1.forward(&x), train).relu();
            let sizes = x.size();
            let double: Vec<i64> = sizes.iter().skip(2).map(|n| 2 * n).collect();
            x = x.upsample_nearest2d(double.as_slice(), None, None);
            x = norm2.forward(&conv2.forward(&x), train).relu();
        }
        x
    }
}

fn square(path: &nn::Path, from: i64, to: i64, bias: bool) -> nn::Conv2D {
    let config = nn::ConvConfig {
        padding: 1,
        bias,
        ..nn::ConvConfig::default()
    };
    nn::conv2d(path, from, to, 3, config)
}
