//! Files and what is wrong with them, by line and column.

use std::fs;
use std::path::{Path, PathBuf};

/// Where in a text something is wrong, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    line: usize,
    column: usize,
    what: String,
}

impl Fault {
    pub(super) fn new(line: usize, column: usize, what: impl Into<String>) -> Self {
        Self {
            line,
            column,
            what: what.into(),
        }
    }
}

/// Why a file cannot be used. Always the fault of whoever wrote it, or of its name.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    #[error("cannot read {path}: {cause}", path = path.display())]
    Read { path: PathBuf, cause: std::io::Error },
    #[error("{path} has {size} bytes, a plan has at most {MAX_BYTES}: is it the right file?", path = path.display())]
    Size { path: PathBuf, size: u64 },
    #[error("{path} is not text: give a CSV or JSON file", path = path.display())]
    NotText { path: PathBuf },
    #[error("{path}, line {line}, column {column}: {what}", path = path.display())]
    Fault {
        path: PathBuf,
        line: usize,
        column: usize,
        what: String,
    },
    #[error("{path}: {what}", path = path.display())]
    Whole { path: PathBuf, what: String },
}

impl InputError {
    pub(super) fn at(path: &Path, fault: Fault) -> Self {
        Self::Fault {
            path: path.to_owned(),
            line: fault.line,
            column: fault.column,
            what: fault.what,
        }
    }

    pub(super) fn whole(path: &Path, what: impl std::fmt::Display) -> Self {
        Self::Whole {
            path: path.to_owned(),
            what: what.to_string(),
        }
    }
}

pub(super) fn text(path: &Path) -> Result<String, InputError> {
    String::from_utf8(bytes(path)?).map_err(|_| InputError::NotText {
        path: path.to_owned(),
    })
}

pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, InputError> {
    let read = |cause| InputError::Read {
        path: path.to_owned(),
        cause,
    };
    let size = fs::metadata(path).map_err(read)?.len();
    if size > MAX_BYTES {
        return Err(InputError::Size {
            path: path.to_owned(),
            size,
        });
    }
    fs::read(path).map_err(read)
}

/// A matrix of 2,000 by 2,000 divergences with all digits.
const MAX_BYTES: u64 = 128 << 20;
