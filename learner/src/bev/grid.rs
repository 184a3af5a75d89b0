//! Cells of a bird's-eye view and the metres they stand for.

use serde::{Deserialize, Serialize};

use crate::bev::GeometryError;

/// A square grid centred on the vehicle. Row 0 is farthest ahead, column 0 farthest left.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// Cells a side.
    pub cells: usize,
    /// Metres a side.
    pub metres: f64,
}

impl Grid {
    /// The grid of plain folders: 200 × 200 cells of half a metre.
    pub const PLAIN: Self = Self {
        cells: 200,
        metres: 100.0,
    };
    /// The grid of OPV2V's labels as FedBEVT uses them: 256 × 256 cells over 100 m.
    pub const OPV2V: Self = Self {
        cells: 256,
        metres: 100.0,
    };

    /// A checked grid.
    ///
    /// # Errors
    ///
    /// [`GeometryError::Grid`] unless it has 1 to 4096 cells a side and a positive, finite size.
    pub fn new(cells: usize, metres: f64) -> Result<Self, GeometryError> {
        let usable = (1..=4096).contains(&cells) && metres.is_finite() && metres > 0.0;
        usable
            .then_some(Self { cells, metres })
            .ok_or(GeometryError::Grid { cells, metres })
    }

    /// Cells in all.
    #[must_use]
    pub fn area(&self) -> usize {
        self.cells * self.cells
    }

    /// Metres a cell.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most 4096 cells")]
    pub fn cell_m(&self) -> f64 {
        self.metres / self.cells as f64
    }

    /// x and y of a cell's middle, metres in ego axes.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most 4096 cells")]
    pub fn centre(&self, row: usize, column: usize) -> [f64; 2] {
        let along = |i: usize| self.metres / 2.0 - (i as f64 + 0.5) * self.cell_m();
        [along(row), along(column)]
    }

    /// Row and column of a place; `None` outside the grid.
    #[must_use]
    pub fn cell_at(&self, [x, y]: [f64; 2]) -> Option<(usize, usize)> {
        let index = |metres: f64| {
            let cells = (self.metres / 2.0 - metres) / self.cell_m();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to lie in 0..4096"
            )]
            (cells >= 0.0 && cells.floor() < self.extent()).then(|| cells.floor() as usize)
        };
        Some((index(x)?, index(y)?))
    }

    /// x and y of node (`row`, `column`) of a map of `side` × `side` nodes that spans the grid, end points included: the
    /// corners lie exactly at ± half the size. This is how the published network places its queries.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most 4096 cells")]
    pub fn node(&self, side: usize, row: usize, column: usize) -> [f64; 2] {
        let steps = side.saturating_sub(1).max(1) as f64;
        let along = |i: usize| self.metres * (0.5 - i as f64 / steps);
        [along(row), along(column)]
    }

    #[expect(clippy::cast_precision_loss, reason = "at most 4096 cells")]
    fn extent(&self) -> f64 {
        self.cells as f64
    }
}

/// How another source lays its rows and columns out, relative to [`Grid`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// Row 0 is farthest behind.
    pub rows: bool,
    /// Column 0 is farthest right.
    pub columns: bool,
}

impl Mirror {
    /// All four conventions, this crate's own first.
    pub const ALL: [Self; 4] = [
        Self {
            rows: false,
            columns: false,
        },
        Self {
            rows: false,
            columns: true,
        },
        Self {
            rows: true,
            columns: false,
        },
        Self {
            rows: true,
            columns: true,
        },
    ];

    /// Re-lays a row-major map of `cells` × `cells`. Its own inverse.
    #[must_use]
    pub fn apply<T: Copy>(self, cells: usize, map: &[T]) -> Vec<T> {
        let mut rows: Vec<&[T]> = map.chunks(cells.max(1)).collect();
        if self.rows {
            rows.reverse();
        }
        let mut out = Vec::with_capacity(map.len());
        for row in rows {
            if self.columns {
                out.extend(row.iter().rev());
            } else {
                out.extend(row);
            }
        }
        out
    }

    /// Words for reports.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match (self.rows, self.columns) {
            (false, false) => "row 0 ahead, column 0 left",
            (false, true) => "row 0 ahead, column 0 right",
            (true, false) => "row 0 behind, column 0 left",
            (true, true) => "row 0 behind, column 0 right",
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use super::*;

    #[test]
    fn row_0_is_ahead_and_column_0_left() {
        let grid = Grid::PLAIN;
        assert_eq!(grid.centre(0, 0), [49.75, 49.75]);
        assert_eq!(grid.centre(199, 100), [-49.75, -0.25]);
        assert_eq!(grid.cell_at([49.9, 0.1]), Some((0, 99)));
        assert_eq!(grid.cell_at([0.1, 49.9]), Some((99, 0)));
        assert_eq!(grid.cell_at([50.1, 0.0]), None);
        assert_eq!(grid.cell_at([-50.1, 0.0]), None);
        assert_eq!(grid.cell_at([f64::NAN, 0.0]), None);
    }

    #[test]
    fn centres_are_in_their_own_cells() {
        for grid in [Grid::PLAIN, Grid::OPV2V, Grid::new(7, 3.0).unwrap()] {
            for (row, column) in [(0, 0), (3, 5), (grid.cells - 1, 0)] {
                assert_eq!(grid.cell_at(grid.centre(row, column)), Some((row, column)));
            }
        }
    }

    /// The published grid's four corners are exactly ±50 m.
    #[test]
    fn nodes_include_the_end_points() {
        let grid = Grid::OPV2V;
        assert_eq!(grid.node(128, 0, 0), [50.0, 50.0]);
        assert_eq!(grid.node(128, 127, 0), [-50.0, 50.0]);
        assert_eq!(grid.node(128, 0, 127), [50.0, -50.0]);
        assert_eq!(grid.node(128, 127, 127), [-50.0, -50.0]);
        assert_eq!(grid.node(3, 1, 1), [0.0, 0.0]);
    }

    #[test]
    fn mirrors_are_their_own_inverse_and_differ() {
        let map: Vec<u8> = (0..9).collect();
        let mirrored: Vec<Vec<u8>> = Mirror::ALL.iter().map(|m| m.apply(3, &map)).collect();
        assert_eq!(mirrored[0], map);
        assert_eq!(mirrored[1], [2, 1, 0, 5, 4, 3, 8, 7, 6]);
        assert_eq!(mirrored[2], [6, 7, 8, 3, 4, 5, 0, 1, 2]);
        assert_eq!(mirrored[3], [8, 7, 6, 5, 4, 3, 2, 1, 0]);
        for (mirror, once) in Mirror::ALL.iter().zip(&mirrored) {
            assert_eq!(mirror.apply(3, once), map);
        }
    }

    #[test]
    fn unusable_grids_are_refused() {
        for (cells, metres) in [(0, 1.0), (5000, 1.0), (8, 0.0), (8, f64::NAN), (8, f64::INFINITY)] {
            assert!(Grid::new(cells, metres).is_err());
        }
    }
}
