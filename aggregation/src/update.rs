//! From an update to integers and back.
//!
//! A client scales its delta by its share of the largest weight, divides by the grid step, rounds stochastically and
//! writes the result modulo 2^m with its weight as one more coordinate:
//!
//! ```text
//! q_i = round(delta_i · w / w_max / step),  step = range / (2^(b-1) - 1),  |q_i| <= 2^(b-1) - 1;   q_d = w
//! ```
//!
//! so the sum over the survivors gives `Σ w·delta / Σ w` = `Σ q_i · step · w_max / Σ w`. Rounding is unbiased: a value
//! between two grid points goes up with the probability of its distance from the lower one. The policy's bit budget
//! proves before training that no sum wraps (`UpdateRule::check`).

use rand_core::CryptoRng;
use veilsum_attestation::statement::UpdateRule;
use zeroize::Zeroize;

/// A client's update in integers, before masking. The last word is the sample weight.
///
/// # Security
/// Must not be sent: it is the plain update.
pub struct Quantised {
    words: Vec<u32>,
    saturated: usize,
}

impl std::fmt::Debug for Quantised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Quantised({} words, {} saturated)",
            self.words.len(),
            self.saturated
        )
    }
}

impl Drop for Quantised {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

impl Quantised {
    /// Quantises a delta of `rule.entries` entries with sample weight `weight`.
    ///
    /// # Errors
    /// [`UpdateError`]: wrong length, weight out of range, or an entry that is not finite. Nothing is kept then.
    pub fn encode<R: CryptoRng + ?Sized>(
        delta: &[f32],
        weight: u32,
        rule: &UpdateRule,
        rng: &mut R,
    ) -> Result<Self, UpdateError> {
        if delta.len() as u64 != rule.entries {
            return Err(UpdateError::Length {
                got: delta.len() as u64,
                want: rule.entries,
            });
        }
        if weight == 0 || weight > rule.max_weight {
            return Err(UpdateError::Weight {
                got: weight,
                max: rule.max_weight,
            });
        }
        if let Some(index) = delta.iter().position(|entry| !entry.is_finite()) {
            return Err(UpdateError::NotFinite { index });
        }
        let top = top(rule);
        let scale = f64::from(weight) / f64::from(rule.max_weight) / step(rule);
        let mut saturated = 0;
        let mut words = Vec::with_capacity(delta.len() + 1);
        let mut dice = Dice::new(rng);
        for entry in delta {
            let value = f64::from(*entry) * scale;
            let floor = value.floor();
            let rounded = if dice.roll() < value - floor {
                floor + 1.0
            } else {
                floor
            };
            let kept = rounded.clamp(-f64::from(top), f64::from(top));
            // A bound the comparison below needs no tolerance for: clamping moved the value or it did not.
            saturated += usize::from((kept - rounded).abs() > 0.5);
            words.push(to_word(kept));
        }
        words.push(weight);
        Ok(Self { words, saturated })
    }

    /// Entries whose magnitude exceeded the range and was cut: a large share means the range is too small.
    #[must_use]
    pub fn saturated(&self) -> usize {
        self.saturated
    }

    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }
}

/// Adds the mean update of a released sum to the model it started from. `sum` is the sum modulo 2^m, its last word the
/// sum of weights. When that is no weight `contributors` clients can have together the model stays as it is: the weight is
/// masked, so whoever spoilt it cannot be told.
///
/// # Errors
/// [`UpdateError::Length`] when model, sum and rule disagree.
pub fn apply(
    model: &[f32],
    sum: &[u32],
    contributors: u32,
    rule: &UpdateRule,
) -> Result<Vec<f32>, UpdateError> {
    let Some((weight, entries)) = sum.split_last() else {
        return Err(UpdateError::NoWeight);
    };
    if entries.len() as u64 != rule.entries || model.len() != entries.len() {
        return Err(UpdateError::Length {
            got: model.len() as u64,
            want: rule.entries,
        });
    }
    let weight = rule.modulus.reduce(*weight);
    if weight == 0 || !weight_is_possible(weight, contributors, rule) {
        return Ok(model.to_vec());
    }
    let unit = step(rule) * f64::from(rule.max_weight) / f64::from(weight);
    Ok(model
        .iter()
        .zip(entries)
        .map(|(entry, word)| narrow(f64::from(*entry) + f64::from(rule.modulus.signed(*word)) * unit))
        .collect())
}

/// Whether `contributors` clients can have this weight together: one each at least, the policy's largest at most.
#[must_use]
pub fn weight_is_possible(weight: u32, contributors: u32, rule: &UpdateRule) -> bool {
    let most = u64::from(contributors) * u64::from(rule.max_weight);
    weight >= contributors && u64::from(weight) <= most
}

/// The largest magnitude of a quantised entry.
fn top(rule: &UpdateRule) -> i32 {
    (1 << (u32::from(rule.value_bits) - 1)) - 1
}

/// The distance of two grid points, in units of a weighted entry.
fn step(rule: &UpdateRule) -> f64 {
    f64::from(rule.range_micros) / 1e6 / f64::from(top(rule))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "clamped to 24 bits before; two's complement is what is meant"
)]
fn to_word(value: f64) -> u32 {
    (value as i32).cast_unsigned()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a model is f32; rounding to nearest is what is meant"
)]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// Uniform numbers in [0, 1) with 32 bits, drawn from the generator in blocks.
struct Dice<'a, R: ?Sized> {
    rng: &'a mut R,
    block: [u8; 1024],
    used: usize,
}

impl<'a, R: CryptoRng + ?Sized> Dice<'a, R> {
    fn new(rng: &'a mut R) -> Self {
        Self {
            rng,
            block: [0; 1024],
            used: 1024,
        }
    }

    fn roll(&mut self) -> f64 {
        if self.used == self.block.len() {
            self.rng.fill_bytes(&mut self.block);
            self.used = 0;
        }
        let four = self
            .block
            .get(self.used..)
            .and_then(|rest| rest.first_chunk::<4>())
            .copied()
            .unwrap_or_default();
        self.used += 4;
        f64::from(u32::from_le_bytes(four)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Why an update does not become integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// Wrong number of entries.
    #[error(
        "an update of {got} entries where the policy says {want}; the learner's network is not the policy's"
    )]
    Length {
        /// Entries given.
        got: u64,
        /// Entries of the policy.
        want: u64,
    },
    /// Sample weight zero or over the policy's largest.
    #[error("sample weight {got} is not between 1 and the policy's {max}")]
    Weight {
        /// Weight given.
        got: u32,
        /// Largest weight.
        max: u32,
    },
    /// NaN or infinity: once masked it would spoil the sum unseen.
    #[error(
        "update entry {index} is not finite; training diverged on this client: lower its learning rate, nothing was sent"
    )]
    NotFinite {
        /// Which entry.
        index: usize,
    },
    /// A sum without a single word.
    #[error("a sum without a weight is no sum")]
    NoWeight,
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use veilsum_crypto::testing::rng;
    use veilsum_crypto::{Digest, Modulus};

    fn rule(entries: u64) -> UpdateRule {
        UpdateRule {
            entries,
            schema: Digest([0; 32]),
            value_bits: 8,
            modulus: Modulus::new(11).unwrap(),
            range_micros: 1_270_000,
            max_weight: 100,
        }
    }

    #[test]
    fn values_on_the_grid_are_exact() {
        // step = 1.27 / 127 = 0.01; full weight.
        let quantised =
            Quantised::encode(&[0.5, -0.25, 1.27, 9.0, -9.0], 100, &rule(5), &mut rng(1)).unwrap();
        let signed: Vec<i32> = quantised.words().iter().map(|word| word.cast_signed()).collect();
        assert_eq!(&signed[2..], &[127, 127, -127, 100]);
        // 0.5f32 is on the grid to within its own precision, so rounding may move it by at most one step.
        assert!((49..=51).contains(&signed[0]) && (-26..=-24).contains(&signed[1]));
        assert_eq!(quantised.saturated(), 2);
    }

    #[test]
    fn rounding_is_unbiased() {
        let (delta, n) = (0.0137_f32, 40_000);
        let quantised = Quantised::encode(&vec![delta; n], 100, &rule(n as u64), &mut rng(2)).unwrap();
        let mean = quantised.words()[..n]
            .iter()
            .map(|word| f64::from(word.cast_signed()))
            .sum::<f64>()
            / n as f64
            * 0.01;
        // Variance of one rounding is p(1-p) step^2 with p = 0.37: standard error 0.0000241; six of them.
        assert!((mean - f64::from(delta)).abs() < 1.45e-4, "{mean}");
    }

    #[test]
    fn what_cannot_be_summed_is_named() {
        let encode = |delta: &[f32], weight| Quantised::encode(delta, weight, &rule(2), &mut rng(1)).err();
        assert_eq!(encode(&[0.0], 1), Some(UpdateError::Length { got: 1, want: 2 }));
        assert_eq!(
            encode(&[0.0, f32::NAN], 1),
            Some(UpdateError::NotFinite { index: 1 })
        );
        assert_eq!(
            encode(&[f32::INFINITY, 0.0], 1),
            Some(UpdateError::NotFinite { index: 0 })
        );
        assert_eq!(
            encode(&[0.0, 0.0], 0),
            Some(UpdateError::Weight { got: 0, max: 100 })
        );
        assert_eq!(
            encode(&[0.0, 0.0], 101),
            Some(UpdateError::Weight { got: 101, max: 100 })
        );
        // Two clients of weight 1 to 100 each: what they cannot have together moves nothing.
        for weight in [0, 1, 201, u32::MAX] {
            assert_eq!(
                apply(&[0.5, 0.0], &[1, 2, weight], 2, &rule(2)),
                Ok(vec![0.5, 0.0])
            );
        }
        for weight in [2, 200] {
            assert_ne!(
                apply(&[0.5, 0.0], &[1, 2, weight], 2, &rule(2)),
                Ok(vec![0.5, 0.0])
            );
        }
    }

    proptest! {
        #[test]
        fn the_mean_comes_back_within_the_grid(
            clients in prop::collection::vec((prop::collection::vec(-1.2f32..1.2, 6), 1u32..=100), 1..8),
            seed: u64,
        ) {
            let rule = rule(6);
            let mut rng = rng(seed);
            let mut sum = vec![0u32; 7];
            for (delta, weight) in &clients {
                let quantised = Quantised::encode(delta, *weight, &rule, &mut rng).unwrap();
                for (total, word) in sum.iter_mut().zip(quantised.words()) {
                    *total = total.wrapping_add(*word);
                }
            }
            let total: u32 = clients.iter().map(|(_, weight)| weight).sum();
            let model = vec![0.25f32; 6];
            let contributors = u32::try_from(clients.len()).unwrap();
            let moved = apply(&model, &sum, contributors, &rule).unwrap();
            for (i, value) in moved.iter().enumerate() {
                let mean: f64 = clients.iter().map(|(delta, weight)| f64::from(delta[i]) * f64::from(*weight)).sum::<f64>()
                    / f64::from(total);
                // Each client is off by less than one step, in units of max_weight / total.
                let bound = clients.len() as f64 * 0.01 * 100.0 / f64::from(total) + 1e-6;
                prop_assert!((f64::from(*value) - 0.25 - mean).abs() <= bound);
            }
        }
    }
}
