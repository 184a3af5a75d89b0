//! The real program as players of a test: one process a party, over QUIC on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const VEILSUM: &str = env!("CARGO_BIN_EXE_veilsum");

pub(crate) fn veilsum(args: &[&str]) -> Output {
    Command::new(VEILSUM).args(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A consortium with the linear learner on a free port; deadlines are short so that a failing test is, too.
pub(crate) fn consortium(dir: &Path, rounds: u32) -> PathBuf {
    consortium_with(dir, rounds, &[])
}

/// The same with more flags.
pub(crate) fn consortium_with(dir: &Path, rounds: u32, more: &[&str]) -> PathBuf {
    let port = std::net::UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let kit = dir.join("kit");
    let (rounds, addr) = (rounds.to_string(), format!("127.0.0.1:{port}"));
    let mut words = vec![
        "init",
        "consortium",
        "--dir",
        kit.to_str().unwrap(),
        "--learner",
        "linear",
        "--rounds",
        &rounds,
        "--addr",
        &addr,
    ];
    words.extend(more);
    let made = veilsum(&words);
    assert!(made.status.success(), "{}", text(&made.stderr));
    edit(
        &kit.join("server/server.toml"),
        &[("start_after_s = 120", "start_after_s = 4")],
    );
    for client in 0..8 {
        edit(
            &client_toml(&kit, client),
            &[("give_up_after_s = 120", "give_up_after_s = 6")],
        );
    }
    kit
}

pub(crate) fn client_toml(kit: &Path, client: u32) -> PathBuf {
    kit.join(format!("clients/client-{client:02}/client.toml"))
}

pub(crate) fn edit(path: &Path, changes: &[(&str, &str)]) {
    let mut text = fs::read_to_string(path).unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "{old} is not in {}", path.display());
        text = text.replace(old, new);
    }
    fs::write(path, text).unwrap();
}

/// A process whose output goes to files, killed when the test ends.
pub(crate) struct Player {
    pub(crate) child: Child,
    log: PathBuf,
}

impl Player {
    pub(crate) fn start(args: &[&str], log: PathBuf) -> Self {
        let file = fs::File::create(&log).unwrap();
        let child = Command::new(VEILSUM)
            .args(args)
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, log }
    }

    pub(crate) fn server(kit: &Path) -> Self {
        Self::server_with(kit, &[])
    }

    pub(crate) fn server_with(kit: &Path, more: &[&str]) -> Self {
        let config = kit.join("server/server.toml");
        let mut args = vec!["serve", "--config", config.to_str().unwrap(), "--format", "json"];
        args.extend(more);
        Self::start(&args, kit.join("server.log"))
    }

    pub(crate) fn client(kit: &Path, client: u32, more: &[&str]) -> Self {
        let config = client_toml(kit, client);
        let mut args = vec!["join", "--config", config.to_str().unwrap(), "--format", "json"];
        args.extend(more);
        Self::start(&args, kit.join(format!("client-{client}.log")))
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn wait_for(&mut self, what: &str) {
        let start = Instant::now();
        while !self.said().contains(what) {
            assert!(
                start.elapsed() < LIMIT,
                "no {what} in {}: {}",
                self.log.display(),
                self.said()
            );
            assert!(
                self.child.try_wait().unwrap().is_none() || self.said().contains(what),
                "ended early: {}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The exit code; a process that does not end is the failure this is about.
    pub(crate) fn exit(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(start.elapsed() < LIMIT, "hangs: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
