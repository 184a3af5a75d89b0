//! One sequence: its two files, its cameras, and which picture goes with which depth map.

use std::path::{Path, PathBuf};

use super::lens::Lens;
use super::{DATA_FILE, DEPTH_FILE, M3edCamera, View};
use crate::data::DataError;
use crate::data::hdf::{Hdf, Table};

/// An open sequence.
pub(super) struct Sequence {
    pub(super) name: String,
    /// The file of the depth maps, for errors.
    pub(super) path: PathBuf,
    pub(super) images: Table,
    pub(super) depths: Table,
    pub(super) view: View,
    pub(super) lens: Lens,
    /// Of the event camera's pixels, row by row, the directions (x, y, 1).
    pub(super) rays: Vec<[f32; 2]>,
    /// Width and height of the depth maps.
    pub(super) size: (usize, usize),
    /// Bytes of a pixel: 3 or 1.
    pub(super) channels: usize,
    /// Numbers of picture and depth map.
    pub(super) pairs: Vec<(usize, usize)>,
    /// Depth maps without a picture near enough.
    pub(super) lone: usize,
}

impl Sequence {
    pub(super) fn open(root: &Path, name: &str, camera: M3edCamera, view: View) -> Result<Self, DataError> {
        let data = Hdf::open(&file(root, name, DATA_FILE))?;
        let depth = Hdf::open(&file(root, name, DEPTH_FILE))?;
        let lens = Lens::read(&data, camera.group())?;
        let event = Lens::read(&data, "prophesee/left")?;
        let images = data.table(&format!("{}/data", camera.group()))?;
        let channels = match images.shape.as_slice() {
            [_, _, _] => 1,
            [_, _, _, channels @ (1 | 3)] => *channels,
            _ => return Err(images.fault("must be N x H x W x 3, N x H x W x 1 or N x H x W")),
        };
        let mut shape = vec![0, lens.height, lens.width];
        shape.extend((images.shape.len() == 4).then_some(channels));
        images.demand(&shape)?;
        let depths = depth.table(DEPTHS)?;
        depths.demand(&[0, event.height, event.width])?;
        let stamps = |hdf: &Hdf, name: &str, frames: usize| {
            let table = hdf.table(name)?;
            table.demand(&[frames])?;
            let stamps = table.times()?;
            if stamps.is_sorted() {
                Ok(stamps)
            } else {
                Err(table.fault("times run backwards"))
            }
        };
        let pictures = stamps(&data, "ovc/ts", images.frames())?;
        let maps = stamps(&depth, "ts", depths.frames())?;
        let (pairs, lone) = pair(&pictures, &maps);
        Ok(Self {
            name: name.to_owned(),
            rays: rays(&event),
            size: (event.width, event.height),
            path: depth.path().to_owned(),
            images,
            depths,
            view,
            lens,
            channels,
            pairs,
            lone,
        })
    }
}

/// For each depth map the nearest picture, if it is near enough; of two as near, the earlier. And how many have none.
pub(super) fn pair(pictures: &[i64], maps: &[i64]) -> (Vec<(usize, usize)>, usize) {
    let mut pairs = Vec::new();
    for (map, &time) in maps.iter().enumerate() {
        let after = pictures.partition_point(|&picture| picture < time);
        let near = [after.checked_sub(1), Some(after)]
            .into_iter()
            .flatten()
            .filter_map(|at| Some((pictures.get(at)?.abs_diff(time), at)))
            .min();
        if let Some((_, picture)) = near.filter(|(gap, _)| *gap <= MOST_APART_US) {
            pairs.push((picture, map));
        }
    }
    let lone = maps.len() - pairs.len();
    (pairs, lone)
}

/// The file of a sequence, in its own folder or beside the others.
fn file(root: &Path, name: &str, end: &str) -> PathBuf {
    let file = format!("{name}{end}");
    let own = root.join(name).join(&file);
    if own.is_file() { own } else { root.join(file) }
}

/// Directions of the depth maps' pixels. Their makers cut a point's place down to whole numbers, so pixel 0 holds what lies
/// from 0.0 to 1.0, in OpenCV's terms, where whole numbers are the middles of pixels.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "pixels of a picture; directions as f32 keep a thousandth of a pixel"
)]
fn rays(lens: &Lens) -> Vec<[f32; 2]> {
    (0..lens.width * lens.height)
        .map(|at| {
            let (v, u) = (at / lens.width, at % lens.width);
            lens.ray([u as f64 + 0.5, v as f64 + 0.5]).map(|side| side as f32)
        })
        .collect()
}

/// Depths of the left event camera.
const DEPTHS: &str = "depth/prophesee/left";
/// Half the time between two pictures.
const MOST_APART_US: u64 = 20_000;
