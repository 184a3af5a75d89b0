//! Whether a run ended as its scenario says.

use super::EngineError;
use super::facts::Ending;
use super::invariant::{self, Logged};
use super::scenario::{Case, Expect, RefusedSpec};
use super::world::World;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_aggregation::Outcome;
use veilsum_attestation::audit::Verdict;
use veilsum_attestation::block::counted;
use veilsum_attestation::statement::ClientSet;
use veilsum_crypto::ClientId;

/// What was seen, and what of it is not as expected.
#[derive(Clone, Debug, Default)]
pub(super) struct Judgement {
    pub(super) observed: String,
    pub(super) wrong: Vec<String>,
}

/// Judges a finished run.
pub(super) fn judge(
    world: &mut World,
    case: &Case,
    by_check: &[&'static str],
) -> Result<Judgement, EngineError> {
    let expect = &case.expect;
    refuse_models(world);
    let mut judgement = Judgement {
        wrong: invariant::broken(world)?,
        ..Judgement::default()
    };
    let attempts = invariant::attempts(world.disk.entries())?;
    judge_ending(world, expect, attempts.last(), &mut judgement)?;
    judge_refusals(world, expect, by_check, &mut judgement)?;
    if let Some(last) = attempts.last() {
        judge_log(world, expect, last, &mut judgement)?;
    }
    let verdict = invariant::audit(world);
    judge_audit(expect, &verdict, &mut judgement);
    Ok(judgement)
}

/// A client loads a model only under the digest that was published.
fn refuse_models(world: &mut World) {
    let wrong: Vec<ClientId> = world
        .facts
        .done
        .iter()
        .filter(|(_, models)| !world.believes(models))
        .map(|(client, _)| *client)
        .collect();
    for client in wrong {
        world.facts.by_client.push((client, "WrongModel"));
    }
}

fn judge_ending(
    world: &World,
    expect: &Expect,
    logged: Option<&Logged>,
    judgement: &mut Judgement,
) -> Result<(), EngineError> {
    let ending = world.facts.ending().map(|(_, _, ending)| ending);
    judgement.observed = match ending {
        None => "nothing".to_owned(),
        Some(Ending::Sum(outcome)) => said_sum(world, outcome),
        Some(Ending::Abort(name)) => format!("abort {name}"),
        Some(Ending::ServerStopped) => "the server stopped (Storage)".to_owned(),
    };
    let invited: BTreeSet<ClientId> = world.federation.clusters.iter().flatten().copied().collect();
    if expect.sum {
        let out = union(world, &expect.out)?;
        let may = union(world, &expect.may_be_out)?;
        let must: ClientSet = invited
            .iter()
            .copied()
            .filter(|client| !out.contains(client) && !may.contains(client))
            .collect();
        let least = world.federation.policy.blocks;
        let (out, must) = match logged.and_then(|logged| logged.plan.as_ref()) {
            // Whoever is out takes its group along.
            Some(plan) if least > 0 => {
                let must = counted(plan, least, &must);
                let out = invited.iter().copied().filter(|client| !must.contains(client));
                (out.collect(), must)
            }
            _ => (out, must),
        };
        match ending {
            Some(Ending::Sum(outcome)) => {
                if !must.is_subset(&outcome.survivors) {
                    judgement
                        .wrong
                        .push("somebody is missing among the survivors".into());
                }
                if outcome
                    .survivors
                    .iter()
                    .any(|client| out.contains(client) && !may.contains(client))
                {
                    judgement.wrong.push("somebody survived who must be out".into());
                }
                if expect
                    .withheld
                    .is_some_and(|withheld| withheld != outcome.withheld.len())
                {
                    judgement
                        .wrong
                        .push("another number of clusters was withheld".into());
                }
            }
            // Where the rule opens nothing on the survivors there must be, the sum that is due is none.
            Some(Ending::Abort(name)) if name == "ReleaseLeaks" && expect.withheld.is_none() => {
                let plan = logged.and_then(|logged| logged.plan.as_ref());
                let released = plan.and_then(|plan| invariant::rule(world, plan, &must));
                if released.is_none_or(|released| !released.is_empty()) {
                    judgement
                        .wrong
                        .push("nothing was released and something can be".into());
                }
            }
            _ => judgement.wrong.push("no sum was opened".into()),
        }
    }
    if let Some(name) = &expect.abort
        && !matches!(ending, Some(Ending::Abort(got)) if got == name)
    {
        judgement.wrong.push(format!("it did not end with {name}"));
    }
    match expect.stopped.as_deref() {
        Some("server") if !matches!(ending, Some(Ending::ServerStopped)) => {
            judgement.wrong.push("the server did not stop".into());
        }
        Some("server") | None => {}
        Some(name) => {
            if world.script.cast.named(name).map_err(EngineError::Words)? != world.facts.stopped {
                judgement
                    .wrong
                    .push("other clients stopped than those whose disks are full".into());
            }
        }
    }
    Ok(())
}

fn said_sum(world: &World, outcome: &Outcome) -> String {
    let invited: BTreeSet<ClientId> = world.federation.clusters.iter().flatten().copied().collect();
    format!(
        "sum of {} of {} clients, {} opened, {} withheld",
        outcome.survivors.len(),
        invited.len(),
        outcome.opened.len(),
        outcome.withheld.len()
    )
}

fn judge_refusals(
    world: &World,
    expect: &Expect,
    by_check: &[&'static str],
    judgement: &mut Judgement,
) -> Result<(), EngineError> {
    let facts = &world.facts;
    let counted = |list: &[(ClientId, &'static str)]| {
        let mut names: BTreeMap<&'static str, BTreeSet<ClientId>> = BTreeMap::new();
        for (client, name) in list.iter().filter(|(_, name)| *name != ENDED) {
            names.entry(name).or_default().insert(*client);
        }
        names
    };
    let (server, clients) = (counted(&facts.by_server), counted(&facts.by_client));
    let mut seen: Vec<String> = server
        .iter()
        .map(|(name, whom)| format!("server refuses {} ({name})", whom.len()))
        .collect();
    seen.extend(
        clients
            .iter()
            .map(|(name, who)| format!("{} clients refuse ({name})", who.len())),
    );
    seen.extend(by_check.iter().map(|name| format!("refused ({name})")));
    if !seen.is_empty() {
        judgement.observed = format!("{}; {}", judgement.observed, seen.join("; "));
    }
    let mut expected: BTreeSet<(bool, &str)> = BTreeSet::new();
    for spec in &expect.refused {
        let by_server = spec.by == "server";
        expected.insert((by_server, &spec.name));
        let who = if by_check.contains(&spec.name.as_str()) {
            continue;
        } else if by_server {
            whom(world, spec)?
        } else {
            world.script.cast.named(&spec.by).map_err(EngineError::Words)?
        };
        let names = if by_server { &server } else { &clients };
        let got = names.get(spec.name.as_str()).cloned().unwrap_or_default();
        if got.is_empty() || !who.is_subset(&got) {
            judgement
                .wrong
                .push(format!("{} is not refused by {} as it must", spec.name, spec.by));
        }
    }
    if !expect.any_refusal {
        let unexpected = server
            .keys()
            .map(|name| (true, *name))
            .chain(clients.keys().map(|name| (false, *name)))
            .filter(|seen| !expected.contains(seen) && *seen != (true, LATE))
            .filter(|seen| !expect.also.iter().any(|name| name == seen.1));
        for (by_server, name) in unexpected {
            let by = if by_server { "the server" } else { "clients" };
            judgement.wrong.push(format!("{name} by {by} was not expected"));
        }
    }
    Ok(())
}

fn whom(world: &World, spec: &RefusedSpec) -> Result<BTreeSet<ClientId>, EngineError> {
    match &spec.whom {
        Some(words) => world.script.cast.named(words).map_err(EngineError::Words),
        None => Ok(BTreeSet::new()),
    }
}

fn judge_log(
    world: &World,
    expect: &Expect,
    last: &Logged,
    judgement: &mut Judgement,
) -> Result<(), EngineError> {
    if let Some(names) = &expect.mask_keys_of
        && union(world, names)? != last.mask_owners
    {
        judgement
            .wrong
            .push("the mask keys of other clients were opened".into());
    }
    for kind in &expect.logged {
        if !last.kinds.contains(kind) {
            judgement
                .wrong
                .push(format!("there is no `{kind}` statement in the log"));
        }
    }
    Ok(())
}

fn judge_audit(expect: &Expect, verdict: &Result<Verdict, EngineError>, judgement: &mut Judgement) {
    let found: BTreeSet<String> = match verdict {
        Ok(verdict) => verdict
            .violations()
            .map(|finding| finding.check.name().to_owned())
            .collect(),
        Err(error) => {
            judgement.wrong.push(format!("there is no verdict: {error}"));
            return;
        }
    };
    let expected: BTreeSet<String> = expect.violated.iter().cloned().collect();
    let word = if found.is_empty() {
        "verified".to_owned()
    } else {
        format!(
            "violated ({})",
            found.iter().cloned().collect::<Vec<_>>().join(", ")
        )
    };
    judgement.observed = format!("{}; audit {word}", judgement.observed);
    if found != expected {
        let reasons: Vec<String> = verdict
            .as_ref()
            .map(|verdict| {
                verdict
                    .violations()
                    .map(|finding| {
                        format!(
                            "{}: {}",
                            finding.check,
                            finding.status.reason().unwrap_or_default()
                        )
                    })
                    .collect()
            })
            .unwrap_or_default();
        judgement.wrong.push(format!(
            "the auditor's verdict does not fit: {}",
            reasons.join("; ")
        ));
    }
}

fn union(world: &World, names: &[String]) -> Result<BTreeSet<ClientId>, EngineError> {
    let mut all = BTreeSet::new();
    for name in names {
        all.extend(world.script.cast.named(name).map_err(EngineError::Words)?);
    }
    Ok(all)
}

/// A client's way of saying that the server told it that the round is over for it; never a reason of its own.
const ENDED: &str = "Ended";
/// What the server says to whoever does not answer by a deadline, whatever the reason: never a surprise. Who is out is judged
/// by the survivors.
const LATE: &str = "Late";
