//! HDF5 files, read a frame at a time.

use std::path::{Path, PathBuf};

use hdf5_pure::{Dataset, File};

use crate::data::DataError;

/// An open file. Only what is asked for is read from disk.
pub(super) struct Hdf {
    path: PathBuf,
    file: File,
}

impl Hdf {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        // A missing file is told by the system's words, which name the fault better than those of a format.
        std::fs::File::open(path).map_err(|source| DataError::Io {
            path: path.to_owned(),
            source,
        })?;
        let file = File::open_streaming(path).map_err(|error| fault(path, &error.to_string()))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A table of the file.
    pub(super) fn table(&self, name: &str) -> Result<Table, DataError> {
        let fault = |reason: String| fault(&self.path, &format!("{name}: {reason}"));
        let set = self
            .file
            .dataset(name)
            .map_err(|error| fault(error.to_string()))?;
        let shape = set.shape().map_err(|error| fault(error.to_string()))?;
        let shape = shape
            .iter()
            .map(|&side| usize::try_from(side))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| fault("too large for this machine".to_owned()))?;
        Ok(Table {
            path: self.path.clone(),
            name: name.to_owned(),
            set,
            shape,
        })
    }
}

/// A table of numbers whose first side counts frames. It remembers where its frames lie in the file, which takes long to find
/// out where they are many, so one that is read often is kept.
pub(super) struct Table {
    path: PathBuf,
    name: String,
    pub(super) set: Dataset,
    pub(super) shape: Vec<usize>,
}

impl Table {
    /// An error about this table.
    pub(super) fn fault(&self, reason: &str) -> DataError {
        fault(&self.path, &format!("{}: {reason}", self.name))
    }

    /// Refuses another shape; 0 stands for any length.
    pub(super) fn demand(&self, shape: &[usize]) -> Result<(), DataError> {
        let same = shape.len() == self.shape.len()
            && self
                .shape
                .iter()
                .zip(shape)
                .all(|(&is, &wanted)| wanted == 0 || is == wanted);
        if same {
            return Ok(());
        }
        let sides = |shape: &[usize]| {
            let sides: Vec<String> = shape
                .iter()
                .map(|&side| {
                    if side == 0 {
                        "N".to_owned()
                    } else {
                        side.to_string()
                    }
                })
                .collect();
            sides.join(" x ")
        };
        Err(self.fault(&format!(
            "has {} numbers and must have {}",
            sides(&self.shape),
            sides(shape)
        )))
    }

    /// How many frames there are.
    pub(super) fn frames(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Numbers of one frame, as its shape says and no more than a frame may have.
    fn length(&self) -> Result<usize, DataError> {
        let length = self
            .shape
            .iter()
            .skip(1)
            .try_fold(1_usize, |all, &side| all.checked_mul(side));
        length
            .filter(|&length| length <= MOST_NUMBERS)
            .ok_or_else(|| self.fault("one frame is larger than a picture can be"))
    }

    pub(super) fn bytes(&self, frame: usize) -> Result<Vec<u8>, DataError> {
        let length = self.length()?;
        let read = self.set.read_u8_rows(frame as u64, 1);
        self.whole(read, length)
    }

    pub(super) fn floats(&self, frame: usize) -> Result<Vec<f32>, DataError> {
        let length = self.length()?;
        let read = self.set.read_f32_rows(frame as u64, 1);
        self.whole(read, length)
    }

    /// All numbers of a small table.
    pub(super) fn all_floats(&self) -> Result<Vec<f64>, DataError> {
        self.small()?;
        self.set
            .read_f64()
            .map_err(|error| self.fault(&error.to_string()))
    }

    /// All numbers of a table of times in microseconds, which some programs write as `f64`.
    pub(super) fn times(&self) -> Result<Vec<i64>, DataError> {
        let times = self.all_floats()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked to be a number below 2^53"
        )]
        let whole = |time: &f64| (time.abs() < MOST_MICROSECONDS).then_some(time.round() as i64);
        times
            .iter()
            .map(whole)
            .collect::<Option<Vec<i64>>>()
            .ok_or_else(|| self.fault("holds what is no time in microseconds"))
    }

    fn small(&self) -> Result<(), DataError> {
        let length = self
            .shape
            .iter()
            .try_fold(1_usize, |all, &side| all.checked_mul(side));
        match length {
            Some(length) if length <= MOST_NUMBERS => Ok(()),
            _ => Err(self.fault("has more numbers than a table of times or a calibration")),
        }
    }

    fn whole<T>(&self, read: Result<Vec<T>, hdf5_pure::Error>, length: usize) -> Result<Vec<T>, DataError> {
        let numbers = read.map_err(|error| self.fault(&error.to_string()))?;
        if numbers.len() == length {
            Ok(numbers)
        } else {
            Err(self.fault(&format!("gave {} numbers for a frame of {length}", numbers.len())))
        }
    }
}

fn fault(path: &Path, reason: &str) -> DataError {
    DataError::Hdf {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Most numbers of one frame: 64 million.
const MOST_NUMBERS: usize = 1 << 26;
/// 2^53: whole numbers below it are exact as `f64`.
const MOST_MICROSECONDS: f64 = 9_007_199_254_740_992.0;
