//! What a round costs its parties: 100 clients, one cluster, a complete graph, a million entries.
//!
//! `cargo bench -p veilsum-aggregation --bench round [-- --format json] [--rounds N]`. Processor time of one thread. The machines are the
//! real ones, and so are the bytes: what a party encodes, decodes, signs, hashes and masks is counted to it, the network and
//! the disk are not there. Medians of 3 rounds. Policy: 16-bit values, weights up to 4, so 25 bits an entry.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::wildcard_imports,
    missing_docs,
    unreachable_pub,
    reason = "a bench: a panic is the report, figures are approximate, and parts of it are modules"
)]

#[allow(dead_code, reason = "targets are of more kinds than here")]
#[path = "../../crypto/benches/measure/row.rs"]
mod row;
#[allow(
    dead_code,
    clippy::pedantic,
    clippy::expect_used,
    reason = "the harness serves several tests"
)]
#[path = "../tests/rounds/world.rs"]
mod world;

use chacha20::ChaCha20Rng;
use row::{Row, Target, median, print, seconds};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use veilsum_aggregation::client::Client;
use veilsum_aggregation::message::Chunk;
use veilsum_aggregation::*;
use veilsum_attestation::{Head, Log, model_digest};
use veilsum_crypto::stream::{AesCtr, Sign, apply_all};
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;
use world::{Federation, Setup};

const CLIENTS: u32 = 100;
const THRESHOLD: u32 = 67;
const ENTRIES: usize = 1_000_000;

/// Seconds by part.
type Spent = BTreeMap<&'static str, f64>;

/// One round without a network.
struct Round {
    federation: Federation,
    delta: Vec<f32>,
    server: Server<ChaCha20Rng>,
    clients: BTreeMap<ClientId, Client<ChaCha20Rng>>,
    /// The clients that are gone once they have dealt their shares.
    leave: u32,
    down: VecDeque<(ClientId, u8, Vec<u8>)>,
    up: VecDeque<(ClientId, u8, Vec<u8>)>,
    server_spent: Spent,
    client_spent: BTreeMap<ClientId, Spent>,
    done: bool,
}

impl Round {
    fn new(leave: u32) -> Self {
        let federation = Federation::new(Setup {
            clients: CLIENTS,
            threshold: THRESHOLD,
            clusters: vec![(0..CLIENTS).collect()],
            entries: ENTRIES,
            crowd: 3,
            orgs: 10,
        });
        let clients: BTreeMap<_, _> = (0..CLIENTS)
            .map(|id| {
                let client = Client::new(federation.member(id), Head::empty(), rng(u64::from(id)));
                (ClientId(id), client.unwrap())
            })
            .collect();
        let model: Arc<[f32]> = Arc::from(vec![0.5f32; ENTRIES]);
        let request = RoundRequest {
            round: RoundId(1),
            attempt: Attempt(0),
            clusters: vec![((0..CLIENTS).map(ClientId).collect(), model)],
            graph_seed: [0; 32],
            present: clients.keys().map(|id| (*id, Head::empty())).collect(),
        };
        let log = Log::from_entries(federation.genesis.iter().cloned());
        let mut server_spent = Spent::new();
        let mut server = None;
        server_spent.insert(
            "plan",
            seconds(|| {
                let setup = federation.server_setup(0);
                server = Server::start(setup, log, request, Now(0), rng(1)).ok();
            }),
        );
        Self {
            federation,
            delta: (0..ENTRIES).map(|i| (i % 2001) as f32 / 16.0 - 60.0).collect(),
            server: server.unwrap(),
            clients,
            leave,
            down: VecDeque::new(),
            up: VecDeque::new(),
            server_spent,
            client_spent: BTreeMap::new(),
            done: false,
        }
    }

    fn run(&mut self) {
        self.drain_server("plan");
        loop {
            if let Some((id, kind, body)) = self.down.pop_front() {
                self.tell(id, kind, &body);
            } else if let Some((id, kind, body)) = self.up.pop_front() {
                self.hear(id, kind, &body);
            } else {
                assert!(self.done, "the round has no sums");
                return;
            }
        }
    }

    fn hear(&mut self, id: ClientId, kind: u8, body: &[u8]) {
        let part = ["hello", "keys", "shares", "masked", "chunks", "agree", "reveal"][usize::from(kind) - 1];
        let spent = seconds(|| {
            let message = ToServer::decode(kind, body).unwrap();
            self.server.handle(id, message, Now(0));
        });
        *self.server_spent.entry(part).or_default() += spent;
        self.drain_server(part);
    }

    fn drain_server(&mut self, part: &'static str) {
        let mut messages = Vec::new();
        let spent = seconds(|| {
            while let Some(output) = self.server.poll_output() {
                match output {
                    ServerOutput::Send(to, message) => {
                        let (kind, _, body) = message.encode().unwrap();
                        messages.push((to, kind, body));
                    }
                    ServerOutput::Done(_) => self.done = true,
                    ServerOutput::Refused(client, refusal) => panic!("{client}: {refusal}"),
                    ServerOutput::Aborted(abort) => panic!("{abort:?}"),
                    ServerOutput::Record(_) | ServerOutput::Store { .. } | ServerOutput::Progress { .. } => {}
                }
            }
        });
        *self.server_spent.entry(part).or_default() += spent;
        self.down.extend(messages);
    }

    fn tell(&mut self, id: ClientId, kind: u8, body: &[u8]) {
        let part = ["plan", "roster", "inbox", "proposal", "agreement", "published"][usize::from(kind) - 33];
        if id.0 < self.leave && !["plan", "roster"].contains(&part) {
            if part == "inbox" {
                self.server.gone(id, Now(0));
                self.drain_server("gone");
            }
            return;
        }
        let client = self.clients.get_mut(&id).unwrap();
        let spent = seconds(|| {
            let message = ToClient::decode(kind, body).unwrap();
            client.handle(message, Now(0)).unwrap();
        });
        *self.client_spent.entry(id).or_default().entry(part).or_default() += spent;
        self.drain_client(id, part);
    }

    fn drain_client(&mut self, id: ClientId, part: &'static str) {
        let mut spool = Vec::new();
        let mut spent = 0.0;
        while let Some(output) = self.clients.get_mut(&id).unwrap().poll_output() {
            match output {
                ClientOutput::Send(message) => {
                    spent += seconds(|| {
                        let (kind, _, body) = message.encode().unwrap();
                        self.up.push_back((id, kind, body));
                    });
                }
                ClientOutput::Train { clusters, .. } => {
                    let updates = [ClientUpdate {
                        cluster: clusters[0].0,
                        model: clusters[0].1,
                        delta: self.delta.clone(),
                    }];
                    let client = self.clients.get_mut(&id).unwrap();
                    let spent = seconds(|| client.update(&updates, 2, Now(0)).unwrap());
                    *self
                        .client_spent
                        .entry(id)
                        .or_default()
                        .entry("update")
                        .or_default() += spent;
                }
                ClientOutput::Spool { packed, .. } => spool = packed,
                ClientOutput::Upload { round, attempt, from } => {
                    spent += seconds(|| {
                        let rule = self.federation.policy.update;
                        let chunking = chunk::Chunking::new(rule.modulus, ENTRIES + 1);
                        let (cluster, first) = from[0];
                        for chunk in Chunk::cut((round, attempt), cluster, &spool, chunking, first) {
                            let (kind, _, body) = ToServer::Chunk(chunk).encode().unwrap();
                            self.up.push_back((id, kind, body));
                        }
                    });
                    // At once, so that a hundred uploads are not in memory together.
                    while let Some((id, kind, body)) = self.up.pop_front() {
                        self.hear(id, kind, &body);
                    }
                }
                ClientOutput::Ended { reason, .. } => panic!("{id}: {reason}"),
                _ => {}
            }
        }
        *self.client_spent.entry(id).or_default().entry(part).or_default() += spent;
    }

    /// What the middle client that stayed has spent, by part.
    fn client(&self) -> Spent {
        let stayed: Vec<&Spent> = self
            .client_spent
            .iter()
            .filter(|(id, _)| id.0 >= self.leave)
            .map(|(_, spent)| spent)
            .collect();
        stayed[0]
            .keys()
            .map(|part| {
                (
                    *part,
                    median(
                        stayed
                            .iter()
                            .filter_map(|spent| spent.get(part))
                            .copied()
                            .collect(),
                    ),
                )
            })
            .collect()
    }
}

/// Rounds' parts, each the middle one of the rounds.
fn middle(rounds: &[Spent]) -> Spent {
    rounds[0]
        .keys()
        .map(|part| {
            (
                *part,
                median(
                    rounds
                        .iter()
                        .filter_map(|spent| spent.get(part))
                        .copied()
                        .collect(),
                ),
            )
        })
        .collect()
}

fn rows(rows: &mut Vec<Row>, who: &str, spent: &Spent, most_ms: f64) {
    let total: f64 = spent.values().sum();
    rows.push(Row {
        name: format!("{who}, whole round"),
        value: total * 1e3,
        unit: "ms",
        reference: most_ms,
        target: Target::AtMost(1.0),
    });
    for (part, seconds) in spent {
        rows.push(Row {
            name: format!("{who}: {part}"),
            value: seconds * 1e3,
            unit: "ms",
            reference: total * 1e3,
            target: Target::None,
        });
    }
}

/// What the parts cannot do without, measured alone: milliseconds a vector.
fn floors(out: &mut Vec<Row>) {
    let modulus = Modulus::new(25).unwrap();
    let mut words = vec![12_345u32; ENTRIES + 1];
    let packed = residue::pack(modulus, &words);
    let model = vec![0.5f32; ENTRIES];
    let mut times = BTreeMap::<&str, Vec<f64>>::new();
    let masks: Vec<(Sign, AesCtr)> = (0..10)
        .map(|number| (Sign::Plus, AesCtr::new(&StreamSeed::for_test([number; 32]))))
        .collect();
    let (mine, theirs) = (
        MaskSecret::generate(&mut rng(2)),
        MaskSecret::generate(&mut rng(3)).public(),
    );
    for _ in 0..9 {
        let mut note = |name, time: f64| times.entry(name).or_default().push(time * 1e3);
        note(
            "hash a vector's chunks",
            seconds(|| {
                for (index, bytes) in packed.chunks(65_525).enumerate() {
                    std::hint::black_box(chunk::leaf(index, bytes));
                }
            }),
        );
        note(
            "pack a vector",
            seconds(|| drop(std::hint::black_box(residue::pack(modulus, &words)))),
        );
        note(
            "add a packed vector",
            seconds(|| residue::add_packed(modulus, &packed, &mut words).unwrap()),
        );
        note(
            "expand and add a mask",
            seconds(|| apply_all(&masks, 0, &mut words)) / 10.0,
        );
        note(
            "agree on 100 pairs",
            seconds(|| {
                for peer in 1..=100 {
                    drop(mine.pair(ClientId(0), ClientId(peer), &theirs).unwrap());
                }
            }),
        );
        note(
            "hash a model",
            seconds(|| {
                std::hint::black_box(model_digest(&model));
            }),
        );
    }
    for (name, times) in times {
        let value = median(times);
        out.push(Row {
            name: format!("alone: {name}"),
            value,
            unit: "ms",
            reference: value,
            target: Target::None,
        });
    }
}

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--rounds");
    let rounds = arguments.nth(1).map_or(3, |count| count.parse().unwrap());
    let mut out = Vec::new();
    floors(&mut out);
    for (leave, most, name) in [
        (0, 80.0, "server, nobody dropped"),
        (30, 600.0, "server, 30 dropped"),
    ] {
        let (mut servers, mut clients) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let mut round = Round::new(leave);
            round.run();
            servers.push(round.server_spent.clone());
            clients.push(round.client());
        }
        if leave == 0 {
            rows(&mut out, "client", &middle(&clients), 60.0);
        }
        rows(&mut out, name, &middle(&servers), most);
    }
    print(&out);
}
