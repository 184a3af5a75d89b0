//! One process of the demo: started, listened to, and ended without fail.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::cast::Who;

/// What the conductor hears.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A line on standard output.
    Said {
        who: Who,
        /// Counts the starts of this party, so that a dead process's last words are not its successor's.
        start: u32,
        line: String,
    },
    /// Standard output is closed: the process has ended, or is about to.
    Silent { who: Who, start: u32 },
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Player {
    child: Child,
    pub(super) start: u32,
    /// What it says on standard error.
    pub(super) log: PathBuf,
}

impl Player {
    /// Starts a process. Its standard output goes to `inbox` and to `<stem>.events.jsonl`, its standard error to
    /// `<stem>.log`, both appended to in `logs`.
    pub(super) fn start(
        mut command: Command,
        who: Who,
        start: u32,
        logs: &Path,
        inbox: Sender<Message>,
    ) -> io::Result<Self> {
        let log = logs.join(format!("{}.log", who.stem()));
        let errors = append(&log)?;
        let copy = append(&logs.join(format!("{}.events.jsonl", who.stem())))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()?;
        let stdout = child.stdout.take();
        let player = Self { child, start, log };
        if let Some(stdout) = stdout {
            thread::Builder::new()
                .name(who.stem())
                .spawn(move || listen(stdout, copy, who, start, &inbox))?;
        }
        Ok(player)
    }

    /// Ends the process at once (SIGKILL on Unix).
    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// The process's end, if it comes within `patience`.
    pub(super) fn end(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let until = Instant::now() + patience;
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(Some(status)),
                None if Instant::now() >= until => return Ok(None),
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// The last lines of its standard error.
    pub(super) fn last_words(&self) -> Vec<String> {
        tail(&self.log).unwrap_or_default()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.kill();
    }
}

fn listen(stdout: ChildStdout, mut copy: File, who: Who, start: u32, inbox: &Sender<Message>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut bytes = Vec::new();
        let read = stdout.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
        if !matches!(read, Ok(1..)) {
            break;
        }
        // The copy is for people; without it the demo goes on.
        let _ = copy.write_all(&bytes);
        let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
        if inbox.send(Message::Said { who, start, line }).is_err() {
            break;
        }
    }
    let _ = inbox.send(Message::Silent { who, start });
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn tail(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let skip = lines.len().saturating_sub(TAIL_LINES);
    Ok(lines.into_iter().skip(skip).map(str::to_owned).collect())
}

/// Longer lines come in pieces; no event is that long.
const MAX_LINE: u64 = 1 << 20;
const TAIL_BYTES: u64 = 4_096;
const TAIL_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_and_the_end_are_heard_in_order() {
        let logs = tempfile::tempdir().unwrap();
        let (inbox, heard) = channel();
        let who = Who::Client(3);
        let script = "echo one; echo wrong >&2; printf 'two \\377'; exit 4";
        let mut player = Player::start(shell(script), who, 7, logs.path(), inbox).unwrap();
        let said = |line: &str| Message::Said {
            who,
            start: 7,
            line: line.to_owned(),
        };
        assert_eq!(heard.recv().unwrap(), said("one"));
        assert_eq!(heard.recv().unwrap(), said("two \u{fffd}"));
        assert_eq!(heard.recv().unwrap(), Message::Silent { who, start: 7 });
        assert_eq!(
            player.end(Duration::from_secs(5)).unwrap().unwrap().code(),
            Some(4)
        );
        assert_eq!(player.last_words(), ["wrong"]);
        assert_eq!(
            std::fs::read(logs.path().join("client-03.events.jsonl")).unwrap(),
            b"one\ntwo \xff"
        );
    }

    #[test]
    fn a_dropped_player_is_a_dead_process() {
        let logs = tempfile::tempdir().unwrap();
        let (inbox, heard) = channel();
        let player = Player::start(
            shell("echo $$; exec sleep 600"),
            Who::Server,
            0,
            logs.path(),
            inbox,
        )
        .unwrap();
        let Message::Said { line, .. } = heard.recv().unwrap() else {
            panic!("no line")
        };
        let process = PathBuf::from(format!("/proc/{line}"));
        if Path::new("/proc/self").exists() {
            assert!(process.exists());
        }
        drop(player);
        assert!(!process.exists(), "{} lives on", process.display());
        assert_eq!(
            heard.recv().unwrap(),
            Message::Silent {
                who: Who::Server,
                start: 0
            }
        );
    }

    #[test]
    fn last_words_are_few() {
        let logs = tempfile::tempdir().unwrap();
        let (inbox, heard) = channel();
        let script = "for i in $(seq 1 2000); do echo line $i >&2; echo >&2; done";
        let mut player = Player::start(shell(script), Who::Server, 0, logs.path(), inbox).unwrap();
        assert!(matches!(heard.recv().unwrap(), Message::Silent { .. }));
        player.end(Duration::from_secs(5)).unwrap().unwrap();
        let words = player.last_words();
        assert_eq!(words.len(), TAIL_LINES);
        assert_eq!(words[TAIL_LINES - 1], "line 2000");
    }
}
