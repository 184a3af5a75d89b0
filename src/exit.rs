//! The exit codes of every command. This is the only list; `docs/operate.md` prints it and a test compares.

use std::fmt;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// A bug of ours; please report it.
    Bug = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A file or setting is wrong.
    Config = 3,
    /// Somebody was refused: identity, parameters, plan.
    Refused = 4,
    /// A round ended without a sum.
    Aborted = 5,
    /// The audit found a violation, or the bundle cannot be read.
    Violated = 6,
    /// A scenario did not end as it must.
    NotCompliant = 7,
    /// The other side is not there; try again.
    TryAgain = 75,
    /// Interrupted from the keyboard.
    Interrupted = 130,
}

impl Exit {
    /// All of them, for documentation.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Bug,
        Self::Usage,
        Self::Config,
        Self::Refused,
        Self::Aborted,
        Self::Violated,
        Self::NotCompliant,
        Self::TryAgain,
        Self::Interrupted,
    ];
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that knows the exit code it leads to.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What went wrong.
    pub error: anyhow::Error,
}

impl Failure {
    /// An error with its exit code.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit,
            error: error.into(),
        }
    }

    /// A message with its exit code.
    pub fn say(exit: Exit, message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self {
            exit,
            error: anyhow::Error::msg(message),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}
