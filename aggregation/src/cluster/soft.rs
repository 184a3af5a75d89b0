//! Overlapping clusters: a ball around every client, and no ball inside another.

use std::collections::BTreeSet;

use super::{Divergences, Membership};
use crate::cluster::threshold::ratio;

/// One cluster per client: those within `tau` of it, itself always included. Row `i` is the ball around client `i`.
#[must_use]
pub fn balls(divergences: &Divergences, tau: f64) -> Membership {
    let clients = divergences.clients();
    let members: Vec<Vec<usize>> = (0..clients)
        .map(|centre| {
            (0..clients)
                .filter(|other| *other == centre || divergences.at(centre, *other) <= tau)
                .collect()
        })
        .collect();
    matrix(clients, &members)
}

/// The clusters of FeDepth: [`balls`], of which those inside another and repeated ones are dropped.
///
/// Every client is in at least one; no cluster lies inside another; the clusters are the same sets for every order of the
/// clients. Listed by their members, so that equal sets give equal matrices.
#[must_use]
pub fn soft(divergences: &Divergences, tau: f64) -> Membership {
    drop_contained(&balls(divergences, tau))
}

/// The clusters that are in no other, each once, listed by their members. Empty ones go.
///
/// Equal clusters must go too, not only strict subsets: a client's mean over its clusters would count them twice.
#[must_use]
pub fn drop_contained(clusters: &Membership) -> Membership {
    let mut rows: Vec<usize> = (0..clusters.clusters())
        .filter(|cluster| clusters.size(*cluster) > 0)
        .collect();
    rows.sort_by_key(|cluster| std::cmp::Reverse(clusters.size(*cluster)));
    let mut kept: Vec<usize> = Vec::new();
    for row in rows {
        let inside = |other: &usize| is_subset(clusters.bitset(row), clusters.bitset(*other));
        if !kept.iter().any(inside) {
            kept.push(row);
        }
    }
    let sets: BTreeSet<Vec<usize>> = kept
        .into_iter()
        .map(|cluster| clusters.members(cluster).collect())
        .collect();
    matrix(clusters.clients(), &sets.into_iter().collect::<Vec<_>>())
}

/// The share of clients that are in more than one cluster, from 0 to 1.
#[must_use]
pub fn multi_membership(clusters: &Membership) -> f64 {
    let mut counts = vec![0_usize; clusters.clients()];
    for cluster in 0..clusters.clusters() {
        for client in clusters.members(cluster) {
            if let Some(count) = counts.get_mut(client) {
                *count += 1;
            }
        }
    }
    ratio(counts.iter().filter(|count| **count > 1).count(), counts.len())
}

/// The share of pairs of clients that are together in some cluster, from 0 to 1.
#[must_use]
pub fn sharing(clusters: &Membership) -> f64 {
    let clients = clusters.clients();
    let together = (0..clients).map(|one| companions(clusters, one).filter(|other| *other > one).count());
    ratio(together.sum(), clients * clients.saturating_sub(1) / 2)
}

/// Who shares a cluster with a client, itself included, ascending.
pub(super) fn companions(clusters: &Membership, client: usize) -> impl Iterator<Item = usize> {
    let mut union = vec![0_u64; clusters.clients().div_ceil(64)];
    for cluster in (0..clusters.clusters()).filter(|cluster| clusters.contains(*cluster, client)) {
        for (word, more) in union.iter_mut().zip(clusters.bitset(cluster)) {
            *word |= more;
        }
    }
    (0..clusters.clients()).filter(move |other| {
        union
            .get(other / 64)
            .is_some_and(|word| word >> (other % 64) & 1 == 1)
    })
}

fn is_subset(row: &[u64], other: &[u64]) -> bool {
    row.iter().zip(other).all(|(row, other)| row & !other == 0)
}

/// A membership whose members are known to exist.
pub(super) fn matrix(clients: usize, members: &[Vec<usize>]) -> Membership {
    #[expect(clippy::expect_used, reason = "every caller numbers clients below `clients`")]
    Membership::from_members(clients, members).expect("members are below the number of clients")
}
