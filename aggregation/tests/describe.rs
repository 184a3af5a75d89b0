//! Between rounds: who is asked what, what a client says once and only once, and what the server takes for an answer.
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

use std::sync::Arc;
use veilsum_aggregation::client::Membership;
use veilsum_aggregation::message::{Describe, Described};
use veilsum_aggregation::*;
use veilsum_attestation::Head;
use veilsum_attestation::statement::{ClusteringRule, Descriptor, NoiseRule, Party, Signed, ThresholdRule};
use veilsum_crypto::testing::rng;
use veilsum_crypto::{BoundedVec, ClientId, Digest};
use world::{Federation, Setup, World};

fn setup() -> Setup {
    Setup {
        clients: 8,
        threshold: 5,
        clusters: vec![vec![0, 1, 2, 3, 4, 5, 6, 7]],
        entries: 3,
        crowd: 2,
        orgs: 4,
    }
}

fn rule(every: u64, multiplier: Option<u32>) -> ClusteringRule {
    ClusteringRule {
        threshold: ThresholdRule::Gap,
        every,
        images: 8,
        channels: 2,
        noise: multiplier.map(|multiplier_micros| NoiseRule {
            clip_micros: 1,
            variance_floor_nanos: 1,
            multiplier_micros,
        }),
    }
}

/// A member under a policy of 1000 rounds with that rule.
fn member(federation: &Federation, client: u32, rule: Option<ClusteringRule>) -> Arc<Membership> {
    let mut member = federation.member(client);
    Arc::get_mut(&mut member).unwrap().policy.clustering = rule;
    member
}

fn client(federation: &Federation, rule: Option<ClusteringRule>) -> Client<chacha20::ChaCha20Rng> {
    Client::new(member(federation, 3, rule), Head::empty(), rng(3)).unwrap()
}

fn ask(clustering: u64) -> ToClient {
    ToClient::Describe(Describe { clustering })
}

fn answer(federation: &Federation, clustering: u64, descriptor: &[u8]) -> Described {
    let mut client = client(federation, Some(rule(10, None)));
    client.described(clustering, descriptor.to_vec()).unwrap();
    match client.poll_output() {
        Some(ClientOutput::KeepDescriptor { described, .. }) => described,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_answers_only_what_its_policy_asks() {
    let federation = Federation::new(setup());
    for (rule, clustering) in [
        (None, 1),
        (Some(rule(10, None)), 0),
        (Some(rule(10, None)), 101),
        (Some(rule(0, None)), 2),
    ] {
        let mut client = client(&federation, rule);
        assert_eq!(
            client.handle(ask(clustering), Now(0)),
            Err(Refusal::NoClustering(clustering))
        );
        assert!(
            !std::iter::from_fn(|| client.poll_output())
                .any(|output| matches!(output, ClientOutput::Describe { .. }))
        );
        assert_eq!(
            client.described(clustering, vec![1]),
            Err(Refusal::NoClustering(clustering))
        );
    }
    let mut client = client(&federation, Some(rule(10, None)));
    client.handle(ask(100), Now(0)).unwrap();
    assert!(
        std::iter::from_fn(|| client.poll_output())
            .any(|output| matches!(output, ClientOutput::Describe { clustering: 100 }))
    );
}

#[test]
fn a_clustering_that_is_over_is_not_described_again() {
    let federation = Federation::with(setup(), |policy| policy.clustering = Some(rule(2, None)));
    let mut world = World::of(federation, 1);
    let log = world.genesis_log();
    world.start(log, 3).unwrap();
    world.run();
    assert!(world.outcome.is_some());
    // Rounds 1 and 2 were the first clustering.
    let client = world.clients.get_mut(&ClientId(3)).unwrap();
    assert_eq!(client.handle(ask(1), Now(0)), Err(Refusal::OldClustering(1)));
    assert_eq!(client.described(1, vec![1]), Err(Refusal::OldClustering(1)));
    for clustering in [2, 3, 2] {
        client.handle(ask(clustering), Now(0)).unwrap();
    }
    let asked: Vec<u64> = std::iter::from_fn(|| client.poll_output())
        .filter_map(|output| match output {
            ClientOutput::Describe { clustering } => Some(clustering),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [2, 3, 2]);
}

#[test]
fn clusters_hold_for_a_clustering_and_no_longer() {
    let federation = Federation::with(setup(), |policy| policy.clustering = Some(rule(2, None)));
    let mut world = World::of(federation, 1);
    let mut log = world.genesis_log();
    for (round, clusters, ends_well) in [
        (1, vec![(0..8).collect::<Vec<u32>>()], true),
        (2, vec![(0..7).collect()], false),
        (3, vec![(0..7).collect()], true),
        (4, vec![(0..8).collect()], false),
    ] {
        world.federation.setup.clusters = clusters;
        world.outcome = None;
        world.start(log, round).unwrap();
        world.run();
        assert_eq!(world.outcome.is_some(), ends_well, "round {round}");
        log = world.log();
    }
    let regrouped = |clustering| {
        let errors = world.client_errors.iter();
        errors
            .filter(|(_, refusal)| *refusal == Refusal::Regrouped(clustering))
            .count()
    };
    // Client 7 is not asked in rounds 2 and 3, and what it was in clustering 1 does not bind it in clustering 2.
    assert_eq!((regrouped(1), regrouped(2)), (7, 7));
}

#[test]
fn an_answer_is_kept_before_it_is_sent() {
    let federation = Federation::new(setup());
    let mut client = client(&federation, Some(rule(10, None)));
    client.described(1, vec![1, 2, 3]).unwrap();
    let Some(ClientOutput::KeepDescriptor {
        clustering: 1,
        described: kept,
    }) = client.poll_output()
    else {
        panic!("nothing is kept");
    };
    match client.poll_output() {
        Some(ClientOutput::Send(ToServer::Described(sent))) => assert_eq!(sent, kept),
        other => panic!("{other:?}"),
    }
    assert_eq!(&kept.descriptor[..], [1, 2, 3]);
}

#[test]
fn the_server_takes_one_answer_of_each_client_under_its_own_signature() {
    let federation = Federation::new(setup());
    let log = World::new(setup(), 1).genesis_log();
    let mut gathering = Gathering::new(federation.server_setup(0), log, 2);
    let good = answer(&federation, 2, b"what the data looks like");
    let digest = gathering.check(ClientId(3), &good).unwrap().unwrap();
    // Another's, one of another clustering, another descriptor than the statement's, another policy.
    assert!(matches!(
        gathering.check(ClientId(4), &good),
        Err(Refusal::Statement(_))
    ));
    assert_eq!(
        gathering.check(ClientId(3), &answer(&federation, 1, b"x")),
        Err(Refusal::WrongContext)
    );
    let swapped = Described {
        descriptor: BoundedVec::new(b"another".to_vec()).unwrap(),
        ..good.clone()
    };
    assert!(matches!(
        gathering.check(ClientId(3), &swapped),
        Err(Refusal::BadDescriptor(_))
    ));
    let elsewhere = Signed::make(
        Descriptor {
            policy: Digest([9; 32]),
            clustering: 2,
            digest,
        },
        Party::Client(ClientId(3)),
        &federation.member(3).identity,
        federation.book.federation(),
        &mut rng(9),
    )
    .unwrap();
    let elsewhere = Described {
        entry: BoundedVec::new(elsewhere.bytes().unwrap()).unwrap(),
        ..good.clone()
    };
    assert_eq!(
        gathering.check(ClientId(3), &elsewhere),
        Err(Refusal::WrongPolicy)
    );
    // Nothing was taken yet; then it is, once.
    assert!(gathering.have().is_empty());
    let entry = gathering.record(ClientId(3), digest, &good);
    assert_eq!(entry, good.entry.to_vec());
    assert_eq!(gathering.check(ClientId(3), &good), Ok(None));
    assert_eq!(
        gathering.check(ClientId(3), &answer(&federation, 2, b"second thoughts")),
        Err(Refusal::Conflict("descriptor"))
    );
    // A server that starts again goes on from its log.
    let again = Gathering::new(federation.server_setup(0), gathering.into_log(), 2);
    assert_eq!(again.have().get(&ClientId(3)), Some(&digest));
    let next = Gathering::new(federation.server_setup(0), again.into_log(), 3);
    assert!(next.have().is_empty());
}

#[test]
fn descriptors_that_cost_more_than_a_client_allows_are_refused_before_it_joins() {
    let federation = Federation::new(setup());
    let joined = |rule: ClusteringRule, max: u64| {
        let mut member = member(&federation, 3, Some(rule));
        Arc::get_mut(&mut member).unwrap().floors.max_epsilon_micros = max;
        Client::new(member, Head::empty(), rng(3)).err()
    };
    // 100 clusterings at multiplier 100 / √2: rho 0.01 altogether; the published epsilon of that at 10⁻⁶.
    let noised = rule(10, Some(70_710_678));
    assert_eq!(joined(noised, 621_693), None);
    assert!(matches!(
        joined(noised, 621_600),
        Some(Refusal::BelowFloor {
            got: 621_692..=621_693,
            bound: "at most",
            ..
        })
    ));
    // Without noise no number is enough, and whoever sets none does not mind.
    assert!(matches!(
        joined(rule(0, None), u64::MAX - 1),
        Some(Refusal::BelowFloor { got: u64::MAX, .. })
    ));
    assert_eq!(joined(rule(0, None), u64::MAX), None);
}
