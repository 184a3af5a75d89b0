//! Which chunks a spot check looks at, and what that is worth.
//!
//! Of n chunks of which k are bad, s drawn without replacement all miss with probability C(n-k, s) / C(n, s).

use std::collections::BTreeSet;
use std::fmt::Write;
use veilsum_crypto::Digest;
use veilsum_crypto::label::Label;

/// How many chunks of each sum are looked at, and what draws them.
#[derive(Clone, Debug)]
pub struct Sample {
    /// How many.
    pub share: Share,
    /// Any text, chosen after the bundle was handed over: who knows it can cheat where nobody looks.
    pub seed: Vec<u8>,
}

/// A number of chunks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// So many of each sum.
    Count(usize),
    /// This part of each sum, above 0 and up to 1, rounded up.
    Fraction(f64),
}

impl Sample {
    /// The chunks drawn of a sum that has `count`: the last one and others by the seed.
    pub(super) fn draw(&self, name: (u64, u32, u16), count: usize) -> BTreeSet<usize> {
        let wanted = self.size(count);
        let Some(last) = count.checked_sub(1) else {
            return BTreeSet::new();
        };
        let mut drawn = BTreeSet::from([last]);
        let mut rest: Vec<usize> = (0..last).collect();
        for roll in 0u64.. {
            if drawn.len() >= wanted || rest.is_empty() {
                break;
            }
            let Digest(hash) = SPOT.hash(&[
                &self.seed,
                &name.0.to_le_bytes(),
                &name.1.to_le_bytes(),
                &name.2.to_le_bytes(),
                &roll.to_le_bytes(),
            ]);
            // 64 bits over at most 131,073 chunks: the bias is below 2^-46.
            let (low, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
            let at = u64::from_le_bytes(*low) % rest.len() as u64;
            drawn.insert(rest.swap_remove(usize::try_from(at).unwrap_or(0)));
        }
        drawn
    }

    fn size(&self, count: usize) -> usize {
        let wanted = match self.share {
            Share::Count(chunks) => chunks,
            Share::Fraction(part) => part_of(count, part),
        };
        wanted.clamp(1, count.max(1))
    }

    /// What the sample is worth, in words: `found` with its probability for one bad chunk and for 1 and 5 % of them.
    #[must_use]
    pub fn worth(&self, count: usize) -> String {
        let drawn = self.size(count);
        let mut text = format!("spot check: {drawn} of {count} chunks of each sum recomputed");
        let mut told = BTreeSet::new();
        for bad in [1, count.div_ceil(100), count.div_ceil(20)] {
            if told.insert(bad) {
                let found = 100.0 * detection(count, drawn, bad);
                let mark = if told.len() == 1 { ";" } else { "," };
                let _ = write!(
                    text,
                    "{mark} {bad} bad of {count} would be found with {found:.1} %"
                );
            }
        }
        text
    }
}

/// The probability that `drawn` chunks of `count`, the last one among them for certain, hold at least one of `bad` bad ones
/// that lie at random among the others.
#[must_use]
pub fn detection(count: usize, drawn: usize, bad: usize) -> f64 {
    let (others, free) = (count.saturating_sub(1), drawn.saturating_sub(1));
    if bad == 0 {
        return 0.0;
    }
    if bad > others.saturating_sub(free) {
        return 1.0;
    }
    let missed = (0..bad).map(|k| ratio(others - free - k, others - k));
    1.0 - missed.product::<f64>()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of chunks are far below 2^52")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a number of chunks, rounded up"
)]
fn part_of(count: usize, part: f64) -> usize {
    (count as f64 * part.clamp(0.0, 1.0)).ceil() as usize
}

const SPOT: Label = Label::new("spot-check");

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(share: Share) -> Sample {
        Sample {
            share,
            seed: b"dice".to_vec(),
        }
    }

    #[test]
    fn a_sample_has_its_size_and_the_last_chunk_and_follows_the_seed() {
        for count in 1..60 {
            for chunks in [1, 2, 7, 59, 100] {
                let one = sample(Share::Count(chunks)).draw((1, 0, 2), count);
                assert_eq!(one.len(), chunks.min(count));
                assert!(one.contains(&(count - 1)) && one.iter().all(|index| *index < count));
            }
        }
        let draw = |seed: &[u8], name| {
            let seed = seed.to_vec();
            Sample {
                share: Share::Fraction(0.2),
                seed,
            }
            .draw(name, 50)
        };
        assert_eq!(draw(b"a", (1, 0, 0)), draw(b"a", (1, 0, 0)));
        assert_eq!(draw(b"a", (1, 0, 0)).len(), 10);
        for other in [
            draw(b"b", (1, 0, 0)),
            draw(b"a", (2, 0, 0)),
            draw(b"a", (1, 1, 0)),
            draw(b"a", (1, 0, 1)),
        ] {
            assert_ne!(draw(b"a", (1, 0, 0)), other);
        }
    }

    /// Counted over all placements of the bad chunks among those not drawn for certain.
    #[test]
    fn the_probability_is_that_of_counting() {
        let count = 9usize;
        for drawn in 1..=count {
            // By symmetry any fixed choice of the free ones will do.
            let chosen: u32 = (1 << (drawn - 1)) - 1;
            for bad in 1..count {
                let (mut found, mut all) = (0u32, 0u32);
                for set in 0u32..1 << (count - 1) {
                    if set.count_ones() as usize == bad {
                        all += 1;
                        found += u32::from(set & chosen != 0);
                    }
                }
                let want = f64::from(found) / f64::from(all);
                assert!(
                    (detection(count, drawn, bad) - want).abs() < 1e-12,
                    "{drawn} {bad}"
                );
            }
        }
        // 300 chunks at random find a change in 1 % of 10^5 with 95 %.
        assert!((detection(100_000, 301, 1_000) - 0.951).abs() < 1e-3);
        assert!(detection(10, 10, 1) > 1.0 - 1e-12);
        assert!(detection(10, 3, 0) < 1e-12);
    }

    /// Draws really are uniform: each of the other chunks about equally often.
    #[test]
    fn every_chunk_is_drawn_about_as_often() {
        let (count, rounds, drawn) = (20, 4000u64, 5);
        let mut hits = vec![0u32; count];
        for round in 0..rounds {
            for index in sample(Share::Count(drawn)).draw((round, 0, 0), count) {
                hits[index] += 1;
            }
        }
        assert_eq!(hits[count - 1], 4000);
        // Expected 4000 · 4/19 = 842 with a standard deviation of 26; six of them either way.
        for (index, hits) in hits.iter().enumerate().take(count - 1) {
            assert!((690..1000).contains(hits), "{index}: {hits}");
        }
    }

    #[test]
    fn its_worth_is_stated() {
        assert_eq!(
            sample(Share::Count(6)).worth(21),
            "spot check: 6 of 21 chunks of each sum recomputed; 1 bad of 21 would be found with 25.0 %, 2 bad of 21 would \
             be found with 44.7 %"
        );
    }
}
