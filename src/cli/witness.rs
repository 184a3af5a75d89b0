//! `veilsum witness`.

use super::{Format, runtime, system_seed};
use crate::exit::{Exit, Failure};
use crate::witness::{Desk, DeskEvent, DeskStore, DeskStoreError, witness_key};
use chacha20::ChaCha20Rng;
use clap::Args;
use rand_core::SeedableRng;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::sync::mpsc;
use veilsum_attestation::note::NoteKey;
use veilsum_attestation::tlog::{CosignerKey, Witness};

/// Arguments of `veilsum witness`.
#[derive(Debug, Args)]
pub(super) struct WitnessArgs {
    /// Folder for what was cosigned. Losing it means retiring the key.
    #[arg(long)]
    state: PathBuf,
    /// The witness's signing key; made where there is none.
    #[arg(long)]
    key: PathBuf,
    /// The witness's name: an address without scheme, such as `witness.example/1`.
    #[arg(long)]
    name: String,
    /// A log to witness, by its key as `veilsum inspect` prints it. May be repeated.
    #[arg(long = "log", required = true, value_name = "VKEY")]
    logs: Vec<String>,
    /// TCP address to answer on, in plain HTTP.
    #[arg(long, default_value = "127.0.0.1:4711")]
    listen: SocketAddr,
    /// How events are printed on standard output.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

pub(super) fn run(args: &WitnessArgs) -> Result<Exit, Failure> {
    let config = |error: anyhow::Error| Failure::new(Exit::Config, error);
    let logs = args
        .logs
        .iter()
        .map(|log| log.parse::<NoteKey>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| config(error.into()))?;
    let mut rng = ChaCha20Rng::from_seed(system_seed()?);
    let (identity, made) = witness_key(&args.key, &mut rng).map_err(|error| config(error.into()))?;
    let key = CosignerKey::new(&args.name, identity.public().0).map_err(|error| config(error.into()))?;
    let shown = key.to_string();
    let mut witness = Witness::new(key, logs.iter().cloned());
    let store = DeskStore::open(&args.state, &mut witness).map_err(|error| match error {
        DeskStoreError::Locked(_) => Failure::new(Exit::TryAgain, error),
        other => Failure::new(Exit::Config, other),
    })?;
    let (events, mut seen) = mpsc::unbounded_channel();
    let desk = Desk::new(witness, logs, store, identity, events);
    runtime()?.block_on(async {
        let listener = Desk::bind(args.listen)
            .await
            .map_err(|error| Failure::new(Exit::Config, error))?;
        let addr = listener
            .local_addr()
            .map_err(|error| Failure::new(Exit::Bug, error))?;
        say(args.format, &Line::Listening(addr, &shown, made))?;
        let stop = async {
            let _ = tokio::signal::ctrl_c().await;
        };
        let serve = desk.serve(listener, stop);
        tokio::pin!(serve);
        loop {
            tokio::select! {
                () = &mut serve => return Ok(Exit::Interrupted),
                Some(event) = seen.recv() => say(args.format, &Line::Event(&event))?,
            }
        }
    })
}

enum Line<'a> {
    Listening(SocketAddr, &'a str, bool),
    Event(&'a DeskEvent),
}

fn say(format: Format, line: &Line<'_>) -> Result<(), Failure> {
    let (text, value) = match line {
        Line::Listening(addr, key, made) => (
            format!(
                "listening on http://{addr}{}\nkey {key}",
                if *made { ", with a new key" } else { "" }
            ),
            json!({"event": "listening", "addr": addr.to_string(), "key": key, "new_key": made}),
        ),
        Line::Event(DeskEvent::Cosigned { origin, size }) => (
            format!("cosigned {} at {size} entries", origin.escape_debug()),
            json!({"event": "cosigned", "origin": origin, "size": size}),
        ),
        Line::Event(DeskEvent::Refused { status, evidence }) => (
            match evidence {
                Some(path) => format!(
                    "REFUSED ({status}): the log signed a head that does not extend the one held; kept in {}",
                    path.display()
                ),
                None => format!("refused ({status})"),
            },
            json!({
                "event": "refused",
                "status": status,
                "evidence": evidence.as_ref().map(|path| path.display().to_string()),
            }),
        ),
        Line::Event(DeskEvent::NotStored(error)) => (
            format!("not cosigned: {error}"),
            json!({"event": "not_stored", "error": error}),
        ),
    };
    match format {
        Format::Human => super::print(&text),
        Format::Json => {
            let mut value = value;
            if let Some(object) = value.as_object_mut() {
                object.insert("schema".to_owned(), json!("veilsum-witness/1"));
            }
            super::print(&value.to_string())
        }
    }
}
