//! What a server's events come to: the numbers behind metrics, state and page.

use super::phase::{Durations, PHASES, Phase};
use crate::events::{LogHead, ServerEvent};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use veilsum_aggregation::privacy::zcdp;

/// What is known before the first event.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The federation's name.
    pub federation: String,
    /// Rounds of the policy.
    pub rounds: u64,
    /// Enrolled clients.
    pub clients: u32,
    /// Organisations they belong to.
    pub organisations: u32,
    /// Shamir threshold: fewest clients a round can be run with.
    pub threshold: u32,
    /// Fewest clients any released combination may cover.
    pub crowd: u32,
    /// Fewest organisations any released combination may cover.
    pub crowd_orgs: u32,
    /// What descriptors of clients' data cost.
    pub descriptors: DescriptorCost,
    /// Clusterings done before this server started.
    pub clusterings: u64,
    /// Names of the witnesses of the policy file; none without one.
    pub witnesses: Vec<String>,
    /// The round to come.
    pub round: u64,
    /// The log as it was found.
    pub head: LogHead,
}

/// What one descriptor of a client's data costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DescriptorCost {
    /// The policy asks for none.
    Nothing,
    /// Zero-concentrated differential privacy (Bun and Steinke 2016) with this rho.
    Rho(f64),
    /// Without noise: no number bounds it.
    Unbounded,
}

/// Where the server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not listening yet.
    Starting,
    /// Waits for clients, between rounds.
    Gathering,
    /// In an attempt at a round.
    Round,
    /// All rounds are done.
    Finished,
    /// It gave up.
    Failed,
}

impl Stage {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Gathering => "gathering",
            Self::Round => "round",
            Self::Finished => "finished",
            Self::Failed => "failed",
        }
    }
}

/// The round published last.
#[derive(Clone, Debug)]
pub(super) struct LastRound {
    pub(super) at_ms: u64,
    pub(super) round: u64,
    pub(super) survivors: usize,
    pub(super) dropped: usize,
    pub(super) released: Vec<u32>,
    pub(super) withheld: Vec<(u32, String)>,
    pub(super) window_rounds: u32,
    pub(super) window_crowd_milli: u32,
}

/// What a witness did last.
#[derive(Clone, Debug, Default)]
pub(super) struct Witness {
    pub(super) cosigned_at: Option<u64>,
    pub(super) failures: u64,
    /// Why it did not cosign, when last asked.
    pub(super) reason: Option<String>,
}

/// Everything that is known.
#[derive(Clone, Debug)]
pub struct Board {
    pub(super) facts: Facts,
    pub(super) stage: Stage,
    pub(super) connected: BTreeSet<u32>,
    pub(super) round: u64,
    pub(super) attempt: u32,
    pub(super) clusters: usize,
    pub(super) phases: [Phase; PHASES.len()],
    /// The phase under way, by its place in [`PHASES`].
    pub(super) phase: Option<usize>,
    pub(super) durations: [Durations; PHASES.len()],
    pub(super) published: u64,
    pub(super) aborts: BTreeMap<String, u64>,
    pub(super) last_abort: Option<(u64, u64, String)>,
    pub(super) opened: u64,
    pub(super) withheld: u64,
    pub(super) dropped: u64,
    pub(super) refused: u64,
    pub(super) connections: u64,
    pub(super) disconnections: u64,
    pub(super) clusterings: u64,
    /// Clients that have to describe their data before it goes on.
    pub(super) waiting: Option<usize>,
    /// Bytes received and sent before the attempt under way.
    traffic_base: (u64, u64),
    /// Bytes received and sent in it.
    pub(super) traffic_round: (u64, u64),
    pub(super) head: LogHead,
    pub(super) last: Option<LastRound>,
    pub(super) witnesses: BTreeMap<String, Witness>,
    pub(super) witnessed: Option<(u64, bool)>,
    /// The last things worth a line, newest first.
    pub(super) recent: VecDeque<(u64, String)>,
}

impl Board {
    /// A server that has not said anything yet.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        Self {
            stage: Stage::Starting,
            connected: BTreeSet::new(),
            round: facts.round,
            attempt: 0,
            clusters: 0,
            phases: [Phase::default(); PHASES.len()],
            phase: None,
            durations: [Durations::default(); PHASES.len()],
            published: 0,
            aborts: BTreeMap::new(),
            last_abort: None,
            opened: 0,
            withheld: 0,
            dropped: 0,
            refused: 0,
            connections: 0,
            disconnections: 0,
            clusterings: facts.clusterings,
            waiting: None,
            traffic_base: (0, 0),
            traffic_round: (0, 0),
            head: facts.head.clone(),
            last: None,
            witnesses: facts
                .witnesses
                .iter()
                .map(|name| (name.clone(), Witness::default()))
                .collect(),
            witnessed: None,
            recent: VecDeque::new(),
            facts,
        }
    }

    /// Takes note of an event at `now_ms` of the watch's clock.
    pub fn observe(&mut self, now_ms: u64, event: &ServerEvent) {
        match event {
            ServerEvent::Listening { .. } => self.stage = Stage::Gathering,
            ServerEvent::Connected { client, .. } => {
                self.connected.insert(*client);
                self.connections += 1;
            }
            ServerEvent::Disconnected { client } => {
                self.connected.remove(client);
                self.disconnections += 1;
            }
            ServerEvent::Waiting {
                clustering,
                described,
                clients,
                ..
            } => {
                self.waiting = Some(clients.len());
                self.note(
                    now_ms,
                    format!(
                        "clustering {clustering}: {described} described their data, {} to come",
                        clients.len()
                    ),
                );
            }
            ServerEvent::Clustered {
                clustering, clusters, ..
            } => {
                self.waiting = None;
                self.clusterings = self.clusterings.max(*clustering);
                self.note(
                    now_ms,
                    format!("clustering {clustering}: {} clusters", clusters.len()),
                );
            }
            ServerEvent::Round {
                round,
                attempt,
                clusters,
                bytes_in,
                bytes_out,
            } => {
                self.stage = Stage::Round;
                (self.round, self.attempt, self.clusters) = (*round, *attempt, clusters.len());
                self.phases = [Phase::default(); PHASES.len()];
                self.phase = None;
                self.waiting = None;
                self.traffic_base = (*bytes_in, *bytes_out);
                self.traffic_round = (0, 0);
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
                self.traffic_round = (*bytes_in, *bytes_out);
                self.in_phase(now_ms, phase, (*have, *want), *deadline_ms);
            }
            ServerEvent::Refused { .. } => self.refused += 1,
            ServerEvent::RoundDone { .. } => self.round_done(now_ms, event),
            ServerEvent::RoundAborted {
                round,
                attempt,
                reason,
                bytes_in,
                bytes_out,
                head,
                ..
            } => {
                self.end_attempt(now_ms, (*bytes_in, *bytes_out));
                *self.aborts.entry(reason.clone()).or_default() += 1;
                self.last_abort = Some((now_ms, *round, reason.clone()));
                if let Some(head) = head {
                    self.head = head.clone();
                }
                self.note(
                    now_ms,
                    format!("round {round}, attempt {attempt} aborted: {reason}; nothing was opened"),
                );
            }
            ServerEvent::Witnessed {
                entries,
                quorum,
                witnesses,
            } => {
                self.witnessed = Some((*entries, *quorum));
                for word in witnesses {
                    let known = self.witnesses.entry(word.name.clone()).or_default();
                    known.reason.clone_from(&word.reason);
                    match word.cosigned_at {
                        Some(at) => known.cosigned_at = Some(at),
                        None => known.failures += 1,
                    }
                }
                if !quorum {
                    self.note(
                        now_ms,
                        format!("too few witnesses cosigned the log of {entries} entries"),
                    );
                }
            }
            ServerEvent::Finished { rounds, head, .. } => {
                self.stage = Stage::Finished;
                self.head = head.clone();
                self.note(now_ms, format!("all {rounds} rounds are done"));
            }
            ServerEvent::Failed { reason, .. } => {
                self.stage = Stage::Failed;
                self.note(now_ms, format!("the server gave up: {reason}"));
            }
            ServerEvent::Watching { .. } | ServerEvent::Other => {}
        }
    }

    fn in_phase(&mut self, now_ms: u64, name: &str, counts: (u32, u32), deadline_ms: u64) {
        let Some(place) = PHASES.iter().position(|known| *known == name) else {
            return;
        };
        if self.phase != Some(place) {
            self.end_phase(now_ms);
            self.phase = Some(place);
        }
        if let Some(phase) = self.phases.get_mut(place) {
            (phase.have, phase.want) = counts;
            phase.began_ms.get_or_insert(now_ms);
            phase.ends_ms = now_ms.saturating_add(deadline_ms);
        }
    }

    fn end_phase(&mut self, now_ms: u64) {
        let Some(place) = self.phase.take() else { return };
        if let (Some(phase), Some(durations)) = (self.phases.get_mut(place), self.durations.get_mut(place)) {
            let took = now_ms.saturating_sub(phase.began_ms.unwrap_or(now_ms));
            phase.took_ms = Some(took);
            durations.add(took);
        }
    }

    fn end_attempt(&mut self, now_ms: u64, traffic: (u64, u64)) {
        self.end_phase(now_ms);
        self.stage = Stage::Gathering;
        self.traffic_round = traffic;
    }

    fn round_done(&mut self, now_ms: u64, event: &ServerEvent) {
        let ServerEvent::RoundDone {
            round,
            survivors,
            dropped,
            released,
            withheld,
            withheld_why,
            window_rounds,
            window_crowd_milli,
            bytes_in,
            bytes_out,
            head,
            ..
        } = event
        else {
            return;
        };
        self.end_attempt(now_ms, (*bytes_in, *bytes_out));
        self.published += 1;
        self.opened += released.len() as u64;
        self.withheld += withheld.len() as u64;
        self.dropped += dropped.len() as u64;
        self.head = head.clone();
        let why = withheld_why
            .iter()
            .cloned()
            .chain(std::iter::repeat(String::new()));
        self.last = Some(LastRound {
            at_ms: now_ms,
            round: *round,
            survivors: survivors.len(),
            dropped: dropped.len(),
            released: released.clone(),
            withheld: withheld.iter().copied().zip(why).collect(),
            window_rounds: *window_rounds,
            window_crowd_milli: *window_crowd_milli,
        });
        self.note(
            now_ms,
            format!(
                "round {round} published: {} survivors, {} dropped, {} sums opened, {} withheld",
                survivors.len(),
                dropped.len(),
                released.len(),
                withheld.len()
            ),
        );
    }

    fn note(&mut self, now_ms: u64, text: String) {
        self.recent.push_front((now_ms, text));
        self.recent.truncate(RECENT);
    }

    /// Bytes received and sent since the server started, as far as events have told.
    pub(super) fn traffic(&self) -> (u64, u64) {
        (
            self.traffic_base.0 + self.traffic_round.0,
            self.traffic_base.1 + self.traffic_round.1,
        )
    }

    /// Rounds of the policy that are over, published or not.
    pub(super) fn rounds_over(&self) -> u64 {
        if self.stage == Stage::Finished {
            return self.facts.rounds;
        }
        let published = self.last.as_ref().map_or(0, |last| last.round);
        published.max(self.round.saturating_sub(1))
    }

    /// What the descriptors of a client that sent one for every clustering have cost, as epsilon at [`DELTA`]; infinite
    /// where no number bounds it.
    pub(super) fn epsilon(&self) -> f64 {
        match self.facts.descriptors {
            _ if self.clusterings == 0 => 0.0,
            DescriptorCost::Nothing => 0.0,
            DescriptorCost::Unbounded => f64::INFINITY,
            DescriptorCost::Rho(rho) => {
                // Rho adds up over clusterings (Bun and Steinke 2016, lemma 1.7).
                let clusterings = u32::try_from(self.clusterings).unwrap_or(u32::MAX);
                zcdp::epsilon(rho * f64::from(clusterings), DELTA).unwrap_or(f64::INFINITY)
            }
        }
    }
}

/// The delta at which epsilon is told, as everywhere.
pub(super) const DELTA: f64 = 1e-6;
const RECENT: usize = 12;
