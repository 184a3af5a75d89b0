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
use veilsum_attestation::dealing::{BOX_AAD, BoxTree, Dealt};
use veilsum_attestation::statement::{ClientSet, Keys, Party, Shares, roster_digest as keys_roster_digest};
use veilsum_crypto::share::split;
use veilsum_crypto::{BoundedVec, ClientId, ClusterId, Digest, RoundContext};

/// Shares are out; waiting for everybody else's.
pub(super) struct Shared {
    pub(super) scope: Scope,
    pub(super) secrets: Secrets,
    pub(super) quantised: BTreeMap<ClusterId, Quantised>,
    pub(super) roster: BTreeMap<ClientId, Keys>,
    pub(super) roster_digest: Digest,
    pub(super) context: RoundContext,
    pub(super) own: Dealt,
    /// What this client sent, for a server that may not have it.
    pub(super) dealing: Dealing,
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
            let held = Dealt {
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
                    receiver: *holder,
                    sealed,
                });
            }
        }
        boxes.reverse();
        let digests = digests.into_iter().rev().flatten().collect();
        let tree = BoxTree::of(boxes.iter().map(|sealed| &*sealed.sealed));
        let body = Shares {
            plan: self.scope.leaf,
            roster: roster_digest,
            boxes: tree.root(),
            digests: BoundedVec::new(digests)
                .map_err(|_| Refusal::BadRoster("clients times clusters exceed what one statement holds"))?,
        };
        let entry = sign(member, body, rng)?;
        let boxes = BoundedVec::new(boxes).map_err(|_| Refusal::BadRoster("too many clients"))?;
        let dealing = Dealing { entry, boxes };
        let next = Shared {
            scope: self.scope,
            secrets: self.secrets,
            quantised: self.quantised,
            roster,
            roster_digest,
            context,
            own: own.ok_or(Refusal::BadRoster("this client is not in it"))?,
            dealing: dealing.clone(),
        };
        Ok((next, ToServer::Shares(dealing)))
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
