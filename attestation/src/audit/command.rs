//! What `veilsum audit` and `veilsum-audit` do: one code, so that the small tool and the large one cannot differ in a word
//! or an exit code.
//!
//! Files are read here, nothing is written but a page or a fork file, and what is printed goes to the writer given.

mod fork;

pub use fork::{ForkRequest, check_fork, fork};

use super::{Auditor, Overall, Progress, Sample, Share, Trust, Verdict, page};
use crate::tlog::TrustPolicy;
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
    /// Where the verdict is written as a page, besides.
    pub html: Option<&'a Path>,
    /// The witnesses' policy file; without it the one `auditor.toml` names, if it does.
    pub witnesses: Option<&'a Path>,
    /// Cosignatures from before this, POSIX seconds, do not count.
    pub since: u64,
    /// Rounds the consortium keeps masked vectors for; without it what `auditor.toml` says, if it does.
    pub keep_rounds: Option<u64>,
    /// Which chunks to look at, if not all.
    pub sample: Option<&'a Sample>,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
    /// Whether to tell on standard error how far the audit is.
    pub progress: bool,
}

impl<'a> AuditRequest<'a> {
    /// A whole audit in sentences, with what `auditor.toml` beside the bundle says.
    #[must_use]
    pub fn of(bundle: &'a Path) -> Self {
        Self {
            bundle,
            trust: None,
            shape: Shape::Human,
            html: None,
            witnesses: None,
            since: 0,
            keep_rounds: None,
            sample: None,
            threads: 0,
            progress: false,
        }
    }
}

/// Reads how much of each sum to spot-check: a number of chunks, or a part as `0.05` or `5%`.
///
/// # Errors
/// What is wrong with the text.
pub fn read_share(text: &str) -> Result<Share, String> {
    let wrong = || format!("{text:?} is no number of chunks and no part such as 0.05 or 5%");
    let part = |value: f64| {
        if value > 0.0 && value <= 1.0 {
            Ok(Share::Fraction(value))
        } else {
            Err(wrong())
        }
    };
    if let Some(percent) = text.strip_suffix('%') {
        return part(percent.parse::<f64>().map_err(|_| wrong())? / 100.0);
    }
    match text.parse::<usize>() {
        Ok(0) => Err(wrong()),
        Ok(chunks) => Ok(Share::Count(chunks)),
        Err(_) => part(text.parse().map_err(|_| wrong())?),
    }
}

/// Audits a bundle and prints the verdict; then writes the page, if one is asked for.
///
/// # Errors
/// [`CommandError`].
pub fn audit(request: &AuditRequest<'_>, out: &mut dyn Write) -> Result<Ending, CommandError> {
    let path = trust_path(request.trust, request.bundle);
    if let Some(html) = request.html {
        spare(html, [request.bundle, &path])?;
    }
    let asked = read_auditor(&path)?;
    let mut auditor = Auditor::new(asked.trust).map_err(config)?;
    let policy = request.witnesses.map(Path::to_path_buf).or(asked.witnesses);
    if let Some(path) = policy {
        auditor = auditor.witnessed_by(read_policy(&path)?, request.since);
    }
    if let Some(rounds) = request.keep_rounds.or(asked.keep_rounds) {
        auditor = auditor.keeping(rounds);
    }
    let threads = match request.threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    let auditor = auditor.on_threads(threads);
    let file = BufReader::new(open(request.bundle)?);
    let bundle = request.bundle.display().to_string();
    let mut line = ProgressLine::new(request.progress);
    let audited = match request.sample {
        None => auditor.audit(file, &mut |progress| line.tell(progress)),
        Some(sample) => auditor.spot_check(file, sample, &mut |progress| line.tell(progress)),
    };
    line.clear();
    let name = request.bundle.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    match audited {
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
            if let Some(html) = request.html {
                write_whole(html, &page::page(&verdict, &name))?;
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
            if let Some(html) = request.html {
                write_whole(html, &page::unreadable(&reason, &name))?;
            }
            Err(CommandError::Unreadable(reason))
        }
    }
}

/// A page must not take the place of what it is made from.
fn spare(html: &Path, inputs: [&Path; 2]) -> Result<(), CommandError> {
    let place = |path: &Path| std::fs::canonicalize(path).ok();
    match inputs
        .iter()
        .find(|input| place(html).is_some() && place(html) == place(input))
    {
        Some(input) => Err(CommandError::Config(format!(
            "the page would overwrite {}; give --html another file",
            input.display()
        ))),
        None => Ok(()),
    }
}

/// Written beside its place and renamed: nobody is handed half of it.
fn write_whole(path: &Path, text: &str) -> Result<(), CommandError> {
    let fault = |error| CommandError::Config(format!("cannot write {}: {error}", path.display()));
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    std::fs::write(&beside, text).map_err(fault)?;
    std::fs::rename(&beside, path).map_err(fault)
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
    /// The witnesses' policy file, beside this one.
    witnesses: Option<PathBuf>,
    /// Rounds masked vectors are kept for.
    keep_rounds: Option<u64>,
}

/// What an auditor is told.
struct Asked {
    trust: Trust,
    witnesses: Option<PathBuf>,
    keep_rounds: Option<u64>,
}

/// One line on standard error that says how far the audit is, rewritten in place.
struct ProgressLine {
    on: bool,
    last: Option<std::time::Instant>,
}

impl ProgressLine {
    fn new(on: bool) -> Self {
        Self { on, last: None }
    }

    fn tell(&mut self, progress: Progress) {
        let due = self.last.is_none_or(|last| last.elapsed() >= PROGRESS_EVERY);
        if !self.on || !due {
            return;
        }
        self.last = Some(std::time::Instant::now());
        let text = match progress {
            Progress::Entries(entries) => format!("{entries} statements read"),
            Progress::Statements => "checking the statements".to_owned(),
            Progress::Vectors { round, done, total } => format!("{done} of {total} vectors, {round}"),
        };
        // What cannot be shown is not missed.
        let _ = write!(std::io::stderr(), "\r\u{1b}[K{text}");
    }

    fn clear(&mut self) {
        if self.on && self.last.is_some() {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}

const PROGRESS_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

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
    Ok(read_auditor(path)?.trust)
}

/// Reads a witness policy.
fn read_policy(path: &Path) -> Result<TrustPolicy, CommandError> {
    let named = |error: String| CommandError::Config(format!("{}: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| named(error.to_string()))?;
    TrustPolicy::parse(&bytes).map_err(|error| named(error.to_string()))
}

fn read_auditor(path: &Path) -> Result<Asked, CommandError> {
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
    let beside = path.parent().unwrap_or(Path::new(""));
    Ok(Asked {
        trust: Trust {
            name: file.trust.federation,
            authority: PublicIdentity(key.0),
        },
        witnesses: file.trust.witnesses.map(|named| beside.join(named)),
        keep_rounds: file.trust.keep_rounds,
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
