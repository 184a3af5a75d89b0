//! `sums`: what was opened. Signed by the server.

use super::{Kind, Statement};
use serde::{Deserialize, Serialize};
use veilsum_crypto::{BoundedVec, ClusterId, Digest, Wire};

/// The released sums of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Leaf hash of the plan.
    pub plan: Digest,
    /// Digest of the agreement.
    pub agreement: Digest,
    /// One result per released cluster, ascending.
    pub results: BoundedVec<ClusterResult, 64>,
}

/// One released sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterResult {
    /// The cluster.
    pub cluster: ClusterId,
    /// Chunk-tree root over the packed sum, weight coordinate included.
    pub sum: Digest,
    /// Clients in the sum.
    pub contributors: u32,
    /// Sum of their sample weights, as read from the masked coordinate.
    pub weight: u64,
    /// Digest of the cluster's new model.
    pub model: Digest,
}

impl Wire for Sums {
    const KIND: &'static str = "sums";
    const MAX_LEN: usize = 64 + 8 + 64 * 78;
}

impl Statement for Sums {
    const ENTRY_KIND: Kind = Kind::Sums;
}
