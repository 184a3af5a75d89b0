//! What a round leaves behind: models for the members of its clusters, a word for people, the crowd over many rounds.

use super::link::Outgoing;
use super::{Driver, ServeError, log_head, numbers, small};
use crate::events::ServerEvent;
use std::collections::BTreeMap;
use std::sync::Arc;
use veilsum_aggregation::{Abort, Outcome};
use veilsum_attestation::Head;
use veilsum_attestation::disclosure::{self, CrowdRule, Membership};
use veilsum_attestation::statement::ClientSet;
use veilsum_crypto::{Attempt, ClientId, ClusterId, RoundId};

impl Driver<'_> {
    pub(super) fn finish_round(
        &mut self,
        outcome: &Outcome,
        attempt: Attempt,
        head: Head,
    ) -> Result<(), ServeError> {
        for opened in &outcome.opened {
            if let Some(slot) = self.models.get_mut(usize::from(opened.cluster.0)) {
                *slot = Arc::clone(&opened.model);
            }
        }
        self.remember(outcome);
        for client in self.links.keys().copied().collect::<Vec<_>>() {
            for opened in &outcome.opened {
                if self
                    .clusters
                    .get(usize::from(opened.cluster.0))
                    .is_some_and(|set| set.contains(&client))
                {
                    self.post(client, Outgoing::Model(opened.cluster, Arc::clone(&opened.model)));
                }
            }
        }
        let traffic = self.round_traffic();
        let why = self.reasons(&outcome.survivors);
        let invited: ClientSet = self.clusters.iter().flat_map(|set| set.iter().copied()).collect();
        self.emit(&ServerEvent::RoundDone {
            round: outcome.round.0,
            attempt: attempt.0,
            survivors: numbers(outcome.survivors.iter()),
            dropped: numbers(invited.difference(&outcome.survivors)),
            released: outcome
                .opened
                .iter()
                .map(|opened| u32::from(opened.cluster.0))
                .collect(),
            withheld: outcome
                .withheld
                .iter()
                .map(|cluster| u32::from(cluster.0))
                .collect(),
            withheld_why: outcome
                .withheld
                .iter()
                .map(|cluster| why.get(cluster).cloned().unwrap_or_default())
                .collect(),
            weights: outcome
                .opened
                .iter()
                .map(|opened| opened.sum.last().copied().map_or(0, u64::from))
                .collect(),
            window_rounds: small(self.window.rounds()),
            window_crowd_milli: milli(self.window.crowd()),
            bytes_in: traffic.received,
            bytes_out: traffic.sent,
            head: log_head(head),
        })
    }

    /// Why clusters stay closed on these survivors: the rule's own words, which name no client.
    fn reasons(&self, survivors: &ClientSet) -> BTreeMap<ClusterId, String> {
        let setup = &self.plan.setup;
        let policy = &setup.policy;
        let place: BTreeMap<ClientId, usize> = survivors.iter().copied().zip(0..).collect();
        let rows: Vec<Vec<usize>> = self
            .clusters
            .iter()
            .map(|members| {
                members
                    .iter()
                    .filter_map(|client| place.get(client).copied())
                    .collect()
            })
            .collect();
        let orgs: Vec<u32> = survivors
            .iter()
            .filter_map(|client| setup.book.members().get(client))
            .map(|member| member.org.0)
            .collect();
        let rule = CrowdRule {
            crowd: policy.crowd.saturating_add(policy.colluders),
            crowd_orgs: policy.crowd_orgs,
        };
        let Ok(matrix) = Membership::from_members(survivors.len(), &rows) else {
            return BTreeMap::new();
        };
        disclosure::release_set(&matrix, &orgs, &rule, rule.crowd)
            .withheld
            .into_iter()
            .filter_map(|(cluster, why)| Some((ClusterId(u16::try_from(cluster).ok()?), why.to_string())))
            .collect()
    }

    /// Adds the sums that a round opened to the window.
    fn remember(&mut self, outcome: &Outcome) {
        let column = |client: &ClientId| usize::try_from(client.0).ok();
        let rows: Vec<Vec<usize>> = outcome
            .opened
            .iter()
            .filter_map(|opened| self.clusters.get(usize::from(opened.cluster.0)))
            .map(|members| {
                members
                    .intersection(&outcome.survivors)
                    .filter_map(column)
                    .collect()
            })
            .collect();
        let clients = self.plan.setup.policy.clients as usize;
        if let Ok(matrix) = Membership::from_members(clients, &rows) {
            // It is over the policy's clients, as the window is.
            let _ = self.window.push(matrix);
        }
    }

    pub(super) fn fail_round(
        &mut self,
        round: RoundId,
        attempt: Attempt,
        abort: &Abort,
        head: Head,
    ) -> Result<(), ServeError> {
        self.store.forget_vectors(round, attempt)?;
        let traffic = self.round_traffic();
        self.emit(&ServerEvent::RoundAborted {
            round: round.0,
            attempt: attempt.0,
            reason: abort.name().to_owned(),
            detail: abort.to_string(),
            bytes_in: traffic.received,
            bytes_out: traffic.sent,
            head: Some(log_head(head)),
        })
    }
}

/// Thousandths of a crowd.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a crowd is not negative, and the cast saturates"
)]
fn milli(crowd: f64) -> u32 {
    (crowd * 1e3).floor() as u32
}
