//! ResNet-34, and a plain small stand-in: from pictures to maps for a BEV network.
//!
//! After He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition" (CVPR 2016). Tensors are named as
//! torchvision names them (`conv1.weight`, `layer3.0.bn2.running_var`, …), so its `ImageNet` weights fit by name. There is
//! no classifier.

use serde::{Deserialize, Serialize};
use tch::nn::{self, Module, ModuleT};
use tch::{Tensor, nn::ConvConfig};

use crate::torch::block::{Block, Norm, size};

/// Which image encoder a BEV network has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BevEncoder {
    /// Maps of 64, 128, 256 and 512 channels at strides 4, 8, 16 and 32, of which the last are used.
    Resnet34,
    /// One stage a width, each a stride-2 and a residual 3 × 3 convolution.
    Plain {
        /// Channels after each stage.
        widths: Vec<usize>,
    },
}

impl BevEncoder {
    /// Channels and stride of every map.
    #[must_use]
    pub fn maps(&self) -> Vec<(usize, usize)> {
        match self {
            Self::Resnet34 => vec![(64, 4), (128, 8), (256, 16), (512, 32)],
            Self::Plain { widths } => widths.iter().enumerate().map(|(i, &w)| (w, 2 << i)).collect(),
        }
    }
}

/// The encoder.
#[derive(Debug)]
pub(crate) enum PictureEncoder {
    Resnet(Box<Resnet34>),
    Plain(Vec<(Block, Block)>),
}

impl PictureEncoder {
    pub(crate) fn new(path: &nn::Path, config: &BevEncoder, norm: Norm) -> Self {
        match config {
            BevEncoder::Resnet34 => Self::Resnet(Box::new(Resnet34::new(path))),
            BevEncoder::Plain { widths } => {
                let mut from = 3;
                let stages = widths.iter().enumerate().map(|(i, &width)| {
                    let stage = path / format!("stage{}", i + 1);
                    let to = size(width);
                    let pair = (
                        Block::new(&(&stage / "down"), from, to, 2, norm),
                        Block::new(&(&stage / "same"), to, to, 1, norm),
                    );
                    from = to;
                    pair
                });
                Self::Plain(stages.collect())
            }
        }
    }

    /// `[N, 3, H, W]` to all maps, finest first.
    pub(crate) fn forward(&self, pictures: &Tensor, train: bool) -> Vec<Tensor> {
        match self {
            Self::Resnet(network) => network.forward(pictures, train),
            Self::Plain(stages) => {
                let mut maps: Vec<Tensor> = Vec::with_capacity(stages.len());
                for (down, same) in stages {
                    let half = down.forward(maps.last().unwrap_or(pictures), train);
                    maps.push(&half + same.forward(&half, train));
                }
                maps
            }
        }
    }
}

/// The published 34-layer network up to its last map.
#[derive(Debug)]
pub(crate) struct Resnet34 {
    conv: nn::Conv2D,
    norm: nn::BatchNorm,
    layers: Vec<Vec<Basic>>,
}

/// Two 3 × 3 convolutions around a skip.
#[derive(Debug)]
struct Basic {
    conv1: nn::Conv2D,
    norm1: nn::BatchNorm,
    conv2: nn::Conv2D,
    norm2: nn::BatchNorm,
    down: Option<(nn::Conv2D, nn::BatchNorm)>,
}

impl Resnet34 {
    fn new(path: &nn::Path) -> Self {
        let mut from = 64;
        let plan = [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)];
        let layers = plan.iter().enumerate().map(|(i, &(width, count, stride))| {
            let layer = path / format!("layer{}", i + 1);
            let blocks = (0..count).map(|j| {
                let stride = if j == 0 { stride } else { 1 };
                let block = Basic::new(&(&layer / j), from, width, stride);
                from = width;
                block
            });
            blocks.collect()
        });
        let layers = layers.collect();
        Self {
            conv: conv(&(path / "conv1"), 3, 64, 7, 2),
            norm: norm(&(path / "bn1"), 64),
            layers,
        }
    }

    fn forward(&self, pictures: &Tensor, train: bool) -> Vec<Tensor> {
        let stem = self.norm.forward_t(&self.conv.forward(pictures), train).relu();
        let stem = stem.max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false);
        let mut maps: Vec<Tensor> = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let mut map = maps.last().unwrap_or(&stem).shallow_clone();
            for block in layer {
                map = block.forward(&map, train);
            }
            maps.push(map);
        }
        maps
    }
}

impl Basic {
    fn new(path: &nn::Path, from: i64, to: i64, stride: i64) -> Self {
        let down = (stride != 1 || from != to).then(|| {
            let side = path / "downsample";
            (conv(&(&side / 0), from, to, 1, stride), norm(&(&side / 1), to))
        });
        Self {
            conv1: conv(&(path / "conv1"), from, to, 3, stride),
            norm1: norm(&(path / "bn1"), to),
            conv2: conv(&(path / "conv2"), to, to, 3, 1),
            norm2: norm(&(path / "bn2"), to),
            down,
        }
    }

    fn forward(&self, map: &Tensor, train: bool) -> Tensor {
        let inner = self.norm1.forward_t(&self.conv1.forward(map), train).relu();
        let inner = self.norm2.forward_t(&self.conv2.forward(&inner), train);
        let skip = match &self.down {
            Some((conv, norm)) => norm.forward_t(&conv.forward(map), train),
            None => map.shallow_clone(),
        };
        (inner + skip).relu()
    }
}

fn conv(path: &nn::Path, from: i64, to: i64, kernel: i64, stride: i64) -> nn::Conv2D {
    let config = ConvConfig {
        stride,
        padding: kernel / 2,
        bias: false,
        ..ConvConfig::default()
    };
    nn::conv2d(path, from, to, kernel, config)
}

fn norm(path: &nn::Path, width: i64) -> nn::BatchNorm {
    nn::batch_norm2d(path, width, nn::BatchNormConfig::default())
}

#[cfg(test)]
mod tests {
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    use super::*;

    /// torchvision's network has 21,797,672 parameters, of which 513,000 are its classifier.
    #[test]
    fn it_has_the_published_size_and_names() {
        let vars = VarStore::new(Device::Cpu);
        let _ = Resnet34::new(&vars.root());
        let count: usize = vars.trainable_variables().iter().map(Tensor::numel).sum();
        assert_eq!(count, 21_797_672 - 513_000);
        let names = vars.variables();
        for name in [
            "conv1.weight",
            "bn1.running_mean",
            "layer1.2.conv2.weight",
            "layer4.0.downsample.1.bias",
        ] {
            assert!(names.contains_key(name), "{name}");
        }
        assert!(!names.contains_key("layer1.0.downsample.0.weight"));
    }

    #[test]
    fn maps_halve_and_widen() {
        let vars = VarStore::new(Device::Cpu);
        let network = PictureEncoder::new(&vars.root(), &BevEncoder::Resnet34, Norm::Batch);
        let maps = tch::no_grad(|| {
            network.forward(&Tensor::zeros([1, 3, 64, 96], (Kind::Float, Device::Cpu)), false)
        });
        let sizes: Vec<Vec<i64>> = maps.iter().map(Tensor::size).collect();
        assert_eq!(
            sizes,
            [[1, 64, 16, 24], [1, 128, 8, 12], [1, 256, 4, 6], [1, 512, 2, 3]]
        );
        for (map, (channels, stride)) in sizes.iter().zip(BevEncoder::Resnet34.maps()) {
            assert_eq!((map[1], map[3]), (size(channels), 96 / size(stride)));
        }
    }
}
