//! Repaired plans are safe, and by little change.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "test helpers index what they built"
)]

use chacha20::ChaCha20Rng;
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use veilsum_aggregation::cluster::*;
use veilsum_attestation::disclosure::{CrowdRule, check};
use veilsum_attestation::statement::Plan;

fn rule(crowd: u32, crowd_orgs: u32) -> CrowdRule {
    CrowdRule { crowd, crowd_orgs }
}

fn members(clusters: &Membership) -> Vec<Vec<usize>> {
    (0..clusters.clusters())
        .map(|cluster| clusters.members(cluster).collect())
        .collect()
}

fn plan(clients: usize, lists: &[&[usize]]) -> Membership {
    let lists: Vec<Vec<usize>> = lists.iter().map(|list| list.to_vec()).collect();
    Membership::from_members(clients, &lists).unwrap()
}

fn wish<'a>(
    clusters: &'a Membership,
    orgs: &'a [u32],
    rule: CrowdRule,
    closeness: Option<Closeness<'a>>,
) -> Repair<'a> {
    Repair {
        clusters,
        orgs,
        rule,
        alike: 0,
        most: Plan::MOST_CLUSTERS,
        closeness,
        moves: Moves::default(),
    }
}

fn mend(clusters: &Membership, orgs: &[u32], rule: CrowdRule, closeness: Option<Closeness<'_>>) -> Repaired {
    repair(&wish(clusters, orgs, rule, closeness))
}

/// The fewest clients of exactly the same clusters, counted from the lists.
fn fewest_alike(clusters: &Membership) -> usize {
    let lists = members(clusters);
    let of = |client: usize| -> Vec<usize> {
        (0..lists.len())
            .filter(|cluster| lists[*cluster].contains(&client))
            .collect()
    };
    let covered: Vec<usize> = (0..clusters.clients())
        .filter(|client| !of(*client).is_empty())
        .collect();
    let alike = |client: &usize| covered.iter().filter(|other| of(**other) == of(*client)).count();
    covered.iter().map(alike).min().unwrap_or(usize::MAX)
}

/// Clients at these places on a line.
fn line(places: &[f64]) -> Divergences {
    let rows: Vec<Vec<f64>> = places
        .iter()
        .map(|a| places.iter().map(|b| (a - b).abs()).collect())
        .collect();
    Divergences::from_rows(&rows).unwrap()
}

proptest! {
    #[test]
    fn what_comes_out_is_safe_and_everybody_is_in_where_that_can_be(
        places in prop::collection::vec(0.0..10.0_f64, 2..20),
        share in 0.0..1.0_f64,
        crowd in 1_u32..6,
        crowd_orgs in 0_u32..3,
        makers in 1_u32..6,
        known in any::<bool>(),
        alike in 0_u32..5,
        most in 1_usize..6,
    ) {
        let divergences = line(&places);
        let tau = Threshold::Overlap(share).choose(&divergences).unwrap().tau;
        let clusters = soft(&divergences, tau);
        let n = places.len();
        let orgs: Vec<u32> = (0..u32::try_from(n).unwrap()).map(|client| client % makers).collect();
        let rule = rule(crowd, crowd_orgs);
        let closeness = known.then_some(Closeness { divergences: &divergences, tau });
        let repaired = repair(&Repair { alike, most, ..wish(&clusters, &orgs, rule, closeness) });
        prop_assert!(check(&repaired.clusters, &orgs, &rule).is_safe());
        prop_assert!(repaired.verdict.is_safe());
        prop_assert!(fewest_alike(&repaired.clusters) >= alike as usize);
        prop_assert!(repaired.clusters.clusters() <= most);
        prop_assert_eq!(repaired.clusters.clusters(), repaired.origins.len());
        prop_assert!(repaired.cost >= 0.0);
        // One cluster of all is the last plan before giving up, so clients are left out only where even that is unsafe.
        let possible = n >= crowd.max(alike) as usize && n.min(makers as usize) >= crowd_orgs as usize;
        prop_assert_eq!(repaired.left_out.is_empty(), possible);
        // Nothing is inside another, and nothing is done to a safe plan.
        prop_assert_eq!(drop_contained(&repaired.clusters).clusters(), repaired.clusters.clusters());
        let good = fewest_alike(&clusters) >= alike as usize && clusters.clusters() <= most;
        if good && check(&clusters, &orgs, &rule).is_safe() {
            prop_assert!(repaired.steps.is_empty() && repaired.moved == 0);
            prop_assert_eq!(members(&repaired.clusters), members(&clusters));
        }
        // The steps, done again by hand, give the plan.
        let mut rows = members(&clusters);
        for step in &repaired.steps {
            match step.action {
                Action::Merge { cluster, with } => {
                    let moved = std::mem::take(&mut rows[with]);
                    rows[cluster].extend(moved);
                    rows[cluster].sort_unstable();
                    rows[cluster].dedup();
                }
                Action::Cut { client, cluster } => rows[cluster].retain(|other| *other != client),
                Action::Withhold { cluster } | Action::Contained { cluster, .. } => rows[cluster].clear(),
            }
        }
        rows.retain(|row| !row.is_empty());
        prop_assert_eq!(rows, members(&repaired.clusters));
    }
}

#[test]
fn the_lonely_in_an_overlap_leave_it_together_where_that_costs_least() {
    // Clients 5 and 6 are in both; groups of three want company for them. They are nearer to the first five.
    let places = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 2.2, 2.2, 2.2, 2.2, 2.2];
    let divergences = line(&places);
    let clusters = plan(12, &[&[0, 1, 2, 3, 4, 5, 6], &[5, 6, 7, 8, 9, 10, 11]]);
    let orgs: Vec<u32> = (0..12).collect();
    let closeness = Some(Closeness {
        divergences: &divergences,
        tau: 1.3,
    });
    let rule = rule(2, 0);
    let repaired = repair(&Repair {
        alike: 3,
        ..wish(&clusters, &orgs, rule, closeness)
    });
    assert_eq!(
        members(&repaired.clusters),
        [(0..7).collect::<Vec<_>>(), (7..12).collect()],
        "{:?}",
        repaired.steps
    );
    let because = Reason::Alone {
        clients: vec![5, 6],
        least: 3,
    };
    assert_eq!(
        repaired
            .steps
            .iter()
            .map(|step| step.because.clone())
            .collect::<Vec<_>>(),
        [Some(because.clone()), Some(because)]
    );
    // Two pairs a client are parted by less than tau: 5 of 0.1 for each of the two.
    assert!((repaired.cost - 1.0).abs() < 1e-9, "{}", repaired.cost);
    assert!(repaired.left_out.is_empty());
    // Groups of two need nothing.
    assert!(
        repair(&Repair {
            alike: 2,
            ..wish(&clusters, &orgs, rule, closeness)
        })
        .steps
        .is_empty()
    );
}

#[test]
fn a_merge_is_not_forgotten_among_many_cheap_cuts() {
    // The difference of the first two sums covers sixty clients, each of which could leave one of its clusters for less than
    // the merge costs. None of that helps: the difference would cover fewer. More are on offer than are weighed.
    let places: Vec<f64> = (0..270)
        .map(|client| match client {
            0..70 => 0.0,
            70..100 => 0.6,
            100..130 => -0.6,
            130..200 => 1.4,
            _ => -1.4,
        })
        .collect();
    let divergences = line(&places);
    let first: Vec<usize> = (0..100).collect();
    let second: Vec<usize> = (0..70).chain(100..130).collect();
    let third: Vec<usize> = (70..100).chain(130..200).collect();
    let fourth: Vec<usize> = (100..130).chain(200..270).collect();
    let clusters = plan(270, &[&first, &second, &third, &fourth]);
    let orgs: Vec<u32> = (0..270).collect();
    let closeness = Some(Closeness {
        divergences: &divergences,
        tau: 1.0,
    });
    let repaired = mend(&clusters, &orgs, rule(61, 0), closeness);
    assert_eq!(
        repaired.steps[0].action,
        Action::Merge { cluster: 0, with: 1 },
        "{:?}",
        repaired.steps
    );
}

#[test]
fn too_many_clusters_are_merged_the_nearest_first() {
    // A hundred pairs on a line, each pair at one place.
    let places: Vec<f64> = (0..200_i32).map(|client| f64::from(client / 2).powi(2)).collect();
    let divergences = line(&places);
    let clusters = soft(&divergences, 0.5);
    assert_eq!(clusters.clusters(), 100);
    let orgs: Vec<u32> = (0..200).collect();
    let closeness = Some(Closeness {
        divergences: &divergences,
        tau: 0.5,
    });
    let repaired = mend(&clusters, &orgs, rule(2, 0), closeness);
    assert_eq!(repaired.clusters.clusters(), 64);
    assert!(repaired.left_out.is_empty() && repaired.verdict.is_safe());
    // The near end is merged, the far end stays as it was.
    assert_eq!(members(&repaired.clusters).last().unwrap(), &[198, 199]);
    assert!(matches!(
        repaired.steps[0].because,
        Some(Reason::TooMany {
            clusters: 100,
            most: 64
        })
    ));
    assert_eq!(repaired.steps[0].action, Action::Merge { cluster: 0, with: 1 });
}

#[test]
fn clusters_too_small_for_the_crowd_are_merged() {
    let clusters = plan(15, &[&[0, 1, 2, 3, 4, 5, 6, 7], &[7, 8, 9, 10, 11, 12, 13, 14]]);
    let places: Vec<f64> = (0..15).map(|i| if i < 8 { 0.0 } else { 5.0 }).collect();
    let divergences = line(&places);
    let orgs: Vec<u32> = (0..15).collect();
    // Each sum covers eight; at nine nothing but merging helps.
    let closeness = Some(Closeness {
        divergences: &divergences,
        tau: 1.0,
    });
    let merged = mend(&clusters, &orgs, rule(9, 0), closeness);
    assert_eq!(
        members(&merged.clusters),
        [(0..15).collect::<Vec<_>>()],
        "{:?}",
        merged.steps
    );
    assert_eq!(merged.origins, [vec![0, 1]]);
    // 7 x 7 pairs newly together, 5 apart, 4 above tau.
    assert!((merged.cost - 196.0).abs() < 1e-9, "{}", merged.cost);
    assert_eq!(merged.moved, 14);
    assert_eq!(
        merged.steps[0].to_string(),
        "clusters 0 and 1 are one, because exposed: sum[0] covers 8 client(s) where 9 are required: \
         clients [0, 1, 2, 3, 4, 5, 6, 7]; crowd 4.5 -> 15.0, cost 196.000"
    );
}

#[test]
fn a_second_membership_is_cut_where_that_is_cheaper_than_a_merge() {
    // Clusters 0 and 1 are 0 to 5 with 6 or with 7, so their difference shows 6 against 7. Both are at the edge of their
    // cluster and nearer to another: one leaving costs 6 x 0.1, one cluster of both would put 6 with 7 for 1.8.
    let clusters = plan(
        20,
        &[
            &[0, 1, 2, 3, 4, 5, 6],
            &[0, 1, 2, 3, 4, 5, 7],
            &[6, 8, 9, 10, 11, 12, 13],
            &[7, 14, 15, 16, 17, 18, 19],
        ],
    );
    let place = |client: i32| match client {
        0..6 => 0.0,
        6 => 1.9,
        7 => -1.9,
        8..14 => 5.0,
        _ => -5.0,
    };
    let divergences = line(&(0..20).map(place).collect::<Vec<_>>());
    let orgs: Vec<u32> = (0..20).collect();
    let closeness = |tau| {
        Some(Closeness {
            divergences: &divergences,
            tau,
        })
    };
    let cut = mend(&clusters, &orgs, rule(5, 0), closeness(2.0));
    assert_eq!(
        cut.steps[0].action,
        Action::Cut {
            client: 6,
            cluster: 0
        }
    );
    assert!((cut.cost - 0.6).abs() < 1e-9, "{}", cut.cost);
    assert_eq!(cut.origins, [[1], [2], [3]]);
    assert_eq!(cut.moved, 7);
    // The same where 6 and 7 are close enough: the merge costs less.
    let merged = mend(&clusters, &orgs, rule(5, 0), closeness(3.75));
    assert_eq!(merged.steps[0].action, Action::Merge { cluster: 0, with: 1 });
    assert!((merged.cost - 0.05).abs() < 1e-9, "{}", merged.cost);
}

#[test]
fn moves_that_are_not_allowed_are_not_made() {
    let clusters = plan(
        12,
        &[&[0, 1, 2, 3, 4, 5, 6], &[6, 7, 8, 9, 10, 11], &[0, 1, 2, 3, 4, 5]],
    );
    let orgs: Vec<u32> = (0..12).collect();
    let only = |moves: Moves| {
        let repaired = repair(&Repair {
            alike: 0,
            most: Plan::MOST_CLUSTERS,
            clusters: &clusters,
            orgs: &orgs,
            rule: rule(5, 0),
            closeness: None,
            moves,
        });
        assert!(repaired.verdict.is_safe());
        repaired
    };
    let none = Moves {
        merge: false,
        cut: false,
        withhold: false,
    };
    let merges = only(Moves { merge: true, ..none });
    assert!(
        merges
            .steps
            .iter()
            .all(|step| !matches!(step.action, Action::Cut { .. }))
    );
    let cuts = only(Moves { cut: true, ..none });
    assert!(
        cuts.steps
            .iter()
            .all(|step| !matches!(step.action, Action::Merge { .. }))
    );
    // Without any, the last resort is to withhold.
    let withheld = only(none);
    assert!(
        withheld
            .steps
            .iter()
            .all(|step| matches!(step.action, Action::Withhold { .. } | Action::Contained { .. }))
    );
}

#[test]
fn a_plan_that_cannot_be_saved_is_withheld_whole() {
    let clusters = plan(4, &[&[0, 1], &[2, 3]]);
    let repaired = mend(&clusters, &[0, 1, 2, 3], rule(5, 0), None);
    assert_eq!(repaired.clusters.clusters(), 0);
    assert_eq!(repaired.left_out, [0, 1, 2, 3]);
    assert!(repaired.verdict.is_safe());
    // Organisations that do not fit: undecided, and said so.
    let wrong = mend(&clusters, &[0], rule(2, 0), None);
    assert!(wrong.clusters.clusters() == 0 || !wrong.verdict.is_safe());
}

#[test]
fn typical_plans_keep_as_many_clusters_as_there_is_room_for() {
    // 41 clients, 8 random clusters, a fifth of the clients in two: published figures leave 4 or 5 for a crowd of 4.
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let below = |rng: &mut ChaCha20Rng, bound: u32| rng.next_u32() % bound;
    let orgs: Vec<u32> = (0..41).collect();
    let mut left = Vec::new();
    for _ in 0..12 {
        let mut lists = vec![Vec::new(); 8];
        for client in 0..41 {
            let first = below(&mut rng, 8);
            lists[first as usize].push(client);
            if below(&mut rng, 5) == 0 {
                lists[((first + 1 + below(&mut rng, 7)) % 8) as usize].push(client);
            }
        }
        let clusters = Membership::from_members(41, &lists).unwrap();
        let repaired = mend(&clusters, &orgs, rule(4, 0), None);
        assert!(check(&repaired.clusters, &orgs, &rule(4, 0)).is_safe() && repaired.left_out.is_empty());
        left.push(repaired.clusters.clusters());
    }
    left.sort_unstable();
    assert!(left[6] >= 4, "{left:?}");
}
