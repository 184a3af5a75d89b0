//! Watching a party: `OpenMetrics` for Prometheus, health and readiness for whatever restarts it, a page for people.
//!
//! Everything shown of a server follows from the events it emits anyway ([`crate::events`]): [`Watched`] hands each event to a
//! [`Board`] before it goes to its sink. So neither a secret nor a figure of a client's training can get there: the
//! server has none. Clients are counted, never named; names and reasons are in the server's own output. A client's own
//! address ([`ClientWatch`]) tells where it stands, and leaves out what its events say of its training.
//!
//! [`Site`] answers reading requests only, on loopback unless the operator says otherwise.

mod board;
mod client;
mod family;
mod metrics;
mod page;
mod phase;
mod ready;
mod site;
mod state;

pub use board::{Board, DescriptorCost, Facts};
pub use client::ClientWatch;
pub use family::CONTENT_TYPE as OPENMETRICS;
pub use page::Page;
pub use ready::LogProbe;
pub use site::{Site, SiteError, Subject};
pub use state::{SCHEMA, State};

use crate::drive::Clock;
use crate::events::{ServerEvent, Sink};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of a running server, shared between its driver and those who ask.
#[derive(Debug)]
pub struct Watch {
    clock: Clock,
    board: Mutex<Board>,
}

impl Watch {
    /// A server that has not said anything yet.
    #[must_use]
    pub fn new(facts: Facts) -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::start(),
            board: Mutex::new(Board::new(facts)),
        })
    }

    /// Takes note of an event.
    pub fn observe(&self, event: &ServerEvent) {
        let now = self.clock.now().0;
        self.look(|board| board.observe(now, event));
    }

    /// The metrics as `OpenMetrics` text, up to and with `# EOF`.
    #[must_use]
    pub fn openmetrics(&self) -> String {
        self.look(|board| metrics::openmetrics(board))
    }

    /// What `/state.json` says, with what keeps the server from being ready besides what the board knows.
    #[must_use]
    pub fn state(&self, log: Result<(), String>) -> State {
        let now = self.clock.now().0;
        self.look(|board| State::of(board, now, log))
    }

    /// Why the server is not ready for a round; empty when it is.
    #[must_use]
    pub fn not_ready(&self, log: Result<(), String>) -> Vec<String> {
        self.look(|board| ready::not_ready(board, log))
    }

    /// Why the server should be started again; nothing when it is well.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        let now = self.clock.now().0;
        self.look(|board| ready::stuck(board, now))
    }

    fn look<T>(&self, look: impl FnOnce(&mut Board) -> T) -> T {
        // A board is whole after every step: one that panicked in between is still the best there is.
        look(&mut self.board.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subject for Watch {
    fn openmetrics(&self) -> String {
        Self::openmetrics(self)
    }
    fn state(&self, disk: Result<(), String>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&Self::state(self, disk))
    }
    fn not_ready(&self, disk: Result<(), String>) -> Vec<String> {
        Self::not_ready(self, disk)
    }
    fn stuck(&self) -> Option<String> {
        Self::stuck(self)
    }
    fn page(&self) -> Option<&'static Page> {
        Some(&page::PAGE)
    }
}

/// A sink whose events are also watched.
pub struct Watched<'a, E> {
    observe: Box<dyn Fn(&E) + Send + 'a>,
    inner: &'a mut dyn Sink<E>,
}

impl<'a, E> Watched<'a, E> {
    /// Hands every event to `observe`, then to `inner`.
    pub fn new(observe: impl Fn(&E) + Send + 'a, inner: &'a mut dyn Sink<E>) -> Self {
        Self {
            observe: Box::new(observe),
            inner,
        }
    }
}

impl<E> Sink<E> for Watched<'_, E> {
    fn emit(&mut self, t_ms: u64, event: &E) -> io::Result<()> {
        (self.observe)(event);
        self.inner.emit(t_ms, event)
    }
}
