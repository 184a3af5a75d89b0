//! How clients are clustered by what their data looks like: a part of the policy, so that everybody signed it.

use serde::{Deserialize, Serialize};
use veilsum_crypto::RoundId;

/// The rule by which clusters come about. Without one the server names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusteringRule {
    /// When two clients are close.
    pub threshold: ThresholdRule,
    /// Rounds between two clusterings; 0 for a single one, before the first round.
    pub every: u64,
    /// Images a descriptor is made from: a client with more draws so many of them. With noise exactly so many, because the
    /// size of the noise follows from it.
    pub images: u32,
    /// Channels to which the features are averaged down, neighbours together. Fewer need less noise.
    pub channels: u32,
    /// The noise in every descriptor; without it descriptors are exact and protect nothing.
    pub noise: Option<NoiseRule>,
}

/// When two clients are close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ThresholdRule {
    /// So that this share of all pairs is, in millionths.
    Overlap(u32),
    /// In the largest relative jump between the sorted divergences; where there is none, everybody is close to everybody.
    Gap,
    /// Up to this divergence, in millionths.
    Fixed(u64),
}

/// The noise in a descriptor (the Gaussian mechanism on clipped features).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseRule {
    /// Length to which an image's pooled features are clipped, in millionths.
    pub clip_micros: u32,
    /// Least variance that is told apart, in billionths.
    pub variance_floor_nanos: u32,
    /// Standard deviation over the sensitivity, in millionths.
    pub multiplier_micros: u32,
}

impl ClusteringRule {
    /// Number of the clustering that a round's plan follows, from 1.
    #[must_use]
    pub fn number(&self, round: RoundId) -> u64 {
        match self.every {
            0 => 1,
            every => round.0.saturating_sub(1) / every + 1,
        }
    }

    /// Whether a round is the first of its clustering.
    #[must_use]
    pub fn begins(&self, round: RoundId) -> bool {
        round.0 <= 1 || self.number(round) != self.number(RoundId(round.0 - 1))
    }

    /// What is wrong with it, if anything.
    ///
    /// # Errors
    /// A sentence that names the parameter.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.threshold {
            ThresholdRule::Overlap(share) if share > 1_000_000 => {
                return Err("an overlap is a share of the pairs and at most 1");
            }
            _ => {}
        }
        if self.images < MIN_IMAGES {
            return Err("a descriptor needs at least 8 images");
        }
        if !(1..=MAX_CHANNELS).contains(&self.channels) {
            return Err("a descriptor has 1 to 65536 channels");
        }
        let zero = |noise: NoiseRule| {
            noise.clip_micros == 0 || noise.variance_floor_nanos == 0 || noise.multiplier_micros == 0
        };
        if self.noise.is_some_and(zero) {
            return Err("clip, variance floor and multiplier of the noise must be above zero");
        }
        Ok(())
    }
}

/// Fewest images that have a spread worth the name.
const MIN_IMAGES: u32 = 8;
const MAX_CHANNELS: u32 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn every(every: u64) -> ClusteringRule {
        ClusteringRule {
            threshold: ThresholdRule::Gap,
            every,
            images: 256,
            channels: 4,
            noise: None,
        }
    }

    #[test]
    fn clusterings_are_numbered_by_rounds() {
        let numbers = |rule: ClusteringRule| (1..=7).map(move |round| rule.number(RoundId(round)));
        assert!(numbers(every(0)).eq([1; 7]));
        assert!(numbers(every(1)).eq(1..=7));
        assert!(numbers(every(3)).eq([1, 1, 1, 2, 2, 2, 3]));
        let begins = |rule: ClusteringRule| (1..=7).filter(move |round| rule.begins(RoundId(*round)));
        assert!(begins(every(0)).eq([1]));
        assert!(begins(every(3)).eq([1, 4, 7]));
    }

    #[test]
    fn each_useless_parameter_is_named() {
        let noise = NoiseRule {
            clip_micros: 1,
            variance_floor_nanos: 1,
            multiplier_micros: 1,
        };
        let with = |noise| ClusteringRule { noise, ..every(2) };
        assert_eq!(with(Some(noise)).check(), Ok(()));
        for (rule, word) in [
            (
                ClusteringRule {
                    channels: 0,
                    ..every(2)
                },
                "channels",
            ),
            (
                ClusteringRule {
                    images: 7,
                    ..every(2)
                },
                "images",
            ),
            (
                ClusteringRule {
                    threshold: ThresholdRule::Overlap(1_000_001),
                    ..every(2)
                },
                "overlap",
            ),
            (
                with(Some(NoiseRule {
                    clip_micros: 0,
                    ..noise
                })),
                "clip",
            ),
            (
                with(Some(NoiseRule {
                    variance_floor_nanos: 0,
                    ..noise
                })),
                "floor",
            ),
            (
                with(Some(NoiseRule {
                    multiplier_micros: 0,
                    ..noise
                })),
                "multiplier",
            ),
        ] {
            assert!(rule.check().unwrap_err().contains(word));
        }
    }
}
