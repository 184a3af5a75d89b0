//! A federation's folders for tests to break, and the program to run on them.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};
use veilsum::kit::{KitRequest, create};

pub(crate) struct Consortium {
    dir: tempfile::TempDir,
}

/// A consortium founded now, whose server's port is free.
pub(crate) fn consortium() -> Consortium {
    founded(SystemTime::now())
}

pub(crate) fn founded(now: SystemTime) -> Consortium {
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let request = KitRequest {
        frames: (2, 1),
        ..KitRequest::new(dir.path().join("kit"), ([127, 0, 0, 1], port).into())
    };
    let mut seed = [7; 32];
    seed[..4].copy_from_slice(&std::process::id().to_le_bytes());
    seed[4..6].copy_from_slice(&port.to_le_bytes());
    create(&request, now, &mut ChaCha20Rng::from_seed(seed)).unwrap();
    Consortium { dir }
}

impl Consortium {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("kit").join(name)
    }

    pub(crate) fn client(&self, name: &str) -> PathBuf {
        self.path("clients/client-03").join(name)
    }

    pub(crate) fn server(&self, name: &str) -> PathBuf {
        self.path("server").join(name)
    }
}

pub(crate) fn edit(path: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(old), "{old} is not in {}", path.display());
    fs::write(path, text.replacen(old, new, 1)).unwrap();
}

pub(crate) const DAY: Duration = Duration::from_hours(24);

pub(crate) fn veilsum(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_veilsum"))
        .args(args)
        .output()
        .unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
