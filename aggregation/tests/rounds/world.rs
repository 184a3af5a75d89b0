//! A federation in one process without a network: real machines, real bytes, a seeded scheduler that delivers messages
//! in any order the channels allow, and clients that die at a chosen step.

use chacha20::ChaCha20Rng;
use rand_core::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use veilsum_aggregation::client::Membership;
use veilsum_aggregation::message::Chunk;
use veilsum_aggregation::*;
use veilsum_attestation::evidence::Evidence;
use veilsum_attestation::statement::*;
use veilsum_attestation::{Head, Log};
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;

/// How a federation is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) clients: u32,
    pub(crate) threshold: u32,
    pub(crate) clusters: Vec<Vec<u32>>,
    pub(crate) entries: usize,
    pub(crate) crowd: u32,
    pub(crate) orgs: u32,
}

impl Setup {
    pub(crate) fn policy(&self, server: PublicIdentity, members: Digest) -> Policy {
        let max_weight = 4;
        let bits = UpdateRule::modulus_bits(16, max_weight, self.clients);
        Policy {
            suite: SuiteId::SUITE_1,
            name: BoundedVec::new(b"test federation".to_vec()).unwrap(),
            server,
            server_tls: Digest([0; 32]),
            clients: self.clients,
            members,
            threshold: self.threshold,
            colluders: 0,
            dropouts: 0,
            crowd: self.crowd,
            crowd_orgs: 1,
            update: UpdateRule {
                entries: self.entries as u64,
                schema: Digest([5; 32]),
                value_bits: 16,
                modulus: Modulus::new(u8::try_from(bits).unwrap()).unwrap(),
                // step = 32767 * 15625 / 1e6 / 32767 = 1/64 exactly, so the expected sums are exact integers.
                range_micros: 32_767 * 15_625,
                max_weight,
            },
            initial: veilsum_attestation::model_digest(&vec![0.5f32; self.entries]),
            rounds: 1000,
            clustering: None,
            blocks: 0,
            keep_rounds: 0,
        }
    }
}

/// Everybody's keys and the signed beginning of the log.
pub(crate) struct Federation {
    pub(crate) setup: Setup,
    pub(crate) book: KeyBook,
    pub(crate) policy: Policy,
    pub(crate) policy_leaf: Digest,
    pub(crate) genesis: Vec<Vec<u8>>,
}

pub(crate) fn identity(role: u8, number: u32) -> Identity {
    let mut seed = [role; 32];
    seed[..4].copy_from_slice(&number.to_le_bytes());
    Identity::from_seed(&seed).unwrap()
}

impl Federation {
    pub(crate) fn new(setup: Setup) -> Self {
        let federation = Self::unchecked(setup);
        federation.policy.check().unwrap();
        federation
    }

    /// A federation under another policy than its setup's.
    pub(crate) fn with(setup: Setup, change: impl FnOnce(&mut Policy)) -> Self {
        let federation = Self::founded(setup, change);
        federation.policy.check().unwrap();
        federation
    }

    /// A federation whose policy may be unsafe: for showing what the rules are for.
    pub(crate) fn unchecked(setup: Setup) -> Self {
        Self::founded(setup, |_| {})
    }

    fn founded(setup: Setup, change: impl FnOnce(&mut Policy)) -> Self {
        let (authority, server) = (identity(1, 0), identity(2, 0));
        let federation = federation_digest(&authority.public(), "test federation");
        let members: Vec<Member> = (0..setup.clients)
            .map(|client| Member {
                client: ClientId(client),
                org: OrgId(client % setup.orgs),
                key: identity(3, client).public(),
                tls: Digest([0; 32]),
            })
            .collect();
        let mut rng = rng(99);
        let mut genesis = Vec::new();
        let mut leaves = Vec::new();
        for member in &members {
            let signed = Signed::make(
                member.clone(),
                Party::Authority,
                &authority,
                &federation,
                &mut rng,
            )
            .unwrap();
            leaves.push(signed.leaf());
            genesis.push(signed.bytes().unwrap());
        }
        let mut policy = setup.policy(server.public(), members_digest(&leaves));
        change(&mut policy);
        let signed = Signed::make(
            policy.clone(),
            Party::Authority,
            &authority,
            &federation,
            &mut rng,
        )
        .unwrap();
        genesis.push(signed.bytes().unwrap());
        let book = KeyBook::new(federation, authority.public(), server.public(), members);
        Self {
            setup,
            book,
            policy,
            policy_leaf: signed.leaf(),
            genesis,
        }
    }

    /// A plan of nothing, to be filled in.
    pub(crate) fn plan_for_tests(&self) -> Plan {
        Plan {
            round: RoundId(1),
            attempt: Attempt(0),
            policy: self.policy_leaf,
            head: Head::empty(),
            clusters: BoundedVec::default(),
            graph_seed: [0; 32],
        }
    }

    pub(crate) fn server_setup(&self, reconnect: u64) -> Arc<ServerSetup> {
        Arc::new(ServerSetup {
            identity: identity(2, 0),
            book: self.book.clone(),
            policy: self.policy.clone(),
            policy_leaf: self.policy_leaf,
            deadlines: Deadlines {
                advertise: 1000,
                share: 100,
                mask: 100,
                agree: 100,
                unmask: 100,
                reconnect,
            },
        })
    }

    pub(crate) fn member(&self, client: u32) -> Arc<Membership> {
        Arc::new(Membership {
            me: ClientId(client),
            identity: identity(3, client),
            book: self.book.clone(),
            policy: self.policy.clone(),
            policy_leaf: self.policy_leaf,
            floors: Floors {
                clients: 3,
                threshold: 2,
                crowd: self.policy.crowd.min(2),
                crowd_orgs: 1,
                ..Floors::default()
            },
        })
    }
}

/// What a client contributes: integers on the grid, so that sums are exact.
#[derive(Clone)]
pub(crate) struct Contribution {
    pub(crate) values: Vec<i32>,
    pub(crate) weight: u32,
}

impl Contribution {
    pub(crate) fn delta(&self) -> Vec<f32> {
        // q = delta * (w / 4) * 64 = value * w.
        self.values.iter().map(|value| *value as f32 / 16.0).collect()
    }
}

/// When a client dies: after it has sent so many messages, and whether the server hears of it before the deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    pub(crate) after_sends: usize,
    pub(crate) noticed: bool,
    pub(crate) in_flight_lost: bool,
}

/// Looks at a message of or for a client and gives what is delivered instead.
pub(crate) type Hand<M> = Box<dyn FnMut(ClientId, M) -> M>;

/// Messages on their way: kind and body.
type Wire = VecDeque<(u8, Vec<u8>)>;

pub(crate) struct World {
    pub(crate) federation: Federation,
    pub(crate) server: Option<Server<ChaCha20Rng>>,
    pub(crate) clients: BTreeMap<ClientId, Client<ChaCha20Rng>>,
    pub(crate) models: Vec<Arc<[f32]>>,
    pub(crate) deaths: BTreeMap<ClientId, Death>,
    pub(crate) dead: BTreeSet<ClientId>,
    pub(crate) contributions: BTreeMap<ClientId, Contribution>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) aborted: Option<Abort>,
    pub(crate) stored: BTreeMap<(ClientId, ClusterId), Vec<u8>>,
    pub(crate) refusals: Vec<(ClientId, Refusal)>,
    pub(crate) client_errors: Vec<(ClientId, Refusal)>,
    pub(crate) done: BTreeMap<ClientId, Vec<(ClusterId, Digest)>>,
    pub(crate) ended: BTreeMap<ClientId, String>,
    pub(crate) sent: BTreeMap<ClientId, usize>,
    /// What each client keeps on disk: its journal, its last head, its masked vectors.
    pub(crate) journals: BTreeMap<ClientId, Vec<u8>>,
    pub(crate) heads: BTreeMap<ClientId, Head>,
    pub(crate) spools: BTreeMap<(ClientId, ClusterId), Vec<u8>>,
    /// What clients kept of a server that was caught.
    pub(crate) evidence: Vec<Evidence>,
    /// The server's log on disk.
    pub(crate) disk: Vec<Vec<u8>>,
    /// Milliseconds a client may be away.
    pub(crate) reconnect: u64,
    /// Clients whose hello the server has not seen since their connection was lost.
    offline: BTreeSet<ClientId>,
    /// Uploads that went on in the middle.
    pub(crate) resumed: usize,
    up: BTreeMap<(ClientId, bool), Wire>,
    down: BTreeMap<ClientId, Wire>,
    /// A dishonest server's or network's hand on each message on its way down.
    pub(crate) down_hand: Option<Hand<ToClient>>,
    /// The same on the way up.
    pub(crate) up_hand: Option<Hand<ToServer>>,
    pub(crate) now: Now,
    pub(crate) rng: ChaCha20Rng,
}

impl World {
    pub(crate) fn new(setup: Setup, seed: u64) -> Self {
        Self::of(Federation::new(setup), seed)
    }

    pub(crate) fn of(federation: Federation, seed: u64) -> Self {
        let mut rng = rng(seed);
        let entries = federation.setup.entries;
        let clients = (0..federation.setup.clients)
            .map(|client| {
                let seed = u64::from(rng.next_u32()) << 32 | u64::from(client);
                (
                    ClientId(client),
                    Client::new(
                        federation.member(client),
                        Head::empty(),
                        veilsum_crypto::testing::rng(seed),
                    )
                    .unwrap(),
                )
            })
            .collect();
        let contributions = (0..federation.setup.clients)
            .map(|client| {
                let mut values: Vec<i32> = (0..entries)
                    .map(|_| (rng.next_u32() % 2001) as i32 - 1000)
                    .collect();
                // Its own coordinate marks a client: a double count or a leak into another cluster reads off the sum.
                let place = client as usize % entries;
                values[place] = 1 << (client % 12);
                (
                    ClientId(client),
                    Contribution {
                        values,
                        weight: [1, 2, 4][rng.next_u32() as usize % 3],
                    },
                )
            })
            .collect();
        let models = federation
            .setup
            .clusters
            .iter()
            .map(|_| Arc::from(vec![0.5f32; entries]))
            .collect();
        Self {
            federation,
            server: None,
            clients,
            models,
            deaths: BTreeMap::new(),
            dead: BTreeSet::new(),
            contributions,
            outcome: None,
            aborted: None,
            stored: BTreeMap::new(),
            refusals: Vec::new(),
            client_errors: Vec::new(),
            done: BTreeMap::new(),
            ended: BTreeMap::new(),
            sent: BTreeMap::new(),
            journals: BTreeMap::new(),
            heads: BTreeMap::new(),
            evidence: Vec::new(),
            disk: Vec::new(),
            spools: BTreeMap::new(),
            reconnect: 0,
            offline: BTreeSet::new(),
            resumed: 0,
            up: BTreeMap::new(),
            down: BTreeMap::new(),
            down_hand: None,
            up_hand: None,
            now: Now(0),
            rng,
        }
    }

    pub(crate) fn request(&self, round: u64, attempt: u32) -> RoundRequest {
        let clusters = self
            .federation
            .setup
            .clusters
            .iter()
            .zip(&self.models)
            .map(|(members, model)| (members.iter().copied().map(ClientId).collect(), Arc::clone(model)))
            .collect();
        let present = self
            .clients
            .iter()
            .filter(|(id, _)| !self.dead.contains(id))
            .map(|(id, client)| (*id, client.head()))
            .collect();
        RoundRequest {
            round: RoundId(round),
            attempt: Attempt(attempt),
            clusters,
            graph_seed: [0; 32],
            present,
        }
    }

    /// Starts a round; `Err` when the plan is refused.
    pub(crate) fn start(&mut self, log: Log, round: u64) -> Result<(), Abort> {
        let request = self.request(round, 0);
        let seed = u64::from(self.rng.next_u32());
        let server = Server::start(
            self.federation.server_setup(self.reconnect),
            log,
            request,
            self.now,
            rng(seed),
        );
        self.server = Some(server.map_err(|(abort, _)| abort)?);
        self.drain_server();
        Ok(())
    }

    pub(crate) fn genesis_log(&self) -> Log {
        Log::from_entries(self.federation.genesis.iter().cloned())
    }

    /// Runs until the round is over and nothing is in flight.
    pub(crate) fn run(&mut self) {
        for _ in 0..2_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the round does not end");
    }

    /// Delivers one message, or lets time pass; false when nothing is left to happen.
    pub(crate) fn step(&mut self) -> bool {
        let ups = self
            .up
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(key, _)| (true, *key));
        let downs = self
            .down
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(client, _)| (false, (*client, false)));
        let ready: Vec<_> = ups.chain(downs).collect();
        if ready.is_empty() {
            let Some(deadline) = self.server.as_ref().and_then(Server::poll_deadline) else {
                return false;
            };
            self.now = deadline;
            self.server.as_mut().unwrap().handle_deadline(self.now);
            self.drain_server();
            return true;
        }
        let (upward, key) = ready[self.rng.next_u32() as usize % ready.len()];
        if upward {
            let (kind, body) = self.up.get_mut(&key).unwrap().pop_front().unwrap();
            let message = ToServer::decode(kind, &body).unwrap();
            if let Some(server) = self.server.as_mut() {
                match message {
                    ToServer::Hello(hello) => {
                        self.offline.remove(&key.0);
                        server.join(key.0, &hello, self.now);
                    }
                    message => server.handle(key.0, message, self.now),
                }
            }
            self.drain_server();
        } else {
            let (kind, body) = self.down.get_mut(&key.0).unwrap().pop_front().unwrap();
            if !self.dead.contains(&key.0) {
                let message = ToClient::decode(kind, &body).unwrap();
                self.tell(key.0, message);
            }
        }
        true
    }

    pub(crate) fn tell(&mut self, id: ClientId, message: ToClient) {
        let result = self.clients.get_mut(&id).unwrap().handle(message, self.now);
        if let Err(refusal) = result {
            self.client_errors.push((id, refusal));
        }
        self.drain_client(id);
    }

    pub(crate) fn drain_client(&mut self, id: ClientId) {
        while let Some(output) = self.clients.get_mut(&id).unwrap().poll_output() {
            if self.dead.contains(&id) {
                continue;
            }
            match output {
                ClientOutput::Send(message) => self.send_up(id, &message),
                ClientOutput::Train { clusters, .. } => {
                    let contribution = self.contributions[&id].clone();
                    let updates: Vec<_> = clusters
                        .iter()
                        .map(|(cluster, model)| ClientUpdate {
                            cluster: *cluster,
                            model: *model,
                            delta: contribution.delta(),
                        })
                        .collect();
                    let now = self.now;
                    if let Err(refusal) =
                        self.clients
                            .get_mut(&id)
                            .unwrap()
                            .update(&updates, contribution.weight, now)
                    {
                        self.client_errors.push((id, refusal));
                    }
                }
                ClientOutput::Done { models, .. } => {
                    self.done.insert(id, models);
                }
                ClientOutput::Ended { reason, .. } => {
                    self.ended.insert(id, reason);
                }
                ClientOutput::Keep(head) => {
                    self.heads.insert(id, head);
                }
                ClientOutput::Journal(bytes) => {
                    self.journals.insert(id, bytes);
                }
                ClientOutput::Spool { cluster, packed, .. } => {
                    self.spools.insert((id, cluster), packed);
                }
                ClientOutput::Upload { round, attempt, from } => {
                    let rule = self.federation.policy.update;
                    let chunking = chunk::Chunking::new(rule.modulus, rule.entries as usize + 1);
                    self.resumed += usize::from(from.iter().any(|(_, first)| *first > 0));
                    for (cluster, first) in from {
                        let packed = self.spools[&(id, cluster)].clone();
                        for chunk in Chunk::cut((round, attempt), cluster, &packed, chunking, first) {
                            self.send_up(id, &ToServer::Chunk(chunk));
                        }
                    }
                }
                ClientOutput::Evidence(evidence) => self.evidence.push(*evidence),
                ClientOutput::Describe { .. } | ClientOutput::KeepDescriptor { .. } => {}
                ClientOutput::Progress { .. } => {}
            }
        }
    }

    /// The client's connection is lost, with everything on its way, and comes back at once.
    pub(crate) fn reconnect(&mut self, id: ClientId) {
        self.cut(id);
        self.clients.get_mut(&id).unwrap().connected();
        self.drain_client(id);
    }

    /// The client's process dies and is started again from its disk.
    pub(crate) fn restart(&mut self, id: ClientId) {
        self.cut(id);
        let head = self.heads.get(&id).copied().unwrap_or_else(Head::empty);
        let member = self.federation.member(id.0);
        let rng = rng(u64::from(self.rng.next_u32()));
        let client = match self.journals.get(&id) {
            Some(journal) => Client::restore(member, head, journal, rng).unwrap(),
            None => Client::new(member, head, rng).unwrap(),
        };
        self.clients.insert(id, client);
        self.clients.get_mut(&id).unwrap().connected();
        self.drain_client(id);
    }

    pub(crate) fn cut(&mut self, id: ClientId) {
        self.up.remove(&(id, false));
        self.up.remove(&(id, true));
        self.down.remove(&id);
        self.offline.insert(id);
        if let Some(server) = self.server.as_mut() {
            server.gone(id, self.now);
        }
        self.drain_server();
    }

    /// The server's process dies: nothing but its disk is left, and every connection with it.
    pub(crate) fn lose_server(&mut self) -> Log {
        self.server = None;
        self.up.clear();
        self.down.clear();
        self.offline.clear();
        Log::from_entries(self.federation.genesis.iter().chain(&self.disk).cloned())
    }

    fn send_up(&mut self, id: ClientId, message: &ToServer) {
        let sent = *self.sent.entry(id).or_insert(0);
        if let Some(death) = self.deaths.get(&id).copied()
            && sent >= death.after_sends
        {
            self.kill(id, death);
            return;
        }
        *self.sent.get_mut(&id).unwrap() += 1;
        let message = match self.up_hand.as_mut() {
            Some(hand) => hand(id, message.clone()),
            None => message.clone(),
        };
        let (kind, channel, body) = message.encode().unwrap();
        self.up
            .entry((id, channel == Channel::Bulk))
            .or_default()
            .push_back((kind, body));
    }

    pub(crate) fn kill(&mut self, id: ClientId, death: Death) {
        self.dead.insert(id);
        if death.in_flight_lost {
            self.up.remove(&(id, false));
            self.up.remove(&(id, true));
        }
        if death.noticed
            && let Some(server) = self.server.as_mut()
        {
            server.gone(id, self.now);
            self.drain_server();
        }
    }

    pub(crate) fn drain_server(&mut self) {
        while let Some(output) = self.server.as_mut().and_then(Server::poll_output) {
            match output {
                ServerOutput::Send(to, _) if self.offline.contains(&to) => {}
                ServerOutput::Send(to, message) => {
                    let message = match self.down_hand.as_mut() {
                        Some(hand) => hand(to, message),
                        None => message,
                    };
                    let (kind, _, body) = message.encode().unwrap();
                    self.down.entry(to).or_default().push_back((kind, body));
                }
                ServerOutput::Store {
                    client,
                    cluster,
                    bytes,
                } => {
                    self.stored.insert((client, cluster), bytes);
                }
                ServerOutput::Refused(client, refusal) => self.refusals.push((client, refusal)),
                ServerOutput::Done(outcome) => self.outcome = Some(outcome),
                ServerOutput::Aborted(abort) => self.aborted = Some(abort),
                ServerOutput::Record(entry) => self.disk.push(entry),
                ServerOutput::Progress { .. } => {}
            }
        }
    }

    /// The plain sum of the survivors in one cluster, weight coordinate last, modulo 2^m.
    pub(crate) fn expected(&self, cluster: ClusterId, survivors: &ClientSet) -> Vec<u32> {
        let modulus = self.federation.policy.update.modulus;
        let members: BTreeSet<u32> = self.federation.setup.clusters[usize::from(cluster.0)]
            .iter()
            .copied()
            .collect();
        let mut sum = vec![0i64; self.federation.setup.entries + 1];
        for client in survivors.iter().filter(|client| members.contains(&client.0)) {
            let contribution = &self.contributions[client];
            for (total, value) in sum.iter_mut().zip(&contribution.values) {
                *total += i64::from(*value) * i64::from(contribution.weight);
            }
            *sum.last_mut().unwrap() += i64::from(contribution.weight);
        }
        sum.into_iter()
            .map(|total| (total.rem_euclid(1i64 << modulus.bits())) as u32)
            .collect()
    }

    /// Every opened sum is exactly the plain sum, and every client that finished agrees on the models.
    pub(crate) fn assert_exact(&self) {
        let outcome = self.outcome.as_ref().expect("the round finished");
        assert!(!outcome.opened.is_empty());
        for opened in &outcome.opened {
            assert_eq!(
                opened.sum,
                self.expected(opened.cluster, &outcome.survivors),
                "{}",
                opened.cluster
            );
        }
        for models in self.done.values().filter(|_| self.up.is_empty()) {
            for (cluster, digest) in models {
                let opened = outcome
                    .opened
                    .iter()
                    .find(|opened| opened.cluster == *cluster)
                    .unwrap();
                assert_eq!(*digest, veilsum_attestation::model_digest(&opened.model));
            }
        }
    }

    pub(crate) fn log(&mut self) -> Log {
        self.server.take().unwrap().into_parts().0
    }
}
