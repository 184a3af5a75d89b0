//! Clients of a kind: those of exactly the same clusters. No combination of cluster sums tells them apart, and groups that
//! are counted together are formed among them.

use super::Membership;
use std::collections::BTreeMap;

/// Clients by the clusters they are in, without those in none.
pub(super) fn kinds(matrix: &Membership) -> BTreeMap<Vec<usize>, Vec<usize>> {
    let mut kinds: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for client in 0..matrix.clients() {
        let clusters: Vec<usize> = (0..matrix.clusters())
            .filter(|cluster| matrix.contains(*cluster, client))
            .collect();
        if !clusters.is_empty() {
            kinds.entry(clusters).or_default().push(client);
        }
    }
    kinds
}

/// The clients that are fewer of their kind than `least`, ascending; of several kinds the smallest.
#[must_use]
pub fn too_few_alike(matrix: &Membership, least: u32) -> Option<Vec<usize>> {
    smallest(matrix, least).map(|(_, clients)| clients)
}

/// See [`too_few_alike`], with the clusters they are in.
pub(super) fn smallest(matrix: &Membership, least: u32) -> Option<(Vec<usize>, Vec<usize>)> {
    kinds(matrix)
        .into_iter()
        .filter(|(_, clients)| clients.len() < least as usize)
        .min_by(|a, b| (a.1.len(), &a.1).cmp(&(b.1.len(), &b.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_kind_is_named() {
        // 0 and 1 in the first alone, 2 in both, 3 to 5 in the second alone, 6 in none.
        let matrix = Membership::from_members(7, &[vec![0, 1, 2], vec![2, 3, 4, 5]]).unwrap();
        assert_eq!(too_few_alike(&matrix, 1), None);
        assert_eq!(too_few_alike(&matrix, 2), Some(vec![2]));
        assert_eq!(smallest(&matrix, 3), Some((vec![0, 1], vec![2])));
        let without = Membership::from_members(7, &[vec![0, 1], vec![3, 4, 5]]).unwrap();
        assert_eq!(too_few_alike(&without, 3), Some(vec![0, 1]));
        assert_eq!(kinds(&without).len(), 2);
    }
}
