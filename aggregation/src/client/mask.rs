//! Waits for: the inbox. Sends: `masked`, then the chunks of one masked vector per cluster. May drop here: yes, its mask
//! key is then reconstructed from t shares (Bonawitz et al. 2017, round 2). A partial upload counts as dropped.

use super::advertise::sign;
use super::plan::Scope;
use super::share::{BOX_AAD, Held, Shared};
use super::{Membership, at_least_threshold};
use crate::mask::MaskScope;
use crate::message::{Chunk, Inbox, ToServer};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::BTreeMap;
use veilsum_attestation::statement::{ClientSet, Masked, Party, Shares, Signed, VectorRoot, leaf_hash};
use veilsum_crypto::chunk::{self, Chunking};
use veilsum_crypto::residue::pack;
use veilsum_crypto::{BoundedVec, ClientId, Digest, MaskPublic};

/// The vectors are out; this client holds the others' shares.
pub(super) struct Uploaded {
    pub(super) scope: Scope,
    pub(super) roster_digest: Digest,
    pub(super) sharers: ClientSet,
    pub(super) held: BTreeMap<ClientId, Held>,
    pub(super) masked_leaf: Digest,
}

impl Shared {
    pub(super) fn on_inbox<R: CryptoRng>(
        mut self,
        member: &Membership,
        message: Inbox,
        rng: &mut R,
    ) -> Result<(Uploaded, Vec<ToServer>), Refusal> {
        let stated = self.read_shares(member, &message)?;
        let sharers: ClientSet = stated.keys().copied().collect();
        at_least_threshold(&sharers, "clients that dealt shares", &member.policy)?;
        let mut held = self.open_boxes(member, message, &stated)?;
        held.insert(member.me, self.own);

        let peers: BTreeMap<ClientId, MaskPublic> = self
            .roster
            .iter()
            .filter(|(client, _)| sharers.contains(client))
            .map(|(client, keys)| (*client, keys.mask_key))
            .collect();
        let mut roots = Vec::with_capacity(self.scope.mine.len());
        let mut chunks = Vec::new();
        for (cluster, model) in &self.scope.mine {
            let missing = Refusal::WrongClusters;
            let quantised = self.quantised.remove(cluster).ok_or(missing.clone())?;
            let seed = self.secrets.seeds.get(cluster).ok_or(missing.clone())?;
            let members = &self.scope.plan.cluster(*cluster).ok_or(missing)?.members;
            let peers = peers
                .iter()
                .filter(|(peer, _)| members.contains(peer))
                .map(|(peer, key)| (*peer, *key))
                .collect();
            let scope = MaskScope {
                context: &self.context,
                cluster: *cluster,
                model: *model,
            };
            let mut words = quantised.words().to_vec();
            drop(quantised);
            scope.put_on(&mut words, member.me, &self.secrets.masks, seed, &peers)?;

            let chunking = Chunking::new(member.policy.update.modulus, words.len());
            let mut leaves = Vec::with_capacity(chunking.count());
            for (index, stretch) in words.chunks(chunking.entries_per_chunk()).enumerate() {
                let bytes = pack(chunking.modulus(), stretch);
                leaves.push(chunk::leaf(index, &bytes));
                let index = u32::try_from(index).map_err(|_| Refusal::BadMasked("too many chunks"))?;
                chunks.push(ToServer::Chunk(Chunk {
                    round: self.scope.plan.round,
                    attempt: self.scope.plan.attempt,
                    cluster: *cluster,
                    index,
                    bytes,
                }));
            }
            roots.push(VectorRoot {
                cluster: *cluster,
                root: chunk::root(&leaves),
                bytes: chunking.total_bytes().unwrap_or_default() as u64,
            });
        }
        let body = Masked {
            plan: self.scope.leaf,
            roster: self.roster_digest,
            sharers: sharers.clone(),
            vectors: BoundedVec::new(roots).map_err(|_| Refusal::WrongClusters)?,
        };
        let entry = sign(member, body, rng)?;
        let next = Uploaded {
            scope: self.scope,
            roster_digest: self.roster_digest,
            sharers,
            held,
            masked_leaf: leaf_hash(&entry),
        };
        // The mask secret and the self-mask seeds end here: shares of them are all anybody needs.
        drop(self.secrets);
        let mut sends = vec![ToServer::Masked(entry)];
        sends.append(&mut chunks);
        Ok((next, sends))
    }

    /// Every dealer's statement, checked; this client's own must be among them, unchanged.
    fn read_shares(
        &self,
        member: &Membership,
        message: &Inbox,
    ) -> Result<BTreeMap<ClientId, Shares>, Refusal> {
        if !message.shares.contains(&self.own_entry) {
            return Err(Refusal::BadInbox(
                "this client's own shares are missing or were changed",
            ));
        }
        let mut stated = BTreeMap::new();
        for entry in &message.shares {
            let signed = member.book.verify(Signed::<Shares>::parse(entry)?)?.into_inner();
            let Party::Client(dealer) = signed.signer() else {
                return Err(Refusal::BadInbox("shares that are not a client's"));
            };
            if stated.last_key_value().is_some_and(|(last, _)| *last >= dealer) {
                return Err(Refusal::BadInbox("dealers are not in ascending order"));
            }
            if !self.roster.contains_key(&dealer) {
                return Err(Refusal::BadInbox("a dealer is not in the roster"));
            }
            let shares = signed.body();
            if shares.plan != self.scope.leaf || shares.roster != self.roster_digest {
                return Err(Refusal::SplitView("another client was shown another roster"));
            }
            let clusters = self.scope.plan.clusters_of(dealer).count();
            if shares.digests.len() != self.roster.len() * (1 + clusters) {
                return Err(Refusal::BadShare { dealer });
            }
            stated.insert(dealer, shares.clone());
        }
        Ok(stated)
    }

    fn open_boxes(
        &self,
        member: &Membership,
        message: Inbox,
        stated: &BTreeMap<ClientId, Shares>,
    ) -> Result<BTreeMap<ClientId, Held>, Refusal> {
        let mut boxes: BTreeMap<ClientId, Vec<u8>> = message
            .boxes
            .into_vec()
            .into_iter()
            .map(|sealed| (sealed.peer, sealed.sealed.into_vec()))
            .collect();
        let mut held = BTreeMap::new();
        for (dealer, statement) in stated.iter().filter(|(dealer, _)| **dealer != member.me) {
            let bad = Refusal::BadShare { dealer: *dealer };
            let keys = self
                .roster
                .get(dealer)
                .ok_or(Refusal::BadInbox("a dealer is not in the roster"))?;
            let sealed = boxes
                .remove(dealer)
                .ok_or(Refusal::BadInbox("a dealer's box is missing"))?;
            let key = self
                .secrets
                .boxes
                .seal_key(&keys.box_key, *dealer, member.me, &self.context)?;
            let bytes = zeroize::Zeroizing::new(key.open(BOX_AAD, sealed).map_err(|_| bad.clone())?);
            let clusters: Vec<_> = self
                .scope
                .plan
                .clusters_of(*dealer)
                .map(|(cluster, _)| cluster)
                .collect();
            let shares = Held::from_bytes(&bytes, &clusters).ok_or(bad.clone())?;
            let want = std::iter::once(None)
                .chain(clusters.iter().copied().map(Some))
                .map(|cluster| statement.digest_for(member.me, cluster, self.roster.keys(), &clusters));
            if !shares
                .digests(*dealer, member.me, &self.context)
                .into_iter()
                .map(Some)
                .eq(want)
            {
                return Err(bad);
            }
            held.insert(*dealer, shares);
        }
        if boxes.is_empty() {
            Ok(held)
        } else {
            Err(Refusal::BadInbox("a box without a dealer"))
        }
    }
}
