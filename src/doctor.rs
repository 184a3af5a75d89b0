//! What would stop a server or client from taking part, found before it starts. Nothing is changed.
//!
//! One line a check: it is well, it is wrong and what to do about it, or it cannot be told and why.

mod client;
mod folder;
mod party;
mod rehearsal;
mod server;

use crate::config::{AnyConfig, Role};
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::time::SystemTime;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it must be.
    Ok,
    /// It would stop this party, or soon will.
    Wrong,
    /// What it needs is not there, or it was left out.
    CannotTell,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub check: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
}

/// All checks of one party.
#[derive(Clone, Debug, Serialize)]
pub struct Examination {
    schema: &'static str,
    file: String,
    role: &'static str,
    /// The checks, in the order in which a start would fail at them.
    pub checks: Vec<Check>,
}

impl Examination {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.count(Verdict::Wrong) == 0
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.checks
            .iter()
            .filter(|check| check.verdict == verdict)
            .count()
    }
}

/// Looks at everything that a configuration file names. `now` is the time by the system's clock; with `offline` the server is
/// not called.
pub async fn examine(path: &Path, now: SystemTime, offline: bool) -> Examination {
    let mut sheet = Sheet::default();
    let (file, role) = match AnyConfig::read(path) {
        Err(error) => {
            sheet.wrong(
                "configuration",
                error,
                "mend the file; configs/ has a sample of each role, and `veilsum init` writes one that fits",
            );
            (path.to_path_buf(), "unknown")
        }
        Ok(config) => {
            sheet.ok("configuration", config.path.display());
            match &config.role {
                Role::Server(located) => {
                    server::examine(&mut sheet, located, now).await;
                    (config.path, "server")
                }
                Role::Client(located) => {
                    client::examine(&mut sheet, located, now, offline).await;
                    (config.path, "client")
                }
            }
        }
    };
    Examination {
        schema: SCHEMA,
        file: file.display().to_string(),
        role,
        checks: sheet.0,
    }
}

/// The lines so far.
#[derive(Default)]
struct Sheet(Vec<Check>);

impl Sheet {
    fn ok(&mut self, check: &'static str, found: impl fmt::Display) {
        self.put(check, Verdict::Ok, &found, None);
    }

    fn wrong(&mut self, check: &'static str, found: impl fmt::Display, todo: impl Into<String>) {
        self.put(check, Verdict::Wrong, &found, Some(todo.into()));
    }

    fn cannot_tell(&mut self, check: &'static str, why: impl fmt::Display) {
        self.put(check, Verdict::CannotTell, &why, None);
    }

    fn put(&mut self, check: &'static str, verdict: Verdict, found: &dyn fmt::Display, todo: Option<String>) {
        // One line each, whatever a reader's report looks like.
        let found = found.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        self.0.push(Check {
            check,
            verdict,
            found,
            todo,
        });
    }
}

impl fmt::Display for Examination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            let verdict = match check.verdict {
                Verdict::Ok => "ok",
                Verdict::Wrong => "WRONG",
                Verdict::CannotTell => "cannot tell",
            };
            write!(f, "{verdict:<12} {:<16} {}", check.check, check.found)?;
            match &check.todo {
                Some(todo) => writeln!(f, ". To do: {todo}")?,
                None => writeln!(f)?,
            }
        }
        write!(
            f,
            "{} ok, {} wrong, {} cannot be told",
            self.count(Verdict::Ok),
            self.count(Verdict::Wrong),
            self.count(Verdict::CannotTell)
        )
    }
}

const SCHEMA: &str = "veilsum-doctor/1";
