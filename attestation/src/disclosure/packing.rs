//! Disjoint column bases, found greedily: each nonzero combination must meet every one of them.

use super::field::{mul, mul_add, neg};
use super::tableau::Tableau;
use super::work::{Exhausted, Work};

/// Up to `goal` bases, each a list of `(unit, column)`, such that a unit of weight `w` serves in at most `w`
/// of them. A combination that is nonzero on units of total weight `s` meets at most `s` bases, so that many
/// bases prove that every combination weighs at least as much.
pub(super) fn pack(
    tableau: &Tableau,
    weights: &[usize],
    goal: usize,
    work: &mut Work,
) -> Result<Vec<Vec<(usize, usize)>>, Exhausted> {
    work.charge(tableau.units().len())?;
    let mut supply = Supply::new(tableau, weights);
    let mut found = Vec::new();
    while found.len() < goal && supply.could_serve(goal - found.len(), tableau.rows()) {
        let Some(basis) = supply.take_basis(tableau, work)? else {
            break;
        };
        found.push(basis);
    }
    Ok(found)
}

/// What each unit still has to give.
struct Supply {
    /// Unit, its columns, and in how many more bases it may serve.
    units: Vec<(usize, Vec<usize>, usize)>,
}

impl Supply {
    fn new(tableau: &Tableau, weights: &[usize]) -> Self {
        let mut units: Vec<(usize, Vec<usize>, usize)> = Vec::new();
        let mut order: Vec<(usize, usize)> = tableau
            .units()
            .iter()
            .enumerate()
            .map(|(column, unit)| (*unit, column))
            .collect();
        order.sort_unstable();
        for (unit, column) in order {
            match units.last_mut() {
                Some((last, columns, _)) if *last == unit => columns.push(column),
                _ => units.push((unit, vec![column], weights.get(unit).copied().unwrap_or(0))),
            }
        }
        Self { units }
    }

    /// Whether `bases` of `rank` columns each are conceivable: a count, no algebra.
    fn could_serve(&self, bases: usize, rank: usize) -> bool {
        let each = self
            .units
            .iter()
            .map(|(_, columns, left)| columns.len().saturating_mul((*left).min(bases)));
        each.fold(0, usize::saturating_add) >= bases.saturating_mul(rank)
    }

    /// One more basis out of the units with most left, or `None` if they no longer span everything.
    fn take_basis(
        &mut self,
        tableau: &Tableau,
        work: &mut Work,
    ) -> Result<Option<Vec<(usize, usize)>>, Exhausted> {
        work.charge(self.units.len())?;
        self.units
            .sort_by_key(|(unit, _, left)| (usize::MAX - left, *unit));
        let mut echelon = Echelon::default();
        let mut basis = Vec::new();
        for (unit, columns, left) in self.units.iter_mut().filter(|(_, _, left)| *left > 0) {
            let before = basis.len();
            for column in columns {
                if basis.len() < tableau.rows() && echelon.add(tableau.column(*column).collect(), work)? {
                    basis.push((*unit, *column));
                }
            }
            *left -= usize::from(basis.len() > before);
            if basis.len() == tableau.rows() {
                return Ok(Some(basis));
            }
        }
        Ok(None)
    }
}

/// Independent vectors modulo the prime, reduced as they come and never scaled: dividing would cost more.
#[derive(Default)]
pub(super) struct Echelon {
    /// Position of the first entry that is not 0, and the vector.
    vectors: Vec<(usize, Vec<u64>)>,
}

impl Echelon {
    /// Adds the vector if it is independent of those before; whether it was.
    pub(super) fn add(&mut self, mut vector: Vec<u64>, work: &mut Work) -> Result<bool, Exhausted> {
        work.charge(vector.len() + OVERHEAD)?;
        for (lead, known) in &self.vectors {
            let factor = neg(vector.get(*lead).copied().unwrap_or(0));
            if factor != 0 {
                work.charge(vector.len())?;
                let scale = known.get(*lead).copied().unwrap_or(1);
                for (value, known) in vector.iter_mut().zip(known) {
                    *value = mul_add(mul(*value, scale), factor, *known);
                }
            }
        }
        let lead = vector.iter().position(|value| *value != 0);
        self.vectors.extend(lead.map(|lead| (lead, vector)));
        Ok(lead.is_some())
    }

    /// How many independent vectors came.
    pub(super) fn rank(&self) -> usize {
        self.vectors.len()
    }
}

/// What handling a vector costs besides its entries, in cells.
const OVERHEAD: usize = 16;
