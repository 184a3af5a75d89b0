//! What can be proved later.
//!
//! A log keeps signed records in order under a Merkle tree ([`merkle`]), a [`checkpoint`] signs its head as a C2SP
//! [`note`], [`disclosure`] decides which overlapping sums may be opened.

pub mod checkpoint;
pub mod disclosure;
pub mod merkle;
pub mod note;
