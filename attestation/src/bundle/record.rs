//! One log entry, taken apart: who says what. Nothing is believed yet.

use crate::statement::{
    Aborted, Agree, Complaint, Descriptor, Entry, Keys, Kind, Late, Masked, Member, Plan, Policy, Reveal,
    Shares, StatementError, Sums, leaf_hash,
};
use veilsum_crypto::{Digest, wire};

/// A parsed entry.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) index: u64,
    pub(crate) leaf: Digest,
    pub(crate) entry: Entry,
    pub(crate) body: Body,
}

/// The body of an entry.
#[derive(Debug)]
pub(crate) enum Body {
    Member(Member),
    Policy(Policy),
    Plan(Plan),
    Keys(Keys),
    Shares(Shares),
    Masked(Masked),
    Agree(Agree),
    Reveal(Reveal),
    Sums(Sums),
    Late(Late),
    Aborted(Aborted),
    Complaint(Complaint),
    Descriptor(Descriptor),
}

impl Body {
    /// Which kind it is of.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Member(_) => Kind::Member,
            Self::Policy(_) => Kind::Policy,
            Self::Plan(_) => Kind::Plan,
            Self::Keys(_) => Kind::Keys,
            Self::Shares(_) => Kind::Shares,
            Self::Masked(_) => Kind::Masked,
            Self::Agree(_) => Kind::Agree,
            Self::Reveal(_) => Kind::Reveal,
            Self::Sums(_) => Kind::Sums,
            Self::Late(_) => Kind::Late,
            Self::Aborted(_) => Kind::Aborted,
            Self::Complaint(_) => Kind::Complaint,
            Self::Descriptor(_) => Kind::Descriptor,
        }
    }
}

impl Record {
    /// Reads entry number `index`: canonical bytes with a canonical body, or nothing.
    pub(crate) fn parse(index: u64, bytes: &[u8]) -> Result<Self, StatementError> {
        let entry: Entry = wire::decode(bytes)?;
        let body = match entry.kind {
            Kind::Member => Body::Member(wire::decode(&entry.body)?),
            Kind::Policy => Body::Policy(wire::decode(&entry.body)?),
            Kind::Plan => Body::Plan(wire::decode(&entry.body)?),
            Kind::Keys => Body::Keys(wire::decode(&entry.body)?),
            Kind::Shares => Body::Shares(wire::decode(&entry.body)?),
            Kind::Masked => Body::Masked(wire::decode(&entry.body)?),
            Kind::Agree => Body::Agree(wire::decode(&entry.body)?),
            Kind::Reveal => Body::Reveal(wire::decode(&entry.body)?),
            Kind::Sums => Body::Sums(wire::decode(&entry.body)?),
            Kind::Late => Body::Late(wire::decode(&entry.body)?),
            Kind::Aborted => Body::Aborted(wire::decode(&entry.body)?),
            Kind::Complaint => Body::Complaint(wire::decode(&entry.body)?),
            Kind::Descriptor => Body::Descriptor(wire::decode(&entry.body)?),
        };
        Ok(Self {
            index,
            leaf: leaf_hash(bytes),
            entry,
            body,
        })
    }
}
