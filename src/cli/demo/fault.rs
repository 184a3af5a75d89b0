//! Why a demo ends early. Each fault says who, what, and where to look; each has an exit code.

use std::path::PathBuf;
use std::process::ExitStatus;

use super::cast::Who;
use crate::exit::Exit;

/// Why the run did not get to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Fault {
    /// A process did not start.
    #[error("{who} cannot be started: {cause}")]
    Start {
        who: Who,
        #[source]
        cause: std::io::Error,
    },
    /// A process ended by itself.
    #[error("{who} ended on its own ({status}){}; all it said is in {}", last_words(.said), .log.display())]
    Died {
        who: Who,
        status: ExitStatus,
        said: Vec<String>,
        log: PathBuf,
    },
    /// A process closed its output and did not end.
    #[error("{who} closed its output and did not end; what it said is in {}", .log.display())]
    Stuck { who: Who, log: PathBuf },
    /// A process speaks another version of the line protocol.
    #[error("{who}: {cause}")]
    Schema {
        who: Who,
        #[source]
        cause: crate::events::EventError,
    },
    /// The server finished a round without its victim having been killed.
    #[error(
        "round {round} was done before client {client} stopped in the middle of its upload; it must stop there to be killed there"
    )]
    NotStalled { client: u32, round: u64 },
    /// Time is up.
    #[error("{minutes} minutes are over and the demo is still at: {doing}. Allow more with --time-limit-min, or see {}", .logs.display())]
    TimeLimit {
        minutes: u64,
        doing: String,
        logs: PathBuf,
    },
    /// The rounds are over and somebody does not end.
    #[error("all rounds are done, but {who} did not end within {seconds} s; what it said is in {}", .log.display())]
    Lingers { who: Who, seconds: u64, log: PathBuf },
    /// Ctrl-C.
    #[error("interrupted; all processes of the demo were ended")]
    Interrupted,
    /// The auditor's verdict is no verdict.
    #[error("the auditor's answer is no verdict: {0}")]
    NoVerdict(String),
    /// A file of the demo's own.
    #[error("cannot {doing} {}: {cause}", .path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
}

impl Fault {
    /// The exit code it leads to: a child's own, where it has a name.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Died { status, .. } => status
                .code()
                .and_then(|code| {
                    Exit::ALL
                        .into_iter()
                        .find(|exit| *exit as i32 == code && *exit != Exit::Ok && *exit != Exit::Usage)
                })
                .unwrap_or(Exit::Bug),
            Self::TimeLimit { .. } => Exit::TryAgain,
            Self::Interrupted => Exit::Interrupted,
            Self::File { .. } | Self::Start { .. } => Exit::Config,
            Self::NoVerdict(_) => Exit::Violated,
            Self::Stuck { .. } | Self::Schema { .. } | Self::NotStalled { .. } | Self::Lingers { .. } => {
                Exit::Bug
            }
        }
    }
}

fn last_words(lines: &[String]) -> String {
    if lines.is_empty() {
        return " and said nothing".to_owned();
    }
    format!(", saying:\n    {}\n", lines.join("\n    "))
}
