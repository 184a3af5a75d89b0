//! `veilsum-audit`: the auditor of `veilsum audit`, alone.
//!
//! It reads files and prints. No socket, no clock but for how often progress is told, no random numbers, no learner: what there is to review before trusting
//! its verdict is this file, the attestation crate and the crypto crate.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use veilsum_attestation::audit::command::{
    AuditRequest, CommandError, Ending, ForkRequest, Shape, audit, check_fork, fork, read_share,
};
use veilsum_attestation::audit::{Sample, Share};

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args_os().skip(1)) {
        Ok(arguments) => arguments,
        Err(Wrong::Help) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(Wrong::Version) => {
            println!("veilsum-audit {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Err(Wrong::Usage(what)) => {
            eprintln!("veilsum-audit: {what}\n\n{HELP}");
            return ExitCode::from(USAGE);
        }
    };
    match arguments.run() {
        Ok(ending) => ExitCode::from(ending as u8),
        Err(error) => {
            eprintln!("veilsum-audit: {error}");
            ExitCode::from(error.exit())
        }
    }
}

/// The command line.
struct Arguments {
    paths: Vec<PathBuf>,
    fork: bool,
    trust: Option<PathBuf>,
    log: Option<String>,
    out: Option<PathBuf>,
    check: Option<PathBuf>,
    witnesses: Option<PathBuf>,
    html: Option<PathBuf>,
    shape: Shape,
    since: u64,
    keep_rounds: Option<u64>,
    spot_check: Option<Share>,
    seed: Option<String>,
    threads: usize,
}

/// Why nothing is run.
enum Wrong {
    Help,
    Version,
    Usage(String),
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = OsString>) -> Result<Self, Wrong> {
        let mut read = Self {
            paths: Vec::new(),
            fork: false,
            trust: None,
            log: None,
            out: None,
            check: None,
            witnesses: None,
            html: None,
            shape: Shape::Human,
            since: 0,
            keep_rounds: None,
            spot_check: None,
            seed: None,
            threads: 0,
        };
        let mut first = true;
        while let Some(word) = words.next() {
            let text = word.to_str().unwrap_or_default();
            // `--name=value` and `--name value` are the same.
            let (name, joined) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(OsString::from(value))),
                _ => (text, None),
            };
            let mut value = || {
                joined
                    .clone()
                    .or_else(|| words.next())
                    .ok_or_else(|| Wrong::Usage(format!("{name} needs a value")))
            };
            match name {
                "-h" | "--help" => return Err(Wrong::Help),
                "-V" | "--version" => return Err(Wrong::Version),
                "fork" if first => read.fork = true,
                "--trust" => read.trust = Some(value()?.into()),
                "--log" if read.fork => read.log = Some(utf8(value()?)?),
                "--out" if read.fork => read.out = Some(value()?.into()),
                "--check" if read.fork => read.check = Some(value()?.into()),
                "--witnesses" => read.witnesses = Some(value()?.into()),
                "--html" if !read.fork => read.html = Some(value()?.into()),
                "--since" if !read.fork => read.since = number(name, value()?)?,
                "--keep-rounds" if !read.fork => read.keep_rounds = Some(number(name, value()?)?),
                "--spot-check" if !read.fork => {
                    read.spot_check = Some(read_share(&utf8(value()?)?).map_err(Wrong::Usage)?);
                }
                "--seed" if !read.fork => read.seed = Some(utf8(value()?)?),
                "--threads" if !read.fork => {
                    read.threads = usize::try_from(number(name, value()?)?).unwrap_or(0);
                }
                "--format" => {
                    read.shape = match utf8(value()?)?.as_str() {
                        "human" => Shape::Human,
                        "json" => Shape::Json,
                        other => {
                            return Err(Wrong::Usage(format!("--format is human or json, not {other:?}")));
                        }
                    }
                }
                other if other.starts_with('-') && other.len() > 1 => {
                    return Err(Wrong::Usage(format!("unknown option {other:?}")));
                }
                _ => read.paths.push(word.into()),
            }
            first = false;
        }
        if read.spot_check.is_some() != read.seed.is_some() {
            return Err(Wrong::Usage(
                "--spot-check and --seed go together: roll the seed after the bundle was handed over"
                    .to_owned(),
            ));
        }
        if read.fork && read.check.is_none() && read.witnesses.is_some() {
            return Err(Wrong::Usage("--witnesses goes with --check".to_owned()));
        }
        let wanted = match (read.fork, &read.check) {
            (false, _) => 1,
            (true, None) => 2,
            (true, Some(_)) => 0,
        };
        if read.paths.len() != wanted {
            let got = read.paths.len();
            return Err(Wrong::Usage(format!(
                "{wanted} file(s) are needed, {got} are given"
            )));
        }
        Ok(read)
    }

    fn run(&self) -> Result<Ending, CommandError> {
        let mut out = std::io::stdout().lock();
        if let Some(file) = &self.check {
            return check_fork(
                file,
                self.log.as_deref(),
                self.witnesses.as_deref(),
                self.shape,
                &mut out,
            );
        }
        match self.paths.as_slice() {
            [first, second] => fork(
                &ForkRequest {
                    first,
                    second,
                    trust: self.trust.as_deref(),
                    log: self.log.as_deref(),
                    out: self.out.as_deref(),
                    shape: self.shape,
                },
                &mut out,
            ),
            paths => {
                let seed = self.seed.clone().unwrap_or_default().into_bytes();
                let sample = self.spot_check.map(|share| Sample { share, seed });
                audit(
                    &AuditRequest {
                        bundle: paths.first().map_or("".as_ref(), PathBuf::as_path),
                        trust: self.trust.as_deref(),
                        shape: self.shape,
                        html: self.html.as_deref(),
                        witnesses: self.witnesses.as_deref(),
                        since: self.since,
                        keep_rounds: self.keep_rounds,
                        sample: sample.as_ref(),
                        threads: self.threads,
                        progress: std::io::stderr().is_terminal(),
                    },
                    &mut out,
                )
            }
        }
    }
}

fn number(name: &str, word: OsString) -> Result<u64, Wrong> {
    let text = utf8(word)?;
    text.parse()
        .map_err(|_| Wrong::Usage(format!("{name} needs a number, not {text:?}")))
}

fn utf8(word: OsString) -> Result<String, Wrong> {
    word.into_string()
        .map_err(|word| Wrong::Usage(format!("{} is not UTF-8", word.display())))
}

/// The command line is wrong.
const USAGE: u8 = 2;

const HELP: &str = "\
Check a bundle, trusting only the authority key.

Usage: veilsum-audit [--trust FILE] [--witnesses POLICY] [--since TIME] [--keep-rounds N]
                     [--spot-check N|PART --seed TEXT] [--threads N] [--format human|json] [--html FILE] BUNDLE
       veilsum-audit fork [--trust FILE] [--log VKEY] [--out FILE] [--format human|json] A B
       veilsum-audit fork --check FILE [--log VKEY] [--witnesses POLICY] [--format human|json]

  BUNDLE              what the server exported for the auditor, or a file of another tier
  A B                 two heads of one log: bundles, or signed heads as members and witnesses keep them
  --trust FILE        the federation's name and the authority's key; without it, auditor.toml beside the bundle
  --witnesses POLICY  the witnesses' policy file: its quorum must have cosigned the log; with fork --check, its witnesses that
                      cosigned both sides are named
  --html FILE         where the verdict is written as well, as a page for people
  --since TIME        cosignatures from before this, POSIX seconds, do not count
  --keep-rounds N     masked vectors may be gone once N more rounds are published, where the policy sets no window
  --spot-check N|PART recompute only N chunks of each sum, or a part such as 0.05 or 5%, drawn by --seed
  --seed TEXT         what draws them; roll it after the bundle was handed over
  --threads N         threads; without it as many as the machine has
  --log VKEY          the key that signs the log, when no bundle tells it
  --out FILE          where the proof of a fork is written
  --check FILE        check such a proof

Exit: 0 nothing wrong, 2 command line, 3 a file is wrong, 6 a violation was found or the bundle cannot be read.";
