//! A client's data as a normal distribution with independent coordinates.

/// Mean and variance of every channel of a client's features.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    mean: Vec<f64>,
    variance: Vec<f64>,
}

impl Gaussian {
    /// From means and variances, one of each per channel, in any unit.
    ///
    /// # Errors
    /// [`GaussianError`] naming the first channel at fault.
    pub fn new(mean: Vec<f64>, variance: Vec<f64>) -> Result<Self, GaussianError> {
        if mean.len() != variance.len() || mean.is_empty() {
            return Err(GaussianError::Length {
                means: mean.len(),
                variances: variance.len(),
            });
        }
        if let Some(channel) = mean.iter().position(|value| !value.is_finite()) {
            return Err(GaussianError::Mean { channel });
        }
        if let Some(channel) = variance
            .iter()
            .position(|value| !(value.is_normal() && *value > 0.0))
        {
            return Err(GaussianError::Variance {
                channel,
                value: variance.get(channel).copied().unwrap_or(f64::NAN),
            });
        }
        Ok(Self { mean, variance })
    }

    /// Number of channels, at least 1.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.mean.len()
    }

    /// The means.
    #[must_use]
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The variances, all positive.
    #[must_use]
    pub fn variance(&self) -> &[f64] {
        &self.variance
    }

    /// The Jeffreys divergence to another, `½ Σ [a/b + b/a − 2 + (μa − μb)² (1/a + 1/b)]` for variances `a` and `b`:
    /// symmetric, 0 for equals, no triangle inequality. Only the channels both have count.
    ///
    /// Summed as `(a − b)²/(ab)`, which is `a/b + b/a − 2` without the loss of digits.
    #[must_use]
    pub fn jeffreys(&self, other: &Self) -> f64 {
        let mut sum = 0.0;
        for ((ma, va), (mb, vb)) in self
            .mean
            .iter()
            .zip(&self.variance)
            .zip(other.mean.iter().zip(&other.variance))
        {
            let (spread, shift) = (va - vb, ma - mb);
            sum += spread / va * (spread / vb) + shift * shift * (va.recip() + vb.recip());
        }
        sum / 2.0
    }
}

/// Why two lists are no [`Gaussian`]. The fault of whoever made the descriptor.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GaussianError {
    /// Lists of different or no length.
    #[error("{means} means and {variances} variances: give one of each per channel, at least one")]
    Length {
        /// Means given.
        means: usize,
        /// Variances given.
        variances: usize,
    },
    /// A mean that is NaN or infinite.
    #[error("the mean of channel {channel} is not finite")]
    Mean {
        /// The channel, from 0.
        channel: usize,
    },
    /// A variance that is zero, negative, NaN, infinite or too small to divide by.
    #[error("the variance of channel {channel} is {value}: it must be positive; floor the variances first")]
    Variance {
        /// The channel, from 0.
        channel: usize,
        /// What was given.
        value: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_pair_is_one_apart() {
        let a = Gaussian::new(vec![0.0, 1.0], vec![1.0, 2.0]).unwrap();
        let b = Gaussian::new(vec![1.0, 1.0], vec![2.0, 2.0]).unwrap();
        // ½ (1/2 + 2 − 2 + 1·(1 + 1/2)) = 1, by hand.
        assert_eq!(a.jeffreys(&b).to_bits(), 1.0_f64.to_bits());
        assert_eq!(b.jeffreys(&a).to_bits(), 1.0_f64.to_bits());
        assert_eq!(a.jeffreys(&a).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn bad_lists_are_named() {
        let bad =
            |mean: &[f64], variance: &[f64]| Gaussian::new(mean.to_vec(), variance.to_vec()).unwrap_err();
        assert_eq!(
            bad(&[1.0], &[]),
            GaussianError::Length {
                means: 1,
                variances: 0
            }
        );
        assert_eq!(
            bad(&[], &[]),
            GaussianError::Length {
                means: 0,
                variances: 0
            }
        );
        assert_eq!(
            bad(&[0.0, f64::NAN], &[1.0, 1.0]),
            GaussianError::Mean { channel: 1 }
        );
        assert_eq!(bad(&[f64::INFINITY], &[1.0]), GaussianError::Mean { channel: 0 });
        for value in [0.0, -1.0, f64::INFINITY, f64::MIN_POSITIVE / 2.0] {
            assert_eq!(
                bad(&[0.0, 0.0], &[1.0, value]),
                GaussianError::Variance { channel: 1, value }
            );
        }
        assert!(matches!(
            bad(&[0.0], &[f64::NAN]),
            GaussianError::Variance { channel: 0, .. }
        ));
    }
}
