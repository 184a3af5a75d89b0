//! The disclosure rule applied to a plan: by the server when it plans, by every client before masking and again before
//! revealing, and by the auditor.

use crate::block::blocks;
use crate::disclosure::{self, CrowdRule, Membership, MembershipError, Verdict};
use crate::statement::{ClientSet, KeyBook, Plan, Policy};
use std::collections::BTreeMap;
use veilsum_crypto::{ClientId, ClusterId};

/// Whether every combination of the plan's cluster sums covers enough clients and organisations, with the policy's
/// colluders and dropouts taken away: `crowd + m + s` clients.
///
/// # Errors
/// [`PlanLeak`] with the smallest exposed combination that was found.
pub fn check_plan(plan: &Plan, book: &KeyBook, policy: &Policy) -> Result<(), PlanLeak> {
    let everyone = plan.invited();
    if policy.blocks > 0
        && let Some(small) = blocks(plan, policy.blocks)
            .into_iter()
            .find(|block| block.len() < policy.blocks as usize)
    {
        return Err(PlanLeak::SmallBlock(small));
    }
    let view = View::new(plan, &everyone, book)?;
    match disclosure::check(&view.matrix, &view.orgs, &planning_rule(policy)) {
        Verdict::Safe(_) => Ok(()),
        Verdict::Exposed(exposure) => Err(PlanLeak::Exposed(view.clients(&exposure.clients))),
        Verdict::Undecided(_) => Err(PlanLeak::Undecided),
    }
}

/// What a plan must keep to: the crowd, with the policy's colluders and dropouts taken away.
#[must_use]
pub fn planning_rule(policy: &Policy) -> CrowdRule {
    let margin = policy.colluders.saturating_add(policy.lost_to_dropouts());
    CrowdRule {
        crowd: policy.crowd.saturating_add(margin),
        crowd_orgs: policy.crowd_orgs,
    }
}

/// The clusters whose sums may be opened on `survivors`: `crowd + m` clients must be left in every combination. Ascending;
/// empty when none may.
///
/// # Errors
/// [`PlanLeak`] when the plan is no membership matrix.
pub fn release_for(
    plan: &Plan,
    survivors: &ClientSet,
    book: &KeyBook,
    policy: &Policy,
) -> Result<Vec<ClusterId>, PlanLeak> {
    let view = View::new(plan, survivors, book)?;
    let rule = CrowdRule {
        crowd: policy.crowd.saturating_add(policy.colluders),
        crowd_orgs: policy.crowd_orgs,
    };
    let release = disclosure::release_set(&view.matrix, &view.orgs, &rule, rule.crowd);
    Ok(release
        .released
        .into_iter()
        .filter_map(|cluster| u16::try_from(cluster).ok().map(ClusterId))
        .collect())
}

/// A plan's matrix over some of its clients, with each column's organisation.
struct View {
    matrix: Membership,
    orgs: Vec<u32>,
    columns: Vec<ClientId>,
}

impl View {
    fn new(plan: &Plan, clients: &ClientSet, book: &KeyBook) -> Result<Self, PlanLeak> {
        let columns: Vec<ClientId> = clients.iter().copied().collect();
        let place: BTreeMap<ClientId, usize> = columns
            .iter()
            .enumerate()
            .map(|(column, client)| (*client, column))
            .collect();
        let orgs = columns
            .iter()
            .map(|client| {
                book.members()
                    .get(client)
                    .map(|member| member.org.0)
                    .ok_or(PlanLeak::Stranger(*client))
            })
            .collect::<Result<_, _>>()?;
        let rows: Vec<Vec<usize>> = plan
            .clusters
            .iter()
            .map(|cluster| {
                cluster
                    .members
                    .iter()
                    .filter_map(|client| place.get(client).copied())
                    .collect()
            })
            .collect();
        let matrix = Membership::from_members(columns.len(), &rows)?;
        Ok(Self {
            matrix,
            orgs,
            columns,
        })
    }

    fn clients(&self, columns: &[usize]) -> ClientSet {
        columns
            .iter()
            .filter_map(|column| self.columns.get(*column).copied())
            .collect()
    }
}

/// Why a plan's sums must not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanLeak {
    /// A combination of cluster sums covers too few clients.
    #[error("a combination of cluster sums covers only {0:?}")]
    Exposed(ClientSet),
    /// Clients of the same clusters that are too few for a group.
    #[error("only {0:?} are in the same clusters, fewer than the policy counts together")]
    SmallBlock(ClientSet),
    /// The search ran into its limit: treated as unsafe.
    #[error("the plan is too tangled to decide within the work limit; use fewer clusters")]
    Undecided,
    /// A client that is not enrolled.
    #[error("{0} is in the plan but not enrolled")]
    Stranger(ClientId),
    /// The plan is no membership matrix.
    #[error(transparent)]
    Membership(#[from] MembershipError),
}
