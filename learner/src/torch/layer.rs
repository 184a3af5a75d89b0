//! The layers that networks are made of. Their tensors are constant until the common start is drawn.

use tch::Tensor;
use tch::nn::{self, Init};

use crate::torch::block::size;

/// What a convolution sees beyond the map's edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Zeros, as many on both sides.
    Zero,
    /// The outermost values again, as many on both sides.
    Replicate,
    /// Zeros, the odd one right and below: the output has ⌈input / stride⌉ pixels.
    Same,
}

/// Sizes of a convolution. Unless changed it has stride 1, one group and a bias, and keeps the map's size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvSpec {
    from: i64,
    to: i64,
    kernel: [i64; 2],
    stride: i64,
    padding: [i64; 2],
    groups: i64,
    bias: bool,
    edge: Edge,
}

impl ConvSpec {
    pub(crate) fn square(from: usize, to: usize, side: usize) -> Self {
        Self::new(from, to, [side, side])
    }

    pub(crate) fn new(from: usize, to: usize, kernel: [usize; 2]) -> Self {
        Self {
            from: size(from),
            to: size(to),
            kernel: kernel.map(size),
            stride: 1,
            padding: kernel.map(|k| size(k.saturating_sub(1) / 2)),
            groups: 1,
            bias: true,
            edge: Edge::Zero,
        }
    }

    pub(crate) fn stride(self, stride: usize) -> Self {
        Self {
            stride: size(stride),
            ..self
        }
    }

    pub(crate) fn padding(self, padding: usize) -> Self {
        Self {
            padding: [size(padding); 2],
            ..self
        }
    }

    pub(crate) fn groups(self, groups: usize) -> Self {
        Self {
            groups: size(groups),
            ..self
        }
    }

    pub(crate) fn bias(self, bias: bool) -> Self {
        Self { bias, ..self }
    }

    pub(crate) fn edge(self, edge: Edge) -> Self {
        Self { edge, ..self }
    }

    pub(crate) fn build(self, path: &nn::Path) -> Conv {
        let [high, wide] = self.kernel;
        Conv {
            weight: path.zeros("weight", &[self.to, self.from / self.groups.max(1), high, wide]),
            bias: self.bias.then(|| path.zeros("bias", &[self.to])),
            spec: self,
        }
    }
}

/// A two-dimensional convolution.
#[derive(Debug)]
pub(crate) struct Conv {
    weight: Tensor,
    bias: Option<Tensor>,
    spec: ConvSpec,
}

impl Conv {
    pub(crate) fn forward(&self, map: &Tensor) -> Tensor {
        let spec = &self.spec;
        let [down, right] = spec.padding;
        let run = |map: &Tensor, padding: [i64; 2]| {
            map.conv2d(
                &self.weight,
                self.bias.as_ref(),
                [spec.stride, spec.stride],
                padding,
                [1, 1],
                spec.groups,
            )
        };
        match spec.edge {
            Edge::Zero => run(map, spec.padding),
            Edge::Replicate => run(&map.replication_pad2d([right, right, down, down]), [0, 0]),
            Edge::Same => {
                let (_, _, height, width) = map.size4().unwrap_or_default();
                let [high, wide] = spec.kernel;
                let (y, x) = (
                    missing(height, high, spec.stride),
                    missing(width, wide, spec.stride),
                );
                if y % 2 == 0 && x % 2 == 0 {
                    run(map, [y / 2, x / 2])
                } else {
                    let sides = [x / 2, x - x / 2, y / 2, y - y / 2];
                    run(&map.constant_pad_nd(sides), [0, 0])
                }
            }
        }
    }
}

/// Pixels to add so that a convolution gives ⌈length / stride⌉ of them.
fn missing(length: i64, kernel: i64, stride: i64) -> i64 {
    let outputs = (length + stride - 1) / stride.max(1);
    ((outputs - 1) * stride + kernel - length).max(0)
}

/// A matrix and, if asked for, a bias.
pub(crate) fn linear(path: &nn::Path, from: usize, to: usize, bias: bool) -> nn::Linear {
    let config = nn::LinearConfig {
        ws_init: Init::Const(0.0),
        bs_init: Some(Init::Const(0.0)),
        bias,
    };
    nn::linear(path, size(from), size(to), config)
}

/// Layer normalisation over the last axis.
pub(crate) fn layer_norm(path: &nn::Path, width: usize) -> nn::LayerNorm {
    nn::layer_norm(path, vec![size(width)], nn::LayerNormConfig::default())
}

/// Batch normalisation of maps; `eps` differs between families of networks.
pub(crate) fn batch_norm(path: &nn::Path, width: usize, eps: f64) -> nn::BatchNorm {
    let config = nn::BatchNormConfig {
        eps,
        ws_init: Init::Const(1.0),
        ..nn::BatchNormConfig::default()
    };
    nn::batch_norm2d(path, size(width), config)
}

#[cfg(test)]
mod tests {
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    use super::*;

    fn sums(spec: ConvSpec, map: &Tensor) -> Tensor {
        let vars = VarStore::new(Device::Cpu);
        let conv = spec.bias(false).build(&vars.root());
        let _ = tch::no_grad(|| conv.weight.shallow_clone().fill_(1.0));
        tch::no_grad(|| conv.forward(map))
    }

    /// Three ones summed along a row of 1, 2, 3, 4 with stride 2.
    #[test]
    fn each_edge_sees_what_it_says() {
        let row = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).view([1, 1, 1, 4]);
        let spec = ConvSpec::new(1, 1, [1, 3]);
        let values = |spec: ConvSpec| Vec::<f32>::try_from(sums(spec, &row).flatten(0, -1)).unwrap();
        assert_eq!(values(spec), [3.0, 6.0, 9.0, 7.0]);
        assert_eq!(values(spec.edge(Edge::Replicate)), [4.0, 6.0, 9.0, 11.0]);
        assert_eq!(
            values(spec.stride(2).edge(Edge::Same)),
            [6.0, 7.0],
            "the zero is on the right"
        );
        assert_eq!(values(spec.stride(2)), [3.0, 9.0], "and not on the left");
    }

    #[test]
    fn same_padding_rounds_up() {
        let map = Tensor::ones([1, 1, 9, 12], (Kind::Float, Device::Cpu));
        for kernel in [3, 5] {
            let spec = ConvSpec::square(1, 1, kernel).edge(Edge::Same);
            assert_eq!(sums(spec.stride(2), &map).size(), [1, 1, 5, 6]);
            assert_eq!(sums(spec, &map).size(), [1, 1, 9, 12]);
        }
    }
}
