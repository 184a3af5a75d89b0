//! Which models serve a sequence that belongs to no client.

use super::Membership;

/// See [`route`].
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The clusters whose models to average, ascending; empty only without clusters.
    pub clusters: Vec<usize>,
    /// Whether they are near enough; if not, it is the nearest one.
    pub within: bool,
    /// The mean divergence to each cluster's members; infinite for one without.
    pub means: Vec<f64>,
}

/// The clusters whose models an unseen sequence should average: those whose members are on average within `tau` of it,
/// or, if there is none, the nearest.
///
/// `distances` holds its divergence to every client. A cluster reaches up to twice tau across, so even a client of it may
/// be farther than tau on average; that is what the nearest one is for. Ties: the lowest number.
#[must_use]
pub fn route(distances: &[f64], clusters: &Membership, tau: f64) -> Route {
    let mean = |cluster: usize| {
        let (total, count) = clusters.members(cluster).fold((0.0, 0.0), |(sum, n), client| {
            let distance = distances.get(client).copied().unwrap_or(f64::INFINITY);
            (sum + distance, n + 1.0)
        });
        if count > 0.0 { total / count } else { f64::INFINITY }
    };
    let means: Vec<f64> = (0..clusters.clusters()).map(mean).collect();
    let of = |which: &dyn Fn(usize, f64) -> bool| -> Vec<usize> {
        let all = means.iter().enumerate();
        all.filter(|(cluster, mean)| clusters.size(*cluster) > 0 && which(*cluster, **mean))
            .map(|(cluster, _)| cluster)
            .collect()
    };
    let near = of(&|_, mean| mean <= tau);
    let within = !near.is_empty();
    let clusters = if within {
        near
    } else {
        let least = means.iter().copied().fold(f64::INFINITY, f64::min);
        of(&|_, mean| mean <= least).into_iter().take(1).collect()
    };
    Route {
        clusters,
        within,
        means,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_the_mean_over_members_and_else_the_nearest() {
        let clusters = Membership::from_members(5, &[vec![0, 1], vec![1, 2, 3], vec![], vec![4]]).unwrap();
        let to = |distances: &[f64], tau| route(distances, &clusters, tau).clusters;
        // Means 3, 4, –, 9.
        let distances = [2.0, 4.0, 1.0, 7.0, 9.0];
        assert_eq!(to(&distances, 4.0), [0, 1]);
        assert_eq!(to(&distances, 3.9), [0]);
        assert_eq!(to(&distances, 100.0), [0, 1, 3]);
        // Nothing within: the nearest; of two equally near the first.
        assert_eq!(to(&distances, 1.0), [0]);
        assert_eq!(to(&[5.0; 5], 1.0), [0]);
        let far = route(&distances, &clusters, 1.0);
        assert_eq!(
            (far.within, far.means),
            (false, vec![3.0, 4.0, f64::INFINITY, 9.0])
        );
        assert!(route(&distances, &clusters, 4.0).within);
        assert!(
            route(&[], &Membership::from_members(0, &[]).unwrap(), 1.0)
                .clusters
                .is_empty()
        );
    }
}
