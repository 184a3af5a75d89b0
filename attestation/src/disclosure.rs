//! The disclosure rule: do overlapping clusters give anyone away?
//!
//! The server opens one sum per cluster over the same coordinates, so it can form every linear combination of
//! them, and nothing else. Two clusters that differ in one client give that client away. [`check`] decides, in
//! integers and the same way on every machine, whether every nonzero combination still covers at least
//! `crowd` clients and `crowd_orgs` organisations. The server plans with it, clients check a plan before they
//! mask and the survivors before they reveal, and an auditor repeats it. The answer depends on the plan and
//! the survivors only, never on data, so refusing tells nothing.
//!
//! How: clients in the same clusters form an *atom* and vanish together, so if every atom is large enough all
//! is well. Else *disjoint column bases*: every nonzero combination meets each of them. Else an exact
//! keep/delete search. The first two leave a certificate that is cheap to repeat; the third is run again.
//! Dropouts and colluders are both columns taken away: removing `s` of them lowers the least cover by at most
//! `s`, so plan with `crowd + m + s` and demand `crowd + m` of the survivors, where `m` colluding clients
//! and `s` dropouts are assumed.
//!
//! Not covered: coordinates where only one client is nonzero, what a sum says about its members, and the same
//! inputs summed again over another survivor set.

mod block;
mod certificate;
mod exact;
mod field;
mod info;
mod membership;
mod packing;
mod release;
mod search;
mod tableau;
mod window;
mod work;

use std::fmt;

pub use block::Cover;
pub use certificate::{BlockProof, Certificate, Proof};
pub use info::{Parity, clusters_you_can_have, crowd, leverages, parity, parity_support};
pub use membership::{Membership, MembershipError};
pub use release::{Release, Withheld, release_set};
pub use window::Window;

use block::{Block, Obstacle, blocks};
use search::{Combination, search};
use work::Work;

/// What every nonzero combination of the released sums must cover. 0 and 1 ask for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrowdRule {
    /// Least number of clients.
    pub crowd: u32,
    /// Least number of organisations.
    pub crowd_orgs: u32,
}

impl CrowdRule {
    fn required(self, cover: Cover) -> usize {
        (match cover {
            Cover::Clients => self.crowd,
            Cover::Organisations => self.crowd_orgs,
        }) as usize
    }
}

/// What [`check`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Every nonzero combination covers enough.
    Safe(Certificate),
    /// This combination does not.
    Exposed(Exposure),
    /// Not decided. Treat it as unsafe.
    Undecided(Undecided),
}

impl Verdict {
    /// `true` for [`Verdict::Safe`] and nothing else.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        matches!(self, Self::Safe(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Safe(certificate) => certificate.fmt(f),
            Self::Exposed(exposure) => exposure.fmt(f),
            Self::Undecided(undecided) => write!(f, "undecided, so unsafe: {undecided}"),
        }
    }
}

/// A combination that covers too few, the lightest there is unless the work limit came first.
/// Exact: [`Exposure::verify`] recomputes it over the integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// What there is too little of.
    pub cover: Cover,
    /// How many the combination covers.
    pub covered: u32,
    /// How many the rule asks for.
    pub required: u32,
    /// The clients with a nonzero coefficient, ascending.
    pub clients: Vec<usize>,
    /// Their organisations, ascending.
    pub organisations: Vec<u32>,
    /// The combination: cluster and what its sum is multiplied by, never 0.
    pub coefficients: Vec<(usize, i64)>,
}

impl Exposure {
    /// Whether the combination really is nonzero on `clients` and nothing else.
    #[must_use]
    pub fn verify(&self, matrix: &Membership, orgs: &[u32]) -> bool {
        let mut values = vec![0_i128; matrix.clients()];
        for (cluster, factor) in &self.coefficients {
            for client in matrix.members(*cluster) {
                let Some(value) = values.get_mut(client) else {
                    return false;
                };
                let Some(sum) = value.checked_add(i128::from(*factor)) else {
                    return false;
                };
                *value = sum;
            }
        }
        let nonzero = values.iter().enumerate().filter(|(_, value)| **value != 0);
        let clients: Vec<usize> = nonzero.map(|(client, _)| client).collect();
        let covered = match self.cover {
            Cover::Clients => self.clients.len(),
            Cover::Organisations => self.organisations.len(),
        };
        !clients.is_empty()
            && clients == self.clients
            && organisations_of(&clients, orgs) == self.organisations
            && count(covered) == self.covered
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.cover {
            Cover::Clients => "client(s)",
            Cover::Organisations => "organisation(s)",
        };
        write!(f, "exposed: ")?;
        for (index, (cluster, factor)) in self.coefficients.iter().enumerate() {
            let sign = if *factor < 0 { "- " } else { "+ " };
            let (sign, gap) = if index == 0 {
                (sign.trim_start_matches("+ "), "")
            } else {
                (sign, " ")
            };
            write!(f, "{gap}{sign}")?;
            if factor.unsigned_abs() != 1 {
                write!(f, "{}*", factor.unsigned_abs())?;
            }
            write!(f, "sum[{cluster}]")?;
        }
        write!(
            f,
            " covers {} {what} where {} are required: clients {:?}",
            self.covered, self.required, self.clients
        )
    }
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undecided {
    /// The plan is too entangled to search.
    #[error(
        "the search stopped after {limit} cell operations: use fewer clusters, less overlap or a smaller crowd"
    )]
    WorkLimit {
        /// The limit, the same for all parties.
        limit: u64,
    },
    /// More than 36 entangled clusters whose sums depend on each other in a way that needs very large integers.
    #[error("the clusters depend on each other through integers beyond 128 bits: drop a dependent cluster")]
    Arithmetic,
    /// The organisations do not belong to this matrix.
    #[error("{organisations} organisations given for {clients} clients: give one per client")]
    Organisations {
        /// Columns of the matrix.
        clients: usize,
        /// Length of the list.
        organisations: usize,
    },
}

/// Decides whether every nonzero combination of the sums in `matrix` covers what `rule` asks for.
///
/// `orgs` holds the organisation of each column. Clients in no cluster, empty clusters and clusters repeated
/// do not matter; no sum at all is safe. Verdicts do not depend on the order of rows and columns.
pub fn check(matrix: &Membership, orgs: &[u32], rule: &CrowdRule) -> Verdict {
    check_within(matrix, orgs, rule, WORK_LIMIT)
}

/// [`check`] with another limit than [`WORK_LIMIT`]. Parties that must agree use the same limit.
pub fn check_within(matrix: &Membership, orgs: &[u32], rule: &CrowdRule, limit: u64) -> Verdict {
    check_counting(matrix, orgs, rule, limit).0
}

/// [`check_within`], and how much of `limit` it took: at most all of it, and the same on every machine.
pub fn check_counting(matrix: &Membership, orgs: &[u32], rule: &CrowdRule, limit: u64) -> (Verdict, u64) {
    let mut work = Work::new(limit);
    let verdict = examine(matrix, orgs, *rule, limit, &mut work);
    (verdict, limit - work.left())
}

fn examine(matrix: &Membership, orgs: &[u32], rule: CrowdRule, limit: u64, work: &mut Work) -> Verdict {
    if orgs.len() != matrix.clients() {
        return Verdict::Undecided(Undecided::Organisations {
            clients: matrix.clients(),
            organisations: orgs.len(),
        });
    }
    let clients = survey(matrix, orgs, Cover::Clients, rule, work);
    let organisations = survey(matrix, orgs, Cover::Organisations, rule, work);
    match (clients, organisations) {
        (Survey::Exposed(exposure), _) | (_, Survey::Exposed(exposure)) => Verdict::Exposed(exposure),
        (Survey::Unknown(obstacle), _) | (_, Survey::Unknown(obstacle)) => {
            Verdict::Undecided(match obstacle {
                Obstacle::Work => Undecided::WorkLimit { limit },
                Obstacle::Arithmetic => Undecided::Arithmetic,
            })
        }
        (Survey::Safe(clients), Survey::Safe(organisations)) => Verdict::Safe(Certificate {
            clients,
            organisations,
        }),
    }
}

/// One half of a verdict.
enum Survey {
    Safe(Vec<BlockProof>),
    Exposed(Exposure),
    Unknown(Obstacle),
}

/// Decides for clients or for organisations.
fn survey(matrix: &Membership, orgs: &[u32], cover: Cover, rule: CrowdRule, work: &mut Work) -> Survey {
    let mut required = rule.required(cover);
    if required <= 1 {
        return Survey::Safe(Vec::new());
    }
    let blocks = match blocks(matrix, orgs, cover, work) {
        Ok(blocks) => blocks,
        Err(obstacle) => return Survey::Unknown(obstacle),
    };
    let mut proofs = Vec::new();
    let mut exposure = None;
    let mut unknown = None;
    for block in blocks {
        match certificate::prove(&block, cover, orgs, required, work) {
            Ok(Some(proof)) => {
                proofs.push(BlockProof {
                    clusters: block.clusters,
                    proof,
                });
                continue;
            }
            Ok(None) => {}
            Err(_) => {
                unknown = Some(Obstacle::Work);
                continue;
            }
        }
        let findings = search(&block, required - 1, work);
        match (findings.lightest, findings.obstacle) {
            (Some(found), _) => {
                // Other blocks only matter if they are lighter still.
                required = found.weight;
                exposure = Some(exposed(&block, &found, orgs, cover, rule));
            }
            (None, Some(obstacle)) => unknown = Some(obstacle),
            (None, None) => {
                let proof = Proof::Search {
                    nodes: findings.nodes,
                };
                proofs.push(BlockProof {
                    clusters: block.clusters,
                    proof,
                });
            }
        }
    }
    match (exposure, unknown) {
        (Some(Some(exposure)), _) => Survey::Exposed(exposure),
        (Some(None), _) => Survey::Unknown(Obstacle::Arithmetic),
        (None, Some(obstacle)) => Survey::Unknown(obstacle),
        (None, None) => Survey::Safe(proofs),
    }
}

/// A combination in terms of the plan; `None` where a multiplier exceeds 64 bits.
fn exposed(
    block: &Block,
    found: &Combination,
    orgs: &[u32],
    cover: Cover,
    rule: CrowdRule,
) -> Option<Exposure> {
    let pairs = block
        .clusters
        .iter()
        .zip(&found.multipliers)
        .filter(|(_, value)| **value != 0);
    let coefficients = pairs.map(|(cluster, value)| Some((*cluster, i64::try_from(*value).ok()?)));
    let mut coefficients: Vec<(usize, i64)> = coefficients.collect::<Option<_>>()?;
    if coefficients.first().is_some_and(|(_, factor)| *factor < 0) {
        for (_, factor) in &mut coefficients {
            *factor = factor.checked_neg()?;
        }
    }
    let atoms = found.atoms.iter().filter_map(|atom| block.atoms.get(*atom));
    let mut clients: Vec<usize> = atoms.flat_map(|atom| atom.clients.iter().copied()).collect();
    clients.sort_unstable();
    Some(Exposure {
        cover,
        covered: count(found.weight),
        required: count(rule.required(cover)),
        organisations: organisations_of(&clients, orgs),
        clients,
        coefficients,
    })
}

/// The distinct organisations of some clients, ascending.
fn organisations_of(clients: &[usize], orgs: &[u32]) -> Vec<u32> {
    let mut found: Vec<u32> = clients
        .iter()
        .filter_map(|client| orgs.get(*client).copied())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A number of clients, as the outside sees it.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Cell operations after which [`check`] gives up: some 4 seconds on one core. Part of the protocol, because
/// parties with different limits could disagree.
pub const WORK_LIMIT: u64 = 1 << 29;
