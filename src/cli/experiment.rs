//! `veilsum experiment`: strategies beside one another on the same data.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{Format, print};
use crate::config::Located;
use crate::exit::{Exit, Failure};
use crate::experiment::config::ExperimentConfig;
use crate::experiment::results::{Results, SeedResult};
use crate::experiment::run::run_seed;
use crate::experiment::{Aggregation, ExperimentError};
use crate::store::write_atomic;

/// Arguments of `veilsum experiment`.
#[derive(Clone, Debug, Args)]
pub(super) struct ExperimentArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// Run every strategy of a file on every seed, compare, and write results.json and scores.csv. A seed that is done is not run again.
    Run(RunArgs),
}

#[derive(Clone, Debug, Args)]
struct RunArgs {
    /// The experiment's file, such as `configs/experiments/hpe-mini.toml`.
    file: PathBuf,
    /// Only so many of the file's seeds, from the first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// How means are made, whatever the file says.
    #[arg(long, value_enum)]
    aggregation: Option<Aggregation>,
    /// Folder of results.json, scores.csv and of one file a seed; `target/experiment/<name>` without it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How the results are printed.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

pub(super) fn run(args: &ExperimentArgs) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Run(args) => run_file(args),
    }
}

fn run_file(args: &RunArgs) -> Result<Exit, Failure> {
    let mut config = Located::<ExperimentConfig>::read(&args.file)
        .map_err(|error| Failure::new(Exit::Config, error))?
        .settings;
    config.base = args.file.parent().map(Path::to_path_buf).unwrap_or_default();
    if let Some(aggregation) = args.aggregation {
        config.aggregation = aggregation;
    }
    if let Some(count) = args.seeds {
        let there = config.seeds.len();
        if count as usize > there {
            return Err(Failure::say(
                Exit::Usage,
                format!("--seeds {count}: the file has {there} seeds; add some to its `seeds`"),
            ));
        }
        config.seeds.truncate(count as usize);
    }
    let arms = config.arms().map_err(failure)?;
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| Path::new("target/experiment").join(&config.name));
    let mut seeds = Vec::with_capacity(config.seeds.len());
    for seed in &config.seeds {
        let file = out.join(format!("seed-{seed}.json"));
        if let Some(done) = kept(&file, &config.digest()) {
            say(&format!("seed {seed}: done before, {}", file.display()));
            seeds.push(done);
            continue;
        }
        let result = run_seed(&config, &arms, *seed, &mut |line| say(line)).map_err(failure)?;
        write(&file, &result)?;
        seeds.push(result);
    }
    let results = Results::new(&config, seeds);
    let file = out.join("results.json");
    write(&file, &results)?;
    write_atomic(&out.join("scores.csv"), results.csv().as_bytes())
        .map_err(|error| Failure::new(Exit::Config, error))?;
    match args.format {
        Format::Human => print(&format!("{}\n{}", results.table(), file.display()))?,
        Format::Json => {
            let text =
                serde_json::to_string_pretty(&results).map_err(|error| Failure::new(Exit::Bug, error))?;
            print(&text)?;
        }
    }
    Ok(Exit::Ok)
}

/// A seed's results, if they are there and of these settings. Anything else is run again.
fn kept(file: &Path, digest: &str) -> Option<SeedResult> {
    let bytes = std::fs::read(file).ok()?;
    let result: SeedResult = serde_json::from_slice(&bytes).ok()?;
    (result.config == digest).then_some(result)
}

fn write(file: &Path, value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_vec_pretty(value).map_err(|error| Failure::new(Exit::Bug, error))?;
    write_atomic(file, &text).map_err(|error| Failure::new(Exit::Config, error))
}

fn failure(error: ExperimentError) -> Failure {
    let exit = match error {
        ExperimentError::Disclosure { .. } => Exit::Refused,
        ExperimentError::Round(_) | ExperimentError::Range { .. } => Exit::Aborted,
        _ => Exit::Config,
    };
    Failure::new(exit, error)
}

fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
