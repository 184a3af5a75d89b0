//! Divergences from descriptors to which noise was added.

use std::num::NonZeroUsize;

use super::{DivergenceError, Divergences, Gaussian};

/// A descriptor with independent Gaussian noise on every mean and on the logarithm of every variance.
#[derive(Clone, Debug, PartialEq)]
pub struct Noisy {
    /// The noised means and the exponentials of the noised log variances.
    pub gaussian: Gaussian,
    /// Standard deviation of the noise on a mean, in its unit; 0 for none.
    pub mean_sd: f64,
    /// Standard deviation of the noise on a log variance; 0 for none. Above 0.5 the estimate is mostly spread.
    pub log_variance_sd: f64,
}

/// Unbiased estimates, and what had to be done to them to serve as divergences.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Estimates below 0 are 0 in here.
    pub divergences: Divergences,
    /// How many were below 0.
    pub negative: usize,
    /// The least of all before that; infinity without pairs.
    pub least: f64,
}

impl Noisy {
    /// An unbiased estimate of the Jeffreys divergence of the descriptors before the noise. May be negative.
    ///
    /// For noise `N(0, s²)` on means and `N(0, t²)` on log variances, `E exp(±noise) = exp(t²/2)`, so ratios of variances
    /// are divided by the factors of both sides, inverse variances by their own, and `s²` of both sides is taken from each
    /// squared difference of means. Exact for noise on log variances; for noise on second moments only to first order.
    #[must_use]
    pub fn jeffreys(&self, other: &Self) -> f64 {
        let mut spread = 0.0;
        let mut shift = 0.0;
        for ((ma, va), (mb, vb)) in self
            .gaussian
            .mean()
            .iter()
            .zip(self.gaussian.variance())
            .zip(other.gaussian.mean().iter().zip(other.gaussian.variance()))
        {
            spread += (va - vb) * (va - vb) / (va * vb);
            let squared = (ma - mb).powi(2) - self.mean_sd.powi(2) - other.mean_sd.powi(2);
            shift += squared * (self.unbias() / va + other.unbias() / vb);
        }
        #[expect(clippy::cast_precision_loss, reason = "channels are far below 2^52")]
        let channels = self.gaussian.channels().min(other.gaussian.channels()) as f64;
        let ratios = (spread + 2.0 * channels) * self.unbias() * other.unbias();
        0.5 * (ratios - 2.0 * channels + shift)
    }

    /// What turns the exponential of a noised number into an unbiased one.
    fn unbias(&self) -> f64 {
        (-self.log_variance_sd.powi(2) / 2.0).exp()
    }

    /// The estimates of all pairs.
    ///
    /// All clients must have added noise of the same two sizes, as one policy makes them.
    ///
    /// # Errors
    /// [`DivergenceError`] as for [`Divergences::jeffreys`].
    pub fn estimate(clients: &[Self], threads: NonZeroUsize) -> Result<Estimate, DivergenceError> {
        let gaussians: Vec<Gaussian> = clients.iter().map(|client| client.gaussian.clone()).collect();
        let inverse: Vec<f64> = gaussians
            .iter()
            .map(|client| client.variance().iter().map(|value| value.recip()).sum())
            .collect();
        let Some(first) = clients.first() else {
            return Ok(Estimate {
                divergences: Divergences::jeffreys(&[], threads)?,
                negative: 0,
                least: f64::INFINITY,
            });
        };
        if let Some(client) = clients.iter().position(|client| {
            (client.mean_sd, client.log_variance_sd) != (first.mean_sd, first.log_variance_sd)
        }) {
            return Err(DivergenceError::Noise { client });
        }
        #[expect(clippy::cast_precision_loss, reason = "channels are far below 2^52")]
        let channels = first.gaussian.channels() as f64;
        let (noise, factor) = (2.0 * first.mean_sd.powi(2), first.unbias());
        let inverse = |client: usize| inverse.get(client).copied().unwrap_or(f64::NAN);
        let raw = Divergences::from_pairs(&gaussians, threads, |i, j, pair| {
            let ratios = (pair.spread + 2.0 * channels) * factor * factor - 2.0 * channels;
            let shift = (pair.shift - noise * (inverse(i) + inverse(j))) * factor;
            0.5 * (ratios + shift)
        })?;
        Ok(Estimate {
            negative: raw.pairs().iter().filter(|value| **value < 0.0).count(),
            least: raw.pairs().iter().copied().fold(f64::INFINITY, f64::min),
            divergences: raw.clamped(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    /// A standard normal number, by Box and Muller.
    fn normal(rng: &mut ChaCha20Rng) -> f64 {
        let unit = |rng: &mut ChaCha20Rng| (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0;
        (-2.0 * unit(rng).ln()).sqrt() * (std::f64::consts::TAU * unit(rng)).cos()
    }

    fn noised(truth: &Gaussian, s: f64, t: f64, rng: &mut ChaCha20Rng) -> Noisy {
        let mean = truth.mean().iter().map(|value| value + s * normal(rng)).collect();
        let variance = truth
            .variance()
            .iter()
            .map(|value| value * (t * normal(rng)).exp())
            .collect();
        Noisy {
            gaussian: Gaussian::new(mean, variance).unwrap(),
            mean_sd: s,
            log_variance_sd: t,
        }
    }

    /// 16 channels, 10.144 apart. What the plain formula makes of them under noise was measured with another program.
    #[test]
    fn the_estimate_is_right_on_average_and_the_plain_formula_is_not() {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let (a, b) = (1.0774_f64, 0.8288_f64);
        let shift = ((20.288 / 16.0 - (a - b).powi(2) / (a * b)) / (a.recip() + b.recip())).sqrt();
        let truth = [
            Gaussian::new(vec![0.0; 16], vec![a; 16]).unwrap(),
            Gaussian::new(vec![shift; 16], vec![b; 16]).unwrap(),
        ];
        assert!((truth[0].jeffreys(&truth[1]) - 10.144).abs() < 1e-12);
        for (s, t, measured) in [(0.3, 0.2, 14.15), (0.5, 0.5, 25.8)] {
            let rounds = 40_000;
            let (mut sum, mut squares, mut plain) = (0.0, 0.0, 0.0);
            for _ in 0..rounds {
                let (a, b) = (
                    noised(&truth[0], s, t, &mut rng),
                    noised(&truth[1], s, t, &mut rng),
                );
                let estimate = a.jeffreys(&b);
                sum += estimate;
                squares += estimate * estimate;
                plain += a.gaussian.jeffreys(&b.gaussian);
            }
            let n = f64::from(rounds);
            let (mean, plain) = (sum / n, plain / n);
            let error = ((squares / n - mean * mean) / n).sqrt();
            assert!(
                (mean - 10.144).abs() < 4.0 * error && error < 0.05,
                "({s}, {t}): {mean} ± {error}, plain {plain}"
            );
            assert!((plain / measured - 1.0).abs() < 0.01, "({s}, {t}): plain {plain}");
        }
    }

    #[test]
    fn all_pairs_agree_with_one() {
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let truth = Gaussian::new(vec![0.0; 40], vec![1.0; 40]).unwrap();
        let clients: Vec<Noisy> = (0..35).map(|_| noised(&truth, 0.4, 0.3, &mut rng)).collect();
        let threads = NonZeroUsize::new(2).unwrap();
        let all = Noisy::estimate(&clients, threads).unwrap();
        let (mut negative, mut least) = (0, f64::INFINITY);
        for i in 0..35 {
            for j in 0..i {
                let one = clients[i].jeffreys(&clients[j]);
                negative += usize::from(one < 0.0);
                least = least.min(one);
                assert!((all.divergences.at(i, j) - one.max(0.0)).abs() < 1e-9);
            }
        }
        // Equal clients are 0 apart, so about half of the estimates are below.
        assert_eq!(all.negative, negative);
        assert!((all.least - least).abs() < 1e-9 && negative > 100, "{negative}");
        let mut odd = clients.clone();
        odd[3].mean_sd = 0.5;
        assert_eq!(
            Noisy::estimate(&odd, threads),
            Err(DivergenceError::Noise { client: 3 })
        );
        let none = Noisy::estimate(&[], threads).unwrap();
        assert_eq!((none.negative, none.divergences.clients()), (0, 0));
    }

    #[test]
    fn without_noise_it_is_the_divergence() {
        let a = Gaussian::new(vec![0.0, 1.0], vec![1.0, 2.0]).unwrap();
        let b = Gaussian::new(vec![1.0, 1.0], vec![2.0, 2.0]).unwrap();
        let plain = |gaussian: &Gaussian| Noisy {
            gaussian: gaussian.clone(),
            mean_sd: 0.0,
            log_variance_sd: 0.0,
        };
        assert!((plain(&a).jeffreys(&plain(&b)) - 1.0).abs() < 1e-15);
    }
}
