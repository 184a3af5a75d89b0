//! Reader for `<client>/{train,test}/{rgb,depth}/NNNN.png` with an optional `<client>/meta.json`.
//!
//! `rgb` is 8-bit colour; `depth` is 16-bit gray, planar z, 0 for unknown. What one depth unit means is declared, never
//! guessed: KITTI stores metres × 256, NYU Depth v2 millimetres. From `meta.json` the keys `name`, `depth_scale` (units
//! a metre), `depth_min_m` and `depth_max_m` are read; others are ignored.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::folder::listing::{Entry, list, thin};
use crate::data::folder::meta::Meta;
use crate::data::{DataError, DepthDataset, Frame};
use crate::metrics::DepthRange;

mod listing;
mod meta;
mod scale;

pub use scale::DepthScale;

/// What to do with a frame that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFault {
    /// Stop with its error.
    #[default]
    Refuse,
    /// Leave it out and report it.
    Skip,
}

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
    /// Width to bring every frame to.
    pub width: usize,
    /// Height to bring every frame to.
    pub height: usize,
    /// Depth scale. `None` takes the one in `meta.json`; a contradiction is an error.
    pub scale: Option<DepthScale>,
    /// Smallest depth that counts, metres. `None` takes `meta.json`'s, else 1 mm.
    pub min_m: Option<f32>,
    /// Largest depth that counts, metres. `None` takes `meta.json`'s, else 10 m for `nyu` and 80 m otherwise.
    pub cap_m: Option<f32>,
    /// What to do with unreadable frames.
    pub on_fault: OnFault,
    /// Which splits to read.
    pub splits: Splits,
    /// Take at most so many frames of each split, evenly spread over the sorted names.
    pub max_frames: Option<usize>,
    /// Most bytes that the frames of one client may take in memory.
    pub memory_limit: usize,
}

impl FolderOptions {
    /// Defaults for frames of this size: everything from `meta.json`, refuse faults, both splits, 2 GiB.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            scale: None,
            min_m: None,
            cap_m: None,
            on_fault: OnFault::default(),
            splits: Splits::default(),
            max_frames: None,
            memory_limit: 2 << 30,
        }
    }
}

/// What was read and what was not.
#[derive(Debug)]
pub struct ReadReport {
    /// The client's name.
    pub client: String,
    /// Scale used.
    pub scale: DepthScale,
    /// Range used.
    pub range: DepthRange,
    /// Frames found in all splits: names with a picture, a depth map or both.
    pub found: usize,
    /// Training frames taken.
    pub train: usize,
    /// Test frames taken.
    pub test: usize,
    /// Frames passed over because of `max_frames`.
    pub thinned: usize,
    /// Frames left out, with the reason.
    pub skipped: Vec<(PathBuf, SkipReason)>,
}

impl ReadReport {
    /// Frames taken in all splits.
    #[must_use]
    pub fn used(&self) -> usize {
        self.train + self.test
    }
}

impl fmt::Display for ReadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} frames found, {} used ({} train, {} test), {} skipped, {} thinned; depth {}, {} m to {} m",
            self.client,
            self.found,
            self.used(),
            self.train,
            self.test,
            self.skipped.len(),
            self.thinned,
            self.scale,
            self.range.min_m,
            self.range.cap_m
        )?;
        for (path, reason) in self.skipped.iter().take(SKIPS_SHOWN) {
            write!(f, "\n  skipped {}: {reason}", path.display())?;
        }
        if let Some(more) = self.skipped.len().checked_sub(SKIPS_SHOWN).filter(|&n| n > 0) {
            write!(f, "\n  and {more} more")?;
        }
        Ok(())
    }
}

/// Why a frame was left out.
#[derive(Debug)]
#[non_exhaustive]
pub enum SkipReason {
    /// No pixel has a depth inside the range.
    NoValidDepth,
    /// It could not be read, and [`OnFault::Skip`] was set.
    Fault(DataError),
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValidDepth => f.write_str("no pixel has a depth inside the range"),
            Self::Fault(error) => error.fmt(f),
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
    if options.width == 0 || options.height == 0 {
        return Err(DataError::Settings {
            what: "frame width and height must be positive".to_owned(),
        });
    }
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
    };
    let kept: Vec<Vec<Entry>> = listings
        .into_iter()
        .map(|all| thin(all, options.max_frames))
        .collect();
    let frames: usize = kept.iter().map(Vec::len).sum();
    report.thinned = found - frames;
    check_memory(dir, frames, options)?;

    let mut splits = BTreeMap::new();
    for (name, entries) in names.iter().zip(kept) {
        let read = read_split(
            &dir.join(name),
            &entries,
            scale,
            range,
            options,
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
        (options.width, options.height),
        range,
        train,
        test,
    )?;
    Ok((data, report))
}

fn check_memory(dir: &Path, frames: usize, options: &FolderOptions) -> Result<(), DataError> {
    let needed = options
        .width
        .saturating_mul(options.height)
        .saturating_mul(BYTES_A_PIXEL)
        .saturating_mul(frames);
    if needed <= options.memory_limit {
        return Ok(());
    }
    Err(DataError::Memory {
        path: dir.to_owned(),
        frames,
        needed_mib: needed.div_ceil(1 << 20),
        limit_mib: options.memory_limit >> 20,
    })
}

fn read_split(
    path: &Path,
    entries: &[Entry],
    scale: DepthScale,
    range: DepthRange,
    options: &FolderOptions,
    skipped: &mut Vec<(PathBuf, SkipReason)>,
) -> Result<Vec<Frame>, DataError> {
    let mut frames: Vec<(PathBuf, Frame)> = Vec::new();
    let mut first_fault = None;
    // In stretches, so that a fault in the first of many thousand frames is told early.
    for stretch in entries.chunks(FRAMES_A_STRETCH) {
        let read: Vec<_> = stretch
            .par_iter()
            .map(|entry| entry.read(scale, options.width, options.height))
            .collect();
        for (entry, result) in stretch.iter().zip(read) {
            match (result, options.on_fault) {
                (Ok(frame), _) => frames.push((entry.path(), frame)),
                (Err(error), OnFault::Refuse) => return Err(error),
                (Err(error), OnFault::Skip) => {
                    first_fault.get_or_insert_with(|| error.to_string());
                    skipped.push((entry.path(), SkipReason::Fault(error)));
                }
            }
        }
    }
    if let (true, Some(first)) = (frames.is_empty(), first_fault) {
        return Err(DataError::AllSkipped {
            path: path.to_owned(),
            frames: entries.len(),
            first,
        });
    }
    check_scale(path, &frames, scale, range)?;
    let looked_at = frames.len();
    let mut used = Vec::with_capacity(looked_at);
    for (file, mut frame) in frames {
        frame.keep(range);
        if frame.known_pixels() == 0 {
            skipped.push((file, SkipReason::NoValidDepth));
        } else {
            used.push(frame);
        }
    }
    if used.is_empty() {
        return Err(DataError::AllInvalid {
            path: path.to_owned(),
            frames: looked_at,
            range,
        });
    }
    Ok(used)
}

/// Refuses depths that make sense only under another scale: 1 % beyond four times the cap, or most beyond the cap.
fn check_scale(
    path: &Path,
    frames: &[(PathBuf, Frame)],
    scale: DepthScale,
    range: DepthRange,
) -> Result<(), DataError> {
    let known = || {
        frames
            .iter()
            .flat_map(|(_, f)| f.depth().iter().copied())
            .filter(|&d| d > 0.0)
    };
    let (mut total, mut beyond, mut far) = (0_u32, 0_u32, 0_u32);
    for depth in known() {
        total = total.saturating_add(1);
        beyond += u32::from(depth > range.cap_m);
        far += u32::from(depth > 4.0 * range.cap_m);
    }
    let (total, beyond, far) = (f64::from(total), f64::from(beyond), f64::from(far));
    if total == 0.0 || (far <= 0.01 * total && beyond <= 0.5 * total) {
        return Ok(());
    }
    let mut depths: Vec<f32> = known().collect();
    let at = depths.len() * 99 / 100;
    let (_, percentile, _) = depths.select_nth_unstable_by(at, f32::total_cmp);
    Err(DataError::Scale {
        path: path.to_owned(),
        declared: scale,
        hint: scale.alternative(),
        percentile_m: *percentile,
        beyond: 100.0 * beyond / total,
        cap_m: range.cap_m,
    })
}

pub(crate) fn name_of(dir: &Path) -> String {
    dir.file_name().map_or_else(
        || dir.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Three bytes of colour and four of depth.
const BYTES_A_PIXEL: usize = 7;
/// Frames decoded before the first fault is looked for.
const FRAMES_A_STRETCH: usize = 256;
/// Skipped files that a printed report lists.
const SKIPS_SHOWN: usize = 5;

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests;
