//! Waits for: the proposal. Sends: `agree`. May drop here: yes, its vector stays counted; others hold its shares.
//! (Bonawitz et al. 2017, round 3, with the log head and the release set under the same signature.)

use super::advertise::sign;
use super::mask::Uploaded;
use super::plan::Scope;
use super::{Membership, at_least_threshold};
use crate::message::{EntryBytes, Proposal, ToServer};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::BTreeMap;
use veilsum_attestation::Head;
use veilsum_attestation::block::counted;
use veilsum_attestation::dealing::Dealt;
use veilsum_attestation::release::release_for;
use veilsum_attestation::statement::Agree;
use veilsum_crypto::ClientId;

/// This client has signed; it never signs another set in this attempt, because the phase is spent.
pub(super) struct Agreed {
    pub(super) scope: Scope,
    pub(super) held: BTreeMap<ClientId, Dealt>,
    pub(super) agree: Agree,
    /// What this client signed and sent.
    pub(super) entry: EntryBytes,
}

impl Uploaded {
    /// What the server proposes with this message, as this client would sign it.
    pub(super) fn proposed(&self, message: &Proposal) -> Agree {
        Agree {
            plan: self.scope.leaf,
            roster: self.roster_digest,
            sharers: self.sharers.clone(),
            survivors: message.survivors.clone(),
            release: message.release.clone(),
            head: message.head,
            server: message.server,
        }
    }

    pub(super) fn on_proposal<R: CryptoRng>(
        self,
        member: &Membership,
        message: &Proposal,
        rng: &mut R,
    ) -> Result<(Agreed, ToServer), Refusal> {
        if !message.survivors.contains(&member.me) {
            return Err(Refusal::SplitView(
                "this client uploaded and is not among the survivors",
            ));
        }
        // Groups are counted whole: the difference to a round where one of them is missing is never a single client.
        if counted(&self.scope.plan, member.policy.blocks, &message.survivors) != message.survivors {
            return Err(Refusal::SplitView(
                "a group of clients is among the survivors in part",
            ));
        }
        // Its masks pair this client with the sharers it was told of. A survivor outside them would leave it covered by
        // fewer pairwise masks than the survivor set promises.
        if !message.survivors.is_subset(&self.sharers) {
            return Err(Refusal::SplitView("a survivor never dealt shares to this client"));
        }
        at_least_threshold(&message.survivors, "survivors", &member.policy)?;
        if !message.head.extends(&self.scope.plan.head, &message.consistency) {
            return Err(Refusal::Rollback);
        }
        if !message
            .head
            .includes(&self.masked_leaf, message.index, &message.inclusion)
        {
            return Err(Refusal::SplitView(
                "this client's masked statement is not in the log shown",
            ));
        }
        let release = release_for(&self.scope.plan, &message.survivors, &member.book, &member.policy)
            .map_err(|_| Refusal::ReleaseLeaks)?;
        if release.is_empty() || release.as_slice() != &*message.release {
            return Err(Refusal::ReleaseLeaks);
        }
        let agree = self.proposed(message);
        if !agree.is_proposed_by(&member.policy.server, member.book.federation()) {
            return Err(Refusal::SplitView(
                "the server's signature is on another proposal than the one it sent",
            ));
        }
        let entry = sign(member, agree.clone(), rng)?;
        Ok((
            Agreed {
                scope: self.scope,
                held: self.held,
                agree,
                entry: entry.clone(),
            },
            ToServer::Agree(entry),
        ))
    }
}

impl Agreed {
    pub(super) fn head(&self) -> Head {
        self.agree.head
    }
}
