//! `veilsum inspect`: steps through a bundle's log and shows the state after each statement.

mod story;

use super::{Format, print};
use crate::exit::{Exit, Failure};
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use story::{State, Story};
use veilsum_attestation::bundle::{BundleReader, Part};
use veilsum_attestation::checkpoint::Checkpoint;
use veilsum_attestation::note::{Note, NoteKey};
use veilsum_crypto::RoundId;

/// Arguments of `veilsum inspect`.
#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// The bundle: `veilsum inspect consortium/auditor/bundle.veil`.
    bundle: PathBuf,
    /// Show this round only.
    #[arg(long)]
    round: Option<u64>,
    /// How it is printed: sentences, or one JSON object a line.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

pub(super) fn run(args: &InspectArgs) -> Result<Exit, Failure> {
    let unreadable = |error: anyhow::Error| Failure::new(Exit::Violated, error);
    let file = File::open(&args.bundle).map_err(|error| {
        Failure::say(
            Exit::Config,
            format!("cannot read {}: {error}", args.bundle.display()),
        )
    })?;
    let mut reader = BundleReader::new(BufReader::new(file)).map_err(|error| unreadable(error.into()))?;
    let Part::Head(head) = reader.part().map_err(|error| unreadable(error.into()))? else {
        return Err(Failure::say(
            Exit::Violated,
            "the bundle does not begin with a signed head",
        ));
    };
    let note = Note::parse(&head).map_err(|error| unreadable(error.into()))?;
    let checkpoint: Checkpoint = note
        .text()
        .parse()
        .map_err(|error| unreadable(anyhow::Error::new(error)))?;
    let mut story = Story::default();
    let mut index = 0u64;
    let mut told = false;
    while let Some(bytes) = reader.entry().map_err(|error| unreadable(error.into()))? {
        let step = story.take(index, &bytes);
        if !told && let Some(server) = story.server() {
            // The log's key, as witnesses and policies name it. It is the policy's word until the audit has checked it.
            let key = NoteKey::new(checkpoint.origin(), server.0)
                .map_or_else(|error| error.to_string(), |key| key.to_string());
            introduce(args.format, &key, &checkpoint)?;
            told = true;
        }
        let shown = match args.round {
            None => true,
            Some(round) => story.state().is_some_and(|state| state.round == RoundId(round)),
        };
        if shown {
            tell(args.format, index, &step, story.state())?;
        }
        index += 1;
    }
    if args.format == Format::Human {
        print(&format!(
            "{index} statements. Nothing here was verified: `veilsum audit` does that."
        ))?;
    }
    Ok(Exit::Ok)
}

fn introduce(format: Format, key: &str, head: &Checkpoint) -> Result<(), Failure> {
    match format {
        Format::Human => print(&format!("log {key}, {} entries", head.size())),
        Format::Json => print(
            &json!({"schema": SCHEMA, "log": key, "size": head.size(), "root": hex::encode(head.root())})
                .to_string(),
        ),
    }
}

fn tell(format: Format, index: u64, step: &story::Step, state: Option<&State>) -> Result<(), Failure> {
    match format {
        Format::Human => {
            let mut text = format!("{index:>5}  {:<9} {:<13} {}", step.kind, step.signer, step.says);
            if let Some(state) = state {
                for line in state.lines(&step.changed) {
                    text.push_str("\n                               ");
                    text.push_str(&line);
                }
            }
            print(&text)
        }
        Format::Json => print(
            &json!({
                "schema": SCHEMA,
                "index": index,
                "kind": step.kind,
                "signer": step.signer,
                "says": step.says,
                "state": state,
            })
            .to_string(),
        ),
    }
}

const SCHEMA: &str = "veilsum-inspect/1";
