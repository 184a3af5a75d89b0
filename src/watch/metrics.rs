//! A server's board as metrics. Counters count since this server process started. No label names a client.

use super::board::{Board, Stage};
use super::family::{Writer, write};
use super::phase::PHASES;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

pub(super) fn openmetrics(board: &Board) -> String {
    write(Snapshot(board.clone()))
}

#[derive(Debug)]
struct Snapshot(Board);

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Writer(encoder);
        let board = &self.0;
        to.build()?;
        standing(board, &mut to)?;
        rounds(board, &mut to)?;
        phases(board, &mut to)?;
        clients(board, &mut to)?;
        transcript(board, &mut to)?;
        budget(board, &mut to)
    }
}

fn standing(board: &Board, to: &mut Writer<'_>) -> fmt::Result {
    let stages = [
        Stage::Starting,
        Stage::Gathering,
        Stage::Round,
        Stage::Finished,
        Stage::Failed,
    ];
    to.gauges(
        "stage",
        "Where the server stands: 1 at the stage it is in",
        stages.map(|stage| ([("stage", stage.name())], i64::from(stage == board.stage))),
    )?;
    to.gauge("round", "The round under way, or the last one", &board.round)?;
    to.gauge("attempt", "The attempt at it, from 0", &u64::from(board.attempt))?;
    to.gauge(
        "rounds_planned",
        "Rounds of the signed policy",
        &board.facts.rounds,
    )?;
    to.gauge("clusters", "Clusters of the round", &(board.clusters as u64))
}

fn rounds(board: &Board, to: &mut Writer<'_>) -> fmt::Result {
    let aborted: u64 = board.aborts.values().sum();
    to.counters(
        "attempts",
        "Attempts at rounds that ended, by how",
        [
            ([("outcome", "published")], board.published),
            ([("outcome", "aborted")], aborted),
        ],
    )?;
    to.counters(
        "aborts",
        "Attempts that ended with nothing opened, by reason",
        board
            .aborts
            .iter()
            .map(|(reason, count)| ([("reason", reason.as_str())], *count)),
    )?;
    to.counters(
        "sums",
        "Cluster sums of published rounds: opened, or withheld by the disclosure rule",
        [
            ([("outcome", "opened")], board.opened),
            ([("outcome", "withheld")], board.withheld),
        ],
    )?;
    let (survivors, dropped) = board
        .last
        .as_ref()
        .map_or((0, 0), |last| (last.survivors, last.dropped));
    to.gauges(
        "round_clients",
        "Clients of the round published last, by whether their vectors count",
        [
            ([("outcome", "survived")], survivors as u64),
            ([("outcome", "dropped")], dropped as u64),
        ],
    )
}

fn phases(board: &Board, to: &mut Writer<'_>) -> fmt::Result {
    let named = || PHASES.iter().zip(&board.phases);
    to.gauges(
        "phase",
        "The phase under way: 1 at that phase, 0 elsewhere",
        PHASES
            .iter()
            .enumerate()
            .map(|(place, name)| ([("phase", *name)], i64::from(board.phase == Some(place)))),
    )?;
    to.gauges(
        "phase_clients",
        "Clients that answered, by phase of the attempt under way or the last one",
        named().map(|(name, phase)| ([("phase", *name)], u64::from(phase.have))),
    )?;
    to.gauges(
        "phase_clients_wanted",
        "Clients that are waited for, by phase of the attempt under way or the last one",
        named().map(|(name, phase)| ([("phase", *name)], u64::from(phase.want))),
    )?;
    to.durations(
        "phase_duration",
        "How long phases took, over all attempts",
        PHASES.iter().zip(&board.durations),
    )
}

fn clients(board: &Board, to: &mut Writer<'_>) -> fmt::Result {
    to.gauge(
        "clients_connected",
        "Clients connected now",
        &(board.connected.len() as u64),
    )?;
    to.gauge(
        "clients_enrolled",
        "Clients of the signed policy",
        &u64::from(board.facts.clients),
    )?;
    to.gauge(
        "clients_threshold",
        "Fewest clients of a round",
        &u64::from(board.facts.threshold),
    )?;
    to.counter(
        "connections",
        "Times a client proved who it is",
        board.connections,
    )?;
    to.counter(
        "disconnections",
        "Times a client's connection ended",
        board.disconnections,
    )?;
    to.counter(
        "clients_dropped",
        "Clients of published rounds whose vectors do not count",
        board.dropped,
    )?;
    to.counter(
        "clients_refused",
        "Times a client was put out of a round",
        board.refused,
    )?;
    let (received, sent) = board.traffic();
    to.bytes(
        "received",
        "Bytes received from clients, as of the last event",
        received,
    )?;
    to.bytes("sent", "Bytes sent to clients, as of the last event", sent)
}

fn transcript(board: &Board, to: &mut Writer<'_>) -> fmt::Result {
    to.gauge(
        "log_entries",
        "Entries of the log after the last attempt",
        &board.head.size,
    )?;
    if board.witnesses.is_empty() {
        return Ok(());
    }
    let (entries, quorum) = board.witnessed.unwrap_or((0, false));
    to.gauge(
        "witnessed_log_entries",
        "Entries of the log that witnesses were shown last",
        &entries,
    )?;
    to.gauge(
        "witness_quorum",
        "1 if enough of them cosigned it",
        &u64::from(quorum),
    )?;
    to.stamps(
        "witness_cosigned_timestamp",
        "When a witness cosigned last, by its own clock",
        board
            .witnesses
            .iter()
            .filter_map(|(name, witness)| Some(([("witness", name.as_str())], witness.cosigned_at?))),
    )?;
    to.counters(
        "witness_failures",
        "Times a witness was asked and did not cosign",
        board
            .witnesses
            .iter()
            .map(|(name, witness)| ([("witness", name.as_str())], witness.failures)),
    )
}

fn budget(board: &Board, to: &mut Writer<'_>) -> fmt::Result {
    to.gauge(
        "rounds_over",
        "Rounds of the policy that are over",
        &board.rounds_over(),
    )?;
    to.gauge(
        "clusterings",
        "Clusterings by descriptors of clients' data",
        &board.clusterings,
    )?;
    to.gauge(
        "descriptor_epsilon",
        "What the descriptors of a client that sent all have cost, epsilon at delta 1e-6; infinite without noise",
        &board.epsilon(),
    )?;
    let Some(last) = &board.last else { return Ok(()) };
    to.gauge(
        "window_rounds",
        "Rounds of the window of the crowd",
        &u64::from(last.window_rounds),
    )?;
    to.gauge(
        "window_crowd",
        "Clients that all sums of the window together hide among at worst, if no update changed from round to round",
        &(f64::from(last.window_crowd_milli) / 1e3),
    )
}
