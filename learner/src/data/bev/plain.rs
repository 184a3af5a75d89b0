//! Reader for `<client>/{train,test}/<camera>/NNNN.png` with labels in `…/bev` and `…/bev_visible` and a `meta.json`.
//!
//! `meta.json` holds `width`, `height`, `cameras` (`name`, `K`, `camera_to_ego`; camera axes x right, y down, z forward,
//! ego axes x ahead, y left, z up) and `frames` (`id`, `split`, `vehicles` with `x y yaw length width height` and, if
//! known, how many `pixels` of it the cameras show). `bev` says the grid's `metres` and `cells`; 100 m and 200 if absent.
//! A label file that is not there is rasterised from the boxes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Deserialize;

use crate::bev::raster::rasterise;
use crate::bev::{Camera, Grid, Intrinsics, Pose, Rig, VehicleBox};
use crate::data::bev::{BevDataError, BevDataset, BevFrame, LabelKind};
use crate::data::folder::name_of;
use crate::data::picture::{read_mask, read_rgb};
use crate::data::{DataError, Frame, OnFault};

/// The layout, for messages.
pub(crate) const LAYOUT: &str =
    "<client>/meta.json and <client>/{train,test}/<camera>/NNNN.png with labels in bev/ and bev_visible/";

/// How to read a client's frames.
#[derive(Clone, Debug)]
pub struct BevOptions {
    /// Width to bring every picture to; K follows.
    pub width: usize,
    /// Height to bring every picture to; K follows.
    pub height: usize,
    /// Which vehicles to look for.
    pub label: LabelKind,
    /// Take only these cameras, in this order. `None` takes all.
    pub cameras: Option<Vec<String>>,
    /// What to do with unreadable frames.
    pub on_fault: OnFault,
    /// Take at most so many frames of each split, evenly spread.
    pub max_frames: Option<usize>,
    /// Most bytes that the frames of one client may take in memory.
    pub memory_limit: usize,
}

impl BevOptions {
    /// Defaults for pictures of this size: visible vehicles, all cameras, refuse faults, 2 GiB.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            label: LabelKind::default(),
            cameras: None,
            on_fault: OnFault::default(),
            max_frames: None,
            memory_limit: 2 << 30,
        }
    }
}

/// What was read and what was not.
#[derive(Debug)]
pub struct BevReadReport {
    /// The client's name.
    pub client: String,
    /// Where its cameras are.
    pub rig: Rig,
    /// The grid.
    pub grid: Grid,
    /// Which vehicles the labels mark.
    pub label: LabelKind,
    /// Frames found.
    pub found: usize,
    /// Training frames taken.
    pub train: usize,
    /// Test frames taken.
    pub test: usize,
    /// Labels rasterised from boxes because there was no file.
    pub rasterised: usize,
    /// Frames left out, with the reason.
    pub skipped: Vec<(String, String)>,
    /// What the self-check found, where there is one.
    pub check: Option<crate::data::bev::check::SelfCheck>,
}

impl fmt::Display for BevReadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match self.label {
            LabelKind::Visible => "visible vehicles",
            LabelKind::All => "all vehicles",
        };
        write!(
            f,
            "{}: {} frames found, {} used ({} train, {} test), {} skipped; {label} on {} x {} cells over {} m, {} labels rasterised from boxes\n{}",
            self.client,
            self.found,
            self.train + self.test,
            self.train,
            self.test,
            self.skipped.len(),
            self.grid.cells,
            self.grid.cells,
            self.grid.metres,
            self.rasterised,
            self.rig,
        )?;
        if let Some(check) = &self.check {
            write!(f, "\n{check}")?;
        }
        for (frame, reason) in self.skipped.iter().take(SKIPS_SHOWN) {
            write!(f, "\n  skipped {frame}: {reason}")?;
        }
        if let Some(more) = self.skipped.len().checked_sub(SKIPS_SHOWN).filter(|&n| n > 0) {
            write!(f, "\n  and {more} more")?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Meta {
    name: Option<String>,
    width: usize,
    height: usize,
    bev: Option<MetaGrid>,
    cameras: Vec<MetaCamera>,
    frames: Vec<MetaFrame>,
}

#[derive(Deserialize)]
struct MetaGrid {
    metres: f64,
    cells: usize,
}

#[derive(Deserialize)]
struct MetaCamera {
    name: String,
    #[serde(rename = "K")]
    k: [[f64; 3]; 3],
    camera_to_ego: [[f64; 4]; 4],
}

#[derive(Deserialize)]
struct MetaFrame {
    id: String,
    split: String,
    #[serde(default)]
    vehicles: Vec<MetaVehicle>,
}

#[derive(Deserialize)]
struct MetaVehicle {
    pixels: Option<u64>,
    #[serde(flatten)]
    body: VehicleBox,
}

/// Reads one client's folder.
///
/// # Errors
///
/// A [`BevDataError`] that names the file and the remedy.
pub fn read_client(dir: &Path, options: &BevOptions) -> Result<(BevDataset, BevReadReport), BevDataError> {
    if options.width == 0 || options.height == 0 {
        let what = "picture width and height must be positive".to_owned();
        return Err(DataError::Settings { what }.into());
    }
    let (path, meta) = read_meta(dir)?;
    let calibration = |source| BevDataError::Calibration {
        path: path.clone(),
        source,
    };
    let grid = match &meta.bev {
        Some(grid) => Grid::new(grid.cells, grid.metres).map_err(calibration)?,
        None => Grid::PLAIN,
    };
    let own = rig_of(&meta, options.cameras.as_deref(), &path)?;
    let rig = own.scaled(options.width, options.height);
    let reader = Reader {
        dir,
        meta: &path,
        own: &own,
        grid,
        options,
    };
    let mut report = BevReadReport {
        client: meta.name.clone().unwrap_or_else(|| name_of(dir)),
        rig: rig.clone(),
        grid,
        label: options.label,
        found: meta.frames.len(),
        train: 0,
        test: 0,
        rasterised: 0,
        skipped: Vec::new(),
        check: None,
    };
    if let Some(odd) = meta
        .frames
        .iter()
        .find(|f| f.split != "train" && f.split != "test")
    {
        let reason = format!(
            "frame '{}' is of split '{}', but splits are train and test",
            odd.id, odd.split
        );
        return Err(BevDataError::Meta { path, reason });
    }
    let mut splits: BTreeMap<&str, Vec<&MetaFrame>> = BTreeMap::new();
    for name in ["train", "test"] {
        let all: Vec<&MetaFrame> = meta.frames.iter().filter(|f| f.split == name).collect();
        splits.insert(name, thin(all, options.max_frames));
    }
    let frames: usize = splits.values().map(Vec::len).sum();
    let bytes = frames.saturating_mul(3 * options.width * options.height * rig.cameras().len() + grid.area());
    if bytes > options.memory_limit {
        return Err(BevDataError::Memory {
            path: dir.to_owned(),
            frames,
            needed_mib: bytes.div_ceil(1 << 20),
            limit_mib: options.memory_limit >> 20,
        });
    }
    let mut read = |name: &str| reader.split(name, splits.get(name).map_or(&[], Vec::as_slice), &mut report);
    let (train, test) = (read("train")?, read("test")?);
    (report.train, report.test) = (train.len(), test.len());
    if train.is_empty() && test.is_empty() {
        return Err(BevDataError::NoFrames {
            path: dir.to_owned(),
            layout: LAYOUT,
        });
    }
    let data = BevDataset::new(report.client.clone(), rig, grid, train, test)?;
    Ok((data, report))
}

fn read_meta(dir: &Path) -> Result<(PathBuf, Meta), BevDataError> {
    let path = dir.join("meta.json");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(BevDataError::Layout { path, layout: LAYOUT });
        }
        Err(source) => return Err(DataError::Io { path, source }.into()),
    };
    match serde_json::from_str(&text) {
        Ok(meta) => Ok((path, meta)),
        Err(e) => Err(BevDataError::Meta {
            path,
            reason: e.to_string(),
        }),
    }
}

fn rig_of(meta: &Meta, wanted: Option<&[String]>, path: &Path) -> Result<Rig, BevDataError> {
    let calibration = |source| BevDataError::Calibration {
        path: path.to_owned(),
        source,
    };
    let mut all = Vec::new();
    for camera in &meta.cameras {
        let size = (meta.width, meta.height);
        all.push(Camera {
            name: camera.name.clone(),
            intrinsics: Intrinsics::from_k(&camera.name, camera.k, size).map_err(calibration)?,
            to_ego: Pose::new(
                &format!("camera_to_ego of '{}'", camera.name),
                camera.camera_to_ego,
            )
            .map_err(calibration)?,
        });
    }
    let odd = |name: &str| name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']);
    if let Some(camera) = all.iter().find(|c| odd(&c.name)) {
        let reason = format!("camera name '{}' is no folder's name", camera.name);
        return Err(BevDataError::Meta {
            path: path.to_owned(),
            reason,
        });
    }
    let Some(names) = wanted else {
        return Rig::new(all).map_err(calibration);
    };
    let found = all.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    let chosen = names.iter().map(|name| {
        let camera = all.iter().find(|c| &c.name == name).cloned();
        camera.ok_or_else(|| BevDataError::NoSuchCamera {
            path: path.to_owned(),
            camera: name.clone(),
            found: found.clone(),
        })
    });
    Rig::new(chosen.collect::<Result<_, _>>()?).map_err(calibration)
}

struct Reader<'a> {
    dir: &'a Path,
    meta: &'a Path,
    /// The cameras with K as the files have it.
    own: &'a Rig,
    grid: Grid,
    options: &'a BevOptions,
}

impl Reader<'_> {
    fn split(
        &self,
        name: &str,
        frames: &[&MetaFrame],
        report: &mut BevReadReport,
    ) -> Result<Vec<BevFrame>, BevDataError> {
        let read: Vec<_> = frames.par_iter().map(|frame| self.frame(name, frame)).collect();
        let mut taken = Vec::new();
        for (frame, result) in frames.iter().zip(read) {
            match (result, self.options.on_fault) {
                (Ok((read, rasterised)), _) => {
                    report.rasterised += usize::from(rasterised);
                    taken.push(read);
                }
                (Err(error), OnFault::Refuse) => return Err(error),
                (Err(error), OnFault::Skip) => {
                    report
                        .skipped
                        .push((format!("{name}/{}", frame.id), error.to_string()));
                }
            }
        }
        match report.skipped.last() {
            Some((_, first)) if taken.is_empty() && !frames.is_empty() => Err(BevDataError::AllSkipped {
                path: self.dir.to_owned(),
                split: name.to_owned(),
                frames: frames.len(),
                first: first.clone(),
            }),
            _ => Ok(taken),
        }
    }

    fn frame(&self, split: &str, frame: &MetaFrame) -> Result<(BevFrame, bool), BevDataError> {
        let name = format!("{split}/{}", frame.id);
        if frame.id.is_empty()
            || !frame
                .id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        {
            return Err(BevDataError::Meta {
                path: self.meta.to_owned(),
                reason: format!(
                    "frame id '{}' is no file's name",
                    frame.id.chars().take(40).collect::<String>()
                ),
            });
        }
        let folder = self.dir.join(split);
        let file = format!("{}.png", frame.id);
        let mut pictures = Vec::new();
        for camera in self.own.cameras() {
            let path = folder.join(&camera.name).join(&file);
            let size = (camera.intrinsics.width, camera.intrinsics.height);
            pictures.extend(read_picture(
                &path,
                &name,
                size,
                (self.options.width, self.options.height),
            )?);
        }
        let kind = match self.options.label {
            LabelKind::Visible => "bev_visible",
            LabelKind::All => "bev",
        };
        let path = folder.join(kind).join(&file);
        if path.exists() {
            let mask = read_mask(&path)?;
            if (mask.width, mask.height) != (self.grid.cells, self.grid.cells) {
                return Err(BevDataError::LabelSize {
                    path,
                    found: (mask.width, mask.height),
                    cells: self.grid.cells,
                });
            }
            return Ok((BevFrame::new(name, pictures, mask.samples), false));
        }
        let mut boxes = Vec::new();
        for (i, vehicle) in frame.vehicles.iter().enumerate() {
            if !vehicle.body.is_sound() {
                return Err(BevDataError::Box {
                    path: self.meta.to_owned(),
                    frame: name,
                    vehicle: i.to_string(),
                });
            }
            let seen = match vehicle.pixels {
                Some(pixels) => pixels > 0,
                None => self
                    .own
                    .cameras()
                    .iter()
                    .any(|c| vehicle.body.seen_by(c).is_some()),
            };
            if seen || self.options.label == LabelKind::All {
                boxes.push(vehicle.body);
            }
        }
        Ok((BevFrame::new(name, pictures, rasterise(self.grid, &boxes)), true))
    }
}

/// One camera's picture, checked against its calibration's size and brought to the network's.
pub(crate) fn read_picture(
    path: &Path,
    frame: &str,
    expected: (usize, usize),
    (width, height): (usize, usize),
) -> Result<Vec<u8>, BevDataError> {
    if !path.exists() {
        return Err(BevDataError::NoPicture {
            frame: frame.to_owned(),
            path: path.to_owned(),
        });
    }
    let picture = read_rgb(path)?;
    let found = (picture.width, picture.height);
    if found != expected {
        return Err(BevDataError::PictureSize {
            path: path.to_owned(),
            found,
            expected,
        });
    }
    let unknown = vec![0.0; found.0 * found.1];
    let whole = Frame::new(frame, found.0, found.1, picture.samples, unknown)?;
    Ok(whole.resized(width, height)?.rgb().to_vec())
}

/// At most `limit` of them, evenly spread.
pub(crate) fn thin<T>(all: Vec<T>, limit: Option<usize>) -> Vec<T> {
    let Some(limit) = limit.filter(|&n| n < all.len()) else {
        return all;
    };
    let count = all.len();
    let keep = |i: usize| (i + 1) * limit / count > i * limit / count;
    all.into_iter()
        .enumerate()
        .filter_map(|(i, item)| keep(i).then_some(item))
        .collect()
}

/// Skipped frames that a printed report lists.
const SKIPS_SHOWN: usize = 5;

#[cfg(test)]
mod tests;
