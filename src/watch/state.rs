//! What `/state.json` says, schema `veilsum-watch/1`. Within one number, fields are only ever added.

use super::board::{Board, DELTA, DescriptorCost};
use super::phase::PHASES;
use super::ready;
use crate::events::LogHead;
use serde::Serialize;

/// Name and version of the document.
pub const SCHEMA: &str = "veilsum-watch/1";

/// The server as it stands. Times are milliseconds; ages count back from the moment of the answer.
#[derive(Clone, Debug, Serialize)]
pub struct State {
    schema: &'static str,
    version: &'static str,
    federation: String,
    /// `starting`, `gathering`, `round`, `finished` or `failed`.
    stage: &'static str,
    uptime_ms: u64,
    ready: bool,
    /// Why not, a sentence each.
    not_ready: Vec<String>,
    /// Why somebody should look, if so.
    stuck: Option<String>,
    clients: Clients,
    round: Round,
    last: Option<Last>,
    totals: Totals,
    log: LogHead,
    /// Nothing where the server asks no witnesses.
    witnesses: Option<Witnesses>,
    budget: Budget,
    recent: Vec<Line>,
}

#[derive(Clone, Debug, Serialize)]
struct Clients {
    connected: usize,
    enrolled: u32,
    threshold: u32,
    organisations: u32,
    /// Clients that must describe their data before it goes on.
    waiting_for: Option<usize>,
}

/// The attempt under way, or the last one.
#[derive(Clone, Debug, Serialize)]
struct Round {
    number: u64,
    of: u64,
    attempt: u32,
    clusters: usize,
    phase: Option<&'static str>,
    /// Until the phase ends without the missing clients.
    phase_left_ms: Option<u64>,
    phases: Vec<PhaseState>,
    bytes_in: u64,
    bytes_out: u64,
}

#[derive(Clone, Debug, Serialize)]
struct PhaseState {
    phase: &'static str,
    /// Clients that answered.
    have: u32,
    /// Clients that are waited for.
    want: u32,
    /// `to come`, `now` or `over`.
    state: &'static str,
    /// How long it has taken.
    took_ms: Option<u64>,
}

/// The round published last.
#[derive(Clone, Debug, Serialize)]
struct Last {
    round: u64,
    age_ms: u64,
    survivors: usize,
    dropped: usize,
    released: Vec<u32>,
    withheld: Vec<WithheldCluster>,
}

#[derive(Clone, Debug, Serialize)]
struct WithheldCluster {
    cluster: u32,
    why: String,
}

/// Since this server started.
#[derive(Clone, Debug, Serialize)]
struct Totals {
    published: u64,
    aborted: Vec<Abort>,
    opened: u64,
    withheld: u64,
    dropped: u64,
    refused: u64,
    bytes_in: u64,
    bytes_out: u64,
    last_abort: Option<LastAbort>,
}

#[derive(Clone, Debug, Serialize)]
struct Abort {
    reason: String,
    count: u64,
}

#[derive(Clone, Debug, Serialize)]
struct LastAbort {
    round: u64,
    reason: String,
    age_ms: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Witnesses {
    /// Entries they were shown last.
    entries: Option<u64>,
    quorum: Option<bool>,
    each: Vec<WitnessState>,
}

#[derive(Clone, Debug, Serialize)]
struct WitnessState {
    name: String,
    /// POSIX seconds, by its own clock.
    cosigned_at: Option<u64>,
    failures: u64,
    /// Why it did not cosign when last asked.
    reason: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Budget {
    rounds_over: u64,
    rounds: u64,
    crowd: u32,
    crowd_orgs: u32,
    window_rounds: Option<u32>,
    window_crowd_milli: Option<u32>,
    clusterings: u64,
    /// `none`, `noise` or `no noise`.
    descriptors: &'static str,
    /// Nothing where no number bounds it.
    epsilon: Option<f64>,
    delta: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    age_ms: u64,
    text: String,
}

impl State {
    pub(super) fn of(board: &Board, now_ms: u64, log: Result<(), String>) -> Self {
        let not_ready = ready::not_ready(board, log);
        let age = |at: u64| now_ms.saturating_sub(at);
        let facts = &board.facts;
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            federation: facts.federation.clone(),
            stage: board.stage.name(),
            uptime_ms: now_ms,
            ready: not_ready.is_empty(),
            not_ready,
            stuck: ready::stuck(board, now_ms),
            clients: Clients {
                connected: board.connected.len(),
                enrolled: facts.clients,
                threshold: facts.threshold,
                organisations: facts.organisations,
                waiting_for: board.waiting,
            },
            round: round(board, now_ms),
            last: board.last.as_ref().map(|last| Last {
                round: last.round,
                age_ms: age(last.at_ms),
                survivors: last.survivors,
                dropped: last.dropped,
                released: last.released.clone(),
                withheld: last
                    .withheld
                    .iter()
                    .map(|(cluster, why)| WithheldCluster {
                        cluster: *cluster,
                        why: why.clone(),
                    })
                    .collect(),
            }),
            totals: totals(board, now_ms),
            log: board.head.clone(),
            witnesses: (!board.witnesses.is_empty()).then(|| Witnesses {
                entries: board.witnessed.map(|(entries, _)| entries),
                quorum: board.witnessed.map(|(_, quorum)| quorum),
                each: board
                    .witnesses
                    .iter()
                    .map(|(name, witness)| WitnessState {
                        name: name.clone(),
                        cosigned_at: witness.cosigned_at,
                        failures: witness.failures,
                        reason: witness.reason.clone(),
                    })
                    .collect(),
            }),
            budget: budget(board),
            recent: board
                .recent
                .iter()
                .map(|(at, text)| Line {
                    age_ms: age(*at),
                    text: text.clone(),
                })
                .collect(),
        }
    }
}

fn round(board: &Board, now_ms: u64) -> Round {
    let now = board.phase;
    Round {
        number: board.round,
        of: board.facts.rounds,
        attempt: board.attempt,
        clusters: board.clusters,
        phase: now.and_then(|place| PHASES.get(place)).copied(),
        phase_left_ms: now
            .and_then(|place| board.phases.get(place))
            .map(|phase| phase.ends_ms.saturating_sub(now_ms)),
        phases: PHASES
            .iter()
            .zip(&board.phases)
            .enumerate()
            .map(|(place, (name, phase))| PhaseState {
                phase: name,
                have: phase.have,
                want: phase.want,
                state: if now == Some(place) {
                    "now"
                } else if phase.took_ms.is_some() {
                    "over"
                } else {
                    "to come"
                },
                took_ms: phase
                    .took_ms
                    .or_else(|| Some(now_ms.saturating_sub(phase.began_ms?))),
            })
            .collect(),
        bytes_in: board.traffic_round.0,
        bytes_out: board.traffic_round.1,
    }
}

fn totals(board: &Board, now_ms: u64) -> Totals {
    let (bytes_in, bytes_out) = board.traffic();
    Totals {
        published: board.published,
        aborted: board
            .aborts
            .iter()
            .map(|(reason, count)| Abort {
                reason: reason.clone(),
                count: *count,
            })
            .collect(),
        opened: board.opened,
        withheld: board.withheld,
        dropped: board.dropped,
        refused: board.refused,
        bytes_in,
        bytes_out,
        last_abort: board.last_abort.as_ref().map(|(at, round, reason)| LastAbort {
            round: *round,
            reason: reason.clone(),
            age_ms: now_ms.saturating_sub(*at),
        }),
    }
}

fn budget(board: &Board) -> Budget {
    let epsilon = board.epsilon();
    Budget {
        rounds_over: board.rounds_over(),
        rounds: board.facts.rounds,
        crowd: board.facts.crowd,
        crowd_orgs: board.facts.crowd_orgs,
        window_rounds: board.last.as_ref().map(|last| last.window_rounds),
        window_crowd_milli: board.last.as_ref().map(|last| last.window_crowd_milli),
        clusterings: board.clusterings,
        descriptors: match board.facts.descriptors {
            DescriptorCost::Nothing => "none",
            DescriptorCost::Rho(_) => "noise",
            DescriptorCost::Unbounded => "no noise",
        },
        epsilon: epsilon.is_finite().then_some(epsilon),
        delta: DELTA,
    }
}
