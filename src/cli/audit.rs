//! `veilsum audit`. What it does and prints is in `veilsum_attestation::audit::command`, which `veilsum-audit` shares.

use super::Format;
use crate::exit::{Exit, Failure};
use clap::{Args, Subcommand};
use std::io::IsTerminal;
use std::path::PathBuf;
use veilsum_attestation::audit::command::{self, AuditRequest, CommandError, Ending, ForkRequest, Shape};
use veilsum_attestation::audit::{Sample, Share};

/// Arguments of `veilsum audit`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// The bundle: `veilsum audit consortium/auditor/bundle.veil`.
    #[arg(required = true)]
    bundle: Option<PathBuf>,
    /// Whom to trust; without it, `auditor.toml` beside the bundle. It names the federation and the authority's key, both
    /// told to the auditor out of band.
    #[arg(long)]
    trust: Option<PathBuf>,
    /// How the verdict is printed.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Where the verdict is written as well, as a page for people: one HTML file, nothing fetched, nothing run.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The witnesses' policy file (C2SP tlog-policy): its quorum must have cosigned the log. Without it, the one that
    /// `auditor.toml` names.
    #[arg(long, value_name = "POLICY")]
    witnesses: Option<PathBuf>,
    /// Cosignatures from before this, POSIX seconds, do not count.
    #[arg(long, value_name = "TIME", default_value_t = 0)]
    since: u64,
    /// Masked vectors may be gone once so many more rounds are published, where the policy sets no window. Without it, what
    /// `auditor.toml` says.
    #[arg(long, value_name = "ROUNDS")]
    keep_rounds: Option<u64>,
    /// Recompute only so many chunks of each sum: a number, or a part such as 0.05 or 5%.
    #[arg(long, value_name = "N|PART", value_parser = command::read_share, requires = "seed")]
    spot_check: Option<Share>,
    /// What draws the chunks of a spot check: any text. Roll it after the bundle was handed over.
    #[arg(long, requires = "spot_check")]
    seed: Option<String>,
    /// Threads; without it as many as the machine has. The verdict does not depend on it.
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// Compare two heads of one log; where they do not fit, prove that it was forked.
    Fork(ForkArgs),
}

/// Arguments of `veilsum audit fork`.
#[derive(Debug, Args)]
struct ForkArgs {
    /// A bundle, or a signed head as members and witnesses keep it.
    #[arg(required_unless_present = "check", conflicts_with = "check")]
    first: Option<PathBuf>,
    /// The other.
    #[arg(required_unless_present = "check", conflicts_with = "check")]
    second: Option<PathBuf>,
    /// Whom to trust, when a bundle shall tell the log's key.
    #[arg(long)]
    trust: Option<PathBuf>,
    /// The key that signs the log.
    #[arg(long, value_name = "VKEY")]
    log: Option<String>,
    /// Where the proof of a fork is written.
    #[arg(long, conflicts_with = "check")]
    out: Option<PathBuf>,
    /// Check such a proof.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// A policy file; its witnesses that cosigned both sides are named.
    #[arg(long, value_name = "POLICY", requires = "check")]
    witnesses: Option<PathBuf>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

pub(super) fn run(args: &AuditArgs) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    let ended = match (&args.other, &args.bundle) {
        (Some(Other::Fork(fork)), _) => fork.run(&mut out),
        (None, Some(bundle)) => {
            let seed = args.seed.clone().unwrap_or_default().into_bytes();
            let sample = args.spot_check.map(|share| Sample { share, seed });
            command::audit(
                &AuditRequest {
                    bundle,
                    trust: args.trust.as_deref(),
                    shape: shape(args.format),
                    html: args.html.as_deref(),
                    witnesses: args.witnesses.as_deref(),
                    since: args.since,
                    keep_rounds: args.keep_rounds,
                    sample: sample.as_ref(),
                    threads: args.threads,
                    progress: std::io::stderr().is_terminal(),
                },
                &mut out,
            )
        }
        (None, None) => return Err(Failure::say(Exit::Usage, "a bundle is needed")),
    };
    finish(ended)
}

impl ForkArgs {
    fn run(&self, out: &mut dyn std::io::Write) -> Result<Ending, CommandError> {
        let log = self.log.as_deref();
        let shape = shape(self.format);
        match (&self.check, &self.first, &self.second) {
            (Some(file), ..) => command::check_fork(file, log, self.witnesses.as_deref(), shape, out),
            (None, Some(first), Some(second)) => command::fork(
                &ForkRequest {
                    first,
                    second,
                    trust: self.trust.as_deref(),
                    log,
                    out: self.out.as_deref(),
                    shape,
                },
                out,
            ),
            (None, ..) => Err(CommandError::Config("two heads are needed".to_owned())),
        }
    }
}

fn shape(format: Format) -> Shape {
    match format {
        Format::Human => Shape::Human,
        Format::Json => Shape::Json,
    }
}

fn finish(ended: Result<Ending, CommandError>) -> Result<Exit, Failure> {
    match ended {
        Ok(Ending::Clean) => Ok(Exit::Ok),
        Ok(Ending::Violated) => Ok(Exit::Violated),
        Err(error) => {
            let exit = match &error {
                CommandError::Unreadable(_) => Exit::Violated,
                _ => Exit::Config,
            };
            Err(Failure::new(exit, error))
        }
    }
}
