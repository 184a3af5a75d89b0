//! Reports on disk. A file appears whole or not at all.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Report, SCHEMA, html, picture};

impl Report {
    /// Reads a report and checks that it can be shown.
    ///
    /// # Errors
    /// [`ReportError`]: unreadable, too large, not JSON, another schema, or pictures that are none.
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let io = |cause| ReportError::Read {
            path: path.to_owned(),
            cause,
        };
        let size = fs::metadata(path).map_err(io)?.len();
        if size > MAX_BYTES {
            return Err(ReportError::Size {
                path: path.to_owned(),
                size,
            });
        }
        let text = fs::read_to_string(path).map_err(io)?;
        Self::parse(&text).map_err(|cause| cause.at(path))
    }

    /// The report in a JSON text.
    ///
    /// # Errors
    /// [`ParseError`], see [`Report::read`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        struct Header {
            schema: String,
        }
        let header: Header = serde_json::from_str(text)?;
        if header.schema != SCHEMA {
            return Err(ParseError::Schema(header.schema.chars().take(80).collect()));
        }
        let report: Self = serde_json::from_str(text)?;
        for shot in report
            .examples
            .iter()
            .flat_map(|example| [&example.first, &example.last])
        {
            picture::check_base64(&shot.png_base64)?;
        }
        Ok(report)
    }

    /// The report as JSON, two spaces a level, with a final line break.
    ///
    /// # Errors
    /// A figure that is not finite; [`rounded`](super::rounded) keeps those out.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Writes the JSON and the page.
    ///
    /// # Errors
    /// [`ReportError::Write`] naming the file.
    pub fn write(&self, json: &Path, page: &Path) -> Result<(), ReportError> {
        let unwritable = |path: &Path, cause: serde_json::Error| ReportError::Write {
            path: path.to_owned(),
            cause: cause.into(),
        };
        write_whole(json, &self.to_json().map_err(|cause| unwritable(json, cause))?)?;
        write_whole(page, &html::page(self).map_err(|cause| unwritable(page, cause))?)
    }
}

/// Writes a text so that a reader finds the old file or the new one, never half of one.
///
/// # Errors
/// [`ReportError::Write`] naming the file.
pub fn write_whole(path: &Path, text: &str) -> Result<(), ReportError> {
    let failed = |cause| ReportError::Write {
        path: path.to_owned(),
        cause,
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    let mut file = fs::File::create(&fresh).map_err(failed)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&fresh, path));
    if let Err(cause) = written {
        // The first error is the one to tell.
        let _ = fs::remove_file(&fresh);
        return Err(failed(cause));
    }
    Ok(())
}

/// Why a text is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Another schema.
    #[error("it is of schema `{0}` and not `{SCHEMA}`: use the version of veilsum that wrote it")]
    Schema(String),
    /// Not JSON, or a field is missing or wrong.
    #[error("it is no report: {0}")]
    Json(#[from] serde_json::Error),
    /// A picture that is none.
    #[error("a picture in it is none: {0}")]
    Picture(#[from] picture::PictureError),
}

impl ParseError {
    fn at(self, path: &Path) -> ReportError {
        ReportError::Parse {
            path: path.to_owned(),
            cause: self,
        }
    }
}

/// Why a report cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Unreadable.
    #[error("cannot read {path}: {cause}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// Too large to be one of ours.
    #[error("{path} has {size} bytes, a report has at most {MAX_BYTES}: is it the right file?", path = path.display())]
    Size {
        /// Which file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// No report.
    #[error("{path}: {cause}", path = path.display())]
    Parse {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: ParseError,
    },
    /// Not written; what was there before is untouched.
    #[error("cannot write {path}: {cause}", path = path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
}

/// A report with a few dozen small pictures stays far below.
const MAX_BYTES: u64 = 64 << 20;
