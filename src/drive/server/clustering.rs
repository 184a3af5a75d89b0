//! Between rounds, where the policy clusters clients by their data: collects descriptors, makes the plan, hands models down.

use super::link::Outgoing;
use super::{Driver, ServeError, Step, numbers, small};
use crate::describe;
use crate::drive::frame;
use crate::drive::model::FROZEN;
use crate::events::ServerEvent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;
use veilsum_aggregation::message::Described;
use veilsum_aggregation::{Gathering, ServerSetup, ToServer};
use veilsum_attestation::Log;
use veilsum_attestation::heir::heirs;
use veilsum_attestation::release::planning_rule;
use veilsum_attestation::statement::{ClientSet, ClusteringRule};
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
        let columns: Vec<ClientId> = known.keys().copied().collect();
        let setup = Arc::clone(&self.plan.setup);
        // Seconds for many clients: the links are served meanwhile.
        let work = move || describe::plan(&known, &setup.book, &setup.policy, &rule);
        let (planned, clusters) = tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| ServeError::Internal("planning broke off"))?
            .map_err(|error| ServeError::Clustering(error.to_string()))?;
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

    /// Waits for the descriptors of everybody who is connected and does not say that there will be none, for a while for
    /// those of clients that are not (one that is left out stays out until the next clustering), and for those of enough
    /// clients for a plan in any case. Who is still waited for is said once.
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
        let deadline = began + self.plan.describe_within;
        let patience = (began + self.plan.start_after).min(deadline);
        let members = self.plan.setup.book.members().len();
        let wait_for = self.plan.wait_for.min(members - self.excluded.len());
        let need = Need::of(&self.plan.setup);
        let mut hint = Some(began + self.plan.start_after.min(self.plan.describe_within / 4));
        loop {
            let waited_for = |client: &&ClientId| {
                !self.excluded.contains(client) && !known.contains_key(client) && !failed.contains(*client)
            };
            let all_here = !self.links.keys().any(|client| waited_for(&client));
            let everybody = known.len() + failed.len() >= wait_for;
            let enough = need.met(known.keys());
            let now = Instant::now();
            if enough && all_here && (everybody || now >= patience) {
                return Ok(known);
            }
            if hint.is_some_and(|hint| now >= hint) {
                hint = None;
                let waiting: ClientSet = self
                    .plan
                    .setup
                    .book
                    .members()
                    .keys()
                    .filter(waited_for)
                    .copied()
                    .collect();
                self.emit(&ServerEvent::Waiting {
                    clustering: gathering.clustering(),
                    described: small(known.len()),
                    needed: small(need.clients),
                    clients: numbers(waiting.iter()),
                    seconds: deadline.saturating_duration_since(now).as_secs(),
                })?;
            }
            let patient = (all_here && now < patience).then_some(patience);
            let until = [hint, patient].into_iter().flatten().fold(deadline, Instant::min);
            let event = match tokio::time::timeout_at(until, self.inbox.recv()).await {
                Ok(event) => event.ok_or(ServeError::ListenerClosed)?,
                Err(_) if until < deadline => continue,
                Err(_) if enough => return Ok(known),
                Err(_) => {
                    return Err(ServeError::TooFewDescriptors {
                        have: known.len(),
                        need: need.clients,
                        orgs: need.orgs,
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
                Step::Said(client, ToServer::NotDescribed(word))
                    if word.clustering == gathering.clustering() && !known.contains_key(&client) =>
                {
                    failed.insert(client);
                    self.emit(&ServerEvent::Refused {
                        client: client.0,
                        reason: format!("it cannot describe its data ({})", word.name()),
                    })?;
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

/// What it takes for a plan: below it not even one cluster of everybody may be opened, or the round is not held.
struct Need {
    clients: usize,
    orgs: usize,
    setup: Arc<ServerSetup>,
}

impl Need {
    fn of(setup: &Arc<ServerSetup>) -> Self {
        let policy = &setup.policy;
        let rule = planning_rule(policy);
        Self {
            clients: policy.threshold.max(rule.crowd).max(policy.blocks) as usize,
            orgs: rule.crowd_orgs as usize,
            setup: Arc::clone(setup),
        }
    }

    fn met<'a>(&self, known: impl ExactSizeIterator<Item = &'a ClientId>) -> bool {
        let members = self.setup.book.members();
        let clients = known.len();
        let orgs: BTreeSet<_> = known
            .filter_map(|client| Some(members.get(client)?.org))
            .collect();
        clients >= self.clients && orgs.len() >= self.orgs
    }
}
