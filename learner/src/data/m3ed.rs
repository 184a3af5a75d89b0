//! M3ED (Chaney et al., CVPR workshops 2023): pictures at 25 Hz, depths of the left event camera at its scanner's 10 Hz.
//!
//! ```text
//! <path>/[<sequence>/]<sequence>_data.h5       /ovc/{rgb,left,right}/data, /ovc/ts, calib groups
//! <path>/[<sequence>/]<sequence>_depth_gt.h5   /depth/prophesee/left (N x 720 x 1280, f32 metres, +inf unknown), /ts
//! ```
//!
//! Depth is neither of the picture's moment nor of its camera. Each depth map is paired with the nearest picture, at most
//! 20 ms away, and one of the two is brought into the other's view ([`View`]). Its points come from scans put together over
//! time, so what moved is smeared or missing there; no reader can mend that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data::listed::{files_of, folders_of};
use crate::data::split::{Plan, apart, client_name, few};
use crate::data::{DataError, DepthDataset, DepthScale, ReadOptions, ReadReport};
use crate::metrics::DepthRange;

mod lens;
mod pair;
mod sequence;

use pair::Pair;
use sequence::Sequence;

/// Which camera's pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum M3edCamera {
    /// The colour camera.
    #[default]
    Rgb,
    /// The left gray camera.
    Left,
    /// The right gray camera.
    Right,
}

impl M3edCamera {
    fn group(self) -> &'static str {
        match self {
            Self::Rgb => "ovc/rgb",
            Self::Left => "ovc/left",
            Self::Right => "ovc/right",
        }
    }
}

/// Whose view a frame has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// The camera's: depth points are moved there, the nearest one of a pixel counts, the rest is unknown.
    #[default]
    Camera,
    /// The event camera's: the picture is turned there, as if both stood in one place; near things are a few pixels off.
    Depth,
}

/// How to read M3ED.
#[derive(Clone, Debug)]
pub struct M3edOptions {
    /// Folder of the files.
    pub path: PathBuf,
    /// Sequences to train on, or how their names begin (`car_urban_day`).
    pub train: Vec<String>,
    /// Sequences to score on.
    pub test: Vec<String>,
    /// Whose pictures.
    pub camera: M3edCamera,
    /// Whose view.
    pub view: View,
    /// Size, faults and limits.
    pub read: ReadOptions,
}

/// Reads a client's frames.
///
/// # Errors
///
/// A [`DataError`] that names the file, its table and the remedy.
pub fn read_client(options: &M3edOptions) -> Result<(DepthDataset, ReadReport), DataError> {
    if options.train.is_empty() && options.test.is_empty() {
        return Err(DataError::Settings {
            what: "no frames are asked for: set data.sequences".to_owned(),
        });
    }
    let present = present(&options.path)?;
    let open = |key, wanted: &[String]| -> Result<Vec<Sequence>, DataError> {
        select(key, &options.path, &present, wanted)?
            .into_iter()
            .map(|name| Sequence::open(&options.path, name, options.camera, options.view))
            .collect()
    };
    let train = open("data.sequences", &options.train)?;
    let test = open("data.test_sequences", &options.test)?;
    apart(
        train.iter().map(|sequence| sequence.name.as_str()),
        test.iter().map(|sequence| sequence.name.as_str()),
    )?;
    let view = match options.view {
        View::Camera => "depth points moved into the camera's view",
        View::Depth => "pictures turned into the event camera's view",
    };
    let mut notes = vec![view.to_owned()];
    for (split, sequences) in [("train", &train), ("test", &test)] {
        if !sequences.is_empty() {
            let pairs: usize = sequences.iter().map(|sequence| sequence.pairs.len()).sum();
            let lone: usize = sequences.iter().map(|sequence| sequence.lone).sum();
            notes.push(format!(
                "{split}: {pairs} pairs in {} sequences, {lone} depth maps without a picture within 20 ms",
                sequences.len()
            ));
        }
    }
    let plan = Plan {
        client: client_name(&options.train, &options.path),
        root: options.path.clone(),
        scale: DepthScale::PerMetre(1.0),
        range: DepthRange::KITTI,
        notes,
        train: frames(&options.path, "train", &train),
        test: frames(&options.path, "test", &test),
    };
    plan.read(&options.read)
}

/// The sequences with depths whose names are wanted or begin so, sorted; all where nothing is wanted.
///
/// # Errors
///
/// [`DataError`] for a folder that cannot be read and for a name that nothing has.
pub fn sequences(path: &Path, wanted: &[String]) -> Result<Vec<String>, DataError> {
    let present = present(path)?;
    if wanted.is_empty() {
        return Ok(present);
    }
    let names = select("data.sequences", path, &present, wanted)?;
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn frames<'a>(
    path: &Path,
    split: &'static str,
    sequences: &'a [Sequence],
) -> Option<(PathBuf, Vec<Pair<'a>>)> {
    let pairs = sequences.iter().flat_map(|sequence| {
        sequence.pairs.iter().map(move |&(image, depth)| Pair {
            sequence,
            split,
            image,
            depth,
        })
    });
    (!sequences.is_empty()).then(|| (path.to_owned(), pairs.collect()))
}

/// The sequences that have depths, sorted. Those of the challenge's test set have none.
fn present(path: &Path) -> Result<Vec<String>, DataError> {
    let mut names = BTreeSet::new();
    let files = |dir: &Path| files_of(dir, |name| name.ends_with(DEPTH_FILE));
    let folders = folders_of(path)?;
    for dir in folders
        .iter()
        .map(|name| path.join(name))
        .chain([path.to_owned()])
    {
        names.extend(
            files(&dir)?
                .iter()
                .filter_map(|name| name.strip_suffix(DEPTH_FILE))
                .map(str::to_owned),
        );
    }
    Ok(names.into_iter().collect())
}

fn select<'a>(
    key: &'static str,
    path: &Path,
    present: &'a [String],
    wanted: &[String],
) -> Result<Vec<&'a str>, DataError> {
    let is = |name: &str, wanted: &str| {
        let rest = name.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    for wanted in wanted {
        if !present.iter().any(|name| is(name, wanted)) {
            return Err(DataError::NoSequence {
                key,
                name: wanted.clone(),
                path: path.to_owned(),
                known: few(present.iter().map(String::as_str)),
            });
        }
    }
    let names = present.iter().map(String::as_str);
    Ok(names
        .filter(|name| wanted.iter().any(|wanted| is(name, wanted)))
        .collect())
}

/// How the files' names end.
const DATA_FILE: &str = "_data.h5";
const DEPTH_FILE: &str = "_depth_gt.h5";

#[cfg(test)]
mod tests;
