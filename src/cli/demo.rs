//! `veilsum demo`: a consortium on this machine, in separate processes, with one client killed in the middle of an upload,
//! an audit at the end, and a report.

mod board;
mod cast;
mod checks;
mod collect;
mod fault;
mod folder;
mod player;
mod stage;

use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chacha20::ChaCha20Rng;
use clap::Args;
use rand_core::SeedableRng as _;

use super::Format;
use super::init::default_learner;
use crate::config::LearnerKind;
use crate::exit::{Exit, Failure};
use crate::kit::{self, KitError, KitRequest};
use crate::progress::Progress;
use crate::report::{BUILT_IN_DATA, Files, Outcome, Report, SCHEMA};
use cast::Cast;
use checks::Wanted;
use fault::Fault;
use folder::Folder;
use player::Message;
use stage::{Script, Stage};

/// Arguments of `veilsum demo`.
#[derive(Clone, Debug, Args)]
pub(super) struct DemoArgs {
    /// Folder of the demo; the last demo's folder is replaced.
    #[arg(long, default_value = "target/demo")]
    dir: PathBuf,
    /// Training rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Clients, each a process of its own.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(8..=64))]
    clients: u32,
    /// Organisations the clients belong to.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    orgs: u32,
    /// Recorded frames: a folder with `clients/<name>/{train,test}/{rgb,depth}/*.png`; without it, frames are generated.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Kill one client in the middle of its upload in this round; 0 kills nobody.
    #[arg(long, default_value_t = 2)]
    kill_round: u64,
    /// Seed of frames, start and training. Keys never come from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the folders of server and clients (keys, models, masked vectors) when all went well.
    #[arg(long)]
    keep: bool,
    /// The network: `depth` needs libtorch, `linear` does not.
    #[arg(long, value_enum, default_value_t = default_learner())]
    learner: LearnerKind,
    /// Where the network runs: `auto`, `cpu` or `cuda:N`.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Optimiser steps of a client in a round; without it, what suits the network.
    #[arg(long)]
    steps: Option<u32>,
    /// Give up after this many minutes.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1440))]
    time_limit_min: u64,
    /// How the outcome is printed on standard output.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

pub(super) fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    args.check()?;
    let program = std::env::current_exe().map_err(|cause| {
        Failure::say(
            Exit::Config,
            format!("cannot find this program's own file: {cause}"),
        )
    })?;
    let begun = Instant::now();
    let started_unix_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut progress = Progress::stderr();
    let (outbox, inbox) = channel();
    watch_for_interrupts(outbox.clone())?;

    let folder = Folder::fresh(&args.dir).map_err(|fault| Failure::new(fault.exit(), fault))?;
    let request = args.request(&folder)?;
    progress.note(&format!(
        "a consortium of {} clients and {} organisations in {}",
        request.clients,
        request.orgs,
        args.dir.display()
    ));
    let mut rng = ChaCha20Rng::from_seed(super::system_seed()?);
    let made = kit::create(&request, SystemTime::now(), &mut rng).map_err(|error| {
        let exit = if matches!(error, KitError::Request(_)) {
            Exit::Usage
        } else {
            Exit::Config
        };
        Failure::new(exit, error)
    })?;
    let cast = Cast::new(&request, &made).map_err(|error| Failure::new(Exit::Bug, error))?;
    let doom = cast
        .doomed()
        .filter(|_| args.kill_round > 0)
        .map(|client| (client, args.kill_round));
    let script = Script {
        program,
        logs: folder.logs.clone(),
        doom,
        limit: Duration::from_secs(60 * args.time_limit_min),
        patience: PATIENCE,
        threads: (thread::available_parallelism().map_or(1, usize::from) / cast.clients.len().max(1)).max(1),
    };
    let mut stage = Stage::new(&script, &cast, args.rounds, begun, (outbox, inbox), &mut progress);
    let (audit, fault) = perform(&mut stage);
    let took_ms = stage.now_ms();
    let board = stage.close();

    let mut report = Report {
        schema: SCHEMA.to_owned(),
        veilsum: env!("CARGO_PKG_VERSION").to_owned(),
        federation: cast.federation.clone(),
        started_unix_s,
        took_ms,
        learner: learner_name(args.learner).to_owned(),
        data: args
            .data
            .as_ref()
            .map_or_else(|| BUILT_IN_DATA.to_owned(), |data| data.display().to_string()),
        seed: args.seed,
        outcome: Outcome::default(),
        policy: cast.policy,
        organisations: cast.organisations.clone(),
        clients: collect::clients(&cast, &board),
        clusters: cast.clusters.clone(),
        curves: collect::curves(&cast, &board),
        examples: collect::examples(&cast, &board, |problem| progress.note(&problem)),
        rounds: board.rounds,
        aborted: board.aborted,
        kill: board.kill,
        audit,
        files: Files {
            bundle: cast.bundle.display().to_string(),
            trust: cast.auditor_config.display().to_string(),
            logs: folder.logs.display().to_string(),
        },
    };
    let wanted = Wanted {
        rounds: args.rounds,
        doom,
        learns: args.learner == LearnerKind::Depth,
    };
    report.outcome = checks::judge(&report, &cast, wanted, fault.as_ref());
    progress.clear();
    report
        .write(&folder.json, &folder.page)
        .map_err(|error| Failure::new(Exit::Config, error))?;
    if report.outcome.passed && !args.keep {
        folder
            .forget_secrets()
            .map_err(|fault| Failure::new(fault.exit(), fault))?;
    }
    conclude(&report, &folder, fault, args.format)
}

/// Rounds and audit. What is known stays on the stage, whatever happens.
fn perform(stage: &mut Stage<'_>) -> (Option<crate::report::Audit>, Option<Fault>) {
    if let Err(fault) = stage.play() {
        return (None, Some(fault));
    }
    let begun = stage.now_ms();
    match stage.audit() {
        Ok((text, status)) => match collect::audit(&text, stage.now_ms().saturating_sub(begun)) {
            Ok(audit) => (Some(audit), None),
            Err(error) => (None, Some(Fault::NoVerdict(format!("{error} ({status})")))),
        },
        Err(fault) => (None, Some(fault)),
    }
}

/// Says how it went, and where to read more.
fn conclude(report: &Report, folder: &Folder, fault: Option<Fault>, format: Format) -> Result<Exit, Failure> {
    match format {
        Format::Human => {
            for check in &report.outcome.checks {
                println!(
                    "{} {}: {}",
                    if check.passed { "ok  " } else { "FAIL" },
                    check.name,
                    check.says
                );
            }
            println!("report: {} and {}", folder.page.display(), folder.json.display());
        }
        Format::Json => {
            let outcome = serde_json::json!({
                "schema": report.schema,
                "outcome": report.outcome,
                "report": folder.json,
                "page": folder.page,
            });
            println!("{outcome}");
        }
    }
    if report.outcome.passed {
        return Ok(Exit::Ok);
    }
    let exit = Exit::ALL
        .into_iter()
        .find(|exit| *exit as u8 == report.outcome.exit_code)
        .unwrap_or(Exit::Bug);
    if let Some(fault) = fault {
        return Err(Failure::new(exit, fault));
    }
    let failed: Vec<&str> = report
        .outcome
        .checks
        .iter()
        .filter(|check| !check.passed)
        .map(|check| check.name.as_str())
        .collect();
    Err(Failure::say(
        exit,
        format!("the demo did not pass: {}", failed.join(", ")),
    ))
}

impl DemoArgs {
    fn check(&self) -> Result<(), Failure> {
        if self.learner == LearnerKind::Bev {
            return Err(Failure::say(
                Exit::Usage,
                "the demonstration's report shows depths; `veilsum init consortium --learner bev` makes a federation for bird's-eye views",
            ));
        }
        if self.kill_round >= self.rounds {
            return Err(Failure::say(
                Exit::Usage,
                format!(
                    "--kill-round {} of {} rounds: the killed client comes back in the round after, so kill earlier, or add \
                     --rounds, or kill nobody with --kill-round 0",
                    self.kill_round, self.rounds
                ),
            ));
        }
        Ok(())
    }

    fn request(&self, folder: &Folder) -> Result<KitRequest, Failure> {
        // A port that is free now. Somebody may take it before the server does; the server then says so.
        let addr = UdpSocket::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .map_err(|cause| Failure::say(Exit::Config, format!("no UDP port on 127.0.0.1: {cause}")))?;
        let base = KitRequest::for_learner(folder.consortium.clone(), addr, self.learner);
        Ok(KitRequest {
            orgs: self.orgs,
            clients: self.clients,
            rounds: self.rounds,
            device: self.device.clone(),
            data: self.data.clone(),
            steps: self.steps.unwrap_or(base.steps),
            seed: self.seed,
            ..base
        })
    }
}

/// Ctrl-C and a friendly `kill` end the demo in order: processes first.
fn watch_for_interrupts(outbox: Sender<Message>) -> Result<(), Failure> {
    let failed = |cause: std::io::Error| Failure::say(Exit::Bug, format!("cannot watch for Ctrl-C: {cause}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let (ready, told) = channel();
    thread::Builder::new()
        .name("interrupts".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                use tokio::signal::unix::{SignalKind, signal};
                let both = signal(SignalKind::interrupt())
                    .and_then(|key| Ok((key, signal(SignalKind::terminate())?)));
                let (mut key, mut request) = match both {
                    Ok(both) => both,
                    Err(cause) => {
                        let _ = ready.send(Err(cause));
                        return;
                    }
                };
                let _ = ready.send(Ok(()));
                tokio::select! {
                    _ = key.recv() => {}
                    _ = request.recv() => {}
                }
                let _ = outbox.send(Message::Interrupted);
            });
        })
        .map_err(failed)?;
    told.recv().unwrap_or(Ok(())).map_err(failed)
}

fn learner_name(learner: LearnerKind) -> &'static str {
    match learner {
        LearnerKind::Depth => "depth",
        LearnerKind::Linear => "linear",
        LearnerKind::Bev => "bev",
    }
}

/// How long a process may take to end after the rounds are done.
const PATIENCE: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests;
