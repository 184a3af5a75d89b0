//! `veilsum doctor`.

use super::{Format, print, runtime};
use crate::doctor::examine;
use crate::exit::{Exit, Failure, plain};
use clap::Args;
use std::path::PathBuf;
use std::time::SystemTime;

/// Arguments of `veilsum doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// A `server.toml` or `client.toml`, or the folder it is in.
    #[arg(long)]
    config: PathBuf,
    /// Do not call the server.
    #[arg(long)]
    offline: bool,
    /// How the checks are printed.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

pub(super) fn run(args: &DoctorArgs) -> Result<Exit, Failure> {
    let found = runtime()?.block_on(examine(&args.config, SystemTime::now(), args.offline));
    match args.format {
        Format::Human => print(&plain(&found.to_string()))?,
        Format::Json => {
            let text =
                serde_json::to_string_pretty(&found).map_err(|error| Failure::new(Exit::Bug, error))?;
            print(&text)?;
        }
    }
    Ok(if found.passed() { Exit::Ok } else { Exit::Config })
}
