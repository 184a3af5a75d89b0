//! The network as a driver sees it: one suite over the simulator and over QUIC on loopback, then what only one of them has.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its helpers are part of it"
)]

mod conformance;
mod hostile;
mod quic_bed;
mod refusals;
mod relay;
mod rough;
mod sim_bed;
mod simulator;
