//! What people type. One definition feeds help, completions and man pages.

mod audit;
mod completions;
mod compliance;
mod config;
mod demo;
mod doctor;
mod evidence;
mod example;
mod experiment;
mod export;
mod init;
mod inspect;
mod join;
mod man;
mod plan;
mod report;
mod serve;
mod witness;

use crate::config::WatchConfig;
use crate::exit::{Exit, Failure};
use crate::watch::{LogProbe, Site, Subject};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::process::ExitCode;
use std::sync::Arc;

/// Train depth networks together without showing anybody a single update.
#[derive(Debug, Parser)]
#[command(name = "veilsum", version, about, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a whole consortium on this machine, kill one client in mid-upload, audit, and write a report.
    Demo(demo::DemoArgs),
    /// Set a federation up: keys, certificates, signed policy, a folder per party.
    Init(init::InitArgs),
    /// Look for what would stop a server or client, before it starts. Exit 3 when something is wrong.
    Doctor(doctor::DoctorArgs),
    /// Run the server of a federation.
    Serve(serve::ServeArgs),
    /// Take part as a client.
    Join(join::JoinArgs),
    /// Keep a server to one history: cosign its log's heads for others to check.
    Witness(witness::WitnessArgs),
    /// Check a bundle, trusting only the authority key.
    Audit(audit::AuditArgs),
    /// Write the auditor's bundle of what a stopped server has published.
    Export(export::ExportArgs),
    /// Say what clients' evidence files prove, trusting only the authority key.
    Evidence(evidence::EvidenceArgs),
    /// Compare federated strategies on the same data, several seeds, with paired tests.
    Experiment(experiment::ExperimentArgs),
    /// Step through a bundle's log: who is in, who left when, what was opened, what was withheld and why.
    Inspect(inspect::InspectArgs),
    /// Run what can go wrong against the real machines and compare with what must happen.
    Compliance(compliance::ComplianceArgs),
    /// Make, check and explain who is in which cluster, so that no sum gives anybody away.
    Plan(plan::PlanArgs),
    /// Make the page of a demo's report again from its JSON.
    Report(report::ReportArgs),
    /// Say what a configuration file comes to.
    Config(config::ConfigArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Write the manual pages into a folder.
    Man(man::ManArgs),
}

/// The whole command line: all commands with their flags, help and examples.
#[must_use]
pub fn command() -> clap::Command {
    example::attach(Cli::command())
}

/// How results and events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Sentences for a person.
    Human,
    /// JSON for a program.
    Json,
}

/// Parses the command line, runs, and turns the outcome into an exit code.
#[must_use]
pub fn main() -> ExitCode {
    let mut definition = command();
    let parsed = definition
        .try_get_matches_from_mut(std::env::args_os())
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition)));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Ok.into()
            };
        }
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("VEILSUM_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .with_target(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
    let result = match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Join(args) => join::run(&args),
        Command::Witness(args) => witness::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Evidence(args) => evidence::run(&args),
        Command::Experiment(args) => experiment::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Compliance(args) => compliance::run_command(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            use std::io::Write;
            // Standard error may be closed or full: the exit code says it too.
            let _ = writeln!(std::io::stderr(), "veilsum: {failure}");
            failure.exit.into()
        }
    }
}

/// Prints a result. A reader that has gone away (`| head`) is no fault of anybody's.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::new(Exit::Config, error)),
    }
}

/// A tokio runtime for one role.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Bug, error))
}

/// Ends when the operator or the system asks the process to: SIGINT or SIGTERM.
async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

/// Lets a party be looked at, and returns where.
async fn watched(at: &WatchConfig, subject: Arc<dyn Subject>, disk: LogProbe) -> Result<String, Failure> {
    let site = Site::bind(at, subject, disk)
        .await
        .map_err(|error| Failure::new(Exit::Config, error))?;
    let addr = site.addr().to_string();
    tokio::spawn(site.serve(std::future::pending()));
    Ok(addr)
}

/// The system's randomness as the seed of a named generator.
fn system_seed() -> Result<[u8; 32], Failure> {
    use rand_core::TryRng;
    let mut seed = [0; 32];
    rand::rngs::SysRng
        .try_fill_bytes(&mut seed)
        .map_err(|error| Failure::new(Exit::Bug, error))?;
    Ok(seed)
}
