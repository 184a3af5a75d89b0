//! The orthonormal two-dimensional cosine transform of square patches, as convolutions.
//!
//! After Ahmed, Natarajan and Rao, "Discrete Cosine Transform" (IEEE Trans. Computers, 1974), type II, scaled so that
//! the matrix is orthogonal.

use tch::nn;
use tch::{Kind, Tensor};

use crate::torch::block::{Norm, NormLayer, size};
use crate::torch::layer::{Conv, ConvSpec};

/// Row k is the k-th cosine, sampled at `side` points: `side²` numbers.
fn cosines(side: usize) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "patches have a few pixels a side")]
    let number = |n: usize| n as f64;
    let row = |k: usize| {
        let scale = (if k == 0 { 1.0 } else { 2.0 } / number(side)).sqrt();
        (0..side).map(move |i| {
            scale * (std::f64::consts::PI * (2.0 * number(i) + 1.0) * number(k) / (2.0 * number(side))).cos()
        })
    };
    (0..side).flat_map(row).collect()
}

/// `[side², side²]`: row (k, l) holds, pixel by pixel, the pattern that the coefficient of row k and column l stands for.
pub(crate) fn patterns(side: usize) -> Tensor {
    let rows = Tensor::from_slice(&cosines(side)).view([size(side), size(side)]);
    rows.kron(&rows).to_kind(Kind::Float)
}

/// Coefficients `[B, side², h, w]`, row-major, to the map that they describe, `[B, 1, side · h, side · w]`.
pub(crate) fn inverse(coefficients: &Tensor, patterns: &Tensor, side: usize) -> Tensor {
    let count = size(side * side);
    let turned = patterns.transpose(0, 1).contiguous().view([count, count, 1, 1]);
    coefficients
        .conv2d(&turned, None::<&Tensor>, [1, 1], [0, 0], [1, 1], 1)
        .pixel_shuffle(size(side))
}

/// The coordinates of a `side` × `side` matrix along its anti-diagonals, lower left to upper right, as row-major indices.
pub(crate) fn diagonals(side: usize) -> Vec<Vec<usize>> {
    (0..(2 * side).saturating_sub(1))
        .map(|sum| {
            let first = (sum + 1).saturating_sub(side);
            (first..=sum.min(side - 1))
                .map(|j| (sum - j) * side + j)
                .collect()
        })
        .collect()
}

/// Makes a map `factor` times smaller: the cosine transform of every patch of every channel, some mixtures of its
/// coefficients, then a small network across channels.
///
/// Transform and mixture are both linear, so their product is one strided convolution.
#[derive(Debug)]
pub(crate) struct DctDownsample {
    mixture: Tensor,
    bias: Tensor,
    patterns: Tensor,
    pointwise: Conv,
    depthwise: Conv,
    norm: NormLayer,
    factor: usize,
    channels: i64,
}

impl DctDownsample {
    /// Keeps one in `reduction` coefficients of a channel.
    pub(crate) fn new(
        path: &nn::Path,
        factor: usize,
        reduction: usize,
        from: usize,
        to: usize,
        norm: Norm,
    ) -> Self {
        let count = factor * factor;
        let kept = from * (count / reduction.max(1));
        let first = path / "conv1";
        let second = path / "conv2";
        Self {
            mixture: first.zeros("weight", &[size(kept), size(count), 1, 1]),
            bias: first.zeros("bias", &[size(kept)]),
            patterns: patterns(factor).to_device(path.device()),
            pointwise: ConvSpec::square(kept, to, 1).build(&(&second / 0)),
            depthwise: ConvSpec::square(to, to, 5)
                .groups(to)
                .bias(false)
                .build(&(&second / 1)),
            norm: NormLayer::new(&(&second / 2), size(to), norm),
            factor,
            channels: size(from),
        }
    }

    /// `[B, from, H, W]` to `[B, to, H / factor, W / factor]`.
    pub(crate) fn forward(&self, map: &Tensor, train: bool) -> Tensor {
        let side = size(self.factor);
        let kept = self.bias.numel();
        let kernel = self
            .mixture
            .view([size(kept), side * side])
            .matmul(&self.patterns)
            .view([size(kept), 1, side, side]);
        let mixed = map.conv2d(
            &kernel,
            Some(&self.bias),
            [side, side],
            [0, 0],
            [1, 1],
            self.channels,
        );
        let map = self.depthwise.forward(&self.pointwise.forward(&mixed));
        self.norm.forward(&map, train)
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    fn close(found: &[f64], expected: &[f64], tolerance: f64) {
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() < tolerance, "{found:?} {expected:?}");
        }
        assert_eq!(found.len(), expected.len());
    }

    /// Transforms one patch.
    fn transform(patch: &[f32]) -> Vec<f64> {
        let side = patch.len().isqrt();
        let column = Tensor::from_slice(patch).view([-1, 1]);
        let out = patterns(side)
            .matmul(&column)
            .flatten(0, -1)
            .to_kind(Kind::Double);
        Vec::try_from(out).unwrap()
    }

    #[test]
    fn rows_are_the_published_ones_and_orthonormal() {
        let rows = cosines(8);
        close(&rows[..2], &[0.353_553, 0.353_553], 1e-6);
        close(&rows[8..11], &[0.490_393, 0.415_735, 0.277_785], 1e-6);
        let all = patterns(8).to_kind(Kind::Double);
        let product = all.matmul(&all.transpose(0, 1)) - Tensor::eye(64, (Kind::Double, Device::Cpu));
        assert!(product.abs().max().double_value(&[]) < 1e-6);
    }

    /// A flat patch at ln 5 metres has one coefficient, 8 · ln 5.
    #[test]
    fn a_flat_patch_has_one_coefficient() {
        let coefficients = transform(&[5.0_f32.ln(); 64]);
        close(&coefficients[..1], &[12.875_503], 1e-5);
        assert!(coefficients[1..].iter().all(|c| c.abs() < 1e-5));
    }

    /// `scipy.fft.dctn(x, norm="ortho")` of `SciPy` 1.17.1 for x[y, x] = sin(1 + 3 y + 0.7 x²).
    #[test]
    fn agrees_with_scipy() {
        #[expect(clippy::cast_possible_truncation, reason = "the rounding to f32 is meant")]
        let single = |x: f64| x as f32;
        let patch = |side: u8| -> Vec<f32> {
            (0..side)
                .flat_map(|y| (0..side).map(move |x| (f64::from(y), f64::from(x))))
                .map(|(y, x)| single((1.0 + 3.0 * y + 0.7 * x * x).sin()))
                .collect()
        };
        close(
            &transform(&patch(2)),
            &[0.038_205_0, 0.046_463_4, 1.794_930_8, -0.196_657_3],
            1e-6,
        );
        close(
            &transform(&patch(4)),
            &[
                0.040_615_8,
                0.038_440_3,
                0.155_335_3,
                -0.089_693_8,
                0.735_250_8,
                0.279_245_6,
                0.318_518_1,
                -0.690_184_7,
                0.081_642_2,
                0.077_269_3,
                0.312_240_9,
                -0.180_294_2,
                1.827_073_6,
                0.693_915_8,
                0.791_506_9,
                -1.715_085_9,
            ],
            1e-6,
        );
        let found = transform(&patch(8));
        let picked: Vec<f64> = [0, 1, 8, 9, 18, 27, 36, 45, 54, 63, 7, 56]
            .map(|i: usize| found[i])
            .to_vec();
        close(
            &picked,
            &[
                0.154_653_8,
                0.050_735_3,
                0.082_698_7,
                0.347_443_3,
                -0.132_147_1,
                -0.189_821_6,
                0.074_048_9,
                0.453_846_6,
                -0.732_560_0,
                -1.020_688_9,
                -0.090_924_3,
                0.476_197_3,
            ],
            2e-6,
        );
    }

    #[test]
    fn the_inverse_undoes_the_transform_of_every_patch() {
        let map = Tensor::arange(16 * 24, (Kind::Float, Device::Cpu))
            .view([1, 1, 16, 24])
            .sin();
        let all = patterns(8);
        let kernels = all.view([64, 1, 8, 8]);
        let coefficients = map.conv2d(&kernels, None::<&Tensor>, [8, 8], [0, 0], [1, 1], 1);
        assert_eq!(coefficients.size(), [1, 64, 2, 3]);
        let back = inverse(&coefficients, &all, 8);
        assert!((back - map).abs().max().double_value(&[]) < 1e-5);
    }

    #[test]
    fn diagonals_cover_the_matrix_once() {
        assert_eq!(
            diagonals(3),
            [vec![0], vec![3, 1], vec![6, 4, 2], vec![7, 5], vec![8]]
        );
        let mut all: Vec<usize> = diagonals(8).into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, (0..64).collect::<Vec<_>>());
    }

    /// Against the transform written out: patches, coefficients, mixture.
    #[test]
    fn downsampling_mixes_coefficients_of_each_channel() {
        let vars = nn::VarStore::new(Device::Cpu);
        let down = DctDownsample::new(&vars.root(), 2, 2, 3, 4, Norm::Group(2));
        let weight = Tensor::arange(24, (Kind::Float, Device::Cpu)).sin();
        tch::no_grad(|| down.mixture.shallow_clone().copy_(&weight.view([6, 4, 1, 1])));
        let map = Tensor::arange(48, (Kind::Float, Device::Cpu))
            .view([1, 3, 4, 4])
            .cos();
        let stacked = map.pixel_unshuffle(2).view([3, 4, 4]);
        let coefficients = patterns(2).matmul(&stacked).view([1, 12, 2, 2]);
        let expected = coefficients.conv2d(
            &weight.view([6, 4, 1, 1]),
            None::<&Tensor>,
            [1, 1],
            [0, 0],
            [1, 1],
            3,
        );
        let kernel = down.mixture.view([6, 4]).matmul(&patterns(2)).view([6, 1, 2, 2]);
        let found = map.conv2d(&kernel, None::<&Tensor>, [2, 2], [0, 0], [1, 1], 3);
        assert!((found - expected).abs().max().double_value(&[]) < 1e-5);
        assert_eq!(down.forward(&map, false).size(), [1, 4, 2, 2]);
    }
}
