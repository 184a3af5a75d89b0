//! Waits for: `agree` from the survivors. Sends: the agreement. May drop here: anybody, while t have signed.

use super::unmask::{Unmask, Unmasking};
use super::{Core, PhaseName, answered};
use crate::Now;
use crate::abort::Abort;
use crate::message::{Agreement, EntryBytes, Proposal, ToClient};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_attestation::statement::Agree;
use veilsum_crypto::{BoundedVec, ClientId};

/// Signatures so far.
pub(super) struct AgreePhase {
    next: Unmasking,
    /// What each survivor was sent, for those that come back without it.
    proposals: BTreeMap<ClientId, Proposal>,
    signed: BTreeMap<ClientId, EntryBytes>,
}

impl AgreePhase {
    pub(super) fn new(next: Unmasking, proposals: BTreeMap<ClientId, Proposal>) -> Self {
        Self {
            next,
            proposals,
            signed: BTreeMap::new(),
        }
    }

    pub(super) fn proposal(&self, client: ClientId) -> Result<Proposal, Refusal> {
        self.proposals.get(&client).cloned().ok_or(Refusal::Late)
    }

    pub(super) fn accept<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        entry: &EntryBytes,
    ) -> Result<(), Refusal> {
        let signed = core.read::<Agree>(entry, from)?;
        if signed.body().plan != core.plan_leaf {
            return Err(Refusal::WrongContext);
        }
        if *signed.body() != self.next.agree {
            return Err(Refusal::SplitView(
                "the client signed something else than was proposed",
            ));
        }
        if let Some(known) = self.signed.get(&from) {
            return if known == entry {
                Ok(())
            } else {
                Err(Refusal::Conflict("agree"))
            };
        }
        core.record_bytes(entry);
        self.signed.insert(from, entry.clone());
        Ok(())
    }

    pub(super) fn count(&self, present: &BTreeSet<ClientId>) -> (usize, usize) {
        answered(present, |client| self.signed.contains_key(client))
    }

    pub(super) fn finish<R: CryptoRng>(
        self,
        core: &mut Core<R>,
        now: Now,
    ) -> Result<Unmask, (Abort, PhaseName)> {
        let fail = |abort| (abort, PhaseName::Agree);
        let (have, need) = (self.signed.len(), core.threshold());
        if have < need {
            return Err(fail(Abort::TooFewAgree { have, need }));
        }
        core.keep_present(|client| self.signed.contains_key(client));
        let agrees = self.signed.values().cloned().collect();
        let agrees = BoundedVec::new(agrees).map_err(|_| fail(Abort::Internal("too many clients")))?;
        core.asked = true;
        let agreement = Agreement { agrees };
        for client in core.present.clone() {
            core.send(client, ToClient::Agreement(agreement.clone()));
        }
        core.deadline = now.plus(core.setup.deadlines.unmask);
        Unmask::new(self.next, agreement).map_err(|error| fail(Abort::Wire(error)))
    }
}
