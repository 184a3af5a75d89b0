//! The published learning rate of `FedBEVT`: a linear rise, then one cosine.

use serde::{Deserialize, Serialize};

/// Rates over the whole training. The cosine's clock is not shifted by the warm-up, as in the published code, so there
/// is a small step down where the two meet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Rate at step 0.
    pub start: f64,
    /// Rate that the warm-up aims at and the cosine starts from.
    pub peak: f64,
    /// Rate at the end.
    pub end: f64,
    /// Rounds of warm-up.
    pub warm_up: u32,
    /// Rounds in all.
    pub rounds: u32,
}

impl Schedule {
    /// As published: 2e-5 to 2e-4 over 10 rounds, down to 5e-6 at round 500.
    pub const PUBLISHED: Self = Self {
        start: 2e-5,
        peak: 2e-4,
        end: 5e-6,
        warm_up: 10,
        rounds: 500,
    };

    /// The same shape for another length and peak.
    #[must_use]
    pub fn stretched(peak: f64, rounds: u32) -> Self {
        Self {
            start: 0.1 * peak,
            peak,
            end: 0.025 * peak,
            warm_up: rounds / 10,
            rounds,
        }
    }

    /// The rate at global step `step` with `per_round` optimiser steps a round.
    #[must_use]
    pub fn rate(&self, step: u64, per_round: u32) -> f64 {
        let per_round = u64::from(per_round.max(1));
        let (warm, all) = (
            u64::from(self.warm_up) * per_round,
            u64::from(self.rounds) * per_round,
        );
        if step < warm {
            self.start + share(step, warm) * (self.peak - self.start)
        } else if step < all {
            self.end + 0.5 * (self.peak - self.end) * (1.0 + (std::f64::consts::PI * share(step, all)).cos())
        } else {
            self.end
        }
    }

    /// The global step at the `index`-th step (from 0) of a round (from 1), `per_round` steps each. The published code
    /// counts so: its first step is `per_round`, not 0.
    #[must_use]
    pub fn step(round: u32, per_round: u32, index: u32) -> u64 {
        u64::from(round) * u64::from(per_round) + u64::from(index)
    }
}

#[expect(clippy::cast_precision_loss, reason = "steps are far below 2^52")]
fn share(step: u64, all: u64) -> f64 {
    step as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden values of the published schedule with ten steps a round.
    #[test]
    fn golden() {
        for (step, expected) in [
            (0, 2.000e-5),
            (10, 3.800e-5),
            (50, 1.100e-4),
            (99, 1.982e-4),
            (100, 1.998_076e-4),
            (2500, 1.025e-4),
            (4999, 5.000_019_2e-6),
            (5000, 5e-6),
            (9999, 5e-6),
        ] {
            let found = Schedule::PUBLISHED.rate(step, 10);
            assert!(
                (found - expected).abs() < 1e-6 * expected,
                "step {step}: {found} is not {expected}"
            );
        }
    }

    #[test]
    fn the_clock_runs_on_over_rounds() {
        assert_eq!(Schedule::step(1, 10, 0), 10);
        assert_eq!(Schedule::step(250, 10, 3), 2503);
        let short = Schedule::stretched(1e-3, 20);
        assert!((short.rate(0, 5) - 1e-4).abs() < 1e-12 && (short.rate(100, 5) - 2.5e-5).abs() < 1e-12);
    }
}
