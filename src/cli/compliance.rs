//! `veilsum compliance`.

use super::Format;
use crate::compliance::run::{Over, Results, Row, Selection, run};
use crate::compliance::scenario::Scenario;
use crate::compliance::{catalog, junit, page, statement, table};
use crate::exit::{Exit, Failure};
use clap::{Args, Subcommand, ValueEnum};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use veilsum_crypto::{Digest, Identity};
use zeroize::Zeroizing;

/// Arguments of `veilsum compliance`.
#[derive(Debug, Args)]
pub(super) struct ComplianceArgs {
    #[command(subcommand)]
    command: ComplianceCommand,
}

#[derive(Debug, Subcommand)]
enum ComplianceCommand {
    /// Run scenarios of what can go wrong with the real machines, and compare with what must happen.
    Run(RunArgs),
    /// List the scenarios and the coverage table.
    List(ListArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Only these scenarios: `--scenario 7,29`.
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<u32>,
    /// A scenario file of your own instead of the built-in ones.
    #[arg(long, conflicts_with = "scenario")]
    file: Option<PathBuf>,
    /// Only these numbers of clients.
    #[arg(long, value_delimiter = ',')]
    n: Vec<u32>,
    /// Only these numbers of clusters.
    #[arg(long, value_delimiter = ',')]
    k: Vec<u32>,
    /// Seed of everything; the same seed gives the same transcripts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The network: the scheduler of the simulation, or real QUIC on loopback for the scenarios marked so.
    #[arg(long, value_enum, default_value_t = Network::Sim)]
    over: Network,
    /// A folder for results.json, junit.xml, report.html and the signed statement.dsse.json.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The Ed25519 key that signs the statement (64 hexadecimal characters, mode 600); a fresh one without it.
    #[arg(long, requires = "out")]
    key: Option<PathBuf>,
    /// Rows that run at the same time; as many as there are cores without it.
    #[arg(long)]
    threads: Option<usize>,
    /// How results are printed.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Network {
    Sim,
    Quic,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// How the list is printed.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

pub(super) fn run_command(args: &ComplianceArgs) -> Result<Exit, Failure> {
    match &args.command {
        ComplianceCommand::Run(args) => run_scenarios(args),
        ComplianceCommand::List(args) => list(args),
    }
}

fn run_scenarios(args: &RunArgs) -> Result<Exit, Failure> {
    let scenarios = scenarios(args)?;
    let known = |id: &&u32| scenarios.iter().any(|scenario| scenario.id == **id);
    if let Some(stranger) = args.scenario.iter().find(|id| !known(id)) {
        return Err(Failure::say(
            Exit::Usage,
            format!("there is no scenario {stranger}; `veilsum compliance list` shows all"),
        ));
    }
    let selection = Selection {
        rows: args.scenario.iter().copied().collect(),
        n: args.n.iter().copied().collect(),
        k: args.k.iter().copied().collect(),
        seed: args.seed,
        over: match args.over {
            Network::Sim => Over::Sim,
            Network::Quic => Over::Quic,
        },
        threads: args
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
    };
    let key = args
        .out
        .as_ref()
        .map(|_| signing_key(args.key.as_deref()))
        .transpose()?;
    let start = Instant::now();
    let human = args.format == Format::Human;
    let tell = |row: &Row| {
        if human {
            // A reader that has gone away is no reason to stop: the exit code still says how it ended.
            let _ = super::print(format!("{}\n{}", table::line(row), table::details(row)).trim_end());
        }
    };
    let results = run(&scenarios, &selection, &tell);
    let took = start.elapsed();
    if human {
        super::print(&table::summary(&results, took))?;
    } else {
        print_json(&results)?;
    }
    if let (Some(out), Some(key)) = (&args.out, &key) {
        write_out(out, &scenarios, &results, args.seed, took.as_secs_f64(), key)?;
        if human {
            let whose = if args.key.is_some() {
                "the key given"
            } else {
                "a fresh key that is not kept"
            };
            super::print(&format!(
                "written to {}: results.json, junit.xml, report.html, statement.dsse.json signed by {whose} ({})",
                out.display(),
                hex::encode(key.public().0)
            ))?;
        }
    }
    Ok(if results.passed() {
        Exit::Ok
    } else {
        Exit::NotCompliant
    })
}

/// The key that signs the statement.
fn signing_key(path: Option<&Path>) -> Result<Identity, Failure> {
    let Some(path) = path else {
        return Identity::from_seed(&super::system_seed()?).map_err(|error| Failure::new(Exit::Bug, error));
    };
    let shown = path.display();
    let wrong = |reason: String| Failure::say(Exit::Config, reason);
    let mode = std::fs::metadata(path)
        .map_err(|error| wrong(format!("cannot read {shown}: {error}")))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(wrong(format!(
            "{shown} is a signing key and others can read it. Run `chmod 600 {shown}`"
        )));
    }
    let text = std::fs::read_to_string(path)
        .map(Zeroizing::new)
        .map_err(|error| wrong(format!("cannot read {shown}: {error}")))?;
    Digest::from_hex(text.trim_end())
        .map(|seed| Zeroizing::new(seed.0))
        .and_then(|seed| Identity::from_seed(&seed).ok())
        .ok_or_else(|| {
            wrong(format!(
                "{shown} is not a signing key (64 hexadecimal characters)"
            ))
        })
}

fn write_out(
    out: &Path,
    scenarios: &[Scenario],
    results: &Results,
    seed: u64,
    took: f64,
    key: &Identity,
) -> Result<(), Failure> {
    let bug = |error| Failure::new(Exit::Bug, error);
    let program = std::env::current_exe()
        .and_then(std::fs::read)
        .map_err(|error| Failure::new(Exit::Config, error))?;
    let said = statement::statement(results, &statement::Subject::of("veilsum", &program));
    let envelope = statement::envelope(&said, key).map_err(bug)?;
    let files = [
        (
            "results.json",
            serde_json::to_string_pretty(results).map_err(bug)?,
        ),
        ("junit.xml", junit::xml(results)),
        ("report.html", page::html(scenarios, results, seed, took)),
        (
            "statement.json",
            serde_json::to_string_pretty(&said).map_err(bug)?,
        ),
        (
            "statement.dsse.json",
            serde_json::to_string_pretty(&envelope).map_err(bug)?,
        ),
    ];
    for (name, text) in files {
        crate::store::write_atomic(&out.join(name), text.as_bytes())
            .map_err(|error| Failure::new(Exit::Config, error))?;
    }
    Ok(())
}

fn scenarios(args: &RunArgs) -> Result<Vec<Scenario>, Failure> {
    match &args.file {
        Some(path) => {
            let shown = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::say(Exit::Config, format!("cannot read {shown}: {error}")))?;
            let scenario =
                Scenario::parse(&shown, &text).map_err(|error| Failure::new(Exit::Config, error))?;
            Ok(vec![scenario])
        }
        None => catalog::scenarios().map_err(|error| Failure::new(Exit::Bug, error)),
    }
}

fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let scenarios = catalog::scenarios().map_err(|error| Failure::new(Exit::Bug, error))?;
    match args.format {
        Format::Human => super::print(&table::list(&scenarios))?,
        Format::Json => print_json(&table::Listing::of(&scenarios))?,
    }
    Ok(Exit::Ok)
}

fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(Exit::Bug, error))?;
    super::print(&text)
}
