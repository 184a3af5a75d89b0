//! `[data]` of kinds `kitti`, `nyu`, `nyu-mat` and `m3ed`: published data sets, read by lists or by the names of sequences.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use veilsum_learner::DepthDataset;
use veilsum_learner::data::kitti::{self, KittiMask, KittiOptions};
use veilsum_learner::data::m3ed::{self, M3edCamera, M3edOptions, View};
use veilsum_learner::data::nyu::{self, NyuOptions};
use veilsum_learner::data::nyu_mat::{self, NyuMatOptions};
use veilsum_learner::data::{ListOptions, ReadReport, Selection};

use super::{DataConfig, DataLoadError, Reading};
use crate::config::ConfigError;

/// KITTI's raw recordings with its annotated depth maps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KittiConfig {
    /// Folder of the raw recordings, `<date>/<drive>_sync/image_02/data`.
    pub path: PathBuf,
    /// Folder of the annotations (`data_depth_annotated`), with or without `train` and `val`.
    pub depth: PathBuf,
    /// List of the training frames: picture, depth map or `None`, focal length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_list: Option<PathBuf>,
    /// List of the test frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_list: Option<PathBuf>,
    /// Drives to train on; with a list, those of its lines that are taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<String>,
    /// Drives to score on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test_sequences: Vec<String>,
    /// Cut to the benchmark's 1216 x 352; true without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop: Option<bool>,
    /// Where test depths count: `garg` (the default), `eigen` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<KittiMask>,
    /// Lay the mask on the whole depth map and not on the cut one; false without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_before_crop: Option<bool>,
    /// Unreadable and missing frames: `refuse` (the default) or `skip`, which counts and names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_fault: Option<String>,
    /// Take at most so many frames of each split, evenly spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frames: Option<usize>,
    /// Most memory the frames may take, MiB; 2048 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_mib: Option<usize>,
}

/// NYU Depth v2, folders of the "sync" layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NyuConfig {
    /// Folder of the scenes, `<scene>/rgb_NNNNN.jpg` and `<scene>/sync_depth_NNNNN.png`.
    pub path: PathBuf,
    /// List of the training frames: picture, depth map, focal length or in-painted depth map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_list: Option<PathBuf>,
    /// List of the test frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_list: Option<PathBuf>,
    /// Scenes (`kitchen_0028b`) or types of scenes (`kitchen`) to train on; with a list, those of its lines that are taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<String>,
    /// Scenes or types of scenes to score on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test_sequences: Vec<String>,
    /// Training frames without their white border, test depths in Eigen's mask; true without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop: Option<bool>,
    /// Take the in-painted depth maps of the list; false without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dense: Option<bool>,
    /// Unreadable and missing frames: `refuse` (the default) or `skip`, which counts and names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_fault: Option<String>,
    /// Take at most so many frames of each split, evenly spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frames: Option<usize>,
    /// Most memory the frames may take, MiB; 2048 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_mib: Option<usize>,
}

/// NYU Depth v2, the labelled frames in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NyuMatConfig {
    /// `nyu_depth_v2_labeled.mat`.
    pub path: PathBuf,
    /// `splits.mat`.
    pub splits: PathBuf,
    /// Types of scenes to train on (`kitchen`); all training frames without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<String>,
    /// Types of scenes to score on; all test frames without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test_sequences: Vec<String>,
    /// Training frames without their white border, test depths in Eigen's mask; true without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop: Option<bool>,
    /// Take the in-painted depths; false without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dense: Option<bool>,
    /// Unreadable frames: `refuse` (the default) or `skip`, which counts and names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_fault: Option<String>,
    /// Take at most so many frames of each split, evenly spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frames: Option<usize>,
    /// Most memory the frames may take, MiB; 2048 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_mib: Option<usize>,
}

/// M3ED, two HDF5 files a sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct M3edConfig {
    /// Folder of `<sequence>_data.h5` and `<sequence>_depth_gt.h5`, or of a folder of both for each sequence.
    pub path: PathBuf,
    /// Sequences to train on, or how their names begin (`car_urban_day`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<String>,
    /// Sequences to score on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test_sequences: Vec<String>,
    /// Whose pictures: `rgb` (the default), `left` or `right`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub camera: Option<M3edCamera>,
    /// `camera` (the default) moves depth points into the camera's view, `depth` turns pictures into the event camera's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
    /// Unreadable frames: `refuse` (the default) or `skip`, which counts and names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_fault: Option<String>,
    /// Take at most so many frames of each split, evenly spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frames: Option<usize>,
    /// Most memory the frames may take, MiB; 2048 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_mib: Option<usize>,
}

impl NyuMatConfig {
    pub(super) fn read(
        &self,
        base: &Path,
        size: (usize, usize),
    ) -> Result<(DepthDataset, ReadReport), DataLoadError> {
        let reading = Reading {
            on_fault: self.on_fault.as_deref(),
            max_frames: self.max_frames,
            memory_limit_mib: self.memory_limit_mib,
        };
        let options = NyuMatOptions {
            path: base.join(&self.path),
            splits: base.join(&self.splits),
            train: self.sequences.clone(),
            test: self.test_sequences.clone(),
            crop: self.crop.unwrap_or(true),
            dense: self.dense.unwrap_or(false),
            read: reading.options(size)?,
        };
        Ok(nyu_mat::read_client(&options)?)
    }
}

impl M3edConfig {
    /// A client for each sequence to train on.
    pub(super) fn each(&self, base: &Path) -> Result<Vec<(String, DataConfig)>, DataLoadError> {
        let names = m3ed::sequences(&base.join(&self.path), &self.sequences)?;
        let client = |name: &String| {
            DataConfig::M3ed(Self {
                sequences: vec![name.clone()],
                test_sequences: Vec::new(),
                ..self.clone()
            })
        };
        Ok(names
            .into_iter()
            .map(|name| (name.clone(), client(&name)))
            .collect())
    }

    pub(super) fn read(
        &self,
        base: &Path,
        size: (usize, usize),
    ) -> Result<(DepthDataset, ReadReport), DataLoadError> {
        let reading = Reading {
            on_fault: self.on_fault.as_deref(),
            max_frames: self.max_frames,
            memory_limit_mib: self.memory_limit_mib,
        };
        let options = M3edOptions {
            path: base.join(&self.path),
            train: self.sequences.clone(),
            test: self.test_sequences.clone(),
            camera: self.camera.unwrap_or_default(),
            view: self.view.unwrap_or_default(),
            read: reading.options(size)?,
        };
        Ok(m3ed::read_client(&options)?)
    }
}

impl KittiConfig {
    pub(super) fn read(
        &self,
        base: &Path,
        size: (usize, usize),
    ) -> Result<(DepthDataset, ReadReport), DataLoadError> {
        Ok(kitti::read_client(&self.options(base, size)?)?)
    }

    /// A client for each drive to train on, with its number of frames.
    pub(super) fn each(&self, base: &Path) -> Result<Vec<(String, usize, DataConfig)>, DataLoadError> {
        let drives = kitti::drives(&self.options(base, (1, 1))?)?;
        let client = |drive: &String| {
            DataConfig::Kitti(Self {
                sequences: vec![drive.clone()],
                test_list: None,
                test_sequences: Vec::new(),
                ..self.clone()
            })
        };
        Ok(drives
            .into_iter()
            .map(|(drive, frames)| (drive.clone(), frames, client(&drive)))
            .collect())
    }

    fn options(&self, base: &Path, size: (usize, usize)) -> Result<KittiOptions, DataLoadError> {
        let crop = self.crop.unwrap_or(true);
        if self.mask_before_crop == Some(true) && !crop {
            return Err(wrong(
                "data.mask_before_crop",
                "there is no crop to lay the mask before: leave it out, or set data.crop = true",
            ));
        }
        let reading = Reading {
            on_fault: self.on_fault.as_deref(),
            max_frames: self.max_frames,
            memory_limit_mib: self.memory_limit_mib,
        };
        Ok(KittiOptions {
            path: base.join(&self.path),
            depth: base.join(&self.depth),
            frames: ListOptions {
                read: reading.options(size)?,
                train: selection(base, self.train_list.as_deref(), &self.sequences),
                test: selection(base, self.test_list.as_deref(), &self.test_sequences),
            },
            crop,
            mask: self.mask.unwrap_or_default(),
            mask_before_crop: self.mask_before_crop.unwrap_or(false),
        })
    }
}

impl NyuConfig {
    pub(super) fn read(
        &self,
        base: &Path,
        size: (usize, usize),
    ) -> Result<(DepthDataset, ReadReport), DataLoadError> {
        Ok(nyu::read_client(&self.options(base, size)?)?)
    }

    /// A client for each type of scenes to train on, with its number of frames.
    pub(super) fn each(&self, base: &Path) -> Result<Vec<(String, usize, DataConfig)>, DataLoadError> {
        let types = nyu::types(&self.options(base, (1, 1))?)?;
        let client = |kind: &String| {
            DataConfig::Nyu(Self {
                sequences: vec![kind.clone()],
                test_list: None,
                test_sequences: Vec::new(),
                ..self.clone()
            })
        };
        Ok(types
            .into_iter()
            .map(|(kind, frames)| (kind.clone(), frames, client(&kind)))
            .collect())
    }

    fn options(&self, base: &Path, size: (usize, usize)) -> Result<NyuOptions, DataLoadError> {
        if self.dense == Some(true) && (self.train_list.is_none() || self.test_sequences_alone()) {
            return Err(wrong(
                "data.dense",
                "only a list names in-painted depth maps: set data.train_list (and data.test_list), or leave data.dense out",
            ));
        }
        let reading = Reading {
            on_fault: self.on_fault.as_deref(),
            max_frames: self.max_frames,
            memory_limit_mib: self.memory_limit_mib,
        };
        Ok(NyuOptions {
            path: base.join(&self.path),
            frames: ListOptions {
                read: reading.options(size)?,
                train: selection(base, self.train_list.as_deref(), &self.sequences),
                test: selection(base, self.test_list.as_deref(), &self.test_sequences),
            },
            crop: self.crop.unwrap_or(true),
            dense: self.dense.unwrap_or(false),
        })
    }

    fn test_sequences_alone(&self) -> bool {
        self.test_list.is_none() && !self.test_sequences.is_empty()
    }
}

fn selection(base: &Path, list: Option<&Path>, sequences: &[String]) -> Selection {
    Selection {
        list: list.map(|list| base.join(list)),
        sequences: sequences.to_vec(),
    }
}

fn wrong(key: &'static str, reason: &str) -> DataLoadError {
    DataLoadError::Config(ConfigError::Value {
        key,
        reason: reason.to_owned(),
    })
}

impl From<(DepthDataset, ReadReport)> for super::Loaded {
    fn from((data, report): (DepthDataset, ReadReport)) -> Self {
        Self {
            frames: super::Frames::Depth(data),
            summary: report.to_string(),
        }
    }
}
