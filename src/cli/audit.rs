//! `veilsum audit`.

use super::Format;
use crate::config::{AuditorConfig, Located};
use crate::exit::{Exit, Failure};
use clap::Args;
use serde::Serialize;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use veilsum_attestation::audit::{Auditor, Overall, Trust, Verdict};

/// Arguments of `veilsum audit`.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// The bundle: `veilsum audit consortium/auditor/bundle.veil`.
    bundle: PathBuf,
    /// Whom to trust; without it, `auditor.toml` beside the bundle. It names the federation and the authority's key, both
    /// told to the auditor out of band.
    #[arg(long)]
    trust: Option<PathBuf>,
    /// How the verdict is printed.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
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

pub(super) fn run(args: &AuditArgs) -> Result<Exit, Failure> {
    let trust = match &args.trust {
        Some(path) => path.clone(),
        None => args.bundle.parent().unwrap_or(Path::new("")).join("auditor.toml"),
    };
    let config = Located::<AuditorConfig>::read(&trust).map_err(|error| {
        Failure::say(
            Exit::Config,
            format!("{error}. An audit needs to know whom to trust: give --trust FILE with the federation's name and the authority's key"),
        )
    })?;
    let settings = config
        .settings
        .trust
        .trust()
        .map_err(|error| Failure::new(Exit::Config, error))?;
    let trust = Trust {
        name: settings.federation,
        authority: settings.authority,
    };
    let file = File::open(&args.bundle).map_err(|error| {
        Failure::say(
            Exit::Config,
            format!("cannot read {}: {error}", args.bundle.display()),
        )
    })?;
    let auditor = Auditor::new(trust).map_err(|error| Failure::new(Exit::Config, error))?;
    let audited = auditor.audit(BufReader::new(file), &mut |_| ());
    let bundle = args.bundle.display().to_string();
    match audited {
        Ok(verdict) => {
            match args.format {
                Format::Human => super::print(&verdict.to_string())?,
                Format::Json => print_json(&Report {
                    schema: SCHEMA,
                    bundle,
                    verdict: &verdict,
                })?,
            }
            Ok(if verdict.overall == Overall::Verified {
                Exit::Ok
            } else {
                Exit::Violated
            })
        }
        Err(error) => {
            if args.format == Format::Json {
                let reason = error.to_string();
                print_json(&Unreadable {
                    schema: SCHEMA,
                    bundle,
                    overall: "unreadable",
                    reason,
                })?;
            }
            Err(Failure::new(Exit::Violated, error))
        }
    }
}

fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(Exit::Bug, error))?;
    super::print(&text)
}

const SCHEMA: &str = "veilsum-audit/1";
