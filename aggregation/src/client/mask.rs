//! Waits for: the inbox. Sends: a `complaint` for each bad box, `masked`, then the chunks of one masked vector per cluster.
//! May drop here: yes, its mask key is then reconstructed from t shares (Bonawitz et al. 2017, round 2). A partial upload
//! counts as dropped.

use super::advertise::sign;
use super::plan::Scope;
use super::share::Shared;
use super::{Membership, at_least_threshold};
use crate::mask::MaskScope;
use crate::message::{DealtBox, EntryBytes, Inbox, ToServer};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_attestation::dealing::{BoxPlace, Dealt};
use veilsum_attestation::statement::{
    ClientSet, Complaint, Keys, Masked, Party, Shares, Signed, VectorRoot, leaf_hash,
};
use veilsum_crypto::chunk::{self, Chunking};
use veilsum_crypto::residue::pack;
use veilsum_crypto::{BoundedVec, BoxEnds, ClientId, ClusterId, Digest, PairSecret};

/// The vectors are out; this client holds the others' shares.
pub(super) struct Uploaded {
    pub(super) scope: Scope,
    pub(super) roster_digest: Digest,
    pub(super) sharers: ClientSet,
    /// Good shares, by dealer.
    pub(super) held: BTreeMap<ClientId, Dealt>,
    /// Entries about dealers whose box was bad.
    pub(super) complaints: Vec<EntryBytes>,
    pub(super) masked: EntryBytes,
    pub(super) masked_leaf: Digest,
    /// The clusters there is a vector for.
    pub(super) vectors: Vec<ClusterId>,
}

/// One packed masked vector.
pub(super) type Packed = (ClusterId, Vec<u8>);

impl Shared {
    pub(super) fn on_inbox<R: CryptoRng>(
        mut self,
        member: &Membership,
        message: Inbox,
        rng: &mut R,
    ) -> Result<(Uploaded, Vec<Packed>), Refusal> {
        let stated = self.read_shares(member, &message)?;
        let sharers: ClientSet = stated.keys().copied().collect();
        at_least_threshold(&sharers, "clients that dealt shares", &member.policy)?;
        let (mut held, complaints) = self.open_boxes(member, message, &stated, rng)?;
        let pairs = self.pairs(member, &sharers)?;
        held.insert(member.me, self.own);

        let mut roots = Vec::with_capacity(self.scope.mine.len());
        let mut vectors = Vec::with_capacity(self.scope.mine.len());
        for (cluster, model) in &self.scope.mine {
            let missing = Refusal::WrongClusters;
            let quantised = self.quantised.remove(cluster).ok_or(missing.clone())?;
            let seed = self.secrets.seeds.get(cluster).ok_or(missing.clone())?;
            let members = &self.scope.plan.cluster(*cluster).ok_or(missing)?.members;
            let pairs = pairs
                .iter()
                .filter(|(peer, _)| members.contains(peer))
                .map(|(_, pair)| pair);
            let scope = MaskScope {
                context: &self.context,
                cluster: *cluster,
                model: *model,
            };
            let mut words = quantised.words().to_vec();
            drop(quantised);
            scope.put_on(&mut words, member.me, seed, pairs);

            let chunking = Chunking::new(member.policy.update.modulus, words.len());
            let mut packed = Vec::with_capacity(chunking.total_bytes().unwrap_or_default());
            let mut leaves = Vec::with_capacity(chunking.count());
            for (index, stretch) in words.chunks(chunking.entries_per_chunk()).enumerate() {
                let bytes = pack(chunking.modulus(), stretch);
                leaves.push(chunk::leaf(index, &bytes));
                packed.extend_from_slice(&bytes);
            }
            roots.push(VectorRoot {
                cluster: *cluster,
                root: chunk::root(&leaves),
                bytes: packed.len() as u64,
            });
            vectors.push((*cluster, packed));
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
            complaints,
            masked_leaf: leaf_hash(&entry),
            masked: entry,
            vectors: vectors.iter().map(|(cluster, _)| *cluster).collect(),
        };
        // The mask secret and the self-mask seeds end here: shares of them are all anybody needs.
        drop(self.secrets);
        Ok((next, vectors))
    }

    /// What this client has in common with each client that dealt shares and is in one of its clusters.
    fn pairs(
        &self,
        member: &Membership,
        sharers: &ClientSet,
    ) -> Result<BTreeMap<ClientId, PairSecret>, Refusal> {
        let plan = &self.scope.plan;
        let near: BTreeSet<ClientId> = self
            .scope
            .mine
            .iter()
            .filter_map(|(cluster, _)| plan.cluster(*cluster))
            .flat_map(|cluster| cluster.members.iter().copied())
            .filter(|peer| *peer != member.me && sharers.contains(peer))
            .collect();
        self.roster
            .iter()
            .filter(|(peer, _)| near.contains(peer))
            .map(|(peer, keys)| {
                let pair = self.secrets.masks.pair(member.me, *peer, &keys.mask_key)?;
                Ok((*peer, pair))
            })
            .collect()
    }

    /// Every dealer's statement, checked; this client's own must be among them, unchanged.
    fn read_shares(
        &self,
        member: &Membership,
        message: &Inbox,
    ) -> Result<BTreeMap<ClientId, Shares>, Refusal> {
        if !message.shares.contains(&self.dealing.entry) {
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

    /// Opens every box. A bad one that its dealer signed becomes a complaint; a box nobody signed is the server's fault.
    fn open_boxes<R: CryptoRng>(
        &self,
        member: &Membership,
        message: Inbox,
        stated: &BTreeMap<ClientId, Shares>,
        rng: &mut R,
    ) -> Result<(BTreeMap<ClientId, Dealt>, Vec<EntryBytes>), Refusal> {
        let mut boxes: BTreeMap<ClientId, DealtBox> = message
            .boxes
            .into_vec()
            .into_iter()
            .map(|dealt| (dealt.dealer, dealt))
            .collect();
        let roster: Vec<ClientId> = self.roster.keys().copied().collect();
        let mut held = BTreeMap::new();
        let mut complaints = Vec::new();
        for (dealer, shares) in stated.iter().filter(|(dealer, _)| **dealer != member.me) {
            let keys = self
                .roster
                .get(dealer)
                .ok_or(Refusal::BadInbox("a dealer is not in the roster"))?;
            let dealt = boxes
                .remove(dealer)
                .ok_or(Refusal::BadInbox("a dealer's box is missing"))?;
            let clusters: Vec<_> = self
                .scope
                .plan
                .clusters_of(*dealer)
                .map(|(cluster, _)| cluster)
                .collect();
            let place = BoxPlace {
                dealer: *dealer,
                receiver: member.me,
                shares,
                clusters: &clusters,
                roster: &roster,
                context: &self.context,
            };
            if !place.is_the_box(&dealt.sealed, &dealt.proof) {
                return Err(Refusal::BadInbox("a box is not the one its dealer signed"));
            }
            let key = self
                .secrets
                .boxes
                .seal_key(&keys.box_key, *dealer, member.me, &self.context)?;
            match place.open(key, dealt.sealed.to_vec()) {
                Some(shares) => {
                    held.insert(*dealer, shares);
                }
                None => complaints.push(self.complain(member, dealt, keys, rng)?),
            }
        }
        if boxes.is_empty() {
            Ok((held, complaints))
        } else {
            Err(Refusal::BadInbox("a box without a dealer"))
        }
    }

    fn complain<R: CryptoRng>(
        &self,
        member: &Membership,
        dealt: DealtBox,
        dealer: &Keys,
        rng: &mut R,
    ) -> Result<EntryBytes, Refusal> {
        let ends = BoxEnds {
            dealer: dealt.dealer,
            dealer_key: dealer.box_key,
            receiver: member.me,
            receiver_key: self.secrets.boxes.public(),
        };
        let body = Complaint {
            plan: self.scope.leaf,
            roster: self.roster_digest,
            dealer: dealt.dealer,
            sealed: dealt.sealed,
            proof: dealt.proof,
            opening: self.secrets.boxes.open_to_all(&ends, &self.context, rng)?,
        };
        sign(member, body, rng)
    }
}

impl Uploaded {
    /// What to send once everything is written down, or again after a lost connection.
    pub(super) fn sends(&self) -> impl Iterator<Item = ToServer> {
        self.complaints
            .iter()
            .cloned()
            .map(ToServer::Complaint)
            .chain([ToServer::Masked(self.masked.clone())])
    }
}
