//! Reads the frames of one split: decoded side by side, in order, thinned, and looked at for a wrong scale.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::data::folder::name_of;
use crate::data::picture::{read_colour, read_depth};
use crate::data::report::{OnFault, ReadOptions, ReadReport, SkipReason};
use crate::data::{DataError, DepthDataset, DepthScale, Frame};
use crate::metrics::DepthRange;

/// A frame on disk.
pub(super) trait FrameFile: Sync {
    /// The file to speak about.
    fn path(&self) -> PathBuf;

    /// Reads it at the network's size.
    fn read(&self, scale: DepthScale, width: usize, height: usize) -> Result<Frame, DataError>;
}

/// A picture with its depth map, at their own size.
pub(super) fn read_pair(
    name: String,
    image: &Path,
    depth: &Path,
    scale: DepthScale,
) -> Result<Frame, DataError> {
    let rgb = read_colour(image)?;
    let depth = read_depth(depth)?;
    if (rgb.width, rgb.height) != (depth.width, depth.height) {
        return Err(DataError::Sizes {
            path: image.to_owned(),
            rgb: (rgb.width, rgb.height),
            depth: (depth.width, depth.height),
        });
    }
    let units = scale.units_per_metre();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "metres as f32 keep more digits than the file"
    )]
    let metres = depth
        .samples
        .iter()
        .map(|&v| (f64::from(v) / units) as f32)
        .collect();
    Frame::new(name, rgb.width, rgb.height, rgb.samples, metres)
}

/// What a client takes, before it is read.
pub(super) struct Plan<F> {
    pub(super) client: String,
    /// What errors about both splits name.
    pub(super) root: PathBuf,
    pub(super) scale: DepthScale,
    pub(super) range: DepthRange,
    pub(super) notes: Vec<String>,
    /// Frames to train on, and what errors about them name; `None` where nobody asked for any.
    pub(super) train: Option<(PathBuf, Vec<F>)>,
    /// Frames to score on.
    pub(super) test: Option<(PathBuf, Vec<F>)>,
}

impl<F: FrameFile> Plan<F> {
    /// Reads all of it.
    pub(super) fn read(self, options: &ReadOptions) -> Result<(DepthDataset, ReadReport), DataError> {
        check_size(options)?;
        let count = |split: &Option<(PathBuf, Vec<F>)>| split.as_ref().map_or(0, |(_, frames)| frames.len());
        let found = count(&self.train) + count(&self.test);
        let [train, test] = [self.train, self.test]
            .map(|split| split.map(|(about, frames)| (about, thin(frames, options.max_frames))));
        let kept = count(&train) + count(&test);
        check_memory(&self.root, kept, options)?;
        let mut skipped = Vec::new();
        let mut read = |split: Option<(PathBuf, Vec<F>)>| match split {
            None => Ok(Vec::new()),
            Some((about, frames)) => {
                read_split(&about, &frames, self.scale, self.range, options, &mut skipped)
            }
        };
        let (train, test) = (read(train)?, read(test)?);
        let mut notes = self.notes;
        if options.on_fault == OnFault::Skip && !skipped.is_empty() {
            notes.push("unreadable or missing frames are left out: data.on_fault = \"skip\"".to_owned());
        }
        let report = ReadReport {
            client: self.client.clone(),
            scale: self.scale,
            range: self.range,
            found,
            train: train.len(),
            test: test.len(),
            thinned: found - kept,
            skipped,
            notes,
        };
        let size = (options.width, options.height);
        let data = DepthDataset::new(self.client, size, self.range, train, test)?;
        Ok((data, report))
    }
}

/// A client's name from the sequences it trains on.
pub(super) fn client_name(sequences: &[String], root: &Path) -> String {
    match sequences {
        [] => name_of(root),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

/// Names in a sentence, the first few.
pub(super) fn few<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(FEW);
    let shown: Vec<&str> = names.take(FEW).collect();
    match more {
        _ if shown.is_empty() => "none".to_owned(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Refuses sequences in both splits: frames of one drive are nearly alike. Of each frame, its sequence.
pub(super) fn apart<'a>(
    train: impl Iterator<Item = &'a str>,
    test: impl Iterator<Item = &'a str>,
) -> Result<(), DataError> {
    let tested: BTreeSet<&str> = test.collect();
    let train: Vec<&str> = train.collect();
    let shared: Vec<&str> = train
        .iter()
        .copied()
        .filter(|sequence| tested.contains(sequence))
        .collect();
    if shared.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<&str> = shared.iter().copied().collect();
    #[expect(clippy::cast_precision_loss, reason = "numbers of frames, far below 2^52")]
    let share = 100.0 * shared.len() as f64 / train.len() as f64;
    Err(DataError::SharedSequences {
        names: few(names.iter().copied()),
        share,
    })
}

/// Refuses sizes without pixels.
pub(super) fn check_size(options: &ReadOptions) -> Result<(), DataError> {
    if options.width == 0 || options.height == 0 {
        return Err(DataError::Settings {
            what: "frame width and height must be positive".to_owned(),
        });
    }
    Ok(())
}

/// Refuses more frames than memory may hold, before any is read.
pub(super) fn check_memory(path: &Path, frames: usize, options: &ReadOptions) -> Result<(), DataError> {
    let needed = options
        .width
        .saturating_mul(options.height)
        .saturating_mul(BYTES_A_PIXEL)
        .saturating_mul(frames);
    if needed <= options.memory_limit {
        return Ok(());
    }
    Err(DataError::Memory {
        path: path.to_owned(),
        frames,
        needed_mib: needed.div_ceil(1 << 20),
        limit_mib: options.memory_limit >> 20,
    })
}

/// At most `max` entries, evenly spread.
pub(super) fn thin<T>(entries: Vec<T>, max: Option<usize>) -> Vec<T> {
    let count = entries.len();
    let Some(max) = max.filter(|&max| max < count) else {
        return entries;
    };
    let kept: BTreeSet<usize> = (0..max).map(|i| (i * count).div_ceil(max)).collect();
    entries
        .into_iter()
        .enumerate()
        .filter(|(i, _)| kept.contains(i))
        .map(|(_, entry)| entry)
        .collect()
}

/// Reads a split. Pictures are decoded in parallel and shrunk at once, so that beside the kept frames only one full-size
/// frame a thread is in memory.
pub(super) fn read_split<F: FrameFile>(
    path: &Path,
    entries: &[F],
    scale: DepthScale,
    range: DepthRange,
    options: &ReadOptions,
    skipped: &mut Vec<(PathBuf, SkipReason)>,
) -> Result<Vec<Frame>, DataError> {
    let mut frames: Vec<(PathBuf, Frame)> = Vec::new();
    let mut first_fault = None;
    // In stretches, so that a fault in the first of many thousand frames is told early.
    for stretch in entries.chunks(FRAMES_A_STRETCH) {
        let read: Vec<_> = stretch
            .par_iter()
            .map(|entry| entry.read(scale, options.width, options.height))
            .collect();
        for (entry, result) in stretch.iter().zip(read) {
            match (result, options.on_fault) {
                (Ok(frame), _) => frames.push((entry.path(), frame)),
                (Err(error), OnFault::Refuse) => return Err(error),
                (Err(error), OnFault::Skip) => {
                    first_fault.get_or_insert_with(|| error.to_string());
                    skipped.push((entry.path(), SkipReason::Fault(error)));
                }
            }
        }
    }
    if let (true, Some(first)) = (frames.is_empty(), first_fault) {
        return Err(DataError::AllSkipped {
            path: path.to_owned(),
            frames: entries.len(),
            first,
        });
    }
    check_scale(path, &frames, scale, range)?;
    let looked_at = frames.len();
    let mut used = Vec::with_capacity(looked_at);
    for (file, mut frame) in frames {
        frame.keep(range);
        if frame.known_pixels() == 0 {
            skipped.push((file, SkipReason::NoValidDepth));
        } else {
            used.push(frame);
        }
    }
    if used.is_empty() {
        return Err(DataError::AllInvalid {
            path: path.to_owned(),
            frames: looked_at,
            range,
        });
    }
    Ok(used)
}

/// Refuses depths that make sense only under another scale: 1 % beyond four times the cap, or most beyond the cap.
fn check_scale(
    path: &Path,
    frames: &[(PathBuf, Frame)],
    scale: DepthScale,
    range: DepthRange,
) -> Result<(), DataError> {
    let known = || {
        frames
            .iter()
            .flat_map(|(_, f)| f.depth().iter().copied())
            .filter(|&d| d > 0.0)
    };
    let (mut total, mut beyond, mut far) = (0_u32, 0_u32, 0_u32);
    for depth in known() {
        total = total.saturating_add(1);
        beyond += u32::from(depth > range.cap_m);
        far += u32::from(depth > 4.0 * range.cap_m);
    }
    let (total, beyond, far) = (f64::from(total), f64::from(beyond), f64::from(far));
    if total == 0.0 || (far <= 0.01 * total && beyond <= 0.5 * total) {
        return Ok(());
    }
    let mut depths: Vec<f32> = known().collect();
    let at = depths.len() * 99 / 100;
    let (_, percentile, _) = depths.select_nth_unstable_by(at, f32::total_cmp);
    Err(DataError::Scale {
        path: path.to_owned(),
        declared: scale,
        hint: scale.alternative(),
        percentile_m: *percentile,
        beyond: 100.0 * beyond / total,
        cap_m: range.cap_m,
    })
}

/// Three bytes of colour and four of depth.
const BYTES_A_PIXEL: usize = 7;
/// Frames decoded before the first fault is looked for.
const FRAMES_A_STRETCH: usize = 256;
/// Names that an error lists.
const FEW: usize = 6;
