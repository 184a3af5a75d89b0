//! The transparency-log formats against published vectors, second implementations, and mutations.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "test helpers index what they built"
)]

#[path = "tlog/common.rs"]
mod common;
#[path = "tlog/cosigned.rs"]
mod cosigned;
#[path = "tlog/folders.rs"]
mod folders;
#[path = "tlog/forks.rs"]
mod forks;
#[path = "tlog/policies.rs"]
mod policies;
#[path = "tlog/proofs.rs"]
mod proofs;
#[path = "tlog/second.rs"]
mod second;
#[path = "tlog/tiled.rs"]
mod tiled;
#[path = "tlog/witnesses.rs"]
mod witnesses;
