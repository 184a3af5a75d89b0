//! `keys`: a client joins the round with two fresh public keys and a commitment to each of its self-mask seeds. Signed by
//! the client.

use super::{Kind, Statement};
use crate::log::Head;
use serde::{Deserialize, Serialize};
use veilsum_crypto::label::Label;
use veilsum_crypto::{BoundedVec, BoxPublic, ClusterId, Digest, MaskPublic, Wire};

/// A client's keys for one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Leaf hash of the plan it joins.
    pub plan: Digest,
    /// Opens sealed shares.
    pub box_key: BoxPublic,
    /// Agrees on pairwise masks.
    pub mask_key: MaskPublic,
    /// One commitment per cluster of the client, ascending.
    pub commitments: BoundedVec<Commitment, 64>,
    /// The last head the client accepted.
    pub head: Head,
}

/// The commitment to a self-mask seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commitment {
    /// Which cluster's seed.
    pub cluster: ClusterId,
    /// [`veilsum_crypto::commit::commit`] of the seed.
    pub digest: Digest,
}

impl Wire for Keys {
    const KIND: &'static str = "keys";
    const MAX_LEN: usize = 32 * 3 + 8 + 64 * 34 + 40;
}

impl Statement for Keys {
    const ENTRY_KIND: Kind = Kind::Keys;
}

/// The roster's digest: over the leaf hashes of all accepted `keys` statements, in client order.
#[must_use]
pub fn roster_digest<'a>(leaves: impl IntoIterator<Item = &'a Digest>) -> Digest {
    let mut hasher = ROSTER.hasher();
    for leaf in leaves {
        hasher.part(&leaf.0);
    }
    hasher.finish()
}

const ROSTER: Label = Label::new("roster");
