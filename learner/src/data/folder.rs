//! Reader for `<client>/{train,test}/{rgb,depth}/NNNN.png` with an optional `<client>/meta.json`.
//!
//! `rgb` is 8-bit colour; `depth` is 16-bit gray, planar z, 0 for unknown. What one depth unit means is declared, never
//! guessed: KITTI stores metres × 256, NYU Depth v2 millimetres. From `meta.json` the keys `name`, `depth_scale` (units
//! a metre), `depth_min_m` and `depth_max_m` are read; others are ignored.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::data::folder::listing::{Entry, list};
use crate::data::folder::meta::Meta;
use crate::data::split::{check_memory, check_size, read_split, thin};
use crate::data::{DataError, DepthDataset, ReadOptions, ReadReport};

mod listing;
mod meta;
mod scale;

pub use scale::DepthScale;

/// Which splits a client must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Splits {
    /// `train` and `test`.
    #[default]
    Both,
    /// `test` alone: places to score on that nobody trains on.
    Test,
}

/// How to read a client's folder.
#[derive(Clone, Debug)]
pub struct FolderOptions {
    /// Size, faults and limits.
    pub read: ReadOptions,
    /// Depth scale. `None` takes the one in `meta.json`; a contradiction is an error.
    pub scale: Option<DepthScale>,
    /// Smallest depth that counts, metres. `None` takes `meta.json`'s, else 1 mm.
    pub min_m: Option<f32>,
    /// Largest depth that counts, metres. `None` takes `meta.json`'s, else 10 m for `nyu` and 80 m otherwise.
    pub cap_m: Option<f32>,
    /// Which splits to read.
    pub splits: Splits,
}

impl FolderOptions {
    /// Defaults for frames of this size: everything from `meta.json`, refuse faults, both splits, 2 GiB.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            read: ReadOptions::new(width, height),
            scale: None,
            min_m: None,
            cap_m: None,
            splits: Splits::default(),
        }
    }
}

/// Reads one client's folder. Pictures are decoded in parallel and shrunk at once, so that beside the kept frames only
/// one full-size frame a thread is in memory.
///
/// # Errors
///
/// A [`DataError`] that names the file and the remedy.
pub fn read_client(dir: &Path, options: &FolderOptions) -> Result<(DepthDataset, ReadReport), DataError> {
    check_size(&options.read)?;
    let meta = Meta::read(dir)?;
    let scale = meta.scale(dir, options.scale)?;
    let range = meta.range(options, scale)?;
    let names: &[&str] = match options.splits {
        Splits::Both => &["train", "test"],
        Splits::Test => &["test"],
    };
    let listings = names
        .iter()
        .map(|name| list(dir, name))
        .collect::<Result<Vec<_>, _>>()?;

    let found = listings.iter().map(Vec::len).sum();
    let mut report = ReadReport {
        client: meta.name.unwrap_or_else(|| name_of(dir)),
        scale,
        range,
        found,
        train: 0,
        test: 0,
        thinned: 0,
        skipped: Vec::new(),
        notes: Vec::new(),
    };
    let kept: Vec<Vec<Entry>> = listings
        .into_iter()
        .map(|all| thin(all, options.read.max_frames))
        .collect();
    let frames: usize = kept.iter().map(Vec::len).sum();
    report.thinned = found - frames;
    check_memory(dir, frames, &options.read)?;

    let mut splits = BTreeMap::new();
    for (name, entries) in names.iter().zip(kept) {
        let read = read_split(
            &dir.join(name),
            &entries,
            scale,
            range,
            &options.read,
            &mut report.skipped,
        )?;
        splits.insert(*name, read);
    }
    let (train, test) = (
        splits.remove("train").unwrap_or_default(),
        splits.remove("test").unwrap_or_default(),
    );
    (report.train, report.test) = (train.len(), test.len());
    let data = DepthDataset::new(
        report.client.clone(),
        (options.read.width, options.read.height),
        range,
        train,
        test,
    )?;
    Ok((data, report))
}

pub(crate) fn name_of(dir: &Path) -> String {
    dir.file_name().map_or_else(
        || dir.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests;
