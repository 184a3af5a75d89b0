//! `veilsum man`: a manual page for each command.

use super::{command, print};
use crate::exit::{Exit, Failure};
use crate::store::write_atomic;
use clap::{Args, Command};
use clap_mangen::Man;
use std::path::{Path, PathBuf};

/// Arguments of `veilsum man`.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Folder for the pages, such as `~/.local/share/man/man1`; made where there is none.
    dir: PathBuf,
}

pub(super) fn run(args: &ManArgs) -> Result<Exit, Failure> {
    let mut whole = command().disable_help_subcommand(true);
    whole.build();
    let pages = write(&whole, &args.dir)?;
    print(&format!("{pages} pages in {}", args.dir.display()))?;
    Ok(Exit::Ok)
}

/// Writes the pages of a command and of all below it, and counts them.
fn write(command: &Command, dir: &Path) -> Result<usize, Failure> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)
        .map_err(|error| Failure::new(Exit::Bug, error))?;
    write_atomic(&dir.join(page.get_filename()), &text).map_err(|error| Failure::new(Exit::Config, error))?;
    command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .try_fold(1, |pages, sub| Ok(pages + write(sub, dir)?))
}
