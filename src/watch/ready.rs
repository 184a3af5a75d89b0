//! Whether a server is ready for a round, and whether it is stuck.

use super::board::{Board, Stage};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Why the server is not ready for a round; empty when it is. `log` says whether the log could be written.
pub(super) fn not_ready(board: &Board, log: Result<(), String>) -> Vec<String> {
    let mut why = Vec::new();
    match board.stage {
        Stage::Starting => why.push("the server is starting".to_owned()),
        Stage::Finished => why.push("all rounds are done".to_owned()),
        Stage::Failed => why.push("the server gave up; its own output says why".to_owned()),
        Stage::Gathering | Stage::Round => {}
    }
    let (have, need) = (board.connected.len(), board.facts.threshold as usize);
    if have < need {
        why.push(format!(
            "{have} clients are connected, and a round needs {need}: start more clients"
        ));
    }
    if let Some((entries, false)) = board.witnessed {
        why.push(format!(
            "too few witnesses cosigned the log of {entries} entries: see that they run and can be reached"
        ));
    }
    if let Err(error) = log {
        why.push(format!("the log cannot be written: {error}"));
    }
    why
}

/// Why the server should be looked at or started again: a phase's deadline is long over, and nothing was said of it.
pub(super) fn stuck(board: &Board, now_ms: u64) -> Option<String> {
    let phase = board.phases.get(board.phase?)?;
    let over = now_ms.checked_sub(phase.ends_ms)?;
    (over > GRACE_MS).then(|| {
        format!(
            "round {} is {} s past the deadline of its phase, and the server says nothing: look at its disk and load",
            board.round,
            over / 1000
        )
    })
}

/// Tries whether the state folder can be written, at most every few seconds.
#[derive(Clone, Debug)]
pub struct LogProbe(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// A file in it that is appended to.
    log: Option<&'static str>,
    last: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl LogProbe {
    /// Of a state folder, and the file in it that is appended to, where there is one.
    #[must_use]
    pub fn new(folder: PathBuf, log: Option<&'static str>) -> Self {
        Self(Arc::new(Inner {
            folder,
            log,
            last: Mutex::new(None),
        }))
    }

    /// Whether the log could be written.
    ///
    /// # Errors
    /// Why not, in words.
    pub async fn try_it(&self) -> Result<(), String> {
        let now = Instant::now();
        if let Some((at, result)) = self.last()
            && now.duration_since(at) < EVERY
        {
            return result;
        }
        let inner = Arc::clone(&self.0);
        let trial = tokio::task::spawn_blocking(move || inner.write());
        // A disk that dies answers late or never.
        let result = match tokio::time::timeout(PATIENCE, trial).await {
            Ok(Ok(result)) => result.map_err(|error| error.to_string()),
            Ok(Err(_)) => Err("the trial broke off".to_owned()),
            Err(_) => Err(format!("the disk did not answer within {} s", PATIENCE.as_secs())),
        };
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, result.clone()));
        result
    }

    fn last(&self) -> Option<(Instant, Result<(), String>)> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Inner {
    /// Opens the log for appending, and writes a block beside it: a full disk lets files be opened.
    fn write(&self) -> std::io::Result<()> {
        if let Some(log) = self.log {
            OpenOptions::new().append(true).open(self.folder.join(log))?;
        }
        let path = self.folder.join("watch.probe");
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&[0; BLOCK]).and_then(|()| file.sync_all()));
        let removed = std::fs::remove_file(&path);
        written.and(removed)
    }
}

const GRACE_MS: u64 = 60_000;
const EVERY: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(5);
const BLOCK: usize = 4096;
