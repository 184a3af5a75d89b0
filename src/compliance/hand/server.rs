//! A dishonest server: what it sends, what it keeps back, what it writes down.

use super::{body, bounded, signer};
use crate::compliance::EngineError;
use crate::compliance::fault::Deed;
use crate::compliance::script::{Act, View};
use std::collections::BTreeMap;
use veilsum_aggregation::message::{Agreement, EntryBytes, Inbox, PlanMessage, Proposal, Roster};
use veilsum_aggregation::{ToClient, ToServer};
use veilsum_attestation::release::release_for;
use veilsum_attestation::statement::{
    Agree, ClientSet, ClusterPlan, ClusterResult, Entry, Keys, Kind, Plan, Sums, leaf_hash, roster_digest,
};
use veilsum_attestation::{Head, Log};
use veilsum_crypto::{ClientId, Digest, wire};

/// Messages and whom they are for.
type Downs = Vec<(ClientId, ToClient)>;

/// What goes out in place of a message.
pub(in crate::compliance) fn sends(
    act: &mut Act,
    view: &View<'_>,
    to: ClientId,
    message: ToClient,
) -> Result<Downs, EngineError> {
    let aimed = act.who.contains(&to);
    let sent = match (act.spec.does, message) {
        (Deed::LeakInPlan, ToClient::Plan(plan)) => forged_plan(view, plan, leak)?,
        (Deed::ForeignPolicy, ToClient::Plan(plan)) => forged_plan(view, plan, |plan| {
            plan.policy = Digest([6; 32]);
            Ok(())
        })?,
        (Deed::ForkedPlan, ToClient::Plan(plan)) => forged_plan(view, plan, |plan| {
            plan.head.root = Digest([1; 32]);
            Ok(())
        })?,
        (Deed::TwoModels, ToClient::Plan(plan)) if aimed => forged_plan(view, plan, |plan| {
            let mut clusters = plan.clusters.to_vec();
            for cluster in &mut clusters {
                cluster.model = Digest([9; 32]);
            }
            plan.clusters = bounded(clusters)?;
            Ok(())
        })?,
        (Deed::TwoModels, ToClient::Roster(roster)) => return all_keys(act, to, &roster),
        (Deed::SwapKey, ToClient::Roster(roster)) => swapped_key(act, roster)?,
        (Deed::BendBox, ToClient::Inbox(inbox)) if aimed => bent_box(inbox)?,
        // Whom it keeps away from its honest part it does not tell so.
        (
            Deed::TwoModels | Deed::TwoSurvivorSets | Deed::TwoHeads | Deed::SetEach,
            ToClient::Refused(refused),
        ) if aimed && refused.round == view.round => return Ok(Vec::new()),
        (Deed::HideDealer, message) => return hidden_dealer(act, view, to, message),
        (Deed::LeaveOut, ToClient::Proposal(proposal)) if aimed => {
            let survivors = proposal
                .survivors
                .iter()
                .copied()
                .filter(|client| *client != to)
                .collect();
            reproposed(view, proposal, survivors)?
        }
        (Deed::WidenRelease, ToClient::Proposal(proposal)) => {
            let release = bounded(view.plan()?.numbered().map(|(cluster, _)| cluster).collect())?;
            signed_proposal(view, Proposal { release, ..proposal })?
        }
        (Deed::TwoSurvivorSets | Deed::SetEach, ToClient::Proposal(proposal)) if aimed => {
            // The victim is somebody the other side knows to be a survivor.
            let victim = proposal
                .survivors
                .iter()
                .copied()
                .find(|client| !act.who.contains(client));
            let survivors = proposal
                .survivors
                .iter()
                .copied()
                .filter(|client| Some(*client) != victim)
                .collect();
            reproposed(view, proposal, survivors)?
        }
        (Deed::TwoHeads, ToClient::Proposal(proposal)) if aimed => forked_head(view, to, proposal)?,
        (Deed::TwoSurvivorSets | Deed::TwoHeads | Deed::SetEach, ToClient::Agreement(agreement)) => {
            return both_sides(act, to, &agreement);
        }
        (Deed::FewSignatures, ToClient::Agreement(agreement)) => {
            let few = view.federation.policy.threshold as usize - 1;
            ToClient::Agreement(Agreement {
                agrees: bounded(agreement.agrees.iter().take(few).cloned().collect())?,
            })
        }
        (Deed::AskAgain, ToClient::Agreement(agreement)) if aimed => {
            act.memory.agreements.insert(to, agreement.agrees.to_vec());
            ToClient::Agreement(agreement)
        }
        (Deed::WrongSum | Deed::WrongModel, ToClient::Published(entry)) => {
            ToClient::Published(act.memory.entries.first().cloned().unwrap_or(entry))
        }
        (_, message) => message,
    };
    Ok(vec![(to, sent)])
}

/// What the server's machine hears of a message, and what goes out because of it.
pub(in crate::compliance) fn hears(
    act: &mut Act,
    view: &View<'_>,
    from: ClientId,
    message: ToServer,
) -> Result<(Option<ToServer>, Downs), EngineError> {
    let aimed = act.who.contains(&from);
    match (act.spec.does, &message) {
        (Deed::TwoModels, ToServer::Keys(entry))
        | (Deed::TwoSurvivorSets | Deed::TwoHeads | Deed::SetEach, ToServer::Agree(entry))
            if aimed =>
        {
            act.memory.entries.push(entry.clone());
            Ok((None, Vec::new()))
        }
        (Deed::AskAgain, ToServer::Reveal(_)) if aimed && act.memory.served.insert(from) => {
            let mut agrees = act.memory.agreements.get(&from).cloned().unwrap_or_default();
            // One signer helps: another release under its signature.
            if let Some(first) = agrees.first_mut()
                && let Some(client) = signer(first)
            {
                let mut agree: Agree = body(first)?;
                agree.release = bounded(agree.release.iter().skip(1).copied().collect())?;
                *first = view.federation.by_client(client, agree)?;
            }
            let again = ToClient::Agreement(Agreement {
                agrees: bounded(agrees)?,
            });
            Ok((Some(message), vec![(from, again)]))
        }
        _ => Ok((Some(message), Vec::new())),
    }
}

/// What the server writes down in place of an entry.
pub(in crate::compliance) fn records(
    act: &mut Act,
    view: &View<'_>,
    entry: Vec<u8>,
) -> Result<Vec<u8>, EngineError> {
    if !matches!(act.spec.does, Deed::WrongSum | Deed::WrongModel)
        || wire::decode::<Entry>(&entry)?.kind != Kind::Sums
    {
        return Ok(entry);
    }
    let mut sums: Sums = body(&entry)?;
    let mut results: Vec<ClusterResult> = sums.results.to_vec();
    if let Some(result) = results.first_mut() {
        let digest = if act.spec.does == Deed::WrongSum {
            &mut result.sum
        } else {
            &mut result.model
        };
        if let Some(byte) = digest.0.first_mut() {
            *byte ^= 1;
        }
    }
    sums.results = bounded(results)?;
    let forged = view.federation.by_server(sums)?;
    act.memory.entries = vec![forged.clone()];
    Ok(forged.into_vec())
}

fn forged_plan(
    view: &View<'_>,
    message: PlanMessage,
    change: impl FnOnce(&mut Plan) -> Result<(), EngineError>,
) -> Result<ToClient, EngineError> {
    let mut plan: Plan = body(&message.entry)?;
    change(&mut plan)?;
    Ok(ToClient::Plan(PlanMessage {
        entry: view.federation.by_server(plan)?,
        ..message
    }))
}

/// One more cluster: the first less one client. The difference of the two sums is that client.
fn leak(plan: &mut Plan) -> Result<(), EngineError> {
    let mut clusters = plan.clusters.to_vec();
    let Some(first) = clusters.first() else {
        return Ok(());
    };
    let members: ClientSet = first.members.iter().copied().skip(1).collect();
    let twin = ClusterPlan {
        model: first.model,
        members,
    };
    clusters.push(twin);
    plan.clusters = bounded(clusters)?;
    Ok(())
}

/// The roster with the keys that were kept back, for everybody.
fn all_keys(act: &mut Act, to: ClientId, roster: &Roster) -> Result<Downs, EngineError> {
    let mut keys: BTreeMap<Option<ClientId>, EntryBytes> = roster
        .keys
        .iter()
        .map(|entry| (signer(entry), entry.clone()))
        .collect();
    for entry in &act.memory.entries {
        keys.insert(signer(entry), entry.clone());
    }
    let whole = Roster {
        keys: bounded(keys.into_values().collect())?,
    };
    let mut sent = vec![(to, ToClient::Roster(whole.clone()))];
    for client in act.who.iter().copied() {
        if act.memory.served.insert(client) {
            sent.push((client, ToClient::Roster(whole.clone())));
        }
    }
    Ok(sent)
}

fn swapped_key(act: &Act, roster: Roster) -> Result<ToClient, EngineError> {
    let mut keys = roster.keys.into_vec();
    let donor: Option<Keys> = keys
        .iter()
        .find(|entry| signer(entry).is_some_and(|client| !act.who.contains(&client)))
        .and_then(|entry| body(entry).ok());
    for slot in &mut keys {
        if signer(slot).is_some_and(|client| act.who.contains(&client))
            && let Some(donor) = &donor
        {
            let mut entry: Entry = wire::decode(slot)?;
            let mut forged: Keys = wire::decode(&entry.body)?;
            forged.mask_key = donor.mask_key;
            entry.body = bounded(wire::encode(&forged)?)?;
            *slot = bounded(wire::encode(&entry)?)?;
        }
    }
    Ok(ToClient::Roster(Roster { keys: bounded(keys)? }))
}

fn bent_box(inbox: Inbox) -> Result<ToClient, EngineError> {
    let mut boxes = inbox.boxes.into_vec();
    if let Some(first) = boxes.first_mut() {
        let mut sealed = first.sealed.to_vec();
        if let Some(byte) = sealed.get_mut(3) {
            *byte ^= 1;
        }
        first.sealed = bounded(sealed)?;
    }
    Ok(ToClient::Inbox(Inbox {
        boxes: bounded(boxes)?,
        ..inbox
    }))
}

fn hidden_dealer(
    act: &mut Act,
    view: &View<'_>,
    to: ClientId,
    message: ToClient,
) -> Result<Downs, EngineError> {
    let aimed = act.who.contains(&to);
    match message {
        ToClient::Inbox(inbox) if aimed => {
            let dealer = inbox.boxes.first().map(|sealed| sealed.dealer);
            let shares = inbox
                .shares
                .iter()
                .filter(|entry| signer(entry) != dealer)
                .cloned()
                .collect();
            let boxes = inbox
                .boxes
                .iter()
                .filter(|sealed| Some(sealed.dealer) != dealer)
                .cloned()
                .collect();
            let told = Inbox {
                shares: bounded(shares)?,
                boxes: bounded(boxes)?,
            };
            Ok(vec![(to, ToClient::Inbox(told))])
        }
        // The honest part of this server would refuse the vector and say so; the dishonest part keeps quiet.
        ToClient::Refused(refused) if aimed && refused.round == view.round => Ok(Vec::new()),
        ToClient::Proposal(proposal) => {
            let mut sent = vec![(to, ToClient::Proposal(proposal.clone()))];
            for client in act.who.iter().copied() {
                if act.memory.served.insert(client) {
                    let survivors = proposal.survivors.iter().copied().chain([client]).collect();
                    sent.push((client, reproposed(view, proposal.clone(), survivors)?));
                }
            }
            Ok(sent)
        }
        message => Ok(vec![(to, message)]),
    }
}

/// A proposal of other survivors, with the release the rule gives for them.
fn reproposed(view: &View<'_>, proposal: Proposal, survivors: ClientSet) -> Result<ToClient, EngineError> {
    let federation = view.federation;
    let release = release_for(&view.plan()?, &survivors, &federation.book, &federation.policy)
        .map_err(|_| EngineError::Internal("the plan is no membership matrix"))?;
    signed_proposal(
        view,
        Proposal {
            survivors,
            release: bounded(release)?,
            ..proposal
        },
    )
}

/// A proposal under the server's own good signature.
fn signed_proposal(view: &View<'_>, proposal: Proposal) -> Result<ToClient, EngineError> {
    let federation = view.federation;
    let (mut roster, mut sharers, mut plan) = (Vec::new(), Vec::new(), Digest([0; 32]));
    for bytes in view.log {
        let entry: Entry = wire::decode(bytes)?;
        match entry.kind {
            Kind::Plan => {
                plan = leaf_hash(bytes);
                roster.clear();
                sharers.clear();
            }
            Kind::Keys => roster.push((signer(bytes), leaf_hash(bytes))),
            Kind::Shares => sharers.extend(signer(bytes)),
            _ => {}
        }
    }
    roster.sort_unstable();
    let leaves: Vec<Digest> = roster.into_iter().map(|(_, leaf)| leaf).collect();
    let agree = Agree {
        plan,
        roster: roster_digest(&leaves),
        sharers: sharers.into_iter().collect(),
        survivors: proposal.survivors.clone(),
        release: proposal.release.clone(),
        head: proposal.head,
        server: proposal.server,
    };
    let agree = agree.propose(&federation.server_identity()?, federation.book.federation())?;
    Ok(ToClient::Proposal(Proposal {
        server: agree.server,
        ..proposal
    }))
}

/// The same proposal over a log in which the last two entries changed places: it extends the plan's head as well.
fn forked_head(view: &View<'_>, to: ClientId, proposal: Proposal) -> Result<ToClient, EngineError> {
    let size = usize::try_from(proposal.head.size).unwrap_or(usize::MAX);
    let mut entries = view.log.get(..size).unwrap_or(view.log).to_vec();
    let last = entries.len().saturating_sub(1);
    entries.swap(last.saturating_sub(1), last);
    let fork = Log::from_entries(entries);
    let mine = |entry: &Vec<u8>| {
        signer(entry) == Some(to)
            && wire::decode::<Entry>(entry).is_ok_and(|entry| entry.kind == Kind::Masked)
    };
    let index = fork
        .entries()
        .iter()
        .rposition(mine)
        .ok_or(EngineError::Internal("a survivor without a vector"))? as u64;
    let head: Head = fork.head();
    let plan = view.plan()?;
    signed_proposal(
        view,
        Proposal {
            head,
            index,
            inclusion: bounded(fork.inclusion(index, head.size).unwrap_or_default())?,
            consistency: bounded(fork.consistency(plan.head.size, head.size).unwrap_or_default())?,
            ..proposal
        },
    )
}

/// The signatures of both sides for everybody, or those of its own side for each.
fn both_sides(act: &mut Act, to: ClientId, agreement: &Agreement) -> Result<Downs, EngineError> {
    let each = act.spec.does == Deed::SetEach;
    let mut all: BTreeMap<Option<ClientId>, EntryBytes> = BTreeMap::new();
    if !each {
        all.extend(
            agreement
                .agrees
                .iter()
                .map(|entry| (signer(entry), entry.clone())),
        );
    }
    let other_side = act
        .memory
        .entries
        .iter()
        .map(|entry| (signer(entry), entry.clone()));
    all.extend(other_side);
    let mixed = Agreement {
        agrees: bounded(all.into_values().collect())?,
    };
    let first = if each { agreement.clone() } else { mixed.clone() };
    let mut sent = vec![(to, ToClient::Agreement(first))];
    for client in act.who.iter().copied() {
        if act.memory.served.insert(client) {
            sent.push((client, ToClient::Agreement(mixed.clone())));
        }
    }
    Ok(sent)
}
