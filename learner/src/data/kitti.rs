//! KITTI with the split of Eigen et al.: pictures of the raw recordings, depths of the annotated set.
//!
//! ```text
//! <path>/<date>/<drive>_sync/image_02/data/NNNNNNNNNN.png                       8-bit RGB, sizes vary
//! <depth>/[train/|val/]<drive>_sync/proj_depth/groundtruth/image_02/NNNNNNNNNN.png   16-bit gray, metres x 256, 0 unknown
//! ```
//!
//! Both layouts of the annotations are read, with and without `train/` and `val/`. Lists have three columns: picture, depth
//! map or `None`, focal length.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data::crop::{Steps, eigen_kitti, garg, kb};
use crate::data::listed::{self, Line, Source, Split, files_of, folders_of};
use crate::data::{DataError, DepthDataset, DepthScale, Frame, ListOptions, ReadReport};
use crate::metrics::DepthRange;

/// Where a test depth map counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KittiMask {
    /// In the mask of Garg et al.
    #[default]
    Garg,
    /// In the mask of Eigen et al.
    Eigen,
    /// Everywhere.
    None,
}

/// How to read KITTI.
#[derive(Clone, Debug)]
pub struct KittiOptions {
    /// Folder of the raw recordings.
    pub path: PathBuf,
    /// Folder of the annotated depth maps.
    pub depth: PathBuf,
    /// Which frames.
    pub frames: ListOptions,
    /// Whether pictures and depth maps are cut to the benchmark's 1216 x 352.
    pub crop: bool,
    /// Where test depths count.
    pub mask: KittiMask,
    /// Lay the mask on the whole depth map instead of the cut one. Published programs differ; scores do, too.
    pub mask_before_crop: bool,
}

/// Reads a client's frames.
///
/// # Errors
///
/// A [`DataError`] that names the file or the list's line, and the remedy.
pub fn read_client(options: &KittiOptions) -> Result<(DepthDataset, ReadReport), DataError> {
    listed::read(options, &options.frames)
}

/// The drives that the training selection holds, and how many annotated frames each has.
///
/// # Errors
///
/// As [`read_client`].
pub fn drives(options: &KittiOptions) -> Result<Vec<(String, usize)>, DataError> {
    listed::kinds(options, &options.frames.train)
}

impl KittiOptions {
    /// The depth map's file in either layout, whichever of them a list was written for.
    fn annotation(&self, relative: &str) -> Option<PathBuf> {
        let relative = ["train/", "val/"]
            .iter()
            .find_map(|part| relative.strip_prefix(part))
            .unwrap_or(relative);
        ["", "train", "val"]
            .iter()
            .map(|part| self.depth.join(part).join(relative))
            .find(|path| path.is_file())
    }

    fn folder(&self, drive: &str) -> PathBuf {
        // A drive's name begins with its date, 2011_09_26.
        let date = drive.get(..10).unwrap_or(drive);
        self.path.join(date).join(drive).join(PICTURES)
    }
}

impl Source for KittiOptions {
    fn root(&self) -> &Path {
        &self.path
    }

    fn scale(&self) -> DepthScale {
        DepthScale::Kitti
    }

    fn range(&self) -> DepthRange {
        DepthRange::KITTI
    }

    fn sequence(&self, image: &str) -> Option<String> {
        let drive = image.split('/').find(|part| part.contains("_drive_"))?;
        Some(drive.to_owned())
    }

    fn kind(&self, drive: &str) -> String {
        drive.to_owned()
    }

    fn is(&self, sequence: &str, wanted: &str) -> bool {
        sequence.strip_suffix("_sync").unwrap_or(sequence) == wanted.strip_suffix("_sync").unwrap_or(wanted)
    }

    fn present(&self) -> Result<Vec<String>, DataError> {
        let mut drives = Vec::new();
        for date in folders_of(&self.path)? {
            let inside = folders_of(&self.path.join(date))?;
            drives.extend(inside.into_iter().filter(|name| name.contains("_drive_")));
        }
        Ok(drives)
    }

    fn frames(&self, drive: &str) -> Result<Vec<Line>, DataError> {
        let date = drive.get(..10).unwrap_or(drive);
        let pictures = files_of(&self.folder(drive), |name| has_extension(name, "png"))?;
        let lines = pictures.into_iter().map(|picture| {
            let depth = format!("{drive}/{DEPTHS}/{picture}");
            Line {
                number: 0,
                image: format!("{date}/{drive}/{PICTURES}/{picture}"),
                // The first five and the last five of a drive have none.
                depth: self.annotation(&depth).map(|_| depth),
                dense: None,
            }
        });
        Ok(lines.collect())
    }

    fn files(&self, line: &Line) -> Result<(PathBuf, PathBuf), PathBuf> {
        let image = self.path.join(&line.image);
        let depth = line.depth.as_deref().unwrap_or_default();
        if !image.is_file() {
            return Err(image);
        }
        match self.annotation(depth) {
            Some(depth) => Ok((image, depth)),
            None => Err(self.depth.join(depth)),
        }
    }

    fn hint(&self, _: &Line) -> String {
        "check data.path (the raw recordings) and data.depth (data_depth_annotated, with or without train/ and val/); archives lack \
         some annotations of the lists, such as those of 2011_09_26_drive_0079: data.on_fault = \"skip\" counts and names them"
            .to_owned()
    }

    fn prepare(&self, split: Split, path: &Path, frame: Frame) -> Result<Frame, DataError> {
        let (width, height) = (frame.width(), frame.height());
        let cut = match (self.crop, kb(width, height)) {
            (false, _) => None,
            (true, Some(window)) => Some(window),
            (true, None) => {
                return Err(DataError::PictureSize {
                    path: path.to_owned(),
                    found: (width, height),
                    expected: "pictures of KITTI are at least 1216x352; set data.crop = false for others",
                });
            }
        };
        let mask = |width, height| match (split, self.mask) {
            (Split::Train, _) | (_, KittiMask::None) => None,
            (Split::Test, KittiMask::Garg) => Some(garg(width, height)),
            (Split::Test, KittiMask::Eigen) => Some(eigen_kitti(width, height)),
        };
        let steps = match cut {
            Some(window) if !self.mask_before_crop => Steps {
                mask_whole: None,
                cut,
                mask_cut: mask(window.width, window.height),
            },
            _ => Steps {
                mask_whole: mask(width, height),
                cut,
                mask_cut: None,
            },
        };
        steps.apply(frame)
    }

    fn notes(&self) -> Vec<String> {
        let crop = if self.crop {
            "kb crop to 1216x352"
        } else {
            "no crop"
        };
        let mask = match self.mask {
            KittiMask::Garg => "Garg's mask",
            KittiMask::Eigen => "Eigen's mask",
            KittiMask::None => "no mask",
        };
        let order = match (self.crop, self.mask, self.mask_before_crop) {
            (false, _, _) | (_, KittiMask::None, _) => "",
            (true, _, false) => ", laid on the cut depth map",
            (true, _, true) => ", laid on the whole depth map",
        };
        vec![format!("{crop}, {mask} on test depths{order}")]
    }

    fn keeps_sequences_apart(&self) -> bool {
        true
    }
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

const PICTURES: &str = "image_02/data";
const DEPTHS: &str = "proj_depth/groundtruth/image_02";

#[cfg(test)]
mod tests;
