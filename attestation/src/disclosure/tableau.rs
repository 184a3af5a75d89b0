//! The released sums in systematic form, modulo `2^61 - 1`, while units are deleted from it or kept.
//!
//! Rows span every combination that is still possible; each row has a basic column, where it is 1 and all
//! other rows are 0. *Keeping* a unit demands that the combination is zero on it: rows leave. *Deleting* a
//! unit lets the combination be anything on it: columns leave. When a row is left with no column, the units
//! deleted so far contain the whole support of a combination.

use super::field::{inverse, mul, mul_add, neg};
use super::work::{Exhausted, Work};

/// See the module.
#[derive(Clone)]
pub(super) struct Tableau {
    width: usize,
    /// Row-major, `basic.len()` by `width`.
    cells: Vec<u64>,
    /// The unit of each column.
    units: Vec<usize>,
    /// The basic column of each row.
    basic: Vec<usize>,
}

impl Tableau {
    /// Builds the systematic form of 0/1 `columns`, each given as its rows' entries with its unit.
    /// Basic columns are taken from the front, so put the ones to be kept early first.
    ///
    /// Returns `None` where the rows are not independent modulo the prime.
    pub(super) fn new(
        rows: usize,
        columns: &[(usize, &[bool])],
        work: &mut Work,
    ) -> Result<Option<Self>, Exhausted> {
        let width = columns.len();
        let mut cells = vec![0; rows * width];
        for (row, line) in cells.chunks_exact_mut(width.max(1)).enumerate() {
            for (cell, (_, column)) in line.iter_mut().zip(columns) {
                *cell = u64::from(column.get(row).copied().unwrap_or(false));
            }
        }
        let units = columns.iter().map(|(unit, _)| *unit).collect();
        let mut tableau = Self {
            width,
            cells,
            units,
            basic: vec![NONE; rows],
        };
        for column in 0..width {
            let free = (0..rows).find(|row| tableau.is_open(*row) && tableau.cell(*row, column) != 0);
            if let Some(row) = free {
                tableau.pivot(row, column, work)?;
            }
        }
        Ok((0..rows).all(|row| !tableau.is_open(row)).then_some(tableau))
    }

    /// How many independent combinations are left.
    pub(super) fn rows(&self) -> usize {
        self.basic.len()
    }

    /// The unit of every column, in column order.
    pub(super) fn units(&self) -> &[usize] {
        &self.units
    }

    /// A column's entries, top to bottom.
    pub(super) fn column(&self, column: usize) -> impl Iterator<Item = u64> {
        self.cells.iter().skip(column).step_by(self.width.max(1)).copied()
    }

    /// The unit of a row's basic column.
    pub(super) fn basic_unit(&self, row: usize) -> Option<usize> {
        self.units.get(*self.basic.get(row)?).copied()
    }

    /// The row whose units weigh least, and their weight: the combination nearest to being exposed.
    pub(super) fn lightest_row(
        &self,
        weights: &[usize],
        work: &mut Work,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        work.charge(self.cells.len())?;
        let mut counted = vec![0; weights.len()];
        let mut lightest: Option<(usize, usize)> = None;
        for row in 0..self.rows() {
            let mut weight = 0_usize;
            for unit in self.row_units(row) {
                if let (Some(last), Some(more)) = (counted.get_mut(unit), weights.get(unit))
                    && std::mem::replace(last, row + 1) != row + 1
                {
                    weight = weight.saturating_add(*more);
                }
            }
            if lightest.is_none_or(|(_, least)| weight < least) {
                lightest = Some((row, weight));
            }
        }
        Ok(lightest)
    }

    /// The units on which a row is not zero, repeated for each of their columns.
    pub(super) fn row_units(&self, row: usize) -> impl Iterator<Item = usize> {
        self.line(row)
            .iter()
            .zip(&self.units)
            .filter(|(cell, _)| **cell != 0)
            .map(|(_, unit)| *unit)
    }

    /// Number of cells held.
    pub(super) fn size(&self) -> usize {
        self.cells.len()
    }

    /// Whether deleting the unit, which owns just one column, the basic one of `row`, loses a rank.
    /// Without building the smaller tableau.
    pub(super) fn is_alone(&self, row: usize, unit: usize) -> bool {
        self.row_units(row).all(|owner| owner == unit)
    }

    /// Whether more than one column belongs to the unit.
    pub(super) fn is_wide(&self, unit: usize) -> bool {
        self.units.iter().filter(|owner| **owner == unit).count() > 1
    }

    /// Demands zero on the unit.
    pub(super) fn keep(&mut self, unit: usize, work: &mut Work) -> Result<(), Exhausted> {
        for column in 0..self.width {
            if self.units.get(column) != Some(&unit) {
                continue;
            }
            if let Some(row) = (0..self.rows()).find(|row| self.cell(*row, column) != 0) {
                if self.basic.get(row) != Some(&column) {
                    self.pivot(row, column, work)?;
                }
                work.charge(self.cells.len())?;
                self.basic.remove(row);
                self.cells.drain(row * self.width..(row + 1) * self.width);
            }
        }
        Ok(())
    }

    /// The tableau with the unit's columns gone, or `None` if that leaves a combination with no column.
    /// Columns that no combination can touch any more go as well. Heavier units are preferred as new basis.
    pub(super) fn without(
        &self,
        unit: usize,
        weights: &[usize],
        work: &mut Work,
    ) -> Result<Option<Self>, Exhausted> {
        work.charge(self.cells.len())?;
        let mut touched = vec![false; self.width];
        for line in self.cells.chunks_exact(self.width.max(1)) {
            for (touched, cell) in touched.iter_mut().zip(line) {
                *touched |= *cell != 0;
            }
        }
        let stays = touched
            .iter()
            .zip(&self.units)
            .map(|(touched, owner)| *touched && *owner != unit);
        let stays: Vec<bool> = stays.collect();
        let pick = |line: &[u64]| -> Vec<u64> {
            line.iter()
                .zip(&stays)
                .filter(|(_, stays)| **stays)
                .map(|(cell, _)| *cell)
                .collect()
        };
        let units: Vec<usize> = self
            .units
            .iter()
            .zip(&stays)
            .filter(|(_, stays)| **stays)
            .map(|(unit, _)| *unit)
            .collect();
        let mut position = 0;
        let moved: Vec<usize> = stays
            .iter()
            .map(|stays| {
                position += usize::from(*stays);
                if *stays { position - 1 } else { NONE }
            })
            .collect();
        let basic = self
            .basic
            .iter()
            .map(|column| moved.get(*column).copied().unwrap_or(NONE))
            .collect();
        let cells = self
            .cells
            .chunks_exact(self.width.max(1))
            .flat_map(pick)
            .collect();
        let mut child = Self {
            width: units.len(),
            cells,
            units,
            basic,
        };
        for row in 0..child.rows() {
            if child.is_open(row) {
                let line = child.line(row).iter().zip(&child.units).enumerate();
                let heaviest = line
                    .filter(|(_, (cell, _))| **cell != 0)
                    .max_by_key(|(column, (_, unit))| (weights.get(**unit), usize::MAX - column));
                let Some((column, _)) = heaviest else {
                    return Ok(None);
                };
                child.pivot(row, column, work)?;
            }
        }
        Ok(Some(child))
    }

    /// Makes `column` the basic column of `row`, whose entry there is not zero.
    fn pivot(&mut self, row: usize, column: usize, work: &mut Work) -> Result<(), Exhausted> {
        work.charge(self.cells.len())?;
        let scale = inverse(self.cell(row, column));
        let pivot: Vec<u64> = self.line(row).iter().map(|cell| mul(*cell, scale)).collect();
        for (index, line) in self.cells.chunks_exact_mut(self.width).enumerate() {
            if index == row {
                line.copy_from_slice(&pivot);
                continue;
            }
            let factor = neg(line.get(column).copied().unwrap_or(0));
            if factor != 0 {
                for (cell, pivot) in line.iter_mut().zip(&pivot) {
                    *cell = mul_add(*cell, factor, *pivot);
                }
            }
        }
        if let Some(basic) = self.basic.get_mut(row) {
            *basic = column;
        }
        Ok(())
    }

    fn is_open(&self, row: usize) -> bool {
        self.basic.get(row) == Some(&NONE)
    }

    fn line(&self, row: usize) -> &[u64] {
        self.cells
            .get(row * self.width..(row + 1) * self.width)
            .unwrap_or(&[])
    }

    fn cell(&self, row: usize, column: usize) -> u64 {
        self.cells.get(row * self.width + column).copied().unwrap_or(0)
    }
}

/// No basic column yet.
const NONE: usize = usize::MAX;
