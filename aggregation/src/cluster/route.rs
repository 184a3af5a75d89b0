//! Which models serve a sequence that belongs to no client.

use super::Membership;

/// The clusters whose models an unseen sequence should average: those whose members are on average within `tau` of it,
/// or, if there is none, the nearest. Ascending; empty only without clusters.
///
/// `distances` holds its divergence to every client. A cluster reaches up to twice tau across, so even a client of it may
/// be farther than tau on average; that is what the nearest one is for. Ties: the lowest number.
#[must_use]
pub fn route(distances: &[f64], clusters: &Membership, tau: f64) -> Vec<usize> {
    let mut within = Vec::new();
    let mut nearest: Option<(f64, usize)> = None;
    for cluster in (0..clusters.clusters()).filter(|cluster| clusters.size(*cluster) > 0) {
        let total: f64 = clusters
            .members(cluster)
            .map(|client| distances.get(client).copied().unwrap_or(f64::INFINITY))
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "numbers of clients are far below 2^52")]
        let mean = total / clusters.size(cluster) as f64;
        if mean <= tau {
            within.push(cluster);
        }
        if nearest.is_none_or(|(least, _)| mean < least) {
            nearest = Some((mean, cluster));
        }
    }
    if within.is_empty() {
        within.extend(nearest.map(|(_, cluster)| cluster));
    }
    within
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_the_mean_over_members_and_else_the_nearest() {
        let clusters = Membership::from_members(5, &[vec![0, 1], vec![1, 2, 3], vec![], vec![4]]).unwrap();
        // Means 3, 4, –, 9.
        let distances = [2.0, 4.0, 1.0, 7.0, 9.0];
        assert_eq!(route(&distances, &clusters, 4.0), [0, 1]);
        assert_eq!(route(&distances, &clusters, 3.9), [0]);
        assert_eq!(route(&distances, &clusters, 100.0), [0, 1, 3]);
        // Nothing within: the nearest; of two equally near the first.
        assert_eq!(route(&distances, &clusters, 1.0), [0]);
        assert_eq!(route(&[5.0; 5], &clusters, 1.0), [0]);
        assert!(route(&[], &Membership::from_members(0, &[]).unwrap(), 1.0).is_empty());
    }
}
