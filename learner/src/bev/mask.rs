//! Which cells the cameras can see: adaptive multi-camera masking (AMCM).
//!
//! After Song, Xu, Ma and others, "FedBEVT" (2023): a vehicle with fewer cameras neither learns from nor is scored on
//! ground that none of them looks at.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bev::GeometryError;
use crate::bev::camera::{Camera, NEAREST_M};
use crate::bev::grid::Grid;
use crate::bev::rig::{Rig, Side};

/// How absent cameras are dealt with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Amcm {
    /// The union of the cameras' fields of view, from K and extrinsics, as the paper says: cells outside it are no
    /// query, no label and no score.
    #[default]
    Fov,
    /// The published code's rule: the square cut by its diagonals into four triangles, of which those of absent sides
    /// are blanked in the label. Queries are not masked.
    Triangles,
    /// No mask: absent sides get black pictures from the usual pose, labels stay whole.
    Off,
}

/// Visible cells of one vehicle, computed once.
#[derive(Clone, Debug, PartialEq)]
pub struct Masks {
    amcm: Amcm,
    grid: Grid,
    cells: Vec<bool>,
    tokens: BTreeMap<usize, Vec<bool>>,
}

impl Masks {
    /// The masks of a rig: at the label's grid, and for query maps of the given sides.
    ///
    /// # Errors
    ///
    /// [`GeometryError::Grid`] for an unusable grid or a query map without cells.
    pub fn new(amcm: Amcm, rig: &Rig, grid: Grid, query_sides: &[usize]) -> Result<Self, GeometryError> {
        let grid = Grid::new(grid.cells, grid.metres)?;
        let cells = match amcm {
            Amcm::Fov => field_of_view(rig, grid),
            Amcm::Triangles => {
                let sides = rig.sides();
                let at = |i: usize| sides.contains(&triangle(grid.cells, i / grid.cells, i % grid.cells));
                (0..grid.area()).map(at).collect()
            }
            Amcm::Off => vec![true; grid.area()],
        };
        let mut masks = Self {
            amcm,
            grid,
            cells,
            tokens: BTreeMap::new(),
        };
        for &side in query_sides {
            Grid::new(side, grid.metres)?;
            let tokens = masks.coarse(side);
            masks.tokens.insert(side, tokens);
        }
        Ok(masks)
    }

    /// The rule.
    #[must_use]
    pub fn amcm(&self) -> Amcm {
        self.amcm
    }

    /// The label's grid.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// True where a cell counts, row-major.
    #[must_use]
    pub fn cells(&self) -> &[bool] {
        &self.cells
    }

    /// True where a query of a map of `side` × `side` takes part. `None` if no query is masked: under another rule than
    /// [`Amcm::Fov`], or if everything is seen, or for a side not asked for at the start.
    #[must_use]
    pub fn queries(&self, side: usize) -> Option<&[bool]> {
        let tokens = self.tokens.get(&side).filter(|_| self.amcm == Amcm::Fov)?;
        tokens.contains(&false).then_some(tokens.as_slice())
    }

    /// Share of cells that count.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most 2^24 cells")]
    pub fn share(&self) -> f64 {
        self.cells.iter().filter(|seen| **seen).count() as f64 / self.cells.len() as f64
    }

    /// A query takes part if any cell of its patch is seen.
    fn coarse(&self, side: usize) -> Vec<bool> {
        let cells = self.grid.cells;
        let span = |i: usize| (i * cells / side)..((i + 1) * cells).div_ceil(side);
        let mut tokens = Vec::with_capacity(side * side);
        for row in 0..side {
            for column in 0..side {
                let seen = span(row)
                    .any(|r| span(column).any(|c| self.cells.get(r * cells + c).copied().unwrap_or(false)));
                tokens.push(seen);
            }
        }
        tokens
    }
}

/// The triangle that a cell of a square of `size` belongs to.
///
/// Cells on a diagonal go where the published code puts them, so that the four tile the square exactly once.
#[must_use]
pub fn triangle(size: usize, row: usize, column: usize) -> Side {
    match (column >= row, column + row < size) {
        (true, true) => Side::Front,
        (false, true) => Side::Left,
        (false, false) => Side::Rear,
        (true, false) => Side::Right,
    }
}

/// The cells over which some camera sees something between the ground and a car's height: the cameras' view pyramids,
/// cut to that layer and projected down, united. For one camera that is a convex polygon.
#[must_use]
pub fn field_of_view(rig: &Rig, grid: Grid) -> Vec<bool> {
    let lines: Vec<Sight> = rig.cameras().iter().map(Sight::of).collect();
    (0..grid.area())
        .map(|i| {
            let place = grid.centre(i / grid.cells, i % grid.cells);
            lines.iter().any(|sight| sight.reaches(place))
        })
        .collect()
}

/// A view pyramid as half-spaces a·x + b·y + c·z + d ≥ 0 in ego axes.
struct Sight {
    faces: [[f64; 4]; 5],
}

impl Sight {
    fn of(camera: &Camera) -> Self {
        let k = camera.intrinsics;
        let [width, height] = k.size();
        // In camera axes; a picture position u ≥ 0 is fx·x + cx·z ≥ 0, and so on.
        let faces = [
            [k.fx, 0.0, k.cx, 0.0],
            [-k.fx, 0.0, width - k.cx, 0.0],
            [0.0, k.fy, k.cy, 0.0],
            [0.0, -k.fy, height - k.cy, 0.0],
            [0.0, 0.0, 1.0, -NEAREST_M],
        ];
        let to_camera = camera.to_ego.inverse().matrix();
        let faces = faces.map(|face| {
            let column = |j: usize| -> f64 {
                to_camera
                    .iter()
                    .zip(face)
                    .map(|(row, f)| row.get(j).copied().unwrap_or(0.0) * f)
                    .sum()
            };
            [column(0), column(1), column(2), column(3)]
        });
        Self { faces }
    }

    /// Whether some height between the ground and [`CAR_HEIGHT_M`] over a place lies in the pyramid.
    fn reaches(&self, [x, y]: [f64; 2]) -> bool {
        let (mut low, mut high) = (0.0_f64, CAR_HEIGHT_M);
        for [a, b, c, d] in self.faces {
            let base = a * x + b * y + d;
            if c.abs() < 1e-12 {
                if base < 0.0 {
                    return false;
                }
            } else if c > 0.0 {
                low = low.max(-base / c);
            } else {
                high = high.min(-base / c);
            }
        }
        low <= high
    }
}

/// The layer above the ground in which vehicles are seen, metres: the height of a low car.
const CAR_HEIGHT_M: f64 = 1.4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bev::camera::Intrinsics;
    use crate::bev::pose::Pose;

    fn camera(name: &str, yaw: f64, pitch: f64) -> Camera {
        Camera {
            name: name.to_owned(),
            intrinsics: Intrinsics {
                fx: 64.0,
                fy: 64.0,
                cx: 64.0,
                cy: 48.0,
                width: 128,
                height: 96,
            },
            to_ego: Pose::of_camera([1.0, 0.3, 1.6], yaw.to_radians(), pitch.to_radians(), 0.05),
        }
    }

    fn rig(yaws: &[f64]) -> Rig {
        Rig::new(yaws.iter().map(|y| camera(&format!("c{y}"), *y, 6.0)).collect()).unwrap()
    }

    /// Counts published with the rule; they tile the square exactly once.
    #[test]
    fn triangles_have_the_published_sizes() {
        let mut counts = BTreeMap::new();
        for row in 0..256 {
            for column in 0..256 {
                *counts.entry(triangle(256, row, column)).or_insert(0) += 1;
            }
        }
        let of = |side| counts[&side];
        assert_eq!(
            [of(Side::Front), of(Side::Left), of(Side::Rear), of(Side::Right)],
            [16_512, 16_384, 16_256, 16_384]
        );
        assert_eq!(counts.values().sum::<i32>(), 65_536);
    }

    #[test]
    fn triangles_follow_the_cameras_not_their_order() {
        let grid = Grid {
            cells: 64,
            metres: 100.0,
        };
        // Right and rear only, listed in the reverse order.
        let masks = Masks::new(Amcm::Triangles, &rig(&[180.0, -90.0]), grid, &[16]).unwrap();
        let at = |x: f64, y: f64| {
            let (row, column) = grid.cell_at([x, y]).unwrap();
            masks.cells()[row * 64 + column]
        };
        assert!(at(-40.0, 0.5) && at(0.5, -40.0));
        assert!(!at(40.0, 0.5) && !at(0.5, 40.0));
        assert!(masks.queries(16).is_none(), "this rule masks labels alone");
        assert!((masks.share() - 0.5).abs() < 0.02);
    }

    /// Against brute force: heights sampled finely and projected with the camera itself.
    #[test]
    fn field_of_view_is_what_projects_into_a_picture() {
        let grid = Grid {
            cells: 40,
            metres: 100.0,
        };
        for yaws in [vec![0.0], vec![0.0, 100.0, -100.0], vec![170.0]] {
            let rig = rig(&yaws);
            let mask = field_of_view(&rig, grid);
            let mut doubtful = 0;
            for (i, seen) in mask.iter().enumerate() {
                let [x, y] = grid.centre(i / 40, i % 40);
                let sampled = (0..=700).any(|step| {
                    let z = CAR_HEIGHT_M * f64::from(step) / 700.0;
                    rig.cameras()
                        .iter()
                        .any(|c| c.project([x, y, z]).is_some_and(|pixel| c.shows(pixel)))
                });
                assert!(*seen || !sampled, "cell {i} is seen but masked");
                doubtful += i32::from(*seen && !sampled);
            }
            assert!(
                doubtful <= 1,
                "{doubtful} cells unmasked although nothing there is seen"
            );
        }
    }

    /// From a bus's height the ground before the wheels lies below the picture, to the centimetre by hand: 3.4 m up,
    /// pitched 10° down, half the view 36.87° down: at a car's height of 1.4 m the lowest ray is 2 / tan 46.87° ahead.
    #[test]
    fn what_lies_below_the_picture_is_not_seen() {
        let mut high = camera("bus", 0.0, 10.0);
        high.to_ego = Pose::of_camera([0.0, 0.0, 3.4], 0.0, 10_f64.to_radians(), 0.0);
        let nearest = 2.0 / 46.869_9_f64.to_radians().tan();
        let sight = Sight::of(&high);
        assert!(sight.reaches([nearest + 0.01, 0.0]) && !sight.reaches([nearest - 0.01, 0.0]));
    }

    #[test]
    fn one_forward_camera_sees_a_wedge() {
        let grid = Grid::PLAIN;
        let masks = Masks::new(Amcm::Fov, &rig(&[0.0]), grid, &[50, 25]).unwrap();
        let at = |x: f64, y: f64| {
            let (row, column) = grid.cell_at([x, y]).unwrap();
            masks.cells()[row * 200 + column]
        };
        // 90° across: as far left as ahead.
        assert!(at(30.0, 25.0) && at(30.0, -25.0) && at(45.0, 0.0));
        assert!(!at(20.0, 25.0) && !at(-5.0, 0.0) && !at(0.0, 10.0));
        let tokens = masks.queries(25).unwrap();
        assert_eq!(tokens.len(), 625);
        for (i, token) in tokens.iter().enumerate() {
            let any =
                (0..8).any(|r| (0..8).any(|c| masks.cells()[((i / 25) * 8 + r) * 200 + (i % 25) * 8 + c]));
            assert_eq!(*token, any);
        }
        assert!(masks.queries(13).is_none(), "not asked for");
    }

    #[test]
    fn off_masks_nothing() {
        let masks = Masks::new(Amcm::Off, &rig(&[0.0]), Grid::PLAIN, &[25]).unwrap();
        assert!((masks.share() - 1.0).abs() < 1e-12 && masks.queries(25).is_none());
        assert!(
            Masks::new(
                Amcm::Fov,
                &rig(&[0.0]),
                Grid {
                    cells: 0,
                    metres: 1.0
                },
                &[]
            )
            .is_err()
        );
    }
}
