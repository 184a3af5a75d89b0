//! One command running: its output into a log and a digest, and a sign of life for who waits.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};

use super::{flush, seconds};
use crate::tally::Digest;

/// Runs a command with its output going to `log` and to the digest, while a line shows where it is.
pub(crate) fn listen(label: String, mut command: Command, log: &Path) -> Result<(ExitStatus, Digest)> {
    let mut file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("cannot make a pipe")?)
        .stderr(writer)
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    // The command holds the writing ends; as long as they are open here the reader sees no end.
    drop(command);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    let mut view = View::new(label);
    let mut digest = Digest::default();
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                writeln!(file, "{line}").with_context(|| format!("cannot write {}", log.display()))?;
                digest.line(&line);
                view.line(&digest, &line);
            }
            Err(RecvTimeoutError::Timeout) => view.tick(&digest),
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait().context("cannot wait for the command")?;
                return Ok((status, digest));
            }
        }
        // A test may leave a process behind that keeps the pipe open for ever.
        match ended {
            None => {
                if let Some(status) = child.try_wait().context("cannot wait for the command")? {
                    ended = Some((status, Instant::now()));
                }
            }
            Some((status, since)) if since.elapsed() > GRACE => return Ok((status, digest)),
            Some(_) => {}
        }
    }
}

/// What is shown while a command runs: a spinner on a terminal, now and then a line elsewhere.
struct View {
    label: String,
    bar: Option<ProgressBar>,
    start: Instant,
    last: Instant,
    recent: String,
}

impl View {
    fn new(label: String) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Self {
            label,
            bar,
            start: now,
            last: now,
            recent: String::new(),
        }
    }

    fn line(&mut self, digest: &Digest, line: &str) {
        if !line.trim().is_empty() {
            line.trim().clone_into(&mut self.recent);
        }
        self.tick(digest);
    }

    fn tick(&mut self, digest: &Digest) {
        let recent = &self.recent;
        let passed = digest.passed_so_far();
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}, {passed} passed: {recent}", self.label));
            bar.tick();
        } else if self.last.elapsed() > HEARTBEAT {
            self.last = Instant::now();
            println!(
                "{} at {}, {passed} passed: {recent}",
                self.label,
                seconds(self.start.elapsed())
            );
            flush();
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

const TICK: Duration = Duration::from_millis(200);
const HEARTBEAT: Duration = Duration::from_mins(1);

/// How long output is still awaited after the command itself has ended.
const GRACE: Duration = Duration::from_secs(5);
