//! `veilsum evidence`: what clients' files prove, to somebody who believes the authority's key and nobody else.

use super::Format;
use crate::config::{AuditorConfig, Located};
use crate::exit::{Exit, Failure};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use veilsum_attestation::evidence::{EvidenceFile, Proof, judge};
use veilsum_attestation::statement::federation_digest;

/// Arguments of `veilsum evidence`.
#[derive(Debug, Args)]
pub(super) struct EvidenceArgs {
    /// Evidence files of one or more members:
    /// `veilsum evidence --trust auditor.toml a/state/evidence/round-000002-0.veil b/state/evidence/round-000002-0.veil`.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The federation's name and the authority's key, told out of band: an `auditor.toml`.
    #[arg(long)]
    trust: PathBuf,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    proofs: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    party: String,
    offence: &'static str,
    round: Option<u64>,
    attempt: Option<u32>,
    text: String,
}

impl From<&Proof> for Line {
    fn from(proof: &Proof) -> Self {
        Self {
            party: proof.party.to_string(),
            offence: proof.offence.name(),
            round: proof.round.map(|(round, _)| round.0),
            attempt: proof.round.map(|(_, attempt)| attempt.0),
            text: proof.to_string(),
        }
    }
}

pub(super) fn run(args: &EvidenceArgs) -> Result<Exit, Failure> {
    let config =
        Located::<AuditorConfig>::read(&args.trust).map_err(|error| Failure::new(Exit::Config, error))?;
    let trust = config
        .settings
        .trust
        .trust()
        .map_err(|error| Failure::new(Exit::Config, error))?;
    let files = args
        .files
        .iter()
        .map(|path| {
            let fail = |error: String| Failure::say(Exit::Config, format!("{}: {error}", path.display()));
            let bytes = std::fs::read(path).map_err(|error| fail(error.to_string()))?;
            EvidenceFile::from_bytes(&bytes).map_err(|error| fail(error.to_string()))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let federation = federation_digest(&trust.authority, &trust.federation);
    let proofs =
        judge(&files, federation, trust.authority).map_err(|error| Failure::new(Exit::Config, error))?;
    match args.format {
        Format::Human if proofs.is_empty() => super::print(
            "nothing is proved by these files alone; lay another member's file of the same round beside them",
        )?,
        Format::Human => {
            for proof in &proofs {
                super::print(&format!("proved: {proof}"))?;
            }
        }
        Format::Json => {
            let report = Report {
                schema: "veilsum-evidence/1",
                proofs: proofs.iter().map(Line::from).collect(),
            };
            let text =
                serde_json::to_string_pretty(&report).map_err(|error| Failure::new(Exit::Bug, error))?;
            super::print(&text)?;
        }
    }
    Ok(if proofs.is_empty() {
        Exit::Ok
    } else {
        Exit::Violated
    })
}
