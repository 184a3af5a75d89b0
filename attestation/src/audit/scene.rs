//! One attempt with everything the checks of it need.

use super::enrolment::Charter;
use super::report::Where;
use crate::block::counted;
use crate::bundle::{Attempt, Stray, Why};
use crate::statement::{ClientSet, KeyBook, Plan, Policy, roster_digest};
use veilsum_crypto::{ClientId, ClusterId, Digest, RoundContext};

/// An attempt on its stage.
pub(super) struct Scene<'a> {
    pub(super) charter: &'a Charter,
    pub(super) attempt: &'a Attempt,
    pub(super) place: Where,
    /// Digest over the leaves of the attempt's keys.
    pub(super) roster: Digest,
    pub(super) context: RoundContext,
    strays: Vec<&'a Stray>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        charter: &'a Charter,
        strays: &'a [Stray],
        number: usize,
        attempt: &'a Attempt,
    ) -> Self {
        let plan = &attempt.plan;
        let roster = roster_digest(attempt.keys.values().map(|said| &said.leaf));
        let context = plan
            .body
            .context(charter.policy.suite, *charter.book.federation(), plan.leaf)
            .with_roster(roster);
        Self {
            charter,
            attempt,
            place: Some((plan.body.round, plan.body.attempt)),
            roster,
            context,
            strays: strays
                .iter()
                .filter(|stray| stray.attempt == Some(number))
                .collect(),
        }
    }

    pub(super) fn plan(&self) -> &'a Plan {
        &self.attempt.plan.body
    }

    pub(super) fn plan_leaf(&self) -> Digest {
        self.attempt.plan.leaf
    }

    pub(super) fn policy(&self) -> &'a Policy {
        &self.charter.policy
    }

    pub(super) fn book(&self) -> &'a KeyBook {
        &self.charter.book
    }

    pub(super) fn threshold(&self) -> usize {
        self.charter.policy.threshold as usize
    }

    /// The clusters of a client, ascending.
    pub(super) fn clusters_of(&self, client: ClientId) -> Vec<ClusterId> {
        self.plan()
            .clusters_of(client)
            .map(|(cluster, _)| cluster)
            .collect()
    }

    /// The clients that dealt shares.
    pub(super) fn sharers(&self) -> ClientSet {
        self.attempt.shares.keys().copied().collect()
    }

    /// The clients whose masked statements were logged.
    pub(super) fn uploaded(&self) -> ClientSet {
        self.attempt.masked.keys().copied().collect()
    }

    /// Those of them that count: the whole group uploaded, where clients count in groups.
    pub(super) fn counted(&self) -> ClientSet {
        counted(self.plan(), self.policy().blocks, &self.uploaded())
    }

    /// The statements of this attempt that do not fit, for one reason.
    pub(super) fn strays(&self, why: Why) -> impl Iterator<Item = &'a Stray> {
        self.strays.iter().copied().filter(move |stray| stray.why == why)
    }
}
