//! `[data]` of `client.toml`: where a client's frames come from.

use super::ConfigError;
use crate::network::BEV_GRID;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use veilsum_learner::bev::Side;
use veilsum_learner::data::bev::plain::{self, BevOptions};
use veilsum_learner::data::bev::{BevDataError, BevDataset, Fleet, LabelKind, VehicleKind};
use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
use veilsum_learner::data::{DepthScale, FolderOptions, OnFault, ReadOptions, folder};
use veilsum_learner::{DataError, DepthDataset};

mod benchmark;

pub use benchmark::{KittiConfig, M3edConfig, NyuConfig, NyuMatConfig};

/// A client's frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DataConfig {
    /// The built-in generator, for machines without data.
    Generated {
        /// Robot type: `ugv`, `legged`, `uav` or `humanoid`.
        platform: String,
        /// Place: `indoor`, `street` or `forest`.
        place: String,
        /// Darkness and the robot's lamp.
        night: bool,
        /// Seed of the scenes.
        seed: u64,
        /// Training frames.
        train: usize,
        /// Test frames.
        test: usize,
    },
    /// The built-in generator of traffic, for bird's-eye views.
    GeneratedFleet {
        /// What carries the cameras: `car`, `truck` or `bus`.
        vehicle: String,
        /// Where they look: `front`, `left`, `right`, `rear`.
        cameras: Vec<String>,
        /// Seed of the traffic and the mounts.
        seed: u64,
        /// Training frames.
        train: usize,
        /// Test frames.
        test: usize,
    },
    /// A vehicle's folder with `meta.json` and `{train,test}/{<camera>,bev,bev_visible}/NNNN.png`.
    FleetFolder {
        /// The vehicle's folder.
        path: PathBuf,
        /// Take only these cameras, in this order; all without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cameras: Option<Vec<String>>,
        /// Take at most so many frames of each split, evenly spread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_frames: Option<usize>,
    },
    /// A folder of `{train,test}/{rgb,depth}/NNNN.png`.
    Folder {
        /// The client's folder.
        path: PathBuf,
        /// `kitti` (256 units a metre) or `nyu` (1000). Without it, the folder's `meta.json` must say.
        #[serde(skip_serializing_if = "Option::is_none")]
        scale: Option<String>,
        /// Unreadable frames: `refuse` (the default) or `skip`, which counts and names them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_fault: Option<String>,
        /// Take at most so many frames of each split, evenly spread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_frames: Option<usize>,
        /// Most memory the frames may take, MiB; 2048 without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_limit_mib: Option<usize>,
    },
    /// KITTI with the split of Eigen et al.
    Kitti(KittiConfig),
    /// NYU Depth v2, the "sync" folders.
    Nyu(NyuConfig),
    /// NYU Depth v2, the labelled frames.
    NyuMat(NyuMatConfig),
    /// M3ED.
    M3ed(M3edConfig),
}

/// Frames of one task.
pub enum Frames {
    /// Pictures with depths.
    Depth(DepthDataset),
    /// Pictures around a vehicle with what is to be seen from above.
    Bev(BevDataset),
}

impl Frames {
    /// Whether there are test frames to score on.
    #[must_use]
    pub fn has_tests(&self) -> bool {
        match self {
            Self::Depth(data) => !data.test().is_empty(),
            Self::Bev(data) => !data.test().is_empty(),
        }
    }
}

/// What was found, for people.
pub struct Loaded {
    /// The frames.
    pub frames: Frames,
    /// What was found, used and left out.
    pub summary: String,
}

impl DataConfig {
    /// Loads the frames at the network's size.
    ///
    /// # Errors
    /// [`DataLoadError`], naming the file or setting.
    pub fn load(&self, base: &Path, (width, height): (usize, usize)) -> Result<Loaded, DataLoadError> {
        match self {
            Self::Generated {
                platform,
                place,
                night,
                seed,
                train,
                test,
            } => {
                let generator = Generator {
                    platform: named("data.platform", platform, &Platform::ALL, Platform::name)?,
                    place: named("data.place", place, &Place::ALL, Place::name)?,
                    light: if *night { Light::Night } else { Light::Day },
                    width,
                    height,
                    train: *train,
                    test: *test,
                    seed: *seed,
                };
                let data = generator.dataset()?;
                let summary = format!(
                    "{} training and {} test frames generated for {}",
                    train,
                    test,
                    data.name()
                );
                Ok(Loaded {
                    frames: Frames::Depth(data),
                    summary,
                })
            }
            Self::GeneratedFleet {
                vehicle,
                cameras,
                seed,
                train,
                test,
            } => {
                let fleet = Fleet {
                    kind: named("data.vehicle", vehicle, &VehicleKind::ALL, VehicleKind::name)?,
                    cameras: cameras
                        .iter()
                        .map(|camera| named("data.cameras", camera, &Side::ALL, Side::name))
                        .collect::<Result<_, _>>()?,
                    width,
                    height,
                    grid: BEV_GRID,
                    train: *train,
                    test: *test,
                    seed: *seed,
                };
                let data = fleet.dataset(LabelKind::Visible)?;
                let summary = format!(
                    "{train} training and {test} test frames generated for {}",
                    data.name()
                );
                Ok(Loaded {
                    frames: Frames::Bev(data),
                    summary,
                })
            }
            Self::FleetFolder {
                path,
                cameras,
                max_frames,
            } => {
                let mut options = BevOptions::new(width, height);
                options.cameras.clone_from(cameras);
                options.max_frames = *max_frames;
                let (data, report) = plain::read_client(&base.join(path), &options)?;
                Ok(Loaded {
                    frames: Frames::Bev(data),
                    summary: report.to_string(),
                })
            }
            Self::Folder {
                path,
                scale,
                on_fault,
                max_frames,
                memory_limit_mib,
            } => {
                let reading = Reading {
                    on_fault: on_fault.as_deref(),
                    max_frames: *max_frames,
                    memory_limit_mib: *memory_limit_mib,
                };
                let mut options = FolderOptions::new(width, height);
                options.read = reading.options((width, height))?;
                options.scale = match scale.as_deref() {
                    None => None,
                    Some("kitti") => Some(DepthScale::Kitti),
                    Some("nyu") => Some(DepthScale::Nyu),
                    Some(other) => {
                        return Err(DataLoadError::Config(ConfigError::Value {
                            key: "data.scale",
                            reason: format!("`{other}` is not `kitti` or `nyu`"),
                        }));
                    }
                };
                Ok(folder::read_client(&base.join(path), &options)?.into())
            }
            Self::Kitti(kitti) => Ok(kitti.read(base, (width, height))?.into()),
            Self::Nyu(nyu) => Ok(nyu.read(base, (width, height))?.into()),
            Self::NyuMat(nyu) => Ok(nyu.read(base, (width, height))?.into()),
            Self::M3ed(m3ed) => Ok(m3ed.read(base, (width, height))?.into()),
        }
    }
}

impl DataConfig {
    /// A client for each sequence (drive, type of scenes) that it trains on, in the order of their names, where one has at
    /// least so many frames. Nobody gets test frames.
    ///
    /// # Errors
    /// [`DataLoadError`], also for kinds that have no sequences.
    pub fn each(&self, base: &Path, at_least: usize) -> Result<Vec<(String, Self)>, DataLoadError> {
        let wrong = |key, reason: String| DataLoadError::Config(ConfigError::Value { key, reason });
        let counted = match self {
            Self::Kitti(kitti) => kitti.each(base)?,
            Self::Nyu(nyu) => nyu.each(base)?,
            Self::M3ed(m3ed) if at_least <= 1 => return m3ed.each(base),
            Self::M3ed(_) => {
                let reason = "frames of M3ED are not counted before they are read: leave it out";
                return Err(wrong("at_least", reason.to_owned()));
            }
            _ => {
                let reason = "only `kitti`, `nyu` and `m3ed` have sequences to be dealt out";
                return Err(wrong("data.kind", reason.to_owned()));
            }
        };
        let enough = counted.into_iter().filter(|(_, frames, _)| *frames >= at_least);
        Ok(enough.map(|(name, _, data)| (name, data)).collect())
    }

    /// The same sequences to score on, and none to train on.
    #[must_use]
    pub fn scored(mut self) -> Self {
        let (list, train, test) = match &mut self {
            Self::Kitti(data) => (
                Some((&mut data.train_list, &mut data.test_list)),
                &mut data.sequences,
                &mut data.test_sequences,
            ),
            Self::Nyu(data) => (
                Some((&mut data.train_list, &mut data.test_list)),
                &mut data.sequences,
                &mut data.test_sequences,
            ),
            Self::M3ed(data) => (None, &mut data.sequences, &mut data.test_sequences),
            _ => return self,
        };
        *test = std::mem::take(train);
        if let Some((train, test)) = list {
            *test = train.take();
        }
        self
    }
}

/// The settings that all readers of depth share.
struct Reading<'a> {
    on_fault: Option<&'a str>,
    max_frames: Option<usize>,
    memory_limit_mib: Option<usize>,
}

impl Reading<'_> {
    fn options(&self, (width, height): (usize, usize)) -> Result<ReadOptions, ConfigError> {
        let mut options = ReadOptions::new(width, height);
        options.max_frames = self.max_frames;
        if let Some(limit) = self.memory_limit_mib {
            options.memory_limit = limit.saturating_mul(1 << 20);
        }
        options.on_fault = match self.on_fault {
            None | Some("refuse") => OnFault::Refuse,
            Some("skip") => OnFault::Skip,
            Some(other) => {
                return Err(ConfigError::Value {
                    key: "data.on_fault",
                    reason: format!("`{other}` is not `refuse` or `skip`"),
                });
            }
        };
        Ok(options)
    }
}

fn named<T: Copy>(
    key: &'static str,
    text: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, ConfigError> {
    all.iter()
        .copied()
        .find(|item| name(*item) == text)
        .ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|item| name(*item)).collect();
            ConfigError::Value {
                key,
                reason: format!("`{text}` is not one of {}", names.join(", ")),
            }
        })
}

/// Why frames cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataLoadError {
    /// A wrong setting.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Wrong frames.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Wrong frames of a vehicle.
    #[error(transparent)]
    Bev(#[from] BevDataError),
}
