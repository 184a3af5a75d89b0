//! Is each new model the old one plus the mean update?
//!
//! A sum's entry `s` is a signed residue, its last word the sum `W` of sample weights. With the policy's range `R`,
//! largest weight `w` and value bits `b`, and every step in `f64`:
//!
//! ```text
//! step = R / 10^6 / (2^(b-1) - 1)        new = f32(old + s · (step · w / W))
//! ```
//!
//! rounded to nearest once, at the end: bit for bit what the server published, or not at all. The weight is masked like
//! everything else, so a client may put anything there. When `W` is none that the contributors can have together
//! (fewer than one each, or more than the policy's largest each) the model stays as it is.

use crate::model::ModelHasher;
use crate::statement::UpdateRule;
use std::collections::BTreeMap;
use veilsum_crypto::Digest;

/// The models an auditor holds, each for as long as a later sum starts from it.
#[derive(Default)]
pub(super) struct Shelf {
    models: BTreeMap<Digest, Vec<f32>>,
    /// How many sums still to be checked start from a model.
    uses: BTreeMap<Digest, usize>,
}

/// What a sum makes of the model it starts from.
#[derive(Debug, PartialEq)]
pub(super) enum Moved {
    /// The bundle does not have the model.
    NotHere,
    /// The sum is no sum for this model.
    NoFit,
    /// Another model than the one said.
    Other,
    /// The model said. It is on the shelf now if a later sum starts from it.
    AsSaid,
}

impl Shelf {
    /// Expects one more sum that starts from `model`.
    pub(super) fn expect(&mut self, model: Digest) {
        *self.uses.entry(model).or_insert(0) += 1;
    }

    /// Puts a model on the shelf, if a sum still to be checked starts from it.
    pub(super) fn keep(&mut self, digest: Digest, model: Vec<f32>) {
        if self.uses.contains_key(&digest) {
            self.models.insert(digest, model);
        }
    }

    /// Whether a sum still to be checked starts from a model.
    pub(super) fn expects(&self, digest: &Digest) -> bool {
        self.uses.contains_key(digest)
    }

    /// A model, if it is here.
    pub(super) fn get(&self, digest: &Digest) -> Option<&[f32]> {
        self.models.get(digest).map(Vec::as_slice)
    }

    /// Moves the model one sum starts from by that sum, and compares it with the digest of the one it is said to lead to.
    pub(super) fn moved(
        &mut self,
        from: Digest,
        to: Digest,
        sum: &[u32],
        contributors: u32,
        rule: &UpdateRule,
    ) -> Moved {
        let mut kept = self.expects(&to).then(Vec::new);
        let moved = match self.models.get(&from) {
            None => Moved::NotHere,
            Some(model) => match sum.split_last() {
                Some((weight, entries)) if entries.len() == model.len() => {
                    // Hashed while it is made: it is not needed whole unless a later sum starts from it.
                    let mut hasher = ModelHasher::new(model.len());
                    for (model, entries) in model.chunks(PIECE).zip(entries.chunks(PIECE)) {
                        let piece = mean_update(model, entries, *weight, contributors, rule);
                        hasher.entries(&piece);
                        if let Some(kept) = &mut kept {
                            kept.extend(piece);
                        }
                    }
                    if hasher.finish() == to {
                        Moved::AsSaid
                    } else {
                        Moved::Other
                    }
                }
                _ => Moved::NoFit,
            },
        };
        self.done_with(from);
        if moved == Moved::AsSaid
            && let Some(model) = kept
        {
            self.keep(to, model);
        }
        moved
    }

    /// One sum fewer starts from the model.
    pub(super) fn done_with(&mut self, digest: Digest) {
        if let Some(left) = self.uses.get_mut(&digest) {
            *left -= 1;
            if *left == 0 {
                self.uses.remove(&digest);
                self.models.remove(&digest);
            }
        }
    }
}

/// Entries of the old model plus the mean update, from as many entries of the sum and its weight.
pub(super) fn mean_update(
    model: &[f32],
    entries: &[u32],
    weight: u32,
    contributors: u32,
    rule: &UpdateRule,
) -> Vec<f32> {
    let weight = rule.modulus.reduce(weight);
    let most = u64::from(contributors) * u64::from(rule.max_weight);
    if weight == 0 || weight < contributors || u64::from(weight) > most {
        return model.to_vec();
    }
    let largest = (1u32 << rule.value_bits.saturating_sub(1).min(31)) - 1;
    let step = f64::from(rule.range_micros) / 1e6 / f64::from(largest);
    let unit = step * f64::from(rule.max_weight) / f64::from(weight);
    let moved = model.iter().zip(entries).map(|(old, entry)| {
        let residue = f64::from(rule.modulus.signed(*entry));
        nearest(f64::from(*old) + residue * unit)
    });
    moved.collect()
}

/// Entries made at a time: what stays in the nearest cache.
const PIECE: usize = 2048;

#[expect(
    clippy::cast_possible_truncation,
    reason = "a model is f32; rounding to nearest is what is meant"
)]
fn nearest(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_digest;
    use veilsum_crypto::Modulus;

    fn rule() -> UpdateRule {
        UpdateRule {
            entries: 3,
            schema: Digest([0; 32]),
            value_bits: 8,
            modulus: Modulus::new(11).unwrap(),
            range_micros: 1_270_000,
            max_weight: 100,
        }
    }

    #[test]
    fn a_hand_computed_mean() {
        // step = 1.27 / 127 = 0.01; two clients of weight 50 and 25 sent q = 25 and q = -5: Σ w·delta / Σ w is
        // (25 - 5) · 0.01 · 100 / 75.
        let sum = [20, 2048 - 75, 0];
        let moved = mean_update(&[1.0, 0.0, 2.5], &sum, 75, 2, &rule());
        let want = [1.0 + 20.0 * 0.01 * 100.0 / 75.0, -1.0, 2.5];
        for (got, want) in moved.iter().zip(want) {
            assert!((f64::from(*got) - want).abs() < 1e-6, "{got} {want}");
        }
        // Weights that two clients of at most 100 each cannot have: the model stays.
        for weight in [0, 1, 201, 2047] {
            let kept = mean_update(&[1.0, 0.0, 2.5], &sum, weight, 2, &rule());
            assert_eq!(kept, [1.0, 0.0, 2.5], "{weight}");
        }
    }

    #[test]
    fn a_model_stays_as_long_as_a_sum_starts_from_it() {
        let rule = UpdateRule { entries: 1, ..rule() };
        let mut shelf = Shelf::default();
        // A weight of one and no update: the model stays as it is.
        let (first, other) = (model_digest(&[1.0]), Digest([2; 32]));
        for _ in 0..3 {
            shelf.expect(first);
        }
        shelf.keep(first, vec![1.0]);
        shelf.keep(other, vec![1.0]);
        assert_eq!(shelf.moved(other, first, &[0, 1], 1, &rule), Moved::NotHere);
        assert_eq!(shelf.moved(first, first, &[0, 0, 1], 1, &rule), Moved::NoFit);
        assert_eq!(shelf.moved(first, other, &[0, 1], 1, &rule), Moved::Other);
        assert_eq!(shelf.moved(first, first, &[0, 1], 1, &rule), Moved::AsSaid);
        assert_eq!(shelf.moved(first, first, &[0, 1], 1, &rule), Moved::NotHere);
    }

    #[test]
    fn a_model_made_by_a_sum_is_kept_for_the_next() {
        let rule = UpdateRule { entries: 3, ..rule() };
        let (sum, start) = ([20, 2048 - 75, 0, 75], [1.0, 0.0, 2.5]);
        let next = mean_update(&start, &sum[..3], 75, 2, &rule);
        let (from, to) = (model_digest(&start), model_digest(&next));
        let mut shelf = Shelf::default();
        shelf.expect(from);
        shelf.expect(to);
        shelf.keep(from, start.to_vec());
        assert_eq!(shelf.moved(from, to, &sum, 2, &rule), Moved::AsSaid);
        assert_eq!(shelf.get(&to), Some(next.as_slice()));
    }
}
