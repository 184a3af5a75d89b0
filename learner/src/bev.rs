//! Geometry and scores of a bird's-eye view (BEV): the ground around a vehicle, cell by cell, seen by its cameras.
//!
//! Axes, everywhere but in a file of another convention:
//!
//! ```text
//! ego     x ahead, y left, z up; origin on the ground under the vehicle's centre
//! camera  x right, y down, z forward
//! grid    row 0 farthest ahead, column 0 farthest left
//! ```
//!
//! * [`pose`]: rigid maps between axes
//! * [`camera`]: one calibrated camera; [`rig`]: a vehicle's cameras, sides derived from where they look
//! * [`grid`]: cells and metres; [`raster`]: boxes into cells and pictures
//! * [`mask`]: which cells the cameras can see
//! * [`metric`]: intersection over union
//! * [`schedule`]: the published learning rate
//! * [`personal`]: which parts of a network a client keeps

#![allow(
    clippy::many_single_char_names,
    reason = "coordinates and matrix entries have one-letter names"
)]

pub mod camera;
pub mod grid;
pub mod mask;
pub mod metric;
pub mod personal;
pub mod pose;
pub mod raster;
pub mod rig;
pub mod schedule;

pub use camera::{Camera, Intrinsics};
pub use grid::{Grid, Mirror};
pub use mask::{Amcm, Masks};
pub use metric::{BevMetrics, FrameCounts};
pub use personal::{Part, PersonalPart};
pub use pose::Pose;
pub use raster::VehicleBox;
pub use rig::{Rig, Side};
pub use schedule::Schedule;

/// Calibration or settings that cannot be used. The fault is the data set's or the configuration's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A matrix that is no rotation with translation.
    #[error(
        "{what}: the matrix is no rigid motion ({reason}); a pose is a rotation of determinant 1 and a translation in metres, with last row 0 0 0 1"
    )]
    NotRigid {
        /// Whose matrix.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Focal lengths, centre or picture size without sense.
    #[error("camera '{camera}': {reason}; K must be [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] in pixels")]
    Intrinsics {
        /// The camera.
        camera: String,
        /// What is wrong.
        reason: String,
    },
    /// A rig without cameras.
    #[error("the vehicle has no camera: list at least one")]
    NoCamera,
    /// Two cameras of one name.
    #[error("camera '{camera}' is listed twice: names pair pictures with calibrations and must differ")]
    RepeatedCamera {
        /// The name.
        camera: String,
    },
    /// A grid without cells or size.
    #[error(
        "a BEV grid of {cells} cells over {metres} m is unusable: it needs 1 to 4096 cells and a positive size"
    )]
    Grid {
        /// Cells a side.
        cells: usize,
        /// Metres a side.
        metres: f64,
    },
    /// A mask or map of another size.
    #[error("a BEV map has {found} cells where the grid has {expected}: read it at the grid's size")]
    Cells {
        /// Cells given.
        found: usize,
        /// Cells expected.
        expected: usize,
    },
    /// Nothing scored.
    #[error("no BEV frame was scored: the test split is empty")]
    NoFrames,
    /// The network predicted NaN.
    #[error("the prediction at cell {index} is NaN: the model's weights are broken, load an earlier model")]
    Prediction {
        /// Row-major position.
        index: usize,
    },
}
