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

/// Text for a terminal: whatever would move the cursor, colour or hide what follows is written out. File names and peers'
/// words may hold such characters.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        // Besides control characters those that change the direction of writing (Unicode, UAX 9).
        let hides =
            matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if hides || (letter.is_control() && letter != '\n') {
            plain.extend(letter.escape_default());
        } else {
            plain.push(letter);
        }
    }
    plain
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
    /// The error and its causes, each said once: many errors have their cause's words in their own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = String::new();
        for error in self.error.chain() {
            let words = error.to_string();
            if said.is_empty() {
                said = words;
            } else if !said.contains(&words) {
                said = format!("{said}: {words}");
            }
        }
        f.write_str(&plain(&said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_printed_moves_the_cursor() {
        let failure = Failure::say(Exit::Config, "frames/\u{1b}[2Jx\u{7}\r\u{202e}gnp.\nnext: Grüße");
        let text = failure.to_string();
        assert_eq!(text, "frames/\\u{1b}[2Jx\\u{7}\\r\\u{202e}gnp.\nnext: Grüße");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the file is bad: {0}")]
    struct Repeats(#[source] std::num::ParseIntError);

    #[derive(Debug, thiserror::Error)]
    #[error("the file is bad")]
    struct Silent(#[source] std::num::ParseIntError);

    #[test]
    fn a_cause_is_said_once() {
        let cause = || "x".parse::<u8>().unwrap_err();
        let said = "the file is bad: invalid digit found in string";
        assert_eq!(Failure::new(Exit::Config, Repeats(cause())).to_string(), said);
        assert_eq!(Failure::new(Exit::Config, Silent(cause())).to_string(), said);
    }
}
