//! Who may be handed what: four tiers, and for each kind of data whether a tier may hold it.
//!
//! The rule is a list of what is allowed; everything else is refused by its name, with the reason. It is asked by whoever
//! writes ([`super::BundleWriter`], [`super::subset`]) and again by whoever reads.

use super::due::Forbidden;
use crate::statement::{Kind, Party};
use std::fmt;
use veilsum_crypto::label::Label;
use veilsum_crypto::{ClientId, Digest, OrgId};

/// A circle of readers, the narrowest view first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Anybody: signed heads, cosignatures and proofs.
    Public,
    /// One member: its own statements, the agreements, the roots of sums.
    Member(ClientId),
    /// The auditor: every statement, and the masked vectors behind every released sum.
    Auditor,
    /// Who checks how plans come about: the plans, and noised descriptors under salted numbers.
    Plan,
}

/// Something a tier may or may not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A signed head, its cosignatures, a proof, the hash of an entry.
    Proof,
    /// A statement of the log.
    Statement {
        /// Its kind.
        kind: Kind,
        /// Who signed it.
        signer: Party,
        /// The client it is about, where it is about one.
        about: Option<ClientId>,
    },
    /// A model.
    Model,
    /// A masked vector, and why it is not due, if it is not.
    Vector(Option<Forbidden>),
    /// A masked vector older than the consortium keeps them.
    ExpiredVector,
    /// A descriptor with its declared noise.
    NoisedDescriptor,
    /// Ciphertexts of shares.
    SealedShares,
    /// A descriptor without noise.
    RawDescriptor,
    /// How many samples a client has.
    SampleCounts,
    /// A tensor that stays with its owner.
    PrivateTensor,
    /// Loss, error or another training metric of one client.
    ClientMetrics,
    /// The name of a client or an organisation.
    PartyName,
    /// A network address.
    Address,
    /// When a client did something.
    Timing,
}

/// A tier that must not hold something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {tier} tier must not hold {}: {}", item.what(), item.why())]
pub struct Refusal {
    /// The tier.
    pub tier: Tier,
    /// What was offered.
    pub item: Item,
}

impl Refusal {
    /// The item's name, for reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.item.name()
    }
}

impl Tier {
    /// Whether this tier may hold something.
    ///
    /// # Errors
    /// [`Refusal`], which names it and says why.
    pub fn admits(self, item: Item) -> Result<(), Refusal> {
        let admitted = match (self, item) {
            (_, Item::Proof)
            | (Self::Auditor, Item::Statement { .. } | Item::Model | Item::Vector(None))
            | (Self::Plan, Item::NoisedDescriptor) => true,
            (tier, Item::Statement { kind, signer, about }) => match (tier, kind) {
                (_, Kind::Policy)
                | (Self::Plan, Kind::Plan)
                | (Self::Member(_), Kind::Plan | Kind::Agree | Kind::Sums | Kind::Aborted) => true,
                (Self::Member(own), _) => about == Some(own) || signer == Party::Client(own),
                _ => false,
            },
            _ => false,
        };
        if admitted {
            Ok(())
        } else {
            Err(Refusal { tier: self, item })
        }
    }

    /// Its number in files.
    pub(crate) fn number(self) -> (u8, u32) {
        match self {
            Self::Public => (0, 0),
            Self::Member(client) => (1, client.0),
            Self::Auditor => (2, 0),
            Self::Plan => (3, 0),
        }
    }

    /// The tier of a number in a file of single statements; the auditor's is another kind of file.
    pub(crate) fn of_number(tier: u8, client: u32) -> Option<Self> {
        match (tier, client) {
            (0, 0) => Some(Self::Public),
            (1, client) => Some(Self::Member(ClientId(client))),
            (3, 0) => Some(Self::Plan),
            _ => None,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("public"),
            Self::Member(_) => f.write_str("member"),
            Self::Auditor => f.write_str("auditor"),
            Self::Plan => f.write_str("plan"),
        }
    }
}

impl Item {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Proof => "Proof",
            Self::Statement { .. } => "Statement",
            Self::Model => "Model",
            Self::Vector(None) => "Vector",
            Self::Vector(Some(Forbidden::NotSurvivor)) => "DroppedVector",
            Self::Vector(Some(Forbidden::NotPublished)) => "AbortedVector",
            Self::Vector(Some(Forbidden::NotReleased)) => "WithheldVector",
            Self::Vector(Some(Forbidden::OutOfOrder)) => "RepeatedVector",
            Self::ExpiredVector => "ExpiredVector",
            Self::NoisedDescriptor => "NoisedDescriptor",
            Self::SealedShares => "SealedShares",
            Self::RawDescriptor => "RawDescriptor",
            Self::SampleCounts => "SampleCounts",
            Self::PrivateTensor => "PrivateTensor",
            Self::ClientMetrics => "ClientMetrics",
            Self::PartyName => "PartyName",
            Self::Address => "Address",
            Self::Timing => "Timing",
        }
    }

    fn what(self) -> String {
        match self {
            Self::Proof => "a proof".to_owned(),
            Self::Statement { kind, signer, about } => match about {
                Some(about) if signer != Party::Client(about) => {
                    format!("a {} statement of {signer} about {about}", kind.name())
                }
                _ => format!("a {} statement of {signer}", kind.name()),
            },
            Self::Model => "a model".to_owned(),
            Self::Vector(None) => "masked vectors".to_owned(),
            Self::Vector(Some(why)) => format!("a masked vector where {why}"),
            Self::ExpiredVector => "a masked vector older than its retention".to_owned(),
            Self::NoisedDescriptor => "a descriptor".to_owned(),
            Self::SealedShares => "sealed shares".to_owned(),
            Self::RawDescriptor => "a descriptor without noise".to_owned(),
            Self::SampleCounts => "a client's number of samples".to_owned(),
            Self::PrivateTensor => "a private tensor".to_owned(),
            Self::ClientMetrics => "a client's training metrics".to_owned(),
            Self::PartyName => "the name of a client or an organisation".to_owned(),
            Self::Address => "a network address".to_owned(),
            Self::Timing => "times of single clients".to_owned(),
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Proof | Self::Statement { .. } | Self::Model | Self::NoisedDescriptor => {
                "it is for another tier"
            }
            Self::Vector(None) => "it is for the auditor alone",
            Self::Vector(Some(Forbidden::OutOfOrder)) => "each stands in its place once",
            Self::Vector(Some(Forbidden::NotSurvivor)) => {
                "the mask secret of its client may be open, and only its self-mask hides it"
            }
            Self::Vector(Some(_)) => "it would help to open what the round refused",
            Self::ExpiredVector => {
                "who keeps it can open it when the key agreement is broken; its root stays"
            }
            Self::SealedShares => "with a stolen key t of them open every mask; digests are in the log",
            Self::RawDescriptor | Self::SampleCounts | Self::PrivateTensor | Self::ClientMetrics => {
                "it is personal or competitive data"
            }
            Self::PartyName | Self::Address | Self::Timing => "it shows who takes part when; numbers do",
        }
    }
}

/// What a client is called in one tier's files outside signed statements: under another salt it is another number, so that
/// two tiers' files cannot be joined by it.
#[must_use]
pub fn salted_client(salt: &[u8; 32], tier: Tier, client: ClientId) -> [u8; 16] {
    salted(salt, tier, 0, client.0)
}

/// What an organisation is called, as [`salted_client`].
#[must_use]
pub fn salted_org(salt: &[u8; 32], tier: Tier, org: OrgId) -> [u8; 16] {
    salted(salt, tier, 1, org.0)
}

fn salted(salt: &[u8; 32], tier: Tier, what: u8, number: u32) -> [u8; 16] {
    let Digest(hash) = TIER_ID.hash(&[salt, &[tier.number().0], &[what], &number.to_le_bytes()]);
    let mut id = [0; 16];
    id.iter_mut().zip(hash).for_each(|(slot, byte)| *slot = byte);
    id
}

const TIER_ID: Label = Label::new("tier-id");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_by_salt_tier_and_kind() {
        let (salt, other) = ([1; 32], [2; 32]);
        let one = salted_client(&salt, Tier::Plan, ClientId(3));
        assert_eq!(one, salted_client(&salt, Tier::Plan, ClientId(3)));
        for different in [
            salted_client(&other, Tier::Plan, ClientId(3)),
            salted_client(&salt, Tier::Public, ClientId(3)),
            salted_client(&salt, Tier::Plan, ClientId(4)),
            salted_org(&salt, Tier::Plan, OrgId(3)),
        ] {
            assert_ne!(one, different);
        }
    }

    #[test]
    fn what_no_tier_may_hold_is_refused_by_name_in_each() {
        let never = [
            (Item::SealedShares, "SealedShares"),
            (Item::Vector(Some(Forbidden::NotSurvivor)), "DroppedVector"),
            (Item::Vector(Some(Forbidden::NotReleased)), "WithheldVector"),
            (Item::Vector(Some(Forbidden::NotPublished)), "AbortedVector"),
            (Item::ExpiredVector, "ExpiredVector"),
            (Item::RawDescriptor, "RawDescriptor"),
            (Item::SampleCounts, "SampleCounts"),
            (Item::PrivateTensor, "PrivateTensor"),
            (Item::ClientMetrics, "ClientMetrics"),
            (Item::PartyName, "PartyName"),
            (Item::Address, "Address"),
            (Item::Timing, "Timing"),
        ];
        for tier in [Tier::Public, Tier::Member(ClientId(1)), Tier::Auditor, Tier::Plan] {
            for (item, name) in never {
                let refusal = tier.admits(item).unwrap_err();
                assert_eq!((refusal.name(), refusal.tier), (name, tier));
                assert!(refusal.to_string().contains(&tier.to_string()), "{refusal}");
            }
        }
    }

    #[test]
    fn each_tier_holds_its_own_and_no_more() {
        let member = Tier::Member(ClientId(1));
        let by = |kind, client| Item::Statement {
            kind,
            signer: Party::Client(ClientId(client)),
            about: Some(ClientId(client)),
        };
        let server = |kind| Item::Statement {
            kind,
            signer: Party::Server,
            about: None,
        };
        let of = |kind, client| Item::Statement {
            kind,
            signer: Party::Server,
            about: Some(ClientId(client)),
        };
        // (item, public, member 1, auditor, plan)
        for (item, want) in [
            (Item::Proof, [true, true, true, true]),
            (server(Kind::Policy), [true, true, true, true]),
            (server(Kind::Plan), [false, true, true, true]),
            (server(Kind::Sums), [false, true, true, false]),
            (server(Kind::Aborted), [false, true, true, false]),
            (by(Kind::Agree, 2), [false, true, true, false]),
            (by(Kind::Keys, 1), [false, true, true, false]),
            (by(Kind::Keys, 2), [false, false, true, false]),
            (by(Kind::Reveal, 1), [false, true, true, false]),
            (by(Kind::Reveal, 2), [false, false, true, false]),
            (of(Kind::Late, 1), [false, true, true, false]),
            (of(Kind::Late, 2), [false, false, true, false]),
            (of(Kind::Member, 2), [false, false, true, false]),
            (Item::Model, [false, false, true, false]),
            (Item::Vector(None), [false, false, true, false]),
            (Item::NoisedDescriptor, [false, false, false, true]),
        ] {
            let got = [Tier::Public, member, Tier::Auditor, Tier::Plan].map(|tier| tier.admits(item).is_ok());
            assert_eq!(got, want, "{item:?}");
        }
    }
}
