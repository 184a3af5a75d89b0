//! The server with three live clients. The script orders deliveries, cuts connections, lets time pass, restarts processes,
//! and makes clients lie: change a message, sign a changed statement, repeat old ones, speak with another's words.

use crate::forge::forge;
use crate::life::Life;
use crate::rules::{Known, check_accusation, check_log, check_sums, known};
use crate::script::Script;
use crate::tape::setup;
use chacha20::ChaCha20Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use veilsum_aggregation::message::{Channel, Dealing};
use veilsum_aggregation::*;
use veilsum_attestation::{Head, Log};
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;

/// A script of operations; see [`Table::step`].
///
/// # Panics
/// When a rule is broken.
pub fn run(data: &[u8]) {
    play(data);
}

/// Plays a script and gives how many rounds ended in sums.
fn play(data: &[u8]) -> usize {
    let mut table = Table::new(known());
    let mut script = Script::new(data);
    for _ in 0..MOST_STEPS {
        if script.is_over() {
            break;
        }
        table.step(&mut script);
    }
    table.settle();
    check_log(&table.log);
    table.published
}

struct Table {
    known: &'static Known,
    /// There is always one; taken only to hand its log on.
    server: Option<Server<ChaCha20Rng>>,
    lives: Vec<Life>,
    /// By client and channel.
    up: BTreeMap<(usize, bool), VecDeque<ToServer>>,
    down: Vec<VecDeque<ToClient>>,
    /// The server has not seen this client's hello since its connection was lost.
    offline: BTreeSet<usize>,
    /// Clients that lied: what they make of an honest server says nothing.
    liars: BTreeSet<usize>,
    log: Vec<Vec<u8>>,
    now: Now,
    round: u64,
    published: usize,
}

impl Table {
    fn new(known: &'static Known) -> Self {
        let lives: Vec<Life> = (0u32..)
            .zip(&known.contributions)
            .map(|(number, contribution)| {
                let member = known.federation.member(number);
                let client = Client::new(member, Head::empty(), rng(2000 + u64::from(number)));
                Life::new(
                    ClientId(number),
                    client.expect("the policy suits"),
                    contribution.clone(),
                )
            })
            .collect();
        let log = Log::from_entries(known.federation.genesis.iter().cloned());
        let heads = lives.iter().map(|life| (life.me, Head::empty())).collect();
        let mut table = Self {
            server: Some(start(known, log, heads, 1, Now(0))),
            down: vec![VecDeque::new(); lives.len()],
            lives,
            known,
            up: BTreeMap::new(),
            offline: BTreeSet::new(),
            liars: BTreeSet::new(),
            log: Vec::new(),
            now: Now(0),
            round: 1,
            published: 0,
        };
        table.drain_server();
        table
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 16 {
            0..5 => self.deliver(usize::from(script.byte())),
            5 => {
                for _ in 0..10 {
                    self.deliver(0);
                }
            }
            6 => {
                let (from, message) = self.lie(script);
                if let Some(message) = message {
                    let (kind, _, mut body) = message.encode().expect("within its bound");
                    script.bend(&mut body);
                    if let Ok(message) = ToServer::decode(kind, &body) {
                        self.tell_server(from, message);
                    }
                }
            }
            7 => {
                let (from, message) = self.lie(script);
                if let Some(message) = message {
                    let message = self.forged(message, script);
                    self.tell_server(from, message);
                }
            }
            8 => {
                let (from, message) = self.lie(script);
                if let Some(message) = message {
                    self.tell_server(from, message.clone());
                    self.tell_server(from, message);
                }
            }
            9 => {
                let (_, message) = self.lie(script);
                let other = script.below(self.lives.len());
                self.liars.insert(other);
                if let Some(message) = message {
                    self.tell_server(other, message);
                }
            }
            10 => {
                let from = script.below(self.lives.len());
                self.liars.insert(from);
                let old = &self.known.old;
                let message = old[script.below(old.len())].clone();
                self.tell_server(from, message);
            }
            11 => self.cut(script.below(self.lives.len())),
            12 => self.connect(script.below(self.lives.len())),
            13 => {
                let who = script.below(self.lives.len());
                self.cut(who);
                self.lives[who].restart(&self.known.federation);
                self.send(who, usize::MAX);
            }
            14 => self.time_passes(),
            _ => {
                if self.server().is_over() {
                    self.next_round();
                } else {
                    self.crash_in_delivery(script);
                }
            }
        }
    }

    /// The next message in some queue reaches its receiver.
    fn deliver(&mut self, which: usize) {
        let ups = self.up.iter().filter(|(_, queue)| !queue.is_empty());
        let downs = (0..self.down.len()).filter(|who| !self.down[*who].is_empty());
        let ready: Vec<Result<(usize, bool), usize>> =
            ups.map(|(key, _)| Ok(*key)).chain(downs.map(Err)).collect();
        match ready.get(which.checked_rem(ready.len()).unwrap_or(0)) {
            Some(Ok(key)) => {
                if let Some(message) = self.up.get_mut(key).and_then(VecDeque::pop_front) {
                    self.tell_server(key.0, message);
                }
            }
            Some(Err(who)) => {
                if let Some(message) = self.down[*who].pop_front() {
                    self.lives[*who].tell(message);
                    self.send(*who, usize::MAX);
                }
            }
            None => {}
        }
    }

    /// A client dies somewhere in its answer to a message.
    fn crash_in_delivery(&mut self, script: &mut Script<'_>) {
        let who = script.below(self.lives.len());
        if let Some(message) = self.down[who].pop_front() {
            self.lives[who].tell(message);
            self.send(who, script.below(8));
            self.cut(who);
            self.lives[who].restart(&self.known.federation);
            self.send(who, usize::MAX);
        }
    }

    /// The first message some client has on its way, taken by a client that lies.
    fn lie(&mut self, script: &mut Script<'_>) -> (usize, Option<ToServer>) {
        let keys: Vec<_> = self.up.iter().filter(|(_, queue)| !queue.is_empty()).collect();
        let key = keys.get(script.below(keys.len())).map(|(key, _)| **key);
        let message = key
            .and_then(|key| self.up.get_mut(&key))
            .and_then(VecDeque::pop_front);
        let from = key.map_or(0, |key| key.0);
        if message.is_some() {
            self.liars.insert(from);
        }
        (from, message)
    }

    fn forged(&self, message: ToServer, script: &mut Script<'_>) -> ToServer {
        let federation = &self.known.federation;
        let mut sign = |entry| forge(federation, entry, None, script);
        match message {
            ToServer::Keys(entry) => ToServer::Keys(sign(&entry)),
            ToServer::Shares(dealing) => ToServer::Shares(Dealing {
                entry: sign(&dealing.entry),
                ..dealing
            }),
            ToServer::Complaint(entry) => ToServer::Complaint(sign(&entry)),
            ToServer::Described(described) => ToServer::Described(described),
            ToServer::Masked(entry) => ToServer::Masked(sign(&entry)),
            ToServer::Agree(entry) => ToServer::Agree(sign(&entry)),
            ToServer::Reveal(entry) => ToServer::Reveal(sign(&entry)),
            other @ (ToServer::Hello(_) | ToServer::Chunk(_) | ToServer::Refuse(_) | ToServer::NotDescribed(_)) => other,
        }
    }

    fn tell_server(&mut self, from: usize, message: ToServer) {
        let id = self.lives[from].me;
        let kind = message.encode().expect("within its bound").0;
        crate::trace(|| format!("{id} -> server: kind {kind}"));
        match message {
            ToServer::Hello(hello) => {
                self.offline.remove(&from);
                let now = self.now;
                self.server().join(id, &hello, now);
            }
            message => {
                let now = self.now;
                self.server().handle(id, message, now);
            }
        }
        self.drain_server();
    }

    fn send(&mut self, who: usize, most: usize) {
        for message in self.lives[who].drain(&self.known.federation, most) {
            let bulk = message.encode().expect("within its bound").1 == Channel::Bulk;
            self.up.entry((who, bulk)).or_default().push_back(message);
        }
        for evidence in std::mem::take(&mut self.lives[who].accused) {
            check_accusation(self.known, self.liars.contains(&who), evidence);
        }
    }

    fn cut(&mut self, who: usize) {
        crate::trace(|| format!("{} is cut off", self.lives[who].me));
        self.up.retain(|key, _| key.0 != who);
        self.down[who].clear();
        self.offline.insert(who);
        let (id, now) = (self.lives[who].me, self.now);
        self.server().gone(id, now);
        self.drain_server();
    }

    fn connect(&mut self, who: usize) {
        self.cut(who);
        self.lives[who].client.connected();
        self.send(who, usize::MAX);
    }

    fn time_passes(&mut self) {
        if let Some(deadline) = self.server().poll_deadline() {
            crate::trace(|| format!("time passes until {deadline:?}"));
            self.now = self.now.max(deadline);
            let now = self.now;
            self.server().handle_deadline(now);
            self.drain_server();
        }
    }

    fn next_round(&mut self) {
        self.round += 1;
        crate::trace(|| format!("round {}", self.round));
        let Some(server) = self.server.take() else { return };
        let (log, mut heads) = server.into_parts();
        heads.retain(|client, _| !self.offline.contains(&(client.0 as usize)));
        self.server = Some(start(self.known, log, heads, self.round, self.now));
        self.drain_server();
    }

    fn server(&mut self) -> &mut Server<ChaCha20Rng> {
        self.server.as_mut().expect("there is always one")
    }

    fn drain_server(&mut self) {
        while let Some(output) = self.server().poll_output() {
            match output {
                ServerOutput::Send(to, message) => {
                    let to = to.0 as usize;
                    if !self.offline.contains(&to) {
                        self.down[to].push_back(message);
                    }
                }
                ServerOutput::Record(entry) => self.log.push(entry),
                ServerOutput::Done(outcome) => {
                    self.published += 1;
                    check_sums(self.known, &outcome);
                }
                ServerOutput::Aborted(abort) => assert!(
                    ![
                        "Internal",
                        "BadPlan",
                        "PlanLeaks",
                        "SmallBlock",
                        "MessageTooLarge",
                        "ServerLost"
                    ]
                    .contains(&abort.name()),
                    "{abort}"
                ),
                ServerOutput::Refused(client, refusal) => {
                    crate::trace(|| format!("  the server refuses {client}: {refusal}"));
                    assert!(!refusal.to_string().is_empty());
                }
                ServerOutput::Store { .. } | ServerOutput::Progress { .. } => {}
            }
        }
    }

    /// Everything is delivered in order and time passes until the round is over.
    fn settle(&mut self) {
        for _ in 0..2000 {
            if self.up.values().any(|queue| !queue.is_empty())
                || self.down.iter().any(|queue| !queue.is_empty())
            {
                self.deliver(0);
            } else if self.server().is_over() {
                return;
            } else {
                self.time_passes();
            }
        }
        panic!("the round does not end");
    }
}

fn start(
    known: &Known,
    log: Log,
    present: BTreeMap<ClientId, Head>,
    round: u64,
    now: Now,
) -> Server<ChaCha20Rng> {
    let request = RoundRequest {
        round: RoundId(round),
        attempt: Attempt(0),
        clusters: vec![(
            (0..setup().clients).map(ClientId).collect(),
            Arc::clone(&known.model),
        )],
        graph_seed: [0; 32],
        present,
    };
    let setup = known.federation.server_setup(50);
    let server = Server::start(setup, log, request, now, rng(3000 + round));
    server.map_err(|(abort, _)| abort).expect("the plan is good")
}

/// An honest round, two of them, and each operation in the middle of one.
///
/// # Panics
/// When honest scripts do not end in sums: the target would test nothing.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    assert_eq!(play(&[]), 1);
    let two = vec![5, 5, 5, 5, 5, 5, 15, 5, 5, 5];
    assert_eq!(play(&two), 2);
    let mut seeds = vec![vec![0; 40], two.clone()];
    for operation in 6..16u8 {
        for deliveries in 0..20 {
            let mut seed = vec![0; 2 * deliveries];
            seed.extend([operation, 1, 1, 40, 3]);
            seeds.push(seed);
        }
        seeds.push([&two[..7], &[operation, 0, 1, 1, 14]].concat());
    }
    seeds
}

const MOST_STEPS: usize = 80;
