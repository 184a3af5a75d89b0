//! Many random rounds: clients that die, lose their connection or crash and come back at any step, with at least t that
//! stay. No round is aborted, every released sum is exact, nobody says two things where one is allowed, and nobody accuses an
//! honest server.
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

use rand_core::Rng;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use veilsum_aggregation::{Abort, ToServer};
use veilsum_crypto::ClientId;
use veilsum_crypto::testing::rng;
use world::{Death, Setup, World};

/// What a schedule came to.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rounds: u32,
    deaths: u32,
    reconnects: u32,
    restarts: u32,
    /// Clients over all rounds, and those of them that are in a sum.
    clients: usize,
    survivors: usize,
}

struct Dice<R>(R);

impl<R: Rng> Dice<R> {
    fn pick(&mut self, low: u32, high: u32) -> u32 {
        low + self.0.next_u32() % (high - low + 1)
    }

    fn one_in(&mut self, sides: u32) -> bool {
        self.pick(1, sides) == 1
    }
}

/// 3 to 12 clients, any threshold with 2t > N, one cluster of all, and half of the time a second of some.
fn random_setup(dice: &mut Dice<impl Rng>) -> Setup {
    let clients = dice.pick(3, 12);
    let mut clusters = vec![(0..clients).collect::<Vec<u32>>()];
    // A second cluster must leave enough of the first outside it, or its complement would be exposed.
    if clients >= 8 && dice.one_in(2) {
        clusters.push((0..clients / 2).collect());
    }
    Setup {
        clients,
        threshold: dice.pick(clients / 2 + 1, clients),
        clusters,
        entries: dice.pick(1, 40) as usize,
        crowd: 2,
        orgs: clients,
    }
}

/// Statements and chunks by what they are about.
type Said = Rc<RefCell<BTreeMap<(ClientId, &'static str, u64), BTreeSet<Vec<u8>>>>>;

fn listen(world: &mut World) -> Said {
    let said = Said::default();
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
    said
}

/// One round. At most N - t clients die or crash; with `blows`, any client may lose its connection at any step.
fn schedule(seed: u64, blows: bool, tally: &mut Tally) {
    let mut dice = Dice(rng(seed));
    let setup = random_setup(&mut dice);
    let (clients, spare) = (setup.clients, setup.clients - setup.threshold);
    let mut world = World::new(setup, seed);
    let said = listen(&mut world);
    let mut ids: Vec<ClientId> = world.clients.keys().copied().collect();
    let mut doomed = Vec::new();
    for _ in 0..dice.pick(0, spare) {
        let victim = ids.swap_remove(dice.pick(0, ids.len() as u32 - 1) as usize);
        if blows && dice.one_in(2) {
            doomed.push(victim);
        } else {
            let death = Death {
                after_sends: dice.pick(0, 8) as usize,
                noticed: dice.one_in(2),
                in_flight_lost: dice.one_in(2),
            };
            world.deaths.insert(victim, death);
        }
    }
    world.reconnect = if blows { 50 } else { 0 };
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    while world.step() {
        if !blows {
            continue;
        }
        let client = ClientId(dice.pick(0, clients - 1));
        if world.dead.contains(&client) {
            continue;
        }
        if doomed.contains(&client) && dice.one_in(10) {
            world.restart(client);
            tally.restarts += 1;
        } else if dice.one_in(20) {
            world.reconnect(client);
            tally.reconnects += 1;
        }
    }
    assert_eq!(world.aborted, None::<Abort>, "seed {seed}: at least t were left");
    world.assert_exact();
    assert!(
        world.evidence.is_empty(),
        "seed {seed}: an honest server is accused"
    );
    // Whoever neither died nor crashed is in the sum, and nobody had anything to refuse it.
    let survivors = &world.outcome.as_ref().unwrap().survivors;
    for client in &ids {
        assert!(survivors.contains(client), "seed {seed}: {client}");
        let refused = world.refusals.iter().chain(&world.client_errors);
        let refused: Vec<_> = refused.filter(|(who, _)| who == client).collect();
        assert!(refused.is_empty(), "seed {seed}: {refused:?}");
    }
    for ((client, kind, number), bytes) in &*said.borrow() {
        assert_eq!(bytes.len(), 1, "seed {seed}: {client} sent two {kind} {number}");
    }
    tally.rounds += 1;
    tally.deaths += world.dead.len() as u32;
    tally.clients += clients as usize;
    tally.survivors += survivors.len();
}

fn schedules(seeds: std::ops::Range<u64>, blows: bool) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        schedule(seed, blows, &mut tally);
    }
    println!("{tally:?}");
    tally
}

#[test]
fn lost_connections_and_crashes_at_random_steps_cost_no_sum() {
    let tally = schedules(0..1000, true);
    assert!(
        tally.deaths > 100 && tally.reconnects > 1000 && tally.restarts > 100,
        "{tally:?}"
    );
}

#[test]
#[ignore = "10,000 rounds take minutes"]
fn ten_thousand_dropout_schedules() {
    let tally = schedules(1_000_000..1_010_000, false);
    assert!(tally.deaths > 1000, "{tally:?}");
}
