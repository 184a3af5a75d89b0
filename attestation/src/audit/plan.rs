//! Do plans follow the policy, come in turn, and start each cluster from its last model?

use super::report::Report;
use super::scene::Scene;
use super::verdict::CheckName;
use crate::heir::heirs;
use crate::statement::ClientSet;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_crypto::{Attempt, ClusterId, Digest, RoundId};

/// What later attempts are held against.
#[derive(Default)]
pub(super) struct History {
    last: Option<(RoundId, Attempt)>,
    published: Option<RoundId>,
    /// The model each cluster must start from now.
    models: BTreeMap<ClusterId, Digest>,
    /// The clusters of the last plan.
    clusters: Vec<ClientSet>,
    /// Every round key seen.
    keys: BTreeSet<[u8; 32]>,
}

impl History {
    /// Checks an attempt's plan and takes note of what it changes.
    pub(super) fn check(&mut self, scene: &Scene<'_>, report: &mut Report) {
        let (plan, policy) = (scene.plan(), scene.policy());
        let mut check = report.check(CheckName::Plan, scene.place);
        check.demand(plan.policy == scene.charter.policy_leaf, || {
            "the plan is made under another policy than the signed one".to_owned()
        });
        check.demand((1..=policy.rounds).contains(&plan.round.0), || {
            format!("the policy has {} rounds, counted from 1", policy.rounds)
        });
        let now = (plan.round, plan.attempt);
        check.demand(self.last.is_none_or(|last| last < now), || {
            "an attempt of that number, or a later one, was planned before".to_owned()
        });
        check.demand(self.published != Some(plan.round), || {
            "the round was published before: summing it again over other survivors tells single clients apart"
                .to_owned()
        });
        check.demand(!plan.clusters.is_empty(), || "the plan has no cluster".to_owned());
        for client in plan.invited().iter() {
            check.demand(scene.book().members().contains_key(client), || {
                format!("{client} is in the plan and not enrolled")
            });
        }
        check.done();
        self.regroup(scene);
        self.last = self.last.max(Some(now));

        let mut check = report.check(CheckName::Models, scene.place);
        for (cluster, body) in plan.numbered() {
            let current = *self.models.entry(cluster).or_insert(policy.initial);
            check.demand(current == body.model, || {
                format!(
                    "{cluster} starts from model {:?} and its last one is {current:?}",
                    body.model
                )
            });
        }
        check.done();
        if let Some(sums) = scene.attempt.sums() {
            self.published = Some(plan.round);
            for result in &sums.body.results {
                self.models.insert(result.cluster, result.model);
            }
        }
    }

    /// Where the clients were clustered anew since the last plan, hands the models down to the new clusters.
    fn regroup(&mut self, scene: &Scene<'_>) {
        let plan = scene.plan();
        let anew = match (scene.policy().clustering, self.last) {
            (Some(rule), Some((last, _))) => rule.number(last) != rule.number(plan.round),
            _ => false,
        };
        let clusters: Vec<ClientSet> = plan
            .clusters
            .iter()
            .map(|cluster| cluster.members.clone())
            .collect();
        if anew {
            let inherited = heirs(&self.clusters, &clusters)
                .zip((0u16..).map(ClusterId))
                .filter_map(|(old, new)| {
                    let old = ClusterId(u16::try_from(old?).ok()?);
                    Some((new, *self.models.get(&old)?))
                })
                .collect();
            self.models = inherited;
        }
        self.clusters = clusters;
    }

    /// Whether a round key was never seen in this log before.
    pub(super) fn is_fresh(&mut self, key: [u8; 32]) -> bool {
        self.keys.insert(key)
    }
}
