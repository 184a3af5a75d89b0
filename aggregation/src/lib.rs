//! "Then": the order of a round, its thresholds, who may still drop.
//!
//! [`client`] and [`server`] are state machines without I/O: input goes in through `handle`, output comes out of
//! `poll_output`, time is a number somebody passes in. The same machines run over QUIC, over the simulator and in tests
//! that are plain loops.
//!
//! ```text
//!            client                                server
//!  plan        <───────────── Plan (+ models) ───────
//!  advertise   ── Keys ──────────────────────────────>   trains first, then joins
//!              <───────────── Roster ────────────────
//!  share       ── Shares + sealed boxes ─────────────>
//!              <───────────── Inbox ─────────────────
//!  mask        ── Masked, chunks ────────────────────>
//!              <───────────── Proposal ──────────────   survivors, release, head
//!  agree       ── Agree ─────────────────────────────>
//!              <───────────── Agreement (≥ t) ───────
//!  unmask      ── Reveal ────────────────────────────>
//!              <───────────── Published ─────────────   sums, models
//! ```
//!
//! Between rounds, where the policy clusters clients by their data, [`gathering`] collects what they say about it and
//! [`cluster`] makes the plan.
//!
//! Reading order: [`message`] says what travels, [`update`] turns a delta into integers, [`mask`] hides them, then
//! [`client`] and [`server`], one file per phase.

pub mod abort;
pub mod client;
pub mod cluster;
pub mod gathering;
pub mod mask;
pub mod message;
pub mod privacy;
pub mod refusal;
pub mod server;
pub mod update;

pub use abort::{Abort, Fault};
pub use client::{Client, ClientOutput, ClientUpdate, Floors};
pub use gathering::Gathering;
pub use message::{Channel, MessageError, ToClient, ToServer};
pub use refusal::Refusal;
pub use server::{Deadlines, Outcome, RoundRequest, Server, ServerOutput, ServerSetup, Stored};
pub use update::{Quantised, UpdateError};

/// A time in milliseconds since whatever the driver calls zero. The machines never read a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(pub u64);

impl Now {
    /// This time plus `ms` milliseconds.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}
