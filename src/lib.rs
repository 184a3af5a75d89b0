//! veilsum: competing car and robot makers train depth networks together without showing each other, or the server, a
//! single update.
//!
//! This package awaits, touches files and talks to people; everything else is in the members. Reading order: [`kit`] sets a
//! federation up, [`drive`] pumps the machines of `veilsum-aggregation` over `veilsum-transport`, [`store`] keeps what a
//! party must remember, [`events`] is what programs read, [`watch`] what operators look at and [`cli`] what people type.

pub mod bundle;
pub mod cli;
pub mod compliance;
pub mod config;
pub mod describe;
pub mod doctor;
pub mod drive;
pub mod events;
pub mod exit;
pub mod experiment;
pub mod genesis;
mod http;
pub mod kit;
pub mod network;
pub mod picture;
pub mod private;
pub mod progress;
pub mod report;
pub mod store;
pub mod watch;
pub mod witness;
