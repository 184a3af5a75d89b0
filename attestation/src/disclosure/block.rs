//! A plan taken apart: blocks of clusters that share nobody, and in each the columns and what they weigh.

use std::collections::BTreeMap;

use super::exact;
use super::field::FAITHFUL_ORDER;
use super::membership::Membership;
use super::packing::Echelon;
use super::work::{Exhausted, Work};

/// What a combination is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Clients with a nonzero coefficient.
    Clients,
    /// Organisations with at least one such client.
    Organisations,
}

/// Clusters connected through clients (or organisations): no combination of small support spans two blocks,
/// because leaving one block out only makes it smaller.
pub(super) struct Block {
    /// Numbers of the independent clusters in the plan, ascending; the rows.
    pub(super) clusters: Vec<usize>,
    /// Every distinct column, over `clusters`, with the clients that have it.
    pub(super) atoms: Vec<Atom>,
    /// What is deleted or kept as a whole.
    pub(super) units: Vec<Unit>,
}

/// Clients in exactly the same clusters. A combination is the same on all of them.
pub(super) struct Atom {
    pub(super) pattern: Vec<bool>,
    pub(super) clients: Vec<usize>,
}

/// One atom, or the organisations that reach exactly the same atoms.
pub(super) struct Unit {
    pub(super) atoms: Vec<usize>,
    /// Clients, or organisations, counted once the combination is nonzero on the unit.
    pub(super) weight: usize,
    /// The organisations; empty when clients are counted.
    pub(super) organisations: Vec<u32>,
}

/// Why a block could not be laid out.
pub(super) enum Obstacle {
    Work,
    /// More than 36 clusters, dependent, and integers too large to say how.
    Arithmetic,
}

impl From<Exhausted> for Obstacle {
    fn from(_: Exhausted) -> Self {
        Self::Work
    }
}

impl From<exact::Overflow> for Obstacle {
    fn from(_: exact::Overflow) -> Self {
        Self::Arithmetic
    }
}

/// The blocks of a matrix, by their first cluster. Empty and repeated clusters are left out.
pub(super) fn blocks(
    matrix: &Membership,
    orgs: &[u32],
    cover: Cover,
    work: &mut Work,
) -> Result<Vec<Block>, Obstacle> {
    let mut rows: BTreeMap<&[u64], usize> = BTreeMap::new();
    for cluster in (0..matrix.clusters())
        .rev()
        .filter(|cluster| matrix.size(*cluster) > 0)
    {
        rows.insert(matrix.bitset(cluster), cluster);
    }
    let mut clusters: Vec<usize> = rows.into_values().collect();
    clusters.sort_unstable();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut owners: BTreeMap<usize, usize> = BTreeMap::new();
    for cluster in clusters {
        // Every group this cluster touches becomes one.
        let mut merged = vec![cluster];
        let group = groups.len();
        for client in matrix.members(cluster) {
            work.charge(1)?;
            let key = match cover {
                Cover::Clients => client,
                Cover::Organisations => orgs.get(client).map_or(usize::MAX, |org| *org as usize),
            };
            if let Some(old) = owners.insert(key, group)
                && let Some(old) = groups.get_mut(old)
            {
                merged.append(old);
            }
        }
        merged.sort_unstable();
        for owner in owners.values_mut() {
            if groups.get(*owner).is_some_and(Vec::is_empty) {
                *owner = group;
            }
        }
        groups.push(merged);
    }
    groups.retain(|group| !group.is_empty());
    groups.sort_unstable();
    groups
        .iter()
        .map(|clusters| Block::new(matrix, orgs, cover, clusters, work))
        .collect()
}

impl Block {
    fn new(
        matrix: &Membership,
        orgs: &[u32],
        cover: Cover,
        clusters: &[usize],
        work: &mut Work,
    ) -> Result<Self, Obstacle> {
        let clusters = independent(matrix, clusters, work)?;
        let atoms = atoms(matrix, &clusters);
        let units = match cover {
            Cover::Clients => clients_as_units(&atoms),
            Cover::Organisations => organisations_as_units(&atoms, orgs),
        };
        Ok(Self {
            clusters,
            atoms,
            units,
        })
    }

    /// Number of independent sums.
    pub(super) fn rank(&self) -> usize {
        self.clusters.len()
    }

    /// The tableau's columns, heaviest unit first: `(unit, pattern)` and the atom of each.
    pub(super) fn columns(&self) -> (Vec<(usize, &[bool])>, Vec<usize>) {
        let mut order: Vec<(usize, usize, usize)> = Vec::new();
        for (index, unit) in self.units.iter().enumerate() {
            order.extend(
                unit.atoms
                    .iter()
                    .map(|atom| (usize::MAX - unit.weight, index, *atom)),
            );
        }
        order.sort_unstable();
        let pattern = |atom: usize| {
            self.atoms
                .get(atom)
                .map_or(&[][..], |atom| atom.pattern.as_slice())
        };
        let columns = order
            .iter()
            .map(|(_, unit, atom)| (*unit, pattern(*atom)))
            .collect();
        (columns, order.iter().map(|(_, _, atom)| *atom).collect())
    }

    /// The weight of each unit.
    pub(super) fn weights(&self) -> Vec<usize> {
        self.units.iter().map(|unit| unit.weight).collect()
    }
}

/// The first clusters, in order, that span the sums of all; their independence is certain, and so is
/// the dependence of those left out.
fn independent(matrix: &Membership, clusters: &[usize], work: &mut Work) -> Result<Vec<usize>, Obstacle> {
    let all = atoms(matrix, clusters);
    let mut echelon = Echelon::default();
    let mut chosen = Vec::new();
    for (row, cluster) in clusters.iter().enumerate() {
        let entries = all
            .iter()
            .map(|atom| u64::from(atom.pattern.get(row).copied().unwrap_or(false)));
        if echelon.add(entries.collect(), work)? {
            chosen.push(*cluster);
        }
    }
    if chosen.len() < clusters.len() && clusters.len().min(all.len()) > FAITHFUL_ORDER {
        let columns: Vec<&[bool]> = all.iter().map(|atom| atom.pattern.as_slice()).collect();
        work.charge(
            clusters
                .len()
                .saturating_mul(clusters.len())
                .saturating_mul(columns.len()),
        )?;
        if exact::rank(clusters.len(), &columns)? != chosen.len() {
            return Err(Obstacle::Arithmetic);
        }
    }
    Ok(chosen)
}

/// Clients grouped by their column, those in no cluster left out.
fn atoms(matrix: &Membership, clusters: &[usize]) -> Vec<Atom> {
    let mut members: BTreeMap<usize, Vec<bool>> = BTreeMap::new();
    for (row, cluster) in clusters.iter().enumerate() {
        for client in matrix.members(*cluster) {
            let pattern = members
                .entry(client)
                .or_insert_with(|| vec![false; clusters.len()]);
            if let Some(bit) = pattern.get_mut(row) {
                *bit = true;
            }
        }
    }
    let mut atoms: BTreeMap<Vec<bool>, Vec<usize>> = BTreeMap::new();
    for (client, pattern) in members {
        atoms.entry(pattern).or_default().push(client);
    }
    atoms
        .into_iter()
        .map(|(pattern, clients)| Atom { pattern, clients })
        .collect()
}

fn clients_as_units(atoms: &[Atom]) -> Vec<Unit> {
    let unit = |(index, atom): (usize, &Atom)| Unit {
        atoms: vec![index],
        weight: atom.clients.len(),
        organisations: Vec::new(),
    };
    atoms.iter().enumerate().map(unit).collect()
}

fn organisations_as_units(atoms: &[Atom], orgs: &[u32]) -> Vec<Unit> {
    let mut reach: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, atom) in atoms.iter().enumerate() {
        for org in atom.clients.iter().filter_map(|client| orgs.get(*client)) {
            let atoms = reach.entry(*org).or_default();
            if atoms.last() != Some(&index) {
                atoms.push(index);
            }
        }
    }
    let mut units: BTreeMap<Vec<usize>, Vec<u32>> = BTreeMap::new();
    for (org, atoms) in reach {
        units.entry(atoms).or_default().push(org);
    }
    let unit = |(atoms, organisations): (Vec<usize>, Vec<u32>)| Unit {
        atoms,
        weight: organisations.len(),
        organisations,
    };
    units.into_iter().map(unit).collect()
}
