//! Watching a server: `OpenMetrics` for Prometheus, health and readiness for whatever restarts it, a page for people.
//!
//! Everything shown follows from the events a server emits anyway ([`crate::events`]): [`Watched`] hands each event to a
//! [`Board`] before it goes to its sink. So neither a secret nor a figure of a client's training can get there: the
//! server has none. Clients are counted, never named; names and reasons are in the server's own output.
//!
//! [`Site`] answers reading requests only, on loopback unless the operator says otherwise.

mod board;
mod openmetrics;
mod page;
mod ready;
mod site;
mod state;

pub use board::{Board, DescriptorCost, Facts};
pub use openmetrics::CONTENT_TYPE as OPENMETRICS;
pub use ready::LogProbe;
pub use site::{Site, SiteError};
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
        self.look(|board| openmetrics::write(board))
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

/// A sink whose events are also watched.
pub struct Watched<'a> {
    watch: Arc<Watch>,
    inner: &'a mut dyn Sink<ServerEvent>,
}

impl<'a> Watched<'a> {
    /// Hands every event to `watch`, then to `inner`.
    pub fn new(watch: Arc<Watch>, inner: &'a mut dyn Sink<ServerEvent>) -> Self {
        Self { watch, inner }
    }
}

impl Sink<ServerEvent> for Watched<'_> {
    fn emit(&mut self, t_ms: u64, event: &ServerEvent) -> io::Result<()> {
        self.watch.observe(event);
        self.inner.emit(t_ms, event)
    }
}
