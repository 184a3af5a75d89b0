//! Frames of a bird's-eye view: several cameras' pictures of one moment, and the ground's cells that vehicles cover.
//!
//! ```text
//! plain folder with meta.json ──plain::read_client──┐
//! OPV2V / FedBEVT folders ──────opv2v::read_client──┼──> BevDataset ──> BevLearner
//! seeded generator ─────────────Fleet::dataset──────┘
//! ```

#![allow(
    clippy::many_single_char_names,
    reason = "coordinates and matrix entries have one-letter names"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bev::{BevMetrics, FrameCounts, GeometryError, Grid, Masks, Rig};
use crate::data::DataError;

pub mod check;
pub mod generator;
pub mod opv2v;
pub mod plain;
mod render;

pub use generator::{Fleet, VehicleKind};

/// Which vehicles a label marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelKind {
    /// Those that at least one camera sees.
    #[default]
    Visible,
    /// All.
    All,
}

/// One moment.
#[derive(Clone, PartialEq)]
pub struct BevFrame {
    name: String,
    pictures: Vec<u8>,
    label: Vec<bool>,
}

impl BevFrame {
    /// `pictures`: for each camera in the rig's order `height · width · 3` bytes of RGB, row by row. `label`: true
    /// where a vehicle is, row-major, row 0 farthest ahead and column 0 farthest left. [`BevDataset::new`] checks both.
    #[must_use]
    pub fn new(name: impl Into<String>, pictures: Vec<u8>, label: Vec<bool>) -> Self {
        Self {
            name: name.into(),
            pictures,
            label,
        }
    }

    /// Name in its data set, such as `train/0007`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All cameras' pictures, one after the other.
    #[must_use]
    pub fn pictures(&self) -> &[u8] {
        &self.pictures
    }

    /// Where vehicles are.
    #[must_use]
    pub fn label(&self) -> &[bool] {
        &self.label
    }

    fn content(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(&self.pictures);
        hash.finalize().into()
    }
}

impl std::fmt::Debug for BevFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BevFrame({}, {} picture bytes, {} cells)",
            self.name,
            self.pictures.len(),
            self.label.len()
        )
    }
}

/// One vehicle's frames, all with the same cameras and grid.
#[derive(Clone, Debug)]
pub struct BevDataset {
    name: String,
    rig: Rig,
    grid: Grid,
    train: Vec<BevFrame>,
    test: Vec<BevFrame>,
}

impl BevDataset {
    /// Checks and takes frames. All cameras of the rig have pictures of one size.
    ///
    /// # Errors
    ///
    /// [`BevDataError::Frame`] if a frame's pictures or label have another size than rig and grid say,
    /// [`BevDataError::Overlap`] if the same pictures are in both splits, [`BevDataError::NoFrames`] without any.
    pub fn new(
        name: impl Into<String>,
        rig: Rig,
        grid: Grid,
        train: Vec<BevFrame>,
        test: Vec<BevFrame>,
    ) -> Result<Self, BevDataError> {
        let name = name.into();
        if train.is_empty() && test.is_empty() {
            return Err(BevDataError::NoFrames {
                path: PathBuf::from(&name),
                layout: plain::LAYOUT,
            });
        }
        let grid = Grid::new(grid.cells, grid.metres)?;
        let sizes = rig
            .cameras()
            .iter()
            .map(|c| (c.intrinsics.width, c.intrinsics.height));
        let bytes: usize = sizes.clone().map(|(w, h)| 3 * w * h).sum();
        let one_size = sizes.clone().all(|size| Some(size) == sizes.clone().next());
        for frame in train.iter().chain(&test) {
            if !one_size || frame.pictures.len() != bytes || frame.label.len() != grid.area() {
                return Err(BevDataError::Frame {
                    frame: frame.name.clone(),
                    bytes: frame.pictures.len(),
                    expected: bytes,
                    cells: frame.label.len(),
                    area: grid.area(),
                });
            }
        }
        let seen: BTreeMap<[u8; 32], &str> = train.iter().map(|f| (f.content(), f.name())).collect();
        for frame in &test {
            if let Some(twin) = seen.get(&frame.content()) {
                return Err(BevDataError::Overlap {
                    client: name,
                    train: (*twin).to_owned(),
                    test: frame.name.clone(),
                });
            }
        }
        Ok(Self {
            name,
            rig,
            grid,
            train,
            test,
        })
    }

    /// The client's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cameras, with K for the pictures' size.
    #[must_use]
    pub fn rig(&self) -> &Rig {
        &self.rig
    }

    /// The label's grid.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Width and height of every picture.
    #[must_use]
    pub fn picture_size(&self) -> (usize, usize) {
        self.rig
            .cameras()
            .first()
            .map_or((0, 0), |c| (c.intrinsics.width, c.intrinsics.height))
    }

    /// Frames to train on.
    #[must_use]
    pub fn train(&self) -> &[BevFrame] {
        &self.train
    }

    /// Frames to score on.
    #[must_use]
    pub fn test(&self) -> &[BevFrame] {
        &self.test
    }

    /// The score of the simplest guess: in every frame the same cells, namely those that training labels mark more
    /// often than a threshold, chosen so that the training frames' pooled `IoU` is best. What a network must beat to be
    /// worth its training.
    ///
    /// # Errors
    ///
    /// [`GeometryError::NoFrames`] without training or test frames.
    pub fn prior_mask_score(&self, masks: &Masks) -> Result<BevMetrics, GeometryError> {
        let mut counts = vec![0_usize; self.grid.area()];
        for frame in &self.train {
            for (count, &vehicle) in counts.iter_mut().zip(&frame.label) {
                *count += usize::from(vehicle);
            }
        }
        let score = |frames: &[BevFrame], threshold: usize| {
            let guess: Vec<bool> = counts.iter().map(|&n| n >= threshold).collect();
            let pairs = frames
                .iter()
                .map(|frame| {
                    Ok((
                        FrameCounts::of(&guess, &frame.label, Some(masks.cells()))?,
                        FrameCounts::of(&guess, &frame.label, None)?,
                    ))
                })
                .collect::<Result<Vec<_>, GeometryError>>()?;
            BevMetrics::of(&pairs)
        };
        let mut best = (1, score(&self.train, 1)?.pooled_iou);
        for threshold in 2..=counts.iter().max().copied().unwrap_or(1) {
            let iou = score(&self.train, threshold)?.pooled_iou;
            if iou > best.1 {
                best = (threshold, iou);
            }
        }
        score(&self.test, best.0)
    }
}

/// What is wrong with a client's bird's-eye-view data. All are faults of the client's own files or settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BevDataError {
    /// A file could not be read, or is no such picture.
    #[error(transparent)]
    File(#[from] DataError),
    /// Calibration or grid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A calibration or grid in a file.
    #[error("{}: {source}", path.display())]
    Calibration {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: GeometryError,
    },
    /// No frames at all.
    #[error("{}: no frames found; expected {layout}", path.display())]
    NoFrames {
        /// Where.
        path: PathBuf,
        /// The layout expected.
        layout: &'static str,
    },
    /// A folder of the layout is missing.
    #[error("{}: missing; expected {layout}", path.display())]
    Layout {
        /// The missing file or folder.
        path: PathBuf,
        /// The layout expected.
        layout: &'static str,
    },
    /// `meta.json` or a frame's yaml cannot be used.
    #[error("{}: {reason}", path.display())]
    Meta {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A camera's picture is missing.
    #[error("frame '{frame}': {} is missing; copy it, leave the camera out with `cameras`, or set data.on_fault = \"skip\"", path.display())]
    NoPicture {
        /// The frame.
        frame: String,
        /// The picture.
        path: PathBuf,
    },
    /// A picture of another size than its calibration.
    #[error("{}: is {}x{} but its calibration is for {}x{}; K and picture must belong together", path.display(), found.0, found.1, expected.0, expected.1)]
    PictureSize {
        /// The picture.
        path: PathBuf,
        /// Its width and height.
        found: (usize, usize),
        /// Those that K is for.
        expected: (usize, usize),
    },
    /// A label of another size than the grid.
    #[error("{}: is {}x{} but the grid has {cells}x{cells} cells", path.display(), found.0, found.1)]
    LabelSize {
        /// The label.
        path: PathBuf,
        /// Its width and height.
        found: (usize, usize),
        /// Cells a side.
        cells: usize,
    },
    /// A vehicle's box without sense.
    #[error("{}: frame '{frame}': vehicle {vehicle} has no usable box; sizes must be positive metres and places finite", path.display())]
    Box {
        /// The file.
        path: PathBuf,
        /// The frame.
        frame: String,
        /// Which vehicle.
        vehicle: String,
    },
    /// A camera was asked for that is not there.
    #[error("{}: there is no camera '{camera}'; there are {found}", path.display())]
    NoSuchCamera {
        /// The file.
        path: PathBuf,
        /// The name asked for.
        camera: String,
        /// Names there are.
        found: String,
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
    /// Every frame of a split was skipped.
    #[error("{}: all {frames} frames of '{split}' were skipped, the first because: {first}", path.display())]
    AllSkipped {
        /// The client's folder.
        path: PathBuf,
        /// The split.
        split: String,
        /// Frames looked at.
        frames: usize,
        /// Why the first was skipped.
        first: String,
    },
    /// A frame's buffers do not fit rig and grid.
    #[error(
        "frame '{frame}' has {bytes} picture bytes and {cells} cells where rig and grid say {expected} and {area}; all cameras' pictures must have one size"
    )]
    Frame {
        /// The frame.
        frame: String,
        /// Picture bytes given.
        bytes: usize,
        /// Picture bytes expected.
        expected: usize,
        /// Cells given.
        cells: usize,
        /// Cells expected.
        area: usize,
    },
    /// A test moment that was trained on.
    #[error(
        "client '{client}': test frame '{test}' shows the same pictures as training frame '{train}'; scores would be too good, remove one"
    )]
    Overlap {
        /// The client.
        client: String,
        /// Training frame.
        train: String,
        /// Test frame.
        test: String,
    },
    /// A data set whose geometry contradicts itself.
    #[error(transparent)]
    SelfCheck(#[from] check::SelfCheckError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bev::{Amcm, Camera, Intrinsics, Pose};

    fn rig() -> Rig {
        Rig::new(vec![Camera {
            name: "front".to_owned(),
            intrinsics: Intrinsics {
                fx: 2.0,
                fy: 2.0,
                cx: 1.0,
                cy: 0.5,
                width: 2,
                height: 1,
            },
            to_ego: Pose::of_camera([0.0, 0.0, 1.0], 0.0, 0.0, 0.0),
        }])
        .unwrap()
    }

    const GRID: Grid = Grid {
        cells: 2,
        metres: 10.0,
    };

    fn frame(name: &str, byte: u8, label: [bool; 4]) -> BevFrame {
        BevFrame::new(name, vec![byte; 6], label.to_vec())
    }

    #[test]
    fn sizes_and_overlap_are_checked() {
        let good = || frame("a", 1, [true, false, false, false]);
        assert!(BevDataset::new("c", rig(), GRID, vec![good()], vec![]).is_ok());
        let wrong = BevFrame::new("w", vec![0; 5], vec![false; 4]);
        assert!(matches!(
            BevDataset::new("c", rig(), GRID, vec![wrong], vec![]),
            Err(BevDataError::Frame {
                bytes: 5,
                expected: 6,
                ..
            })
        ));
        let wrong = BevFrame::new("w", vec![0; 6], vec![false; 3]);
        assert!(matches!(
            BevDataset::new("c", rig(), GRID, vec![wrong], vec![]),
            Err(BevDataError::Frame {
                cells: 3,
                area: 4,
                ..
            })
        ));
        let same = frame("z", 1, [false; 4]);
        assert!(matches!(
            BevDataset::new("c", rig(), GRID, vec![good()], vec![same]),
            Err(BevDataError::Overlap { train, test, .. }) if train == "a" && test == "z"
        ));
        assert!(matches!(
            BevDataset::new("c", rig(), GRID, vec![], vec![]),
            Err(BevDataError::NoFrames { .. })
        ));
    }

    /// Cell 0 is a vehicle in all three training frames, cell 1 in one. Marking both: 4 right of 6, `IoU` 2/3; cell 0
    /// alone: 3 right of 3 marked and 4 true, 3/4. So a test frame with cells 0 and 3 scores 1/2, not 1/3.
    #[test]
    fn the_prior_mask_takes_the_best_threshold() {
        let train = vec![
            frame("a", 1, [true, true, false, false]),
            frame("b", 2, [true, false, false, false]),
            frame("c", 3, [true, false, false, false]),
        ];
        let test = vec![frame("z", 4, [true, false, false, true])];
        let data = BevDataset::new("c", rig(), GRID, train, test).unwrap();
        let masks = Masks::new(Amcm::Off, data.rig(), GRID, &[]).unwrap();
        let score = data.prior_mask_score(&masks).unwrap();
        assert!((score.pooled_iou - 0.5).abs() < 1e-12, "{score:?}");
    }
}
