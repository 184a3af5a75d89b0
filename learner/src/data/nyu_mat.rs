//! NYU Depth v2, the 1,449 labelled frames of `nyu_depth_v2_labeled.mat` (MATLAB v7.3, which is HDF5).
//!
//! | table | shape | what |
//! | --- | --- | --- |
//! | `images` | N x 3 x 640 x 480 | `u8`, MATLAB's order: columns first |
//! | `rawDepths`, `depths` | N x 640 x 480 | `f32` metres, measured (0 unknown) and in-painted |
//! | `sceneTypes` | 1 x N | references to texts of `u16` |
//!
//! The split is in a second file, `splits.mat` (MATLAB v5): `trainNdxs` and `testNdxs`, from 1.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hdf5_pure::Object;

use crate::data::crop::{EIGEN_NYU, NYU_SEEN, NYU_TRAINING, Steps};
use crate::data::hdf::{Hdf, Table};
use crate::data::split::{FrameFile, Plan, client_name, few};
use crate::data::{DataError, DepthDataset, DepthScale, Frame, ReadOptions, ReadReport};
use crate::metrics::DepthRange;

mod splits;

use splits::Splits;

/// How to read the labelled frames.
#[derive(Clone, Debug)]
pub struct NyuMatOptions {
    /// The file of the frames.
    pub path: PathBuf,
    /// The file of the split.
    pub splits: PathBuf,
    /// Types of scenes to train on (`kitchen`); none named means all training frames.
    pub train: Vec<String>,
    /// Types of scenes to score on; none named means all test frames.
    pub test: Vec<String>,
    /// Whether training frames lose their white border (565 x 427 are left), test frames have it black, and test depths count
    /// in Eigen's mask.
    pub crop: bool,
    /// Take the in-painted depths.
    pub dense: bool,
    /// Size, faults and limits.
    pub read: ReadOptions,
}

/// Reads a client's frames.
///
/// # Errors
///
/// A [`DataError`] that names the file, its table and the remedy.
pub fn read_client(options: &NyuMatOptions) -> Result<(DepthDataset, ReadReport), DataError> {
    let hdf = Hdf::open(&options.path)?;
    let images = hdf.table("images")?;
    images.demand(&[0, 3, WIDTH, HEIGHT])?;
    let depths = hdf.table(if options.dense { "depths" } else { "rawDepths" })?;
    depths.demand(&[images.frames(), WIDTH, HEIGHT])?;
    let splits = Splits::read(&options.splits, images.frames())?;
    let types = if options.train.is_empty() && options.test.is_empty() {
        Vec::new()
    } else {
        scene_types(&hdf, images.frames())?
    };
    let mut notes = vec![format!(
        "{}; {}",
        if options.crop {
            "training frames cut to 565x427, black border and Eigen's mask on test frames"
        } else {
            "no crop, no mask"
        },
        if options.dense {
            "in-painted depths"
        } else {
            "measured depths"
        }
    )];
    let mut select = |name: &'static str, numbers: &[usize], wanted: &[String], steps: Steps| {
        let known: BTreeSet<&str> = types.iter().map(String::as_str).collect();
        if let Some(missing) = wanted.iter().find(|wanted| !known.contains(wanted.as_str())) {
            return Err(DataError::NoSequence {
                key: if name == "train" {
                    "data.sequences"
                } else {
                    "data.test_sequences"
                },
                name: missing.clone(),
                path: options.path.clone(),
                known: few(known.into_iter()),
            });
        }
        let frames: Vec<MatFrame<'_>> = numbers
            .iter()
            .filter(|&&number| {
                wanted.is_empty() || types.get(number).is_some_and(|found| wanted.contains(found))
            })
            .map(|&number| MatFrame {
                path: hdf.path(),
                images: &images,
                depths: &depths,
                split: name,
                number,
                steps: options.crop.then_some(steps),
            })
            .collect();
        notes.push(format!(
            "{name}: {} of {} frames taken",
            frames.len(),
            numbers.len()
        ));
        Ok(Some((options.path.clone(), frames)))
    };
    let cut = Steps {
        cut: Some(NYU_TRAINING),
        ..Steps::default()
    };
    let mask = Steps {
        mask_whole: Some(EIGEN_NYU),
        ..Steps::default()
    };
    let train = select("train", &splits.train, &options.train, cut)?;
    let test = select("test", &splits.test, &options.test, mask)?;
    let plan = Plan {
        client: client_name(&options.train, &options.path),
        root: options.path.clone(),
        scale: METRES,
        range: DepthRange::NYU,
        notes,
        train,
        test,
    };
    plan.read(&options.read)
}

/// A frame of the file.
struct MatFrame<'a> {
    path: &'a Path,
    images: &'a Table,
    depths: &'a Table,
    split: &'static str,
    /// From 0.
    number: usize,
    /// Crops and masks of the benchmark, if they are wanted.
    steps: Option<Steps>,
}

impl FrameFile for MatFrame<'_> {
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("{}#{}", self.path.display(), self.number + 1))
    }

    fn read(&self, _: DepthScale, width: usize, height: usize) -> Result<Frame, DataError> {
        let planes = self.images.bytes(self.number)?;
        let columns = self.depths.floats(self.number)?;
        let at = |x: usize, y: usize| x * HEIGHT + y;
        let mut rgb = Vec::with_capacity(3 * WIDTH * HEIGHT);
        let mut depth = Vec::with_capacity(WIDTH * HEIGHT);
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                let colour = |c: usize| planes.get(c * WIDTH * HEIGHT + at(x, y)).copied().unwrap_or(0);
                let black = self.steps.is_some() && !NYU_SEEN.holds(y, x);
                rgb.extend(if black { [0; 3] } else { [0, 1, 2].map(colour) });
                depth.push(columns.get(at(x, y)).copied().unwrap_or(0.0));
            }
        }
        let name = format!("{}/{:04}", self.split, self.number + 1);
        let frame = Frame::new(name, WIDTH, HEIGHT, rgb, depth)?;
        self.steps
            .unwrap_or_default()
            .apply(frame)?
            .resized(width, height)
    }
}

/// The type of each frame's scene.
fn scene_types(hdf: &Hdf, frames: usize) -> Result<Vec<String>, DataError> {
    let table = hdf.table("sceneTypes")?;
    table.demand(&[1, frames])?;
    let objects = table
        .set
        .dereference()
        .map_err(|error| table.fault(&error.to_string()))?;
    objects
        .iter()
        .map(|object| {
            let Object::Dataset(text) = object else {
                return Err(table.fault("a reference leads to no text"));
            };
            let units = text.read_u16().map_err(|error| table.fault(&error.to_string()))?;
            String::from_utf16(&units).map_err(|_| table.fault("a type is no text"))
        })
        .collect()
}

const WIDTH: usize = 640;
const HEIGHT: usize = 480;
const METRES: DepthScale = DepthScale::PerMetre(1.0);

#[cfg(test)]
mod tests;
