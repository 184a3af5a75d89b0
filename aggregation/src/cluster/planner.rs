//! From divergences to a plan in one step, as a server makes it between rounds and `plan make` makes it from files.

use super::{Closeness, Divergences, Membership, Moves, Repair, Repaired, Tau, Threshold, ThresholdError};
use super::{repair, soft};
use veilsum_attestation::disclosure::CrowdRule;
use veilsum_attestation::statement::{Plan, ThresholdRule};

/// A plan and how it came about.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The threshold.
    pub tau: Tau,
    /// The soft clusters at that threshold.
    pub wanted: Membership,
    /// What the disclosure rule leaves of them.
    pub repaired: Repaired,
}

/// What a plan must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// What every combination of sums must cover, with the margin for colluders and dropouts in it.
    pub rule: CrowdRule,
    /// Fewest clients in the same clusters, where the policy counts clients in groups (blocks); 0 where it does not.
    pub alike: u32,
}

/// Soft clusters at a threshold, repaired until `demand` is met. `orgs` names the organisation of each client.
///
/// # Errors
/// [`ThresholdError`] where the divergences give no threshold.
pub fn plan(
    divergences: &Divergences,
    threshold: Threshold,
    orgs: &[u32],
    demand: Demand,
) -> Result<Planned, ThresholdError> {
    let tau = threshold.choose(divergences)?;
    let wanted = soft(divergences, tau.tau);
    let repaired = repair(&Repair {
        clusters: &wanted,
        orgs,
        rule: demand.rule,
        alike: demand.alike,
        most: Plan::MOST_CLUSTERS,
        closeness: Some(Closeness {
            divergences,
            tau: tau.tau,
        }),
        moves: Moves::default(),
    });
    Ok(Planned {
        tau,
        wanted,
        repaired,
    })
}

impl From<ThresholdRule> for Threshold {
    #[expect(clippy::cast_precision_loss, reason = "millionths far below 2^52")]
    fn from(rule: ThresholdRule) -> Self {
        match rule {
            ThresholdRule::Overlap(micros) => Self::Overlap(f64::from(micros) / 1e6),
            ThresholdRule::Gap => Self::Gap,
            ThresholdRule::Fixed(micros) => Self::Fixed(micros as f64 / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_all_is_one_cluster_and_none_is_withheld_by_name() {
        // Six clients on a line, two organisations.
        let rows: Vec<Vec<f64>> = (0..6)
            .map(|i| (0..6).map(|j| f64::from((i - j) * (i - j))).collect())
            .collect();
        let divergences = Divergences::from_rows(&rows).unwrap();
        let orgs = [0, 1, 0, 1, 0, 1];
        let rule = CrowdRule {
            crowd: 3,
            crowd_orgs: 2,
        };
        let demand = Demand { rule, alike: 0 };
        let all = plan(
            &divergences,
            ThresholdRule::Overlap(1_000_000).into(),
            &orgs,
            demand,
        )
        .unwrap();
        assert_eq!(all.repaired.clusters.clusters(), 1);
        assert_eq!(all.repaired.clusters.size(0), 6);
        assert!(all.repaired.steps.is_empty() && all.repaired.verdict.is_safe());
        // Nobody close to anybody: six clusters of one, which no rule lets; what is left covers three clients or nobody.
        let none = plan(&divergences, ThresholdRule::Overlap(0).into(), &orgs, demand).unwrap();
        assert_eq!(none.wanted.clusters(), 6);
        assert!(none.repaired.verdict.is_safe());
        assert!(
            (0..none.repaired.clusters.clusters()).all(|cluster| none.repaired.clusters.size(cluster) >= 3)
        );
    }

    #[test]
    fn thresholds_of_a_policy_are_millionths() {
        assert_eq!(
            Threshold::from(ThresholdRule::Overlap(250_000)),
            Threshold::Overlap(0.25)
        );
        assert_eq!(
            Threshold::from(ThresholdRule::Fixed(3_500_000)),
            Threshold::Fixed(3.5)
        );
        assert_eq!(Threshold::from(ThresholdRule::Gap), Threshold::Gap);
    }
}
