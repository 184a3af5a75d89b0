//! What `serve` and `join` say on standard output with `--format json`: one JSON object per line, versioned.
//!
//! ```text
//! {"schema":"veilsum-events/1","t_ms":8123,"event":"phase","round":2,"phase":"mask","have":7,"want":8,…}
//! ```
//!
//! Two vocabularies, [`ServerEvent`] and [`ClientEvent`]: the same word may carry other fields on the other side. What a
//! client says stays on the client's own machine; the server never sees losses, scores or pictures. `t_ms` counts from
//! the start of the process that speaks. Within one schema number, fields and events are only ever added: readers skip
//! fields and events they do not know, and refuse another schema.

use std::fmt;
use std::io::{self, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

mod client;
mod server;

use crate::exit::plain;

pub use client::{BevScores, ClientEvent, DepthScores};
pub use server::{LogHead, ServerEvent, WitnessWord};

/// Name and version of the line protocol.
pub const SCHEMA: &str = "veilsum-events/1";

/// One line: an event and when it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Stamped<E> {
    /// Milliseconds since the speaking process started.
    pub t_ms: u64,
    /// What happened.
    pub event: E,
}

/// Where a driver's events go. The clock is the caller's.
pub trait Sink<E>: Send {
    /// Takes one event.
    ///
    /// # Errors
    /// The reader is gone. A process that speaks to a program should end then: nobody is left to stop it.
    fn emit(&mut self, t_ms: u64, event: &E) -> io::Result<()>;
}

/// Events as JSON lines; every line is flushed.
#[derive(Debug)]
pub struct JsonLines<W>(pub W);

impl<E: Serialize, W: Write + Send> Sink<E> for JsonLines<W> {
    fn emit(&mut self, t_ms: u64, event: &E) -> io::Result<()> {
        let mut line = write_line(t_ms, event)?;
        line.push('\n');
        self.0.write_all(line.as_bytes())?;
        self.0.flush()
    }
}

/// Events as sentences for a person, one a line.
#[derive(Debug)]
pub struct Talk<W>(pub W);

impl<E: fmt::Display, W: Write + Send> Sink<E> for Talk<W> {
    fn emit(&mut self, _t_ms: u64, event: &E) -> io::Result<()> {
        let sentence = event.to_string();
        if sentence.is_empty() {
            return Ok(());
        }
        writeln!(self.0, "{}", plain(&sentence))?;
        self.0.flush()
    }
}

/// Keeps the events; for tests.
impl<E: Clone + Send> Sink<E> for Vec<Stamped<E>> {
    fn emit(&mut self, t_ms: u64, event: &E) -> io::Result<()> {
        self.push(Stamped {
            t_ms,
            event: event.clone(),
        });
        Ok(())
    }
}

/// One event as a line, without the line break.
///
/// # Errors
/// The event cannot be written as JSON; no event of this module does that.
pub fn write_line<E: Serialize>(t_ms: u64, event: &E) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Line {
        schema: SCHEMA,
        t_ms,
        event,
    })
}

/// Reads one line.
///
/// # Errors
/// [`EventError`]: it is no JSON, of another schema, or an event without its fields.
pub fn read_line<E: DeserializeOwned>(line: &str) -> Result<Stamped<E>, EventError> {
    let header: Header = serde_json::from_str(line).map_err(|cause| EventError::Malformed {
        line: excerpt(line),
        cause,
    })?;
    if header.schema != SCHEMA {
        return Err(EventError::Schema {
            found: excerpt(&header.schema),
        });
    }
    let event = serde_json::from_str(line).map_err(|cause| EventError::Malformed {
        line: excerpt(line),
        cause,
    })?;
    Ok(Stamped {
        t_ms: header.t_ms,
        event,
    })
}

/// A line that is not one of ours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// Another schema, or another version of this one.
    #[error(
        "events of schema `{found}` and not `{SCHEMA}`: the two programs are of different versions; run the same build"
    )]
    Schema {
        /// What the line says it is.
        found: String,
    },
    /// No event: not JSON, or a field is missing or of the wrong kind.
    #[error("`{line}` is no event of {SCHEMA} ({cause}); only events belong on standard output")]
    Malformed {
        /// The line's beginning.
        line: String,
        /// What the parser found.
        #[source]
        cause: serde_json::Error,
    },
}

#[derive(Serialize)]
struct Line<'a, E> {
    schema: &'static str,
    t_ms: u64,
    #[serde(flatten)]
    event: &'a E,
}

#[derive(Deserialize)]
struct Header {
    schema: String,
    t_ms: u64,
}

/// The line's first characters: a stray line may be of any length.
fn excerpt(line: &str) -> String {
    let mut short: String = line.chars().take(EXCERPT).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// `1, 2 and 4` for sentences; `none` for an empty list.
fn names(ids: &[u32]) -> String {
    match ids {
        [] => "none".to_owned(),
        [only] => only.to_string(),
        [head @ .., last] => {
            let head: Vec<String> = head.iter().map(u32::to_string).collect();
            format!("{} and {last}", head.join(", "))
        }
    }
}

const EXCERPT: usize = 120;

#[cfg(test)]
mod tests;
