//! Why a plan is safe, in a form that somebody else can check.

use std::collections::BTreeSet;
use std::fmt;

use super::block::{Block, Cover, blocks};
use super::membership::Membership;
use super::packing::{Echelon, pack};
use super::search::search;
use super::tableau::Tableau;
use super::work::{Exhausted, Work};
use super::{CrowdRule, WORK_LIMIT, count, organisations_of};

/// A proof for every block of clusters, once for clients and once for organisations. A list is empty where
/// the rule asks for at most one or nothing is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Every combination covers enough clients.
    pub clients: Vec<BlockProof>,
    /// Every combination covers enough organisations.
    pub organisations: Vec<BlockProof>,
}

/// The proof for clusters that share clients (or organisations) with each other and nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockProof {
    /// The clusters whose sums span all others of the block, ascending.
    pub clusters: Vec<usize>,
    /// Why no combination of them covers too few.
    pub proof: Proof,
}

/// Three ways to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Clients with the same clusters vanish together, and the fewest that do so are this many.
    Atoms {
        /// The fewest.
        least: u32,
    },
    /// Sets of clients with no client (or organisation) in common, on each of which the sums keep full rank:
    /// every nonzero combination is nonzero somewhere on each of them.
    Bases(Vec<Vec<usize>>),
    /// The exact search found nothing; to check it, it is run again.
    Search {
        /// Decisions it took.
        nodes: u64,
    },
}

impl Certificate {
    /// Checks every proof against the plan. Cheap unless a block needed the search.
    #[must_use]
    pub fn verify(&self, matrix: &Membership, orgs: &[u32], rule: &CrowdRule) -> bool {
        orgs.len() == matrix.clients()
            && [
                (Cover::Clients, &self.clients),
                (Cover::Organisations, &self.organisations),
            ]
            .into_iter()
            .all(|(cover, proofs)| verify_cover(proofs, matrix, orgs, cover, rule.required(cover)))
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "safe")?;
        for (what, proofs) in [("clients", &self.clients), ("organisations", &self.organisations)] {
            for BlockProof { clusters, proof } in proofs {
                write!(f, "; {what} over clusters {clusters:?}: ")?;
                match proof {
                    Proof::Atoms { least } => write!(f, "never fewer than {least} share their clusters")?,
                    Proof::Bases(bases) => write!(f, "{} disjoint bases", bases.len())?,
                    Proof::Search { nodes } => write!(f, "searched in {nodes} steps")?,
                }
            }
        }
        Ok(())
    }
}

fn verify_cover(
    proofs: &[BlockProof],
    matrix: &Membership,
    orgs: &[u32],
    cover: Cover,
    required: usize,
) -> bool {
    if required <= 1 {
        return proofs.is_empty();
    }
    let mut work = Work::new(WORK_LIMIT);
    let Ok(blocks) = blocks(matrix, orgs, cover, &mut work) else {
        return false;
    };
    blocks.len() == proofs.len()
        && blocks.iter().zip(proofs).all(|(block, proof)| {
            block.clusters == proof.clusters
                && verify_block(&proof.proof, block, orgs, cover, required, &mut work)
        })
}

fn verify_block(
    proof: &Proof,
    block: &Block,
    orgs: &[u32],
    cover: Cover,
    required: usize,
    work: &mut Work,
) -> bool {
    match proof {
        Proof::Atoms { least } => {
            let actual = least_atom(block, cover, orgs);
            actual >= required && count(actual) == *least
        }
        Proof::Bases(bases) => {
            let mut seen = BTreeSet::new();
            bases.len() >= required
                && bases.iter().all(|basis| {
                    disjoint(basis, cover, orgs, &mut seen) && spans(basis, block, work).unwrap_or(false)
                })
        }
        Proof::Search { .. } => {
            let findings = search(block, required - 1, work);
            findings.lightest.is_none() && findings.obstacle.is_none()
        }
    }
}

/// Marks the basis' clients (or organisations) as used; whether none was before.
fn disjoint(basis: &[usize], cover: Cover, orgs: &[u32], seen: &mut BTreeSet<usize>) -> bool {
    match cover {
        Cover::Clients => basis.iter().all(|client| seen.insert(*client)),
        Cover::Organisations => organisations_of(basis, orgs)
            .into_iter()
            .all(|organisation| seen.insert(organisation as usize)),
    }
}

/// Whether the block's sums keep their rank on these clients alone.
fn spans(basis: &[usize], block: &Block, work: &mut Work) -> Result<bool, Exhausted> {
    let mut echelon = Echelon::default();
    for atom in &block.atoms {
        if basis
            .iter()
            .any(|client| atom.clients.binary_search(client).is_ok())
        {
            echelon.add(atom.pattern.iter().map(|bit| u64::from(*bit)).collect(), work)?;
        }
    }
    Ok(echelon.rank() == block.rank())
}

/// Tries the two cheap proofs.
pub(super) fn prove(
    block: &Block,
    cover: Cover,
    orgs: &[u32],
    required: usize,
    work: &mut Work,
) -> Result<Option<Proof>, Exhausted> {
    let least = least_atom(block, cover, orgs);
    if least >= required {
        return Ok(Some(Proof::Atoms { least: count(least) }));
    }
    let (columns, atoms) = block.columns();
    let Some(tableau) = Tableau::new(block.rank(), &columns, work)? else {
        return Ok(None);
    };
    let bases = pack(&tableau, &block.weights(), required, work)?;
    if bases.len() < required {
        return Ok(None);
    }
    // The n-th basis to use a unit gets its n-th client or organisation.
    let mut used = vec![0_usize; block.units.len()];
    let mut named = Vec::with_capacity(bases.len());
    for basis in bases {
        let mut clients = Vec::with_capacity(basis.len());
        for (unit, column) in &basis {
            let turn = used.get(*unit).copied().unwrap_or(0);
            let atom = atoms.get(*column).and_then(|atom| block.atoms.get(*atom));
            let organisation = block
                .units
                .get(*unit)
                .and_then(|unit| unit.organisations.get(turn));
            let client = atom.and_then(|atom| match organisation {
                Some(_) => atom
                    .clients
                    .iter()
                    .find(|client| orgs.get(**client) == organisation),
                None => atom.clients.get(turn),
            });
            clients.extend(client);
        }
        let mut units: Vec<usize> = basis.iter().map(|(unit, _)| *unit).collect();
        units.dedup();
        for unit in units {
            if let Some(used) = used.get_mut(unit) {
                *used += 1;
            }
        }
        clients.sort_unstable();
        named.push(clients);
    }
    Ok(Some(Proof::Bases(named)))
}

/// The fewest clients, or organisations, on whose atom a combination can be nonzero.
fn least_atom(block: &Block, cover: Cover, orgs: &[u32]) -> usize {
    let sizes = block.atoms.iter().map(|atom| match cover {
        Cover::Clients => atom.clients.len(),
        Cover::Organisations => organisations_of(&atom.clients, orgs).len(),
    });
    sizes.min().unwrap_or(0)
}
