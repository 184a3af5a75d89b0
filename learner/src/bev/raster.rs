//! Boxes of vehicles into grid cells and pictures.

use serde::{Deserialize, Serialize};

use crate::bev::camera::{Camera, Pixel};
use crate::bev::grid::Grid;
use crate::bev::pose::Vec3;

/// A vehicle's box standing upright, metres and radians in ego axes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VehicleBox {
    /// Middle, ahead.
    pub x: f64,
    /// Middle, left.
    pub y: f64,
    /// Underside above the ground.
    #[serde(default)]
    pub bottom: f64,
    /// Heading, counted to the left from ahead.
    pub yaw: f64,
    /// Along the heading.
    pub length: f64,
    /// Across.
    pub width: f64,
    /// Upwards.
    pub height: f64,
}

impl VehicleBox {
    /// Whether all numbers are finite and the sizes positive and below 100 m.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let size = |s: f64| s > 0.0 && s < 100.0;
        [self.x, self.y, self.bottom, self.yaw]
            .iter()
            .all(|v| v.is_finite())
            && [self.length, self.width, self.height].into_iter().all(size)
    }

    /// Whether a place on the ground lies under the box, edges included.
    #[must_use]
    pub fn covers(&self, [x, y]: [f64; 2]) -> bool {
        let (s, c) = self.yaw.sin_cos();
        let (dx, dy) = (x - self.x, y - self.y);
        let along = dx * c + dy * s;
        let across = dy * c - dx * s;
        along.abs() <= self.length / 2.0 && across.abs() <= self.width / 2.0
    }

    /// The middle of the box.
    #[must_use]
    pub fn centre(&self) -> Vec3 {
        [self.x, self.y, self.bottom + self.height / 2.0]
    }

    /// The eight corners: the four lower ones first.
    #[must_use]
    pub fn corners(&self) -> [Vec3; 8] {
        let (s, c) = self.yaw.sin_cos();
        let corner = |along: f64, across: f64, up: f64| {
            let (a, b) = (along * self.length, across * self.width);
            [
                self.x + a * c - b * s,
                self.y + a * s + b * c,
                self.bottom + up * self.height,
            ]
        };
        let ring = |up: f64| {
            [
                corner(0.5, 0.5, up),
                corner(0.5, -0.5, up),
                corner(-0.5, -0.5, up),
                corner(-0.5, 0.5, up),
            ]
        };
        let ([a, b, c2, d], [e, f, g, h]) = (ring(0.0), ring(1.0));
        [a, b, c2, d, e, f, g, h]
    }

    /// Where the middle of the box appears, if it is in front of the camera and in its picture.
    #[must_use]
    pub fn seen_by(&self, camera: &Camera) -> Option<Pixel> {
        camera.project(self.centre()).filter(|pixel| camera.shows(*pixel))
    }
}

/// The cells whose middle lies under a box, row-major.
#[must_use]
pub fn rasterise(grid: Grid, boxes: &[VehicleBox]) -> Vec<bool> {
    let mut map = vec![false; grid.area()];
    for vehicle in boxes {
        let reach = 0.5 * vehicle.length.hypot(vehicle.width) + grid.cell_m();
        let half = grid.metres / 2.0;
        let clamp = |v: f64| v.clamp(-half, half - 1e-9);
        let low = |v: f64| clamp(v - reach);
        let high = |v: f64| clamp(v + reach);
        if vehicle.x.abs() > half + reach || vehicle.y.abs() > half + reach {
            continue;
        }
        // Rows count backwards, so the far end has the smallest.
        let ends = (
            grid.cell_at([high(vehicle.x), high(vehicle.y)]),
            grid.cell_at([low(vehicle.x), low(vehicle.y)]),
        );
        let (first, last) = match ends {
            (Some(first), Some(last)) => (first, last),
            _ => ((0, 0), (grid.cells - 1, grid.cells - 1)),
        };
        for row in first.0..=last.0 {
            for column in first.1..=last.1 {
                if vehicle.covers(grid.centre(row, column))
                    && let Some(cell) = map.get_mut(row * grid.cells + column)
                {
                    *cell = true;
                }
            }
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bev::camera::Intrinsics;
    use crate::bev::grid::Mirror;
    use crate::bev::pose::Pose;

    fn car(x: f64, y: f64, yaw: f64) -> VehicleBox {
        VehicleBox {
            x,
            y,
            bottom: 0.0,
            yaw,
            length: 4.0,
            width: 2.0,
            height: 1.5,
        }
    }

    /// A car 20 m ahead and 10 m left, lengthwise: rows 56 to 63, columns 78 to 81 of the half-metre grid, by hand; in
    /// the other three conventions those indices counted from the other end.
    #[test]
    fn a_known_box_fills_the_right_cells_in_all_four_conventions() {
        let grid = Grid::PLAIN;
        let map = rasterise(grid, &[car(20.0, 10.0, 0.0)]);
        for mirror in Mirror::ALL {
            let seen = mirror.apply(200, &map);
            let cells: Vec<(usize, usize)> = (0..200 * 200)
                .filter(|&i| seen[i])
                .map(|i| (i / 200, i % 200))
                .collect();
            let rows = if mirror.rows { 136..=143 } else { 56..=63 };
            let columns = if mirror.columns { 118..=121 } else { 78..=81 };
            let expected: Vec<(usize, usize)> = rows
                .flat_map(|row| columns.clone().map(move |column| (row, column)))
                .collect();
            assert_eq!(cells, expected, "{}", mirror.describe());
        }
    }

    /// The same box in a picture: computed by hand for a level camera 1.5 m up.
    #[test]
    fn a_known_box_appears_at_the_right_pixels() {
        let camera = Camera {
            name: "front".to_owned(),
            intrinsics: Intrinsics {
                fx: 100.0,
                fy: 100.0,
                cx: 64.0,
                cy: 48.0,
                width: 128,
                height: 96,
            },
            to_ego: Pose::of_camera([0.0, 0.0, 1.5], 0.0, 0.0, 0.0),
        };
        let vehicle = car(20.0, 10.0, 0.0);
        let pixels = vehicle.corners().map(|corner| camera.project(corner).unwrap());
        // Near lower right corner: x 18, y 9, z 0. Far upper left: x 22, y 11, z 1.5.
        assert!((pixels[2].u - (64.0 - 100.0 * 9.0 / 18.0)).abs() < 1e-9);
        assert!((pixels[2].v - (48.0 + 100.0 * 1.5 / 18.0)).abs() < 1e-9);
        assert!((pixels[4].u - (64.0 - 100.0 * 11.0 / 22.0)).abs() < 1e-9);
        assert!((pixels[4].v - 48.0).abs() < 1e-9);
        let middle = vehicle.seen_by(&camera).unwrap();
        assert!((middle.u - 14.0).abs() < 1e-9 && (middle.v - (48.0 + 3.75)).abs() < 1e-9);
        assert!(
            car(20.0, 14.0, 0.0).seen_by(&camera).is_none(),
            "beside the picture"
        );
        assert!(car(-20.0, 0.0, 0.0).seen_by(&camera).is_none(), "behind");
    }

    #[test]
    fn headings_turn_to_the_left() {
        let vehicle = car(0.0, 0.0, std::f64::consts::FRAC_PI_2);
        assert!(vehicle.covers([0.9, 1.9]) && !vehicle.covers([1.9, 0.9]));
        let slanted = car(0.0, 0.0, std::f64::consts::FRAC_PI_4);
        assert!(slanted.covers([1.3, 1.3]) && !slanted.covers([1.3, -1.3]));
    }

    #[test]
    fn senseless_boxes_are_told_apart() {
        assert!(car(1.0, 2.0, 3.0).is_sound());
        for change in [
            (|b| b.x = f64::NAN) as fn(&mut VehicleBox),
            |b| b.length = 0.0,
            |b| b.width = -1.0,
            |b| b.height = f64::INFINITY,
        ] {
            let mut vehicle = car(0.0, 0.0, 0.0);
            change(&mut vehicle);
            assert!(!vehicle.is_sound());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against the slow way: every cell tested.
        #[test]
        fn nothing_is_missed_outside_the_searched_patch(
            x in -60.0_f64..60.0, y in -60.0_f64..60.0, yaw in -4.0_f64..4.0, length in 0.5_f64..20.0, width in 0.5_f64..5.0,
        ) {
            let grid = Grid { cells: 64, metres: 100.0 };
            let vehicle = VehicleBox { x, y, yaw, length, width, ..car(0.0, 0.0, 0.0) };
            let fast = rasterise(grid, &[vehicle]);
            for (i, cell) in fast.iter().enumerate() {
                prop_assert_eq!(*cell, vehicle.covers(grid.centre(i / 64, i % 64)));
            }
        }
    }
}
