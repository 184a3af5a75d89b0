//! The one thing a server does with updates: a weighted mean for each cluster.

use super::ExperimentError;
use veilsum_aggregation::cluster::Membership;

/// What one client hands in.
#[derive(Clone, PartialEq)]
pub struct Update {
    /// The numbers, such as the weights it trained: not yet differences.
    pub values: Vec<f32>,
    /// Its weight in every mean, at least 1.
    pub weight: u32,
}

impl std::fmt::Debug for Update {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Update({} numbers, weight {})", self.values.len(), self.weight)
    }
}

/// Makes the means.
pub trait Averaging {
    /// For each cluster the mean over its members that handed something in, or `None` where that is nobody.
    ///
    /// `bases` holds what each cluster starts from, as long as the updates; `updates` one entry a client.
    ///
    /// # Errors
    /// [`ExperimentError`]: a round that came to no sum, or numbers that it cannot carry.
    fn average(
        &mut self,
        clusters: &Membership,
        bases: &[Vec<f32>],
        updates: &[Option<Update>],
    ) -> Result<Vec<Option<Vec<f32>>>, ExperimentError>;
}

/// Σ n·w / Σ n in the order of the clients, in `f64`, rounded once.
///
/// The mean of one is that one bit for bit: the product of a 24-bit number and a weight is exact in `f64`, and so is its
/// quotient.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Averaging for Plain {
    fn average(
        &mut self,
        clusters: &Membership,
        _bases: &[Vec<f32>],
        updates: &[Option<Update>],
    ) -> Result<Vec<Option<Vec<f32>>>, ExperimentError> {
        Ok((0..clusters.clusters())
            .map(|cluster| {
                let members = clusters.members(cluster);
                mean(members.filter_map(|client| updates.get(client).and_then(Option::as_ref)))
            })
            .collect())
    }
}

fn mean<'a>(updates: impl Iterator<Item = &'a Update>) -> Option<Vec<f32>> {
    let mut sums: Vec<f64> = Vec::new();
    let mut total = 0.0;
    for update in updates {
        sums.resize(update.values.len(), 0.0);
        let weight = f64::from(update.weight);
        for (sum, value) in sums.iter_mut().zip(&update.values) {
            *sum += weight * f64::from(*value);
        }
        total += weight;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a model is f32")]
    let narrow = |sum: f64| (sum / total) as f32;
    (total > 0.0).then(|| sums.into_iter().map(narrow).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(values: &[f32], weight: u32) -> Update {
        Update {
            values: values.to_vec(),
            weight,
        }
    }

    #[test]
    fn weighted_by_cluster_and_without_those_who_are_away() {
        let clusters = Membership::from_members(4, &[vec![0, 1, 3], vec![1], vec![2]]).unwrap();
        let updates = [
            Some(update(&[1.0, 0.0], 1)),
            Some(update(&[5.0, 8.0], 3)),
            None,
            None,
        ];
        let means = Plain.average(&clusters, &[], &updates).unwrap();
        assert_eq!(means, [Some(vec![4.0, 6.0]), Some(vec![5.0, 8.0]), None]);
    }

    #[test]
    fn the_mean_of_one_is_itself_bit_for_bit() {
        let clusters = Membership::from_members(1, &[vec![0]]).unwrap();
        for (value, weight) in [
            (0.1_f32, 3),
            (-1.0e-38, 7),
            (3.402e38, 11),
            (f32::MIN_POSITIVE, 1_000_003),
        ] {
            let means = Plain
                .average(&clusters, &[], &[Some(update(&[value], weight))])
                .unwrap();
            assert_eq!(means[0].as_ref().unwrap()[0].to_bits(), value.to_bits());
        }
    }
}
