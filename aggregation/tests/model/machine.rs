//! Histories of single machines, each executed once.

use crate::world::{Contribution, Federation, identity};
use chacha20::ChaCha20Rng;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use veilsum_aggregation::message::{Agreement, Chunk, Proposal};
use veilsum_aggregation::*;
use veilsum_attestation::statement::*;
use veilsum_attestation::{Head, Log};
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;

pub(crate) type NodeId = u32;
pub(crate) type MsgId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Server,
    Client(u32),
}

/// What a machine can be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Input {
    /// The server plans the attempt.
    Start,
    /// A client's message reaches the server.
    Up(u32, MsgId),
    /// A client's connection is gone.
    Gone(u32),
    /// The server's phase is over.
    Deadline,
    /// A message reaches the client.
    Down(MsgId),
    /// The client's process dies and starts again from its disk.
    Restart,
    /// A proposal reaches the client with a survivor left out, under the server's own good signature.
    Shrunk(MsgId, u32),
    /// An agreement made of these `agree` messages reaches the client.
    Gathered(Vec<MsgId>),
}

/// What matters of what a client has ever said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) masked: BTreeSet<Digest>,
    pub(crate) agrees: BTreeMap<Digest, MsgId>,
    pub(crate) reveals: BTreeSet<Digest>,
    /// Of each reveal: the agreement, owners of self-mask shares, owners of mask shares.
    pub(crate) opened: Vec<(Digest, BTreeSet<u32>, BTreeSet<u32>)>,
}

/// A machine after a history.
pub(crate) struct Node {
    parent: Option<(NodeId, Input)>,
    /// What the last input made it send: to whom (of the server's messages), bulk or not.
    pub(crate) sent: Vec<(u32, bool, MsgId)>,
    pub(crate) said: Said,
    pub(crate) waits_for_agreement: bool,
    /// The server's phase can be ended.
    pub(crate) open: bool,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) aborted: bool,
}

pub(crate) struct Machines {
    pub(crate) federation: Federation,
    model: Arc<[f32]>,
    pub(crate) messages: Vec<(u8, Vec<u8>)>,
    ids: HashMap<(u8, Vec<u8>), MsgId>,
    pub(crate) nodes: Vec<Node>,
    memo: HashMap<(Who, NodeId, Input), NodeId>,
}

impl Machines {
    /// The roots: the server's, then each client's.
    pub(crate) fn new(federation: Federation) -> (Self, NodeId, Vec<NodeId>) {
        let clients = federation.setup.clients;
        let mut machines = Self {
            model: Arc::from(vec![0.5f32; federation.setup.entries]),
            federation,
            messages: Vec::new(),
            ids: HashMap::new(),
            nodes: Vec::new(),
            memo: HashMap::new(),
        };
        let mut root = || {
            machines.nodes.push(Node {
                parent: None,
                sent: Vec::new(),
                said: Said::default(),
                waits_for_agreement: false,
                open: false,
                outcome: None,
                aborted: false,
            });
            machines.nodes.len() as NodeId - 1
        };
        let server = root();
        let clients = (0..clients).map(|_| root()).collect();
        (machines, server, clients)
    }

    pub(crate) fn contribution(&self, client: u32) -> Contribution {
        Contribution {
            values: (0..self.federation.setup.entries)
                .map(|entry| {
                    if entry == 0 {
                        1 << client
                    } else {
                        client as i32 - 1
                    }
                })
                .collect(),
            weight: 1,
        }
    }

    fn intern(&mut self, kind: u8, body: Vec<u8>) -> MsgId {
        let next = self.messages.len() as MsgId;
        *self.ids.entry((kind, body.clone())).or_insert_with(|| {
            self.messages.push((kind, body));
            next
        })
    }

    /// The machine at `node` told one thing more.
    pub(crate) fn tell(&mut self, who: Who, node: NodeId, input: Input) -> NodeId {
        if let Some(known) = self.memo.get(&(who, node, input.clone())) {
            return *known;
        }
        let mut inputs = vec![input.clone()];
        let mut at = node;
        while let Some((parent, input)) = &self.nodes[at as usize].parent {
            inputs.push(input.clone());
            at = *parent;
        }
        inputs.reverse();
        let mut next = match who {
            Who::Server => self.run_server(&inputs),
            Who::Client(client) => self.run_client(client, &inputs, self.nodes[node as usize].said.clone()),
        };
        next.parent = Some((node, input.clone()));
        self.nodes.push(next);
        let id = self.nodes.len() as NodeId - 1;
        self.memo.insert((who, node, input), id);
        id
    }

    fn run_server(&mut self, inputs: &[Input]) -> Node {
        let clients: ClientSet = (0..self.federation.setup.clients).map(ClientId).collect();
        let request = RoundRequest {
            round: RoundId(1),
            attempt: Attempt(0),
            clusters: vec![(clients.clone(), Arc::clone(&self.model))],
            graph_seed: [0; 32],
            present: clients.iter().map(|client| (*client, Head::empty())).collect(),
        };
        let log = Log::from_entries(self.federation.genesis.iter().cloned());
        let setup = self.federation.server_setup(50);
        let mut server = Server::start(setup, log, request, Now(0), rng(1))
            .map_err(|(abort, _)| abort)
            .unwrap();
        let (mut outcome, mut aborted) = (None, false);
        let mut sent = Vec::new();
        for (number, input) in inputs.iter().enumerate() {
            match input {
                Input::Start => {}
                Input::Up(client, message) => {
                    let (kind, body) = &self.messages[*message as usize];
                    match ToServer::decode(*kind, body).unwrap() {
                        ToServer::Hello(hello) => server.join(ClientId(*client), &hello, Now(0)),
                        message => server.handle(ClientId(*client), message, Now(0)),
                    }
                }
                Input::Gone(client) => server.gone(ClientId(*client), Now(0)),
                // Phases are ended one by one: a deadline far beyond each.
                Input::Deadline => server.handle_deadline(Now(10_000_000)),
                _ => unreachable!(),
            }
            while let Some(output) = server.poll_output() {
                match output {
                    ServerOutput::Send(to, message) if number + 1 == inputs.len() => {
                        let (kind, _, body) = message.encode().unwrap();
                        sent.push((to.0, false, self.intern(kind, body)));
                    }
                    ServerOutput::Done(done) => outcome = Some(done),
                    ServerOutput::Aborted(_) => aborted = true,
                    _ => {}
                }
            }
        }
        Node {
            parent: None,
            sent,
            said: Said::default(),
            waits_for_agreement: false,
            open: !server.is_over(),
            outcome,
            aborted,
        }
    }

    fn run_client(&mut self, me: u32, inputs: &[Input], mut said: Said) -> Node {
        let mut disk = Disk::default();
        let mut client = Client::new(self.federation.member(me), Head::empty(), seeded(me, 0)).unwrap();
        let mut sent = Vec::new();
        for (number, input) in inputs.iter().enumerate() {
            match input {
                Input::Down(message) => {
                    let (kind, body) = &self.messages[*message as usize];
                    let _ = client.handle(ToClient::decode(*kind, body).unwrap(), Now(0));
                }
                Input::Restart => {
                    let member = self.federation.member(me);
                    let rng = seeded(me, number as u64 + 1);
                    let head = disk.head.unwrap_or_else(Head::empty);
                    client = match &disk.journal {
                        Some(journal) => Client::restore(member, head, journal, rng).unwrap(),
                        None => Client::new(member, head, rng).unwrap(),
                    };
                    client.connected();
                }
                Input::Shrunk(message, left_out) => {
                    let forged = self.shrunk(*message, *left_out, &disk);
                    let _ = client.handle(ToClient::Proposal(forged), Now(0));
                }
                Input::Gathered(agrees) => {
                    let agrees = agrees.iter().map(|id| self.agree_entry(*id)).collect();
                    let message = Agreement {
                        agrees: BoundedVec::new(agrees).unwrap(),
                    };
                    let _ = client.handle(ToClient::Agreement(message), Now(0));
                }
                _ => unreachable!(),
            }
            let messages = self.drain(me, &mut client, &mut disk);
            if number + 1 == inputs.len() {
                for message in messages {
                    let (kind, channel, body) = message.encode().unwrap();
                    let id = self.intern(kind, body);
                    note(&mut said, &message, id);
                    sent.push((me, channel == Channel::Bulk, id));
                }
            }
        }
        Node {
            parent: None,
            sent,
            said,
            waits_for_agreement: client.doing() == "waiting for the agreement",
            open: false,
            outcome: None,
            aborted: false,
        }
    }

    fn drain(&self, me: u32, client: &mut Client<ChaCha20Rng>, disk: &mut Disk) -> Vec<ToServer> {
        let mut sends = Vec::new();
        while let Some(output) = client.poll_output() {
            match output {
                ClientOutput::Send(message) => {
                    if let ToServer::Masked(entry) = &message {
                        disk.masked = Some(entry.to_vec());
                    }
                    sends.push(message);
                }
                ClientOutput::Train { clusters, .. } => {
                    let contribution = self.contribution(me);
                    let updates: Vec<_> = clusters
                        .iter()
                        .map(|(cluster, model)| ClientUpdate {
                            cluster: *cluster,
                            model: *model,
                            delta: contribution.delta(),
                        })
                        .collect();
                    client.update(&updates, contribution.weight, Now(0)).unwrap();
                }
                ClientOutput::Keep(head) => disk.head = Some(head),
                ClientOutput::Journal(bytes) => disk.journal = Some(bytes),
                ClientOutput::Spool { cluster, packed, .. } => {
                    disk.vectors.insert(cluster, packed);
                }
                ClientOutput::Upload { round, attempt, from } => {
                    let rule = self.federation.policy.update;
                    let chunking = chunk::Chunking::new(rule.modulus, rule.entries as usize + 1);
                    for (cluster, first) in from {
                        let packed = &disk.vectors[&cluster];
                        sends.extend(
                            Chunk::cut((round, attempt), cluster, packed, chunking, first)
                                .map(ToServer::Chunk),
                        );
                    }
                }
                _ => {}
            }
        }
        sends
    }

    /// A proposal without one survivor, as a dishonest server signs it.
    fn shrunk(&self, message: MsgId, left_out: u32, disk: &Disk) -> Proposal {
        let (kind, body) = &self.messages[message as usize];
        let ToClient::Proposal(honest) = ToClient::decode(*kind, body).unwrap() else {
            unreachable!()
        };
        let entry: Entry = wire::decode(disk.masked.as_ref().unwrap()).unwrap();
        let masked: Masked = wire::decode(&entry.body).unwrap();
        let survivors: ClientSet = honest
            .survivors
            .iter()
            .copied()
            .filter(|client| client.0 != left_out)
            .collect();
        let agree = Agree {
            plan: masked.plan,
            roster: masked.roster,
            sharers: masked.sharers,
            survivors: survivors.clone(),
            release: honest.release.clone(),
            head: honest.head,
            server: Signature([0; 64]),
        };
        let agree = agree
            .propose(&identity(2, 0), self.federation.book.federation())
            .unwrap();
        Proposal {
            survivors,
            server: agree.server,
            ..honest
        }
    }

    fn agree_entry(&self, message: MsgId) -> BoundedVec<u8, { Entry::MAX_LEN }> {
        let (kind, body) = &self.messages[message as usize];
        match ToServer::decode(*kind, body).unwrap() {
            ToServer::Agree(entry) => entry,
            _ => unreachable!(),
        }
    }

    /// Whether a message on its way down is a proposal.
    pub(crate) fn is_proposal(&self, message: MsgId) -> bool {
        let (kind, body) = &self.messages[message as usize];
        matches!(ToClient::decode(*kind, body), Ok(ToClient::Proposal(_)))
    }

    /// Whether a message on its way up is a hello.
    pub(crate) fn is_hello(&self, message: MsgId) -> bool {
        let (kind, body) = &self.messages[message as usize];
        matches!(ToServer::decode(*kind, body), Ok(ToServer::Hello(_)))
    }
}

/// A client's disk.
#[derive(Default)]
struct Disk {
    journal: Option<Vec<u8>>,
    head: Option<Head>,
    vectors: BTreeMap<ClusterId, Vec<u8>>,
    masked: Option<Vec<u8>>,
}

fn seeded(client: u32, life: u64) -> ChaCha20Rng {
    rng(u64::from(client) << 32 | life)
}

fn note(said: &mut Said, message: &ToServer, id: MsgId) {
    match message {
        ToServer::Masked(entry) => {
            said.masked.insert(leaf_hash(entry));
        }
        ToServer::Agree(entry) => {
            let entry: Entry = wire::decode(entry).unwrap();
            let agree: Agree = wire::decode(&entry.body).unwrap();
            said.agrees.insert(agree.digest().unwrap(), id);
        }
        ToServer::Reveal(bytes) if said.reveals.insert(leaf_hash(bytes)) => {
            let entry: Entry = wire::decode(bytes).unwrap();
            let reveal: Reveal = wire::decode(&entry.body).unwrap();
            said.opened.push((
                reveal.agreement,
                reveal.self_shares.iter().map(|share| share.owner.0).collect(),
                reveal.mask_shares.iter().map(|share| share.owner.0).collect(),
            ));
        }
        _ => {}
    }
}
