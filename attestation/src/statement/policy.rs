//! `policy`: the parameters everybody signed up to, as one canonical object. Signed by the authority; its leaf hash is in
//! every plan and every derivation.

use super::{ClientSet, ClusteringRule, Kind, Statement};
use serde::{Deserialize, Serialize};
use veilsum_crypto::label::Label;
use veilsum_crypto::{BoundedVec, Digest, Modulus, PublicIdentity, RoundId, SuiteId, Wire};

/// The consortium's parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Cipher suite.
    pub suite: SuiteId,
    /// The federation's name, UTF-8.
    pub name: BoundedVec<u8, 64>,
    /// The server's application key.
    pub server: PublicIdentity,
    /// SHA-256 of the public key info of the server's TLS certificate.
    pub server_tls: Digest,
    /// Number of enrolled clients, N.
    pub clients: u32,
    /// Digest over the leaf hashes of all `member` statements, in client order.
    pub members: Digest,
    /// Shamir threshold t.
    pub threshold: u32,
    /// Colluding clients assumed, m.
    pub colluders: u32,
    /// Dropouts planned for, s.
    pub dropouts: u32,
    /// Fewest clients any released combination may cover, c.
    pub crowd: u32,
    /// Fewest organisations any released combination may cover.
    pub crowd_orgs: u32,
    /// How updates become integers.
    pub update: UpdateRule,
    /// Digest of the model every cluster starts from.
    pub initial: Digest,
    /// Rounds the federation runs.
    pub rounds: u64,
    /// How clients are clustered by descriptors of their data; the server names the clusters without it.
    pub clustering: Option<ClusteringRule>,
    /// Clients of the same clusters count in groups of at least so many, all or none; 0 for each by itself.
    pub blocks: u32,
    /// Rounds that must be published after one before its masked vectors go, and then they go; 0 for no window: they are
    /// kept, unless all who audit were told another window.
    pub keep_rounds: u64,
}

/// How updates become integers and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateRule {
    /// Entries of an update, d, without the weight coordinate.
    pub entries: u64,
    /// Digest of the names and shapes of the shared tensors.
    pub schema: Digest,
    /// Bits a client's value takes, b.
    pub value_bits: u8,
    /// The modulus 2^m of the sums.
    pub modulus: Modulus,
    /// Largest magnitude of a weighted entry, in millionths; larger entries saturate and are counted.
    pub range_micros: u32,
    /// Largest sample weight of a client.
    pub max_weight: u32,
}

impl Wire for Policy {
    const KIND: &'static str = "policy";
    const MAX_LEN: usize = 512;
}

impl Statement for Policy {
    const ENTRY_KIND: Kind = Kind::Policy;
}

/// The digest over all `member` statements, by leaf hash in client order.
#[must_use]
pub fn members_digest(leaves: &[Digest]) -> Digest {
    let parts: Vec<&[u8]> = leaves.iter().map(|leaf| leaf.0.as_slice()).collect();
    MEMBERS.hash(&parts)
}

impl Policy {
    /// The retention window in published rounds, if the policy sets one.
    #[must_use]
    pub fn window(&self) -> Option<u64> {
        (self.keep_rounds > 0).then_some(self.keep_rounds)
    }

    /// Whether the vectors of a round may be gone once `last` was published, under a window of so many rounds.
    #[must_use]
    pub fn is_over(window: u64, round: RoundId, last: RoundId) -> bool {
        round.0.checked_add(window).is_some_and(|end| end <= last.0)
    }

    /// Clients that do not count when as many drop out as are planned for.
    #[must_use]
    pub fn lost_to_dropouts(&self) -> u32 {
        // A group has fewer than twice the least number of clients.
        match self.blocks {
            0 => self.dropouts,
            least => self
                .dropouts
                .saturating_mul(least.saturating_mul(2).saturating_sub(1)),
        }
    }

    /// The number of the clustering that a round's plan must follow, counted from 1: its clusters are the same throughout.
    /// `None` where nothing keeps the server from naming others in each round.
    #[must_use]
    pub fn clustering_of(&self, round: RoundId) -> Option<u64> {
        match self.clustering {
            Some(rule) => Some(rule.number(round)),
            // Groups hold for one clustering.
            None => (self.blocks > 0).then_some(1),
        }
    }

    /// What is wrong with the parameters, if anything: the rules that hold whatever the federation.
    ///
    /// # Errors
    /// [`PolicyError`], naming the parameter.
    pub fn check(&self) -> Result<(), PolicyError> {
        let (n, t) = (u64::from(self.clients), u64::from(self.threshold));
        if self.suite != SuiteId::SUITE_1 {
            return Err(PolicyError::Suite(self.suite.0));
        }
        if self.clients < 3 || self.clients > ClientSet::MAX_CLIENTS {
            return Err(PolicyError::Clients(self.clients));
        }
        // Below this a server can collect t signatures on each of two survivor sets (TRUST model; Bonawitz 2017, 6).
        if 2 * t <= n + u64::from(self.colluders) || t > n {
            return Err(PolicyError::Threshold {
                t: self.threshold,
                n: self.clients,
                m: self.colluders,
            });
        }
        // A dropout takes its group along.
        if u64::from(self.lost_to_dropouts()) + t > n {
            return Err(PolicyError::Dropouts {
                s: self.lost_to_dropouts(),
                t: self.threshold,
                n: self.clients,
            });
        }
        if self.crowd < 2 || self.crowd_orgs < 1 {
            return Err(PolicyError::Crowd {
                clients: self.crowd,
                orgs: self.crowd_orgs,
            });
        }
        if self.blocks == 1 || self.blocks > self.clients {
            return Err(PolicyError::Blocks {
                least: self.blocks,
                n: self.clients,
            });
        }
        // New clusters make new groups, and the two together tell single clients apart.
        if self.blocks > 0 && self.clustering.is_some_and(|rule| rule.every > 0) {
            return Err(PolicyError::Clustering(
                "groups (blocks) hold for one clustering only: set every to 0, or blocks to 0",
            ));
        }
        if let Some(Err(reason)) = self.clustering.map(|rule| rule.check()) {
            return Err(PolicyError::Clustering(reason));
        }
        self.update.check(self.clients)
    }
}

impl UpdateRule {
    /// Whether no sum of `clients` updates can wrap (the bit budget).
    ///
    /// # Errors
    /// [`PolicyError::Budget`] with the bits that would do, or the parameter out of its range.
    pub fn check(&self, clients: u32) -> Result<(), PolicyError> {
        if !(2..=24).contains(&self.value_bits) {
            return Err(PolicyError::ValueBits(self.value_bits));
        }
        if self.range_micros == 0 || self.max_weight == 0 {
            return Err(PolicyError::ZeroRange);
        }
        if self.entries == 0 || self.entries > MAX_ENTRIES {
            return Err(PolicyError::Entries(self.entries));
        }
        let needed = Self::modulus_bits(self.value_bits, self.max_weight, clients);
        if needed > 32 || u32::from(self.modulus.bits()) < needed {
            return Err(PolicyError::Budget {
                have: self.modulus.bits(),
                needed,
            });
        }
        Ok(())
    }

    /// The fewest bits in which the sum of `clients` values of `value_bits` bits, and the sum of their weights, fit.
    #[must_use]
    pub fn modulus_bits(value_bits: u8, max_weight: u32, clients: u32) -> u32 {
        let adding = clients.max(1).next_power_of_two().trailing_zeros();
        let weight = 32 - max_weight.leading_zeros();
        u32::from(value_bits).max(weight) + adding
    }
}

/// Why a policy is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Unknown cipher suite.
    #[error("policy: cipher suite {0} is unknown to this version; use suite 1")]
    Suite(u16),
    /// Too few or too many clients.
    #[error("policy: {0} clients; between 3 and 4096 can take part")]
    Clients(u32),
    /// `2t > N + m` or `t <= N` fails.
    #[error(
        "policy is unsafe: threshold {t} of {n} clients with {m} colluders; 2t must exceed N + m and t must not exceed N"
    )]
    Threshold {
        /// Threshold.
        t: u32,
        /// Clients.
        n: u32,
        /// Colluders.
        m: u32,
    },
    /// The dropouts planned for would end every round.
    #[error(
        "policy: {s} clients lost to the dropouts planned for leave fewer than the threshold {t} of {n} clients; lower one of them"
    )]
    Dropouts {
        /// Dropouts.
        s: u32,
        /// Threshold.
        t: u32,
        /// Clients.
        n: u32,
    },
    /// A crowd that hides nobody.
    #[error(
        "policy: a crowd of {clients} clients of {orgs} organisations hides nobody; ask for at least 2 and 1"
    )]
    Crowd {
        /// Clients.
        clients: u32,
        /// Organisations.
        orgs: u32,
    },
    /// Groups that hide nobody, or that nobody can fill.
    #[error("policy: blocks of {least} clients; ask for 2 to {n}, or 0 for none")]
    Blocks {
        /// Least clients of a group.
        least: u32,
        /// Clients.
        n: u32,
    },
    /// A clustering rule that is no use.
    #[error("policy, clustering: {0}")]
    Clustering(&'static str),
    /// Bits of a value out of range.
    #[error("policy: values of {0} bits; between 2 and 24 are possible")]
    ValueBits(u8),
    /// Zero range or weight.
    #[error("policy: the range and the largest weight must not be zero")]
    ZeroRange,
    /// Number of entries out of range.
    #[error("policy: updates of {0} entries; between 1 and 2^31 are possible")]
    Entries(u64),
    /// Sums could wrap.
    #[error(
        "policy: a modulus of {have} bits wraps; the sum of all clients needs {needed} bits (at most 32): lower value_bits or max_weight"
    )]
    Budget {
        /// Bits there are.
        have: u8,
        /// Bits needed.
        needed: u32,
    },
}

const MAX_ENTRIES: u64 = 1 << 31;
const MEMBERS: Label = Label::new("members");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::ThresholdRule;
    use veilsum_crypto::wire::{decode, encode};

    fn rule() -> UpdateRule {
        UpdateRule {
            entries: 10,
            schema: Digest([0; 32]),
            value_bits: 16,
            modulus: Modulus::new(20).unwrap(),
            range_micros: 100_000,
            max_weight: 256,
        }
    }

    fn policy() -> Policy {
        Policy {
            suite: SuiteId::SUITE_1,
            name: BoundedVec::new(b"test".to_vec()).unwrap(),
            server: PublicIdentity([0; 32]),
            server_tls: Digest([0; 32]),
            clients: 9,
            members: Digest([0; 32]),
            threshold: 6,
            colluders: 2,
            dropouts: 3,
            crowd: 3,
            crowd_orgs: 2,
            update: rule(),
            initial: Digest([0; 32]),
            rounds: 5,
            clustering: None,
            blocks: 0,
            keep_rounds: 0,
        }
    }

    #[test]
    fn the_window_is_the_last_field_and_counts_published_rounds() {
        // name and the lengths are 8 + 4 bytes, the rest is of fixed width: docs/transcript.md, section 4.
        let bytes = encode(&Policy {
            keep_rounds: 0x0102,
            ..policy()
        })
        .unwrap();
        assert_eq!(
            bytes.len(),
            2 + 12 + 32 + 32 + 4 + 32 + 20 + 8 + 32 + 2 + 8 + 32 + 8 + 1 + 4 + 8
        );
        assert!(bytes.ends_with(&[0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!(decode::<Policy>(&bytes).unwrap().window(), Some(0x0102));
        assert_eq!(policy().window(), None);
        for (round, last, over) in [
            (1, 2, false),
            (1, 3, true),
            (2, 3, false),
            (u64::MAX, u64::MAX, false),
        ] {
            assert_eq!(
                Policy::is_over(2, RoundId(round), RoundId(last)),
                over,
                "{round} {last}"
            );
        }
    }

    #[test]
    fn the_bit_budget_is_tight() {
        // Brute force: n clients at the extreme value and weight must fit a signed m-bit sum, and m-1 bits must not do.
        for n in 1..=40u32 {
            for bits in 2..=8u8 {
                for max_weight in [1, 3, 255] {
                    let m = UpdateRule::modulus_bits(bits, max_weight, n);
                    let extreme = i64::from(n) * ((1 << (bits - 1)) - 1);
                    assert!(extreme < 1 << (m - 1));
                    assert!(i64::from(n) * i64::from(max_weight) < 1 << m);
                }
            }
        }
        assert_eq!(UpdateRule::modulus_bits(8, 255, 100), 15);
        assert_eq!(UpdateRule::modulus_bits(16, 256, 100), 23);
    }

    #[test]
    fn each_unsafe_parameter_is_named() {
        assert_eq!(policy().check(), Ok(()));
        // 2t > N + m: 2 * 6 = 12 > 9 + 2, and one colluder more breaks it.
        assert!(matches!(
            Policy {
                colluders: 3,
                ..policy()
            }
            .check(),
            Err(PolicyError::Threshold { .. })
        ));
        assert!(matches!(
            Policy {
                threshold: 5,
                ..policy()
            }
            .check(),
            Err(PolicyError::Threshold { .. })
        ));
        assert!(matches!(
            Policy {
                threshold: 10,
                ..policy()
            }
            .check(),
            Err(PolicyError::Threshold { .. })
        ));
        assert!(matches!(
            Policy {
                dropouts: 4,
                ..policy()
            }
            .check(),
            Err(PolicyError::Dropouts { .. })
        ));
        assert!(matches!(
            Policy { crowd: 1, ..policy() }.check(),
            Err(PolicyError::Crowd { .. })
        ));
        assert!(matches!(
            Policy {
                clients: 2,
                ..policy()
            }
            .check(),
            Err(PolicyError::Clients(2))
        ));
        assert!(matches!(
            Policy {
                suite: SuiteId(2),
                ..policy()
            }
            .check(),
            Err(PolicyError::Suite(2))
        ));
        for blocks in [1, 10] {
            assert_eq!(
                Policy {
                    blocks,
                    dropouts: 0,
                    ..policy()
                }
                .check(),
                Err(PolicyError::Blocks { least: blocks, n: 9 })
            );
        }
        let clustering = |every| ClusteringRule {
            threshold: ThresholdRule::Gap,
            every,
            images: 8,
            channels: 1,
            noise: None,
        };
        let grouped = |every| Policy {
            blocks: 2,
            dropouts: 0,
            clustering: Some(clustering(every)),
            ..policy()
        };
        assert_eq!(grouped(0).check(), Ok(()));
        assert!(matches!(grouped(3).check(), Err(PolicyError::Clustering(_))));
        let with = |update| Policy { update, ..policy() }.check();
        assert!(matches!(
            with(UpdateRule {
                modulus: Modulus::new(19).unwrap(),
                ..rule()
            }),
            Err(PolicyError::Budget { needed: 20, .. })
        ));
        assert!(matches!(
            with(UpdateRule {
                value_bits: 1,
                ..rule()
            }),
            Err(PolicyError::ValueBits(1))
        ));
        assert!(matches!(
            with(UpdateRule {
                range_micros: 0,
                ..rule()
            }),
            Err(PolicyError::ZeroRange)
        ));
        assert!(matches!(
            with(UpdateRule { entries: 0, ..rule() }),
            Err(PolicyError::Entries(0))
        ));
    }
}
