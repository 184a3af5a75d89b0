//! From what was heard to the facts of a report.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::board::{Board, Score};
use super::cast::{Cast, Member};
use crate::report::{Audit, AuditCheck, Client, Curve, Example, Point, Shot, picture, rounded};

/// What each client sent and received.
pub(super) fn clients(cast: &Cast, board: &Board) -> Vec<Client> {
    cast.clients
        .iter()
        .map(|member| {
            let (sent_bytes, received_bytes) = board.bytes.get(&member.id).copied().unwrap_or_default();
            Client {
                id: member.id,
                organisation: member.organisation,
                robot: member.robot.clone(),
                place: member.place.clone(),
                clusters: member.clusters.clone(),
                sent_bytes,
                received_bytes,
            }
        })
        .collect()
}

/// Per cluster and round the plain mean over the members that scored.
pub(super) fn curves(cast: &Cast, board: &Board) -> Vec<Curve> {
    cast.clusters
        .iter()
        .map(|cluster| {
            let mut by_round: BTreeMap<u64, Vec<&Score>> = BTreeMap::new();
            for ((client, scored, round), score) in &board.scores {
                if *scored == cluster.id && cluster.members.contains(client) {
                    by_round.entry(*round).or_default().push(score);
                }
            }
            let points: Vec<Point> = by_round
                .into_iter()
                .filter_map(|(round, scores)| point(round, &scores))
                .collect();
            let abs_rel_change = match points.as_slice() {
                [first, .., last] if first.abs_rel > 0.0 => rounded(last.abs_rel / first.abs_rel - 1.0),
                _ => None,
            };
            let baselines: Vec<f64> = cluster
                .members
                .iter()
                .filter_map(|client| board.baselines.get(client).copied())
                .collect();
            let mean_picture_abs_rel = (!baselines.is_empty())
                .then(|| {
                    rounded(
                        baselines.iter().sum::<f64>()
                            / f64::from(u32::try_from(baselines.len()).unwrap_or(1)),
                    )
                })
                .flatten();
            Curve {
                cluster: cluster.id,
                points,
                mean_picture_abs_rel,
                abs_rel_change,
            }
        })
        .collect()
}

fn point(round: u64, scores: &[&Score]) -> Option<Point> {
    let clients = u32::try_from(scores.len()).ok()?;
    let mean = |of: fn(&Score) -> f64| {
        let sum: f64 = scores.iter().map(|score| of(score)).sum();
        rounded(sum / f64::from(clients))
    };
    Some(Point {
        round,
        clients,
        images: scores.iter().map(|score| score.images).sum(),
        loss: mean(|score| score.loss)?,
        abs_rel: mean(|score| score.scores.abs_rel)?,
        rmse: mean(|score| score.scores.rmse)?,
        delta1: mean(|score| score.scores.delta1)?,
    })
}

/// For each kind of robot the pictures of its first client that has both an early and a late one; at most [`MOST`] kinds.
/// A picture that cannot be read is left out and told to `note`.
pub(super) fn examples(cast: &Cast, board: &Board, mut note: impl FnMut(String)) -> Vec<Example> {
    let mut kinds = BTreeSet::new();
    let mut found = Vec::new();
    for member in &cast.clients {
        if found.len() == MOST {
            break;
        }
        if kinds.contains(&member.robot) {
            continue;
        }
        match example(member, board) {
            Ok(Some(example)) => {
                kinds.insert(member.robot.clone());
                found.push(example);
            }
            Ok(None) => {}
            Err(problem) => note(problem),
        }
    }
    found
}

fn example(member: &Member, board: &Board) -> Result<Option<Example>, String> {
    for cluster in &member.clusters {
        let pictures: Vec<(u64, &str)> = board
            .scores
            .iter()
            .filter(|((client, scored, _), _)| *client == member.id && scored == cluster)
            .filter_map(|((_, _, round), score)| Some((*round, score.example.as_deref()?)))
            .collect();
        let ((first, early), (last, late)) = match pictures.as_slice() {
            [first, .., last] => (*first, *last),
            _ => continue,
        };
        let shot = |round, path| match picture::embed(Path::new(path)) {
            Ok(png_base64) => Ok(Shot { round, png_base64 }),
            Err(error) => Err(format!("the picture {path} is left out: {error}")),
        };
        return Ok(Some(Example {
            client: member.id,
            robot: member.robot.clone(),
            cluster: *cluster,
            first: shot(first, early)?,
            last: shot(last, late)?,
        }));
    }
    Ok(None)
}

/// The auditor's JSON as the report's facts: one line per check and status, findings about many rounds drawn together.
///
/// # Errors
/// The text is no verdict.
pub(super) fn audit(text: &str, took_ms: u64) -> Result<Audit, serde_json::Error> {
    let verdict: Verdict = serde_json::from_str(text)?;
    let mut checks: Vec<(AuditCheck, BTreeSet<u64>)> = Vec::new();
    for finding in verdict.findings {
        let says = match (finding.reason, finding.round) {
            (Some(reason), Some(round)) => format!("round {round}: {reason}"),
            (Some(reason), None) => reason,
            (None, _) => String::new(),
        };
        let known = checks.iter_mut().find(|(check, _)| {
            check.name == finding.check && check.status == finding.status && check.says == says
        });
        match known {
            Some((_, rounds)) => rounds.extend(finding.round),
            None => checks.push((
                AuditCheck {
                    name: finding.check,
                    status: finding.status,
                    says,
                },
                finding.round.into_iter().collect(),
            )),
        }
    }
    let read = checks.into_iter().map(|(mut check, rounds)| {
        if check.says.is_empty() {
            check.says = match rounds.len() {
                0 => "holds".to_owned(),
                1 => "holds in 1 round".to_owned(),
                several => format!("holds in {several} rounds"),
            };
        }
        check
    });
    let mut all: Vec<AuditCheck> = read.collect();
    all.extend(verdict.reason.map(|says| AuditCheck {
        name: "the bundle".to_owned(),
        status: verdict.overall.clone(),
        says,
    }));
    Ok(Audit {
        overall: verdict.overall,
        took_ms,
        checks: all,
    })
}

/// What is read of an auditor's verdict.
#[derive(Deserialize)]
struct Verdict {
    overall: String,
    #[serde(default)]
    findings: Vec<Finding>,
    /// Why there are no findings.
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Finding {
    check: String,
    status: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    round: Option<u64>,
}

/// Kinds of robots with pictures in a report.
const MOST: usize = 6;
