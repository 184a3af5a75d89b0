//! Waits for: `keys`. Sends: the roster. May drop here: anybody, while t are left.

use super::share::{Round, Share};
use super::{Core, PhaseName, answered};
use crate::Now;
use crate::abort::Abort;
use crate::message::{EntryBytes, Roster, ToClient};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_attestation::statement::{Keys, Signed};
use veilsum_crypto::{BoundedVec, ClientId};

/// Keys so far.
#[derive(Default)]
pub(super) struct Advertise {
    keys: BTreeMap<ClientId, Signed<Keys>>,
}

impl Advertise {
    pub(super) fn accept<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        entry: &[u8],
    ) -> Result<(), Refusal> {
        let signed = core.read::<Keys>(entry, from)?;
        let keys = signed.body();
        if keys.plan != core.plan_leaf || keys.head != core.plan.head {
            return Err(Refusal::WrongContext);
        }
        let clusters = core.plan.clusters_of(from).map(|(cluster, _)| cluster);
        if !keys
            .commitments
            .iter()
            .map(|commitment| commitment.cluster)
            .eq(clusters)
        {
            return Err(Refusal::WrongClusters);
        }
        keys.box_key.check()?;
        keys.mask_key.check()?;
        match self.keys.get(&from) {
            Some(known) if *known == signed => return Ok(()),
            Some(_) => return Err(Refusal::Conflict("keys")),
            None => {}
        }
        let (boxes, masks) = (keys.box_key.0, keys.mask_key.0);
        if boxes == masks || core.log.has_round_key(&boxes) || core.log.has_round_key(&masks) {
            return Err(Refusal::UsedKey);
        }
        core.record_bytes(entry);
        self.keys.insert(from, signed);
        Ok(())
    }

    /// Whether this client's keys are in.
    pub(super) fn holds(&self, client: ClientId) -> bool {
        self.keys.contains_key(&client)
    }

    pub(super) fn count(&self, present: &BTreeSet<ClientId>) -> (usize, usize) {
        answered(present, |client| self.keys.contains_key(client))
    }

    pub(super) fn finish<R: CryptoRng>(
        self,
        core: &mut Core<R>,
        now: Now,
    ) -> Result<Share, (Abort, PhaseName)> {
        let fail = |abort| (abort, PhaseName::Advertise);
        // A client that left after sending keys stays in the roster: everybody's view of it is the log's.
        let (have, need) = (self.keys.len(), core.threshold());
        if have < need {
            return Err(fail(Abort::TooFewKeys { have, need }));
        }
        let entries: Vec<EntryBytes> = self
            .keys
            .values()
            .map(|signed| signed.bytes().ok().and_then(|bytes| BoundedVec::new(bytes).ok()))
            .collect::<Option<_>>()
            .ok_or(fail(Abort::Internal("a keys entry is too long")))?;
        let keys = BoundedVec::new(entries).map_err(|_| fail(Abort::Internal("too many clients")))?;
        let message = Roster { keys };
        core.keep_present(|client| self.keys.contains_key(client));
        for client in core.present.clone() {
            core.send(client, ToClient::Roster(message.clone()));
        }
        core.deadline = now.plus(core.setup.deadlines.share);
        let round = Round::new(core, &self.keys);
        Ok(Share::new(round, message))
    }
}
