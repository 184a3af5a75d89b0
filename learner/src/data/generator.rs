//! Seeded pictures with exact depth, for demos and tests where no recorded data is at hand.
//!
//! A ray caster renders rooms, streets and forests as robots of different height, pitch and field of view see them. The
//! geometry holds what monocular depth is learned from: a ground plane, things of usual sizes standing on it, textures
//! that shrink with distance, haze by day and a fading lamp by night. It is no substitute for recordings: numbers reached
//! on it say that training works, not how a network does in the world.

use std::path::Path;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::generator::camera::Camera;
use crate::data::picture::{write_depth, write_rgb};
use crate::data::scene::Scene;
use crate::data::scene::noise::{hash, range, unit};
use crate::data::scene::ray::Vec3;
use crate::data::{DataError, DepthDataset, Frame};
use crate::metrics::DepthRange;

pub(crate) mod camera;

/// A robot type: where its camera sits and how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Low wheeled robot.
    Ugv,
    /// Four-legged robot, wide camera tilted down.
    Legged,
    /// Drone: high, wide and steep.
    Uav,
    /// Tall two-legged robot.
    Humanoid,
}

impl Platform {
    /// All robot types.
    pub const ALL: [Self; 4] = [Self::Ugv, Self::Legged, Self::Uav, Self::Humanoid];

    /// Lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ugv => "ugv",
            Self::Legged => "legged",
            Self::Uav => "uav",
            Self::Humanoid => "humanoid",
        }
    }

    /// What the camera makes of white.
    fn white_balance(self) -> Vec3 {
        match self {
            Self::Ugv => [1.0, 1.0, 1.0],
            Self::Legged => [0.93, 1.03, 0.94],
            Self::Uav => [0.94, 0.99, 1.07],
            Self::Humanoid => [1.07, 1.0, 0.9],
        }
    }

    /// Camera height in metres, pitch below the horizon and horizontal field of view in degrees.
    fn mounting(self, place: Place) -> (f32, f32, f32) {
        match (self, place) {
            (Self::Ugv, _) => (0.6, 2.0, 69.0),
            (Self::Legged, _) => (0.8, 9.0, 80.0),
            (Self::Uav, Place::Indoor) => (1.7, 16.0, 78.0),
            (Self::Uav, Place::Street | Place::Forest) => (2.4, 13.0, 78.0),
            (Self::Humanoid, _) => (1.4, 6.0, 62.0),
        }
    }
}

/// Where the robot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A furnished room, depths to 10 m.
    Indoor,
    /// A street between houses, depths to 80 m.
    Street,
    /// Trunks and rocks, depths to 80 m.
    Forest,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 3] = [Self::Indoor, Self::Street, Self::Forest];

    /// Lower-case name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Indoor => "indoor",
            Self::Street => "street",
            Self::Forest => "forest",
        }
    }

    /// Largest depth that counts, metres.
    #[must_use]
    pub fn cap_m(self) -> f32 {
        match self {
            Self::Indoor => 10.0,
            Self::Street | Self::Forest => 80.0,
        }
    }
}

/// When the robot is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Light {
    /// Daylight, or lit rooms.
    Day,
    /// Darkness and the robot's lamp.
    Night,
}

/// What one client's robot records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Robot type.
    pub platform: Platform,
    /// Place.
    pub place: Place,
    /// Light.
    pub light: Light,
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Training frames.
    pub train: usize,
    /// Test frames, from scenes that no training frame shows.
    pub test: usize,
    /// Seed. Other seeds give other scenes.
    pub seed: u64,
}

impl Generator {
    /// A name such as `uav-street-night-7`.
    #[must_use]
    pub fn name(&self) -> String {
        let light = match self.light {
            Light::Day => "day",
            Light::Night => "night",
        };
        format!(
            "{}-{}-{light}-{}",
            self.platform.name(),
            self.place.name(),
            self.seed
        )
    }

    /// Depths that count: 0.2 m to the place's cap.
    #[must_use]
    pub fn range(&self) -> DepthRange {
        DepthRange {
            min_m: MIN_M,
            cap_m: self.place.cap_m(),
        }
    }

    /// Renders all frames.
    ///
    /// # Errors
    ///
    /// [`DataError::Settings`] for an empty picture or no frames.
    pub fn dataset(&self) -> Result<DepthDataset, DataError> {
        if self.width == 0 || self.height == 0 || self.train + self.test == 0 {
            let what = "the generator needs a positive width, height and number of frames".to_owned();
            return Err(DataError::Settings { what });
        }
        let split = |name: &'static str, count: usize| {
            (0..count)
                .into_par_iter()
                .map(|i| self.frame(name, i))
                .collect::<Result<Vec<_>, _>>()
        };
        let (train, test) = (split("train", self.train)?, split("test", self.test)?);
        DepthDataset::new(self.name(), (self.width, self.height), self.range(), train, test)
    }

    /// Renders frame `index` of `split` ("train" or "test"). Depends on nothing but the settings and these two.
    ///
    /// # Errors
    ///
    /// [`DataError::FrameLength`] for an empty picture.
    pub fn frame(&self, split: &str, index: usize) -> Result<Frame, DataError> {
        let scene_number = (index / FRAMES_A_SCENE) as u64;
        let mut scene_rng = self.rng(split, scene_number, 0);
        let mut scene = Scene::new(self.place, self.light, &mut scene_rng);
        let mut frame_rng = self.rng(split, scene_number, 1 + (index % FRAMES_A_SCENE) as u64);
        let camera = self.place_camera(&scene, &mut frame_rng);
        scene.keep_visible(&camera);
        let grain = frame_rng.next_u32();
        let mut rgb = Vec::with_capacity(3 * self.width * self.height);
        let mut depth = Vec::with_capacity(self.width * self.height);
        for y in 0..self.height {
            for x in 0..self.width {
                let seen = self
                    .own_body(x, y)
                    .map_or_else(|| scene.look(&camera.ray(x, y)), |c| (c, 0.0));
                rgb.extend(self.expose(seen.0, grain, x, y));
                depth.push(seen.1);
            }
        }
        Frame::new(format!("{split}/{index:04}"), self.width, self.height, rgb, depth)
    }

    /// Writes all frames as `<dir>/{train,test}/{rgb,depth}/NNNN.png` with a `meta.json`, depth as metres × 256.
    ///
    /// # Errors
    ///
    /// [`DataError::Io`] if something cannot be written.
    pub fn write_folder(&self, dir: &Path) -> Result<(), DataError> {
        let data = self.dataset()?;
        for (split, frames) in [("train", data.train()), ("test", data.test())] {
            if frames.is_empty() {
                continue;
            }
            let folder = dir.join(split);
            for kind in ["rgb", "depth"] {
                let path = folder.join(kind);
                std::fs::create_dir_all(&path).map_err(|source| DataError::Io { path, source })?;
            }
            for (i, frame) in frames.iter().enumerate() {
                let file = format!("{i:04}.png");
                write_rgb(
                    &folder.join("rgb").join(&file),
                    self.width,
                    self.height,
                    frame.rgb(),
                )?;
                let units: Vec<u16> = frame.depth().iter().map(|&d| kitti_units(d)).collect();
                write_depth(&folder.join("depth").join(&file), self.width, self.height, &units)?;
            }
        }
        let path = dir.join("meta.json");
        let text = format!("{:#}\n", self.meta());
        std::fs::write(&path, text).map_err(|source| DataError::Io { path, source })
    }

    fn meta(&self) -> serde_json::Value {
        let (focal, [cx, cy]) = self.intrinsics();
        serde_json::json!({
            "name": self.name(),
            "platform": self.platform.name(),
            "environment": self.place.name(),
            "width": self.width,
            "height": self.height,
            "K": [[focal, 0.0, cx], [0.0, focal, cy], [0.0, 0.0, 1.0]],
            "depth_scale": 256,
            "depth_min_m": self.range().min_m,
            "depth_max_m": self.range().cap_m,
        })
    }

    /// Focal length and principal point in pixels.
    #[expect(clippy::cast_precision_loss, reason = "picture sizes are far below 2^24")]
    fn intrinsics(&self) -> (f32, [f32; 2]) {
        let (_, _, view) = self.platform.mounting(self.place);
        let half = self.width as f32 / 2.0;
        (
            half / (view / 2.0).to_radians().tan(),
            [half, self.height as f32 / 2.0],
        )
    }

    fn rng(&self, split: &str, scene: u64, part: u64) -> ChaCha20Rng {
        let mut seed = [0_u8; 32];
        let words = [
            self.seed,
            scene,
            part,
            u64::from(split == "test") | (self.kind() << 1),
        ];
        for (bytes, word) in seed.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        ChaCha20Rng::from_seed(seed)
    }

    /// The robot's own parts that its camera sees, as recordings show them: a colour, and no depth.
    #[expect(clippy::cast_precision_loss, reason = "picture sizes are far below 2^24")]
    fn own_body(&self, x: usize, y: usize) -> Option<Vec3> {
        let (u, v) = (x as f32 / self.width as f32, y as f32 / self.height as f32);
        let side = (u - 0.5).abs();
        match self.platform {
            // A bumper with warning stripes.
            Platform::Ugv if v > 0.95 => Some(if (u * 16.0).rem_euclid(2.0) < 1.0 {
                [0.7, 0.6, 0.1]
            } else {
                [0.1; 3]
            }),
            // Both front knees.
            Platform::Legged if side + 0.7 * v > 1.08 => Some([0.15, 0.15, 0.17]),
            // The tips of two rotor guards.
            Platform::Uav if side - 0.8 * v > 0.4 => Some([0.8, 0.8, 0.82]),
            Platform::Ugv | Platform::Legged | Platform::Uav | Platform::Humanoid => None,
        }
    }

    /// Bytes as the robot's own camera gives them: its white balance, and a little noise.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "clamped to a byte; picture sizes are small"
    )]
    fn expose(&self, colour: Vec3, grain: u32, x: usize, y: usize) -> [u8; 3] {
        let noise = 6.0 * (unit(hash(x as i32, y as i32, grain)) - 0.5);
        let mut bytes = [0; 3];
        for (byte, (seen, white)) in bytes
            .iter_mut()
            .zip(colour.iter().zip(self.platform.white_balance()))
        {
            *byte = (255.0 * seen * white + noise).clamp(0.0, 255.0) as u8;
        }
        bytes
    }

    /// A number for robot, place and light, so that equal seeds of different clients do not share scenes.
    fn kind(&self) -> u64 {
        ((self.platform as u64) << 16) | ((self.place as u64) << 8) | self.light as u64
    }

    fn place_camera(&self, scene: &Scene, rng: &mut ChaCha20Rng) -> Camera {
        let (height, pitch, _) = self.platform.mounting(self.place);
        let height = height * range(rng, 0.8, 1.2);
        let (xs, ys) = scene.floor();
        let (focal, centre) = self.intrinsics();
        let mut camera = None;
        for _ in 0..TRIES {
            let origin = [range(rng, xs[0], xs[1]), range(rng, ys[0], ys[1]), height];
            // Indoors all around; along a street, and where the trees stand.
            let yaw = match self.place {
                Place::Indoor => range(rng, -180.0, 180.0),
                Place::Street => range(rng, -50.0, 50.0),
                Place::Forest => range(rng, -40.0, 40.0),
            };
            let tilt = (pitch + range(rng, -7.0, 7.0)).to_radians();
            let roll = range(rng, -3.0, 3.0).to_radians();
            let tried = Camera::new(origin, yaw.to_radians(), tilt, roll, focal, centre);
            let good = scene.is_free(origin, CLEARANCE_M) && tried.view_is_open(scene);
            camera = Some(tried);
            if good {
                break;
            }
        }
        camera.unwrap_or_else(|| Camera::new([0.0, 0.0, height], 0.0, 0.0, 0.0, focal, centre))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the file's range"
)]
fn kitti_units(metres: f32) -> u16 {
    (metres * 256.0).round().clamp(0.0, 65535.0) as u16
}

const MIN_M: f32 = 0.2;
/// Neighbouring frames that show one scene.
const FRAMES_A_SCENE: usize = 3;
/// Poses tried before a camera may stand too close to something.
const TRIES: usize = 64;
const CLEARANCE_M: f32 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::folder::{FolderOptions, read_client};

    fn generator(platform: Platform, place: Place) -> Generator {
        Generator {
            platform,
            place,
            light: Light::Day,
            width: 64,
            height: 48,
            train: 4,
            test: 3,
            seed: 5,
        }
    }

    #[test]
    fn equal_seeds_equal_frames() {
        let g = generator(Platform::Ugv, Place::Street);
        let (a, b) = (g.dataset().unwrap(), g.dataset().unwrap());
        assert_eq!((a.train(), a.test()), (b.train(), b.test()));
        let changes: [fn(&mut Generator); 4] = [
            |g| g.seed = 6,
            |g| g.platform = Platform::Uav,
            |g| g.place = Place::Forest,
            |g| g.light = Light::Night,
        ];
        for change in changes {
            let mut other = g.clone();
            change(&mut other);
            assert_ne!(other.frame("train", 0).unwrap().rgb(), a.train()[0].rgb());
        }
        assert_ne!(g.frame("test", 0).unwrap().rgb(), a.train()[0].rgb());
    }

    #[test]
    fn every_robot_sees_depth_in_every_place() {
        for platform in Platform::ALL {
            for place in Place::ALL {
                let g = generator(platform, place);
                let data = g.dataset().unwrap();
                for frame in data.train().iter().chain(data.test()) {
                    let known: Vec<f32> = frame.depth().iter().copied().filter(|&d| d > 0.0).collect();
                    assert!(
                        known.len() * 10 > frame.depth().len() * 3,
                        "{} {}: {}",
                        g.name(),
                        frame.name(),
                        known.len()
                    );
                    assert!(known.iter().all(|&d| g.range().holds(d)));
                    let (low, high) = known
                        .iter()
                        .fold((f32::MAX, 0.0_f32), |(l, h), &d| (l.min(d), h.max(d)));
                    assert!(
                        high > 1.3 * low,
                        "{} {}: flat depth {low} to {high}",
                        g.name(),
                        frame.name()
                    );
                }
            }
        }
    }

    #[test]
    fn night_is_darker() {
        let day = generator(Platform::Humanoid, Place::Street);
        let night = Generator {
            light: Light::Night,
            ..day.clone()
        };
        let mean = |g: &Generator| {
            let frame = g.frame("train", 0).unwrap();
            frame.rgb().iter().map(|&b| f64::from(b)).sum::<f64>() / 9216.0
        };
        assert!(mean(&night) < 0.6 * mean(&day));
    }

    #[test]
    fn a_written_folder_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let g = generator(Platform::Legged, Place::Indoor);
        g.write_folder(dir.path()).unwrap();
        let (read, report) = read_client(dir.path(), &FolderOptions::new(64, 48)).unwrap();
        let made = g.dataset().unwrap();
        assert_eq!((report.train, report.test, read.name()), (4, 3, made.name()));
        for (a, b) in read.train().iter().zip(made.train()) {
            assert_eq!(a.rgb(), b.rgb());
            for (p, q) in a.depth().iter().zip(b.depth()) {
                assert!((p - q).abs() <= 1.0 / 512.0 + 1e-6);
            }
        }
    }

    /// Pictures with everything in the scene and with only what the camera sees are the same.
    #[test]
    fn dropping_the_unseen_changes_no_ray() {
        for platform in Platform::ALL {
            for place in Place::ALL {
                let g = generator(platform, place);
                let whole = Scene::new(place, Light::Day, &mut g.rng("train", 0, 0));
                let mut seen = Scene::new(place, Light::Day, &mut g.rng("train", 0, 0));
                let camera = g.place_camera(&whole, &mut g.rng("train", 0, 1));
                seen.keep_visible(&camera);
                for i in 0..64 * 48 {
                    let ray = camera.ray(i % 64, i / 64);
                    assert_eq!(whole.look(&ray), seen.look(&ray), "{} pixel {i}", g.name());
                }
            }
        }
    }

    #[test]
    fn empty_settings_are_refused() {
        let g = Generator {
            train: 0,
            test: 0,
            ..generator(Platform::Ugv, Place::Indoor)
        };
        assert!(matches!(g.dataset(), Err(DataError::Settings { .. })));
        let g = Generator {
            width: 0,
            ..generator(Platform::Ugv, Place::Indoor)
        };
        assert!(matches!(g.dataset(), Err(DataError::Settings { .. })));
    }
}
