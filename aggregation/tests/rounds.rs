//! Whole rounds of the real machines under random schedules: the released sums equal the plain sums of the survivors,
//! every time; with fewer than t left the round ends in a named abort and nothing is opened.
#![allow(
    missing_docs,
    dead_code,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

#[path = "rounds/world.rs"]
mod world;

use proptest::prelude::*;
use rand_core::Rng;
use veilsum_aggregation::*;
use veilsum_attestation::statement::{Entry, Kind};
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;
use world::{Death, Setup, World};

fn two_clusters() -> Setup {
    Setup {
        clients: 8,
        threshold: 5,
        clusters: vec![vec![0, 1, 2, 3, 4], vec![3, 4, 5, 6, 7]],
        entries: 20,
        crowd: 3,
        orgs: 4,
    }
}

#[test]
fn nobody_drops() {
    let mut world = World::new(two_clusters(), 1);
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world.assert_exact();
    assert_eq!(world.outcome.as_ref().unwrap().opened.len(), 2);
    assert_eq!(world.done.len(), 8, "every client learns its models");
    assert!(world.refusals.is_empty() && world.client_errors.is_empty());
}

/// A random federation: N 3 to 24, K 1 to 4, any safe threshold. Cluster 0 holds everybody, so something can always be
/// opened; the others are random and dropped again when their overlap would leak.
fn random_world(seed: u64) -> World {
    let mut dice = rng(seed);
    let mut pick = |low: u32, high: u32| low + dice.next_u32() % (high - low + 1);
    // Small federations far more often than large ones: they reach every rule and a round of 24 costs fifty of 3.
    let clients = 3 + pick(0, 21) * pick(0, 21) * pick(0, 21) / (21 * 21);
    let threshold = pick(clients / 2 + 1, clients);
    let wanted = pick(1, 4);
    let mut setup = Setup {
        clients,
        threshold,
        clusters: vec![(0..clients).collect()],
        entries: pick(1, 40) as usize,
        crowd: 2,
        orgs: pick(1, clients),
    };
    for _ in 0..12 {
        if setup.clusters.len() as u32 >= wanted {
            break;
        }
        let members: Vec<u32> = (0..clients).filter(|_| pick(0, 1) == 1).collect();
        setup.clusters.push(members);
        let mut trial = World::new(setup.clone(), seed);
        let log = trial.genesis_log();
        if trial.start(log, 1).is_err() {
            setup.clusters.pop();
        }
    }
    World::new(setup, seed)
}

fn random_death(dice: &mut impl Rng) -> Death {
    Death {
        // A client sends keys, shares, masked, a chunk per cluster, agree, reveal: 6 to 9 messages.
        after_sends: dice.next_u32() as usize % 9,
        noticed: dice.next_u32().is_multiple_of(2),
        in_flight_lost: dice.next_u32().is_multiple_of(2),
    }
}

fn kill_some(world: &mut World, seed: u64, count: usize) {
    let mut dice = rng(seed ^ 0xdead);
    let mut ids: Vec<ClientId> = world.clients.keys().copied().collect();
    for _ in 0..count {
        let victim = ids.swap_remove(dice.next_u32() as usize % ids.len());
        let death = random_death(&mut dice);
        world.deaths.insert(victim, death);
    }
}

fn exact_with_at_least_t_left(seed: u64) {
    let mut world = random_world(seed);
    let spare = world.federation.setup.clients - world.federation.setup.threshold;
    kill_some(&mut world, seed, (seed % u64::from(spare + 1)) as usize);
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    assert_eq!(
        world.aborted, None,
        "seed {seed}: at least t were left at every step"
    );
    world.assert_exact();
    assert!(
        world.client_errors.is_empty(),
        "seed {seed}: {:?}",
        world.client_errors
    );
    assert_both_kinds_never(&mut world);
}

/// Never both share kinds of one client, over every reveal in the log.
fn assert_both_kinds_never(world: &mut World) {
    use veilsum_attestation::statement::Reveal;
    let log = world.log();
    let (mut seeds, mut masks) = (
        std::collections::BTreeSet::new(),
        std::collections::BTreeSet::new(),
    );
    for bytes in log.entries() {
        let entry: Entry = wire::decode(bytes).unwrap();
        if entry.kind == Kind::Reveal {
            let reveal: Reveal = wire::decode(&entry.body).unwrap();
            seeds.extend(reveal.self_shares.iter().map(|share| share.owner));
            masks.extend(reveal.mask_shares.iter().map(|share| share.owner));
        }
    }
    assert!(seeds.is_disjoint(&masks));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_exact_whoever_drops(seed: u64) {
        exact_with_at_least_t_left(seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn below_the_threshold_nothing_is_opened(seed: u64) {
        let mut world = random_world(seed);
        let (n, t) = (world.federation.setup.clients, world.federation.setup.threshold);
        // One too few: everybody but t - 1 dies before its reveal leaves.
        let keep = (seed % u64::from(t)) as usize;
        let mut dice = rng(seed ^ 0xbeef);
        let doomed: Vec<ClientId> = world.clients.keys().copied().skip(keep).collect();
        assert!(doomed.len() as u32 > n - t);
        for victim in doomed {
            let own = world.federation.setup.clusters.iter().filter(|members| members.contains(&victim.0)).count();
            let before_reveal = 4 + own as u32;
            let death = Death { after_sends: (dice.next_u32() % before_reveal) as usize, ..random_death(&mut dice) };
            world.deaths.insert(victim, death);
        }
        let log = world.genesis_log();
        world.start(log, 1).unwrap();
        world.run();
        prop_assert!(world.outcome.is_none());
        let abort = world.aborted.clone().expect("a named abort");
        prop_assert!(
            ["TooFewKeys", "TooFewShares", "TooFewMasked", "TooFewAgree", "TooFewReveal"].contains(&abort.name()),
            "{}", abort.name()
        );
        // Every client that still lives was told, by name.
        for client in world.clients.keys().filter(|client| !world.dead.contains(client)) {
            prop_assert_eq!(world.ended.get(client).map(String::as_str), Some(abort.name()));
        }
        let log = world.log();
        for bytes in log.entries() {
            let entry: Entry = wire::decode(bytes).unwrap();
            prop_assert_ne!(entry.kind, Kind::Sums);
        }
    }
}

#[test]
fn a_client_that_dies_mid_upload_does_not_count() {
    // Long vectors: several chunks per cluster, and a death after every possible number of them.
    let mut setup = two_clusters();
    setup.entries = 60_000;
    let chunks = 60_001usize.div_ceil(65_536 / 19 * 8);
    assert_eq!(chunks, 3);
    for sent in 0..=2 * chunks {
        let mut world = World::new(setup.clone(), 7 + sent as u64);
        // Client 3 is in both clusters: keys, shares, masked, then its chunks.
        world.deaths.insert(
            ClientId(3),
            Death {
                after_sends: 3 + sent,
                noticed: sent % 2 == 0,
                in_flight_lost: false,
            },
        );
        let log = world.genesis_log();
        world.start(log, 1).unwrap();
        world.run();
        world.assert_exact();
        let survivors = &world.outcome.as_ref().unwrap().survivors;
        assert_eq!(
            survivors.contains(&ClientId(3)),
            sent == 2 * chunks,
            "{sent} chunks sent"
        );
        assert_eq!(
            world.stored.contains_key(&(ClientId(3), ClusterId(0))),
            sent == 2 * chunks
        );
    }
}

#[test]
fn rounds_follow_each_other_on_one_log_and_a_lost_client_comes_back() {
    let mut world = World::new(two_clusters(), 5);
    let mut log = world.genesis_log();
    for round in 1..=6u64 {
        world.outcome = None;
        world.done.clear();
        if round == 2 {
            world.deaths.insert(
                ClientId(6),
                Death {
                    after_sends: world.sent[&ClientId(6)] + 3,
                    noticed: true,
                    in_flight_lost: true,
                },
            );
        }
        if round == 3 {
            world.deaths.clear();
            world.dead.clear();
            // A restarted process: it kept its head on disk, nothing else.
            let head = world.clients[&ClientId(6)].head();
            let fresh = Client::new(world.federation.member(6), head, rng(round)).unwrap();
            world.clients.insert(ClientId(6), fresh);
        }
        world.start(log, round).unwrap();
        world.run();
        world.assert_exact();
        let outcome = world.outcome.clone().unwrap();
        assert_eq!(outcome.survivors.len(), if round == 2 { 7 } else { 8 });
        for opened in outcome.opened {
            world.models[usize::from(opened.cluster.0)] = opened.model;
        }
        log = world.log();
    }
    assert!(world.client_errors.is_empty(), "{:?}", world.client_errors);
}

#[test]
fn what_is_still_on_its_way_does_not_spoil_the_next_round() {
    // The next round begins the moment the t-th reveal is in: late reveals, and whatever else, are still in flight.
    let mut world = World::new(two_clusters(), 21);
    let mut log = world.genesis_log();
    for round in 1..=20u64 {
        world.outcome = None;
        world.start(log, round).unwrap();
        while world.outcome.is_none() && world.step() {}
        world.assert_exact();
        let outcome = world.outcome.clone().unwrap();
        assert_eq!(outcome.survivors.len(), 8, "round {round}: {:?}", world.refusals);
        for opened in outcome.opened {
            world.models[usize::from(opened.cluster.0)] = opened.model;
        }
        log = world.log();
    }
    assert!(world.refusals.is_empty() && world.client_errors.is_empty());
}
