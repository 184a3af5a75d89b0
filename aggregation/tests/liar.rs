//! A lying server and lying clients: what each honest party says, by name, and that nothing is revealed on the way out.
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
use veilsum_aggregation::*;
use veilsum_attestation::Head;
use veilsum_attestation::dealing::{BOX_AAD, BoxTree, Dealt};
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

fn world(seed: u64) -> World {
    World::new(setup(), seed)
}

/// Signs a statement with the server's real key: a dishonest server, not a network attacker.
fn by_server<S: Statement>(federation: &Federation, body: S) -> EntryBytes {
    let signed = Signed::make(
        body,
        Party::Server,
        &identity(2, 0),
        federation.book.federation(),
        &mut rng(77),
    )
    .unwrap();
    BoundedVec::new(signed.bytes().unwrap()).unwrap()
}

fn by_client<S: Statement>(federation: &Federation, client: u32, body: S) -> EntryBytes {
    let party = Party::Client(ClientId(client));
    let signed = Signed::make(
        body,
        party,
        &identity(3, client),
        federation.book.federation(),
        &mut rng(78),
    )
    .unwrap();
    BoundedVec::new(signed.bytes().unwrap()).unwrap()
}

fn body<S: Statement>(entry: &[u8]) -> S {
    let entry: Entry = wire::decode(entry).unwrap();
    wire::decode(&entry.body).unwrap()
}

/// What the clients said, by name.
fn names(world: &World) -> Vec<&'static str> {
    let mut names: Vec<_> = world
        .client_errors
        .iter()
        .map(|(_, refusal)| refusal.name())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn reveals(world: &mut World) -> usize {
    let log = world.log();
    log.entries()
        .iter()
        .filter(|entry| wire::decode::<Entry>(entry).unwrap().kind == Kind::Reveal)
        .count()
}

/// Runs a round in which every message to a client goes through `hand`, and says which refusals the clients gave and how
/// many reveals the log holds.
fn run_with(hand: impl FnMut(ClientId, ToClient) -> ToClient + 'static) -> (Vec<&'static str>, usize, World) {
    let mut world = world(3);
    world.down_hand = Some(Box::new(hand));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    assert!(world.outcome.is_none(), "nothing may be opened");
    let said = names(&world);
    let count = reveals(&mut world);
    (said, count, world)
}

#[test]
fn a_plan_that_singles_somebody_out_is_refused_by_every_client() {
    let federation = Federation::new(setup());
    let (said, reveals, world) = run_with(move |_, message| match message {
        ToClient::Plan(message) => {
            let mut plan: Plan = body(&message.entry);
            let mut clusters = plan.clusters.to_vec();
            // The second cluster becomes the first less one client: their difference is that client.
            clusters[1].members = [0, 1, 2, 3].map(ClientId).into_iter().collect();
            plan.clusters = BoundedVec::new(clusters).unwrap();
            ToClient::Plan(PlanMessage {
                entry: by_server(&federation, plan),
                ..message
            })
        }
        other => other,
    });
    assert_eq!((said, reveals), (vec!["PlanLeaks"], 0));
    assert_eq!(world.client_errors.len(), 8);
    let Refusal::PlanLeaks { clients } = &world.client_errors[0].1 else {
        panic!()
    };
    assert_eq!(clients, &[ClientId(4)].into_iter().collect());
}

#[test]
fn another_policy_in_the_plan_is_refused() {
    let federation = Federation::new(setup());
    let (said, reveals, _) = run_with(move |_, message| match message {
        ToClient::Plan(message) => {
            let plan = Plan {
                policy: Digest([6; 32]),
                ..body(&message.entry)
            };
            ToClient::Plan(PlanMessage {
                entry: by_server(&federation, plan),
                ..message
            })
        }
        other => other,
    });
    assert_eq!((said, reveals), (vec!["WrongPolicy"], 0));
}

#[test]
fn a_plan_of_a_forked_log_is_refused() {
    let federation = Federation::new(setup());
    let mut world = world(3);
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    let log = world.log();
    world.down_hand = Some(Box::new(move |_, message| match message {
        ToClient::Plan(message) => {
            let real: Plan = body(&message.entry);
            let plan = Plan {
                head: Head {
                    root: Digest([1; 32]),
                    ..real.head
                },
                ..real
            };
            ToClient::Plan(PlanMessage {
                entry: by_server(&federation, plan),
                ..message
            })
        }
        other => other,
    }));
    world.outcome = None;
    world.start(log, 2).unwrap();
    world.run();
    assert_eq!(names(&world), ["Rollback"]);
    assert!(world.outcome.is_none());
}

#[test]
fn a_plan_shown_twice_is_refused() {
    let mut world = world(3);
    let kept = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&kept);
    world.down_hand = Some(Box::new(move |to, message| {
        if let (ToClient::Plan(_), ClientId(2)) = (&message, to) {
            *keep.borrow_mut() = Some(message.clone());
        }
        message
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world.assert_exact();
    let plan = kept.borrow().clone().unwrap();
    world.tell(ClientId(2), plan);
    assert_eq!(names(&world), ["WrongContext"]);
}

#[test]
fn a_client_fished_with_another_model_is_left_out() {
    // Client 5 is shown another model for its cluster, signed by the server. Its keys name that plan, so an honest roster
    // has no place for it; a dishonest roster that has is the next test.
    let federation = Federation::new(setup());
    let mut world = world(3);
    world.down_hand = Some(Box::new(move |to, message| match message {
        ToClient::Plan(message) if to == ClientId(5) => {
            let mut plan: Plan = body(&message.entry);
            let mut clusters = plan.clusters.to_vec();
            clusters[1].model = Digest([9; 32]);
            plan.clusters = BoundedVec::new(clusters).unwrap();
            ToClient::Plan(PlanMessage {
                entry: by_server(&federation, plan),
                ..message
            })
        }
        other => other,
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world.assert_exact();
    assert!(!world.outcome.as_ref().unwrap().survivors.contains(&ClientId(5)));
    assert_eq!(world.refusals, [(ClientId(5), Refusal::WrongContext)]);
}

#[test]
fn keys_of_another_plan_in_the_roster_are_a_split_view() {
    let federation = Federation::new(setup());
    let (said, reveals, _) = run_with(move |_, message| match message {
        ToClient::Roster(roster) => {
            let mut keys = roster.keys.to_vec();
            let other = Keys {
                plan: Digest([3; 32]),
                ..body(&keys[7])
            };
            keys[7] = by_client(&federation, 7, other);
            ToClient::Roster(Roster {
                keys: BoundedVec::new(keys).unwrap(),
            })
        }
        other => other,
    });
    // Client 7 misses its own keys; everybody else sees another plan.
    assert_eq!((said, reveals), (vec!["BadRoster", "SplitView"], 0));
}

#[test]
fn a_substituted_key_does_not_verify() {
    let (said, reveals, _) = run_with(|_, message| match message {
        ToClient::Roster(roster) => {
            let mut keys = roster.keys.to_vec();
            let mut entry: Entry = wire::decode(&keys[1]).unwrap();
            let forged = Keys {
                mask_key: MaskSecret::generate(&mut rng(5)).public(),
                ..body(&keys[1])
            };
            entry.body = BoundedVec::new(wire::encode(&forged).unwrap()).unwrap();
            keys[1] = BoundedVec::new(wire::encode(&entry).unwrap()).unwrap();
            ToClient::Roster(Roster {
                keys: BoundedVec::new(keys).unwrap(),
            })
        }
        other => other,
    });
    assert_eq!((said, reveals), (vec!["BadRoster", "BadStatement"], 0));
}

#[test]
fn a_box_changed_on_the_way_is_the_servers_fault() {
    let (said, reveals, _) = run_with(|_, message| match message {
        ToClient::Inbox(inbox) => {
            let mut boxes = inbox.boxes.to_vec();
            let mut sealed = boxes[0].sealed.to_vec();
            sealed[3] ^= 1;
            boxes[0].sealed = BoundedVec::new(sealed).unwrap();
            ToClient::Inbox(Inbox {
                boxes: BoundedVec::new(boxes).unwrap(),
                ..inbox
            })
        }
        other => other,
    });
    assert_eq!((said, reveals), (vec!["BadInbox"], 0));
}

/// A world in which client 2 deals boxes that do not open to some receivers, under its own good signature.
fn with_bad_dealer(spoilt: &'static [u32], seed: u64) -> World {
    let federation = Federation::new(setup());
    let mut world = world(seed);
    let honest = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&honest);
    let sent = Rc::new(RefCell::new(None));
    let forged = Rc::clone(&sent);
    world.up_hand = Some(Box::new(move |from, message| match message {
        ToServer::Shares(dealing) if from == ClientId(2) => {
            *keep.borrow_mut() = Some(dealing.entry.clone());
            let mut boxes = dealing.boxes.to_vec();
            for sealed in &mut boxes {
                if spoilt.contains(&sealed.receiver.0) {
                    let mut bytes = sealed.sealed.to_vec();
                    bytes[3] ^= 1;
                    sealed.sealed = BoundedVec::new(bytes).unwrap();
                }
            }
            let tree = BoxTree::of(boxes.iter().map(|sealed| &*sealed.sealed));
            let shares = Shares {
                boxes: tree.root(),
                ..body(&dealing.entry)
            };
            let entry = by_client(&federation, 2, shares);
            *forged.borrow_mut() = Some(entry.clone());
            ToServer::Shares(Dealing {
                entry,
                boxes: BoundedVec::new(boxes).unwrap(),
            })
        }
        other => other,
    }));
    // The dishonest client knows what it did; the machine that plays it is shown what it believes it sent.
    world.down_hand = Some(Box::new(move |to, message| match message {
        ToClient::Inbox(inbox) if to == ClientId(2) => {
            let shares = inbox
                .shares
                .iter()
                .map(|entry| {
                    if Some(entry) == sent.borrow().as_ref() {
                        honest.borrow().clone().unwrap()
                    } else {
                        entry.clone()
                    }
                })
                .collect();
            ToClient::Inbox(Inbox {
                shares: BoundedVec::new(shares).unwrap(),
                ..inbox
            })
        }
        other => other,
    }));
    world
}

fn complaints(world: &mut World) -> Vec<(Party, ClientId)> {
    let log = world.log();
    log.entries()
        .iter()
        .map(|entry| wire::decode::<Entry>(entry).unwrap())
        .filter(|entry| entry.kind == Kind::Complaint)
        .map(|entry| {
            let complaint: Complaint = wire::decode(&entry.body).unwrap();
            (entry.signer, complaint.dealer)
        })
        .collect()
}

#[test]
fn a_box_that_does_not_open_puts_its_dealer_out_and_the_round_goes_on() {
    for (spoilt, seed) in [(&[5][..], 3), (&[0, 5], 3), (&[5], 4), (&[0, 5], 5), (&[0, 7], 6)] {
        let mut world = with_bad_dealer(spoilt, seed);
        let log = world.genesis_log();
        world.start(log, 1).unwrap();
        world.run();
        world.assert_exact();
        assert!(
            world
                .refusals
                .contains(&(ClientId(2), Refusal::BadShare { dealer: ClientId(2) })),
            "{:?}",
            world.refusals
        );
        let survivors = &world.outcome.as_ref().unwrap().survivors;
        let counted = world.stored.contains_key(&(ClientId(2), ClusterId(0)));
        assert_eq!(
            survivors.contains(&ClientId(2)),
            counted,
            "out unless it was counted before"
        );
        assert!(
            (0..8)
                .filter(|client| *client != 2)
                .all(|client| survivors.contains(&ClientId(client))),
            "nobody else is put out"
        );
        let mut said = complaints(&mut world);
        said.sort_unstable();
        let want: Vec<_> = spoilt
            .iter()
            .map(|client| (Party::Client(ClientId(*client)), ClientId(2)))
            .collect();
        assert_eq!(said, want);
    }
}

#[test]
fn a_dealer_that_leaves_fewer_than_t_good_shares_ends_the_attempt_before_anything_is_revealed() {
    let mut world = with_bad_dealer(&[0, 4, 5, 7], 3);
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    assert_eq!(world.aborted, Some(Abort::BadDealer { client: ClientId(2) }));
    assert_eq!(reveals(&mut world), 0);
}

#[test]
fn a_false_complaint_puts_its_maker_out() {
    // Client 5 complains about client 1, whose box is good: once with the right opening, once with a made-up one.
    for forged in [false, true] {
        let federation = Federation::new(setup());
        let mut world = with_bad_dealer(&[5], 3);
        let mut inner = world.up_hand.take().unwrap();
        world.up_hand = Some(Box::new(move |from, message| match inner(from, message) {
            ToServer::Complaint(entry) => {
                let honest: Complaint = body(&entry);
                let complaint = Complaint {
                    dealer: if forged { honest.dealer } else { ClientId(1) },
                    sealed: if forged {
                        BoundedVec::new(vec![1; honest.sealed.len()]).unwrap()
                    } else {
                        honest.sealed.clone()
                    },
                    ..honest
                };
                ToServer::Complaint(by_client(&federation, 5, complaint))
            }
            other => other,
        }));
        let log = world.genesis_log();
        world.start(log, 1).unwrap();
        world.run();
        world.assert_exact();
        assert!(
            world
                .refusals
                .iter()
                .any(|(client, refusal)| (*client, refusal.name()) == (ClientId(5), "BadComplaint")),
            "{:?}",
            world.refusals
        );
        assert_eq!(complaints(&mut world), []);
    }
}

#[test]
fn a_client_told_of_fewer_dealers_refuses_the_survivors() {
    // The server tells client 4 that client 0 dealt nothing, so that client 4's vector lacks the pair mask with it, and
    // then proposes client 0 as a survivor all the same. With both self-masks open, client 4's vector would lie bare as
    // soon as no other pair mask is left; the client must stop before that.
    let mut world = world(3);
    let kept = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&kept);
    world.down_hand = Some(Box::new(move |to, message| match message {
        ToClient::Inbox(inbox) if to == ClientId(4) => {
            let shares = inbox.shares.iter().skip(1).cloned().collect();
            let boxes = inbox
                .boxes
                .iter()
                .filter(|sealed| sealed.dealer != ClientId(0))
                .cloned()
                .collect();
            ToClient::Inbox(Inbox {
                shares: BoundedVec::new(shares).unwrap(),
                boxes: BoundedVec::new(boxes).unwrap(),
            })
        }
        // The honest part of this server would refuse client 4's vector and say so; the dishonest part keeps quiet.
        ToClient::Refused(refused) if to == ClientId(4) => ToClient::Refused(Refused {
            round: RoundId(9),
            ..refused
        }),
        ToClient::Proposal(proposal) => {
            *keep.borrow_mut() = Some(proposal.clone());
            ToClient::Proposal(proposal)
        }
        other => other,
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    while kept.borrow().is_none() || world.clients[&ClientId(4)].doing() != "waiting for the proposal" {
        assert!(world.step());
    }
    assert!(
        world
            .refusals
            .iter()
            .any(|(client, refusal)| *client == ClientId(4) && refusal.name() == "BadMasked")
    );
    let everybody = (0..8).map(ClientId).collect();
    let proposal = Proposal {
        survivors: everybody,
        ..kept.borrow().clone().unwrap()
    };
    world.tell(ClientId(4), ToClient::Proposal(proposal));
    let never = Refusal::SplitView("a survivor never dealt shares to this client");
    assert_eq!(world.client_errors, [(ClientId(4), never)]);
}

#[test]
fn survivors_outside_the_dealers_are_a_split_view() {
    let (said, reveals, _) = run_with(|_, message| match message {
        ToClient::Proposal(proposal) => {
            let survivors = proposal.survivors.iter().copied().chain([ClientId(40)]).collect();
            ToClient::Proposal(Proposal {
                survivors,
                ..proposal
            })
        }
        other => other,
    });
    assert_eq!((said, reveals), (vec!["SplitView"], 0));
}

#[test]
fn a_release_beyond_the_rule_is_refused() {
    // Clients 0, 1, 2 drop: cluster 0 is left with two clients and must stay closed; the server asks for it anyway.
    let mut world = world(8);
    for client in [0, 1, 2] {
        let death = world::Death {
            after_sends: 2,
            noticed: true,
            in_flight_lost: false,
        };
        world.deaths.insert(ClientId(client), death);
    }
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world.assert_exact();
    let opened: Vec<_> = world
        .outcome
        .as_ref()
        .unwrap()
        .opened
        .iter()
        .map(|opened| opened.cluster)
        .collect();
    assert_eq!(opened, [ClusterId(1)], "the honest server withholds cluster 0");
    assert_eq!(world.outcome.as_ref().unwrap().withheld, [ClusterId(0)]);

    let deaths = world.deaths.clone();
    let mut world = World::new(setup(), 8);
    world.deaths = deaths;
    world.down_hand = Some(Box::new(|_, message| match message {
        ToClient::Proposal(proposal) => {
            let release = BoundedVec::new(vec![ClusterId(0), ClusterId(1)]).unwrap();
            ToClient::Proposal(Proposal { release, ..proposal })
        }
        other => other,
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    assert_eq!(names(&world), ["ReleaseLeaks"]);
    assert_eq!(world.aborted.as_ref().unwrap().name(), "TooFewAgree");
    assert_eq!(reveals(&mut world), 0);
}

#[test]
fn a_head_without_ones_own_vector_is_a_split_view() {
    let (said, reveals, _) = run_with(|_, message| match message {
        ToClient::Proposal(proposal) => ToClient::Proposal(Proposal {
            index: proposal.index + 1,
            ..proposal
        }),
        other => other,
    });
    assert_eq!((said, reveals), (vec!["SplitView"], 0));
    let (said, reveals, _) = run_with(|_, message| match message {
        ToClient::Proposal(proposal) => {
            let head = Head {
                root: Digest([2; 32]),
                ..proposal.head
            };
            ToClient::Proposal(Proposal { head, ..proposal })
        }
        other => other,
    });
    assert_eq!((said, reveals), (vec!["Rollback"], 0));
}

#[test]
fn fewer_than_t_signatures_move_no_share() {
    let (said, reveals, _) = run_with(|_, message| match message {
        ToClient::Agreement(agreement) => {
            let agrees = agreement.agrees.iter().take(4).cloned().collect();
            ToClient::Agreement(Agreement {
                agrees: BoundedVec::new(agrees).unwrap(),
            })
        }
        other => other,
    });
    assert_eq!((said, reveals), (vec!["TooFew"], 0));
    // Four signatures and one of them twice are still four.
    let (said, reveals, _) = run_with(|_, message| match message {
        ToClient::Agreement(agreement) => {
            let mut agrees: Vec<_> = agreement.agrees.iter().take(4).cloned().collect();
            agrees.push(agrees[0].clone());
            ToClient::Agreement(Agreement {
                agrees: BoundedVec::new(agrees).unwrap(),
            })
        }
        other => other,
    });
    assert_eq!((said, reveals), (vec!["TooFew"], 0));
}

#[test]
fn a_signature_on_another_survivor_set_stops_the_unmasking() {
    let federation = Federation::new(setup());
    let (said, reveals, _) = run_with(move |_, message| match message {
        ToClient::Agreement(agreement) => {
            let mut agrees = agreement.agrees.to_vec();
            let real: Agree = body(&agrees[2]);
            let survivors = real
                .survivors
                .iter()
                .copied()
                .filter(|client| client.0 != 0)
                .collect();
            agrees[2] = by_client(&federation, 2, Agree { survivors, ..real });
            ToClient::Agreement(Agreement {
                agrees: BoundedVec::new(agrees).unwrap(),
            })
        }
        other => other,
    });
    assert_eq!((said, reveals), (vec!["SplitView"], 0));
}

#[test]
fn a_second_unmask_request_is_not_answered() {
    let mut world = world(3);
    let kept = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&kept);
    world.down_hand = Some(Box::new(move |to, message| {
        if let (ToClient::Agreement(_), ClientId(2)) = (&message, to) {
            *keep.borrow_mut() = Some(message.clone());
        }
        message
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    while kept.borrow().is_none() {
        assert!(world.step());
    }
    // Client 2 answers, and is asked again while it waits for the sums.
    while world.clients[&ClientId(2)].doing() != "waiting for the sums" {
        assert!(world.step());
    }
    let sent = world.sent[&ClientId(2)];
    let again = kept.borrow().clone().unwrap();
    world.tell(ClientId(2), again);
    assert_eq!(world.sent[&ClientId(2)], sent, "nothing may be sent");
    assert_eq!(names(&world), ["AlreadyAnswered"]);
    world.run();
    world.assert_exact();
}

#[test]
fn a_wrong_revealed_share_names_its_revealer_and_t_good_ones_finish_the_round() {
    let federation = Federation::new(setup());
    let mut world = world(4);
    world.up_hand = Some(Box::new(move |from, message| match message {
        ToServer::Reveal(entry) if from == ClientId(1) => {
            let mut reveal: Reveal = body(&entry);
            let mut shares = reveal.self_shares.to_vec();
            shares[0].share[0] ^= 1;
            reveal.self_shares = BoundedVec::new(shares).unwrap();
            ToServer::Reveal(by_client(&federation, 1, reveal))
        }
        other => other,
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world.assert_exact();
    for (client, refusal) in &world.refusals {
        assert_eq!(
            (*client, refusal),
            (ClientId(1), &Refusal::BadShare { dealer: ClientId(1) })
        );
    }
}

#[test]
fn two_different_vectors_of_one_client_do_not_both_count() {
    let mut world = world(6);
    let federation = Federation::new(setup());
    let first = Rc::new(RefCell::new(false));
    let seen = Rc::clone(&first);
    // Client 3 announces other roots in its statement than its chunks have.
    world.up_hand = Some(Box::new(move |from, message| match message {
        ToServer::Masked(entry) if from == ClientId(3) => {
            *seen.borrow_mut() = true;
            let mut masked: Masked = body(&entry);
            let mut vectors = masked.vectors.to_vec();
            vectors[0].root = Digest([4; 32]);
            masked.vectors = BoundedVec::new(vectors).unwrap();
            ToServer::Masked(by_client(&federation, 3, masked))
        }
        other => other,
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    assert!(*first.borrow());
    world.assert_exact();
    assert!(!world.outcome.as_ref().unwrap().survivors.contains(&ClientId(3)));
    assert!(
        world
            .refusals
            .iter()
            .any(|(client, refusal)| *client == ClientId(3) && refusal.name() == "BadMasked")
    );
}

#[test]
fn a_client_starts_under_no_policy_beyond_its_limits() {
    // The policy: 8 clients of 4 organisations, t = 5, crowd 3 of 1 organisation, entries up to 511.98, 1000 rounds.
    let range = 32_767 * 15_625;
    type Change = fn(&mut Floors);
    let cases: [(Change, &str, u64, &str, u64); 7] = [
        (|f| f.clients = 9, "the number of clients", 8, "at least", 9),
        (|f| f.orgs = 5, "the number of organisations", 4, "at least", 5),
        (|f| f.threshold = 6, "the threshold", 5, "at least", 6),
        (|f| f.crowd = 4, "the crowd", 3, "at least", 4),
        (
            |f| f.crowd_orgs = 2,
            "the crowd of organisations",
            1,
            "at least",
            2,
        ),
        (
            |f| f.max_range_micros = 1_000_000,
            "the range of an entry",
            range,
            "at most",
            1_000_000,
        ),
        (
            |f| f.max_rounds = 999,
            "the number of rounds",
            1000,
            "at most",
            999,
        ),
    ];
    let federation = Federation::new(setup());
    for (change, what, got, bound, floor) in cases {
        let mut member = federation.member(0);
        change(&mut std::sync::Arc::get_mut(&mut member).unwrap().floors);
        let refused = Client::new(member, Head::empty(), rng(1)).err().unwrap();
        assert_eq!(
            refused,
            Refusal::BelowFloor {
                what,
                got,
                bound,
                floor
            }
        );
    }
    let mut member = federation.member(0);
    std::sync::Arc::get_mut(&mut member).unwrap().floors = Floors {
        clients: 8,
        orgs: 4,
        threshold: 5,
        crowd: 3,
        crowd_orgs: 1,
        max_range_micros: u32::try_from(range).unwrap(),
        max_rounds: 1000,
        max_epsilon_micros: u64::MAX,
    };
    assert!(
        Client::new(member, Head::empty(), rng(1)).is_ok(),
        "just at the limits"
    );
}

#[test]
fn a_proposal_that_the_server_did_not_sign_is_refused() {
    let (said, reveals, _) = run_with(|_, message| match message {
        ToClient::Proposal(proposal) => ToClient::Proposal(Proposal {
            server: Signature([7; 64]),
            ..proposal
        }),
        other => other,
    });
    assert_eq!((said, reveals), (vec!["SplitView"], 0));
}

/// Runs a round in which client 3's messages go through `hand`; whatever it does, the bundle audits as verified.
fn audited_with(hand: impl FnMut(ToServer) -> ToServer + 'static) -> World {
    let mut world = world(3);
    let mut hand = hand;
    world.up_hand = Some(Box::new(move |from, message| {
        if from == ClientId(3) {
            hand(message)
        } else {
            message
        }
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world
}

#[test]
fn keys_that_an_auditor_would_not_accept_are_not_accepted_by_the_server() {
    type Forge = fn(Keys) -> Keys;
    let forges: [(Forge, &str); 2] = [
        (
            |keys| Keys {
                head: Head {
                    root: Digest([1; 32]),
                    ..keys.head
                },
                ..keys
            },
            "WrongContext",
        ),
        (
            |keys| Keys {
                box_key: BoxPublic(keys.mask_key.0),
                ..keys
            },
            "UsedKey",
        ),
    ];
    for (forge, name) in forges {
        let federation = Federation::new(setup());
        let world = audited_with(move |message| match message {
            ToServer::Keys(entry) => ToServer::Keys(by_client(&federation, 3, forge(body(&entry)))),
            other => other,
        });
        world.assert_exact();
        assert!(
            world
                .refusals
                .iter()
                .any(|(client, refusal)| (*client, refusal.name()) == (ClientId(3), name)),
            "{:?}",
            world.refusals
        );
    }
}

#[test]
fn somebody_elses_round_key_is_refused() {
    let federation = Federation::new(setup());
    let mut world = world(3);
    let first: Rc<RefCell<Option<Keys>>> = Rc::default();
    world.up_hand = Some(Box::new(move |from, message| match message {
        ToServer::Keys(entry) => {
            let own: Keys = body(&entry);
            let other = first.borrow().clone();
            match other {
                None => {
                    *first.borrow_mut() = Some(own);
                    ToServer::Keys(entry)
                }
                // Everybody after the first uses the first's mask key.
                Some(other) => ToServer::Keys(by_client(
                    &federation,
                    from.0,
                    Keys {
                        mask_key: other.mask_key,
                        ..own
                    },
                )),
            }
        }
        other => other,
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    assert!(
        matches!(world.aborted, Some(Abort::TooFewKeys { have: 1 | 2, .. })),
        "{:?}",
        world.aborted
    );
}

#[test]
fn late_and_refused_messages_are_answered_and_logged_once() {
    let mut world = world(3);
    let kept: Rc<RefCell<Option<EntryBytes>>> = Rc::default();
    let keep = Rc::clone(&kept);
    world.up_hand = Some(Box::new(move |from, message| {
        if let (ToServer::Masked(entry), ClientId(3)) = (&message, from) {
            *keep.borrow_mut() = Some(entry.clone());
        }
        message
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    while kept.borrow().is_none() {
        assert!(world.step());
    }
    // Client 3 leaves, and then sends its statement, and garbage, over and over.
    let server = world.server.as_mut().unwrap();
    let refuse = ToServer::Refuse(Refused::named(RoundId(1), Attempt(0), "Bored"));
    server.handle(ClientId(3), refuse, Now(0));
    let before = world.disk.len();
    let entry = kept.borrow().clone().unwrap();
    for n in 0..100u8 {
        let garbage = BoundedVec::new(vec![n; 8]).unwrap();
        let server = world.server.as_mut().unwrap();
        server.handle(ClientId(3), ToServer::Masked(garbage), Now(0));
        server.handle(ClientId(3), ToServer::Masked(entry.clone()), Now(0));
        world.drain_server();
    }
    let logged = world.disk.len() - before;
    assert!(logged <= 1, "{logged} entries");
    let told = world
        .refusals
        .iter()
        .filter(|(client, _)| *client == ClientId(3))
        .count();
    assert!(told <= 3, "{told} refusals");
    world.run();
    world.assert_exact();
}

#[test]
fn a_second_attempt_at_a_round_that_was_answered_is_refused() {
    let mut world = world(3);
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    world.assert_exact();
    world.outcome = None;
    let log = world.log();
    let request = RoundRequest {
        attempt: Attempt(1),
        ..world.request(1, 1)
    };
    let server = Server::start(world.federation.server_setup(0), log, request, world.now, rng(4));
    world.server = Some(server.map_err(|(abort, _)| abort).unwrap());
    world.drain_server();
    world.run();
    assert_eq!(names(&world), ["WrongContext"]);
    assert_eq!(world.client_errors.len(), 8);
    assert_eq!(world.aborted.as_ref().unwrap().name(), "TooFewKeys");
}

/// Client 2 deals consistent shares of another mask secret than its public key's, or of other seeds than it committed to,
/// and is gone after that. Nobody can tell before the secret is put together.
#[test]
fn a_dealer_of_other_secrets_than_it_committed_to_is_named_and_nothing_is_opened() {
    let federation = Federation::new(setup());
    let mut world = world(3);
    let mut dice = rng(91);
    let (boxes, masks) = (BoxSecret::generate(&mut dice), MaskSecret::generate(&mut dice));
    let seed = SelfSeed::generate(&mut dice);
    let roster: Rc<RefCell<Option<Roster>>> = Rc::default();
    let keep = Rc::clone(&roster);
    world.down_hand = Some(Box::new(move |to, message| {
        if let (ToClient::Roster(message), ClientId(2)) = (&message, to) {
            *keep.borrow_mut() = Some(message.clone());
        }
        message
    }));
    let plan_leaf = Rc::new(RefCell::new(Digest([0; 32])));
    world.up_hand = Some(Box::new(move |from, message| match message {
        ToServer::Keys(entry) if from == ClientId(2) => {
            let honest: Keys = body(&entry);
            *plan_leaf.borrow_mut() = honest.plan;
            let keys = Keys {
                box_key: boxes.public(),
                mask_key: masks.public(),
                ..honest
            };
            ToServer::Keys(by_client(&federation, 2, keys))
        }
        // Its own machine sees that its keys were changed and leaves; in its place the dishonest one deals.
        ToServer::Refuse(_) if from == ClientId(2) && roster.borrow().is_some() => {
            let roster = roster.borrow_mut().take().unwrap();
            let mut leaves = Vec::new();
            let mut keys = std::collections::BTreeMap::new();
            for entry in &roster.keys {
                let parsed: Entry = wire::decode(entry).unwrap();
                let Party::Client(client) = parsed.signer else {
                    panic!()
                };
                leaves.push(leaf_hash(entry));
                keys.insert(client, body::<Keys>(entry));
            }
            let digest = roster_digest(&leaves);
            let context = PlanContext {
                suite: SuiteId::SUITE_1,
                federation: *federation.book.federation(),
                round: RoundId(1),
                attempt: Attempt(0),
                policy: federation.policy_leaf,
                plan: *plan_leaf.borrow(),
            }
            .with_roster(digest);
            let holders: Vec<ClientId> = keys.keys().copied().collect();
            let mut dice = rng(92);
            let wrong = MaskSecret::generate(&mut dice);
            let mut shares = share::split(&wrong, 5, &holders, &mut dice).unwrap();
            let mut seeds = share::split(&seed, 5, &holders, &mut dice).unwrap();
            let (mut digests, mut sealed) = (Vec::new(), Vec::new());
            for (holder, known) in keys.iter().rev() {
                let dealt = Dealt {
                    mask: shares.pop().unwrap(),
                    seeds: [(ClusterId(0), seeds.pop().unwrap())].into(),
                };
                digests.push(dealt.digests(ClientId(2), *holder, &context));
                if *holder != ClientId(2) {
                    let key = boxes
                        .seal_key(&known.box_key, ClientId(2), *holder, &context)
                        .unwrap();
                    sealed.push(SealedBox {
                        receiver: *holder,
                        sealed: BoundedVec::new(key.seal(BOX_AAD, dealt.to_bytes().to_vec()).unwrap())
                            .unwrap(),
                    });
                }
            }
            sealed.reverse();
            let shares = Shares {
                plan: *plan_leaf.borrow(),
                roster: digest,
                digests: BoundedVec::new(digests.into_iter().rev().flatten().collect()).unwrap(),
                boxes: BoxTree::of(sealed.iter().map(|sealed| &*sealed.sealed)).root(),
            };
            ToServer::Shares(Dealing {
                entry: by_client(&federation, 2, shares),
                boxes: BoundedVec::new(sealed).unwrap(),
            })
        }
        other => other,
    }));
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    assert_eq!(
        world.aborted,
        Some(Abort::BadDealer { client: ClientId(2) }),
        "{:?}",
        world.refusals
    );
    assert!(world.outcome.is_none());
}
