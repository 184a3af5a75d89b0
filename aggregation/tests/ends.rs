//! The two ends of the overlap, through the whole protocol: all pairs close is federated averaging, none close is local
//! training, both bit for bit (FedDepth's figures at 100 % and 0 %).
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

use veilsum_aggregation::cluster::{Divergences, Threshold, soft};
use veilsum_aggregation::*;
use veilsum_crypto::ClientId;
use world::{Federation, Setup, World};

const CLIENTS: u32 = 7;

/// The soft clusters at an overlap, of clients that all differ.
fn setup(overlap: f64, crowd: u32) -> Setup {
    let rows: Vec<Vec<f64>> = (0..CLIENTS)
        .map(|i| {
            (0..CLIENTS)
                .map(|j| (f64::from(i) - f64::from(j)).powi(2))
                .collect()
        })
        .collect();
    let divergences = Divergences::from_rows(&rows).unwrap();
    let tau = Threshold::Overlap(overlap).choose(&divergences).unwrap().tau;
    let clusters = soft(&divergences, tau);
    Setup {
        clients: CLIENTS,
        threshold: 5,
        clusters: (0..clusters.clusters())
            .map(|cluster| clusters.members(cluster).map(|client| client as u32).collect())
            .collect(),
        entries: 50,
        crowd,
        orgs: 7,
    }
}

/// Old model plus the weighted mean of the clients' differences, by hand.
fn average(world: &World, clients: &[u32]) -> Vec<f32> {
    let of = |client: &u32| &world.contributions[&ClientId(*client)];
    let weight: f64 = clients.iter().map(|client| f64::from(of(client).weight)).sum();
    (0..50)
        .map(|entry| {
            let sum: f64 = clients
                .iter()
                .map(|client| f64::from(of(client).weight) * f64::from(of(client).delta()[entry]))
                .sum();
            (0.5 + sum / weight) as f32
        })
        .collect()
}

fn run(federation: Federation, seed: u64) -> World {
    let mut world = World::of(federation, seed);
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world.assert_exact();
    world
}

fn bits(model: &[f32]) -> Vec<u32> {
    model.iter().map(|entry| entry.to_bits()).collect()
}

#[test]
fn all_pairs_close_is_federated_averaging() {
    for seed in 0..20 {
        let world = run(Federation::new(setup(1.0, 3)), seed);
        let opened = &world.outcome.as_ref().unwrap().opened;
        assert_eq!(opened.len(), 1);
        let all: Vec<u32> = (0..CLIENTS).collect();
        assert_eq!(
            bits(&opened[0].model),
            bits(&average(&world, &all)),
            "seed {seed}"
        );
    }
}

#[test]
fn no_pair_close_is_local_training_and_no_policy_lets_it_be_opened() {
    // With a crowd of one, which no policy may ask for, the protocol hands everybody its own model back.
    for seed in 0..20 {
        let world = run(Federation::unchecked(setup(0.0, 1)), seed);
        let opened = &world.outcome.as_ref().unwrap().opened;
        assert_eq!(opened.len(), CLIENTS as usize);
        for opened in opened {
            let own = average(&world, &[u32::from(opened.cluster.0)]);
            assert_eq!(bits(&opened.model), bits(&own), "seed {seed}");
        }
    }
    // Under a policy that may be signed nobody even trains for such a plan: everybody keeps what it trained alone.
    assert!(Federation::unchecked(setup(0.0, 1)).policy.check().is_err());
    let mut world = World::of(Federation::new(setup(0.0, 2)), 1);
    let log = world.genesis_log();
    assert!(matches!(world.start(log, 1), Err(Abort::PlanLeaks { .. })));
}
