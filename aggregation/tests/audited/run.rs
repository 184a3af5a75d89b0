//! A federation's life in one process: rounds, aborted attempts, and everything a server would keep for its auditor.

use crate::export::export;
use crate::world::{Death, Federation, Setup, World};
use std::collections::BTreeMap;
use std::sync::Arc;
use veilsum_aggregation::{Client, Server};
use veilsum_attestation::audit::{AuditError, Verdict};
use veilsum_attestation::bundle::VectorName;
use veilsum_attestation::statement::Policy;
use veilsum_attestation::{Auditor, Log, Trust, model_digest};
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;

pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) log: Log,
    /// Every vector the server stored, of aborted attempts too.
    pub(crate) vectors: BTreeMap<VectorName, Vec<u8>>,
    pub(crate) models: BTreeMap<Digest, Arc<[f32]>>,
}

pub(crate) fn two_clusters() -> Setup {
    Setup {
        clients: 8,
        threshold: 5,
        clusters: vec![vec![0, 1, 2, 3, 4], vec![3, 4, 5, 6, 7]],
        entries: 20,
        crowd: 3,
        orgs: 4,
    }
}

impl Run {
    pub(crate) fn new(setup: Setup, seed: u64) -> Self {
        Self::with(setup, seed, |_| ())
    }

    /// Under another policy.
    pub(crate) fn with(setup: Setup, seed: u64, change: impl FnOnce(&mut Policy)) -> Self {
        let world = World::of(Federation::with(setup, change), seed);
        let log = world.genesis_log();
        Self {
            world,
            log,
            vectors: BTreeMap::new(),
            models: BTreeMap::new(),
        }
    }

    /// Rounds from 1; each lists the clients that die and after how many messages.
    pub(crate) fn of(setup: Setup, seed: u64, rounds: &[&[(u32, usize)]]) -> Self {
        let mut run = Self::new(setup, seed);
        for (round, deaths) in (1..).zip(rounds) {
            let deaths: Vec<_> = deaths
                .iter()
                .map(|(client, after_sends)| {
                    let death = Death {
                        after_sends: *after_sends,
                        noticed: true,
                        in_flight_lost: false,
                    };
                    (*client, death)
                })
                .collect();
            run.attempt(round, 0, &deaths);
        }
        run
    }

    pub(crate) fn federation(&self) -> &Federation {
        &self.world.federation
    }

    /// Runs one attempt; clients that died in the last one are back.
    pub(crate) fn attempt(&mut self, round: u64, attempt: u32, deaths: &[(u32, Death)]) {
        let world = &mut self.world;
        for id in std::mem::take(&mut world.dead) {
            let head = world.clients[&id].head();
            let fresh = Client::new(
                world.federation.member(id.0),
                head,
                rng(round << 32 | u64::from(id.0) << 8 | u64::from(attempt)),
            );
            world.clients.insert(id, fresh.unwrap());
        }
        world.outcome = None;
        world.aborted = None;
        world.done.clear();
        world.ended.clear();
        world.stored.clear();
        world.sent.clear();
        world.deaths = deaths
            .iter()
            .map(|(client, death)| (ClientId(*client), *death))
            .collect();
        for model in &world.models {
            self.models.insert(model_digest(model), Arc::clone(model));
        }
        let request = world.request(round, attempt);
        let log = std::mem::take(&mut self.log);
        let seed = round << 16 | u64::from(attempt);
        let server = Server::start(
            world.federation.server_setup(0),
            log,
            request,
            world.now,
            rng(seed),
        );
        world.server = Some(server.map_err(|(abort, _)| abort).unwrap());
        world.drain_server();
        world.run();
        self.log = world.log();
        for ((client, cluster), bytes) in std::mem::take(&mut world.stored) {
            let name = VectorName {
                round: RoundId(round),
                attempt: Attempt(attempt),
                client,
                cluster,
            };
            self.vectors.insert(name, bytes);
        }
        if let Some(outcome) = &world.outcome {
            for opened in &outcome.opened {
                world.models[usize::from(opened.cluster.0)] = Arc::clone(&opened.model);
                self.models
                    .insert(model_digest(&opened.model), Arc::clone(&opened.model));
            }
        }
    }

    pub(crate) fn bundle(&self) -> Vec<u8> {
        export(self).unwrap()
    }
}

pub(crate) fn auditor(federation: &Federation) -> Auditor {
    Auditor::new(Trust {
        name: "test federation".to_owned(),
        authority: crate::world::identity(1, 0).public(),
    })
    .inspect(|_| assert_eq!(federation.policy.clients, federation.setup.clients))
    .unwrap()
}

/// Both verifiers' verdict: they must agree.
pub(crate) fn try_audit(federation: &Federation, bundle: &[u8]) -> Result<Verdict, AuditError> {
    let verdict = auditor(federation).audit(bundle, &mut |_| {});
    crate::second::compare(bundle, &verdict);
    verdict
}

pub(crate) fn audit(federation: &Federation, bundle: &[u8]) -> Verdict {
    try_audit(federation, bundle).unwrap()
}
