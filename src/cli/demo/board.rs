//! What the processes have said so far: the state to show, and the facts for the report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::cast::{Cast, Who};
use crate::events::{ClientEvent, DepthScores, ServerEvent};
use crate::progress::{Cell, Step, Tone};
use crate::report::{AbortedAttempt, Kill, Round};

/// Everything that is known.
#[derive(Debug)]
pub(super) struct Board {
    rounds_wanted: u64,
    step: Step,
    /// When the phase ends without the missing ones, on the demo's clock.
    ends_ms: Option<u64>,
    /// Between the start and the end of an attempt.
    in_round: bool,
    cells: BTreeMap<u32, Cell>,
    started_ms: BTreeMap<(u64, u32), u64>,
    /// Bytes of the attempt under way: received and sent by the server.
    traffic: (u64, u64),
    /// Bytes of each client: sent and received.
    pub(super) bytes: BTreeMap<u32, (u64, u64)>,
    pub(super) rounds: Vec<Round>,
    pub(super) aborted: Vec<AbortedAttempt>,
    /// By client, cluster and round; the last word counts.
    /// What a mean picture scores, by client.
    pub(super) baselines: BTreeMap<u32, f64>,
    pub(super) scores: BTreeMap<(u32, u32, u64), Score>,
    pub(super) kill: Option<Kill>,
    pub(super) listening: bool,
    /// The bundle, once the server has finished.
    pub(super) bundle: Option<String>,
    /// The last words of those who gave up.
    pub(super) failures: BTreeMap<Who, String>,
    /// Clients that said that all rounds are done.
    pub(super) finished: Vec<u32>,
}

/// One client's verdict on one model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Score {
    pub(super) images: u32,
    pub(super) loss: f64,
    pub(super) scores: DepthScores,
    pub(super) example: Option<String>,
}

/// Something the conductor must act on, or a person should read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cue {
    /// The server is ready.
    Listening,
    /// A client stopped in the middle of its upload, as asked.
    Stalled {
        client: u32,
        round: u64,
        sent_bytes: u64,
        total_bytes: u64,
    },
    /// A round is done.
    RoundDone(u64),
    /// An attempt at a round opened nothing.
    Aborted { round: u64, note: String },
    /// Worth a line that stays.
    Note(String),
}

impl Board {
    pub(super) fn new(cast: &Cast, rounds: u64) -> Self {
        let cells = cast
            .clients
            .iter()
            .map(|member| (member.id, cell(member.id, "starting", Tone::Calm)))
            .collect();
        Self {
            rounds_wanted: rounds,
            step: Step {
                title: "starting".to_owned(),
                ..Step::default()
            },
            ends_ms: None,
            in_round: false,
            cells,
            started_ms: BTreeMap::new(),
            traffic: (0, 0),
            bytes: BTreeMap::new(),
            rounds: Vec::new(),
            aborted: Vec::new(),
            baselines: BTreeMap::new(),
            scores: BTreeMap::new(),
            kill: None,
            listening: false,
            bundle: None,
            failures: BTreeMap::new(),
            finished: Vec::new(),
        }
    }

    /// Takes one event of the server, heard at `at_ms` of the demo's clock.
    pub(super) fn server(&mut self, at_ms: u64, event: ServerEvent) -> Option<Cue> {
        match event {
            ServerEvent::Listening { addr } => {
                self.listening = true;
                self.step.title = format!("server at {addr}");
                return Some(Cue::Listening);
            }
            ServerEvent::Connected {
                client,
                connected,
                expected,
            } => {
                self.mark(client, "connected", Tone::Calm);
                if !self.in_round {
                    GATHER.clone_into(&mut self.step.phase);
                    (self.step.have, self.step.want) = (connected, expected);
                }
            }
            ServerEvent::Disconnected { client } if !self.finished.contains(&client) => {
                self.mark(client, "away", Tone::Bad);
            }
            ServerEvent::Round {
                round,
                attempt,
                clusters,
                ..
            } => {
                self.round_starts(at_ms, round, attempt, clusters);
            }
            ServerEvent::Phase {
                phase,
                have,
                want,
                deadline_ms,
                bytes_in,
                bytes_out,
                ..
            } => {
                self.traffic = (bytes_in, bytes_out);
                self.ends_ms = Some(at_ms.saturating_add(deadline_ms));
                let title = std::mem::take(&mut self.step.title);
                self.step = Step {
                    title,
                    phase: server_phase(&phase),
                    have,
                    want,
                    bytes_in,
                    bytes_out,
                    left: None,
                };
            }
            ServerEvent::Refused { client, reason } => {
                self.mark(client, "refused", Tone::Bad);
                return Some(Cue::Note(format!(
                    "client {client} is out of the round: {reason}"
                )));
            }
            ServerEvent::RoundDone {
                round,
                attempt,
                survivors,
                dropped,
                released,
                withheld,
                weights,
                head,
                ..
            } => {
                let begun = self.started_ms.get(&(round, attempt)).copied().unwrap_or(at_ms);
                self.came_back(round, &survivors);
                self.rounds.push(Round {
                    round,
                    attempt,
                    survivors,
                    dropped,
                    released,
                    withheld,
                    weights,
                    took_ms: at_ms.saturating_sub(begun),
                    bytes_in: self.traffic.0,
                    bytes_out: self.traffic.1,
                    head,
                });
                self.in_round = false;
                self.ends_ms = None;
                return Some(Cue::RoundDone(round));
            }
            ServerEvent::RoundAborted {
                round,
                attempt,
                reason,
                detail,
                ..
            } => {
                self.in_round = false;
                self.ends_ms = None;
                let note = format!("round {round}, attempt {attempt} aborted, nothing opened: {detail}");
                self.aborted.push(AbortedAttempt {
                    round,
                    attempt,
                    reason,
                    detail,
                });
                return Some(Cue::Aborted { round, note });
            }
            ServerEvent::Finished { bundle, .. } => {
                self.bundle = Some(bundle);
                self.at("all rounds done");
            }
            ServerEvent::Failed { detail, .. } => {
                self.failures.insert(Who::Server, detail);
            }
            ServerEvent::Clustered { clusters, .. } => {
                self.step.title = format!("{} clusters by what the clients' data looks like", clusters.len());
            }
            waiting @ ServerEvent::Waiting { .. } => return Some(Cue::Note(waiting.to_string())),
            // The demo asks no witnesses and opens no page.
            _ => {}
        }
        None
    }

    /// Takes one event of a client.
    pub(super) fn client(&mut self, client: u32, event: ClientEvent) -> Option<Cue> {
        match event {
            ClientEvent::Joined { .. } => self.mark(client, "joined", Tone::Calm),
            ClientEvent::Disconnected { .. } => self.mark(client, "reconnecting", Tone::Bad),
            ClientEvent::Training { .. } => self.mark(client, "training", Tone::Busy),
            ClientEvent::Trained { loss_last, .. } => {
                self.mark(client, &format!("trained {loss_last:.2}"), Tone::Good);
            }
            ClientEvent::Phase { doing, .. } => self.mark(client, client_phase(&doing), Tone::Busy),
            ClientEvent::Upload {
                sent_bytes,
                total_bytes,
                ..
            } => {
                let share = u128::from(sent_bytes) * 100 / u128::from(total_bytes.max(1));
                let tone = if share >= 100 { Tone::Good } else { Tone::Busy };
                self.mark(client, &format!("upload {share} %"), tone);
            }
            ClientEvent::Stalled {
                round,
                sent_bytes,
                total_bytes,
            } => {
                self.mark(client, "stalled", Tone::Bad);
                return Some(Cue::Stalled {
                    client,
                    round,
                    sent_bytes,
                    total_bytes,
                });
            }
            ClientEvent::Baseline { metrics, .. } => {
                self.baselines.insert(client, metrics.abs_rel);
            }
            ClientEvent::Evaluated {
                round,
                cluster,
                images,
                loss,
                metrics,
                example,
            } => {
                let score = Score {
                    images,
                    loss,
                    scores: metrics,
                    example,
                };
                self.scores.insert((client, cluster, round), score);
            }
            ClientEvent::RoundDone {
                bytes_sent,
                bytes_received,
                ..
            } => {
                let sum = self.bytes.entry(client).or_default();
                sum.0 += bytes_sent;
                sum.1 += bytes_received;
                self.mark(client, "round done", Tone::Good);
            }
            ClientEvent::RoundEnded { round, reason } => {
                self.mark(client, "out of round", Tone::Bad);
                return Some(Cue::Note(format!(
                    "client {client}: round {round} ended without a sum: {reason}"
                )));
            }
            ClientEvent::Finished => {
                self.finished.push(client);
                self.mark(client, "finished", Tone::Good);
            }
            ClientEvent::Failed { detail, .. } => {
                self.failures.insert(Who::Client(client), detail);
                self.mark(client, "failed", Tone::Bad);
            }
            ClientEvent::EvaluatedBev { metrics, .. } => {
                self.mark(client, &format!("IoU {:.2}", metrics.pooled_iou), Tone::Good);
            }
            ClientEvent::Described { .. } => self.mark(client, "described", Tone::Good),
            ClientEvent::NotDescribed { .. } => self.mark(client, "in no cluster", Tone::Bad),
            ClientEvent::Watching { .. } | ClientEvent::Other => {}
        }
        None
    }

    /// Says what a client does.
    pub(super) fn mark(&mut self, client: u32, doing: &str, tone: Tone) {
        self.cells.insert(client, cell(client, doing, tone));
    }

    /// Where the run stands now.
    pub(super) fn step(&self, now_ms: u64) -> Step {
        let left = self
            .ends_ms
            .map(|ends| Duration::from_millis(ends.saturating_sub(now_ms)));
        Step {
            left,
            ..self.step.clone()
        }
    }

    /// Overrides what is under way, for work outside the rounds.
    pub(super) fn at(&mut self, title: &str) {
        self.ends_ms = None;
        self.step = Step {
            title: title.to_owned(),
            ..Step::default()
        };
    }

    pub(super) fn cells(&self) -> Vec<Cell> {
        self.cells.values().cloned().collect()
    }

    /// One sentence about a finished round.
    pub(super) fn sentence(&self, round: u64) -> Option<String> {
        let done = self.rounds.iter().find(|done| done.round == round)?;
        let mut text = format!(
            "round {round} of {}: {} survivors, clusters {} opened",
            self.rounds_wanted,
            done.survivors.len(),
            list(&done.released)
        );
        if !done.dropped.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, ", dropped client {}", list(&done.dropped));
        }
        if !done.withheld.is_empty() {
            let _ = write!(text, ", withheld cluster {}", list(&done.withheld));
        }
        let seconds = done.took_ms / 1_000;
        let _ = write!(text, ", {seconds} s, log of {} entries", done.head.size);
        Some(text)
    }

    fn round_starts(&mut self, at_ms: u64, round: u64, attempt: u32, clusters: Vec<Vec<u32>>) {
        let members: BTreeSet<u32> = clusters.into_iter().flatten().collect();
        self.in_round = true;
        self.started_ms.insert((round, attempt), at_ms);
        self.traffic = (0, 0);
        self.ends_ms = None;
        self.step = Step {
            title: self.title(round, attempt),
            phase: server_phase("advertise"),
            want: u32::try_from(members.len()).unwrap_or(u32::MAX),
            ..Step::default()
        };
    }

    fn came_back(&mut self, round: u64, survivors: &[u32]) {
        if let Some(kill) = &mut self.kill
            && kill.back_in_round.is_none()
            && round > kill.round
            && survivors.contains(&kill.client)
        {
            kill.back_in_round = Some(round);
        }
    }

    fn title(&self, round: u64, attempt: u32) -> String {
        let again = if attempt == 0 {
            String::new()
        } else {
            format!(", attempt {}", attempt + 1)
        };
        format!("round {round} of {}{again}", self.rounds_wanted)
    }
}

fn cell(id: u32, doing: &str, tone: Tone) -> Cell {
    Cell {
        id,
        doing: doing.to_owned(),
        tone,
    }
}

/// The server's phases, with the clients' part in them.
fn server_phase(phase: &str) -> String {
    match phase {
        "advertise" => "training and keys",
        "share" => "sharing secrets",
        "mask" => "masked uploads",
        "agree" => "agreeing on survivors",
        "unmask" => "opening the sums",
        "publish" => "publishing",
        other => other,
    }
    .to_owned()
}

/// What a client has done, from what it waits for; short enough for a cell.
fn client_phase(doing: &str) -> &str {
    match doing {
        "waiting for a plan" => "idle",
        "waiting for the roster" => "keys sent",
        "waiting for shares" => "shares sent",
        "waiting for the proposal" => "uploaded",
        "waiting for the agreement" => "signed",
        "waiting for the sums" => "shares opened",
        other => other.strip_prefix("waiting for ").unwrap_or(other),
    }
}

fn list(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

const GATHER: &str = "waiting for clients";
