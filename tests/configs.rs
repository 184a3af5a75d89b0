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

#[test]
fn what_the_samples_leave_out_is_read_too() {
    let whole = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        let (before, watch) = text.split_once("\n# [watch]").unwrap();
        format!("{before}\n[watch]{}", watch.replace("\n# ", "\n"))
    };
    let server: ServerConfig = toml::from_str(&whole("server.toml")).unwrap();
    let client: ClientConfig = toml::from_str(&whole("client.toml")).unwrap();
    for watch in [server.watch.unwrap(), client.watch.unwrap()] {
        watch.check().unwrap();
        assert!(watch.listen.ip().is_loopback() && !watch.public && watch.hosts.is_empty());
    }
}

#[test]
fn every_exit_code_is_in_the_guide() {
    let guide =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operate.md")).unwrap();
    let documented: Vec<u8> = guide
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(' ')?.0.parse().ok())
        .collect();
    let real: Vec<u8> = veilsum::exit::Exit::ALL.iter().map(|exit| *exit as u8).collect();
    assert_eq!(documented, real);
}
