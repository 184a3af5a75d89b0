//! Frames: what they are, where they come from, and what is wrong with them.
//!
//! ```text
//! folder of PNG pairs ────────────┐
//! KITTI, NYU Depth v2 by lists ───┼──> DepthDataset (train and test frames at the network's size) ──> Learner
//! seeded generator ───────────────┘
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::data::crop::Window;
use crate::metrics::{DepthMetrics, DepthRange, MetricsError};

pub mod bev;
pub mod crop;
pub mod folder;
pub mod frame;
pub mod generator;
mod hdf;
pub mod kitti;
mod listed;
pub mod m3ed;
pub mod nyu;
pub mod nyu_mat;
pub mod picture;
mod report;
mod scene;
mod split;

pub use bev::{BevDataError, BevDataset, BevFrame};
pub use folder::{DepthScale, FolderOptions, Splits};
pub use frame::Frame;
pub use listed::{ListOptions, Selection};
pub use report::{OnFault, ReadOptions, ReadReport, SkipReason};

/// One client's frames, all of one size, depths outside the range set to 0 (unknown).
#[derive(Clone, Debug)]
pub struct DepthDataset {
    name: String,
    width: usize,
    height: usize,
    range: DepthRange,
    train: Vec<Frame>,
    test: Vec<Frame>,
}

impl DepthDataset {
    /// Checks and takes frames.
    ///
    /// # Errors
    ///
    /// [`DataError::FrameSize`] if a frame is not `width` × `height`, [`DataError::Overlap`] if a frame (picture and
    /// depth) is in both splits, [`DataError::Empty`] if there is no frame at all.
    pub fn new(
        name: impl Into<String>,
        (width, height): (usize, usize),
        range: DepthRange,
        mut train: Vec<Frame>,
        mut test: Vec<Frame>,
    ) -> Result<Self, DataError> {
        let name = name.into();
        if train.is_empty() && test.is_empty() {
            return Err(DataError::Empty {
                path: PathBuf::from(&name),
            });
        }
        for frame in train.iter_mut().chain(&mut test) {
            if (frame.width(), frame.height()) != (width, height) {
                return Err(DataError::FrameSize {
                    frame: frame.name().to_owned(),
                    found: (frame.width(), frame.height()),
                    expected: (width, height),
                });
            }
            frame.keep(range);
        }
        let seen: BTreeMap<[u8; 32], &str> = train.iter().map(|f| (content(f), f.name())).collect();
        for frame in &test {
            if let Some(twin) = seen.get(&content(frame)) {
                return Err(DataError::Overlap {
                    client: name,
                    train: (*twin).to_owned(),
                    test: frame.name().to_owned(),
                });
            }
        }
        Ok(Self {
            name,
            width,
            height,
            range,
            train,
            test,
        })
    }

    /// The client's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Pixels per row of every frame.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows of every frame.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Depths that count.
    #[must_use]
    pub fn range(&self) -> DepthRange {
        self.range
    }

    /// Frames to train on.
    #[must_use]
    pub fn train(&self) -> &[Frame] {
        &self.train
    }

    /// Frames to score on.
    #[must_use]
    pub fn test(&self) -> &[Frame] {
        &self.test
    }

    /// The score of the simplest guess: at every pixel the geometric mean of the training depths there. What a network
    /// must beat to be worth its training.
    ///
    /// # Errors
    ///
    /// [`MetricsError`] if there is nothing to learn from or to score.
    pub fn mean_picture_score(&self) -> Result<DepthMetrics, MetricsError> {
        let mut sums = vec![(0.0_f64, 0.0_f64); self.width * self.height];
        for frame in &self.train {
            for ((sum, count), &depth) in sums.iter_mut().zip(frame.depth()) {
                if depth > 0.0 {
                    *sum += f64::from(depth).ln();
                    *count += 1.0;
                }
            }
        }
        let (total, pixels) = sums
            .iter()
            .fold((0.0, 0.0), |(s, c), (sum, count)| (s + sum, c + count));
        if pixels == 0.0 {
            return Err(MetricsError::NoImages);
        }
        // A pixel never seen valid in training gets the overall mean.
        #[expect(clippy::cast_possible_truncation, reason = "a mean of f32 depths")]
        let guess: Vec<f32> = sums
            .iter()
            .map(|&(sum, count)| if count > 0.0 { (sum / count).exp() } else { (total / pixels).exp() } as f32)
            .collect();
        let mut scores = Vec::new();
        for frame in &self.test {
            match DepthMetrics::of_image(frame.depth(), &guess, self.range) {
                Ok(score) => scores.push(score),
                Err(MetricsError::NoValidPixel { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        DepthMetrics::mean(&scores)
    }
}

fn content(frame: &Frame) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(frame.rgb());
    for depth in frame.depth() {
        hash.update(depth.to_le_bytes());
    }
    hash.finalize().into()
}

/// What is wrong with a client's frames. All are faults of the client's own files or settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// No frames.
    #[error("{}: no PNG frames found; expected <client>/{{train,test}}/{{rgb,depth}}/NNNN.png", path.display())]
    Empty {
        /// Where.
        path: PathBuf,
    },
    /// A folder of the layout is missing.
    #[error("{}: missing folder; expected <client>/{{train,test}}/{{rgb,depth}}/NNNN.png, found {found}", path.display())]
    Layout {
        /// The missing folder.
        path: PathBuf,
        /// What lies in the client's folder instead.
        found: String,
    },
    /// A picture without depth, or depth without picture.
    #[error("{}: its partner {} is missing; copy it, remove this one, or set data.on_fault = \"skip\"", path.display(), missing.display())]
    Partner {
        /// The file that is there.
        path: PathBuf,
        /// The one that is not.
        missing: PathBuf,
    },
    /// Not a PNG, or cut short.
    #[error("{}: unreadable or truncated PNG ({reason}); copy it again, or set data.on_fault = \"skip\"", path.display())]
    Png {
        /// The file.
        path: PathBuf,
        /// The decoder's words.
        reason: String,
    },
    /// A PNG of the wrong kind.
    #[error("{}: is {found} but must be {expected}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it must be.
        expected: &'static str,
    },
    /// Picture and depth differ in size.
    #[error("{}: picture is {}x{} but its depth is {}x{}; both must show the same pixels", path.display(), rgb.0, rgb.1, depth.0, depth.1)]
    Sizes {
        /// The picture.
        path: PathBuf,
        /// Its width and height.
        rgb: (usize, usize),
        /// The depth map's width and height.
        depth: (usize, usize),
    },
    /// Depths far beyond the cap.
    #[error("{}: the scale is probably wrong: declared {declared}, try {hint} (99th percentile of depth {percentile_m:.1} m, {beyond:.0} % of pixels beyond the cap of {cap_m} m)", path.display())]
    Scale {
        /// The split.
        path: PathBuf,
        /// Scale used.
        declared: DepthScale,
        /// Scale to try.
        hint: &'static str,
        /// 99th percentile of all depths, metres.
        percentile_m: f32,
        /// Percent of pixels with depth beyond the cap.
        beyond: f64,
        /// The cap.
        cap_m: f32,
    },
    /// Nobody said what a depth unit means.
    #[error("{}: no depth scale: set scale = \"kitti\" (value / 256 m) or \"nyu\" (millimetres), or put depth_scale into meta.json", path.display())]
    NoScale {
        /// The client's folder.
        path: PathBuf,
    },
    /// Configuration and `meta.json` disagree.
    #[error("{}: meta.json says {meta} units a metre but the configuration says {config}; correct one of them", path.display())]
    ScaleConflict {
        /// The client's folder.
        path: PathBuf,
        /// The file's scale.
        meta: f64,
        /// The configuration's.
        config: DepthScale,
    },
    /// A scale that is no scale.
    #[error(
        "'{text}' is no depth scale: write \"kitti\" (value / 256 m), \"nyu\" (millimetres) or a positive number of units a metre"
    )]
    UnknownScale {
        /// The text, cut to 40 characters.
        text: String,
    },
    /// `meta.json` cannot be used.
    #[error("{}: {reason}", path.display())]
    Meta {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Not one frame of a split has valid depth.
    #[error("{}: none of the {frames} frames has a depth inside {} m to {} m; check scale and range", path.display(), range.min_m, range.cap_m)]
    AllInvalid {
        /// The split.
        path: PathBuf,
        /// Frames looked at.
        frames: usize,
        /// Range used.
        range: DepthRange,
    },
    /// Not one frame of a split could be used.
    #[error("{}: all {frames} frames were skipped, the first because: {first}", path.display())]
    AllSkipped {
        /// The split.
        path: PathBuf,
        /// Frames looked at.
        frames: usize,
        /// Why the first was skipped.
        first: String,
    },
    /// A test frame that was trained on.
    #[error(
        "client '{client}': test frame '{test}' is the same as training frame '{train}'; scores would be too good, remove one"
    )]
    Overlap {
        /// The client.
        client: String,
        /// Training frame.
        train: String,
        /// Test frame.
        test: String,
    },
    /// Too many frames to hold.
    #[error("{}: {frames} frames at this size need {needed_mib} MiB, over the limit of {limit_mib} MiB; raise data.memory_limit_mib or set data.max_frames", path.display())]
    Memory {
        /// The client's folder.
        path: PathBuf,
        /// Frames found.
        frames: usize,
        /// Memory they need.
        needed_mib: usize,
        /// Memory allowed.
        limit_mib: usize,
    },
    /// A line of a list that says nothing useful.
    #[error("{}: line {line}: {reason}", path.display())]
    List {
        /// The list.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what to write.
        reason: String,
    },
    /// A list names a picture that is not there.
    #[error("{}: no such file ({listed}); {hint}", path.display())]
    NotThere {
        /// The file.
        path: PathBuf,
        /// Where it was named.
        listed: String,
        /// What to do.
        hint: String,
    },
    /// A sequence that is in no list and in no folder.
    #[error("{key}: there is no sequence '{name}' in {}; there are {known}", path.display())]
    NoSequence {
        /// The setting.
        key: &'static str,
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        path: PathBuf,
        /// The first few that are there.
        known: String,
    },
    /// Sequences that are trained on and scored on.
    #[error(
        "sequences {names} are in the training list and in the test list ({share:.1} % of the training frames); scores would be too good, take them out of one"
    )]
    SharedSequences {
        /// Their names, the first few.
        names: String,
        /// Percent of the training frames that are theirs.
        share: f64,
    },
    /// A picture that the data set cannot have.
    #[error("{}: picture is {}x{} but {expected}", path.display(), found.0, found.1)]
    PictureSize {
        /// The picture.
        path: PathBuf,
        /// Its width and height.
        found: (usize, usize),
        /// What the data set's pictures are.
        expected: &'static str,
    },
    /// A crop beyond the frame.
    #[error("frame '{frame}' of {}x{} has no rows {}..{} and columns {}..{}", size.0, size.1, window.top, window.top.saturating_add(window.height), window.left, window.left.saturating_add(window.width))]
    Window {
        /// The frame.
        frame: String,
        /// Its width and height.
        size: (usize, usize),
        /// The crop.
        window: Window,
    },
    /// Not a JPEG, or cut short.
    #[error("{}: unreadable or truncated JPEG ({reason}); copy it again, or set data.on_fault = \"skip\"", path.display())]
    Jpeg {
        /// The file.
        path: PathBuf,
        /// The decoder's words.
        reason: String,
    },
    /// Not an HDF5 file, cut short, or one of another layout.
    #[error("{}: unreadable, truncated or another HDF5 file ({reason}); docs/data.md says which file this must be", path.display())]
    Hdf {
        /// The file.
        path: PathBuf,
        /// The table and what is wrong with it.
        reason: String,
    },
    /// Pixels do not fill the frame.
    #[error("frame '{frame}' of {width}x{height} was given {rgb} colour bytes and {depth} depths")]
    FrameLength {
        /// The frame.
        frame: String,
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
        /// Colour bytes given.
        rgb: usize,
        /// Depths given.
        depth: usize,
    },
    /// A frame of another size than its data set.
    #[error("frame '{frame}' is {}x{} but the data set is {}x{}; resize it first", found.0, found.1, expected.0, expected.1)]
    FrameSize {
        /// The frame.
        frame: String,
        /// Its width and height.
        found: (usize, usize),
        /// The data set's.
        expected: (usize, usize),
    },
    /// A setting without sense.
    #[error("{what}")]
    Settings {
        /// What is wrong and what to set.
        what: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, depth: f32) -> Frame {
        Frame::new(name, 2, 1, vec![7; 6], vec![depth; 2]).unwrap()
    }

    const RANGE: DepthRange = DepthRange {
        min_m: 0.1,
        cap_m: 10.0,
    };

    #[test]
    fn depths_out_of_range_become_unknown() {
        let data = DepthDataset::new(
            "c",
            (2, 1),
            RANGE,
            vec![frame("a", 11.0), frame("b", 10.0)],
            vec![],
        )
        .unwrap();
        assert_eq!(data.train()[0].depth(), [0.0, 0.0]);
        assert_eq!(data.train()[1].depth(), [10.0, 10.0]);
    }

    #[test]
    fn a_frame_in_both_splits_is_named() {
        let error =
            DepthDataset::new("c", (2, 1), RANGE, vec![frame("a", 1.0)], vec![frame("z", 1.0)]).unwrap_err();
        assert!(
            matches!(&error, DataError::Overlap { train, test, .. } if train == "a" && test == "z"),
            "{error}"
        );
        assert!(DepthDataset::new("c", (2, 1), RANGE, vec![frame("a", 1.0)], vec![frame("a", 2.0)]).is_ok());
    }

    #[test]
    fn size_and_emptiness_are_checked() {
        assert!(matches!(
            DepthDataset::new("c", (1, 2), RANGE, vec![frame("a", 1.0)], vec![]),
            Err(DataError::FrameSize { .. })
        ));
        assert!(matches!(
            DepthDataset::new("c", (1, 2), RANGE, vec![], vec![]),
            Err(DataError::Empty { .. })
        ));
    }

    #[test]
    fn mean_picture_is_the_geometric_mean() {
        let train = vec![frame("a", 1.0), frame("b", 4.0)];
        let data = DepthDataset::new("c", (2, 1), RANGE, train, vec![frame("z", 2.0)]).unwrap();
        assert!(data.mean_picture_score().unwrap().abs_rel < 1e-6);
        let none = DepthDataset::new("c", (2, 1), RANGE, vec![], vec![frame("z", 2.0)]).unwrap();
        assert_eq!(none.mean_picture_score(), Err(MetricsError::NoImages));
    }
}
