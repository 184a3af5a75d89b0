//! Seeded traffic seen from cars, trucks and buses, for demos and tests where no recorded data is at hand.
//!
//! A ray caster renders a five-lane road with vehicles as boxes, and roadside blocks that are none, through one to four
//! cameras whose height, pitch and yaw differ between vehicle types as they do on real ones. Numbers reached on it say
//! that training and averaging work, not how a network does in the world.

use std::path::Path;

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::bev::raster::rasterise;
use crate::bev::{Camera, GeometryError, Grid, Intrinsics, Pose, Rig, Side, VehicleBox};
use crate::data::DataError;
use crate::data::bev::render::Traffic;
use crate::data::bev::{BevDataError, BevDataset, BevFrame, LabelKind};
use crate::data::picture::{write_mask, write_rgb};
use crate::data::scene::noise::range;

/// What carries the cameras.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VehicleKind {
    /// Cameras at 1.3 m, nearly level.
    Car,
    /// Cameras at 2.4 m, tilted down.
    Truck,
    /// Cameras at 3.3 m, tilted steeply down.
    Bus,
}

impl VehicleKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Car, Self::Truck, Self::Bus];

    /// Lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Car => "car",
            Self::Truck => "truck",
            Self::Bus => "bus",
        }
    }

    /// Length and width, metres.
    fn size(self) -> (f64, f64) {
        match self {
            Self::Car => (4.6, 1.9),
            Self::Truck => (8.8, 2.5),
            Self::Bus => (11.5, 2.55),
        }
    }

    /// Height, pitch down, yaw offset and horizontal field of view: metres and degrees.
    fn mounting(self) -> [f64; 4] {
        match self {
            Self::Car => [1.3, 2.0, 0.0, 90.0],
            Self::Truck => [2.4, 9.0, -5.0, 80.0],
            Self::Bus => [3.3, 17.0, 6.0, 100.0],
        }
    }
}

/// One vehicle with its recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    /// What carries the cameras.
    pub kind: VehicleKind,
    /// Where they look: one camera for each.
    pub cameras: Vec<Side>,
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Cells around the vehicle.
    pub grid: Grid,
    /// Training frames.
    pub train: usize,
    /// Test frames.
    pub test: usize,
    /// Seed. Other seeds give other traffic and slightly other camera poses.
    pub seed: u64,
}

/// One rendered moment.
struct Moment {
    pictures: Vec<Vec<u8>>,
    vehicles: Vec<(VehicleBox, u64)>,
}

impl Fleet {
    /// A name such as `truck-7` or `car-7-front`, with the sides if they are not all four.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = format!("{}-{}", self.kind.name(), self.seed);
        if self.cameras.len() < Side::ALL.len() {
            for side in &self.cameras {
                name.push('-');
                name.push_str(side.name());
            }
        }
        name
    }

    /// The cameras. Poses vary with the seed by a degree and a hand's breadth, as mounts do.
    ///
    /// # Errors
    ///
    /// [`GeometryError`] without cameras or with two on one side.
    pub fn rig(&self) -> Result<Rig, GeometryError> {
        let [height, pitch, turn, view] = self.kind.mounting();
        let (length, width) = self.kind.size();
        let mut rng = self.rng(u64::MAX, 0);
        let mut vary = |span: f64| span * f64::from(range(&mut rng, -1.0, 1.0));
        let mut cameras = Vec::new();
        for side in Side::ALL {
            let (x, y, yaw) = match side {
                Side::Front => (0.3 * length, 0.0, 0.0),
                Side::Left => (0.1 * length, 0.5 * width, 95.0),
                Side::Right => (0.1 * length, -0.5 * width, -95.0),
                Side::Rear => (-0.45 * length, 0.0, 180.0),
            };
            // Drawn for all sides, so that a vehicle with fewer cameras has the same others.
            let position = [x, y, height + vary(0.08)];
            let (yaw, pitch) = (yaw + turn + vary(1.5), pitch + vary(1.0));
            #[expect(clippy::cast_precision_loss, reason = "picture sizes are far below 2^52")]
            let (w, h) = (self.width as f64, self.height as f64);
            let focal = 0.5 * w / (view / 2.0).to_radians().tan();
            let k = [[focal, 0.0, w / 2.0], [0.0, focal, h / 2.0], [0.0, 0.0, 1.0]];
            cameras.push(Camera {
                name: side.name().to_owned(),
                intrinsics: Intrinsics::from_k(side.name(), k, (self.width, self.height))?,
                to_ego: Pose::of_camera(position, yaw.to_radians(), pitch.to_radians(), 0.0),
            });
        }
        let chosen = self
            .cameras
            .iter()
            .filter_map(|side| cameras.iter().find(|c| c.name == side.name()).cloned());
        Rig::new(chosen.collect())
    }

    /// Renders all frames.
    ///
    /// # Errors
    ///
    /// [`BevDataError`] for an empty picture, no frames or no cameras.
    pub fn dataset(&self, label: LabelKind) -> Result<BevDataset, BevDataError> {
        let rig = self.rig()?;
        let grid = Grid::new(self.grid.cells, self.grid.metres)?;
        let split = |name: &str, count: usize| -> Vec<BevFrame> {
            (0..count)
                .into_par_iter()
                .map(|i| {
                    let moment = self.moment(&rig, name, i);
                    let boxes = moment.boxes(label);
                    BevFrame::new(
                        format!("{name}/{i:04}"),
                        moment.pictures.concat(),
                        rasterise(grid, &boxes),
                    )
                })
                .collect()
        };
        BevDataset::new(
            self.name(),
            rig.clone(),
            grid,
            split("train", self.train),
            split("test", self.test),
        )
    }

    /// Writes all frames in the plain layout, see [`plain`](crate::data::bev::plain).
    ///
    /// # Errors
    ///
    /// [`BevDataError::File`] if something cannot be written.
    pub fn write_folder(&self, dir: &Path) -> Result<(), BevDataError> {
        let rig = self.rig()?;
        let grid = Grid::new(self.grid.cells, self.grid.metres)?;
        let mut frames = Vec::new();
        for (split, count) in [("train", self.train), ("test", self.test)] {
            let folder = |name: &str| -> Result<std::path::PathBuf, BevDataError> {
                let path = dir.join(split).join(name);
                std::fs::create_dir_all(&path).map_err(|source| DataError::Io {
                    path: path.clone(),
                    source,
                })?;
                Ok(path)
            };
            for i in 0..count {
                let moment = self.moment(&rig, split, i);
                // Numbers run on over the splits, as in a recording that was cut.
                let id = format!("{:04}", i + if split == "test" { self.train } else { 0 });
                let file = format!("{id}.png");
                for (camera, picture) in rig.cameras().iter().zip(&moment.pictures) {
                    write_rgb(
                        &folder(&camera.name)?.join(&file),
                        self.width,
                        self.height,
                        picture,
                    )?;
                }
                for (name, label) in [("bev", LabelKind::All), ("bev_visible", LabelKind::Visible)] {
                    let map = rasterise(grid, &moment.boxes(label));
                    write_mask(&folder(name)?.join(&file), grid.cells, grid.cells, &map)?;
                }
                let vehicles: Vec<_> = moment
                    .vehicles
                    .iter()
                    .map(|(v, pixels)| {
                        serde_json::json!({
                            "model": "box", "x": v.x, "y": v.y, "yaw": v.yaw, "length": v.length, "width": v.width,
                            "height": v.height, "pixels": if *pixels < LEAST_PIXELS { 0 } else { *pixels },
                        })
                    })
                    .collect();
                frames.push(serde_json::json!({ "id": id, "split": split, "vehicles": vehicles }));
            }
        }
        let cameras: Vec<_> = rig
            .cameras()
            .iter()
            .map(|c| {
                let k = c.intrinsics;
                serde_json::json!({
                    "name": c.name, "K": [[k.fx, 0.0, k.cx], [0.0, k.fy, k.cy], [0.0, 0.0, 1.0]],
                    "camera_to_ego": c.to_ego.matrix(),
                })
            })
            .collect();
        let meta = serde_json::json!({
            "name": self.name(), "width": self.width, "height": self.height,
            "bev": { "metres": grid.metres, "cells": grid.cells }, "cameras": cameras, "frames": frames,
        });
        let path = dir.join("meta.json");
        let text = format!("{meta:#}\n");
        std::fs::write(&path, text).map_err(|source| DataError::Io { path, source })?;
        Ok(())
    }

    fn moment(&self, rig: &Rig, split: &str, index: usize) -> Moment {
        let mut rng = self.rng(index as u64, 1 + u64::from(split == "test"));
        let traffic = Traffic::draw(0.75 * self.grid.metres, self.kind.size(), &mut rng);
        let mut pixels = vec![0; traffic.vehicles.len()];
        let mut pictures = Vec::new();
        for camera in rig.cameras() {
            let (picture, seen) = traffic.picture(camera);
            pictures.push(picture);
            for (sum, n) in pixels.iter_mut().zip(seen) {
                *sum += n;
            }
        }
        Moment {
            pictures,
            vehicles: traffic.vehicles.into_iter().zip(pixels).collect(),
        }
    }

    fn rng(&self, index: u64, part: u64) -> ChaCha20Rng {
        let mut seed = [0_u8; 32];
        let words = [self.seed, index, part, self.kind as u64];
        for (bytes, word) in seed.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        ChaCha20Rng::from_seed(seed)
    }
}

impl Moment {
    fn boxes(&self, label: LabelKind) -> Vec<VehicleBox> {
        self.vehicles
            .iter()
            .filter(|(_, pixels)| label == LabelKind::All || *pixels >= LEAST_PIXELS)
            .map(|(vehicle, _)| *vehicle)
            .collect()
    }
}

/// Pixels from which a vehicle counts as seen.
const LEAST_PIXELS: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bev::{Amcm, Masks};

    fn fleet(kind: VehicleKind) -> Fleet {
        Fleet {
            kind,
            cameras: Side::ALL.to_vec(),
            width: 64,
            height: 48,
            grid: Grid {
                cells: 64,
                metres: 64.0,
            },
            train: 3,
            test: 2,
            seed: 5,
        }
    }

    #[test]
    fn equal_seeds_equal_frames_and_others_differ() {
        let base = fleet(VehicleKind::Truck);
        let data = base.dataset(LabelKind::All).unwrap();
        assert_eq!(data.train(), base.dataset(LabelKind::All).unwrap().train());
        assert_ne!(data.train()[0].label(), data.test()[0].label());
        for other in [
            Fleet {
                seed: 6,
                ..base.clone()
            },
            Fleet {
                kind: VehicleKind::Bus,
                ..base.clone()
            },
        ] {
            assert_ne!(other.dataset(LabelKind::All).unwrap().train()[0], data.train()[0]);
        }
    }

    /// What a picture shows lies where the label says: the pixels around a vehicle's projected middle count for it.
    #[test]
    fn seen_vehicles_are_labelled_and_lie_in_the_field_of_view() {
        for kind in VehicleKind::ALL {
            let fleet = fleet(kind);
            let rig = fleet.rig().unwrap();
            let mut vehicles = 0;
            for i in 0..3 {
                let moment = fleet.moment(&rig, "train", i);
                for (vehicle, pixels) in &moment.vehicles {
                    if *pixels >= 12 {
                        vehicles += 1;
                        let corners = vehicle.corners();
                        let shown = rig.cameras().iter().any(|c| {
                            corners
                                .iter()
                                .any(|p| c.project(*p).is_some_and(|px| c.shows(px)))
                        });
                        assert!(
                            shown,
                            "{kind:?}: {vehicle:?} has {pixels} pixels but projects nowhere"
                        );
                    }
                }
                let (seen, all) = (
                    moment.boxes(LabelKind::Visible).len(),
                    moment.boxes(LabelKind::All).len(),
                );
                assert!(seen >= 3 && seen <= all, "{kind:?}: {seen} of {all}");
            }
            assert!(vehicles >= 6, "{kind:?}: {vehicles}");
            let masks = Masks::new(Amcm::Fov, &rig, fleet.grid, &[]).unwrap();
            assert!(
                masks.share() > 0.7,
                "{kind:?}: four cameras see {}",
                masks.share()
            );
        }
    }

    #[test]
    fn fewer_cameras_are_the_same_ones() {
        let all = fleet(VehicleKind::Car);
        let one = Fleet {
            cameras: vec![Side::Right],
            ..all.clone()
        };
        assert_eq!(one.rig().unwrap().cameras()[0], all.rig().unwrap().cameras()[2]);
        assert_eq!(one.name(), "car-5-right");
        let none = Fleet {
            cameras: vec![],
            ..all
        };
        assert!(none.dataset(LabelKind::All).is_err());
    }
}
