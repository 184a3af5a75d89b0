//! Clients that say what their data looks like, and clusters that come of it.

use crate::world::{Federation, Run, audit, founded, run, survivors};
use std::collections::BTreeSet;
use veilsum::events::{ClientEvent, ServerEvent};
use veilsum_aggregation::ToServer;
use veilsum_attestation::audit::Overall;
use veilsum_attestation::statement::{ClusteringRule, NoiseRule, ThresholdRule};
use veilsum_transport::Fault;

fn rule(threshold: ThresholdRule) -> ClusteringRule {
    ClusteringRule {
        threshold,
        every: 0,
        images: 9,
        channels: 12,
        noise: None,
    }
}

/// Clients 0 to 3 are indoors by day, the others on a street by night. A crowd of two, one colluder and one dropout need four in a sum.
fn clustered(rounds: u64, rule: ClusteringRule) -> Federation {
    founded(|request| {
        request.rounds = rounds;
        request.crowd = 2;
        request.clustering = Some(rule);
    })
}

fn clusterings(run: &Run) -> Vec<(u64, Vec<Vec<u32>>)> {
    run.server
        .iter()
        .filter_map(|stamped| match &stamped.event {
            ServerEvent::Clustered {
                clustering, clusters, ..
            } => Some((*clustering, clusters.clone())),
            _ => None,
        })
        .collect()
}

/// The descriptors each client sent, as messages.
fn described(run: &Run, client: usize) -> Vec<Vec<u8>> {
    run.tapes[client]
        .lock()
        .unwrap()
        .iter()
        .filter(|body| matches!(ToServer::decode(10, body), Ok(ToServer::Described(_))))
        .cloned()
        .collect()
}

fn everybody(rounds: usize) -> Vec<Vec<u32>> {
    vec![(0..8).collect(); rounds]
}

#[tokio::test(start_paused = true)]
async fn clients_are_clustered_by_what_they_see_without_being_told() {
    let federation = clustered(2, rule(ThresholdRule::Gap));
    let run = run(&federation, 11, 5_000, |_, _| ()).await;
    assert_eq!(clusterings(&run), [(1, vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]])]);
    assert_eq!(survivors(&run), everybody(2));
    assert_eq!(audit(&federation), Overall::Verified);
    for client in 0..8 {
        assert_eq!(described(&run, client).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn clustered_anew_models_are_handed_down() {
    let federation = clustered(
        5,
        ClusteringRule {
            every: 2,
            ..rule(ThresholdRule::Gap)
        },
    );
    let run = run(&federation, 12, 5_000, |_, _| ()).await;
    let numbers: Vec<u64> = clusterings(&run).iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(survivors(&run), everybody(5));
    // The auditor follows the models from one clustering to the next.
    assert_eq!(audit(&federation), Overall::Verified);
    let each: BTreeSet<Vec<u8>> = described(&run, 2).into_iter().collect();
    assert_eq!(each.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn all_pairs_close_is_one_cluster_of_all() {
    let federation = clustered(1, rule(ThresholdRule::Overlap(1_000_000)));
    let run = run(&federation, 13, 5_000, |_, _| ()).await;
    assert_eq!(clusterings(&run), [(1, vec![(0..8).collect()])]);
    assert_eq!(audit(&federation), Overall::Verified);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stays_silent_is_waited_for_by_name_and_not_for_ever() {
    let mut federation = clustered(1, rule(ThresholdRule::Overlap(1_000_000)));
    // Kind 10 is the descriptor.
    federation.mute = Some((2, 10));
    let run = run(&federation, 17, 5_000, |_, _| ()).await;
    let waiting: Vec<&ServerEvent> = run
        .server
        .iter()
        .map(|stamped| &stamped.event)
        .filter(|event| matches!(event, ServerEvent::Waiting { .. }))
        .collect();
    // A quarter of the minute there is has passed.
    let [
        ServerEvent::Waiting {
            described: 7,
            clients,
            seconds: 45,
            ..
        },
    ] = waiting[..]
    else {
        panic!("{waiting:?}");
    };
    assert_eq!(*clients, [2]);
    let without: Vec<u32> = (0..8).filter(|client| *client != 2).collect();
    assert_eq!(clusterings(&run), [(1, vec![without.clone()])]);
    assert_eq!(survivors(&run), [without]);
    assert_eq!(audit(&federation), Overall::Verified);
}

#[tokio::test(start_paused = true)]
async fn clusters_by_data_leave_clients_enough_of_a_kind_to_count_together() {
    for (seed, share) in [(18, 200_000), (19, 450_000), (20, 700_000)] {
        let federation = founded(|request| {
            request.rounds = 1;
            (request.crowd, request.colluders, request.dropouts, request.blocks) = (2, 0, 0, 3);
            request.clustering = Some(rule(ThresholdRule::Overlap(share)));
        });
        let run = run(&federation, seed, 5_000, |_, _| ()).await;
        let (_, clusters) = clusterings(&run).remove(0);
        let of = |client: u32| -> Vec<bool> { clusters.iter().map(|set| set.contains(&client)).collect() };
        for client in 0..8 {
            let alike = (0..8).filter(|other| of(*other) == of(client)).count();
            assert!(alike >= 3, "{share}: {clusters:?}");
        }
        assert_eq!(survivors(&run), everybody(1));
        assert_eq!(audit(&federation), Overall::Verified);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_counts_whole_or_not_at_all() {
    let federation = founded(|request| {
        request.rounds = 2;
        request.blocks = 2;
        request.crowd = 2;
        request.colluders = 0;
        request.clusters = Some(vec![(0..8).collect()]);
    });
    let run = run(&federation, 16, 5_000, |net, peers| {
        net.inject(Fault::CutAfterFrames {
            peer: peers[3],
            frames: 4,
        });
    })
    .await;
    assert_eq!(survivors(&run), [vec![0, 1, 4, 5, 6, 7], (0..8).collect()]);
    assert_eq!(audit(&federation), Overall::Verified);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "Regrouped")]
async fn groups_hold_whatever_the_operator_configures_later() {
    let mut federation = founded(|request| {
        request.rounds = 1;
        (request.crowd, request.colluders, request.blocks) = (2, 0, 2);
        request.clusters = Some(vec![(0..8).collect()]);
    });
    assert_eq!(
        survivors(&run(&federation, 21, 5_000, |_, _| ()).await),
        everybody(1)
    );
    federation.request.clusters = Some(vec![(0..6).collect()]);
    run(&federation, 21, 5_000, |_, _| ()).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_lost_its_connection_says_the_same_again() {
    let federation = clustered(1, rule(ThresholdRule::Gap));
    // Its hello goes through; its descriptor does not, or nobody knows whether it did.
    let run = run(&federation, 14, 5_000, |net, peers| {
        net.inject(Fault::CutAfterFrames {
            peer: peers[3],
            frames: 1,
        });
        net.inject(Fault::CutAfterFrames {
            peer: peers[5],
            frames: 2,
        });
    })
    .await;
    // Whoever is still away when the round begins drops out of it, and is in the clusters for the next one.
    let (_, clusters) = clusterings(&run).remove(0);
    let members: BTreeSet<u32> = clusters.into_iter().flatten().collect();
    assert_eq!(members, (0..8).collect());
    assert_eq!(audit(&federation), Overall::Verified);
    for client in [3, 5] {
        let said = described(&run, client);
        assert!(!said.is_empty());
        let kept = federation
            .dir
            .path()
            .join(format!("state-14-{client}/descriptors/000001.bin"));
        let kept = std::fs::read(kept).unwrap();
        assert!(said.iter().all(|answer| *answer == kept), "client {client}");
    }
}

#[tokio::test(start_paused = true)]
async fn noise_is_paid_for_and_a_client_with_too_few_images_is_left_out() {
    // Hardly any noise, so that the groups stay apart; the numbers are what counts here.
    let noise = NoiseRule {
        clip_micros: 4_000_000,
        variance_floor_nanos: 1_000_000_000,
        multiplier_micros: 50_000,
    };
    let federation = clustered(
        1,
        ClusteringRule {
            images: 12,
            noise: Some(noise),
            ..rule(ThresholdRule::Overlap(1_000_000))
        },
    );
    let run = run(&federation, 15, 5_000, |_, _| ()).await;
    // Client 7 has nine images of the twelve the noise is sized for.
    assert_eq!(clusterings(&run), [(1, vec![(0..7).collect()])]);
    assert_eq!(survivors(&run), [(0..7).collect::<Vec<u32>>()]);
    assert_eq!(audit(&federation), Overall::Verified);
    assert!(described(&run, 7).is_empty());
    // It says so, and nobody waits for it; why is its own business.
    let server = || run.server.iter().map(|stamped| &stamped.event);
    assert!(server().any(
        |event| matches!(event, ServerEvent::Refused { client: 7, reason } if reason == "it cannot describe its data (LearnerFailed)")
    ));
    assert!(!server().any(|event| matches!(event, ServerEvent::Waiting { .. })));
    let events = |client: usize| run.clients[client].0.iter().map(|stamped| &stamped.event);
    assert!(events(7).any(
        |event| matches!(event, ClientEvent::NotDescribed { reason, .. } if reason.contains("too few"))
    ));
    let spent: Vec<f64> = events(0)
        .filter_map(|event| match event {
            ClientEvent::Described { epsilon, .. } => *epsilon,
            _ => None,
        })
        .collect();
    // rho = 1 / (2 · 0.05²) = 200.
    let want = veilsum_aggregation::privacy::zcdp::epsilon(200.0, 1e-6).unwrap();
    assert_eq!(spent, [want]);
    let ledger = federation.dir.path().join("state-15-0/ledger.json");
    let ledger: serde_json::Value = serde_json::from_slice(&std::fs::read(ledger).unwrap()).unwrap();
    assert_eq!(ledger[0]["rho"].as_f64().map(f64::round), Some(200.0), "{ledger}");
}
