//! The exact answer: the least weight of the units on which some nonzero combination does not vanish.

use super::block::{Block, Obstacle};
use super::exact;
use super::packing::{Echelon, pack};
use super::tableau::Tableau;
use super::work::{Exhausted, Work};

/// A nonzero combination, checked over the integers.
pub(super) struct Combination {
    /// One multiplier per row of the block.
    pub(super) multipliers: Vec<i128>,
    /// The atoms it is nonzero on.
    pub(super) atoms: Vec<usize>,
    /// The weight of the units these atoms touch.
    pub(super) weight: usize,
}

/// What a search of one block came to.
pub(super) struct Findings {
    /// The lightest combination of at most the weight asked for; `None` means there is none.
    pub(super) lightest: Option<Combination>,
    /// Keep/delete decisions taken.
    pub(super) nodes: u64,
    /// Set where "none" or "lightest" is not proved.
    pub(super) obstacle: Option<Obstacle>,
}

/// Looks for a nonzero combination of weight at most `limit`, and among these for the lightest.
///
/// Keep/delete branch and bound: some unit of every column basis must carry the combination, so take a basic
/// unit and either delete it (its weight is spent) or keep it (the rank falls). Units heavier than what is
/// left are kept at once, and a branch ends when enough disjoint bases remain. At most
/// `C(rank + limit, limit)` nodes, whatever the number of clients.
pub(super) fn search(block: &Block, limit: usize, work: &mut Work) -> Findings {
    let weights = block.weights();
    let least = weights.iter().copied().min().unwrap_or(1);
    let findings = Findings {
        lightest: None,
        nodes: 0,
        obstacle: None,
    };
    let mut search = Search {
        block,
        weights,
        least,
        limit,
        work,
        findings,
        deleted: Vec::new(),
        held: 0,
    };
    let (columns, _) = block.columns();
    let outcome = match Tableau::new(block.rank(), &columns, search.work) {
        Ok(Some(tableau)) => search.descend(tableau, 0),
        // The rows were chosen independent modulo the prime.
        Ok(None) => {
            search.findings.obstacle = Some(Obstacle::Arithmetic);
            Ok(())
        }
        Err(exhausted) => Err(exhausted),
    };
    if outcome.is_err() {
        search.findings.obstacle = Some(Obstacle::Work);
    }
    search.findings
}

struct Search<'a> {
    block: &'a Block,
    weights: Vec<usize>,
    /// Weight of the lightest unit.
    least: usize,
    /// Greatest weight still of interest; falls as combinations are found.
    limit: usize,
    work: &'a mut Work,
    findings: Findings,
    deleted: Vec<usize>,
    /// Cells in the tableaus of all open branches.
    held: usize,
}

impl Search<'_> {
    fn descend(&mut self, mut tableau: Tableau, spent: usize) -> Result<(), Exhausted> {
        loop {
            let Some(room) = self.limit.checked_sub(spent) else {
                return Ok(());
            };
            self.keep_heavy(&mut tableau, room)?;
            if tableau.rows() == 0 || room < self.least {
                return Ok(());
            }
            if room >= BOUND_FROM && pack(&tableau, &self.weights, room + 1, self.work)?.len() > room {
                return Ok(());
            }
            let Some((row, light)) = tableau.lightest_row(&self.weights, self.work)? else {
                return Ok(());
            };
            // A row is a combination itself, and may already be light enough.
            if light <= room && self.take_row(&tableau, row)? {
                continue;
            }
            let Some(unit) = tableau.basic_unit(row) else {
                return Ok(());
            };
            let weight = self.weights.get(unit).copied().unwrap_or(usize::MAX);
            self.findings.nodes += 1;
            self.deleted.push(unit);
            if room - weight < self.least && !tableau.is_wide(unit) {
                // Nothing more can be deleted: a rank is lost now or never.
                self.work.charge(1)?;
                if tableau.is_alone(row, unit) {
                    self.found()?;
                }
            } else {
                match tableau.without(unit, &self.weights, self.work)? {
                    Some(child) => {
                        let size = child.size();
                        self.held += size;
                        if self.held > MAX_HELD {
                            return Err(Exhausted);
                        }
                        self.descend(child, spent + weight)?;
                        self.held -= size;
                    }
                    None => self.found()?,
                }
            }
            self.deleted.pop();
            tableau.keep(unit, self.work)?;
        }
    }

    /// Counts a row of the tableau as found; whether that lowered the limit.
    fn take_row(&mut self, tableau: &Tableau, row: usize) -> Result<bool, Exhausted> {
        let (before, limit) = (self.deleted.len(), self.limit);
        self.deleted.extend(tableau.row_units(row));
        self.found()?;
        self.deleted.truncate(before);
        Ok(self.limit < limit)
    }

    /// Keeps every unit that can no longer be paid for.
    fn keep_heavy(&mut self, tableau: &mut Tableau, room: usize) -> Result<(), Exhausted> {
        let mut heavy: Vec<usize> = tableau.units().to_vec();
        heavy.sort_unstable();
        heavy.dedup();
        heavy.retain(|unit| self.weights.get(*unit).is_none_or(|weight| *weight > room));
        for unit in heavy {
            if tableau.rows() > 0 {
                tableau.keep(unit, self.work)?;
            }
        }
        Ok(())
    }

    /// The deleted units hold the support of a combination: find it over the integers.
    fn found(&mut self) -> Result<(), Exhausted> {
        match combination(self.block, &self.deleted, self.work) {
            Ok(Some(found)) => {
                self.limit = self.limit.min(found.weight.saturating_sub(1));
                self.findings.lightest = Some(found);
            }
            Ok(None) | Err(Obstacle::Arithmetic) => self.findings.obstacle = Some(Obstacle::Arithmetic),
            Err(Obstacle::Work) => return Err(Exhausted),
        }
        Ok(())
    }
}

/// The combination that vanishes outside the deleted units, or `None` if there is none over the integers.
fn combination(block: &Block, deleted: &[usize], work: &mut Work) -> Result<Option<Combination>, Obstacle> {
    let mut outside = vec![false; block.atoms.len()];
    for (_, unit) in block
        .units
        .iter()
        .enumerate()
        .filter(|(index, _)| !deleted.contains(index))
    {
        for atom in &unit.atoms {
            if let Some(outside) = outside.get_mut(*atom) {
                *outside = true;
            }
        }
    }
    let outside = block
        .atoms
        .iter()
        .zip(&outside)
        .filter(|(_, outside)| **outside)
        .map(|(atom, _)| atom);
    // A basis of the columns outside says all there is to say, and keeps the integers small.
    let mut echelon = Echelon::default();
    let mut basis: Vec<&[bool]> = Vec::new();
    for atom in outside {
        let entries = atom.pattern.iter().map(|bit| u64::from(*bit)).collect();
        if echelon.rank() < block.rank() && echelon.add(entries, work)? {
            basis.push(&atom.pattern);
        }
    }
    work.charge(block.rank().saturating_pow(3))?;
    let Some(multipliers) = exact::vanishing(block.rank(), &basis)? else {
        return Ok(None);
    };
    let mut atoms = Vec::new();
    for (index, atom) in block.atoms.iter().enumerate() {
        if exact::combine(&multipliers, &atom.pattern)? != 0 {
            atoms.push(index);
        }
    }
    let touched = |index: &usize| {
        let unit = block.units.get(*index);
        unit.is_some_and(|unit| unit.atoms.iter().any(|atom| atoms.contains(atom)))
    };
    let touched: Vec<usize> = (0..block.units.len()).filter(touched).collect();
    if atoms.is_empty() || touched.iter().any(|unit| !deleted.contains(unit)) {
        return Ok(None);
    }
    let weight = touched
        .iter()
        .filter_map(|unit| block.units.get(*unit))
        .map(|unit| unit.weight)
        .sum();
    Ok(Some(Combination {
        multipliers,
        atoms,
        weight,
    }))
}

/// Most cells of open branches, 256 MiB.
const MAX_HELD: usize = 1 << 25;

/// With less room than this, looking for bases costs more than the nodes it saves.
const BOUND_FROM: usize = 2;
