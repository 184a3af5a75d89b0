//! Waits for: the roster. Sends: `shares` and a sealed box for every other client. May drop here: yes, the others hold
//! what it takes to do without this client once its shares are dealt (Bonawitz et al. 2017, round 1).

use super::advertise::{Advertised, Secrets, sign};
use super::plan::Scope;
use super::{Membership, at_least_threshold};
use crate::message::{Dealing, Roster, SealedBox, ToServer};
use crate::refusal::Refusal;
use crate::update::Quantised;
use rand_core::CryptoRng;
use std::collections::BTreeMap;
use veilsum_attestation::statement::{ClientSet, Keys, Party, Shares, roster_digest as keys_roster_digest};
use veilsum_crypto::share::{Secret, share_digest, split};
use veilsum_crypto::{BoundedVec, ClientId, ClusterId, Digest, RoundContext, Share};
use zeroize::Zeroizing;

/// The shares one dealer gave this client.
pub(super) struct Held {
    pub(super) mask: Share,
    pub(super) seeds: BTreeMap<ClusterId, Share>,
}

/// Shares are out; waiting for everybody else's.
pub(super) struct Shared {
    pub(super) scope: Scope,
    pub(super) secrets: Secrets,
    pub(super) quantised: BTreeMap<ClusterId, Quantised>,
    pub(super) roster: BTreeMap<ClientId, Keys>,
    pub(super) roster_digest: Digest,
    pub(super) context: RoundContext,
    pub(super) own: Held,
    pub(super) own_entry: crate::message::EntryBytes,
}

impl Advertised {
    pub(super) fn on_roster<R: CryptoRng>(
        self,
        member: &Membership,
        message: &Roster,
        rng: &mut R,
    ) -> Result<(Shared, ToServer), Refusal> {
        let (roster, leaves) = self.read_roster(member, message)?;
        let holders: Vec<ClientId> = roster.keys().copied().collect();
        at_least_threshold(
            &holders.iter().copied().collect::<ClientSet>(),
            "clients in the roster",
            &member.policy,
        )?;
        let roster_digest = keys_roster_digest(&leaves);
        let context = self.scope.context.with_roster(roster_digest);

        let threshold = member.policy.threshold as usize;
        let mut masks = split(&self.secrets.masks, threshold, &holders, rng)?;
        let mut seeds = BTreeMap::new();
        for (cluster, seed) in &self.secrets.seeds {
            seeds.insert(*cluster, split(seed, threshold, &holders, rng)?);
        }
        let mut own = None;
        let mut digests = Vec::with_capacity(holders.len() * (1 + seeds.len()));
        let mut boxes = Vec::with_capacity(holders.len());
        // Popped from the end so that every share moves into its box and no copy stays behind.
        for (holder, keys) in roster.iter().rev() {
            let held = Held {
                mask: masks
                    .pop()
                    .ok_or(Refusal::BadRoster("holders and shares differ"))?,
                seeds: seeds
                    .iter_mut()
                    .map(|(cluster, shares)| Some((*cluster, shares.pop()?)))
                    .collect::<Option<_>>()
                    .ok_or(Refusal::BadRoster("holders and shares differ"))?,
            };
            digests.push(held.digests(member.me, *holder, &context));
            if *holder == member.me {
                own = Some(held);
            } else {
                let key = self
                    .secrets
                    .boxes
                    .seal_key(&keys.box_key, member.me, *holder, &context)?;
                let sealed = key
                    .seal(BOX_AAD, held.to_bytes().to_vec())
                    .map_err(|_| Refusal::BadRoster("a box cannot be sealed"))?;
                let sealed = BoundedVec::new(sealed)
                    .map_err(|_| Refusal::BadRoster("too many clusters for one box"))?;
                boxes.push(SealedBox {
                    peer: *holder,
                    sealed,
                });
            }
        }
        boxes.reverse();
        let digests = digests.into_iter().rev().flatten().collect();
        let body = Shares {
            plan: self.scope.leaf,
            roster: roster_digest,
            digests: BoundedVec::new(digests)
                .map_err(|_| Refusal::BadRoster("clients times clusters exceed what one statement holds"))?,
        };
        let entry = sign(member, body, rng)?;
        let boxes = BoundedVec::new(boxes).map_err(|_| Refusal::BadRoster("too many clients"))?;
        let next = Shared {
            scope: self.scope,
            secrets: self.secrets,
            quantised: self.quantised,
            roster,
            roster_digest,
            context,
            own: own.ok_or(Refusal::BadRoster("this client is not in it"))?,
            own_entry: entry.clone(),
        };
        Ok((next, ToServer::Shares(Dealing { entry, boxes })))
    }

    /// The roster's keys and their leaf hashes, everything checked.
    fn read_roster(
        &self,
        member: &Membership,
        message: &Roster,
    ) -> Result<(BTreeMap<ClientId, Keys>, Vec<Digest>), Refusal> {
        if !message.keys.contains(&self.keys) {
            return Err(Refusal::BadRoster(
                "this client's keys are not in it, or were changed",
            ));
        }
        let mut roster = BTreeMap::new();
        let mut leaves = Vec::with_capacity(message.keys.len());
        for entry in &message.keys {
            let unverified = veilsum_attestation::statement::Signed::<Keys>::parse(entry)?;
            let signed = member.book.verify(unverified)?.into_inner();
            let Party::Client(client) = signed.signer() else {
                return Err(Refusal::BadRoster("keys that are not a client's"));
            };
            if roster.last_key_value().is_some_and(|(last, _)| *last >= client) {
                return Err(Refusal::BadRoster("clients are not in ascending order"));
            }
            let keys = signed.body();
            if keys.plan != self.scope.leaf {
                return Err(Refusal::SplitView("another client joined another plan"));
            }
            let clusters = self.scope.plan.clusters_of(client).map(|(cluster, _)| cluster);
            if !keys
                .commitments
                .iter()
                .map(|commitment| commitment.cluster)
                .eq(clusters)
                || keys.commitments.is_empty()
            {
                return Err(Refusal::BadRoster(
                    "commitments are not for the client's clusters",
                ));
            }
            keys.box_key.check()?;
            keys.mask_key.check()?;
            leaves.push(signed.leaf());
            roster.insert(client, keys.clone());
        }
        Ok((roster, leaves))
    }
}

impl Held {
    /// Digests in the order of [`Shares::digests`].
    pub(super) fn digests(&self, dealer: ClientId, holder: ClientId, context: &RoundContext) -> Vec<Digest> {
        std::iter::once((Secret::MaskKey, &self.mask))
            .chain(
                self.seeds
                    .iter()
                    .map(|(cluster, share)| (Secret::SelfMask(*cluster), share)),
            )
            .map(|(secret, share)| share_digest(share, dealer, holder, secret, context))
            .collect()
    }

    /// A box's plaintext: the mask share, then the seed shares by cluster ascending, 32 bytes each.
    fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(32 * (1 + self.seeds.len())));
        bytes.extend_from_slice(&*self.mask.to_bytes());
        for share in self.seeds.values() {
            bytes.extend_from_slice(&*share.to_bytes());
        }
        bytes
    }

    /// Reads a box's plaintext for a dealer that is in `clusters`.
    pub(super) fn from_bytes(bytes: &[u8], clusters: &[ClusterId]) -> Option<Self> {
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

/// The key of a box is bound to everything; the additional data only names the purpose.
pub(super) const BOX_AAD: &[u8] = b"veilsum/v1/shares";
