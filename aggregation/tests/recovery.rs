//! A server that dies at any step and starts again from its disk: the attempt it left open ends by name or is finished, the
//! log audits, and the next attempt is exact.
#![allow(
    missing_docs,
    dead_code,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report; the harness serves several tests"
)]

#[path = "rounds/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use veilsum_aggregation::*;
use veilsum_attestation::Log;
use veilsum_attestation::statement::*;
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;
use world::{Setup, World};

fn setup() -> Setup {
    Setup {
        clients: 8,
        threshold: 5,
        clusters: vec![vec![0, 1, 2, 3, 4], vec![3, 4, 5, 6, 7]],
        entries: 20,
        crowd: 3,
        orgs: 4,
    }
}

/// What the server's disk holds beside the log.
struct Disk {
    models: Vec<Arc<[f32]>>,
    vectors: BTreeMap<(ClientId, ClusterId), Vec<u8>>,
}

impl Stored for Disk {
    fn model(&self, digest: &Digest) -> Option<Arc<[f32]>> {
        self.models
            .iter()
            .find(|model| veilsum_attestation::model_digest(model) == *digest)
            .cloned()
    }

    fn vector(&self, _: RoundId, _: Attempt, client: ClientId, cluster: ClusterId) -> Option<Vec<u8>> {
        self.vectors.get(&(client, cluster)).cloned()
    }
}

fn disk(world: &World) -> Disk {
    Disk {
        models: world.models.clone(),
        vectors: world.stored.clone(),
    }
}

/// Starts the server again; gives the log that is left, with the attempt ended in it.
fn recover(world: &mut World, log: Log, disk: &Disk) -> Option<Log> {
    let setup = world.federation.server_setup(0);
    match Server::recover(setup, log, disk, world.now, rng(8)) {
        Ok(server) => {
            world.server = Some(server);
            world.drain_server();
            Some(world.log())
        }
        Err(log) => {
            assert!(world.outcome.is_some() || world.aborted.is_some() || world.disk.is_empty());
            let _ = log;
            None
        }
    }
}

fn kinds(log: &Log) -> Vec<Kind> {
    log.entries()
        .iter()
        .map(|entry| wire::decode::<Entry>(entry).unwrap().kind)
        .collect()
}

#[test]
fn a_server_that_dies_at_any_step_ends_the_attempt_by_name_or_finishes_it() {
    let (mut lost, mut finished) = (0, 0);
    for steps in 0.. {
        let mut world = World::new(setup(), 11);
        // One client is gone after its shares, so that a mask secret has to be opened too.
        world.deaths.insert(
            ClientId(6),
            world::Death {
                after_sends: 2,
                noticed: true,
                in_flight_lost: false,
            },
        );
        let log = world.genesis_log();
        world.start(log, 1).unwrap();
        let mut over = false;
        for _ in 0..steps {
            over = !world.step();
            if over {
                break;
            }
        }
        if over {
            break;
        }
        let published = world.outcome.is_some();
        let log = world.lose_server();
        let disk = disk(&world);
        let count = |wanted| kinds(&log).iter().filter(|kind| **kind == wanted).count();
        let (agrees, reveals) = (count(Kind::Agree), count(Kind::Reveal));
        let Some(log) = recover(&mut world, log, &disk) else {
            assert!(
                published || world.aborted.is_some(),
                "after {steps} steps nothing was open"
            );
            continue;
        };
        assert!(!published);
        if reveals >= 5 {
            finished += 1;
            assert_eq!(world.aborted, None, "after {steps} steps");
            world.assert_exact();
            assert_eq!(kinds(&log).last(), Some(&Kind::Sums));
        } else {
            lost += 1;
            assert_eq!(world.aborted, Some(Abort::ServerLost), "after {steps} steps");
            assert!(world.outcome.is_none());
            assert_eq!(kinds(&log).last(), Some(&Kind::Aborted));
        }
        // Clients hear of it when they are back, and the log goes on from what is on disk.
        world.aborted = None;
        world.outcome = None;
        world.dead.clear();
        world.deaths.clear();
        // Once an agreement may have been sent, clients may have revealed and take no part in the round again.
        let asked = agrees >= 5;
        let (round, attempt) = if asked { (2, 0) } else { (1, 1) };
        let request = world.request(round, attempt);
        let server = Server::start(world.federation.server_setup(0), log, request, world.now, rng(9));
        world.server = Some(server.map_err(|(abort, _)| abort).unwrap());
        world.drain_server();
        world.run();
        assert_eq!(world.aborted, None, "after {steps} steps");
        world.assert_exact();
        assert_eq!(
            world.outcome.as_ref().unwrap().survivors.len(),
            8,
            "after {steps} steps: {:?}",
            world.client_errors
        );
    }
    assert!(lost > 60, "{lost} lost");
    // The t-th reveal ends the phase in the same breath: with this schedule the log never stops between the two.
    assert_eq!(finished, 0);
}

#[test]
fn a_server_that_dies_between_the_last_reveal_and_the_sums_publishes_them() {
    let mut world = World::new(setup(), 12);
    world.deaths.insert(
        ClientId(6),
        world::Death {
            after_sends: 2,
            noticed: true,
            in_flight_lost: false,
        },
    );
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world.assert_exact();
    let expected = world.outcome.take().unwrap();
    // The disk as it was before the sums were appended.
    let sums = world.disk.pop().unwrap();
    assert_eq!(wire::decode::<Entry>(&sums).unwrap().kind, Kind::Sums);
    let log = world.lose_server();
    let disk = disk(&world);
    let log = recover(&mut world, log, &disk).unwrap();
    assert_eq!(
        world.outcome.as_ref(),
        Some(&expected),
        "the same sums and models"
    );
    assert_eq!(kinds(&log).last(), Some(&Kind::Sums));

    // One reveal fewer, and it does not open anything.
    let mut world2 = World::new(setup(), 12);
    world2.disk = world.disk.clone();
    world2.disk.pop();
    world2.disk.pop();
    let log = world2.lose_server();
    let log = recover(&mut world2, log, &disk).unwrap();
    assert_eq!(world2.aborted, Some(Abort::ServerLost));
    assert_eq!(kinds(&log).last(), Some(&Kind::Aborted));

    // A vector that rotted on the disk is never added.
    let mut world3 = World::new(setup(), 12);
    world3.disk = world.disk.clone();
    world3.disk.pop();
    let mut rotten = disk;
    rotten.vectors.get_mut(&(ClientId(1), ClusterId(0))).unwrap()[5] ^= 1;
    let log = world3.lose_server();
    recover(&mut world3, log, &rotten).unwrap();
    assert_eq!(
        (&world3.outcome, &world3.aborted),
        (&None, &Some(Abort::ServerLost))
    );
}

#[test]
fn a_server_restored_from_an_old_disk_is_noticed_by_every_client() {
    let mut world = World::new(setup(), 13);
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world.assert_exact();
    // A backup from before the round: the same genesis, nothing of round 1.
    let log = world.genesis_log();
    world.lose_server();
    world.outcome = None;
    let request = world.request(2, 0);
    let server = Server::start(world.federation.server_setup(0), log, request, world.now, rng(9));
    world.server = Some(server.map_err(|(abort, _)| abort).unwrap());
    world.drain_server();
    world.run();
    assert!(world.outcome.is_none());
    assert_eq!(world.client_errors.len(), 8);
    assert!(
        world
            .client_errors
            .iter()
            .all(|(_, refusal)| refusal.name() == "Rollback")
    );
}

#[test]
fn a_last_word_that_comes_in_the_next_attempt_costs_nobody_anything() {
    // Every client says its last word again when the server is back; by then the next attempt may have begun.
    for stop in 1..90 {
        let mut world = World::new(setup(), 14);
        world.reconnect = 50;
        let log = world.genesis_log();
        world.start(log, 1).unwrap();
        for _ in 0..stop {
            world.step();
        }
        let log = world.lose_server();
        let disk = disk(&world);
        let agrees = kinds(&log).iter().filter(|kind| **kind == Kind::Agree).count();
        let Some(log) = recover(&mut world, log, &disk) else {
            continue;
        };
        world.outcome = None;
        world.aborted = None;
        let (round, attempt) = if agrees >= 5 { (2, 0) } else { (1, 1) };
        let request = world.request(round, attempt);
        let server = Server::start(world.federation.server_setup(50), log, request, world.now, rng(9));
        world.server = Some(server.map_err(|(abort, _)| abort).unwrap());
        for client in 0..8 {
            world.reconnect(ClientId(client));
        }
        world.drain_server();
        world.run();
        assert_eq!(world.aborted, None, "after {stop} steps");
        world.assert_exact();
        assert_eq!(
            world.outcome.as_ref().unwrap().survivors.len(),
            8,
            "after {stop} steps: {:?} {:?}",
            world.refusals,
            world.client_errors
        );
    }
}

#[test]
fn a_last_word_still_on_its_way_makes_no_client_cry_rollback() {
    let mut crossed = 0;
    for seed in 0..100 {
        let mut world = World::new(setup(), seed);
        let log = world.genesis_log();
        world.start(log, 1).unwrap();
        for _ in 0..seed {
            world.step();
        }
        // The operator ends the attempt; what clients have said since the server last heard them is on its way.
        world.server.as_mut().unwrap().stop();
        world.drain_server();
        if world.outcome.is_some() {
            continue;
        }
        let asked = world.server.as_ref().unwrap().asked_to_reveal();
        let (log, known) = world.server.take().unwrap().into_parts();
        let (round, attempt) = if asked { (2, 0) } else { (1, 1) };
        let mut request = world.request(round, attempt);
        for (client, head) in &mut request.present {
            let heard = known
                .get(client)
                .copied()
                .unwrap_or_else(veilsum_attestation::Head::empty);
            crossed += usize::from(heard != *head);
            *head = heard;
        }
        world.aborted = None;
        let server = Server::start(world.federation.server_setup(50), log, request, world.now, rng(9));
        world.server = Some(server.map_err(|(abort, _)| abort).unwrap());
        world.drain_server();
        world.run();
        let cried: Vec<_> = world
            .client_errors
            .iter()
            .filter(|(_, refusal)| refusal.name() == "Rollback")
            .collect();
        assert!(cried.is_empty(), "seed {seed}: {cried:?}");
        assert!(world.evidence.is_empty(), "seed {seed}");
        world.assert_exact();
    }
    assert!(crossed > 10, "only {crossed} heads crossed");
}
