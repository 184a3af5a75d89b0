//! `aborted` and `late`: how a round, or a client's part in it, ended without a sum. Signed by the server.

use super::{ClientSet, Kind, Statement};
use serde::{Deserialize, Serialize};
use veilsum_crypto::{Attempt, BoundedVec, ClientId, Digest, RoundId, Wire};

/// The phases of a round, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Plan sent, clients train, keys come in.
    Advertise,
    /// Roster sent, shares come in.
    Share,
    /// Inboxes sent, masked vectors come in.
    Mask,
    /// Proposal sent, signatures come in.
    Agree,
    /// Agreement sent, reveals come in.
    Unmask,
    /// Sums published.
    Publish,
}

impl Phase {
    /// Lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Advertise => "advertise",
            Self::Share => "share",
            Self::Mask => "mask",
            Self::Agree => "agree",
            Self::Unmask => "unmask",
            Self::Publish => "publish",
        }
    }
}

/// A round that opened nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aborted {
    /// Round.
    pub round: RoundId,
    /// Attempt at it.
    pub attempt: Attempt,
    /// Where it ended.
    pub phase: Phase,
    /// The reason's name, such as `TooFewKeys`.
    pub reason: BoundedVec<u8, 64>,
    /// Who is at fault, as far as it can be told.
    pub culprits: ClientSet,
}

impl Wire for Aborted {
    const KIND: &'static str = "aborted";
    const MAX_LEN: usize = 8 + 4 + 4 + 72 + 520;
}

impl Statement for Aborted {
    const ENTRY_KIND: Kind = Kind::Aborted;
}

/// A masked statement that came after the agreement was proposed: only its digest is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// Round.
    pub round: RoundId,
    /// Attempt at it.
    pub attempt: Attempt,
    /// Whose it was.
    pub client: ClientId,
    /// Leaf hash of the refused statement.
    pub digest: Digest,
}

impl Wire for Late {
    const KIND: &'static str = "late";
    const MAX_LEN: usize = 48;
}

impl Statement for Late {
    const ENTRY_KIND: Kind = Kind::Late;
}
