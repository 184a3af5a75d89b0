//! The JSON of a plan, `veilsum-plan/1`. A plan from elsewhere needs `matrix` alone.

use serde::{Deserialize, Serialize};
use veilsum_aggregation::cluster::{Action, Membership, Step};

use super::check::Names;
use super::explain::name;

/// Everything about a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) clients: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) organisations: Option<Vec<String>>,
    /// `matrix[cluster][client]`.
    pub(super) matrix: Vec<Vec<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) made: Option<Made>,
}

/// How `veilsum plan make` came to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Made {
    /// The rule, in words: `overlap 0.2`, `gap`, `tau 3`.
    pub(super) threshold: String,
    /// Pairs up to this divergence are close.
    pub(super) tau: f64,
    /// Share of pairs that are.
    pub(super) overlap: f64,
    pub(super) crowd: u32,
    pub(super) orgs: u32,
    pub(super) margin: u32,
    /// The clusters before the repair.
    pub(super) wanted: Vec<Vec<u64>>,
    /// What the repair did, in order. Clusters have the numbers of `wanted`; a merged one keeps the lower.
    pub(super) steps: Vec<StepRecord>,
    /// The clusters of `wanted` that each final one is made of.
    pub(super) origins: Vec<Vec<usize>>,
    /// What the repair cost, in the unit of the divergences.
    pub(super) cost: f64,
    /// `divergences[client][client]`.
    pub(super) divergences: Vec<Vec<f64>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StepRecord {
    #[serde(flatten)]
    pub(super) action: ActionRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) because: Option<String>,
    pub(super) crowd_before: f64,
    pub(super) crowd_after: f64,
    pub(super) cost: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub(super) enum ActionRecord {
    Merge { cluster: usize, with: usize },
    Cut { client: usize, cluster: usize },
    Withhold { cluster: usize },
    Contained { cluster: usize, within: usize },
}

impl StepRecord {
    pub(super) fn new(step: &Step, names: Names<'_>) -> Self {
        let action = match step.action {
            Action::Merge { cluster, with } => ActionRecord::Merge { cluster, with },
            Action::Cut { client, cluster } => ActionRecord::Cut { client, cluster },
            Action::Withhold { cluster } => ActionRecord::Withhold { cluster },
            Action::Contained { cluster, within } => ActionRecord::Contained { cluster, within },
        };
        Self {
            action,
            because: step.because.as_ref().map(|reason| names.reason(reason)),
            crowd_before: finite(step.crowd.0),
            crowd_after: finite(step.crowd.1),
            cost: step.cost,
        }
    }
}

impl StepRecord {
    /// The step in words.
    pub(super) fn tell(&self, names: &[String]) -> String {
        let action = self.action.tell(names);
        match &self.because {
            Some(why) => format!(
                "{action}, because {why}; crowd {:.1} -> {:.1}, cost {:.3}",
                self.crowd_before, self.crowd_after, self.cost
            ),
            None => action,
        }
    }
}

impl ActionRecord {
    /// The action in words.
    pub(super) fn tell(self, names: &[String]) -> String {
        match self {
            Self::Merge { cluster, with } => format!("clusters {cluster} and {with} became one"),
            Self::Cut { client, cluster } => format!("{} left cluster {cluster}", name(names, client)),
            Self::Withhold { cluster } => format!("cluster {cluster} was withheld"),
            Self::Contained { cluster, within } => {
                format!("cluster {cluster} was dropped, for it lay inside cluster {within}")
            }
        }
    }
}

/// JSON has no infinity: the crowd of no sums is written as 0.
pub(super) fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Rows of 0 and 1.
pub(super) fn rows(matrix: &Membership) -> Vec<Vec<u64>> {
    (0..matrix.clusters())
        .map(|cluster| {
            (0..matrix.clients())
                .map(|client| u64::from(matrix.contains(cluster, client)))
                .collect()
        })
        .collect()
}

pub(super) const SCHEMA: &str = "veilsum-plan/1";
