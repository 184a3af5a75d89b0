//! What `veilsum audit` and `veilsum-audit` do: one code, so that the small tool and the large one cannot differ in a word
//! or an exit code.
//!
//! Files are read here, nothing is written but a fork file, and what is printed goes to the writer given.

mod fork;

pub use fork::{ForkRequest, check_fork, fork};

use super::{Auditor, Overall, Trust, Verdict};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use veilsum_crypto::{Digest, PublicIdentity};

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Sentences for a person.
    Human,
    /// JSON for a program.
    Json,
}

/// How a command ended that came to an end. The numbers are exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ending {
    /// Nothing is wrong.
    Clean = 0,
    /// A violation was found.
    Violated = 6,
}

/// A command that came to no end. [`CommandError::exit`] is its exit code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// A file or setting is wrong.
    #[error("{0}")]
    Config(String),
    /// What was to be audited cannot be read: no verdict, and in particular not `verified`.
    #[error("{0}")]
    Unreadable(String),
    /// The output failed.
    #[error("cannot print: {0}")]
    Output(#[from] std::io::Error),
}

impl CommandError {
    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Output(_) => 3,
            Self::Unreadable(_) => Ending::Violated as u8,
        }
    }
}

/// One audit.
#[derive(Clone, Copy, Debug)]
pub struct AuditRequest<'a> {
    /// The bundle.
    pub bundle: &'a Path,
    /// Whom to trust; without it, `auditor.toml` beside the bundle.
    pub trust: Option<&'a Path>,
    /// How the verdict is printed.
    pub shape: Shape,
}

/// Audits a bundle and prints the verdict.
///
/// # Errors
/// [`CommandError`].
pub fn audit(request: &AuditRequest<'_>, out: &mut dyn Write) -> Result<Ending, CommandError> {
    let trust = read_trust(&trust_path(request.trust, request.bundle))?;
    let file = open(request.bundle)?;
    let auditor = Auditor::new(trust).map_err(config)?;
    let bundle = request.bundle.display().to_string();
    match auditor.audit(BufReader::new(file), &mut |_| ()) {
        Ok(verdict) => {
            match request.shape {
                Shape::Human => print(out, &verdict.to_string())?,
                Shape::Json => print_json(
                    out,
                    &Report {
                        schema: SCHEMA,
                        bundle,
                        verdict: &verdict,
                    },
                )?,
            }
            Ok(if verdict.overall == Overall::Verified {
                Ending::Clean
            } else {
                Ending::Violated
            })
        }
        Err(error) => {
            let reason = error.to_string();
            if request.shape == Shape::Json {
                print_json(
                    out,
                    &Unreadable {
                        schema: SCHEMA,
                        bundle,
                        overall: "unreadable",
                        reason: reason.clone(),
                    },
                )?;
            }
            Err(CommandError::Unreadable(reason))
        }
    }
}

/// The verdict as programs read it.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    bundle: String,
    #[serde(flatten)]
    verdict: &'a Verdict,
}

/// What an unreadable bundle gives a program: never the word `verified`.
#[derive(Serialize)]
struct Unreadable {
    schema: &'static str,
    bundle: String,
    overall: &'static str,
    reason: String,
}

/// `auditor.toml`: what an auditor is told out of band.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditorFile {
    trust: TrustSection,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustSection {
    federation: String,
    authority: String,
}

/// Where the trust is told: the file named, or `auditor.toml` beside the bundle.
fn trust_path(named: Option<&Path>, bundle: &Path) -> PathBuf {
    match named {
        Some(path) => path.to_path_buf(),
        None => bundle.parent().unwrap_or(Path::new("")).join("auditor.toml"),
    }
}

/// Reads `auditor.toml`.
///
/// # Errors
/// [`CommandError::Config`] with the line, or what is missing.
pub fn read_trust(path: &Path) -> Result<Trust, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandError::Config(format!(
            "cannot read {}: {error}. An audit needs to know whom to trust: give --trust FILE with the federation's name \
             and the authority's key",
            path.display()
        ))
    })?;
    let file: AuditorFile = toml::from_str(&text)
        .map_err(|error| CommandError::Config(format!("{}: {error}", path.display())))?;
    let key = Digest::from_hex(&file.trust.authority).ok_or_else(|| {
        CommandError::Config("setting `trust.authority`: it must be 64 hexadecimal characters".to_owned())
    })?;
    Ok(Trust {
        name: file.trust.federation,
        authority: PublicIdentity(key.0),
    })
}

fn open(path: &Path) -> Result<File, CommandError> {
    File::open(path).map_err(|error| CommandError::Config(format!("cannot read {}: {error}", path.display())))
}

fn config(error: impl std::fmt::Display) -> CommandError {
    CommandError::Config(error.to_string())
}

/// Prints a result. A reader that has gone away (`| head`) is no fault of anybody's.
fn print(out: &mut dyn Write, text: &str) -> Result<(), CommandError> {
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn print_json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(value).map_err(config)?;
    print(out, &text)
}

const SCHEMA: &str = "veilsum-audit/1";
