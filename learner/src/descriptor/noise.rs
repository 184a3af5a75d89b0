//! Noise that hides single images: the Gaussian mechanism on means and log variances.
//!
//! Neighbours: one image of the client replaced by any other, the number of images public. Pooled features are positive
//! and clipped to length `C`, so for `n` images
//!
//! * a mean moves by at most `√2 C / n`: two positive vectors in the ball are at most `√2 C` apart;
//! * variances move by at most `√3 C² (n − 1) / n²`: with `m` the mean of the other images, replacing `x` by `y` changes
//!   the variance by `(n − 1)/n² ((y − m)² − (x − m)²)`, each channel by no more than the largest of `x², y², m²`;
//! * log variances, floored at `v₀` that does not depend on the data, by at most that over `v₀`.
//!
//! The two halves get the same share of the budget. Noise is the discrete Gaussian on a grid of 2⁻²⁰ of its standard
//! deviation, so the zero-concentrated privacy `1/(2z²)` of a multiplier `z` is exact; what rounding to the grid adds to
//! the sensitivities is counted.

use rand_core::CryptoRng;

use super::gauss::discrete_gaussian;
use super::{Descriptor, DescriptorError, Summary};

/// What is added, whatever the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Length to which every image's pooled features are clipped.
    pub clip: f64,
    /// Least variance that is told apart. Fixed beforehand, never from the data.
    pub variance_floor: f64,
    /// Standard deviation of the noise over the sensitivity, such as the analytic Gaussian mechanism's for (ε, δ). The
    /// release costs `1/(2z²)` of zero-concentrated differential privacy.
    pub multiplier: f64,
}

/// Standard deviations of the noise in a descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseSizes {
    /// On every mean, in the unit of the features.
    pub mean_sd: f64,
    /// On the natural logarithm of every variance.
    pub log_variance_sd: f64,
}

impl Noise {
    /// The noise for so many images and channels.
    ///
    /// # Errors
    /// [`DescriptorError::Setting`] for a setting that is no positive number, [`DescriptorError::TooFewImages`] for none,
    /// [`DescriptorError::TooNoisy`] if no clusters would survive it.
    pub fn sizes(&self, images: u32, channels: usize) -> Result<NoiseSizes, DescriptorError> {
        let sound = |value: f64| value.is_normal() && value > 0.0;
        if !(sound(self.clip) && sound(self.variance_floor) && sound(self.multiplier)) {
            return Err(DescriptorError::Setting {
                what: "clip, variance floor and noise multiplier must be positive numbers",
            });
        }
        if images == 0 {
            return Err(DescriptorError::TooFewImages { images, required: 1 });
        }
        let count = f64::from(images);
        let mean = 2_f64.sqrt() * self.clip / count;
        let variance = 3_f64.sqrt() * self.clip.powi(2) * (count - 1.0) / count.powi(2);
        // Each half alone with multiplier z √2 costs half of 1/(2z²).
        let half = self.multiplier * 2_f64.sqrt();
        #[expect(clippy::cast_precision_loss, reason = "channels are far below 2^52")]
        let rounding = 1.0 - half * (channels as f64).sqrt() / f64::from(STEPS);
        if rounding < 0.5 {
            return Err(DescriptorError::Setting {
                what: "the noise multiplier is too large for its grid",
            });
        }
        let size = |sensitivity: f64| half * sensitivity * FLOATS / rounding;
        let sizes = NoiseSizes {
            mean_sd: size(mean),
            log_variance_sd: size(variance / self.variance_floor),
        };
        if sizes.log_variance_sd > MAX_LOG_VARIANCE_SD {
            return Err(DescriptorError::TooNoisy {
                log_variance_sd: sizes.log_variance_sd,
            });
        }
        Ok(sizes)
    }
}

impl Summary {
    /// The descriptor with noise: means, and log variances floored at the noise's fixed floor.
    ///
    /// # Errors
    /// [`DescriptorError`]: too few images, a summary that was not clipped at the noise's length, or noise that would
    /// drown the clusters.
    pub fn noised<R: CryptoRng + ?Sized>(
        &self,
        source: [u8; 32],
        noise: &Noise,
        rng: &mut R,
    ) -> Result<Descriptor, DescriptorError> {
        if self.clip.map(f64::to_bits) != Some(noise.clip.to_bits()) {
            return Err(DescriptorError::Clip { expected: noise.clip });
        }
        let variance = self.variance()?;
        let sizes = noise.sizes(self.images, variance.len())?;
        let mut add = |value: f64, size: f64| {
            let step = size / f64::from(STEPS);
            #[expect(
                clippy::cast_precision_loss,
                reason = "noise stays below 2^53 steps but with probability exp(-2^60)"
            )]
            let steps = discrete_gaussian(STEPS, rng) as f64;
            ((value / step).round() + steps) * step
        };
        let mean = self.mean.iter().map(|value| add(*value, sizes.mean_sd)).collect();
        let log = |value: f64| value.max(noise.variance_floor).ln();
        let variance = variance
            .iter()
            .map(|value| add(log(*value), sizes.log_variance_sd).exp())
            .collect();
        self.finish(source, mean, variance, Some(sizes))
    }
}

/// Beyond this the spread of estimated divergences grows out of hand.
pub const MAX_LOG_VARIANCE_SD: f64 = 0.5;
/// Grid steps in a standard deviation.
const STEPS: u32 = 1 << 20;
/// Room for the rounding of sums in double precision.
const FLOATS: f64 = 1.0 + 1e-9;
