//! `veilsum completions`: what a shell needs to complete commands, flags and values.

use super::{command, print};
use crate::exit::{Exit, Failure};
use clap::Args;
use clap_complete::Shell;

/// Arguments of `veilsum completions`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "veilsum", &mut script);
    let script = String::from_utf8(script).map_err(|error| Failure::new(Exit::Bug, error))?;
    print(script.trim_end())?;
    Ok(Exit::Ok)
}
