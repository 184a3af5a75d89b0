//! The usual scores of monocular depth.

use serde::{Deserialize, Serialize};

/// Depths that count, in metres: `min_m ≤ depth ≤ cap_m`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DepthRange {
    /// Smallest depth that counts. Positive.
    pub min_m: f32,
    /// Largest depth that counts.
    pub cap_m: f32,
}

impl DepthRange {
    /// NYU Depth v2 as the published AdaBins code evaluates it: 1 mm to 10 m.
    pub const NYU: Self = Self {
        min_m: 1e-3,
        cap_m: 10.0,
    };
    /// KITTI as the published AdaBins code evaluates it: 1 mm to 80 m.
    pub const KITTI: Self = Self {
        min_m: 1e-3,
        cap_m: 80.0,
    };

    /// A checked range.
    ///
    /// # Errors
    ///
    /// [`MetricsError::Range`] unless `0 < min_m < cap_m` and both are finite.
    pub fn new(min_m: f32, cap_m: f32) -> Result<Self, MetricsError> {
        if min_m > 0.0 && min_m < cap_m && cap_m.is_finite() {
            Ok(Self { min_m, cap_m })
        } else {
            Err(MetricsError::Range { min_m, cap_m })
        }
    }

    /// Whether a true depth counts. False for 0, NaN and infinity.
    #[must_use]
    pub fn holds(&self, depth_m: f32) -> bool {
        depth_m >= self.min_m && depth_m <= self.cap_m
    }
}

/// The usual scores of monocular depth, of one image or averaged over images.
///
/// `g` is the true and `p` the predicted depth over the image's valid pixels. Definitions after Eigen, Puhrsch and
/// Fergus (2014) as the published AdaBins code computes them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DepthMetrics {
    /// mean |g − p| / g.
    pub abs_rel: f64,
    /// mean (g − p)² / g, metres.
    pub sq_rel: f64,
    /// √ mean (g − p)², metres.
    pub rmse: f64,
    /// √ mean (ln g − ln p)².
    pub rmse_log: f64,
    /// mean |log₁₀ g − log₁₀ p|.
    pub log10: f64,
    /// 100 · √(mean d² − (mean d)²), d = ln p − ln g.
    pub silog: f64,
    /// Share of pixels with max(g/p, p/g) strictly below 1.25.
    pub delta1: f64,
    /// The same below 1.25².
    pub delta2: f64,
    /// The same below 1.25³.
    pub delta3: f64,
}

impl DepthMetrics {
    /// Scores one image. `truth` pixels outside `range` do not count; predictions are clamped into it first, as the
    /// published evaluations do.
    ///
    /// # Errors
    ///
    /// [`MetricsError::NoValidPixel`] if nothing counts, [`MetricsError::Sizes`] if the lengths differ,
    /// [`MetricsError::Prediction`] if a prediction that counts is NaN.
    pub fn of_image(truth: &[f32], prediction: &[f32], range: DepthRange) -> Result<Self, MetricsError> {
        if truth.len() != prediction.len() {
            return Err(MetricsError::Sizes {
                truth: truth.len(),
                prediction: prediction.len(),
            });
        }
        let mut sums = Sums::default();
        for (index, (&g, &p)) in truth.iter().zip(prediction).enumerate() {
            if !range.holds(g) {
                continue;
            }
            if p.is_nan() {
                return Err(MetricsError::Prediction { index });
            }
            sums.add(f64::from(g), f64::from(p.clamp(range.min_m, range.cap_m)));
        }
        sums.finish()
            .ok_or(MetricsError::NoValidPixel { pixels: truth.len() })
    }

    /// The mean over images, each counting once.
    ///
    /// # Errors
    ///
    /// [`MetricsError::NoImages`] for an empty list.
    pub fn mean<'a>(images: impl IntoIterator<Item = &'a Self>) -> Result<Self, MetricsError> {
        let mut total = Self::ZERO;
        let mut count = 0.0;
        for image in images {
            total = total.zip(image, |sum, value| sum + value);
            count += 1.0;
        }
        if count == 0.0 {
            return Err(MetricsError::NoImages);
        }
        Ok(total.zip(&Self::ZERO, |sum, _| sum / count))
    }

    const ZERO: Self = Self {
        abs_rel: 0.0,
        sq_rel: 0.0,
        rmse: 0.0,
        rmse_log: 0.0,
        log10: 0.0,
        silog: 0.0,
        delta1: 0.0,
        delta2: 0.0,
        delta3: 0.0,
    };

    fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            abs_rel: f(self.abs_rel, other.abs_rel),
            sq_rel: f(self.sq_rel, other.sq_rel),
            rmse: f(self.rmse, other.rmse),
            rmse_log: f(self.rmse_log, other.rmse_log),
            log10: f(self.log10, other.log10),
            silog: f(self.silog, other.silog),
            delta1: f(self.delta1, other.delta1),
            delta2: f(self.delta2, other.delta2),
            delta3: f(self.delta3, other.delta3),
        }
    }
}

#[derive(Default)]
struct Sums {
    n: f64,
    abs_rel: f64,
    sq_rel: f64,
    square: f64,
    log: f64,
    log_square: f64,
    log10: f64,
    below: [f64; 3],
}

impl Sums {
    fn add(&mut self, g: f64, p: f64) {
        let error = g - p;
        let log = p.ln() - g.ln();
        self.n += 1.0;
        self.abs_rel += error.abs() / g;
        self.sq_rel += error * error / g;
        self.square += error * error;
        self.log += log;
        self.log_square += log * log;
        self.log10 += (p.log10() - g.log10()).abs();
        let ratio = (g / p).max(p / g);
        for (count, threshold) in self.below.iter_mut().zip([1.25, 1.25 * 1.25, 1.25 * 1.25 * 1.25]) {
            *count += f64::from(u8::from(ratio < threshold));
        }
    }

    fn finish(self) -> Option<DepthMetrics> {
        let n = self.n;
        let [delta1, delta2, delta3] = self.below;
        (n > 0.0).then(|| DepthMetrics {
            abs_rel: self.abs_rel / n,
            sq_rel: self.sq_rel / n,
            rmse: (self.square / n).sqrt(),
            rmse_log: (self.log_square / n).sqrt(),
            log10: self.log10 / n,
            // Rounding can push a zero variance below zero.
            silog: 100.0 * (self.log_square / n - (self.log / n).powi(2)).max(0.0).sqrt(),
            delta1: delta1 / n,
            delta2: delta2 / n,
            delta3: delta3 / n,
        })
    }
}

/// Why there is no score.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// No pixel of the image counts.
    #[error(
        "none of the image's {pixels} pixels has a true depth inside the range: check depth scale, cap and files"
    )]
    NoValidPixel {
        /// Pixels looked at.
        pixels: usize,
    },
    /// No image was scored.
    #[error("no image was evaluated: the test split is empty, or none of its frames has valid depth")]
    NoImages,
    /// Truth and prediction differ in size.
    #[error("true depth has {truth} pixels but the prediction {prediction}: resize one before scoring")]
    Sizes {
        /// Pixels of the truth.
        truth: usize,
        /// Pixels of the prediction.
        prediction: usize,
    },
    /// The network predicted NaN.
    #[error("the prediction at pixel {index} is NaN: the model's weights are broken, load an earlier model")]
    Prediction {
        /// Row-major position.
        index: usize,
    },
    /// A range that holds nothing.
    #[error("depth range {min_m} m to {cap_m} m is unusable: it needs 0 < minimum < cap")]
    Range {
        /// Minimum given.
        min_m: f32,
        /// Cap given.
        cap_m: f32,
    },
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WIDE: DepthRange = DepthRange {
        min_m: 1e-3,
        cap_m: 80.0,
    };

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 2e-6, "{found} is not {expected}");
    }

    /// Golden values computed with the published evaluation formulas.
    #[test]
    fn golden() {
        let m = DepthMetrics::of_image(&[2.0, 4.0, 10.0], &[2.2, 3.0, 14.0], WIDE).unwrap();
        near(m.abs_rel, 0.25);
        near(m.sq_rel, 0.623_333);
        near(m.rmse, 2.383_275);
        near(m.rmse_log, 0.261_444);
        near(m.delta1, 1.0 / 3.0);
        near(m.delta2, 1.0);
        near(m.delta3, 1.0);
        near(m.silog, 25.699_347);
        near(m.log10, 0.104_153);
    }

    #[test]
    fn thresholds_are_strict() {
        // 5/4 and 4/5 are exact in binary, so the ratio is exactly 1.25.
        let at = DepthMetrics::of_image(&[4.0], &[5.0], WIDE).unwrap();
        assert_eq!((at.delta1, at.delta2), (0.0, 1.0));
        let squared = DepthMetrics::of_image(&[16.0], &[25.0], WIDE).unwrap();
        assert_eq!((squared.delta2, squared.delta3), (0.0, 1.0));
        let cubed = DepthMetrics::of_image(&[64.0 / 8.0], &[125.0 / 8.0], WIDE).unwrap();
        assert_eq!([cubed.delta3], [0.0]);
    }

    #[test]
    fn invalid_truth_does_not_count() {
        let truth = [2.0, 0.0, f32::NAN, f32::INFINITY, -1.0, 81.0, 5e-4];
        let prediction = [2.0, 9.0, 9.0, 9.0, 9.0, 9.0, f32::NAN];
        let m = DepthMetrics::of_image(&truth, &prediction, WIDE).unwrap();
        assert_eq!((m.abs_rel, m.rmse, m.delta1), (0.0, 0.0, 1.0));
    }

    #[test]
    fn nothing_to_score_is_an_error() {
        assert_eq!(
            DepthMetrics::of_image(&[0.0, 90.0], &[1.0, 1.0], WIDE),
            Err(MetricsError::NoValidPixel { pixels: 2 })
        );
        assert_eq!(
            DepthMetrics::of_image(&[], &[], WIDE),
            Err(MetricsError::NoValidPixel { pixels: 0 })
        );
        assert_eq!(DepthMetrics::mean([]), Err(MetricsError::NoImages));
        assert_eq!(
            DepthMetrics::of_image(&[1.0], &[f32::NAN], WIDE),
            Err(MetricsError::Prediction { index: 0 })
        );
        assert_eq!(
            DepthMetrics::of_image(&[1.0], &[], WIDE),
            Err(MetricsError::Sizes {
                truth: 1,
                prediction: 0
            })
        );
    }

    #[test]
    fn images_count_once_whatever_their_size() {
        let a = DepthMetrics::of_image(&[2.0], &[1.0], WIDE).unwrap();
        let b = DepthMetrics::of_image(&[2.0; 9], &[2.0; 9], WIDE).unwrap();
        near(DepthMetrics::mean([&a, &b]).unwrap().abs_rel, 0.25);
    }

    #[test]
    fn ranges_are_checked() {
        assert!(DepthRange::new(0.1, 10.0).is_ok());
        for (min, cap) in [
            (0.0, 1.0),
            (2.0, 1.0),
            (1.0, 1.0),
            (f32::NAN, 1.0),
            (0.1, f32::INFINITY),
        ] {
            assert!(DepthRange::new(min, cap).is_err());
        }
    }

    proptest! {
        #[test]
        fn scores_are_finite_and_ordered(pairs in prop::collection::vec((-1.0_f32..100.0, -10.0_f32..200.0), 1..40)) {
            let (truth, prediction): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            if let Ok(m) = DepthMetrics::of_image(&truth, &prediction, WIDE) {
                for value in [m.abs_rel, m.sq_rel, m.rmse, m.rmse_log, m.log10, m.silog] {
                    prop_assert!(value.is_finite() && value >= 0.0);
                }
                prop_assert!(0.0 <= m.delta1 && m.delta1 <= m.delta2 && m.delta2 <= m.delta3 && m.delta3 <= 1.0);
            } else {
                prop_assert!(truth.iter().all(|&g| !WIDE.holds(g)));
            }
        }
    }
}
