//! What a client's own events come to, for its own operator: where it stands, and nothing of its training.

use super::family::{Writer, write};
use super::page::Page;
use super::site::Subject;
use crate::drive::Clock;
use crate::events::ClientEvent;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of a running client, shared between its driver and those who ask.
#[derive(Debug)]
pub struct ClientWatch {
    clock: Clock,
    board: Mutex<Board>,
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// Not connected.
    #[default]
    Away,
    /// Connected, between rounds.
    Connected,
    /// Training.
    Training,
    /// In a round.
    Round,
    /// All rounds are done.
    Finished,
    /// It gave up.
    Failed,
}

impl Stage {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Away, "away"),
        (Self::Connected, "connected"),
        (Self::Training, "training"),
        (Self::Round, "round"),
        (Self::Finished, "finished"),
        (Self::Failed, "failed"),
    ];
}

/// The document at `/state.json`.
#[derive(Clone, Debug, Default, Serialize)]
struct Board {
    stage: Stage,
    connected: bool,
    round: u64,
    /// What it does in the round.
    phase: Option<String>,
    published: u64,
    ended: u64,
    opened: u64,
    withheld: u64,
    connections: u64,
    disconnections: u64,
    bytes_sent: u64,
    bytes_received: u64,
    upload_sent: u64,
    upload_total: u64,
    /// Descriptors of its data that left it, and clusterings it could not describe its data for.
    described: u64,
    not_described: u64,
    /// What its descriptors have cost, epsilon at delta 10^-6; nothing where no number bounds it.
    epsilon: Option<f64>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    uptime_ms: u64,
    ready: bool,
    not_ready: Vec<String>,
    #[serde(flatten)]
    board: &'a Board,
}

impl ClientWatch {
    /// A client that has not said anything yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::start(),
            board: Mutex::new(Board {
                epsilon: Some(0.0),
                ..Board::default()
            }),
        })
    }

    /// Takes note of an event.
    pub fn observe(&self, event: &ClientEvent) {
        self.look(|board| board.observe(event));
    }

    fn look<T>(&self, look: impl FnOnce(&mut Board) -> T) -> T {
        look(&mut self.board.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subject for ClientWatch {
    fn openmetrics(&self) -> String {
        write(Snapshot(self.look(|board| board.clone())))
    }

    fn state(&self, disk: Result<(), String>) -> serde_json::Result<Vec<u8>> {
        let board = self.look(|board| board.clone());
        let not_ready = board.not_ready(disk);
        serde_json::to_vec(&Document {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: self.clock.now().0,
            ready: not_ready.is_empty(),
            not_ready,
            board: &board,
        })
    }

    fn not_ready(&self, disk: Result<(), String>) -> Vec<String> {
        self.look(|board| board.not_ready(disk))
    }

    /// Training may take hours: a client that says nothing may be well.
    fn stuck(&self) -> Option<String> {
        None
    }

    fn page(&self) -> Option<&'static Page> {
        None
    }
}

impl Board {
    fn observe(&mut self, event: &ClientEvent) {
        match event {
            ClientEvent::Joined { .. } => {
                (self.stage, self.connected) = (Stage::Connected, true);
                self.connections += 1;
            }
            ClientEvent::Disconnected { .. } => {
                (self.stage, self.connected, self.phase) = (Stage::Away, false, None);
                self.disconnections += 1;
            }
            ClientEvent::Training { round } => (self.stage, self.round) = (Stage::Training, *round),
            ClientEvent::Phase { round, doing } => {
                (self.stage, self.round) = (Stage::Round, *round);
                self.phase = Some(doing.clone());
            }
            ClientEvent::Upload {
                sent_bytes,
                total_bytes,
                ..
            } => (self.upload_sent, self.upload_total) = (*sent_bytes, *total_bytes),
            ClientEvent::RoundDone {
                released,
                withheld,
                bytes_sent,
                bytes_received,
                ..
            } => {
                self.between_rounds();
                self.published += 1;
                self.opened += released.len() as u64;
                self.withheld += withheld.len() as u64;
                self.bytes_sent += bytes_sent;
                self.bytes_received += bytes_received;
            }
            ClientEvent::RoundEnded { .. } => {
                self.between_rounds();
                self.ended += 1;
            }
            ClientEvent::Described { epsilon, .. } => {
                self.described += 1;
                self.epsilon = *epsilon;
            }
            ClientEvent::NotDescribed { .. } => self.not_described += 1,
            ClientEvent::Finished => self.stage = Stage::Finished,
            ClientEvent::Failed { .. } => self.stage = Stage::Failed,
            // How training goes is nobody's business here.
            ClientEvent::Trained { .. }
            | ClientEvent::Stalled { .. }
            | ClientEvent::Baseline { .. }
            | ClientEvent::Watching { .. }
            | ClientEvent::Evaluated { .. }
            | ClientEvent::EvaluatedBev { .. }
            | ClientEvent::Other => {}
        }
    }

    fn between_rounds(&mut self) {
        self.phase = None;
        self.stage = if self.connected {
            Stage::Connected
        } else {
            Stage::Away
        };
    }

    fn not_ready(&self, disk: Result<(), String>) -> Vec<String> {
        let mut why = Vec::new();
        match self.stage {
            Stage::Finished => why.push("all rounds are done".to_owned()),
            Stage::Failed => why.push("the client gave up; its own output says why".to_owned()),
            _ if !self.connected => {
                why.push(
                    "not connected to the server: see that it runs, `veilsum doctor` tries the way"
                        .to_owned(),
                );
            }
            _ => {}
        }
        if let Err(error) = disk {
            why.push(format!("the state folder cannot be written: {error}"));
        }
        why
    }
}

#[derive(Debug)]
struct Snapshot(Board);

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let board = &self.0;
        let mut to = Writer(encoder);
        to.build()?;
        to.gauges(
            "client_stage",
            "Where the client stands: 1 at the stage it is in",
            Stage::ALL.map(|(stage, name)| ([("stage", name)], i64::from(stage == board.stage))),
        )?;
        to.gauge(
            "client_connected",
            "1 while the server has accepted it",
            &u64::from(board.connected),
        )?;
        to.gauge(
            "client_round",
            "The round under way, or the last one",
            &board.round,
        )?;
        to.counters(
            "client_rounds",
            "Rounds it took part in, by how its part ended",
            [
                ([("outcome", "published")], board.published),
                ([("outcome", "ended")], board.ended),
            ],
        )?;
        to.counters(
            "client_sums",
            "Cluster sums of published rounds: opened, or withheld by the disclosure rule",
            [
                ([("outcome", "opened")], board.opened),
                ([("outcome", "withheld")], board.withheld),
            ],
        )?;
        to.counter(
            "client_connections",
            "Times the server accepted it",
            board.connections,
        )?;
        to.counter(
            "client_disconnections",
            "Times the connection ended",
            board.disconnections,
        )?;
        to.bytes("client_sent", "Bytes sent in published rounds", board.bytes_sent)?;
        to.bytes(
            "client_received",
            "Bytes received in published rounds",
            board.bytes_received,
        )?;
        to.counters(
            "client_descriptors",
            "Clusterings, by whether it could describe its data",
            [
                ([("outcome", "described")], board.described),
                ([("outcome", "not described")], board.not_described),
            ],
        )?;
        to.gauge(
            "client_descriptor_epsilon",
            "What its descriptors have cost, epsilon at delta 1e-6; infinite without noise",
            &board.epsilon.unwrap_or(f64::INFINITY),
        )
    }
}

const SCHEMA: &str = "veilsum-watch-client/1";

#[cfg(test)]
mod tests;
