//! `plan`: who is in which cluster this round, and which model each cluster starts from. Signed by the server.

use super::{ClientSet, Kind, Statement};
use crate::log::Head;
use serde::{Deserialize, Serialize};
use veilsum_crypto::label::Label;
use veilsum_crypto::{Attempt, BoundedVec, ClientId, ClusterId, Digest, PlanContext, RoundId, SuiteId, Wire};

/// One round's plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Round.
    pub round: RoundId,
    /// Attempt at it.
    pub attempt: Attempt,
    /// Leaf hash of the policy.
    pub policy: Digest,
    /// The log when the plan was made.
    pub head: Head,
    /// The clusters; a cluster's number is its place in this list.
    pub clusters: BoundedVec<ClusterPlan, { Plan::MOST_CLUSTERS }>,
    /// Seed of the neighbour graph. The complete graph ignores it.
    pub graph_seed: [u8; 32],
}

/// One cluster of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// Digest of the model the cluster starts from.
    pub model: Digest,
    /// Its members.
    pub members: ClientSet,
}

impl Plan {
    /// Most clusters of a plan.
    pub const MOST_CLUSTERS: usize = 64;

    /// The clusters `client` is in, ascending, with their models.
    pub fn clusters_of(&self, client: ClientId) -> impl Iterator<Item = (ClusterId, &ClusterPlan)> {
        self.numbered()
            .filter(move |(_, cluster)| cluster.members.contains(&client))
    }

    /// All clusters with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (ClusterId, &ClusterPlan)> {
        (0u16..).map(ClusterId).zip(self.clusters.iter())
    }

    /// A cluster by number.
    #[must_use]
    pub fn cluster(&self, id: ClusterId) -> Option<&ClusterPlan> {
        self.clusters.get(usize::from(id.0))
    }

    /// Names who is in which cluster, whatever the models: plans of one clustering have the same.
    #[must_use]
    pub fn grouping(&self) -> Digest {
        let mut bytes = Vec::new();
        for cluster in &self.clusters {
            bytes.extend_from_slice(
                &u64::try_from(cluster.members.len())
                    .unwrap_or(u64::MAX)
                    .to_le_bytes(),
            );
            for client in cluster.members.iter() {
                bytes.extend_from_slice(&client.0.to_le_bytes());
            }
        }
        GROUPING.hash(&[&bytes])
    }

    /// Every client in at least one cluster.
    #[must_use]
    pub fn invited(&self) -> ClientSet {
        self.clusters
            .iter()
            .flat_map(|cluster| cluster.members.iter().copied())
            .collect()
    }

    /// What derivations of this plan are bound to. `leaf` is the leaf hash of the plan's entry.
    #[must_use]
    pub fn context(&self, suite: SuiteId, federation: Digest, leaf: Digest) -> PlanContext {
        PlanContext {
            suite,
            federation,
            round: self.round,
            attempt: self.attempt,
            policy: self.policy,
            plan: leaf,
        }
    }
}

impl Wire for Plan {
    const KIND: &'static str = "plan";
    const MAX_LEN: usize = super::MAX_BODY;
}

impl Statement for Plan {
    const ENTRY_KIND: Kind = Kind::Plan;
}

const GROUPING: Label = Label::new("grouping");
