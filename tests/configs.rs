//! The sample configurations are ones the program reads.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "test code: a panic is the failure report"
)]

use std::path::Path;
use veilsum::config::{AuditorConfig, ClientConfig, Located, ServerConfig};

#[test]
fn samples_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    Located::<ServerConfig>::read(&folder.join("server.toml")).unwrap();
    Located::<ClientConfig>::read(&folder.join("client.toml")).unwrap();
    Located::<AuditorConfig>::read(&folder.join("auditor.toml")).unwrap();
}
