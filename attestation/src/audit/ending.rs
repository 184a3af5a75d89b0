//! Did the attempt end, and as its statements say? An aborted attempt opened nothing: it has no sums, and fewer than t
//! reveals. Two exceptions are allowed and held to their word: an abort that blames a dealer, whose secret then must
//! really not come out; and an attempt without an end, as a server that crashed leaves it, if fewer than t revealed.

use super::agreement::Agreed;
use super::complaint::Complaints;
use super::course::{closed, courses};
use super::log::head_at;
use super::report::{Check, Report};
use super::reveal::Opening;
use super::scene::Scene;
use super::verdict::{CheckName, HeadSummary, ReleasedCluster, RoundSummary};
use crate::bundle::End;
use crate::merkle::Tree;
use crate::release::release_for;
use crate::statement::{Aborted, Phase, Plan};
use std::collections::BTreeSet;
use veilsum_crypto::{ClientId, ClusterId};

pub(super) fn check(scene: &Scene<'_>, opening: &Opening, complaints: &Complaints, report: &mut Report) {
    let attempt = scene.attempt;
    let mut check = report.check(CheckName::Ending, scene.place);
    let revealed = revealers(scene);
    match &attempt.end {
        Some(End::Sums(_)) => {}
        Some(End::Aborted(said)) => aborted(&mut check, scene, &said.body, opening, complaints),
        None if revealed >= scene.threshold() => {
            check.violated(|| {
                format!("{revealed} clients revealed, enough to open sums, and none were published")
            });
        }
        None => check.not_checkable(
            "the attempt has no end: the server stopped, or the bundle was made during the round".to_owned(),
        ),
    }
    let uploaded: BTreeSet<_> = attempt.masked.values().map(|said| said.leaf).collect();
    for late in &attempt.lates {
        let body = &late.body;
        let place = Some((body.round, body.attempt));
        check.demand(place == scene.place, || {
            format!("entry {}: late in another attempt than its own", late.index)
        });
        check.demand(scene.book().members().contains_key(&body.client), || {
            format!("{} was late and is not enrolled", body.client)
        });
        check.demand(!uploaded.contains(&body.digest), || {
            format!(
                "the masked statement of {} is called late and was counted",
                body.client
            )
        });
    }
    check.done();
}

fn aborted(
    check: &mut Check<'_>,
    scene: &Scene<'_>,
    body: &Aborted,
    opening: &Opening,
    complaints: &Complaints,
) {
    let attempt = scene.attempt;
    check.demand(Some((body.round, body.attempt)) == scene.place, || {
        "the abort is of another attempt".to_owned()
    });
    // Whoever names a phase must have come to it and no further.
    let (joined, dealt, uploaded) = (attempt.keys.len(), attempt.shares.len(), attempt.masked.len());
    let (signed, revealed) = (attempt.agrees.len(), revealers(scene));
    let reached = [dealt, uploaded, signed, revealed];
    let beyond = match body.phase {
        Phase::Advertise => reached.get(..),
        Phase::Share => reached.get(1..),
        Phase::Mask => reached.get(2..),
        Phase::Agree => reached.get(3..),
        Phase::Unmask | Phase::Publish => None,
    };
    check.demand(beyond.unwrap_or_default().iter().all(|count| *count == 0), || {
        format!(
            "aborted in phase {} with statements of a later one",
            body.phase.name()
        )
    });

    let need = scene.threshold();
    let reason = reason(body);
    let too_few = |phase, have| body.phase == phase && have < need;
    let holds = match reason.as_str() {
        "TooFewKeys" => Some(too_few(Phase::Advertise, joined)),
        "TooFewShares" => Some(too_few(Phase::Share, dealt)),
        "TooFewMasked" => Some(too_few(Phase::Mask, scene.counted().len())),
        "TooFewAgree" => Some(too_few(Phase::Agree, signed)),
        "TooFewReveal" => Some(too_few(Phase::Unmask, revealed)),
        "ReleaseLeaks" => Some(
            body.phase == Phase::Mask
                && release_for(scene.plan(), &scene.counted(), scene.book(), scene.policy())
                    .is_ok_and(|release| release.is_empty()),
        ),
        "BadDealer" => Some(
            !body.culprits.is_empty()
                && body.culprits.iter().all(|culprit| {
                    opening.bad_dealers.contains(culprit)
                        || (complaints.against(*culprit)
                            && attempt
                                .masked
                                .keys()
                                .filter(|holder| !complaints.between(*culprit, **holder))
                                .count()
                                < need)
                }),
        ),
        _ => None,
    };
    match holds {
        Some(true) => {}
        Some(false) => check.violated(|| {
            format!("the attempt was aborted for {reason}, which its statements do not bear out")
        }),
        None => check.not_checkable(format!(
            "the attempt was aborted for {reason}, which leaves no trace in a log"
        )),
    }
    if reason != "BadDealer" {
        check.demand(body.culprits.is_empty(), || {
            format!("{reason} is nobody's fault, and somebody is blamed")
        });
        check.demand(revealed < need, || {
            format!("{revealed} clients revealed, enough to open sums, and the attempt is said to be aborted")
        });
    }
}

/// The attempt in short; `end` is the size of the log after it.
pub(super) fn summary(scene: &Scene<'_>, agreed: Option<&Agreed<'_>>, tree: &Tree, end: u64) -> RoundSummary {
    let plan = scene.plan();
    let agreed_on = agreed.map(|agreed| agreed.body.survivors.clone());
    let counting = agreed_on.unwrap_or_default();
    let survivors: Vec<ClientId> = counting.iter().copied().collect();
    let released: Vec<ReleasedCluster> = scene
        .attempt
        .sums()
        .map(|sums| {
            let results = sums.body.results.iter();
            results
                .map(|result| ReleasedCluster {
                    cluster: result.cluster,
                    contributors: result.contributors,
                    weight: result.weight,
                    model: result.model.to_hex(),
                })
                .collect()
        })
        .unwrap_or_default();
    let open: Vec<ClusterId> = released.iter().map(|one| one.cluster).collect();
    RoundSummary {
        round: plan.round,
        attempt: plan.attempt,
        dropped: scene
            .attempt
            .keys
            .keys()
            .copied()
            .filter(|client| !survivors.contains(client))
            .collect(),
        courses: courses(scene, &counting),
        closed: closed(scene, agreed, &open),
        clusters: planned(plan),
        survivors,
        withheld: plan
            .numbered()
            .map(|(cluster, _)| cluster)
            .filter(|cluster| !open.contains(cluster))
            .collect(),
        released,
        head: HeadSummary {
            size: end,
            root: head_at(tree, end)
                .map(|head| head.root.to_hex())
                .unwrap_or_default(),
        },
        aborted: match &scene.attempt.end {
            Some(End::Sums(_)) => None,
            Some(End::Aborted(said)) => Some(reason(&said.body)),
            None => Some("Unfinished".to_owned()),
        },
    }
}

/// The clients of each cluster.
pub(super) fn planned(plan: &Plan) -> Vec<Vec<ClientId>> {
    let clusters = plan.clusters.iter();
    clusters
        .map(|cluster| cluster.members.iter().copied().collect())
        .collect()
}

/// The reason's name, with anything but letters and digits left out: it may reach a terminal.
pub(super) fn reason(body: &Aborted) -> String {
    body.reason
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(|byte| char::from(*byte))
        .collect()
}

fn revealers(scene: &Scene<'_>) -> usize {
    let clients: BTreeSet<ClientId> = scene.attempt.reveals.iter().map(|(client, _)| *client).collect();
    clients.len()
}
