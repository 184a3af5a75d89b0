//! Which sums may be opened when not all may.

use super::block::Cover;
use super::membership::Membership;
use super::work::Work;
use super::{CrowdRule, Survey, Verdict, WORK_LIMIT, count, examine, survey};

/// What [`release_set`] decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Clusters whose sums may be opened, ascending. Empty means that the round must abort.
    pub released: Vec<usize>,
    /// Clusters that stay closed, in the order in which they were withheld.
    pub withheld: Vec<(usize, Withheld)>,
    /// The verdict on `released`: safe, except where the organisations do not fit the matrix.
    pub verdict: Verdict,
}

/// Why a cluster stays closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Withheld {
    /// No survivor in it.
    #[error("no survivor is in it")]
    Empty,
    /// Below the least number of clients a sum must have.
    #[error("{clients} survivor(s) in it, {required} required")]
    TooFewClients {
        /// Survivors in the cluster.
        clients: u32,
        /// The floor.
        required: u32,
    },
    /// It was part of a combination that covered too few.
    #[error("a combination with it covers {covered} {}, {required} required", noun(*.cover))]
    Exposes {
        /// What there was too little of.
        cover: Cover,
        /// How many the combination covered.
        covered: u32,
        /// How many the rule asks for.
        required: u32,
    },
    /// The clusters still open could not be decided.
    #[error("no verdict on the clusters still open, so one more stays closed")]
    Undecided,
}

/// The clusters of `matrix`, already restricted to the survivors, whose sums may be opened together.
///
/// Empty clusters and those below `min_clients` go first. Then clusters are withheld one at a time until the
/// rule holds, always one that takes part in the lightest exposing combination (any other would leave that
/// combination standing). Of these the one goes that has the greatest leverage on the outcome, in whole
/// numbers: the one without which the least cover of what remains is greatest, first whether the rule then
/// holds, then clients, then organisations, each counted up to what the rule asks for. Ties: the cluster with
/// fewest survivors, then the lowest number. Everybody who computes this gets the same.
#[must_use]
pub fn release_set(matrix: &Membership, orgs: &[u32], rule: &CrowdRule, min_clients: u32) -> Release {
    let mut open = Vec::new();
    let mut withheld = Vec::new();
    for cluster in 0..matrix.clusters() {
        let clients = count(matrix.size(cluster));
        if clients == 0 {
            withheld.push((cluster, Withheld::Empty));
        } else if clients < min_clients {
            withheld.push((
                cluster,
                Withheld::TooFewClients {
                    clients,
                    required: min_clients,
                },
            ));
        } else {
            open.push(cluster);
        }
    }
    // One allowance for the whole choice; what is found safe within it is safe for `check`, which has as much.
    let mut work = Work::new(WORK_LIMIT);
    loop {
        let verdict = examine(&matrix.release(&open), orgs, *rule, WORK_LIMIT, &mut work);
        let (candidates, reason) = match &verdict {
            Verdict::Safe(_) => {
                return Release {
                    released: open,
                    withheld,
                    verdict,
                };
            }
            Verdict::Exposed(exposure) => (
                exposure
                    .coefficients
                    .iter()
                    .map(|(cluster, _)| *cluster)
                    .collect(),
                Withheld::Exposes {
                    cover: exposure.cover,
                    covered: exposure.covered,
                    required: exposure.required,
                },
            ),
            Verdict::Undecided(_) => (open.clone(), Withheld::Undecided),
        };
        let leverage = |cluster: &usize| {
            let rest: Vec<usize> = open.iter().copied().filter(|other| other != cluster).collect();
            let rest = matrix.release(&rest);
            let clients = least_cover(&rest, orgs, Cover::Clients, *rule, &mut work);
            let organisations = least_cover(&rest, orgs, Cover::Organisations, *rule, &mut work);
            let holds = clients >= rule.crowd && organisations >= rule.crowd_orgs;
            (
                !holds,
                u32::MAX - clients,
                u32::MAX - organisations,
                matrix.size(*cluster),
                *cluster,
            )
        };
        let Some(chosen) = candidates.into_iter().min_by_key(leverage) else {
            return Release {
                released: open,
                withheld,
                verdict,
            };
        };
        open.retain(|cluster| *cluster != chosen);
        withheld.push((chosen, reason));
    }
}

/// The least cover of any combination, counted up to what the rule asks for; 0 where it is not known.
fn least_cover(matrix: &Membership, orgs: &[u32], cover: Cover, rule: CrowdRule, work: &mut Work) -> u32 {
    match survey(matrix, orgs, cover, rule, work) {
        Survey::Safe(_) => count(rule.required(cover)),
        Survey::Exposed(exposure) => exposure.covered,
        Survey::Unknown(_) => 0,
    }
}

fn noun(cover: Cover) -> &'static str {
    match cover {
        Cover::Clients => "client(s)",
        Cover::Organisations => "organisation(s)",
    }
}
