//! A server that shows different things to different clients: what the clients keep convicts it before somebody who was not
//! there, and nothing convicts an honest one.
#![allow(
    missing_docs,
    dead_code,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report; the harness serves several tests"
)]

#[path = "rounds/world.rs"]
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use veilsum_aggregation::message::*;
use veilsum_aggregation::{ToClient, ToServer};
use veilsum_attestation::Head;
use veilsum_attestation::evidence::{EvidenceError, EvidenceFile, Offence, Proof, judge};
use veilsum_attestation::statement::*;
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;
use world::{Federation, Setup, World, identity};

fn setup() -> Setup {
    Setup {
        clients: 8,
        threshold: 5,
        clusters: vec![vec![0, 1, 2, 3, 4], vec![3, 4, 5, 6, 7]],
        entries: 6,
        crowd: 3,
        orgs: 4,
    }
}

fn body<S: Statement>(entry: &[u8]) -> S {
    let entry: Entry = wire::decode(entry).unwrap();
    wire::decode(&entry.body).unwrap()
}

fn by_server<S: Statement>(federation: &Federation, body: S) -> EntryBytes {
    let server = identity(2, 0);
    let signed = Signed::make(
        body,
        Party::Server,
        &server,
        federation.book.federation(),
        &mut rng(77),
    )
    .unwrap();
    BoundedVec::new(signed.bytes().unwrap()).unwrap()
}

/// The evidence that clients kept, as files; through bytes, as outsiders get them.
fn files(world: &World) -> Vec<EvidenceFile> {
    let genesis: Vec<_> = world
        .federation
        .genesis
        .iter()
        .map(|entry| BoundedVec::new(entry.clone()).unwrap())
        .collect();
    world
        .evidence
        .iter()
        .map(|evidence| {
            let file = EvidenceFile {
                genesis: BoundedVec::new(genesis.clone()).unwrap(),
                evidence: evidence.clone(),
            };
            EvidenceFile::from_bytes(&file.to_bytes().unwrap()).unwrap()
        })
        .collect()
}

fn proved(world: &World, files: &[EvidenceFile]) -> Vec<(Party, Offence)> {
    judge(
        files,
        *world.federation.book.federation(),
        identity(1, 0).public(),
    )
    .unwrap()
    .into_iter()
    .map(|Proof { party, offence, .. }| (party, offence))
    .collect()
}

fn run(hand: impl FnMut(ClientId, ToClient) -> ToClient + 'static) -> World {
    let mut world = World::new(setup(), 3);
    world.down_hand = Some(Box::new(hand));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world
}

/// Another plan for the same attempt: another seed of the graph, nothing that a rule refuses.
fn other_plan(federation: &Federation, entry: &[u8]) -> EntryBytes {
    by_server(
        federation,
        Plan {
            graph_seed: [9; 32],
            ..body(entry)
        },
    )
}

#[test]
fn two_plans_to_one_client_are_proved_by_its_file() {
    let federation = Federation::new(setup());
    let mut world = World::new(setup(), 3);
    let kept = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&kept);
    world.down_hand = Some(Box::new(move |to, message| {
        if let (ToClient::Plan(message), ClientId(5)) = (&message, to) {
            *keep.borrow_mut() = Some(message.clone());
        }
        message
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    while world.clients[&ClientId(5)].doing() == "waiting for a plan" {
        assert!(world.step());
    }
    let plan = kept.borrow().clone().unwrap();
    let second = PlanMessage {
        entry: other_plan(&federation, &plan.entry),
        ..plan
    };
    world.tell(ClientId(5), ToClient::Plan(second));
    assert_eq!(world.client_errors[0].1.name(), "SplitView");
    let files = files(&world);
    assert_eq!(proved(&world, &files), [(Party::Server, Offence::TwoPlans)]);
}

#[test]
fn different_plans_to_different_clients_are_proved_by_two_files() {
    let federation = Federation::new(setup());
    let world = run(move |to, message| match message {
        ToClient::Plan(message) if to == ClientId(5) => ToClient::Plan(PlanMessage {
            entry: other_plan(&federation, &message.entry),
            ..message
        }),
        // The dishonest server keeps its client in the dark about the refusal, and shows everybody all keys.
        other => other,
    });
    // Client 5's keys are for another plan: the honest part of the server puts it out. Nobody is deceived, and the two
    // plans are in nobody's single file; so the files are made by what clients 5 and 0 were shown.
    assert!(!world.outcome.as_ref().unwrap().survivors.contains(&ClientId(5)));
    let federation = Federation::new(setup());
    let shown = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&shown);
    let mut world = run(move |_, message| {
        if let ToClient::Plan(message) = &message {
            keep.borrow_mut().push(message.entry.clone());
        }
        message
    });
    let entry = shown.borrow()[0].clone();
    for (client, plan) in [(0, entry.clone()), (5, other_plan(&federation, &entry))] {
        world.evidence.push(veilsum_attestation::evidence::Evidence {
            client: ClientId(client),
            reason: BoundedVec::new(b"SplitView".to_vec()).unwrap(),
            held: Head::empty(),
            plans: BoundedVec::new(vec![plan]).unwrap(),
            proposals: BoundedVec::default(),
            entries: BoundedVec::default(),
        });
    }
    let files = files(&world);
    assert_eq!(proved(&world, &files[..1]), []);
    assert_eq!(proved(&world, &files[1..]), []);
    assert_eq!(proved(&world, &files), [(Party::Server, Offence::TwoPlans)]);
}

#[test]
fn two_survivor_sets_are_proved_by_the_file_of_one_client() {
    let federation = Federation::new(setup());
    let proposals: Rc<RefCell<std::collections::BTreeMap<ClientId, Proposal>>> = Rc::default();
    let seen = Rc::clone(&proposals);
    let agreement = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&agreement);
    let mut world = World::new(setup(), 3);
    let roster = Rc::new(RefCell::new((Digest([0; 32]), Digest([0; 32]))));
    let note = Rc::clone(&roster);
    world.up_hand = Some(Box::new(move |_, message| {
        if let ToServer::Masked(entry) = &message {
            let masked: Masked = body(entry);
            *note.borrow_mut() = (masked.plan, masked.roster);
        }
        message
    }));
    world.down_hand = Some(Box::new(move |to, message| match message {
        ToClient::Proposal(proposal) if to == ClientId(7) => {
            // Client 7 is shown a set without client 0, under the server's good signature.
            let survivors: ClientSet = (1..8).map(ClientId).collect();
            let agree = Agree {
                plan: roster.borrow().0,
                roster: roster.borrow().1,
                sharers: (0..8).map(ClientId).collect(),
                survivors: survivors.clone(),
                release: proposal.release.clone(),
                head: proposal.head,
                server: Signature([0; 64]),
            };
            let agree = agree
                .propose(&identity(2, 0), federation.book.federation())
                .unwrap();
            let forged = Proposal {
                survivors,
                server: agree.server,
                ..proposal
            };
            seen.borrow_mut().insert(to, forged.clone());
            ToClient::Proposal(forged)
        }
        ToClient::Agreement(message) => {
            *keep.borrow_mut() = Some(message.clone());
            ToClient::Agreement(message)
        }
        // It does not tell client 7 that it was put out.
        ToClient::Refused(refused) if to == ClientId(7) => ToClient::Refused(Refused {
            round: RoundId(99),
            ..refused
        }),
        other => other,
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    while agreement.borrow().is_none() || world.clients[&ClientId(7)].doing() != "waiting for the agreement" {
        assert!(world.step());
    }
    let message = agreement.borrow().clone().unwrap();
    world.tell(ClientId(7), ToClient::Agreement(message));
    let (client, refusal) = world.client_errors.last().unwrap();
    assert_eq!((*client, refusal.name()), (ClientId(7), "SplitView"));
    let files = files(&world);
    assert_eq!(files.len(), 1);
    assert_eq!(proved(&world, &files), [(Party::Server, Offence::TwoProposals)]);
}

#[test]
fn fewer_survivors_than_the_threshold_are_refused_and_proved_by_one_file() {
    let federation = Federation::new(setup());
    let scope = Rc::new(RefCell::new((Digest([0; 32]), Digest([0; 32]))));
    let note = Rc::clone(&scope);
    let mut world = World::new(setup(), 3);
    world.up_hand = Some(Box::new(move |_, message| {
        if let ToServer::Masked(entry) = &message {
            let masked: Masked = body(entry);
            *note.borrow_mut() = (masked.plan, masked.roster);
        }
        message
    }));
    world.down_hand = Some(Box::new(move |_, message| match message {
        ToClient::Proposal(proposal) => {
            // Four of cluster 0: enough for the crowd of 3, and one fewer than t.
            let survivors: ClientSet = (0..4).map(ClientId).collect();
            let agree = Agree {
                plan: scope.borrow().0,
                roster: scope.borrow().1,
                sharers: (0..8).map(ClientId).collect(),
                survivors: survivors.clone(),
                release: BoundedVec::new(vec![ClusterId(0)]).unwrap(),
                head: proposal.head,
                server: Signature([0; 64]),
            };
            let agree = agree
                .propose(&identity(2, 0), federation.book.federation())
                .unwrap();
            ToClient::Proposal(Proposal {
                survivors,
                release: agree.release.clone(),
                server: agree.server,
                ..proposal
            })
        }
        other => other,
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    assert!(world.outcome.is_none());
    let refused: Vec<_> = (0..4)
        .map(|client| {
            let said = world.client_errors.iter().find(|(id, _)| *id == ClientId(client));
            said.unwrap().1.name()
        })
        .collect();
    assert_eq!(refused, ["TooFew"; 4]);
    let files = files(&world);
    let own = files
        .iter()
        .find(|file| file.evidence.client == ClientId(0))
        .unwrap();
    assert_eq!(
        proved(&world, std::slice::from_ref(own)),
        [(Party::Server, Offence::TooFew)]
    );
}

#[test]
fn a_leaking_plan_another_policy_a_fork_and_a_rollback_are_proved_by_one_file() {
    type Forge = fn(Plan) -> Plan;
    let cases: [(Forge, Offence, &str); 4] = [
        (
            |mut plan| {
                let mut clusters = plan.clusters.to_vec();
                clusters[1].members = [0, 1, 2, 3].map(ClientId).into_iter().collect();
                plan.clusters = BoundedVec::new(clusters).unwrap();
                plan
            },
            Offence::PlanLeaks,
            "PlanLeaks",
        ),
        (
            |plan| Plan {
                policy: Digest([6; 32]),
                ..plan
            },
            Offence::OtherPolicy,
            "WrongPolicy",
        ),
        (
            |plan| Plan {
                head: Head {
                    // The size of the head that the first round's proposal showed: 9 founding entries, the plan, 8 keys,
                    // 8 dealings, 8 vectors.
                    size: 34,
                    root: Digest([1; 32]),
                },
                ..plan
            },
            Offence::Fork,
            "Rollback",
        ),
        (
            |plan| Plan {
                head: Head {
                    size: 5,
                    root: Digest([1; 32]),
                },
                ..plan
            },
            Offence::Rollback,
            "Rollback",
        ),
    ];
    for (forge, offence, name) in cases {
        let federation = Federation::new(setup());
        let mut world = run(|_, message| message);
        world.assert_exact();
        let log = world.log();
        world.outcome = None;
        world.down_hand = Some(Box::new(move |_, message| match message {
            ToClient::Plan(message) => ToClient::Plan(PlanMessage {
                entry: by_server(&federation, forge(body(&message.entry))),
                ..message
            }),
            other => other,
        }));
        world.start(log, 2).unwrap();
        world.run();
        assert!(
            world
                .client_errors
                .iter()
                .all(|(_, refusal)| refusal.name() == name)
        );
        for file in files(&world) {
            assert_eq!(proved(&world, &[file]), [(Party::Server, offence)], "{name}");
        }
        assert_eq!(world.evidence.len(), 8);
    }
}

#[test]
fn an_honest_server_is_never_convicted_and_forged_evidence_is_worth_nothing() {
    let shown: Rc<RefCell<(Vec<EntryBytes>, Vec<EntryBytes>)>> = Rc::default();
    let keep = Rc::clone(&shown);
    let mut world = run(move |_, message| {
        match &message {
            ToClient::Plan(message) => keep.borrow_mut().0.push(message.entry.clone()),
            ToClient::Roster(roster) => keep.borrow_mut().1.extend_from_slice(&roster.keys),
            ToClient::Agreement(message) => keep.borrow_mut().1.extend_from_slice(&message.agrees),
            _ => {}
        }
        message
    });
    assert!(world.evidence.is_empty());
    let (plans, entries) = shown.borrow().clone();
    let agree: Agree = body(entries.last().unwrap());
    let mut forged_plan: Entry = wire::decode(&plans[0]).unwrap();
    forged_plan.body = BoundedVec::new(
        wire::encode(&Plan {
            graph_seed: [9; 32],
            ..body(&plans[0])
        })
        .unwrap(),
    )
    .unwrap();
    let forged = BoundedVec::new(wire::encode(&forged_plan).unwrap()).unwrap();
    world.evidence.push(veilsum_attestation::evidence::Evidence {
        client: ClientId(0),
        reason: BoundedVec::new(b"SplitView".to_vec()).unwrap(),
        held: Head::empty(),
        plans: BoundedVec::new(vec![plans[0].clone(), forged]).unwrap(),
        proposals: BoundedVec::new(vec![
            agree.clone(),
            Agree {
                survivors: (0..6).map(ClientId).collect(),
                ..agree
            },
        ])
        .unwrap(),
        entries: BoundedVec::new(entries).unwrap(),
    });
    let file = files(&world).remove(0);
    assert_eq!(proved(&world, std::slice::from_ref(&file)), []);
    // Under another authority's key nothing is heard at all.
    let stranger = identity(1, 7).public();
    let federation = federation_digest(&stranger, "test federation");
    assert!(matches!(
        judge(&[file], federation, stranger),
        Err(EvidenceError::Statement(_))
    ));
}
