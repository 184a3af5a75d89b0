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
//! The planner is the server's. Nothing rests on its judgement: clients and auditor check the plan it made.

mod weigh;

use std::fmt;

use veilsum_attestation::disclosure::{CrowdRule, Verdict, check, crowd};

use super::soft::companions;
use super::{Divergences, Membership};
use weigh::Table;

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
    /// If it is known who belongs together.
    pub closeness: Option<Closeness<'a>>,
    /// What may be done.
    pub moves: Moves,
}

/// The plan that came of it.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The clusters, in the order of the lowest number they are made of. Safe unless [`Repaired::verdict`] says otherwise,
    /// which it only does for organisations that do not fit the clients.
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
    pub because: Option<Verdict>,
    /// The effective crowd before and after, for information.
    pub crowd: (f64, f64),
    /// What it cost, at least 0.
    pub cost: f64,
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
/// The same for every machine. Time grows with the clusters: tens take milliseconds, hundreds minutes.
#[must_use]
pub fn repair(wanted: &Repair<'_>) -> Repaired {
    let mut table = Table::new(wanted);
    let mut steps = Vec::new();
    let mut now = crowd(&table.matrix());
    steps.extend(tidy(&mut table, now));
    let verdict = loop {
        let verdict = check(&table.matrix(), wanted.orgs, &wanted.rule);
        let Some((action, cost)) = table.choose(&verdict, wanted) else {
            break verdict;
        };
        table.apply(action);
        let before = now;
        let dropped = tidy(&mut table, now);
        now = crowd(&table.matrix());
        steps.push(Step {
            action,
            because: Some(verdict),
            crowd: (before, now),
            cost,
        });
        steps.extend(dropped);
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
