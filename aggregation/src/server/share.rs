//! Waits for: `shares` with a box for every other client. Sends: each client its inbox. May drop here: anybody, while t
//! are left. The server cannot read a box; it keeps a client's until that client has uploaded, for one that comes back.

use super::collect::{Collect, Inboxes};
use super::{Core, PhaseName, answered};
use crate::Now;
use crate::abort::Abort;
use crate::message::{Dealing, DealtBox, EntryBytes, Inbox, Roster, ToClient};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_attestation::dealing::BoxTree;
use veilsum_attestation::statement::{Keys, Shares, Signed, roster_digest};
use veilsum_crypto::{BoundedVec, BoxPublic, ClientId, Digest, RoundContext};

/// What the roster fixed.
pub(super) struct Round {
    pub(super) roster: BTreeMap<ClientId, Keys>,
    pub(super) roster_digest: Digest,
    pub(super) context: RoundContext,
}

/// Dealings so far.
pub(super) struct Share {
    round: Round,
    /// What every client was sent, for those that come back without it.
    message: Roster,
    dealt: BTreeMap<ClientId, Dealt>,
}

struct Dealt {
    entry: EntryBytes,
    shares: Shares,
    boxes: BTreeMap<ClientId, DealtBox>,
}

impl Round {
    /// What these keys fix.
    pub(super) fn new<R>(core: &Core<R>, keys: &BTreeMap<ClientId, Signed<Keys>>) -> Self {
        let leaves: Vec<Digest> = keys.values().map(Signed::leaf).collect();
        let roster_digest = roster_digest(&leaves);
        let context = core
            .plan
            .context(
                core.setup.policy.suite,
                *core.setup.book.federation(),
                core.plan_leaf,
            )
            .with_roster(roster_digest);
        Self {
            roster: keys
                .iter()
                .map(|(client, signed)| (*client, signed.body().clone()))
                .collect(),
            roster_digest,
            context,
        }
    }

    /// Everybody's box keys.
    pub(super) fn box_keys(&self) -> BTreeMap<ClientId, BoxPublic> {
        self.roster
            .iter()
            .map(|(client, keys)| (*client, keys.box_key))
            .collect()
    }
}

impl Share {
    pub(super) fn new(round: Round, message: Roster) -> Self {
        Self {
            round,
            message,
            dealt: BTreeMap::new(),
        }
    }

    pub(super) fn roster_message(&self) -> Roster {
        self.message.clone()
    }

    pub(super) fn accept<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        dealing: Dealing,
    ) -> Result<(), Refusal> {
        let signed = core.read::<Shares>(&dealing.entry, from)?;
        let shares = signed.body();
        if shares.plan != core.plan_leaf || shares.roster != self.round.roster_digest {
            return Err(Refusal::WrongContext);
        }
        let clusters = core.plan.clusters_of(from).count();
        if shares.digests.len() != self.round.roster.len() * (1 + clusters) {
            return Err(Refusal::BadShare { dealer: from });
        }
        let others = self.round.roster.keys().filter(|client| **client != from);
        if !dealing.boxes.iter().map(|sealed| &sealed.receiver).eq(others) {
            return Err(Refusal::BadShare { dealer: from });
        }
        let tree = BoxTree::of(dealing.boxes.iter().map(|sealed| &*sealed.sealed));
        if tree.root() != shares.boxes {
            return Err(Refusal::BadShare { dealer: from });
        }
        match self.dealt.get(&from) {
            Some(known) if known.entry == dealing.entry => return Ok(()),
            Some(_) => return Err(Refusal::Conflict("shares")),
            None => {}
        }
        let boxes = dealing
            .boxes
            .into_vec()
            .into_iter()
            .enumerate()
            .map(|(index, sealed)| {
                let proof = tree.proof(index).and_then(|proof| BoundedVec::new(proof).ok());
                let dealt = DealtBox {
                    dealer: from,
                    sealed: sealed.sealed,
                    proof: proof.ok_or(Refusal::BadShare { dealer: from })?,
                };
                Ok((sealed.receiver, dealt))
            })
            .collect::<Result<_, Refusal>>()?;
        core.record_bytes(&dealing.entry);
        self.dealt.insert(
            from,
            Dealt {
                entry: dealing.entry,
                shares: shares.clone(),
                boxes,
            },
        );
        Ok(())
    }

    pub(super) fn count(&self, present: &BTreeSet<ClientId>) -> (usize, usize) {
        answered(present, |client| self.dealt.contains_key(client))
    }

    pub(super) fn finish<R: CryptoRng>(
        mut self,
        core: &mut Core<R>,
        now: Now,
    ) -> Result<Collect, (Abort, PhaseName)> {
        let fail = |abort| (abort, PhaseName::Share);
        let (have, need) = (self.dealt.len(), core.threshold());
        if have < need {
            return Err(fail(Abort::TooFewShares { have, need }));
        }
        core.keep_present(|client| self.dealt.contains_key(client));
        let entries = self.dealt.values().map(|dealt| dealt.entry.clone()).collect();
        let shares = BoundedVec::new(entries).map_err(|_| fail(Abort::Internal("too many clients")))?;
        let mut inboxes = BTreeMap::new();
        for client in core.present.clone() {
            let boxes = self
                .dealt
                .values_mut()
                .filter_map(|dealt| dealt.boxes.remove(&client))
                .collect();
            let boxes = BoundedVec::new(boxes).map_err(|_| fail(Abort::Internal("too many clients")))?;
            let inbox = Inbox {
                shares: shares.clone(),
                boxes,
            };
            inboxes.insert(client, inbox.boxes.clone());
            core.send(client, ToClient::Inbox(inbox));
        }
        core.deadline = now.plus(core.setup.deadlines.mask);
        let dealers = self
            .dealt
            .into_iter()
            .map(|(client, dealt)| (client, dealt.shares))
            .collect();
        Ok(Collect::new(
            core,
            self.round,
            dealers,
            Inboxes {
                shares,
                boxes: inboxes,
            },
        ))
    }
}
