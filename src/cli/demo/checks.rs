//! What a good run is. Each condition is named, and the first that fails decides the exit code.

use super::cast::Cast;
use super::fault::Fault;
use crate::exit::Exit;
use crate::report::{Check, Curve, Outcome, Report};

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) rounds: u64,
    /// Client and round.
    pub(super) doom: Option<(u32, u64)>,
    /// Whether AbsRel must fall: short runs of the toy learner are not held to it.
    pub(super) learns: bool,
}

/// Judges a report whose facts are complete, and why the run ended early if it did.
pub(super) fn judge(report: &Report, cast: &Cast, wanted: Wanted, fault: Option<&Fault>) -> Outcome {
    let mut judged = Vec::new();
    if let Some(fault) = fault {
        judged.push((fault.exit(), check("processes", false, fault.to_string())));
    }
    judged.push((Exit::Aborted, rounds(report, wanted.rounds)));
    if let Some((client, round)) = wanted.doom {
        judged.push((Exit::Bug, dropped(report, client, round)));
        judged.push((Exit::Bug, back(report, client, round)));
    }
    judged.push((Exit::Violated, audit(report)));
    judged.push((Exit::Bug, training(report, cast, wanted)));
    let failed = judged
        .iter()
        .find(|(_, check)| !check.passed)
        .map(|(exit, _)| *exit);
    Outcome {
        passed: failed.is_none(),
        exit_code: failed.unwrap_or(Exit::Ok) as u8,
        checks: judged.into_iter().map(|(_, check)| check).collect(),
    }
}

fn rounds(report: &Report, wanted: u64) -> Check {
    let done: Vec<u64> = report.rounds.iter().map(|round| round.round).collect();
    let all = done == (1..=wanted).collect::<Vec<_>>();
    check(
        "all rounds done",
        all,
        format!("{} of {wanted} rounds finished", done.len()),
    )
}

fn dropped(report: &Report, client: u32, round: u64) -> Check {
    let name = "killed in mid-upload and dropped";
    let Some(kill) = report
        .kill
        .as_ref()
        .filter(|kill| (kill.client, kill.round) == (client, round))
    else {
        return check(
            name,
            false,
            format!("client {client} was not killed in round {round}"),
        );
    };
    let part = kill.sent_bytes > 0 && kill.sent_bytes < kill.total_bytes;
    let counted_out = report.rounds.iter().any(|done| {
        done.round == round && done.dropped.contains(&client) && !done.survivors.contains(&client)
    });
    let says = match (part, counted_out) {
        (true, true) => format!("client {client} was killed in round {round}, which ended without it"),
        (false, _) => format!(
            "client {client} had sent {} of {} bytes, which is not the middle of an upload",
            kill.sent_bytes, kill.total_bytes
        ),
        (true, false) => format!("round {round} did not end with client {client} dropped"),
    };
    check(name, part && counted_out, says)
}

fn back(report: &Report, client: u32, round: u64) -> Check {
    let next = round + 1;
    let counted = report
        .rounds
        .iter()
        .any(|done| done.round == next && done.survivors.contains(&client));
    let says = if counted {
        format!("client {client} is a survivor of round {next}")
    } else {
        format!("client {client} is no survivor of round {next}")
    };
    check("back in the next round", counted, says)
}

fn audit(report: &Report) -> Check {
    let name = "audit verdict";
    match &report.audit {
        Some(audit) => check(name, audit.overall == "verified", audit.overall.clone()),
        None => check(name, false, "the run ended before the audit".to_owned()),
    }
}

fn training(report: &Report, cast: &Cast, wanted: Wanted) -> Check {
    let name = "training works";
    let mut passed = true;
    let mut says: Vec<String> = cast
        .clusters
        .iter()
        .map(|cluster| {
            let id = cluster.id;
            let curve = report.curves.iter().find(|curve| curve.cluster == id);
            match curve.map(|curve| fall(curve, wanted.rounds, cluster.members.len())) {
                Some(Ok(change)) => {
                    passed &= change <= -ASKED;
                    format!("AbsRel of cluster {id} changed by {:.1} %", 100.0 * change)
                }
                Some(Err(why)) => {
                    passed = false;
                    format!("cluster {id}: {why}")
                }
                None => {
                    passed = false;
                    format!("cluster {id} was not scored")
                }
            }
        })
        .collect();
    let asked = 100.0 * ASKED;
    says.push(if wanted.learns {
        format!("asked for is a fall by {asked:.0} % from round 0 in each")
    } else {
        format!(
            "a fall by {asked:.0} % is asked of the depth network only, not of the {} learner",
            report.learner
        )
    });
    check(name, passed || !wanted.learns, says.join("; "))
}

/// The change of AbsRel, if first and last point can be compared: the same members, before training and after the last
/// round.
fn fall(curve: &Curve, rounds: u64, members: usize) -> Result<f64, String> {
    let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else {
        return Err("no scores".to_owned());
    };
    if first.round != 0 || last.round != rounds {
        return Err(format!(
            "scored from round {} to {}, not from 0 to {rounds}",
            first.round, last.round
        ));
    }
    for point in [first, last] {
        if usize::try_from(point.clients) != Ok(members) {
            return Err(format!(
                "{} of {members} members scored the model after round {}",
                point.clients, point.round
            ));
        }
    }
    curve
        .abs_rel_change
        .ok_or_else(|| "AbsRel has no change".to_owned())
}

fn check(name: &str, passed: bool, says: String) -> Check {
    Check {
        name: name.to_owned(),
        passed,
        says,
    }
}

/// Share by which AbsRel must fall.
const ASKED: f64 = 0.25;
