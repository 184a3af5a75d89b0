//! Attention within windows of a map, every second time within shifted windows.
//!
//! After Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows" (ICCV 2021), section 3.2.
//! The same block, with values given from outside, is a window of a fully connected conditional random field: Yuan et al.,
//! "NeW CRFs: Neural Window Fully-connected CRFs for Monocular Depth Estimation" (CVPR 2022), section 3.3.

use tch::nn::{self, Module};
use tch::{Device, Kind, Tensor};

use crate::torch::block::size;
use crate::torch::layer::{layer_norm, linear};
use crate::torch::pass::Pass;

/// What is added to a logit between pixels that a shift brought into one window from opposite borders.
const APART: f32 = -100.0;

/// How a map is cut into windows. Zeros fill the last ones up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    side: i64,
    height: i64,
    width: i64,
}

impl Windows {
    pub(crate) fn new(side: usize, height: i64, width: i64) -> Self {
        Self {
            side: size(side).max(1),
            height,
            width,
        }
    }

    fn rows(self) -> i64 {
        (self.height + self.side - 1) / self.side
    }

    fn columns(self) -> i64 {
        (self.width + self.side - 1) / self.side
    }

    fn shift(self, shifted: bool) -> i64 {
        if shifted { self.side / 2 } else { 0 }
    }

    /// `[B, H, W, C]` to `[B · windows, side², C]`.
    fn cut(self, map: &Tensor, shifted: bool) -> Tensor {
        let (batch, _, _, channels) = map.size4().unwrap_or_default();
        let (rows, columns, side, shift) = (self.rows(), self.columns(), self.side, self.shift(shifted));
        let (below, right) = (rows * side - self.height, columns * side - self.width);
        let map = if below + right > 0 {
            map.constant_pad_nd([0, 0, 0, right, 0, below])
        } else {
            map.shallow_clone()
        };
        let map = if shift > 0 {
            map.roll([-shift, -shift], [1, 2])
        } else {
            map
        };
        map.view([batch, rows, side, columns, side, channels])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([-1, side * side, channels])
    }

    /// Undoes [`Windows::cut`].
    fn join(self, windows: &Tensor, shifted: bool) -> Tensor {
        let channels = windows.size().last().copied().unwrap_or(0);
        let (rows, columns, side, shift) = (self.rows(), self.columns(), self.side, self.shift(shifted));
        let map = windows
            .view([-1, rows, columns, side, side, channels])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([-1, rows * side, columns * side, channels]);
        let map = if shift > 0 {
            map.roll([shift, shift], [1, 2])
        } else {
            map
        };
        if rows * side > self.height || columns * side > self.width {
            map.narrow(1, 0, self.height)
                .narrow(2, 0, self.width)
                .contiguous()
        } else {
            map
        }
    }

    /// `[windows, 1, side², side²]`: what keeps pixels apart that only a shift made neighbours.
    pub(crate) fn mask(self, device: Device) -> Tensor {
        let region = |at: i64, length: i64| {
            i64::from(at >= length - self.side) + i64::from(at >= length - self.shift(true))
        };
        let (high, wide) = (self.rows() * self.side, self.columns() * self.side);
        #[expect(clippy::cast_precision_loss, reason = "nine regions")]
        let regions: Vec<f32> = (0..high)
            .flat_map(|y| (0..wide).map(move |x| (y, x)))
            .map(|(y, x)| (3 * region(y, high) + region(x, wide)) as f32)
            .collect();
        let regions = Tensor::from_slice(&regions).view([1, high, wide, 1]);
        let regions = self.cut_whole(&regions);
        let apart = regions.unsqueeze(1).not_equal_tensor(&regions.unsqueeze(2));
        (apart.to_kind(Kind::Float) * f64::from(APART))
            .unsqueeze(1)
            .to_device(device)
    }

    /// Regions are numbered on the padded map as it lies after the shift.
    fn cut_whole(self, padded: &Tensor) -> Tensor {
        let whole = Self {
            height: self.rows() * self.side,
            width: self.columns() * self.side,
            ..self
        };
        whole.cut(padded, false).squeeze_dim(-1)
    }
}

/// Sizes of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSpec {
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) window: usize,
    /// Whether windows are shifted by half their side.
    pub(crate) shifted: bool,
    /// Whether values come from outside and are taken as they are.
    pub(crate) given_values: bool,
    /// Share of pictures for which a branch is left out in training.
    pub(crate) drop_path: f64,
}

/// Attention and a two-layer perceptron, each behind a norm and around a shortcut.
#[derive(Debug)]
pub(crate) struct WindowBlock {
    norm1: nn::LayerNorm,
    project: nn::Linear,
    out: nn::Linear,
    /// `[(2 · side − 1)², heads]`: one number a head for every offset between two pixels.
    offsets: Tensor,
    index: Tensor,
    norm2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
    spec: BlockSpec,
}

impl WindowBlock {
    pub(crate) fn new(path: &nn::Path, spec: BlockSpec) -> Self {
        let (width, side) = (spec.width, size(spec.window));
        let attention = path / "attn";
        let (name, parts) = if spec.given_values { ("qk", 2) } else { ("qkv", 3) };
        let offsets = (2 * side - 1) * (2 * side - 1);
        Self {
            norm1: layer_norm(&(path / "norm1"), width),
            project: linear(&(&attention / name), width, parts * width, true),
            out: linear(&(&attention / "proj"), width, width, true),
            offsets: attention.zeros("relative_position_bias_table", &[offsets, size(spec.heads)]),
            index: Tensor::from_slice(&offset_index(side)).to_device(path.device()),
            norm2: layer_norm(&(path / "norm2"), width),
            up: linear(&(path / "mlp" / "fc1"), width, 4 * width, true),
            down: linear(&(path / "mlp" / "fc2"), 4 * width, width, true),
            spec,
        }
    }

    /// `map` is `[B, H, W, C]` and so are `values`, if the block takes them; `mask` is that of the shifted windows.
    pub(crate) fn forward(
        &self,
        map: &Tensor,
        values: Option<&Tensor>,
        windows: Windows,
        mask: &Tensor,
        pass: &mut Pass,
    ) -> Tensor {
        let shifted = self.spec.shifted;
        let tokens = windows.cut(&self.norm1.forward(map), shifted);
        let values = values.map(|v| windows.cut(v, shifted));
        let mixed = self.attend(&tokens, values.as_ref(), shifted.then_some(mask));
        let mixed = windows.join(&mixed, shifted);
        let map = map + pass.drop_path(mixed, self.spec.drop_path);
        let wide = self.up.forward(&self.norm2.forward(&map)).gelu("none");
        &map + pass.drop_path(self.down.forward(&wide), self.spec.drop_path)
    }

    fn attend(&self, tokens: &Tensor, values: Option<&Tensor>, mask: Option<&Tensor>) -> Tensor {
        let (all, count, width) = tokens.size3().unwrap_or_default();
        let heads = size(self.spec.heads);
        let each = width / heads.max(1);
        let split =
            |t: &Tensor, parts: i64| t.view([all, count, parts, heads, each]).permute([2, 0, 3, 1, 4]);
        let parts = if values.is_some() { 2 } else { 3 };
        let projected = split(&self.project.forward(tokens), parts);
        let (query, key) = (projected.select(0, 0), projected.select(0, 1));
        let value = values.map_or_else(|| projected.select(0, 2), |v| split(v, 1).select(0, 0));
        #[expect(clippy::cast_precision_loss, reason = "a head's width is small")]
        let scale = 1.0 / (each as f64).sqrt();
        let bias = self
            .offsets
            .index_select(0, &self.index)
            .view([count, count, heads])
            .permute([2, 0, 1])
            .unsqueeze(0);
        let logits = (query * scale).matmul(&key.transpose(-2, -1));
        let logits = match mask {
            None => logits + bias,
            Some(mask) => {
                let windows = mask.size().first().copied().unwrap_or(1);
                (logits.view([-1, windows, heads, count, count]) + (bias + mask))
                    .view([all, heads, count, count])
            }
        };
        let mixed = logits
            .softmax(-1, Kind::Float)
            .matmul(&value)
            .transpose(1, 2)
            .reshape([all, count, width]);
        self.out.forward(&mixed)
    }
}

/// For every pair of a window's pixels the row of their offset in the table: `side⁴` numbers, the first pixel's outermost.
fn offset_index(side: i64) -> Vec<i64> {
    let pixels = || (0..side).flat_map(move |y| (0..side).map(move |x| (y, x)));
    pixels()
        .flat_map(|(y, x)| {
            pixels().map(move |(v, u)| (y - v + side - 1) * (2 * side - 1) + (x - u + side - 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use tch::nn::VarStore;

    use super::*;
    use crate::torch::initial::draw;

    fn ramp(height: i64, width: i64) -> Tensor {
        Tensor::arange(height * width, (Kind::Float, Device::Cpu)).view([1, height, width, 1])
    }

    fn spec(shifted: bool, given_values: bool) -> BlockSpec {
        BlockSpec {
            width: 4,
            heads: 2,
            window: 3,
            shifted,
            given_values,
            drop_path: 0.0,
        }
    }

    fn block(spec: BlockSpec) -> WindowBlock {
        let vars = VarStore::new(Device::Cpu);
        let block = WindowBlock::new(&(vars.root() / "block"), spec);
        draw(&vars, 4).unwrap();
        block
    }

    #[test]
    fn cut_and_join_are_inverse_with_padding_and_shift() {
        for (height, width) in [(6, 9), (5, 7), (2, 3)] {
            let windows = Windows::new(3, height, width);
            for shifted in [false, true] {
                let map = ramp(height, width);
                let back = windows.join(&windows.cut(&map, shifted), shifted);
                assert!(back.equal(&map), "{height}x{width} {shifted}");
            }
        }
    }

    /// A 3 x 6 map in windows of side 2 shifted by one, by hand: row 0 ends up in the last row of windows, and there
    /// pixels of rows 2, 3 (padding) meet those of row 0.
    #[test]
    fn the_mask_parts_what_the_shift_joined() {
        let mask = Windows::new(2, 3, 6).mask(Device::Cpu);
        assert_eq!(mask.size(), [6, 1, 4, 4]);
        let window = |n: i64| Vec::<f32>::try_from(mask.select(0, n).flatten(0, -1)).unwrap();
        assert_eq!(window(0), [0.0; 16]);
        let (o, x) = (0.0, APART);
        // The upper right window: its left column is column 5, its right one column 0.
        assert_eq!(window(2), [o, x, o, x, x, o, x, o, o, x, o, x, x, o, x, o]);
        // The lower left one: row 3 over row 0.
        assert_eq!(window(3), [o, o, x, x, o, o, x, x, x, x, o, o, x, x, o, o]);
        // The lower right one: four regions.
        assert_eq!(window(5), [o, x, x, x, x, o, x, x, x, x, o, x, x, x, x, o]);
    }

    #[test]
    fn offsets_are_numbered_as_published() {
        // Side 2: pixels (0,0), (0,1), (1,0), (1,1); equal pixels have the middle offset 4.
        assert_eq!(offset_index(2), [4, 3, 1, 0, 5, 4, 2, 1, 7, 6, 4, 3, 8, 7, 5, 4]);
    }

    /// What a pixel can see: only its own window, and through a shift never the opposite border.
    #[test]
    fn a_change_stays_within_its_window() {
        for shifted in [false, true] {
            let block = block(spec(shifted, false));
            let windows = Windows::new(3, 6, 6);
            let mask = windows.mask(Device::Cpu);
            let map = Tensor::arange(144, (Kind::Float, Device::Cpu))
                .view([1, 6, 6, 4])
                .sin();
            let changed = map.copy();
            let _ = changed.select(1, 0).select(1, 0).fill_(3.0);
            let run =
                |m: &Tensor| tch::no_grad(|| block.forward(m, None, windows, &mask, &mut Pass::evaluate()));
            let moved = (run(&map) - run(&changed))
                .abs()
                .amax([3].as_slice(), false)
                .squeeze_dim(0);
            // Windows begin at 1 and 4 after a shift by one; row and column 0 are alone there.
            let reach = if shifted { 1 } else { 3 };
            for y in 0..6 {
                for x in 0..6 {
                    let inside = y < reach && x < reach;
                    let moved = moved.double_value(&[y, x]);
                    assert_eq!(moved > 1e-6, inside, "{shifted} {y} {x} {moved}");
                }
            }
        }
    }

    #[test]
    fn given_values_are_mixed_unprojected() {
        let block = block(spec(false, true));
        let windows = Windows::new(3, 3, 3);
        let mask = windows.mask(Device::Cpu);
        let map = Tensor::arange(36, (Kind::Float, Device::Cpu))
            .view([1, 3, 3, 4])
            .cos();
        let tokens = windows.cut(&block.norm1.forward(&map), false);
        // Equal values everywhere: whatever the attention, their mixture is the value itself.
        let value = Tensor::from_slice(&[1.0_f32, -2.0, 3.0, 0.5]).expand([1, 9, 4], false);
        let mixed = block.attend(&tokens, Some(&value.contiguous()), None);
        let expected = block.out.forward(&value);
        assert!((mixed - expected).abs().max().double_value(&[]) < 1e-5);
        let _ = mask;
    }
}
