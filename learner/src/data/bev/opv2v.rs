//! Reader for OPV2V recordings with BEV labels, in their own layout or as `FedBEVT` copies them per client.
//!
//! ```text
//! <root>/{train,test}/[<client>/]<scenario>/<vehicle id>/NNNNNN.yaml
//!                                                       /NNNNNN_camera{0..3}.png
//!                                                       /NNNNNN_bev_dynamic.png, _bev_visibility.png
//! ```
//!
//! Poses are in Unreal axes (y right), degrees, in the order x, y, z, roll, yaw, pitch. Camera to ego is
//! inverse(`true_ego_pos`) · `cords`; the yaml's `extrinsic` maps to the `LiDAR` and is not used. How label rows and
//! columns are laid out is found out by [`check`](crate::data::bev::check) and turned to this crate's convention. Of
//! each scenario the vehicle with the lowest non-negative number records; negative numbers are road-side units.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Deserialize;

use crate::bev::{Camera, Grid, Intrinsics, Mirror, Pose, Rig, VehicleBox};
use crate::data::DataError;
use crate::data::OnFault;
use crate::data::bev::check::{CheckFrame, SelfCheck, self_check};
use crate::data::bev::plain::{BevOptions, BevReadReport, read_picture, thin};
use crate::data::bev::{BevDataError, BevDataset, BevFrame, LabelKind};
use crate::data::picture::read_mask;

const LAYOUT: &str = "<root>/{train,test}/[<client>/]<scenario>/<vehicle id>/NNNNNN.yaml with _camera0.png and _bev_visibility.png";

#[derive(Deserialize)]
struct FrameYaml {
    true_ego_pos: [f64; 6],
    #[serde(default)]
    vehicles: BTreeMap<i64, VehicleYaml>,
    camera0: Option<CameraYaml>,
    camera1: Option<CameraYaml>,
    camera2: Option<CameraYaml>,
    camera3: Option<CameraYaml>,
}

#[derive(Deserialize)]
struct CameraYaml {
    cords: [f64; 6],
    intrinsic: [[f64; 3]; 3],
}

#[derive(Deserialize)]
struct VehicleYaml {
    /// Roll, yaw, pitch.
    angle: [f64; 3],
    center: [f64; 3],
    /// Half sizes.
    extent: [f64; 3],
    location: [f64; 3],
}

/// One moment's files and calibrations.
struct Moment {
    /// Such as `train/2021_08_18_19_48_05/1045/000068`.
    name: String,
    /// Path without ending.
    stem: PathBuf,
    rig: Rig,
    boxes: Vec<VehicleBox>,
}

/// Reads one client. `client` is the folder below each split in `FedBEVT`'s layout; `None` takes the splits themselves,
/// as OPV2V has them. Camera names are `camera0` to `camera3`.
///
/// # Errors
///
/// A [`BevDataError`] that names the file and the remedy; [`BevDataError::SelfCheck`] if boxes, labels and pictures do
/// not agree.
pub fn read_client(
    root: &Path,
    client: Option<&str>,
    options: &BevOptions,
) -> Result<(BevDataset, BevReadReport), BevDataError> {
    if options.width == 0 || options.height == 0 {
        let what = "picture width and height must be positive".to_owned();
        return Err(DataError::Settings { what }.into());
    }
    let name = client.map_or_else(|| crate::data::folder::name_of(root), str::to_owned);
    let mut skipped = Vec::new();
    let mut splits = Vec::new();
    let mut found = 0;
    for split in ["train", "test"] {
        let mut dir = root.join(split);
        if let Some(client) = client {
            dir.push(client);
        }
        let listed = list(split, &dir, &mut skipped)?;
        found += listed.len();
        let kept = thin(listed, options.max_frames);
        splits.push(moments(&dir, split, kept, options, &mut skipped)?);
    }
    let first = splits
        .iter()
        .flatten()
        .next()
        .ok_or_else(|| BevDataError::NoFrames {
            path: root.to_owned(),
            layout: LAYOUT,
        })?;
    let own = first.rig.clone();
    if let Some((moment, reason)) = splits
        .iter()
        .flatten()
        .find_map(|m| Some((m, differs(&own, &m.rig)?)))
    {
        let reason = format!(
            "{reason}, so its cameras are not mounted as in '{}'; a client's vehicles must share one type",
            first.name
        );
        return Err(BevDataError::Meta {
            path: moment.stem.with_extension("yaml"),
            reason,
        });
    }
    let checked = checked(&name, &own, &splits)?;
    let rig = chosen(&own, options, &first.stem)?;
    let grid = Grid::OPV2V;
    let frames: usize = splits.iter().map(Vec::len).sum();
    let bytes = frames.saturating_mul(3 * options.width * options.height * rig.cameras().len() + grid.area());
    if bytes > options.memory_limit {
        return Err(BevDataError::Memory {
            path: root.to_owned(),
            frames,
            needed_mib: bytes.div_ceil(1 << 20),
            limit_mib: options.memory_limit >> 20,
        });
    }
    let mut read = Vec::new();
    for moments in &splits {
        let results: Vec<_> = moments
            .par_iter()
            .map(|moment| frame(moment, &rig, checked.mirror, options))
            .collect();
        let mut taken = Vec::new();
        for (moment, result) in moments.iter().zip(results) {
            match (result, options.on_fault) {
                (Ok(frame), _) => taken.push(frame),
                (Err(error), OnFault::Refuse) => return Err(error),
                (Err(error), OnFault::Skip) => skipped.push((moment.name.clone(), error.to_string())),
            }
        }
        read.push(taken);
    }
    let (test, train) = (read.pop().unwrap_or_default(), read.pop().unwrap_or_default());
    let rig = rig.scaled(options.width, options.height);
    let report = BevReadReport {
        client: name.clone(),
        rig: rig.clone(),
        grid,
        label: options.label,
        found,
        train: train.len(),
        test: test.len(),
        rasterised: 0,
        skipped,
        check: Some(checked),
    };
    Ok((BevDataset::new(name, rig, grid, train, test)?, report))
}

/// Frames of a split in order: their paths without ending.
fn list(
    split: &str,
    dir: &Path,
    skipped: &mut Vec<(String, String)>,
) -> Result<Vec<(String, PathBuf)>, BevDataError> {
    if !dir.is_dir() {
        return Err(BevDataError::Layout {
            path: dir.to_owned(),
            layout: LAYOUT,
        });
    }
    let mut frames = Vec::new();
    for scenario in folders(dir)? {
        let name = crate::data::folder::name_of(&scenario);
        if name == KNOWN_BAD && split == "train" {
            skipped.push((
                format!("{split}/{name}"),
                "its camera data is known to be bad; remove it".to_owned(),
            ));
            continue;
        }
        let mut vehicles: Vec<(i64, PathBuf)> = folders(&scenario)?
            .into_iter()
            .filter_map(|path| Some((crate::data::folder::name_of(&path).parse().ok()?, path)))
            .collect();
        vehicles.sort();
        let Some((number, vehicle)) = vehicles.into_iter().find(|(number, _)| *number >= 0) else {
            skipped.push((
                format!("{split}/{name}"),
                "it holds no vehicle's folder: only road-side units, or nothing".to_owned(),
            ));
            continue;
        };
        for path in entries(&vehicle)? {
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
            let is_yaml = path.extension().is_some_and(|e| e == "yaml");
            if let Some(stem) = stem.filter(|s| is_yaml && !s.contains("additional")) {
                frames.push((format!("{split}/{name}/{number}/{stem}"), vehicle.join(stem)));
            }
        }
    }
    Ok(frames)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, BevDataError> {
    let fault = |source| DataError::Io {
        path: dir.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fault)? {
        paths.push(entry.map_err(fault)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, BevDataError> {
    Ok(entries(dir)?.into_iter().filter(|path| path.is_dir()).collect())
}

/// Reads the calibrations of frames that have the label wanted.
fn moments(
    dir: &Path,
    split: &str,
    frames: Vec<(String, PathBuf)>,
    options: &BevOptions,
    skipped: &mut Vec<(String, String)>,
) -> Result<Vec<Moment>, BevDataError> {
    let looked_at = frames.len();
    let mut taken = Vec::new();
    let mut first = None;
    for (name, stem) in frames {
        let label = beside(&stem, suffix(options.label));
        // Whole recordings come without labels, so a missing one is told and passed over under either setting.
        let result = if label.exists() {
            moment(&name, &stem)
        } else {
            let reason = format!(
                "{} is missing: make BEV labels for this recording, or set data.label to the other kind",
                label.display()
            );
            first.get_or_insert_with(|| reason.clone());
            skipped.push((name, reason));
            continue;
        };
        match (result, options.on_fault) {
            (Ok(moment), _) => taken.push(moment),
            (Err(error), OnFault::Refuse) => return Err(error),
            (Err(error), OnFault::Skip) => {
                first.get_or_insert_with(|| error.to_string());
                skipped.push((name, error.to_string()));
            }
        }
    }
    match first {
        Some(first) if taken.is_empty() => Err(BevDataError::AllSkipped {
            path: dir.to_owned(),
            split: split.to_owned(),
            frames: looked_at,
            first,
        }),
        _ => Ok(taken),
    }
}

fn moment(name: &str, stem: &Path) -> Result<Moment, BevDataError> {
    let path = stem.with_extension("yaml");
    let text = std::fs::read_to_string(&path).map_err(|source| DataError::Io {
        path: path.clone(),
        source,
    })?;
    let yaml: FrameYaml = serde_saphyr::from_str(&text).map_err(|e| BevDataError::Meta {
        path: path.clone(),
        reason: first_line(&e.to_string()),
    })?;
    let calibration = |source| BevDataError::Calibration {
        path: path.clone(),
        source,
    };
    let pose = |what: &str, numbers: [f64; 6]| {
        Pose::new(what, Pose::from_ue4(numbers).matrix()).map_err(calibration)
    };
    let from_world = pose("true_ego_pos", yaml.true_ego_pos)?.inverse();
    let mut cameras = Vec::new();
    for (i, camera) in [&yaml.camera0, &yaml.camera1, &yaml.camera2, &yaml.camera3]
        .into_iter()
        .enumerate()
    {
        let Some(camera) = camera else { continue };
        let own = format!("camera{i}");
        let to_world = pose(&format!("cords of {own}"), camera.cords)?;
        cameras.push(Camera {
            intrinsics: Intrinsics::from_k(&own, camera.intrinsic, PICTURE).map_err(calibration)?,
            to_ego: Pose::camera_from_ue4(&from_world.after(&to_world)),
            name: own,
        });
    }
    let rig = Rig::new(cameras).map_err(calibration)?;
    let mut boxes = Vec::new();
    for (id, vehicle) in &yaml.vehicles {
        let vehicle = ego_box(&from_world, vehicle);
        if !vehicle.is_sound() {
            return Err(BevDataError::Box {
                path,
                frame: name.to_owned(),
                vehicle: id.to_string(),
            });
        }
        boxes.push(vehicle);
    }
    Ok(Moment {
        name: name.to_owned(),
        stem: stem.to_owned(),
        rig,
        boxes,
    })
}

/// A vehicle of the world in ego axes of this crate.
fn ego_box(from_world: &Pose, vehicle: &VehicleYaml) -> VehicleBox {
    let [lx, ly, lz] = vehicle.location;
    let [cx, cy, cz] = vehicle.center;
    let [roll, yaw, pitch] = vehicle.angle;
    let own = from_world.after(&Pose::from_ue4([lx + cx, ly + cy, lz + cz, roll, yaw, pitch]));
    let [x, y, z] = own.position();
    let [ahead, right, _] = own.turn([1.0, 0.0, 0.0]);
    let [length, width, height] = vehicle.extent.map(|half| 2.0 * half);
    VehicleBox {
        x,
        y: -y,
        bottom: z - height / 2.0,
        yaw: -right.atan2(ahead),
        length,
        width,
        height,
    }
}

/// How two rigs of one vehicle type differ, if they do.
fn differs(one: &Rig, other: &Rig) -> Option<String> {
    if one.cameras().len() != other.cameras().len() {
        return Some(format!(
            "it has {} cameras instead of {}",
            other.cameras().len(),
            one.cameras().len()
        ));
    }
    one.cameras().iter().zip(other.cameras()).find_map(|(a, b)| {
        let apart =
            |p: [f64; 3], q: [f64; 3]| p.iter().zip(q).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        let metres = apart(a.to_ego.position(), b.to_ego.position());
        let turned = apart(a.forward(), b.forward());
        (a.name != b.name || metres > SAME_PLACE_M || turned > SAME_VIEW).then(|| {
            format!(
                "{} lies {metres:.2} m from its place and {:.1} deg off its direction",
                b.name,
                turned.to_degrees()
            )
        })
    })
}

fn checked(client: &str, rig: &Rig, splits: &[Vec<Moment>]) -> Result<SelfCheck, BevDataError> {
    let all: Vec<&Moment> = splits.iter().flatten().collect();
    let mut frames = Vec::new();
    for moment in thin(all, Some(CHECKED_FRAMES)) {
        let label = |kind: LabelKind| -> Result<Option<Vec<bool>>, BevDataError> {
            let path = beside(&moment.stem, suffix(kind));
            if path.exists() {
                read_label(&path).map(Some)
            } else {
                Ok(None)
            }
        };
        let (all, visible) = (label(LabelKind::All)?, label(LabelKind::Visible)?);
        let Some(either) = all.clone().or_else(|| visible.clone()) else {
            continue;
        };
        frames.push(CheckFrame {
            boxes: moment.boxes.clone(),
            all: all.unwrap_or_else(|| either.clone()),
            // Without a label of visible vehicles none is known to be, and the second test has nothing to look at.
            visible: visible.unwrap_or_else(|| vec![false; either.len()]),
        });
    }
    Ok(self_check(client, rig, Grid::OPV2V, &frames)?)
}

fn chosen(own: &Rig, options: &BevOptions, stem: &Path) -> Result<Rig, BevDataError> {
    let path = stem.with_extension("yaml");
    let Some(names) = &options.cameras else {
        return Ok(own.clone());
    };
    let found: Vec<&str> = own.cameras().iter().map(|c| c.name.as_str()).collect();
    let cameras = names.iter().map(|name| {
        let camera = own.cameras().iter().find(|c| &c.name == name).cloned();
        camera.ok_or_else(|| BevDataError::NoSuchCamera {
            path: path.clone(),
            camera: name.clone(),
            found: found.join(", "),
        })
    });
    Ok(Rig::new(cameras.collect::<Result<_, _>>()?)?)
}

fn frame(moment: &Moment, rig: &Rig, mirror: Mirror, options: &BevOptions) -> Result<BevFrame, BevDataError> {
    let mut pictures = Vec::new();
    for camera in rig.cameras() {
        let path = beside(&moment.stem, &camera.name);
        pictures.extend(read_picture(
            &path,
            &moment.name,
            PICTURE,
            (options.width, options.height),
        )?);
    }
    let label = read_label(&beside(&moment.stem, suffix(options.label)))?;
    Ok(BevFrame::new(
        moment.name.clone(),
        pictures,
        mirror.apply(Grid::OPV2V.cells, &label),
    ))
}

fn read_label(path: &Path) -> Result<Vec<bool>, BevDataError> {
    let mask = read_mask(path)?;
    let cells = Grid::OPV2V.cells;
    if (mask.width, mask.height) != (cells, cells) {
        return Err(BevDataError::LabelSize {
            path: path.to_owned(),
            found: (mask.width, mask.height),
            cells,
        });
    }
    Ok(mask.samples)
}

/// `000068` → `000068_camera0.png`.
fn beside(stem: &Path, kind: &str) -> PathBuf {
    let name = stem
        .file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    stem.with_file_name(format!("{name}_{kind}.png"))
}

fn suffix(label: LabelKind) -> &'static str {
    match label {
        LabelKind::Visible => "bev_visibility",
        LabelKind::All => "bev_dynamic",
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Size of every camera's pictures.
const PICTURE: (usize, usize) = (800, 600);
/// A training scenario whose camera data is known to be bad.
const KNOWN_BAD: &str = "2021_09_09_13_20_58";
/// Frames that the self-check looks at.
const CHECKED_FRAMES: usize = 20;
/// Two cameras within these share a mount.
const SAME_PLACE_M: f64 = 0.15;
/// Length of the difference of two directions of view, about an angle in radians.
const SAME_VIEW: f64 = 0.05;

#[cfg(test)]
mod tests;
