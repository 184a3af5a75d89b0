//! Do descriptors come as the policy says, and does a clustering hold until the next one?
//!
//! Clusters that the operator names hold from the first round to the last where clients are counted in groups: new clusters
//! make new groups.
//!
//! Whether the clusters follow from the descriptors takes the descriptors themselves, which no bundle of rounds holds.

use super::enrolment::Charter;
use super::report::{Check, Report};
use super::verdict::CheckName;
use crate::bundle::Transcript;
use crate::statement::ClientSet;
use std::collections::BTreeMap;
use veilsum_crypto::{ClientId, RoundId};

pub(super) fn check(transcript: &Transcript, charter: &Charter, report: &mut Report) {
    let mut check = report.check(CheckName::Clustering, None);
    hold(transcript, charter, &mut check);
    let Some(rule) = charter.policy.clustering else {
        for (client, said) in &transcript.descriptors {
            check.violated(|| {
                format!(
                    "entry {}: a descriptor of {client}, and the policy asks for none",
                    said.index
                )
            });
        }
        check.done();
        return;
    };
    let last = rule.number(RoundId(charter.policy.rounds));
    // Where each client's first descriptor for a clustering stands.
    let mut known: BTreeMap<(ClientId, u64), u64> = BTreeMap::new();
    for (client, said) in &transcript.descriptors {
        let body = &said.body;
        check.demand(body.policy == charter.policy_leaf, || {
            format!("entry {}: a descriptor for another policy", said.index)
        });
        check.demand((1..=last).contains(&body.clustering), || {
            format!(
                "entry {}: a descriptor for clustering {}, and there are {last}",
                said.index, body.clustering
            )
        });
        let first = *known.entry((*client, body.clustering)).or_insert(said.index);
        check.demand(first == said.index, || {
            format!(
                "entry {}: a second descriptor of {client} for clustering {}: new noise on the same data",
                said.index, body.clustering
            )
        });
    }
    for attempt in &transcript.attempts {
        let plan = &attempt.plan.body;
        let number = rule.number(plan.round);
        for client in plan.invited().iter() {
            let shown = known
                .get(&(*client, number))
                .is_some_and(|index| *index < attempt.plan.index);
            check.demand(shown, || {
                format!(
                    "{}: {client} is planned for and showed no descriptor for clustering {number}",
                    plan.round
                )
            });
        }
    }
    check.done();
    if !transcript.descriptors.is_empty() {
        report.not_checkable(
            CheckName::Clustering,
            None,
            "whether the clusters follow from the descriptors: the descriptors are not in this bundle",
        );
    }
}

/// Whether the clusters stay what they are for as long as the policy says.
fn hold(transcript: &Transcript, charter: &Charter, check: &mut Check<'_>) {
    let mut held: BTreeMap<u64, Vec<&ClientSet>> = BTreeMap::new();
    for attempt in &transcript.attempts {
        let plan = &attempt.plan.body;
        let Some(number) = charter.policy.clustering_of(plan.round) else {
            return;
        };
        let clusters: Vec<&ClientSet> = plan.clusters.iter().map(|cluster| &cluster.members).collect();
        let before = held.entry(number).or_insert_with(|| clusters.clone());
        check.demand(*before == clusters, || {
            format!(
                "{}: the clusters are others than before in clustering {number}: sums over both tell clients apart",
                plan.round
            )
        });
    }
}
