//! Attention between windows of maps, attention of a map to itself, and what stands around them.

#![allow(
    clippy::many_single_char_names,
    reason = "sizes of tensors have one-letter names"
)]

use tch::nn::{self, Module};
use tch::{Kind, Tensor};

use crate::torch::block::size;

/// Rows and columns of a window.
pub(crate) type Window = (i64, i64);

/// Cuts maps into windows that are contiguous blocks: `[B, N, D, X·w1, Y·w2]` to `[B, X·Y, N·w1·w2, D]`.
pub(crate) fn blocks(map: &Tensor, (rows, columns): Window) -> Tensor {
    let s = map.size();
    let (b, n, d, h, w) = (dim(&s, 0), dim(&s, 1), dim(&s, 2), dim(&s, 3), dim(&s, 4));
    map.reshape([b, n, d, h / rows, rows, w / columns, columns])
        .permute([0, 3, 5, 1, 4, 6, 2])
        .reshape([b, (h / rows) * (w / columns), n * rows * columns, d])
}

/// Cuts maps into windows that are spread over the whole map: pixel i of window j lies at j + i · stride. Shapes as for
/// [`blocks`].
pub(crate) fn combs(map: &Tensor, (rows, columns): Window) -> Tensor {
    let s = map.size();
    let (b, n, d, h, w) = (dim(&s, 0), dim(&s, 1), dim(&s, 2), dim(&s, 3), dim(&s, 4));
    map.reshape([b, n, d, rows, h / rows, columns, w / columns])
        .permute([0, 4, 6, 1, 3, 5, 2])
        .reshape([b, (h / rows) * (w / columns), n * rows * columns, d])
}

/// Puts blocks back together and takes the mean over the N copies: `[B, X·Y, N·w1·w2, D]` to `[B, H, W, D]`.
pub(crate) fn join(windows: &Tensor, side: i64, (rows, columns): Window) -> Tensor {
    let s = windows.size();
    let (b, d) = (dim(&s, 0), dim(&s, 3));
    let copies = dim(&s, 2) / (rows * columns);
    windows
        .reshape([b, side / rows, side / columns, copies, rows, columns, d])
        .mean_dim(3_i64, false, Kind::Float)
        .permute([0, 1, 3, 2, 4, 5])
        .reshape([b, side, side, d])
}

/// Zeros to the right and below, up to a multiple of the window.
pub(crate) fn pad(map: &Tensor, (rows, columns): Window) -> Tensor {
    let s = map.size();
    let up = |n: i64, window: i64| (window - n % window) % window;
    let (below, right) = (up(dim(&s, 3), rows), up(dim(&s, 4), columns));
    if below == 0 && right == 0 {
        return map.shallow_clone();
    }
    map.constant_pad_nd([0, right, 0, below])
}

/// A size of a tensor known to have that many dimensions.
pub(crate) fn dim(sizes: &[i64], i: usize) -> i64 {
    sizes.get(i).copied().unwrap_or(1)
}

/// Multi-head attention from query windows to key windows.
#[derive(Debug)]
pub(crate) struct WindowAttention {
    query: (nn::LayerNorm, nn::Linear),
    key: (nn::LayerNorm, nn::Linear),
    value: (nn::LayerNorm, nn::Linear),
    merge: nn::Linear,
    heads: i64,
}

impl WindowAttention {
    pub(crate) fn new(path: &nn::Path, width: usize, heads: usize, per_head: usize) -> Self {
        let (width, inner) = (size(width), size(heads * per_head));
        let projected = |name: &str| {
            let own = path / name;
            (
                norm(&(&own / "norm"), width),
                nn::linear(&own / "linear", width, inner, nn::LinearConfig::default()),
            )
        };
        Self {
            query: projected("query"),
            key: projected("key"),
            value: projected("value"),
            merge: nn::linear(path / "merge", inner, width, nn::LinearConfig::default()),
            heads: size(heads),
        }
    }

    /// `[B, L, Q, D]` and twice `[B, L, K, D]` to `[B, L, Q, D]`: in each of the L windows every query attends to all keys.
    pub(crate) fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Tensor {
        let project = |(norm, linear): &(nn::LayerNorm, nn::Linear), x: &Tensor| {
            let x = linear.forward(&norm.forward(x));
            let s = x.size();
            // [B·L, heads, tokens, per head]
            x.view([dim(&s, 0) * dim(&s, 1), dim(&s, 2), self.heads, -1])
                .transpose(1, 2)
        };
        let (q, k, v) = (
            project(&self.query, query),
            project(&self.key, key),
            project(&self.value, value),
        );
        let out = Tensor::scaled_dot_product_attention::<Tensor>(&q, &k, &v, None, 0.0, false, None, false);
        let s = query.size();
        let out = out
            .transpose(1, 2)
            .reshape([dim(&s, 0), dim(&s, 1), dim(&s, 2), -1]);
        self.merge.forward(&out)
    }
}

/// Layer norm and a two-layer perceptron around a skip.
#[derive(Debug)]
pub(crate) struct Perceptron {
    norm: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
}

impl Perceptron {
    pub(crate) fn new(path: &nn::Path, width: usize) -> Self {
        let width = size(width);
        Self {
            norm: norm(&(path / "norm"), width),
            up: nn::linear(path / "up", width, 2 * width, nn::LinearConfig::default()),
            down: nn::linear(path / "down", 2 * width, width, nn::LinearConfig::default()),
        }
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        x + self
            .down
            .forward(&self.up.forward(&self.norm.forward(x)).gelu("none"))
    }
}

/// Attention of a square map to itself, with a learned bias for every relative position.
#[derive(Debug)]
pub(crate) struct SelfAttention {
    qkv: nn::Linear,
    merge: nn::Linear,
    relative: Tensor,
    index: Tensor,
    heads: i64,
    side: i64,
    dropout: f64,
}

impl SelfAttention {
    pub(crate) fn new(
        path: &nn::Path,
        width: usize,
        heads: usize,
        per_head: usize,
        side: usize,
        dropout: f64,
    ) -> Self {
        let (width, inner, heads, side) = (size(width), size(heads * per_head), size(heads), size(side));
        let plain = nn::LinearConfig {
            bias: false,
            ..nn::LinearConfig::default()
        };
        let span = 2 * side - 1;
        let mut index = Vec::new();
        for i in 0..side * side {
            for j in 0..side * side {
                let (down, right) = (i / side - j / side + side - 1, i % side - j % side + side - 1);
                index.push(down * span + right);
            }
        }
        Self {
            qkv: nn::linear(path / "qkv", width, 3 * inner, plain),
            merge: nn::linear(path / "merge", inner, width, plain),
            relative: path.zeros("relative", &[span * span, heads]),
            index: Tensor::from_slice(&index).to_device(path.device()),
            heads,
            side,
            dropout,
        }
    }

    /// Sets the biases so that each head begins with the neighbourhood of a query: −distance, −½ distance and so on.
    pub(crate) fn start_local(&self) -> Result<(), tch::TchError> {
        let device = self.relative.device();
        let square = Tensor::arange_start(1 - self.side, self.side, (Kind::Float, device)).square();
        let distance = (square.unsqueeze(1) + square.unsqueeze(0)).sqrt().flatten(0, -1);
        let slopes = (Tensor::arange(self.heads, (Kind::Float, device)) * -std::f64::consts::LN_2).exp();
        let biases = -distance.unsqueeze(1) * slopes.unsqueeze(0);
        tch::no_grad(|| self.relative.shallow_clone().f_copy_(&biases))?;
        Ok(())
    }

    /// `[B, D, S, S]` to the same. Queries that `seen` (`[S·S]`, bool) marks false are keys to none.
    pub(crate) fn forward(&self, map: &Tensor, seen: Option<&Tensor>, train: bool) -> Tensor {
        let s = map.size();
        let (b, d, tokens) = (dim(&s, 0), dim(&s, 1), self.side * self.side);
        let x = map.flatten(2, 3).transpose(1, 2);
        let parts = self
            .qkv
            .forward(&x)
            .view([b, tokens, 3, self.heads, -1])
            .permute([2, 0, 3, 1, 4]);
        let (q, k, v) = (parts.get(0), parts.get(1), parts.get(2));
        #[expect(clippy::cast_precision_loss, reason = "a head is a few dozen wide")]
        let scale = (dim(&q.size(), 3) as f64).powf(-0.5);
        let bias = self
            .relative
            .index_select(0, &self.index)
            .view([tokens, tokens, self.heads])
            .permute([2, 0, 1]);
        let mut logits = (q * scale).matmul(&k.transpose(2, 3)) + bias;
        if let Some(seen) = seen {
            logits = logits.masked_fill(&seen.logical_not(), f64::NEG_INFINITY);
        }
        let weights = logits.softmax(-1, Kind::Float).dropout(self.dropout, train);
        let out = weights.matmul(&v).transpose(1, 2).reshape([b, tokens, -1]);
        self.merge
            .forward(&out)
            .dropout(self.dropout, train)
            .transpose(1, 2)
            .reshape([b, d, self.side, self.side])
    }
}

pub(crate) fn norm(path: &nn::Path, width: i64) -> nn::LayerNorm {
    nn::layer_norm(path, vec![width], nn::LayerNormConfig::default())
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    fn numbered(shape: &[i64]) -> Tensor {
        let count: i64 = shape.iter().product();
        Tensor::arange(count, (Kind::Float, Device::Cpu)).view(shape)
    }

    fn values(t: &Tensor) -> Vec<f32> {
        Vec::try_from(t.flatten(0, -1)).unwrap()
    }

    /// A 4 × 4 map 0..16 in 2 × 2 windows, by hand.
    #[test]
    fn blocks_are_contiguous_and_combs_are_spread() {
        let map = numbered(&[1, 1, 1, 4, 4]);
        let window = |t: Tensor, i: i64| values(&t.get(0).get(i));
        assert_eq!(window(blocks(&map, (2, 2)), 0), [0.0, 1.0, 4.0, 5.0]);
        assert_eq!(window(blocks(&map, (2, 2)), 1), [2.0, 3.0, 6.0, 7.0]);
        assert_eq!(window(combs(&map, (2, 2)), 0), [0.0, 2.0, 8.0, 10.0]);
        assert_eq!(window(combs(&map, (2, 2)), 3), [5.0, 7.0, 13.0, 15.0]);
    }

    #[test]
    fn joined_blocks_are_the_mean_over_copies() {
        let map = numbered(&[2, 3, 5, 4, 4]);
        let joined = join(&blocks(&map, (2, 2)), 4, (2, 2));
        let expected = map.mean_dim(1_i64, false, Kind::Float).permute([0, 2, 3, 1]);
        assert_eq!(values(&joined), values(&expected.contiguous()));
    }

    #[test]
    fn padding_is_zeros_right_and_below() {
        let padded = pad(&numbered(&[1, 1, 1, 2, 3]), (2, 2));
        assert_eq!(values(&padded), [0.0, 1.0, 2.0, 0.0, 3.0, 4.0, 5.0, 0.0]);
        assert_eq!(pad(&numbered(&[1, 1, 1, 2, 2]), (2, 2)).size(), [1, 1, 1, 2, 2]);
    }

    /// What unseen queries hold must not matter to the others.
    #[test]
    fn unseen_queries_are_keys_to_none() {
        let vars = nn::VarStore::new(Device::Cpu);
        let attention = SelfAttention::new(&vars.root(), 4, 2, 2, 3, 0.0);
        let seen = Tensor::from_slice(&[true, true, true, true, false, true, true, true, true]);
        let map = numbered(&[1, 4, 3, 3]) / 36.0;
        let hidden =
            Tensor::from_slice(&[0.0_f32, 0.0, 0.0, 0.0, 50.0, 0.0, 0.0, 0.0, 0.0]).view([1, 1, 3, 3]);
        let other = &map + &hidden;
        let run = |map: &Tensor, seen: Option<&Tensor>| {
            let out = attention.forward(map, seen, false).flatten(2, 3);
            values(&Tensor::cat(&[out.narrow(2, 0, 4), out.narrow(2, 5, 4)], 2))
        };
        assert_eq!(run(&map, Some(&seen)), run(&other, Some(&seen)));
        assert_ne!(run(&map, None), run(&other, None));
    }
}
