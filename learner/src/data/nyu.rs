//! NYU Depth v2 in the "sync" layout of the monocular-depth benchmarks.
//!
//! ```text
//! <path>/<scene>/rgb_NNNNN.jpg           640x480
//! <path>/<scene>/sync_depth_NNNNN.png    16-bit gray, millimetres, 0 unknown
//! ```
//!
//! Lists have three columns: picture, depth map, focal length. The list of 36,253 frames names an in-painted depth map in
//! place of the focal length; [`NyuOptions::dense`] takes it.

use std::path::{Path, PathBuf};

use crate::data::crop::{EIGEN_NYU, NYU_SIZE, NYU_TRAINING, Steps};
use crate::data::listed::{self, Line, Source, Split, files_of, folders_of};
use crate::data::{DataError, DepthDataset, DepthScale, Frame, ListOptions, ReadReport};
use crate::metrics::DepthRange;

/// How to read NYU Depth v2.
#[derive(Clone, Debug)]
pub struct NyuOptions {
    /// Folder of the scenes.
    pub path: PathBuf,
    /// Which frames. A sequence is a scene (`kitchen_0028b`) or all scenes of a type (`kitchen`).
    pub frames: ListOptions,
    /// Whether training frames lose their white border (565 x 427 are left) and test depths count in Eigen's mask.
    pub crop: bool,
    /// Take the in-painted depth maps that the list names.
    pub dense: bool,
}

/// Reads a client's frames.
///
/// # Errors
///
/// A [`DataError`] that names the file or the list's line, and the remedy.
pub fn read_client(options: &NyuOptions) -> Result<(DepthDataset, ReadReport), DataError> {
    listed::read(options, &options.frames)
}

/// The types of scenes that the training selection holds, and how many frames with a depth map each has.
///
/// # Errors
///
/// As [`read_client`].
pub fn types(options: &NyuOptions) -> Result<Vec<(String, usize)>, DataError> {
    listed::kinds(options, &options.frames.train)
}

impl NyuOptions {
    /// A line's depth map: the in-painted one if it is asked for.
    fn depth(&self, line: &Line) -> Option<PathBuf> {
        let name = if self.dense { &line.dense } else { &line.depth };
        name.as_ref().map(|name| self.path.join(name))
    }
}

impl Source for NyuOptions {
    fn root(&self) -> &Path {
        &self.path
    }

    fn scale(&self) -> DepthScale {
        DepthScale::Nyu
    }

    fn range(&self) -> DepthRange {
        DepthRange::NYU
    }

    fn sequence(&self, image: &str) -> Option<String> {
        let scene = Path::new(image).parent()?.file_name()?.to_str()?;
        Some(scene.to_owned())
    }

    fn kind(&self, scene: &str) -> String {
        match scene.rsplit_once('_') {
            Some((kind, number)) if number.starts_with(|c: char| c.is_ascii_digit()) => kind.to_owned(),
            _ => scene.to_owned(),
        }
    }

    fn is(&self, sequence: &str, wanted: &str) -> bool {
        let number = sequence
            .strip_prefix(wanted)
            .and_then(|rest| rest.strip_prefix('_'));
        sequence == wanted || number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    fn present(&self) -> Result<Vec<String>, DataError> {
        folders_of(&self.path)
    }

    fn frames(&self, scene: &str) -> Result<Vec<Line>, DataError> {
        let folder = self.path.join(scene);
        let pictures = files_of(&folder, |name| number(name).is_some())?;
        let lines = pictures.into_iter().map(|picture| {
            let depth = format!("sync_depth_{}.png", number(&picture).unwrap_or_default());
            Line {
                number: 0,
                depth: folder.join(&depth).is_file().then(|| format!("{scene}/{depth}")),
                image: format!("{scene}/{picture}"),
                dense: None,
            }
        });
        Ok(lines.collect())
    }

    fn files(&self, line: &Line) -> Result<(PathBuf, PathBuf), PathBuf> {
        let image = self.path.join(&line.image);
        // Without an in-painted one in the list there is nothing to look for but the column.
        let depth = self.depth(line).unwrap_or_default();
        match (image.is_file(), depth.is_file()) {
            (true, true) => Ok((image, depth)),
            (false, _) => Err(image),
            (true, false) => Err(depth),
        }
    }

    fn hint(&self, line: &Line) -> String {
        if self.dense && line.dense.is_none() {
            return "data.dense asks for in-painted depth maps, and this line names none: take the list of 36,253 frames, or set \
                    data.dense = false"
                .to_owned();
        }
        let official = ["train", "test"]
            .iter()
            .all(|split| self.path.join(split).is_dir());
        if official {
            return "data.path holds `train` and `test`, which is the official split of 795 and 654 labelled frames; the lists of \
                    24,231 and 36,253 frames name the sync folders (<scene>/rgb_NNNNN.jpg): set data.path to those, or take a list \
                    of the official split"
                .to_owned();
        }
        "set data.path to the folder of the scenes; data.on_fault = \"skip\" counts and names what is missing"
            .to_owned()
    }

    fn prepare(&self, split: Split, path: &Path, frame: Frame) -> Result<Frame, DataError> {
        if !self.crop {
            return Ok(frame);
        }
        let (width, height) = (frame.width(), frame.height());
        if (height, width) != NYU_SIZE {
            return Err(DataError::PictureSize {
                path: path.to_owned(),
                found: (width, height),
                expected: "crop and mask are those of NYU's 640x480; set data.crop = false for others",
            });
        }
        let steps = match split {
            Split::Train => Steps {
                cut: Some(NYU_TRAINING),
                ..Steps::default()
            },
            Split::Test => Steps {
                mask_whole: Some(EIGEN_NYU),
                ..Steps::default()
            },
        };
        steps.apply(frame)
    }

    fn notes(&self) -> Vec<String> {
        let crop = if self.crop {
            "training frames cut to 565x427, Eigen's mask on test depths"
        } else {
            "no crop, no mask"
        };
        let depth = if self.dense {
            "in-painted depth maps"
        } else {
            "measured depth maps"
        };
        vec![format!("{crop}; {depth}")]
    }

    fn keeps_sequences_apart(&self) -> bool {
        // The test list names scenes by their type, and frames of one type are of other rooms.
        false
    }
}

/// The digits of `rgb_NNNNN.jpg`.
fn number(name: &str) -> Option<&str> {
    let digits = name.strip_prefix("rgb_")?.strip_suffix(".jpg")?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(digits)
}

#[cfg(test)]
mod tests;
