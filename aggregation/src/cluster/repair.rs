//! From clusters that would expose somebody to a plan that does not.
//!
//! While the disclosure rule finds a combination of sums that covers too few, something must happen to one of its
//! clusters: it is *merged* with another, a client of the combination gives up a *second membership*, or the cluster is
//! *withheld* from the plan. Each is never worse than before or is not taken: merging and withholding leave fewer
//! combinations, and a cut is weighed by what it gives. Of all that help, the one goes that costs least per crowd gained;
//! what nothing helps is merged or, at last, withheld, so it ends. The crowd gained is counted over all clients, each up to
//! what the rule asks for (its leverage is at most 1 / crowd), so that mending one of several weak places counts; and
//! nothing is taken after which the worst combination covers fewer.
//!
//! Cost is in the unit of the divergences: a pair that is put together although its divergence is above tau costs the
//! excess, a pair that is parted although it is below costs the shortfall. Without divergences every such pair costs 1.
//!
//! Once no combination exposes anybody, two more wants are met in the same way: where the policy counts clients in groups,
//! those of the same clusters must be enough for one, and there may be no more clusters than a plan holds. Neither step
//! may undo what the rule asks for.
//!
//! The planner is the server's. Nothing rests on its judgement: clients and auditor check the plan it made.

mod table;
mod weigh;

use std::fmt;

use veilsum_attestation::disclosure::{CrowdRule, Verdict, check_within, crowd};

use super::soft::companions;
use super::{Divergences, Membership};
use table::Table;
use weigh::{Next, QUESTION};

/// What tells whether two clients belong together.
#[derive(Clone, Copy, Debug)]
pub struct Closeness<'a> {
    /// Of all pairs of the plan's clients.
    pub divergences: &'a Divergences,
    /// Pairs up to it belong together.
    pub tau: f64,
}

/// What the planner may do. Clusters inside others are always dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moves {
    /// Make one cluster of two.
    pub merge: bool,
    /// Take a client out of one of its clusters.
    pub cut: bool,
    /// Drop a cluster whose members all have another.
    pub withhold: bool,
}

impl Default for Moves {
    /// All of them.
    fn default() -> Self {
        Self {
            merge: true,
            cut: true,
            withhold: true,
        }
    }
}

/// A plan to be repaired.
#[derive(Clone, Copy, Debug)]
pub struct Repair<'a> {
    /// The clusters wanted.
    pub clusters: &'a Membership,
    /// The organisation of each client.
    pub orgs: &'a [u32],
    /// What every combination must cover, with the margin for colluders and dropouts in it.
    pub rule: CrowdRule,
    /// Fewest clients in the same clusters, where the policy counts clients in groups (blocks); 0 where it does not.
    pub alike: u32,
    /// Most clusters.
    pub most: usize,
    /// If it is known who belongs together.
    pub closeness: Option<Closeness<'a>>,
    /// What may be done.
    pub moves: Moves,
}

/// The plan that came of it.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The clusters, in the order of the lowest number they are made of. Safe unless [`Repaired::verdict`] says otherwise,
    /// which it only does for organisations that do not fit the clients; no more than [`Repair::most`], and with
    /// [`Repair::alike`] clients of a kind.
    pub clusters: Membership,
    /// The numbers of the wanted clusters that each is made of, ascending.
    pub origins: Vec<Vec<usize>>,
    /// What was done, in order. Clusters have the numbers of the wanted ones; a merged one keeps the lower.
    pub steps: Vec<Step>,
    /// The rule's verdict on `clusters`.
    pub verdict: Verdict,
    /// Clients that are in no cluster any more though they were, ascending.
    pub left_out: Vec<usize>,
    /// How many clients share clusters with others than before.
    pub moved: usize,
    /// The sum of the steps' costs.
    pub cost: f64,
}

/// One thing done to the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What.
    pub action: Action,
    /// What was wrong before; `None` for a cluster inside another, which is dropped for tidiness.
    pub because: Option<Reason>,
    /// The effective crowd before and after, for information.
    pub crowd: (f64, f64),
    /// What it cost, at least 0.
    pub cost: f64,
}

/// Why a step was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A combination of sums covers too few.
    Exposed(Verdict),
    /// Clients of the same clusters that are too few to be counted together.
    Alone {
        /// The clients, ascending.
        clients: Vec<usize>,
        /// See [`Repair::alike`].
        least: u32,
    },
    /// More clusters than a plan holds.
    TooMany {
        /// Clusters before the step.
        clusters: usize,
        /// See [`Repair::most`].
        most: usize,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exposed(verdict) => write!(f, "{verdict}"),
            Self::Alone { clients, least } => {
                write!(
                    f,
                    "only clients {clients:?} are in the same clusters, and {least} are counted together"
                )
            }
            Self::TooMany { clusters, most } => {
                write!(f, "{clusters} clusters are more than the {most} of a plan")
            }
        }
    }
}

/// See [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Two clusters became one under the lower number.
    Merge {
        /// The number that stays.
        cluster: usize,
        /// The number that goes.
        with: usize,
    },
    /// A client left one of its clusters.
    Cut {
        /// The client.
        client: usize,
        /// The cluster it left.
        cluster: usize,
    },
    /// A cluster was dropped.
    Withhold {
        /// Its number.
        cluster: usize,
    },
    /// A cluster lay inside another and was dropped.
    Contained {
        /// Its number.
        cluster: usize,
        /// The other's.
        within: usize,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Merge { cluster, with } => write!(f, "clusters {cluster} and {with} are one"),
            Self::Cut { client, cluster } => write!(f, "client {client} leaves cluster {cluster}"),
            Self::Withhold { cluster } => write!(f, "cluster {cluster} is withheld"),
            Self::Contained { cluster, within } => {
                write!(f, "cluster {cluster} is dropped: it lies inside cluster {within}")
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.action)?;
        if let Some(because) = &self.because {
            write!(
                f,
                ", because {because}; crowd {:.1} -> {:.1}, cost {:.3}",
                self.crowd.0, self.crowd.1, self.cost
            )?;
        }
        Ok(())
    }
}

/// Repairs a plan; see the module. One that is safe comes back as it is, without the clusters inside others.
///
/// The same for every machine. Time grows with the clusters: tens take milliseconds. What is weighed has a limit in work,
/// not in time, so that every machine gives up weighing at the same step; from there the cheapest merge is taken.
#[must_use]
pub fn repair(wanted: &Repair<'_>) -> Repaired {
    let mut table = Table::new(wanted);
    let mut steps = Vec::new();
    let mut now = crowd(&table.matrix());
    steps.extend(tidy(&mut table, now));
    let verdict = loop {
        // What is hard to decide is hard for every client that must decide it too: such plans are not made.
        let verdict = check_within(&table.matrix(), wanted.orgs, &wanted.rule, QUESTION);
        let Some(Next { reason, actions }) = table.next(&verdict, wanted) else {
            break verdict;
        };
        let last = actions.len().saturating_sub(1);
        for (number, action) in actions.into_iter().enumerate() {
            let cost = table.cost(action);
            table.apply(action);
            let before = now;
            // Clients that move together are not tidied up after one by one.
            let dropped = if number == last {
                tidy(&mut table, now)
            } else {
                Vec::new()
            };
            now = crowd(&table.matrix());
            steps.push(Step {
                action,
                because: Some(reason.clone()),
                crowd: (before, now),
                cost,
            });
            steps.extend(dropped);
        }
    };
    let (clusters, origins) = table.finish();
    let covered = |clusters: &Membership, client: usize| {
        (0..clusters.clusters()).any(|cluster| clusters.contains(cluster, client))
    };
    let clients = 0..wanted.clusters.clients();
    let other = |client: &usize| !companions(wanted.clusters, *client).eq(companions(&clusters, *client));
    Repaired {
        left_out: clients
            .clone()
            .filter(|client| covered(wanted.clusters, *client) && !covered(&clusters, *client))
            .collect(),
        moved: clients.filter(other).count(),
        cost: steps.iter().fold(0.0, |sum, step| sum + step.cost),
        clusters,
        origins,
        steps,
        verdict,
    }
}

/// Drops clusters inside others.
fn tidy(table: &mut Table<'_>, crowd: f64) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(action) = table.contained() {
        table.apply(action);
        steps.push(Step {
            action,
            because: None,
            crowd: (crowd, crowd),
            cost: 0.0,
        });
    }
    steps
}
