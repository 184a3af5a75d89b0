//! Between rounds, where the policy clusters clients by their data: collects descriptors, makes the plan, hands models down.

use super::link::Outgoing;
use super::{Driver, ServeError, Step, numbers, small};
use crate::describe;
use crate::drive::frame;
use crate::drive::model::FROZEN;
use crate::events::ServerEvent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use veilsum_aggregation::message::Described;
use veilsum_aggregation::{Gathering, ToServer};
use veilsum_attestation::Log;
use veilsum_attestation::heir::heirs;
use veilsum_attestation::statement::ClusteringRule;
use veilsum_crypto::{ClientId, ClusterId, RoundId};
use veilsum_learner::Descriptor;

impl Driver<'_> {
    /// Clusters the clients for a round, if the policy says so and it has not been done yet.
    pub(super) async fn clustered(&mut self, log: Log, round: RoundId) -> Result<Log, ServeError> {
        let Some(rule) = self.plan.setup.policy.clustering else {
            return Ok(log);
        };
        let number = rule.number(round);
        if self.clustering == Some(number) {
            return Ok(log);
        }
        let mut gathering = Gathering::new(Arc::clone(&self.plan.setup), log, number);
        let known = self.descriptors(&mut gathering, &rule).await?;
        let setup = &self.plan.setup;
        let (planned, clusters) = describe::plan(&known, &setup.book, &setup.policy, &rule)
            .map_err(|error| ServeError::Clustering(error.to_string()))?;
        let columns: Vec<ClientId> = known.keys().copied().collect();
        self.emit(&ServerEvent::Clustered {
            clustering: number,
            tau: planned.tau.tau.to_string(),
            overlap: format!("{:.3}", planned.tau.overlap),
            wanted: small(planned.wanted.clusters()),
            steps: planned.repaired.steps.iter().map(ToString::to_string).collect(),
            clusters: clusters.iter().map(|set| numbers(set.iter())).collect(),
            left_out: planned
                .repaired
                .left_out
                .iter()
                .filter_map(|column| columns.get(*column).map(|client| client.0))
                .collect(),
        })?;
        self.models = heirs(&self.clusters, &clusters)
            .map(|old| {
                let inherited = old.and_then(|place| self.models.get(place));
                Arc::clone(inherited.unwrap_or(&self.plan.initial))
            })
            .collect();
        self.clusters = clusters;
        self.clustering = Some(number);
        for client in self.links.keys().copied().collect::<Vec<_>>() {
            self.post_models(client);
        }
        Ok(gathering.into_log())
    }

    /// Waits for the descriptors of everybody who is connected, for a while for those of clients that are not (one that is
    /// left out stays out until the next clustering), and for those of a threshold of clients in any case.
    async fn descriptors(
        &mut self,
        gathering: &mut Gathering,
        rule: &ClusteringRule,
    ) -> Result<BTreeMap<ClientId, Descriptor>, ServeError> {
        let mut known = BTreeMap::new();
        for (client, digest) in gathering.have() {
            // One that was lost is asked for again.
            if let Some(bytes) = self.store.descriptor(digest)
                && let Ok(descriptor) = describe::read(&bytes, &self.plan.setup.policy, rule)
            {
                known.insert(*client, descriptor);
            }
        }
        let mut failed = BTreeSet::new();
        for client in self.links.keys().copied().collect::<Vec<_>>() {
            self.ask(client, gathering, &known)?;
        }
        let began = Instant::now();
        let deadline = began + Duration::from_millis(self.plan.setup.deadlines.advertise);
        let patience = (began + self.plan.start_after).min(deadline);
        let members = self.plan.setup.book.members().len();
        let wait_for = self.plan.wait_for.min(members - self.excluded.len());
        let threshold = self.plan.setup.policy.threshold as usize;
        loop {
            let waited_for = |client: &&ClientId| {
                !self.excluded.contains(client) && !known.contains_key(client) && !failed.contains(*client)
            };
            let all_here = !self.links.keys().any(|client| waited_for(&client));
            let everybody = known.len() + failed.len() >= wait_for;
            if known.len() >= threshold && all_here && (everybody || Instant::now() >= patience) {
                return Ok(known);
            }
            let until = if all_here && Instant::now() < patience {
                patience
            } else {
                deadline
            };
            let event = match tokio::time::timeout_at(until, self.inbox.recv()).await {
                Ok(event) => event.ok_or(ServeError::ListenerClosed)?,
                Err(_) if until < deadline => continue,
                Err(_) if known.len() >= threshold => return Ok(known),
                Err(_) => {
                    return Err(ServeError::TooFewDescriptors {
                        have: known.len(),
                        need: threshold,
                    });
                }
            };
            match self.take(event)? {
                Step::Joined(client, _) => self.ask(client, gathering, &known)?,
                Step::Said(client, ToServer::Described(described)) if !known.contains_key(&client) => {
                    match self.described(gathering, rule, client, &described)? {
                        Ok(descriptor) => {
                            known.insert(client, descriptor);
                            failed.remove(&client);
                        }
                        Err(reason) => {
                            failed.insert(client);
                            self.emit(&ServerEvent::Refused {
                                client: client.0,
                                reason,
                            })?;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Asks a client what its data looks like, and sends the model whose encoder it is to look with.
    fn ask(
        &mut self,
        client: ClientId,
        gathering: &Gathering,
        known: &BTreeMap<ClientId, Descriptor>,
    ) -> Result<(), ServeError> {
        if known.contains_key(&client) || self.excluded.contains(&client) {
            return Ok(());
        }
        let request = gathering
            .request()
            .encode()
            .map_err(|_| ServeError::Internal("a message is too long"))?;
        self.post(client, Outgoing::Model(FROZEN, Arc::clone(&self.plan.initial)));
        self.post(client, Outgoing::Frame(frame(request)));
        Ok(())
    }

    /// Takes one answer: the descriptor is on disk before its statement is. The inner error is the client's fault.
    fn described(
        &mut self,
        gathering: &mut Gathering,
        rule: &ClusteringRule,
        client: ClientId,
        described: &Described,
    ) -> Result<Result<Descriptor, String>, ServeError> {
        let digest = match gathering.check(client, described) {
            Ok(digest) => digest,
            Err(refusal) => return Ok(Err(refusal.to_string())),
        };
        let descriptor = match describe::read(&described.descriptor, &self.plan.setup.policy, rule) {
            Ok(descriptor) => descriptor,
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.store.keep_descriptor(&described.descriptor)?;
        if let Some(digest) = digest {
            self.step();
            let entry = gathering.record(client, digest, described);
            self.store.append(&entry)?;
        }
        Ok(Ok(descriptor))
    }

    /// Sends a client the models of its clusters.
    pub(super) fn post_models(&mut self, client: ClientId) {
        let mine: Vec<(ClusterId, Arc<[f32]>)> = (0u16..)
            .map(ClusterId)
            .zip(self.clusters.iter().zip(&self.models))
            .filter(|(_, (members, _))| members.contains(&client))
            .map(|(cluster, (_, model))| (cluster, Arc::clone(model)))
            .collect();
        for (cluster, model) in mine {
            self.post(client, Outgoing::Model(cluster, model));
        }
    }
}
