//! `shares`: a client has dealt its secrets. Only digests are stated; the shares themselves travel sealed and are never
//! logged. Signed by the client.

use super::{Kind, Statement};
use serde::{Deserialize, Serialize};
use veilsum_crypto::{BoundedVec, ClientId, ClusterId, Digest, Wire};

/// Digests of every share a client dealt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Leaf hash of the plan.
    pub plan: Digest,
    /// Digest of the roster.
    pub roster: Digest,
    /// For each client of the roster, ascending: the digest of its share of the mask secret, then of its share of each
    /// self-mask seed, by the dealer's clusters ascending.
    pub digests: BoundedVec<Digest, MAX_DIGESTS>,
    /// RFC 6962 root over the sealed boxes, by receiver ascending: a bad box is its dealer's, or else was changed on the
    /// way.
    pub boxes: Digest,
}

impl Shares {
    /// The digest of the share `holder` got of the mask secret (`None`) or of one cluster's seed. `roster` and
    /// `clusters` are those of the dealer's round.
    #[must_use]
    pub fn digest_for<'a>(
        &self,
        holder: ClientId,
        cluster: Option<ClusterId>,
        roster: impl IntoIterator<Item = &'a ClientId>,
        clusters: &[ClusterId],
    ) -> Option<Digest> {
        let row = roster.into_iter().position(|client| *client == holder)?;
        let column = match cluster {
            None => 0,
            Some(cluster) => 1 + clusters.iter().position(|own| *own == cluster)?,
        };
        self.digests
            .get(row.checked_mul(1 + clusters.len())?.checked_add(column)?)
            .copied()
    }
}

/// The most digests an entry holds: clients × (1 + clusters of the dealer).
pub(super) const MAX_DIGESTS: usize = 2000;

impl Wire for Shares {
    const KIND: &'static str = "shares";
    const MAX_LEN: usize = 96 + 8 + 32 * MAX_DIGESTS;
}

impl Statement for Shares {
    const ENTRY_KIND: Kind = Kind::Shares;
}
