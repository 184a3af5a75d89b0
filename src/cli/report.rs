//! `veilsum report`: the page of a report, made again from its JSON.

use std::path::PathBuf;

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::report::{Report, file, html};

/// Arguments of `veilsum report`.
#[derive(Clone, Debug, Args)]
pub(super) struct ReportArgs {
    /// The report's JSON, as `veilsum demo` wrote it.
    report: PathBuf,
    /// Where the page goes; without it, beside the JSON with the ending `.html`.
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    let report = Report::read(&args.report).map_err(|error| Failure::new(Exit::Config, error))?;
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| args.report.with_extension("html"));
    if out == args.report {
        return Err(Failure::say(
            Exit::Usage,
            format!(
                "the page would replace {}; say where it goes with --out",
                out.display()
            ),
        ));
    }
    let page = html::page(&report).map_err(|error| Failure::new(Exit::Bug, error))?;
    file::write_whole(&out, &page).map_err(|error| Failure::new(Exit::Config, error))?;
    println!("{}", out.display());
    Ok(Exit::Ok)
}
