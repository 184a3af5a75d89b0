//! Lost connections and crashes: a client says the same again or nothing, a round goes on with it, and no vector is ever
//! masked twice.
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

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use veilsum_aggregation::client::{JournalError, RestoreError};
use veilsum_aggregation::*;
use veilsum_attestation::Head;
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;
use world::{Federation, Setup, World};

fn setup(entries: usize) -> Setup {
    Setup {
        clients: 8,
        threshold: 5,
        clusters: vec![vec![0, 1, 2, 3, 4], vec![3, 4, 5, 6, 7]],
        entries,
        crowd: 3,
        orgs: 4,
    }
}

/// Every statement and chunk that each client ever sent, by what it is about.
type Said = BTreeMap<(ClientId, &'static str, u64), BTreeSet<Vec<u8>>>;

/// A world that writes down what clients send.
fn watched(entries: usize, seed: u64) -> (World, Rc<RefCell<Said>>) {
    let mut world = World::new(setup(entries), seed);
    world.reconnect = 50;
    let said = Rc::new(RefCell::new(Said::new()));
    let keep = Rc::clone(&said);
    world.up_hand = Some(Box::new(move |from, message| {
        let (kind, number) = match &message {
            ToServer::Keys(_) => ("keys", 0),
            ToServer::Shares(_) => ("shares", 0),
            ToServer::Masked(_) => ("masked", 0),
            ToServer::Chunk(chunk) => ("chunk", u64::from(chunk.cluster.0) << 32 | u64::from(chunk.index)),
            ToServer::Agree(_) => ("agree", 0),
            ToServer::Reveal(_) => ("reveal", 0),
            _ => return message,
        };
        let bytes = message.encode().unwrap().2;
        keep.borrow_mut()
            .entry((from, kind, number))
            .or_default()
            .insert(bytes);
        message
    }));
    (world, said)
}

/// Nobody said two different things where one is allowed.
fn assert_said_once(said: &Said) {
    for ((client, kind, number), bytes) in said {
        assert_eq!(
            bytes.len(),
            1,
            "{client} sent {} different {kind} {number}",
            bytes.len()
        );
    }
}

/// Runs a round in which `client` suffers `blow` after `steps` deliveries. Returns whether the blow fell before the end.
fn struck(world: &mut World, client: ClientId, steps: usize, blow: impl Fn(&mut World, ClientId)) -> bool {
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    for _ in 0..steps {
        if !world.step() {
            return false;
        }
    }
    blow(world, client);
    world.run();
    true
}

#[test]
fn a_connection_lost_at_any_step_costs_nothing() {
    // 40,000 entries are two chunks and more: the upload is cut between them too.
    let mut uploads_cut = 0;
    for steps in 0.. {
        let (mut world, said) = watched(40_000, 5);
        let client = ClientId(u32::try_from(steps % 8).unwrap());
        if !struck(&mut world, client, steps, World::reconnect) {
            break;
        }
        assert_eq!(world.aborted, None, "after {steps} steps");
        world.assert_exact();
        assert_eq!(
            world.outcome.as_ref().unwrap().survivors.len(),
            8,
            "after {steps} steps"
        );
        assert!(
            world.client_errors.is_empty(),
            "after {steps} steps: {:?}",
            world.client_errors
        );
        assert!(
            world.refusals.is_empty(),
            "after {steps} steps: {:?}",
            world.refusals
        );
        assert_said_once(&said.borrow());
        if world.resumed > 0 {
            uploads_cut += 1;
        }
    }
    assert!(
        uploads_cut >= 2,
        "only {uploads_cut} uploads were cut in the middle"
    );
}

#[test]
fn a_crash_at_any_step_costs_at_most_the_client() {
    let (mut stayed, mut left) = (0, 0);
    for steps in 0.. {
        let (mut world, said) = watched(40_000, 6);
        let client = ClientId(u32::try_from(steps % 8).unwrap());
        if !struck(&mut world, client, steps, World::restart) {
            break;
        }
        assert_eq!(world.aborted, None, "after {steps} steps");
        world.assert_exact();
        assert!(
            world.now < Now(1000),
            "after {steps} steps: nobody waits for a client that cannot answer"
        );
        let survivors = &world.outcome.as_ref().unwrap().survivors;
        assert!(survivors.len() >= 7, "after {steps} steps");
        if survivors.contains(&client) {
            stayed += 1;
        } else {
            left += 1;
        }
        // Keys may be sent twice only if the first were never acted on: then the client joined afresh.
        let said = said.borrow();
        assert_said_once(&said);
    }
    assert!(stayed > 20 && left > 5, "{stayed} stayed, {left} left");
}

#[test]
fn a_client_that_crashes_after_its_upload_still_answers_once() {
    for phase in [
        "waiting for the proposal",
        "waiting for the agreement",
        "waiting for the sums",
    ] {
        let (mut world, said) = watched(20, 7);
        let client = ClientId(3);
        let log = world.genesis_log();
        world.start(log, 1).unwrap();
        while world.clients[&client].doing() != phase {
            assert!(world.step(), "{phase} never came");
        }
        world.restart(client);
        assert_eq!(world.clients[&client].doing(), phase, "it goes on where it stood");
        world.run();
        world.assert_exact();
        assert!(world.outcome.as_ref().unwrap().survivors.contains(&client));
        let said = said.borrow();
        assert_said_once(&said);
        assert!(world.client_errors.is_empty(), "{:?}", world.client_errors);
    }
}

#[test]
fn what_a_client_answered_it_does_not_answer_again_after_a_crash() {
    let (mut world, said) = watched(20, 8);
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    let client = ClientId(3);
    while world.clients[&client].doing() != "waiting for the sums" {
        assert!(world.step());
    }
    world.restart(client);
    // A second attempt at the same round, as a server might try that did not like the sums.
    let mut request = world.request(1, 1);
    request.present.retain(|id, _| *id == client);
    let log = world.log();
    let server = Server::start(world.federation.server_setup(50), log, request, world.now, rng(4));
    world.server = Some(server.map_err(|(abort, _)| abort).unwrap());
    world.drain_server();
    world.run();
    assert!(
        world
            .client_errors
            .iter()
            .any(|(id, refusal)| *id == client && refusal.name() == "WrongContext"),
        "{:?}",
        world.client_errors
    );
    assert_said_once(&said.borrow());
}

#[test]
fn journals_hold_no_secret_of_their_owner_and_open_for_nobody_else() {
    let (mut world, _) = watched(20, 9);
    let client = ClientId(3);
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    while world.clients[&client].doing() != "waiting for the proposal" {
        assert!(world.step());
    }
    let journal = world.journals[&client].clone();
    let open = |member: u32, bytes: &[u8]| {
        Client::restore(world.federation.member(member), Head::empty(), bytes, rng(1)).map(|_| ())
    };
    assert_eq!(open(3, &journal), Ok(()));
    assert_eq!(
        open(4, &journal),
        Err(RestoreError::Journal(JournalError::Damaged))
    );
    for other in [&b"veilsum client journal 1\n"[..], b"veilsum client journal 3\n"] {
        assert_eq!(open(3, other), Err(RestoreError::Journal(JournalError::Version)));
    }
    for bit in 0..journal.len() * 8 {
        // Every bit of the head and of the end, and every 31st between.
        if bit > 512 && bit < journal.len() * 8 - 256 && bit % 31 != 0 {
            continue;
        }
        let mut bent = journal.clone();
        bent[bit / 8] ^= 1 << (bit % 8);
        assert!(open(3, &bent).is_err(), "bit {bit}");
    }
    let other = Federation::new(Setup {
        crowd: 2,
        ..setup(20)
    });
    assert_eq!(
        Client::restore(other.member(3), Head::empty(), &journal, rng(1)).map(|_| ()),
        Err(RestoreError::Journal(JournalError::OtherPolicy))
    );
    world.run();
    world.assert_exact();
    let after = &world.journals[&client];
    assert!(
        after.len() < 200,
        "after the round {} bytes are left",
        after.len()
    );
}
