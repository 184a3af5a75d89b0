//! What must hold in every run, whatever goes wrong.

use super::EngineError;
use super::facts::Ending;
use super::world::World;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_attestation::audit::{Auditor, Trust, Verdict};
use veilsum_attestation::release::release_for;
use veilsum_attestation::statement::{Agree, ClientSet, Entry, Kind, Party, Plan, Reveal, Statement, Sums};
use veilsum_crypto::{Attempt, ClientId, ClusterId, Digest, RoundId, wire};

/// The statements of one attempt, as the log has them.
#[derive(Default)]
pub(super) struct Logged {
    pub(super) plan: Option<Plan>,
    pub(super) agrees: BTreeMap<Digest, (Agree, BTreeSet<ClientId>)>,
    pub(super) self_owners: BTreeSet<ClientId>,
    pub(super) mask_owners: BTreeSet<ClientId>,
    pub(super) sums: Option<Sums>,
    pub(super) kinds: BTreeSet<String>,
}

/// The log, attempt by attempt.
pub(super) fn attempts(log: &[Vec<u8>]) -> Result<Vec<Logged>, EngineError> {
    let mut attempts: Vec<Logged> = Vec::new();
    for bytes in log {
        let entry: Entry = wire::decode(bytes)?;
        if entry.kind == Kind::Plan {
            attempts.push(Logged::default());
        }
        let Some(attempt) = attempts.last_mut() else {
            continue;
        };
        attempt.kinds.insert(format!("{:?}", entry.kind).to_lowercase());
        match entry.kind {
            Kind::Plan => attempt.plan = Some(read(&entry)?),
            Kind::Agree => {
                let agree: Agree = read(&entry)?;
                let digest = agree.digest()?;
                let (_, signers) = attempt
                    .agrees
                    .entry(digest)
                    .or_insert_with(|| (agree, BTreeSet::new()));
                if let Party::Client(client) = entry.signer {
                    signers.insert(client);
                }
            }
            Kind::Reveal => {
                let reveal: Reveal = read(&entry)?;
                attempt
                    .self_owners
                    .extend(reveal.self_shares.iter().map(|share| share.owner));
                attempt
                    .mask_owners
                    .extend(reveal.mask_shares.iter().map(|share| share.owner));
            }
            Kind::Sums => attempt.sums = Some(read(&entry)?),
            _ => {}
        }
    }
    Ok(attempts)
}

fn read<S: Statement>(entry: &Entry) -> Result<S, EngineError> {
    Ok(wire::decode(&entry.body)?)
}

/// Everything that must hold, each broken rule as a sentence.
pub(super) fn broken(world: &World) -> Result<Vec<String>, EngineError> {
    let mut broken = world.facts.broken.clone();
    one_answer_each(world, &mut broken);
    let attempts = attempts(world.disk.entries())?;
    for logged in &attempts {
        log_rules(world, logged, &mut broken);
    }
    for (round, attempt, ending) in &world.facts.endings {
        let logged = attempts.iter().find(|logged| {
            logged
                .plan
                .as_ref()
                .is_some_and(|plan| (plan.round, plan.attempt) == (*round, *attempt))
        });
        ending_rules(world, (*round, *attempt), ending, logged, &mut broken);
    }
    Ok(broken)
}

/// One agreement, one vector and one answer per client; one kind of share per owner.
fn one_answer_each(world: &World, broken: &mut Vec<String>) {
    let facts = &world.facts;
    for ((client, round, attempt), digests) in &facts.agrees {
        if digests.len() > 1 {
            broken.push(format!(
                "{client} signed {} agreements in {round}, {attempt}",
                digests.len()
            ));
        }
    }
    for ((client, round, attempt), digests) in &facts.masked {
        if digests.len() > 1 {
            broken.push(format!(
                "{client} announced {} vectors in {round}, {attempt}",
                digests.len()
            ));
        }
    }
    for ((client, round), digests) in &facts.reveals {
        if digests.len() > 1 {
            broken.push(format!("{client} answered {} times in {round}", digests.len()));
        }
    }
    for (place, selves) in &facts.self_owners {
        let masks = facts.mask_owners.get(place).cloned().unwrap_or_default();
        for owner in selves.intersection(&masks) {
            broken.push(format!(
                "honest clients sent both share kinds of {owner} in {}",
                place.0
            ));
        }
    }
}

fn log_rules(world: &World, logged: &Logged, broken: &mut Vec<String>) {
    for owner in logged.self_owners.intersection(&logged.mask_owners) {
        broken.push(format!("both share kinds of {owner} are in the log"));
    }
    let Some(sums) = &logged.sums else {
        return;
    };
    let threshold = world.federation.policy.threshold as usize;
    match logged.agrees.get(&sums.agreement) {
        Some((agree, signers)) => {
            if signers.len() < threshold {
                broken.push(format!(
                    "sums were opened with {} signatures of {threshold}",
                    signers.len()
                ));
            }
            let opened: Vec<ClusterId> = sums.results.iter().map(|result| result.cluster).collect();
            if opened != *agree.release {
                broken.push("sums were opened outside the release".into());
            }
        }
        None => broken.push("sums were opened without an agreement in the log".into()),
    }
}

fn ending_rules(
    world: &World,
    place: (RoundId, Attempt),
    ending: &Ending,
    logged: Option<&Logged>,
    broken: &mut Vec<String>,
) {
    let sums = logged.and_then(|logged| logged.sums.as_ref());
    let Ending::Sum(outcome) = ending else {
        if sums.is_some() {
            broken.push(format!("{} ended without a sum and one was opened", place.0));
        }
        return;
    };
    for opened in &outcome.opened {
        if opened.sum != world.plain_sum(opened.cluster, &outcome.survivors) {
            broken.push(format!(
                "the sum of {} is not that of the survivors",
                opened.cluster
            ));
        }
    }
    let opened: Vec<ClusterId> = outcome.opened.iter().map(|opened| opened.cluster).collect();
    let plan = logged.and_then(|logged| logged.plan.as_ref());
    if plan.and_then(|plan| rule(world, plan, &outcome.survivors)) != Some(opened) {
        broken.push("other clusters were opened than the disclosure rule releases".into());
    }
    // Whether the survivor set was ever signed by t clients is in the log rules; here, that it is the one opened.
    let signed = logged.is_some_and(|logged| {
        logged
            .agrees
            .values()
            .any(|(agree, _)| agree.survivors == outcome.survivors)
    });
    if !signed {
        broken.push("a sum over a survivor set that nobody signed".into());
    }
}

/// The clusters the rule releases on a survivor set.
pub(super) fn rule(world: &World, plan: &Plan, survivors: &ClientSet) -> Option<Vec<ClusterId>> {
    let federation = &world.federation;
    release_for(plan, survivors, &federation.book, &federation.policy).ok()
}

/// What the auditor says to the run's bundle.
pub(super) fn audit(world: &World) -> Result<Verdict, EngineError> {
    let trust = world.federation.trust()?;
    let auditor = Auditor::new(Trust {
        name: trust.federation,
        authority: trust.authority,
    })?;
    let bundle = world.disk.bundle(&world.federation)?;
    Ok(auditor.audit(bundle.as_slice(), &mut |_| ())?)
}
