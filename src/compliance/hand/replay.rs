//! Replays: a message is exchanged for one heard elsewhere.

use crate::compliance::fault::{Deed, MessageName, Source};
use crate::compliance::script::{Archive, Script, name_down, name_up};
use std::collections::BTreeSet;
use veilsum_aggregation::{ToClient, ToServer};
use veilsum_crypto::{ClientId, RoundId};

/// What travels up in place of a client's message, and from whom it comes.
pub(in crate::compliance) fn up(
    script: &mut Script,
    round: RoundId,
    from: ClientId,
    message: ToServer,
) -> Vec<(ClientId, ToServer)> {
    let Some(name) = name_up(&message) else {
        return vec![(from, message)];
    };
    let Some(mut heard) = script.archive.take() else {
        return vec![(from, message)];
    };
    let elsewhere = std::mem::take(&mut script.elsewhere);
    let mut sent = vec![(from, message.clone())];
    for act in script
        .acts(round)
        .filter(|act| act.spec.does == Deed::Replay && act.spec.what == Some(name))
    {
        let aimed = act.who.contains(&from);
        if act.spec.from == Some(Source::AnotherClient) {
            // The first other client's message goes out once more, in the name of each of these.
            if aimed {
                sent.clear();
            }
            if !aimed {
                for client in act.who.clone() {
                    if act.memory.served.insert(client) {
                        sent.push((client, message.clone()));
                    }
                }
            }
        } else if aimed {
            let old = old(&heard.up, &elsewhere.up, act.spec.from, round, from, name, &UP);
            if let Some(old) = old {
                sent = vec![(from, old)];
            }
        }
    }
    heard.up.insert((round, from, name), message);
    script.archive = Some(heard);
    script.elsewhere = elsewhere;
    sent
}

/// What travels down in place of the server's message.
pub(in crate::compliance) fn down(
    script: &mut Script,
    round: RoundId,
    to: ClientId,
    message: ToClient,
) -> ToClient {
    let Some(name) = name_down(&message) else {
        return message;
    };
    let Some(mut heard) = script.archive.take() else {
        return message;
    };
    let elsewhere = std::mem::take(&mut script.elsewhere);
    let mut sent = message.clone();
    for act in script
        .acts(round)
        .filter(|act| act.spec.does == Deed::Replay && act.spec.what == Some(name))
    {
        if !act.who.contains(&to) {
            continue;
        }
        let other = match act.spec.from {
            Some(Source::AnotherClient) => other_client(&heard, round, name, &act.who),
            from => old(&heard.down, &elsewhere.down, from, round, to, name, &DOWN),
        };
        if let Some(other) = other {
            sent = other;
        }
    }
    heard.down.insert((round, to, name), message);
    script.archive = Some(heard);
    script.elsewhere = elsewhere;
    sent
}

type Kept<M> = std::collections::BTreeMap<(RoundId, ClientId, MessageName), M>;

fn old<M: Clone>(
    here: &Kept<M>,
    elsewhere: &Kept<M>,
    source: Option<Source>,
    round: RoundId,
    client: ClientId,
    name: MessageName,
    order: &[MessageName],
) -> Option<M> {
    match source? {
        Source::AnotherRound => here.get(&(RoundId(round.0 - 1), client, name)).cloned(),
        Source::AnotherFederation => elsewhere.get(&(RoundId(1), client, name)).cloned(),
        // The message just before, or the last of the round before when there is none.
        Source::AnotherPhase => order
            .iter()
            .rev()
            .filter(|other| **other < name)
            .find_map(|other| here.get(&(round, client, *other)).cloned())
            .or_else(|| {
                order
                    .iter()
                    .rev()
                    .find_map(|other| here.get(&(RoundId(round.0 - 1), client, *other)).cloned())
            }),
        Source::AnotherClient => None,
    }
}

fn other_client(
    heard: &Archive,
    round: RoundId,
    name: MessageName,
    not: &BTreeSet<ClientId>,
) -> Option<ToClient> {
    heard
        .down
        .iter()
        .find(|((of, client, kind), _)| *of == round && *kind == name && !not.contains(client))
        .map(|(_, message)| message.clone())
}

const UP: [MessageName; 5] = [
    MessageName::Keys,
    MessageName::Shares,
    MessageName::Masked,
    MessageName::Agree,
    MessageName::Reveal,
];
const DOWN: [MessageName; 6] = [
    MessageName::Plan,
    MessageName::Roster,
    MessageName::Inbox,
    MessageName::Proposal,
    MessageName::Agreement,
    MessageName::Published,
];
