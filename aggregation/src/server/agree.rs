//! Waits for: `agree` from the survivors. Sends: the agreement. May drop here: anybody, while t have signed.

use super::share::Round;
use super::unmask::Unmask;
use super::{Core, PhaseName, answered};
use crate::Now;
use crate::abort::Abort;
use crate::message::{Agreement, EntryBytes, ToClient};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_attestation::statement::{Agree, Shares};
use veilsum_crypto::{BoundedVec, ClientId, ClusterId};

/// Signatures so far.
pub(super) struct AgreePhase {
    round: Round,
    dealers: BTreeMap<ClientId, Shares>,
    sums: BTreeMap<ClusterId, Vec<u32>>,
    agree: Agree,
    signed: BTreeMap<ClientId, EntryBytes>,
}

impl AgreePhase {
    pub(super) fn new(
        round: Round,
        dealers: BTreeMap<ClientId, Shares>,
        sums: BTreeMap<ClusterId, Vec<u32>>,
        agree: Agree,
    ) -> Self {
        Self {
            round,
            dealers,
            sums,
            agree,
            signed: BTreeMap::new(),
        }
    }

    pub(super) fn accept<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        entry: &EntryBytes,
    ) -> Result<(), Refusal> {
        let signed = core.read::<Agree>(entry, from)?;
        if *signed.body() != self.agree {
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
        core.present.retain(|client| self.signed.contains_key(client));
        let agrees = self.signed.values().cloned().collect();
        let agrees = BoundedVec::new(agrees).map_err(|_| fail(Abort::Internal("too many clients")))?;
        for client in core.present.clone() {
            core.send(
                client,
                ToClient::Agreement(Agreement {
                    agrees: agrees.clone(),
                }),
            );
        }
        core.deadline = now.plus(core.setup.deadlines.unmask);
        let digest = self.agree.digest().map_err(|error| fail(Abort::Wire(error)))?;
        Ok(Unmask::new(
            self.round,
            self.dealers,
            self.sums,
            self.agree,
            digest,
        ))
    }
}
