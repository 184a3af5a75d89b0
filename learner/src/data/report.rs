//! How frames are read from files, and what people are told of it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::data::{DataError, DepthScale};
use crate::metrics::DepthRange;

/// What to do with a frame that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFault {
    /// Stop with its error.
    #[default]
    Refuse,
    /// Leave it out and report it.
    Skip,
}

/// What every reader needs to know.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Width to bring every frame to.
    pub width: usize,
    /// Height to bring every frame to.
    pub height: usize,
    /// What to do with unreadable frames.
    pub on_fault: OnFault,
    /// Take at most so many frames of each split, evenly spread over their order.
    pub max_frames: Option<usize>,
    /// Most bytes that the frames of one client may take in memory.
    pub memory_limit: usize,
}

impl ReadOptions {
    /// Defaults for frames of this size: refuse faults, all frames, 2 GiB.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            on_fault: OnFault::default(),
            max_frames: None,
            memory_limit: 2 << 30,
        }
    }
}

/// What was read and what was not.
#[derive(Debug)]
pub struct ReadReport {
    /// The client's name.
    pub client: String,
    /// Scale used.
    pub scale: DepthScale,
    /// Range used.
    pub range: DepthRange,
    /// Frames found in all splits: names with a picture, a depth map or both; lines of a list with a depth.
    pub found: usize,
    /// Training frames taken.
    pub train: usize,
    /// Test frames taken.
    pub test: usize,
    /// Frames passed over because of `max_frames`.
    pub thinned: usize,
    /// Frames left out, with the reason.
    pub skipped: Vec<(PathBuf, SkipReason)>,
    /// What else a reader of scores should know, a line each: lists, crops, masks.
    pub notes: Vec<String>,
}

impl ReadReport {
    /// Frames taken in all splits.
    #[must_use]
    pub fn used(&self) -> usize {
        self.train + self.test
    }
}

impl fmt::Display for ReadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} frames found, {} used ({} train, {} test), {} skipped, {} thinned; depth {}, {} m to {} m",
            self.client,
            self.found,
            self.used(),
            self.train,
            self.test,
            self.skipped.len(),
            self.thinned,
            self.scale,
            self.range.min_m,
            self.range.cap_m
        )?;
        for note in &self.notes {
            write!(f, "\n  {note}")?;
        }
        for (path, reason) in self.skipped.iter().take(SKIPS_SHOWN) {
            write!(f, "\n  skipped {}: {reason}", path.display())?;
        }
        if let Some(more) = self.skipped.len().checked_sub(SKIPS_SHOWN).filter(|&n| n > 0) {
            write!(f, "\n  and {more} more")?;
        }
        Ok(())
    }
}

/// Why a frame was left out.
#[derive(Debug)]
#[non_exhaustive]
pub enum SkipReason {
    /// No pixel has a depth inside the range.
    NoValidDepth,
    /// It could not be read, and [`OnFault::Skip`] was set.
    Fault(DataError),
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValidDepth => f.write_str("no pixel has a depth inside the range"),
            Self::Fault(error) => error.fmt(f),
        }
    }
}

/// Skipped files that a printed report lists.
const SKIPS_SHOWN: usize = 5;
