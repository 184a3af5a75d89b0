//! `agree`: one survivor set, one head, one release set. Signed by each client before any unmasking share moves.

use super::{ClientSet, Kind, Statement};
use crate::log::Head;
use serde::{Deserialize, Serialize};
use veilsum_crypto::label::Label;
use veilsum_crypto::{BoundedVec, ClusterId, Digest, Wire};

/// What t clients sign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agree {
    /// Leaf hash of the plan.
    pub plan: Digest,
    /// Digest of the roster.
    pub roster: Digest,
    /// The clients that dealt shares.
    pub sharers: ClientSet,
    /// The clients whose masked vectors count.
    pub survivors: ClientSet,
    /// The clusters whose sums are opened, ascending.
    pub release: BoundedVec<ClusterId, 64>,
    /// The log after the last masked statement.
    pub head: Head,
}

impl Agree {
    /// The digest reveals and sums refer to.
    ///
    /// # Errors
    /// None for a body within its bound.
    pub fn digest(&self) -> Result<Digest, veilsum_crypto::WireError> {
        Ok(AGREEMENT.hash(&[&veilsum_crypto::wire::encode(self)?]))
    }
}

impl Wire for Agree {
    const KIND: &'static str = "agree";
    const MAX_LEN: usize = 64 + 2 * 520 + 8 + 64 * 2 + 40;
}

impl Statement for Agree {
    const ENTRY_KIND: Kind = Kind::Agree;
}

const AGREEMENT: Label = Label::new("agreement");
