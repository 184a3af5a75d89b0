//! `veilsum config`: what a configuration file comes to.

use super::{Format, print};
use crate::config::{AnyConfig, Resolved};
use crate::exit::{Exit, Failure, plain};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `veilsum config`.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print every setting with where it comes from: a line of the file, or the default.
    Show(ShowArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// A `server.toml` or `client.toml`, or the folder it is in.
    #[arg(long)]
    config: PathBuf,
    /// How the settings are printed: TOML with comments, or JSON.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

pub(super) fn run(args: &ConfigArgs) -> Result<Exit, Failure> {
    let Verb::Show(args) = &args.verb;
    let config = AnyConfig::read(&args.config).map_err(|error| Failure::new(Exit::Config, error))?;
    let resolved = Resolved::of(&config).map_err(|error| Failure::new(Exit::Config, error))?;
    match args.format {
        Format::Human => print(plain(&resolved.to_string()).trim_end())?,
        Format::Json => {
            let text =
                serde_json::to_string_pretty(&resolved).map_err(|error| Failure::new(Exit::Bug, error))?;
            print(&text)?;
        }
    }
    Ok(Exit::Ok)
}
