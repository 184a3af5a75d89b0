//! What must hold of clusters whatever the descriptors are.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "test helpers index what they built; shares of whole counts are exact"
)]

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use proptest::prelude::*;
use veilsum_aggregation::cluster::*;

/// Descriptors of up to 14 clients with 3 channels, on a coarse grid so that equal clients and ties occur.
fn descriptors() -> impl Strategy<Value = Vec<Gaussian>> {
    let client = (prop::array::uniform3(-3_i8..4), prop::array::uniform3(1_u8..4));
    prop::collection::vec(client, 1..15).prop_map(|clients| {
        let gaussian = |(mean, variance): ([i8; 3], [u8; 3])| {
            Gaussian::new(
                mean.iter().copied().map(f64::from).collect(),
                variance.iter().copied().map(f64::from).collect(),
            )
        };
        clients
            .into_iter()
            .map(|client| gaussian(client).unwrap())
            .collect()
    })
}

/// The same without ties.
fn generic() -> impl Strategy<Value = Vec<Gaussian>> {
    let client = (prop::array::uniform3(-3.0..3.0), prop::array::uniform3(0.1..4.0));
    prop::collection::vec(client, 1..15).prop_map(|clients| {
        let gaussian =
            |(mean, variance): ([f64; 3], [f64; 3])| Gaussian::new(mean.to_vec(), variance.to_vec());
        clients
            .into_iter()
            .map(|client| gaussian(client).unwrap())
            .collect()
    })
}

fn matrix(clients: &[Gaussian]) -> Divergences {
    Divergences::jeffreys(clients, NonZeroUsize::MIN).unwrap()
}

/// The clusters as sets of names.
fn sets(clusters: &Membership, name: impl Fn(usize) -> usize) -> BTreeSet<BTreeSet<usize>> {
    (0..clusters.clusters())
        .map(|cluster| clusters.members(cluster).map(&name).collect())
        .collect()
}

proptest! {
    #[test]
    fn everybody_is_in_and_nothing_is_inside_another(clients in descriptors(), share in 0.0..1.0_f64) {
        let divergences = matrix(&clients);
        let tau = Threshold::Overlap(share).choose(&divergences).unwrap();
        let clusters = soft(&divergences, tau.tau);
        for client in 0..clients.len() {
            prop_assert!((0..clusters.clusters()).any(|cluster| clusters.contains(cluster, client)));
        }
        let list: Vec<BTreeSet<usize>> =
            (0..clusters.clusters()).map(|cluster| clusters.members(cluster).collect()).collect();
        for (i, one) in list.iter().enumerate() {
            for (j, other) in list.iter().enumerate() {
                prop_assert!(i == j || !one.is_subset(other), "{one:?} within {other:?}");
            }
        }
        // Every cluster is some client's ball, every ball is within some cluster, and so every close pair is together.
        let balls = balls(&divergences, tau.tau);
        let (kept, all) = (sets(&clusters, |c| c), sets(&balls, |c| c));
        prop_assert!(kept.is_subset(&all));
        prop_assert!(all.iter().all(|ball| kept.iter().any(|cluster| ball.is_subset(cluster))));
        prop_assert!(clients.len() == 1 || sharing(&clusters) >= tau.overlap);
    }

    #[test]
    fn the_order_of_clients_does_not_matter(
        (clients, order) in descriptors().prop_flat_map(|clients| {
            let order: Vec<usize> = (0..clients.len()).collect();
            (Just(clients), Just(order).prop_shuffle())
        }),
        share in 0.0..1.0_f64,
    ) {
        let moved: Vec<Gaussian> = order.iter().map(|client| clients[*client].clone()).collect();
        let (one, two) = (matrix(&clients), matrix(&moved));
        for rule in [Threshold::Overlap(share), Threshold::Gap, Threshold::Fixed(5.0 * share)] {
            let (Ok(first), Ok(second)) = (rule.choose(&one), rule.choose(&two)) else {
                prop_assert_eq!(rule.choose(&one), rule.choose(&two));
                continue;
            };
            prop_assert_eq!(first, second);
            prop_assert_eq!(
                sets(&soft(&one, first.tau), |client| client),
                sets(&soft(&two, first.tau), |client| order[client])
            );
        }
    }

    #[test]
    fn the_ends_are_one_cluster_and_one_each(clients in descriptors()) {
        let divergences = matrix(&clients);
        let n = clients.len();
        let all = Threshold::Overlap(1.0).choose(&divergences).unwrap();
        let one = soft(&divergences, all.tau);
        prop_assert_eq!((one.clusters(), one.size(0)), (1, n));
        prop_assert_eq!(sharing(&one), if n > 1 { 1.0 } else { 0.0 });
        let none = Threshold::Overlap(0.0).choose(&divergences).unwrap();
        let single = soft(&divergences, none.tau);
        prop_assert_eq!(single.clusters(), n);
        prop_assert_eq!(multi_membership(&single), 0.0);
        for linkage in [Linkage::Complete, Linkage::Average] {
            prop_assert_eq!(hard(&divergences, all.tau, linkage).clusters(), 1);
            prop_assert_eq!(hard(&divergences, none.tau, linkage).clusters(), n);
        }
    }

    #[test]
    fn hard_clusters_part_the_clients_as_the_plain_procedure_does(clients in generic(), share in 0.0..1.0_f64) {
        let divergences = matrix(&clients);
        let tau = Threshold::Overlap(share).choose(&divergences).unwrap().tau;
        for linkage in [Linkage::Complete, Linkage::Average] {
            let clusters = hard(&divergences, tau, linkage);
            let mut members: Vec<usize> =
                (0..clusters.clusters()).flat_map(|cluster| clusters.members(cluster)).collect();
            members.sort_unstable();
            prop_assert_eq!(members, (0..clients.len()).collect::<Vec<_>>());
            prop_assert_eq!(multi_membership(&clusters), 0.0);
            prop_assert_eq!(sets(&clusters, |c| c), plain_hard(&divergences, tau, linkage));
        }
        // Complete: inside the ball of each member.
        let clusters = hard(&divergences, tau, Linkage::Complete);
        for cluster in 0..clusters.clusters() {
            for one in clusters.members(cluster) {
                prop_assert!(clusters.members(cluster).all(|other| divergences.at(one, other) <= tau || one == other));
            }
        }
    }
}

/// Looks at every pair of clusters in every step, and at every pair of members.
fn plain_hard(divergences: &Divergences, tau: f64, linkage: Linkage) -> BTreeSet<BTreeSet<usize>> {
    let mut clusters: Vec<Vec<usize>> = (0..divergences.clients()).map(|client| vec![client]).collect();
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for i in 0..clusters.len() {
            for j in i + 1..clusters.len() {
                let pairs = clusters[i]
                    .iter()
                    .flat_map(|a| clusters[j].iter().map(|b| divergences.at(*a, *b)));
                let gap = match linkage {
                    Linkage::Complete => pairs.fold(0.0, f64::max),
                    Linkage::Average => {
                        let count = clusters[i].len() * clusters[j].len();
                        pairs.sum::<f64>() / f64::from(u32::try_from(count).unwrap())
                    }
                };
                if best.is_none_or(|(least, _, _)| gap < least) {
                    best = Some((gap, i, j));
                }
            }
        }
        match best {
            Some((gap, i, j)) if gap <= tau => {
                let moved = clusters.remove(j);
                clusters[i].extend(moved);
            }
            _ => {
                return clusters
                    .into_iter()
                    .map(|list| list.into_iter().collect())
                    .collect();
            }
        }
    }
}

#[test]
fn equal_clients_make_one_cluster_not_two() {
    // 0 and 1 are equal, so their balls are equal: the strict-subset rule alone would keep both.
    let rows = [[0.0, 0.0, 9.0], [0.0, 0.0, 9.0], [9.0, 9.0, 0.0]].map(Vec::from);
    let divergences = Divergences::from_rows(&rows).unwrap();
    let clusters = soft(&divergences, 1.0);
    assert_eq!(
        sets(&clusters, |c| c),
        [[0, 1].into(), [2].into()].into_iter().collect()
    );
    assert_eq!(balls(&divergences, 1.0).clusters(), 3);
}

#[test]
fn a_chain_overlaps() {
    // Clients at 0, 1, 2, 3, each next to the next: the end balls lie inside the inner ones.
    let rows: Vec<Vec<f64>> = (0..4_i32)
        .map(|i| (0..4_i32).map(|j| f64::from((i - j).abs())).collect())
        .collect();
    let divergences = Divergences::from_rows(&rows).unwrap();
    let clusters = soft(&divergences, 1.0);
    assert_eq!(
        sets(&clusters, |c| c),
        [[0, 1, 2].into(), [1, 2, 3].into()].into_iter().collect()
    );
    assert_eq!(multi_membership(&clusters), 0.5);
    assert!((sharing(&clusters) - 5.0 / 6.0).abs() < 1e-15);
    // Hard: the chain breaks in the middle.
    let parted = hard(&divergences, 1.0, Linkage::Complete);
    assert_eq!(
        sets(&parted, |c| c),
        [[0, 1].into(), [2, 3].into()].into_iter().collect()
    );
}

#[test]
fn labels_give_their_groups() {
    let clusters = by_label(&["night", "day", "night", "forest"]);
    let members: Vec<Vec<usize>> = (0..3)
        .map(|cluster| clusters.members(cluster).collect())
        .collect();
    assert_eq!(members, [vec![1], vec![3], vec![0, 2]]);
    assert_eq!(by_label::<u8>(&[]).clusters(), 0);
}
