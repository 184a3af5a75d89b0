//! `reveal`: a client opens the shares the agreement asks for, once. Signed by the client.

use super::{Kind, Statement};
use serde::{Deserialize, Serialize};
use veilsum_crypto::{BoundedVec, ClientId, ClusterId, Digest, Wire};

/// The shares one client reveals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reveal {
    /// Digest of the agreement it answers.
    pub agreement: Digest,
    /// Shares of self-mask seeds: for survivors, in released clusters, ascending by owner then cluster.
    pub self_shares: BoundedVec<SelfShare, 2000>,
    /// Shares of mask secrets: for the dropped, ascending.
    pub mask_shares: BoundedVec<MaskShare, 2000>,
}

/// A share of `b[u,k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfShare {
    /// u.
    pub owner: ClientId,
    /// k.
    pub cluster: ClusterId,
    /// The revealer's share, a canonical scalar.
    pub share: [u8; 32],
}

/// A share of a dropped client's mask secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskShare {
    /// The dropped client.
    pub owner: ClientId,
    /// The revealer's share, a canonical scalar.
    pub share: [u8; 32],
}

impl Wire for Reveal {
    const KIND: &'static str = "reveal";
    const MAX_LEN: usize = super::MAX_BODY;
}

impl Statement for Reveal {
    const ENTRY_KIND: Kind = Kind::Reveal;
}
