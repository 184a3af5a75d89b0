//! What operators and newcomers meet: help, completions, manual pages, configuration, `doctor`, messages, examples.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::duplicate_mod,
    reason = "test code: a panic is the failure report"
)]

#[path = "people/config.rs"]
mod config;
#[path = "people/doctor.rs"]
mod doctor;
#[path = "people/examples.rs"]
mod examples;
#[path = "people/help.rs"]
mod help;
#[path = "people/kit.rs"]
mod kit;
#[path = "people/wrong.rs"]
mod wrong;
