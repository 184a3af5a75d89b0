//! Reader for `<client>/{train,test}/{rgb,depth}/NNNN.png` with an optional `<client>/meta.json`.
//!
//! `rgb` is 8-bit colour; `depth` is 16-bit gray, planar z, 0 for unknown. What one depth unit means is declared, never
//! guessed: KITTI stores metres × 256, NYU Depth v2 millimetres. From `meta.json` the keys `name`, `depth_scale` (units
//! a metre), `depth_min_m` and `depth_max_m` are read; others are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::picture::{read_depth, read_rgb};
use crate::data::{DataError, DepthDataset, Frame};
use crate::metrics::DepthRange;

/// What one unit of a depth PNG means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DepthScale {
    /// 256 units a metre (KITTI depth annotations).
    Kitti,
    /// 1000 units a metre (NYU Depth v2 "sync" folders).
    Nyu,
    /// So many units a metre.
    PerMetre(f64),
}

impl DepthScale {
    /// Units a metre.
    #[must_use]
    pub fn units_per_metre(self) -> f64 {
        match self {
            Self::Kitti => 256.0,
            Self::Nyu => 1000.0,
            Self::PerMetre(units) => units,
        }
    }

    fn from_units(units: f64) -> Option<Self> {
        let named = [Self::Kitti, Self::Nyu]
            .into_iter()
            .find(|scale| scale.has(units));
        named.or_else(|| (units.is_finite() && units > 0.0).then_some(Self::PerMetre(units)))
    }

    #[expect(clippy::float_cmp, reason = "the same number written twice, not a result")]
    fn has(self, units: f64) -> bool {
        self.units_per_metre() == units
    }

    fn alternative(self) -> &'static str {
        match self {
            Self::Kitti => "nyu",
            Self::Nyu => "kitti",
            Self::PerMetre(_) => "kitti or nyu",
        }
    }
}

impl FromStr for DepthScale {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "kitti" => Ok(Self::Kitti),
            "nyu" => Ok(Self::Nyu),
            _ => text
                .parse()
                .ok()
                .and_then(Self::from_units)
                .ok_or_else(|| DataError::UnknownScale {
                    text: text.chars().take(40).collect(),
                }),
        }
    }
}

impl TryFrom<String> for DepthScale {
    type Error = DataError;

    fn try_from(text: String) -> Result<Self, DataError> {
        text.parse()
    }
}

impl From<DepthScale> for String {
    fn from(scale: DepthScale) -> Self {
        match scale {
            DepthScale::Kitti => "kitti".to_owned(),
            DepthScale::Nyu => "nyu".to_owned(),
            DepthScale::PerMetre(units) => units.to_string(),
        }
    }
}

impl fmt::Display for DepthScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kitti => f.write_str("kitti (value / 256 m)"),
            Self::Nyu => f.write_str("nyu (millimetres)"),
            Self::PerMetre(units) => write!(f, "value / {units} m"),
        }
    }
}

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

#[derive(Default, Deserialize)]
struct Meta {
    name: Option<String>,
    depth_scale: Option<f64>,
    depth_min_m: Option<f32>,
    depth_max_m: Option<f32>,
}

impl Meta {
    fn read(dir: &Path) -> Result<Self, DataError> {
        let path = dir.join("meta.json");
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| DataError::Meta {
                path,
                reason: e.to_string(),
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(DataError::Io { path, source }),
        }
    }

    fn scale(&self, dir: &Path, config: Option<DepthScale>) -> Result<DepthScale, DataError> {
        let meta = match self.depth_scale {
            None => None,
            Some(units) => Some(DepthScale::from_units(units).ok_or_else(|| DataError::Meta {
                path: dir.join("meta.json"),
                reason: format!("depth_scale is {units} but must be a positive number of units a metre"),
            })?),
        };
        match (config, meta) {
            (Some(config), Some(meta)) if !config.has(meta.units_per_metre()) => {
                Err(DataError::ScaleConflict {
                    path: dir.to_owned(),
                    meta: meta.units_per_metre(),
                    config,
                })
            }
            (Some(scale), _) | (None, Some(scale)) => Ok(scale),
            (None, None) => Err(DataError::NoScale { path: dir.to_owned() }),
        }
    }

    fn range(&self, options: &FolderOptions, scale: DepthScale) -> Result<DepthRange, DataError> {
        let usual = if scale == DepthScale::Nyu {
            DepthRange::NYU
        } else {
            DepthRange::KITTI
        };
        let min_m = options.min_m.or(self.depth_min_m).unwrap_or(usual.min_m);
        let cap_m = options.cap_m.or(self.depth_max_m).unwrap_or(usual.cap_m);
        DepthRange::new(min_m, cap_m).map_err(|e| DataError::Settings { what: e.to_string() })
    }
}

/// One name of a split with the files it should have.
struct Entry {
    name: String,
    rgb: Option<PathBuf>,
    depth: Option<PathBuf>,
    split: PathBuf,
}

impl Entry {
    /// The file to speak about.
    fn path(&self) -> PathBuf {
        self.rgb
            .clone()
            .or_else(|| self.depth.clone())
            .unwrap_or_else(|| self.split.clone())
    }

    fn read(&self, scale: DepthScale, width: usize, height: usize) -> Result<Frame, DataError> {
        let file = format!("{}.png", self.name);
        let partner = |folder: &str| DataError::Partner {
            path: self.path(),
            missing: self.split.join(folder).join(&file),
        };
        let rgb_path = self.rgb.as_deref().ok_or_else(|| partner("rgb"))?;
        let depth_path = self.depth.as_deref().ok_or_else(|| partner("depth"))?;
        let rgb = read_rgb(rgb_path)?;
        let depth = read_depth(depth_path)?;
        if (rgb.width, rgb.height) != (depth.width, depth.height) {
            return Err(DataError::Sizes {
                path: rgb_path.to_owned(),
                rgb: (rgb.width, rgb.height),
                depth: (depth.width, depth.height),
            });
        }
        let units = scale.units_per_metre();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "metres as f32 keep more digits than the file"
        )]
        let metres = depth
            .samples
            .iter()
            .map(|&v| (f64::from(v) / units) as f32)
            .collect();
        let name = format!("{}/{}", name_of(&self.split), self.name);
        Frame::new(name, rgb.width, rgb.height, rgb.samples, metres)?.resized(width, height)
    }
}

fn list(dir: &Path, split: &str) -> Result<Vec<Entry>, DataError> {
    let split = dir.join(split);
    let rgb = list_png(dir, &split.join("rgb"))?;
    let mut depth = list_png(dir, &split.join("depth"))?;
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    for (name, path) in rgb {
        let partner = depth.remove(&name);
        let entry = Entry {
            name: name.clone(),
            rgb: Some(path),
            depth: partner,
            split: split.clone(),
        };
        entries.insert(name, entry);
    }
    for (name, path) in depth {
        let entry = Entry {
            name: name.clone(),
            rgb: None,
            depth: Some(path),
            split: split.clone(),
        };
        entries.insert(name, entry);
    }
    if entries.is_empty() {
        return Err(DataError::Empty { path: split });
    }
    Ok(entries.into_values().collect())
}

fn list_png(client: &Path, dir: &Path) -> Result<BTreeMap<String, PathBuf>, DataError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(DataError::Layout {
                path: dir.to_owned(),
                found: describe(client),
            });
        }
        Err(source) => {
            return Err(DataError::Io {
                path: dir.to_owned(),
                source,
            });
        }
    };
    let mut files = BTreeMap::new();
    for entry in entries {
        let path = entry
            .map_err(|source| DataError::Io {
                path: dir.to_owned(),
                source,
            })?
            .path();
        if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("png"))
            && let Some(stem) = path.file_stem().and_then(OsStr::to_str)
        {
            files.insert(stem.to_owned(), path);
        }
    }
    Ok(files)
}

/// The first entries of a folder, for an error about what is missing in it.
fn describe(dir: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return "no such client folder".to_owned();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.truncate(6);
    if names.is_empty() {
        "an empty folder".to_owned()
    } else {
        names.join(", ")
    }
}

fn thin(entries: Vec<Entry>, max: Option<usize>) -> Vec<Entry> {
    let count = entries.len();
    let Some(max) = max.filter(|&max| max < count) else {
        return entries;
    };
    let kept: BTreeSet<usize> = (0..max).map(|i| (i * count).div_ceil(max)).collect();
    entries
        .into_iter()
        .enumerate()
        .filter(|(i, _)| kept.contains(i))
        .map(|(_, entry)| entry)
        .collect()
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

fn name_of(dir: &Path) -> String {
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
