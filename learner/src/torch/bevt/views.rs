//! What the network knows of a vehicle's cameras: rays, centres and the places of its queries, as tensors.

use tch::{Device, Tensor};

use crate::bev::{Camera, Grid, Masks, Rig};
use crate::torch::bevt::{BevtConfig, RayGeometry};
use crate::torch::block::size;

/// Computed once a vehicle.
#[derive(Debug)]
pub struct Views {
    /// Per level `[M, 4, h, w]`: the point at unit depth behind every pixel of the feature map, with a 1.
    pub(crate) rays: Vec<Tensor>,
    /// `[M, 4, 1, 1]`: the camera's place, with a 1.
    pub(crate) centres: Tensor,
    /// `[1, 2, S, S]`: x and y of the queries of the first level.
    pub(crate) places: Tensor,
    /// Per query map, last one included: which queries take part, `[S · S]`. `None` if all do.
    pub(crate) seen: Vec<Option<Tensor>>,
}

impl Views {
    /// For pictures of the network's size. `masks` were made for [`BevtConfig::query_sides`].
    #[must_use]
    pub fn new(config: &BevtConfig, rig: &Rig, masks: &Masks, device: Device) -> Self {
        let rig = rig.scaled(config.width, config.height);
        let maps = config.level_maps();
        let cameras = size(rig.cameras().len());
        let rays = maps
            .iter()
            .map(|&(_, rows, columns)| {
                let mut values: Vec<f32> = Vec::new();
                for camera in rig.cameras() {
                    values.extend(camera_rays(config, camera, rows, columns));
                }
                Tensor::from_slice(&values)
                    .view([cameras, 4, size(rows), size(columns)])
                    .to_device(device)
            })
            .collect();
        let mut centres: Vec<f32> = Vec::new();
        for camera in rig.cameras() {
            let [x, y, z] = pose(config, camera).map(|[_, _, _, t]| t);
            centres.extend([narrow(x), narrow(y), narrow(z), 1.0]);
        }
        let seen = config.query_sides().into_iter().map(|side| {
            let tokens = masks.queries(side)?;
            Some(Tensor::from_slice(tokens).to_device(device))
        });
        Self {
            rays,
            centres: Tensor::from_slice(&centres)
                .view([cameras, 4, 1, 1])
                .to_device(device),
            places: places(config, masks.grid()).to_device(device),
            seen: seen.collect(),
        }
    }

    /// Cameras.
    #[must_use]
    pub fn cameras(&self) -> i64 {
        self.centres.size().first().copied().unwrap_or(0)
    }
}

/// The upper rows of the camera's matrix in the axes that the geometry calls for.
fn pose(config: &BevtConfig, camera: &Camera) -> [[f64; 4]; 3] {
    let matrix = match config.geometry {
        RayGeometry::Correct => camera.to_ego.matrix(),
        RayGeometry::Legacy { .. } => camera.to_ego.camera_to_ue4().matrix(),
    };
    let [a, b, c, _] = matrix;
    [a, b, c]
}

/// Four planes of a feature map, row-major. Positions run over the whole picture, end points included.
fn camera_rays(config: &BevtConfig, camera: &Camera, rows: usize, columns: usize) -> Vec<f32> {
    let k = match config.geometry {
        RayGeometry::Correct => camera.intrinsics,
        // K stays that of the recorded pictures while positions run over the resized ones.
        RayGeometry::Legacy { width, height } => camera.intrinsics.scaled(width, height),
    };
    let [width, height] = camera.intrinsics.size();
    let along = |i: usize, count: usize, length: f64| length * share(i, count);
    let mut planes = vec![Vec::new(); 4];
    for row in 0..rows {
        for column in 0..columns {
            let [x, y, z] = k.direction(along(column, columns, width), along(row, rows, height));
            let point = pose(config, camera).map(|[a, b, c, t]| narrow(a * x + b * y + c * z + t));
            let [px, py, pz] = point;
            for (plane, value) in planes.iter_mut().zip([px, py, pz, 1.0]) {
                plane.push(value);
            }
        }
    }
    planes.concat()
}

fn places(config: &BevtConfig, grid: Grid) -> Tensor {
    let side = config.query;
    let sign = match config.geometry {
        RayGeometry::Correct => 1.0,
        RayGeometry::Legacy { .. } => -1.0,
    };
    let (mut xs, mut ys): (Vec<f32>, Vec<f32>) = (Vec::new(), Vec::new());
    for row in 0..side {
        for column in 0..side {
            let [x, y] = grid.node(side, row, column);
            xs.push(narrow(x));
            ys.push(narrow(sign * y));
        }
    }
    xs.extend(ys);
    Tensor::from_slice(&xs).view([1, 2, size(side), size(side)])
}

#[expect(
    clippy::cast_precision_loss,
    reason = "maps have far fewer than 2^52 pixels a side"
)]
fn share(i: usize, count: usize) -> f64 {
    i as f64 / count.saturating_sub(1).max(1) as f64
}

#[expect(clippy::cast_possible_truncation, reason = "metres for a network of f32")]
fn narrow(v: f64) -> f32 {
    v as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bev::{Amcm, Intrinsics, Pose};

    fn rig() -> Rig {
        let camera = |name: &str, position, yaw: f64| Camera {
            name: name.to_owned(),
            intrinsics: Intrinsics {
                fx: 335.64,
                fy: 335.64,
                cx: 400.0,
                cy: 300.0,
                width: 800,
                height: 600,
            },
            to_ego: Pose::of_camera(position, yaw.to_radians(), 0.1, 0.0),
        };
        Rig::new(vec![
            camera("front", [2.5, 0.0, 1.0], 0.0),
            camera("left", [0.0, 0.3, 1.8], 100.0),
        ])
        .unwrap()
    }

    fn views(geometry: RayGeometry) -> (BevtConfig, Views) {
        let config = BevtConfig {
            geometry,
            ..BevtConfig::tiny(Grid::PLAIN)
        };
        let masks = Masks::new(Amcm::Fov, &rig(), Grid::PLAIN, &config.query_sides()).unwrap();
        let views = Views::new(&config, &rig(), &masks, Device::Cpu);
        (config, views)
    }

    fn at(t: &Tensor, index: &[i64]) -> f64 {
        t.double_value(index)
    }

    /// Every ray of the correct geometry goes through its pixel: its point projects back to where it came from.
    #[test]
    fn correct_rays_project_back_to_their_pixels() {
        let (config, views) = views(RayGeometry::Correct);
        let (_, rows, columns) = config.level_maps()[0];
        let scaled = rig().scaled(config.width, config.height);
        for (m, camera) in scaled.cameras().iter().enumerate() {
            for (row, column) in [(0, 0), (rows - 1, columns - 1), (2, 3)] {
                let point = [0, 1, 2].map(|i| at(&views.rays[0], &[size(m), i, size(row), size(column)]));
                let pixel = camera.project(point).unwrap();
                let [w, h] = camera.intrinsics.size();
                assert!((pixel.u - w * share(column, columns)).abs() < 1e-3, "{pixel:?}");
                assert!((pixel.v - h * share(row, rows)).abs() < 1e-3, "{pixel:?}");
                assert!((pixel.depth - 1.0).abs() < 1e-5);
                assert!((at(&views.rays[0], &[size(m), 3, size(row), size(column)]) - 1.0).abs() < 1e-9);
            }
            let centre = [0, 1, 2].map(|i| at(&views.centres, &[size(m), i, 0, 0]));
            assert!(
                centre
                    .iter()
                    .zip(camera.to_ego.position())
                    .all(|(a, b)| (a - b).abs() < 1e-6)
            );
        }
    }

    /// The published code: pixels of the resized picture through the recorded K, no axis change. By hand for the front
    /// camera's last pixel with 48 × 32 pictures: ((48 − 400)/335.64, (32 − 300)/335.64, 1) through its Unreal matrix.
    #[test]
    fn legacy_rays_are_the_published_scrambling() {
        let legacy = RayGeometry::Legacy {
            width: 800,
            height: 600,
        };
        let (config, views) = views(legacy);
        let (_, rows, columns) = config.level_maps()[0];
        let direction = [(48.0 - 400.0) / 335.64, (32.0 - 300.0) / 335.64, 1.0];
        // Pitch 0.1 rad down in Unreal axes: x' = c·x + s·z, y' = y, z' = −s·x + c·z.
        let (s, c) = 0.1_f64.sin_cos();
        let expected = [
            c * direction[0] + s * direction[2] + 2.5,
            direction[1],
            -s * direction[0] + c * direction[2] + 1.0,
        ];
        for (i, e) in expected.iter().enumerate() {
            let found = at(&views.rays[0], &[0, size(i), size(rows) - 1, size(columns) - 1]);
            assert!((found - e).abs() < 1e-5, "{i}: {found} is not {e}");
        }
        let (_, correct) = super::tests::views(RayGeometry::Correct);
        let apart = (&views.rays[0] - &correct.rays[0]).abs().max().double_value(&[]);
        assert!(apart > 0.5, "the two geometries differ");
        // y counts to the right there: the left camera has a negative one.
        assert!(at(&views.centres, &[1, 1, 0, 0]) < -0.29);
    }

    #[test]
    fn queries_span_the_grid_and_unseen_ones_are_marked() {
        let (config, views) = views(RayGeometry::Correct);
        let last = size(config.query) - 1;
        let place = |i, row, column| at(&views.places, &[0, i, row, column]);
        assert!((place(0, 0, 0) - 50.0).abs() < 1e-5 && (place(1, 0, 0) - 50.0).abs() < 1e-5);
        assert!((place(0, last, 0) + 50.0).abs() < 1e-5 && (place(1, 0, last) + 50.0).abs() < 1e-5);
        let seen = views.seen[0].as_ref().unwrap();
        assert_eq!(seen.size(), [size(config.query * config.query)]);
        assert!(seen.get(0).int64_value(&[]) == 1, "ahead left");
        assert!(
            seen.get(last).int64_value(&[]) == 1 && seen.get(last * (last + 1) + last).int64_value(&[]) == 0
        );
    }
}
