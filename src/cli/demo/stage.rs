//! The run: starts the processes, hears them, kills one, and sees that all of them end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::board::{Board, Cue};
use super::cast::{Cast, Who};
use super::fault::Fault;
use super::player::{Message, Player};
use crate::events::{EventError, read_line};
use crate::progress::{Progress, Tone};
use crate::report::Kill;

/// What a run needs to know.
pub(super) struct Script {
    /// The program whose verbs are played.
    pub(super) program: PathBuf,
    /// Where the processes' words are kept.
    pub(super) logs: PathBuf,
    /// The client to kill, and the round in which it dies.
    pub(super) doom: Option<(u32, u64)>,
    /// How long the whole run may take.
    pub(super) limit: Duration,
    /// How long a process may take to end after the rounds are done.
    pub(super) patience: Duration,
    /// Threads a client's network may use.
    pub(super) threads: usize,
}

/// A run.
pub(super) struct Stage<'a> {
    script: &'a Script,
    cast: &'a Cast,
    begun: Instant,
    players: BTreeMap<Who, Player>,
    starts: BTreeMap<Who, u32>,
    inbox: Receiver<Message>,
    outbox: Sender<Message>,
    progress: &'a mut Progress,
    pub(super) board: Board,
    /// What the auditor has said.
    verdict: String,
    strays: u32,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        script: &'a Script,
        cast: &'a Cast,
        rounds: u64,
        begun: Instant,
        (outbox, inbox): (Sender<Message>, Receiver<Message>),
        progress: &'a mut Progress,
    ) -> Self {
        Self {
            script,
            cast,
            begun,
            players: BTreeMap::new(),
            starts: BTreeMap::new(),
            inbox,
            outbox,
            progress,
            board: Board::new(cast, rounds),
            verdict: String::new(),
            strays: 0,
        }
    }

    /// Milliseconds since the run began.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Plays all rounds, until every process has ended in order.
    pub(super) fn play(&mut self) -> Result<(), Fault> {
        self.start(Who::Server)?;
        while self.board.bundle.is_none() || self.players.contains_key(&Who::Server) {
            self.step(None)?;
        }
        let until = Instant::now() + self.script.patience;
        while !self.players.is_empty() {
            self.step(Some(until))?;
        }
        Ok(())
    }

    /// Runs the auditor on the bundle; gives what it said.
    pub(super) fn audit(&mut self) -> Result<(String, ExitStatus), Fault> {
        self.board.at("audit of the bundle");
        self.start(Who::Auditor)?;
        loop {
            if let Some(status) = self.step(None)? {
                return Ok((std::mem::take(&mut self.verdict), status));
            }
        }
    }

    /// Ends every process that still runs; what was heard stays.
    pub(super) fn close(self) -> Board {
        self.board
    }

    /// Waits for one message and acts on it. Gives the auditor's end.
    fn step(&mut self, until: Option<Instant>) -> Result<Option<ExitStatus>, Fault> {
        let step = self.board.step(self.now_ms());
        self.progress.show(&step, &self.board.cells());
        // This stage holds a sender itself, so the only error is that nobody spoke in time.
        let message = self.inbox.recv_timeout(TICK).ok();
        if self.begun.elapsed() >= self.script.limit {
            return Err(Fault::TimeLimit {
                minutes: self.script.limit.as_secs() / 60,
                doing: format!("{} {}", step.title, step.phase).trim().to_owned(),
                logs: self.script.logs.clone(),
            });
        }
        match message {
            Some(Message::Interrupted) => return Err(Fault::Interrupted),
            Some(Message::Said { who, start, line }) if self.starts.get(&who) == Some(&start) => {
                if let Some(cue) = self.said(who, &line)? {
                    self.act(cue)?;
                }
            }
            Some(Message::Silent { who, start }) => return self.ended(who, start),
            Some(Message::Said { .. }) | None => {}
        }
        if let (Some(until), Some((who, player))) = (until, self.players.iter().next())
            && Instant::now() >= until
        {
            return Err(Fault::Lingers {
                who: *who,
                seconds: self.script.patience.as_secs(),
                log: player.log.clone(),
            });
        }
        Ok(None)
    }

    fn said(&mut self, who: Who, line: &str) -> Result<Option<Cue>, Fault> {
        let at_ms = self.now_ms();
        let cue = match who {
            Who::Server => read_line(line).map(|heard| self.board.server(at_ms, heard.event)),
            Who::Client(id) => read_line(line).map(|heard| self.board.client(id, heard.event)),
            Who::Auditor => {
                self.verdict.push_str(line);
                self.verdict.push('\n');
                return Ok(None);
            }
        };
        match cue {
            Ok(cue) => Ok(cue),
            Err(cause @ EventError::Schema { .. }) => Err(Fault::Schema { who, cause }),
            Err(stray) => {
                // A library that prints to standard output is no reason to stop; say it once.
                self.strays += 1;
                if self.strays == 1 {
                    self.progress.note(&format!("{who}: {stray}"));
                }
                Ok(None)
            }
        }
    }

    fn act(&mut self, cue: Cue) -> Result<(), Fault> {
        match cue {
            Cue::Listening => {
                for member in &self.cast.clients {
                    self.start(Who::Client(member.id))?;
                }
            }
            Cue::Stalled {
                client,
                round,
                sent_bytes,
                total_bytes,
            } => {
                if self.script.doom == Some((client, round)) {
                    self.kill(client, round, sent_bytes, total_bytes)?;
                }
            }
            Cue::RoundDone(round) => {
                if let Some(sentence) = self.board.sentence(round) {
                    self.progress.note(&sentence);
                }
                self.bring_back(round)?;
            }
            Cue::Aborted { round, note } => {
                self.progress.note(&note);
                // Nobody can go on without it: the server waits for everybody before it tries again.
                if self.board.kill.is_some() {
                    self.bring_back(round)?;
                }
            }
            Cue::Note(note) => self.progress.note(&note),
        }
        Ok(())
    }

    fn kill(&mut self, client: u32, round: u64, sent_bytes: u64, total_bytes: u64) -> Result<(), Fault> {
        let who = Who::Client(client);
        if let Some(mut player) = self.players.remove(&who) {
            player.kill().map_err(|cause| Fault::Start { who, cause })?;
        }
        self.board.mark(client, "killed", Tone::Bad);
        self.board.kill = Some(Kill {
            client,
            round,
            sent_bytes,
            total_bytes,
            killed_ms: self.now_ms(),
            restarted_ms: None,
            back_in_round: None,
        });
        self.progress.note(&format!(
            "client {client} killed in round {round} after {sent_bytes} of {total_bytes} bytes of its upload"
        ));
        Ok(())
    }

    /// Starts the killed client again, once its round is over.
    fn bring_back(&mut self, over: u64) -> Result<(), Fault> {
        let Some((client, round)) = self.script.doom.filter(|(_, round)| *round == over) else {
            return Ok(());
        };
        let now = self.now_ms();
        let Some(kill) = &mut self.board.kill else {
            return Err(Fault::NotStalled { client, round });
        };
        if kill.restarted_ms.is_none() {
            kill.restarted_ms = Some(now);
            self.board.mark(client, "restarting", Tone::Calm);
            self.start(Who::Client(client))?;
            self.progress.note(&format!("client {client} started again"));
        }
        Ok(())
    }

    fn start(&mut self, who: Who) -> Result<(), Fault> {
        let start = self.starts.get(&who).map_or(0, |start| start + 1);
        let command = self.command(who, start == 0);
        let player = Player::start(command, who, start, &self.script.logs, self.outbox.clone())
            .map_err(|cause| Fault::Start { who, cause })?;
        self.starts.insert(who, start);
        self.players.insert(who, player);
        Ok(())
    }

    fn command(&self, who: Who, first: bool) -> Command {
        let mut command = Command::new(&self.script.program);
        match who {
            Who::Server => command.arg("serve").arg("--config").arg(&self.cast.server_config),
            Who::Client(id) => {
                let config = self
                    .cast
                    .client(id)
                    .map_or(Path::new(""), |member| &member.config);
                command.arg("join").arg("--config").arg(config);
                if let Some((_, round)) = self.script.doom.filter(|(doomed, _)| first && *doomed == id) {
                    command.arg("--stall-upload-in-round").arg(round.to_string());
                }
                // Many networks on few cores: each takes its share, unless somebody decided otherwise.
                for variable in THREADS {
                    if std::env::var_os(variable).is_none() {
                        command.env(variable, self.script.threads.to_string());
                    }
                }
                &mut command
            }
            Who::Auditor => command
                .arg("audit")
                .arg(&self.cast.bundle)
                .arg("--trust")
                .arg(&self.cast.auditor_config),
        };
        command.args(["--format", "json"]);
        command
    }

    /// A process has closed its output.
    fn ended(&mut self, who: Who, start: u32) -> Result<Option<ExitStatus>, Fault> {
        // One that was killed on purpose is no player any more.
        let Some(player) = self.players.get_mut(&who).filter(|player| player.start == start) else {
            return Ok(None);
        };
        let log = player.log.clone();
        let status = player
            .end(CLOSING)
            .map_err(|cause| Fault::Start { who, cause })?
            .ok_or(Fault::Stuck {
                who,
                log: log.clone(),
            })?;
        let mut said = player.last_words();
        self.players.remove(&who);
        let in_order = match who {
            Who::Server => status.success() && self.board.bundle.is_some(),
            Who::Client(id) => status.success() && self.board.finished.contains(&id),
            Who::Auditor => return Ok(Some(status)),
        };
        if in_order {
            return Ok(None);
        }
        self.interrupted(status)?;
        if let Some(words) = self.board.failures.get(&who)
            && !said.iter().any(|line| line.contains(words.as_str()))
        {
            said.push(words.clone());
        }
        Err(Fault::Died {
            who,
            status,
            said,
            log,
        })
    }

    /// Ctrl-C reaches the processes of a terminal at the same time as this one: a process that died of it is no fault of
    /// its own.
    fn interrupted(&self, status: ExitStatus) -> Result<(), Fault> {
        use std::os::unix::process::ExitStatusExt as _;
        let by_key = status.code() == Some(130) || matches!(status.signal(), Some(2 | 15));
        let until = Instant::now() + if by_key { CLOSING } else { Duration::ZERO };
        loop {
            match self.inbox.try_recv() {
                Ok(Message::Interrupted) => return Err(Fault::Interrupted),
                Ok(_) => {}
                Err(_) if Instant::now() >= until => return Ok(()),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// How often the display moves when nobody speaks.
const TICK: Duration = Duration::from_millis(200);
/// How long a process may take to end after it closed its output.
const CLOSING: Duration = Duration::from_secs(5);
/// What libtorch's and other numeric libraries' thread pools read.
const THREADS: [&str; 2] = ["OMP_NUM_THREADS", "RAYON_NUM_THREADS"];
