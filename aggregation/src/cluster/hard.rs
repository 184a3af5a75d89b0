//! Disjoint clusters, to compare soft ones with.

use std::collections::BTreeMap;

use super::soft::matrix;
use super::{Divergences, Membership};

/// How far apart two clusters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// As far as their farthest members: every two members of a cluster are within tau, so it lies inside the ball of each
    /// of them. The fair counterpart of soft clusters at the same tau.
    Complete,
    /// As far as their members on average: fewer and looser clusters.
    Average,
}

/// Merges the two closest clusters for as long as they are within `tau`. Every client is in exactly one.
///
/// Listed by their first member. Where two pairs are equally close, the one with the lower numbers goes first; without
/// such ties the order of the clients does not matter. Single linkage is missing on purpose: it chains.
#[must_use]
pub fn hard(divergences: &Divergences, tau: f64, linkage: Linkage) -> Membership {
    let clients = divergences.clients();
    let mut distance: Vec<Vec<f64>> = (0..clients)
        .map(|i| (0..clients).map(|j| divergences.at(i, j)).collect())
        .collect();
    let mut members: Vec<Vec<usize>> = (0..clients).map(|client| vec![client]).collect();
    // The nearest later cluster of each, so that a step need not look at every pair.
    let mut nearest: Vec<Option<(f64, usize)>> = (0..clients)
        .map(|row| nearest_after(row, &distance, &members))
        .collect();
    loop {
        let mut closest: Option<(f64, usize, usize)> = None;
        for (row, found) in nearest.iter().enumerate() {
            if let Some((gap, other)) = found
                && closest.is_none_or(|(least, _, _)| *gap < least)
            {
                closest = Some((*gap, row, *other));
            }
        }
        let Some((_, stays, goes)) = closest.filter(|(gap, _, _)| *gap <= tau) else {
            break;
        };
        let joined: Vec<f64> = (0..clients)
            .map(|other| {
                let (a, b) = (cell(&distance, stays, other), cell(&distance, goes, other));
                match linkage {
                    Linkage::Complete => a.max(b),
                    Linkage::Average => {
                        let (m, n) = (size(&members, stays), size(&members, goes));
                        (a * m + b * n) / (m + n)
                    }
                }
            })
            .collect();
        let moved = members.get_mut(goes).map(std::mem::take).unwrap_or_default();
        if let Some(list) = members.get_mut(stays) {
            list.extend(moved);
        }
        for (other, value) in joined.into_iter().enumerate() {
            for (row, column) in [(stays, other), (other, stays)] {
                if let Some(cell) = distance.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = value;
                }
            }
        }
        if let Some(gone) = nearest.get_mut(goes) {
            *gone = None;
        }
        for row in 0..clients {
            let stale = nearest
                .get(row)
                .copied()
                .flatten()
                .is_some_and(|(_, other)| other == stays || other == goes);
            if stale || row == stays {
                let fresh = nearest_after(row, &distance, &members);
                if let Some(place) = nearest.get_mut(row) {
                    *place = fresh;
                }
            } else if row < stays
                && let Some(place) = nearest.get_mut(row)
                && let Some((gap, other)) = *place
            {
                // The joined cluster may be nearer than before only by average.
                let joined = cell(&distance, row, stays);
                if (joined, stays) < (gap, other) {
                    *place = Some((joined, stays));
                }
            }
        }
    }
    members.retain(|list| !list.is_empty());
    matrix(clients, &members)
}

/// One cluster per label, in the order of the labels: for ablations, where the domains are known.
#[must_use]
pub fn by_label<L: Ord>(labels: &[L]) -> Membership {
    let mut groups: BTreeMap<&L, Vec<usize>> = BTreeMap::new();
    for (client, label) in labels.iter().enumerate() {
        groups.entry(label).or_default().push(client);
    }
    matrix(labels.len(), &groups.into_values().collect::<Vec<_>>())
}

fn nearest_after(row: usize, distance: &[Vec<f64>], members: &[Vec<usize>]) -> Option<(f64, usize)> {
    if members.get(row).is_none_or(Vec::is_empty) {
        return None;
    }
    let mut nearest: Option<(f64, usize)> = None;
    for (other, list) in members.iter().enumerate().skip(row + 1) {
        let gap = cell(distance, row, other);
        if !list.is_empty() && nearest.is_none_or(|(least, _)| gap < least) {
            nearest = Some((gap, other));
        }
    }
    nearest
}

fn cell(distance: &[Vec<f64>], row: usize, column: usize) -> f64 {
    distance
        .get(row)
        .and_then(|row| row.get(column))
        .copied()
        .unwrap_or(f64::INFINITY)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of clients are far below 2^52")]
fn size(members: &[Vec<usize>], row: usize) -> f64 {
    members.get(row).map_or(0, Vec::len) as f64
}
