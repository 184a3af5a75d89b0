//! Descriptors and clusterings against the rules, each by its name.

use crate::hand::Hand;
use crate::tricks::{Bend, Finish, Founding, Tricks};
use crate::violated;
use veilsum_attestation::audit::CheckName;
use veilsum_attestation::statement::{ClusteringRule, ThresholdRule};
use veilsum_crypto::{ClientId, Digest};

/// Clusterings begin at rounds 1, 3, 5, … 99.
fn founded() -> Hand {
    Hand::founded(&Founding {
        policy: |policy| {
            policy.clustering = Some(ClusteringRule {
                threshold: ThresholdRule::Gap,
                every: 2,
                images: 8,
                channels: 1,
                noise: None,
            });
        },
        ..Founding::default()
    })
}

fn all_describe(hand: &mut Hand, clustering: u64) {
    for client in 0..5 {
        hand.describe(client, clustering, |_| {});
    }
}

#[test]
fn descriptors_come_before_the_first_plan_of_each_clustering() {
    let mut hand = founded();
    all_describe(&mut hand, 1);
    hand.attempt(1, 0, &Tricks::default());
    hand.attempt(2, 0, &Tricks::default());
    all_describe(&mut hand, 2);
    hand.attempt(3, 0, &Tricks::default());
    let verdict = hand.audit();
    assert_eq!(violated(&verdict), [], "{verdict}");

    // The third round is of the second clustering.
    let mut hand = founded();
    all_describe(&mut hand, 1);
    hand.attempt(1, 0, &Tricks::default());
    hand.attempt(3, 0, &Tricks::default());
    assert_eq!(violated(&hand.audit()), [CheckName::Clustering]);

    // One client is planned for and said nothing.
    let mut hand = founded();
    for client in [0, 1, 3, 4] {
        hand.describe(client, 1, |_| {});
    }
    hand.attempt(1, 0, &Tricks::default());
    let verdict = hand.audit();
    assert_eq!(violated(&verdict), [CheckName::Clustering]);
    assert!(
        verdict.to_string().contains("client 2 is planned for"),
        "{verdict}"
    );
}

#[test]
fn each_descriptor_is_one_of_its_client_for_this_policy() {
    let with = |more: fn(&mut Hand)| {
        let mut hand = founded();
        all_describe(&mut hand, 1);
        more(&mut hand);
        hand.attempt(1, 0, &Tricks::default());
        violated(&hand.audit())
    };
    assert_eq!(with(|_| {}), []);
    // New noise on the same data.
    assert_eq!(with(|hand| hand.describe(3, 1, |_| {})), [CheckName::Clustering]);
    assert_eq!(with(|hand| hand.describe(3, 51, |_| {})), [CheckName::Clustering]);
    assert_eq!(with(|hand| hand.describe(3, 50, |_| {})), []);
    assert_eq!(with(|hand| hand.describe(3, 0, |_| {})), [CheckName::Clustering]);
    assert_eq!(
        with(|hand| hand.describe(3, 2, |body| body.policy = Digest([9; 32]))),
        [CheckName::Clustering]
    );
    let mut hand = Hand::new();
    hand.describe(0, 1, |_| {});
    hand.attempt(1, 0, &Tricks::default());
    assert_eq!(violated(&hand.audit()), [CheckName::Clustering]);
}

#[test]
fn no_descriptor_comes_in_the_middle_of_an_attempt() {
    let mut hand = founded();
    all_describe(&mut hand, 1);
    hand.attempt(
        1,
        0,
        &Tricks {
            revealers: 0,
            finish: Finish::Nothing,
            ..Tricks::default()
        },
    );
    hand.describe(0, 2, |_| {});
    assert_eq!(violated(&hand.audit()), [CheckName::Phases]);
}

#[test]
fn clusters_hold_until_the_next_clustering() {
    let mut hand = founded();
    all_describe(&mut hand, 1);
    hand.attempt(1, 0, &Tricks::default());
    let bend = Bend {
        plan: |plan| {
            let members = plan.clusters[0].members.iter().copied();
            let fewer = members.filter(|client| *client != ClientId(0)).collect();
            let mut clusters = plan.clusters.to_vec();
            clusters[0].members = fewer;
            plan.clusters = veilsum_crypto::BoundedVec::new(clusters).unwrap();
        },
        ..Bend::default()
    };
    hand.attempt(
        2,
        0,
        &Tricks {
            bend,
            ..Tricks::default()
        },
    );
    assert!(violated(&hand.audit()).contains(&CheckName::Clustering));
}

#[test]
fn a_new_cluster_starts_from_the_model_it_inherits() {
    // The hand keeps its one cluster, so the model goes on; the initial one would be another.
    let initial = |plan: &mut veilsum_attestation::statement::Plan| {
        let mut clusters = plan.clusters.to_vec();
        clusters[0].model = veilsum_attestation::model_digest(&[0.25; 9]);
        plan.clusters = veilsum_crypto::BoundedVec::new(clusters).unwrap();
    };
    let mut hand = founded();
    all_describe(&mut hand, 1);
    hand.attempt(1, 0, &Tricks::default());
    all_describe(&mut hand, 2);
    let bend = Bend {
        plan: initial,
        ..Bend::default()
    };
    hand.attempt(
        3,
        0,
        &Tricks {
            bend,
            ..Tricks::default()
        },
    );
    assert!(violated(&hand.audit()).contains(&CheckName::Models));
}
