//! Waits for: `shares` with a box for every other client. Sends: each client its inbox. May drop here: anybody, while t
//! are left. The server cannot read a box and keeps none after sending it.

use super::collect::Collect;
use super::{Core, PhaseName, answered};
use crate::Now;
use crate::abort::Abort;
use crate::message::{Dealing, EntryBytes, Inbox, SealedBox, ToClient};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_attestation::statement::{Keys, Shares};
use veilsum_crypto::{BoundedVec, ClientId, Digest, RoundContext};

/// What the roster fixed.
pub(super) struct Round {
    pub(super) roster: BTreeMap<ClientId, Keys>,
    pub(super) roster_digest: Digest,
    pub(super) context: RoundContext,
}

/// Dealings so far.
pub(super) struct Share {
    round: Round,
    dealt: BTreeMap<ClientId, Dealt>,
}

struct Dealt {
    entry: EntryBytes,
    shares: Shares,
    boxes: BTreeMap<ClientId, BoundedVec<u8, 4096>>,
}

impl Share {
    pub(super) fn new(round: Round) -> Self {
        Self {
            round,
            dealt: BTreeMap::new(),
        }
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
        if !dealing.boxes.iter().map(|sealed| &sealed.peer).eq(others) {
            return Err(Refusal::BadShare { dealer: from });
        }
        match self.dealt.get(&from) {
            Some(known) if known.entry == dealing.entry => return Ok(()),
            Some(_) => return Err(Refusal::Conflict("shares")),
            None => {}
        }
        core.record_bytes(&dealing.entry);
        let boxes = dealing
            .boxes
            .into_vec()
            .into_iter()
            .map(|sealed| (sealed.peer, sealed.sealed))
            .collect();
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
        core.present.retain(|client| self.dealt.contains_key(client));
        let entries = self.dealt.values().map(|dealt| dealt.entry.clone()).collect();
        let shares = BoundedVec::new(entries).map_err(|_| fail(Abort::Internal("too many clients")))?;
        for client in core.present.clone() {
            let boxes = self
                .dealt
                .iter_mut()
                .filter_map(|(dealer, dealt)| {
                    dealt.boxes.remove(&client).map(|sealed| SealedBox {
                        peer: *dealer,
                        sealed,
                    })
                })
                .collect();
            let boxes = BoundedVec::new(boxes).map_err(|_| fail(Abort::Internal("too many clients")))?;
            core.send(
                client,
                ToClient::Inbox(Inbox {
                    shares: shares.clone(),
                    boxes,
                }),
            );
        }
        core.deadline = now.plus(core.setup.deadlines.mask);
        let dealers = self
            .dealt
            .into_iter()
            .map(|(client, dealt)| (client, dealt.shares))
            .collect();
        Ok(Collect::new(core, self.round, dealers))
    }
}
