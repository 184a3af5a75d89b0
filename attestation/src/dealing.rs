//! What is in a sealed box: one dealer's shares for one receiver.
//!
//! The receiver reads it in the round; whoever judges a complaint reads it with the same code, so that a box is good for
//! both or bad for both.

use crate::merkle::{self, Tree};
use crate::statement::Shares;
use std::collections::BTreeMap;
use veilsum_crypto::seal::SealKey;
use veilsum_crypto::share::{Secret, share_digest};
use veilsum_crypto::{ClientId, ClusterId, Digest, RoundContext, Share};
use zeroize::Zeroizing;

/// The shares one dealer gave one receiver.
pub struct Dealt {
    /// Of the dealer's mask secret.
    pub mask: Share,
    /// Of the dealer's self-mask seed for each of its clusters.
    pub seeds: BTreeMap<ClusterId, Share>,
}

impl std::fmt::Debug for Dealt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dealt({} clusters, redacted)", self.seeds.len())
    }
}

impl Dealt {
    /// Digests in the order of [`Shares::digests`]: the mask secret's, then each seed's by cluster.
    #[must_use]
    pub fn digests(&self, dealer: ClientId, receiver: ClientId, context: &RoundContext) -> Vec<Digest> {
        std::iter::once((Secret::MaskKey, &self.mask))
            .chain(
                self.seeds
                    .iter()
                    .map(|(cluster, share)| (Secret::SelfMask(*cluster), share)),
            )
            .map(|(secret, share)| share_digest(share, dealer, receiver, secret, context))
            .collect()
    }

    /// A box's plaintext: the mask share, then the seed shares by cluster ascending, 32 bytes each.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(32 * (1 + self.seeds.len())));
        bytes.extend_from_slice(&*self.mask.to_bytes());
        for share in self.seeds.values() {
            bytes.extend_from_slice(&*share.to_bytes());
        }
        bytes
    }

    /// Reads the plaintext of a box whose dealer is in `clusters`; `None` for anything but canonical shares.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], clusters: &[ClusterId]) -> Option<Self> {
        let (shares, rest) = bytes.as_chunks::<32>();
        if !rest.is_empty() || shares.len() != 1 + clusters.len() {
            return None;
        }
        let mut shares = shares.iter().map(|share| Share::from_bytes(*share).ok());
        let mask = shares.next()??;
        let seeds = clusters
            .iter()
            .copied()
            .zip(shares)
            .map(|(cluster, share)| Some((cluster, share?)))
            .collect::<Option<_>>()?;
        Some(Self { mask, seeds })
    }
}

/// Who dealt what to whom, as the log says.
#[derive(Clone, Copy, Debug)]
pub struct BoxPlace<'a> {
    /// Who sealed the box.
    pub dealer: ClientId,
    /// Who it is for.
    pub receiver: ClientId,
    /// The dealer's statement.
    pub shares: &'a Shares,
    /// The dealer's clusters, ascending.
    pub clusters: &'a [ClusterId],
    /// Everybody in the roster, ascending.
    pub roster: &'a [ClientId],
    /// What the round's derivations are bound to.
    pub context: &'a RoundContext,
}

impl BoxPlace<'_> {
    /// Opens the box and compares every share with what its dealer stated. `None`: a bad box.
    #[must_use]
    pub fn open(&self, key: SealKey, sealed: Vec<u8>) -> Option<Dealt> {
        let bytes = Zeroizing::new(key.open(BOX_AAD, sealed).ok()?);
        let dealt = Dealt::from_bytes(&bytes, self.clusters)?;
        let stated = std::iter::once(None)
            .chain(self.clusters.iter().copied().map(Some))
            .map(|cluster| {
                self.shares
                    .digest_for(self.receiver, cluster, self.roster, self.clusters)
            });
        dealt
            .digests(self.dealer, self.receiver, self.context)
            .into_iter()
            .map(Some)
            .eq(stated)
            .then_some(dealt)
    }

    /// Whether this is the box the dealer signed for the receiver.
    #[must_use]
    pub fn is_the_box(&self, sealed: &[u8], proof: &[Digest]) -> bool {
        let others = || self.roster.iter().filter(|client| **client != self.dealer);
        let Some(index) = others().position(|client| *client == self.receiver) else {
            return false;
        };
        let proof: Vec<[u8; 32]> = proof.iter().map(|digest| digest.0).collect();
        merkle::verify_inclusion(
            &merkle::leaf_hash(sealed),
            index as u64,
            others().count() as u64,
            &proof,
            &self.shares.boxes.0,
        )
        .is_ok()
    }
}

/// The boxes of one dealer under one root, by receiver ascending (RFC 6962 hashing).
#[derive(Debug, Default)]
pub struct BoxTree(Tree);

impl BoxTree {
    /// The tree over a dealer's boxes.
    #[must_use]
    pub fn of<'a>(sealed: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut tree = Tree::new();
        for sealed in sealed {
            tree.append(sealed);
        }
        Self(tree)
    }

    /// The root, as [`Shares::boxes`] states it.
    #[must_use]
    pub fn root(&self) -> Digest {
        Digest(self.0.root())
    }

    /// The proof that box `index` is under the root; `None` beyond the last.
    #[must_use]
    pub fn proof(&self, index: usize) -> Option<Vec<Digest>> {
        let proof = self.0.inclusion_proof(index as u64, self.0.size()).ok()?;
        Some(proof.into_iter().map(Digest).collect())
    }
}

/// Authenticated with every box. The key of a box is bound to everything; this only names the purpose.
pub const BOX_AAD: &[u8] = b"veilsum/v1/shares";
