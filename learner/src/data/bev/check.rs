//! Does a data set's geometry agree with itself? Boxes, labels and pictures must tell one story.
//!
//! Two tests, on a handful of frames. The vehicles' boxes, rasterised, are compared with the labels under each of the
//! four mirror conventions: exactly one must win clearly. And the boxes that the labels call visible, projected into the
//! pictures, must have their middles inside. A wrong matrix, a swapped axis or an angle in the wrong unit fails one of
//! them.

use std::fmt;

use crate::bev::raster::rasterise;
use crate::bev::{FrameCounts, Grid, Mirror, Rig, VehicleBox};

/// What one frame offers to check.
#[derive(Clone, Debug)]
pub struct CheckFrame {
    /// Boxes in ego axes.
    pub boxes: Vec<VehicleBox>,
    /// The label of all vehicles, rows and columns as the file has them.
    pub all: Vec<bool>,
    /// The label of visible vehicles, rows and columns as the file has them.
    pub visible: Vec<bool>,
}

/// A passed check.
#[derive(Clone, Debug, PartialEq)]
pub struct SelfCheck {
    /// How the label files are laid out.
    pub mirror: Mirror,
    /// Pooled `IoU` of boxes against labels under each convention, in the order of [`Mirror::ALL`].
    pub ious: [f64; 4],
    /// Visible boxes looked at.
    pub visible: u32,
    /// Those whose middle lies in some picture.
    pub inside: u32,
    /// Frames looked at.
    pub frames: usize,
}

impl fmt::Display for SelfCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "self-check on {} frames: labels have {} (IoU with the boxes: {}); middles of {} of {} visible vehicles lie in a picture",
            self.frames,
            self.mirror.describe(),
            describe(&self.ious),
            self.inside,
            self.visible
        )
    }
}

/// Why a check failed. The fault is the data set's, or the reader was pointed at another layout.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SelfCheckError {
    /// No boxes or no marked cells.
    #[error(
        "client '{client}': nothing to check the geometry on: {frames} frames hold {boxes} boxes and {cells} labelled cells; is this the right folder?"
    )]
    Nothing {
        /// The client.
        client: String,
        /// Frames looked at.
        frames: usize,
        /// Boxes in them.
        boxes: usize,
        /// Labelled cells in them.
        cells: usize,
    },
    /// No convention fits, or two do.
    #[error(
        "client '{client}': boxes and BEV labels do not agree under one clear convention (IoU {}): poses, angle units or the label's size in metres are wrong",
        describe(ious)
    )]
    NoWinner {
        /// The client.
        client: String,
        /// `IoU` under each convention.
        ious: [f64; 4],
    },
    /// Visible boxes project outside the pictures.
    #[error(
        "client '{client}': of {visible} vehicles that labels call visible only {inside} have their middle in a picture (90 % needed): intrinsics, extrinsics or the axis change are wrong, or camera pictures are numbered otherwise"
    )]
    Outside {
        /// The client.
        client: String,
        /// Visible boxes.
        visible: u32,
        /// Inside.
        inside: u32,
    },
}

/// Runs both tests. `rig` has all cameras of the vehicle, whether they will be used or not.
///
/// # Errors
///
/// [`SelfCheckError`] naming the client and the likely cause.
pub fn self_check(
    client: &str,
    rig: &Rig,
    grid: Grid,
    frames: &[CheckFrame],
) -> Result<SelfCheck, SelfCheckError> {
    let mut totals = [FrameCounts::default(); 4];
    let (mut boxes, mut cells) = (0, 0);
    for frame in frames {
        boxes += frame.boxes.len();
        cells += frame.all.iter().filter(|c| **c).count();
        let drawn = rasterise(grid, &frame.boxes);
        for (total, mirror) in totals.iter_mut().zip(Mirror::ALL) {
            let label = mirror.apply(grid.cells, &frame.all);
            if let Ok(counts) = FrameCounts::of(&drawn, &label, None) {
                total.both += counts.both;
                total.predicted += counts.predicted;
                total.truth += counts.truth;
            }
        }
    }
    if boxes == 0 || cells == 0 {
        return Err(SelfCheckError::Nothing {
            client: client.to_owned(),
            frames: frames.len(),
            boxes,
            cells,
        });
    }
    let ious = totals.map(|total| total.iou());
    let mut ranked: Vec<(f64, Mirror)> = ious.into_iter().zip(Mirror::ALL).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mirror = match ranked.as_slice() {
        [(best, mirror), (second, _), ..] if *best >= LEAST_IOU && *best >= CLEARLY * second => *mirror,
        _ => {
            return Err(SelfCheckError::NoWinner {
                client: client.to_owned(),
                ious,
            });
        }
    };
    let (mut visible, mut inside) = (0, 0);
    for frame in frames {
        let label = mirror.apply(grid.cells, &frame.visible);
        for vehicle in &frame.boxes {
            let (mut own, mut marked) = (0_u32, 0_u32);
            for (cell, seen) in rasterise(grid, std::slice::from_ref(vehicle)).iter().zip(&label) {
                own += u32::from(*cell);
                marked += u32::from(*cell && *seen);
            }
            if own > 0 && 2 * marked >= own {
                visible += 1;
                inside += u32::from(rig.cameras().iter().any(|c| vehicle.seen_by(c).is_some()));
            }
        }
    }
    if f64::from(inside) < LEAST_INSIDE * f64::from(visible) {
        return Err(SelfCheckError::Outside {
            client: client.to_owned(),
            visible,
            inside,
        });
    }
    Ok(SelfCheck {
        mirror,
        ious,
        visible,
        inside,
        frames: frames.len(),
    })
}

fn describe(ious: &[f64; 4]) -> String {
    let parts = ious
        .iter()
        .zip(Mirror::ALL)
        .map(|(iou, mirror)| format!("{iou:.2} {}", mirror.describe()));
    parts.collect::<Vec<_>>().join("; ")
}

/// A convention fits if boxes and labels overlap this much.
const LEAST_IOU: f64 = 0.3;
/// And wins if it does so this many times better than the next.
const CLEARLY: f64 = 1.5;
/// Share of visible boxes whose middle must lie in a picture.
const LEAST_INSIDE: f64 = 0.9;
