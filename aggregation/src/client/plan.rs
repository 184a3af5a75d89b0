//! Waits for: a plan. Sends: nothing yet, orders training. May drop here: yes, nobody counts on this client.
//! The plan must name this client's policy, extend its log, be newer than its last round, and pass the disclosure rule.

use super::journal::{Grouping, JournalError};
use super::{ClientOutput, Membership};
use crate::message::{EntryBytes, PlanMessage};
use crate::refusal::Refusal;
use veilsum_attestation::Head;
use veilsum_attestation::release::{PlanLeak, check_plan};
use veilsum_attestation::statement::{ClientSet, Party, Plan, Signed};
use veilsum_crypto::{Attempt, ClusterId, Digest, PlanContext, RoundId};

/// What every later phase needs of the plan.
pub(super) struct Scope {
    /// The plan's entry, as it came.
    pub(super) entry: EntryBytes,
    pub(super) plan: Plan,
    pub(super) leaf: Digest,
    pub(super) context: PlanContext,
    /// This client's clusters, ascending, with their models.
    pub(super) mine: Vec<(ClusterId, Digest)>,
}

impl Scope {
    fn new(member: &Membership, entry: EntryBytes, signed: &Signed<Plan>) -> Self {
        let plan = signed.body().clone();
        Self {
            entry,
            leaf: signed.leaf(),
            context: plan.context(member.policy.suite, *member.book.federation(), signed.leaf()),
            mine: plan
                .clusters_of(member.me)
                .map(|(id, cluster)| (id, cluster.model))
                .collect(),
            plan,
        }
    }

    /// The scope of a plan this client accepted before a crash.
    pub(super) fn read(member: &Membership, entry: EntryBytes) -> Result<Self, JournalError> {
        let signed = member
            .book
            .read::<Plan>(&entry, Party::Server)
            .map_err(|_| JournalError::Damaged)?
            .into_inner();
        Ok(Self::new(member, entry, &signed))
    }
}

/// Training on the plan's models.
pub(super) struct Training {
    pub(super) scope: Scope,
}

impl Training {
    pub(super) fn new(
        member: &Membership,
        message: &PlanMessage,
        held: &Head,
        last: Option<(RoundId, Attempt)>,
        revealed: Option<RoundId>,
        worked_on: Option<Digest>,
        held_clusters: Option<Grouping>,
    ) -> Result<Self, Refusal> {
        let signed: Signed<Plan> = member
            .book
            .read::<Plan>(&message.entry, Party::Server)?
            .into_inner();
        let plan = signed.body();
        if plan.policy != member.policy_leaf {
            return Err(Refusal::WrongPolicy);
        }
        // The log comes first: a server put back to an older state must be told so, whatever round it thinks it is in. The
        // plan this client worked on last is no news, though.
        let again = worked_on.is_some_and(|leaf| leaf == signed.leaf());
        if !again && !plan.head.extends(held, message.proof_from(held.size)) {
            return Err(Refusal::Rollback);
        }
        let stale = last.is_some_and(|last| (plan.round, plan.attempt) <= last)
            || revealed.is_some_and(|revealed| plan.round <= revealed);
        if stale || plan.round.0 > member.policy.rounds {
            return Err(Refusal::WrongContext);
        }
        check_plan(plan, &member.book, &member.policy).map_err(|leak| match leak {
            PlanLeak::Exposed(clients) => Refusal::PlanLeaks { clients },
            PlanLeak::SmallBlock(clients) => Refusal::SmallBlock { clients },
            _ => Refusal::PlanLeaks {
                clients: ClientSet::default(),
            },
        })?;
        let grouping = grouping(member, plan);
        if let (Some(before), Some(now)) = (held_clusters, grouping)
            && before.clustering == now.clustering
            && before != now
        {
            return Err(Refusal::Regrouped(now.clustering));
        }
        let scope = Scope::new(member, message.entry.clone(), &signed);
        if scope.mine.is_empty() {
            return Err(Refusal::NotInvited(member.me));
        }
        Ok(Self { scope })
    }

    pub(super) fn round(&self) -> (RoundId, Attempt) {
        (self.scope.plan.round, self.scope.plan.attempt)
    }

    pub(super) fn grouping(&self, member: &Membership) -> Option<Grouping> {
        grouping(member, &self.scope.plan)
    }

    pub(super) fn head(&self) -> Head {
        self.scope.plan.head
    }

    pub(super) fn order(&self) -> ClientOutput {
        ClientOutput::Train {
            round: self.scope.plan.round,
            clusters: self.scope.mine.clone(),
        }
    }
}

/// The clusters of a plan, where the policy has them hold for a clustering.
fn grouping(member: &Membership, plan: &Plan) -> Option<Grouping> {
    Some(Grouping {
        clustering: member.policy.clustering_of(plan.round)?,
        clusters: plan.grouping(),
    })
}
