//! `masked`: a client's masked vectors, by chunk-tree root. Signed by the client; the vectors travel beside it.

use super::{ClientSet, Kind, Statement};
use serde::{Deserialize, Serialize};
use veilsum_crypto::{BoundedVec, ClusterId, Digest, Wire};

/// What a client uploads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Masked {
    /// Leaf hash of the plan.
    pub plan: Digest,
    /// Digest of the roster.
    pub roster: Digest,
    /// The clients it was told have dealt shares: the ones its masks pair it with.
    pub sharers: ClientSet,
    /// One vector per cluster of the client, ascending.
    pub vectors: BoundedVec<VectorRoot, 64>,
}

/// A masked vector's commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorRoot {
    /// The cluster it counts for.
    pub cluster: ClusterId,
    /// Chunk-tree root over its packed bytes.
    pub root: Digest,
    /// Packed bytes.
    pub bytes: u64,
}

impl Wire for Masked {
    const KIND: &'static str = "masked";
    const MAX_LEN: usize = 64 + 8 + 512 + 8 + 64 * 42;
}

impl Statement for Masked {
    const ENTRY_KIND: Kind = Kind::Masked;
}
