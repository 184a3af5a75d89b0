//! Whole honest rounds of three clients, written down message by message.

use crate::world::{Federation, Setup, World};
use std::cell::RefCell;
use std::rc::Rc;
use veilsum_aggregation::{Client, ToClient, ToServer};
use veilsum_attestation::Head;
use veilsum_crypto::ClientId;
use veilsum_crypto::testing::rng;

/// A message on its way up or down.
#[derive(Clone)]
pub(crate) enum Message {
    Up(ToServer),
    Down(ClientId, ToClient),
}

/// What was said in some rounds, and the world after them.
pub(crate) struct Tape {
    pub(crate) world: World,
    pub(crate) said: Vec<Message>,
    /// Every journal that client 0 wrote.
    pub(crate) journals: Vec<Vec<u8>>,
}

/// Three clients, one cluster, five entries: every kind of message, as small as can be.
pub(crate) fn setup() -> Setup {
    Setup {
        clients: 3,
        threshold: 2,
        clusters: vec![vec![0, 1, 2]],
        entries: 5,
        crowd: 2,
        orgs: 3,
    }
}

/// Client 0, always with the same generator, so that it says again what it said on the tape.
pub(crate) fn first_client(federation: &Federation) -> Client<chacha20::ChaCha20Rng> {
    Client::new(federation.member(0), Head::empty(), rng(1000)).expect("the policy suits")
}

impl Tape {
    /// Plays `rounds` rounds. Different seeds give different logs of one federation.
    pub(crate) fn record(seed: u64, rounds: u64) -> Self {
        let mut world = World::new(setup(), seed);
        world.clients.insert(ClientId(0), first_client(&world.federation));
        let said = Rc::new(RefCell::new(Vec::new()));
        let (up, down) = (Rc::clone(&said), Rc::clone(&said));
        world.up_hand = Some(Box::new(move |_, message| {
            up.borrow_mut().push(Message::Up(message.clone()));
            message
        }));
        world.down_hand = Some(Box::new(move |to, message| {
            down.borrow_mut().push(Message::Down(to, message.clone()));
            message
        }));
        let mut journals: Vec<Vec<u8>> = Vec::new();
        let mut log = world.genesis_log();
        for round in 1..=rounds {
            world.outcome = None;
            world.start(log, round).expect("the plan is good");
            while world.step() {
                let journal = world.journals.get(&ClientId(0));
                if let Some(journal) = journal.filter(|journal| journals.last() != Some(*journal)) {
                    journals.push(journal.clone());
                }
            }
            world.assert_exact();
            let opened = world.outcome.clone().map(|outcome| outcome.opened);
            for opened in opened.unwrap_or_default() {
                world.models[usize::from(opened.cluster.0)] = opened.model;
            }
            log = world.log();
        }
        world.up_hand = None;
        world.down_hand = None;
        let said = said.borrow().clone();
        Self {
            world,
            said,
            journals,
        }
    }

    /// What client 0 was told, in order.
    pub(crate) fn told(&self) -> Vec<ToClient> {
        self.said
            .iter()
            .filter_map(|message| match message {
                Message::Down(ClientId(0), message) => Some(message.clone()),
                _ => None,
            })
            .collect()
    }

    /// Every message as kind and body.
    pub(crate) fn all(&self) -> Vec<(u8, Vec<u8>)> {
        self.said
            .iter()
            .map(|message| match message {
                Message::Up(message) => bytes_up(message),
                Message::Down(_, message) => bytes_down(message),
            })
            .collect()
    }
}

pub(crate) fn bytes_down(message: &ToClient) -> (u8, Vec<u8>) {
    let (kind, _, body) = message.encode().expect("within its bound");
    (kind, body)
}

pub(crate) fn bytes_up(message: &ToServer) -> (u8, Vec<u8>) {
    let (kind, _, body) = message.encode().expect("within its bound");
    (kind, body)
}
