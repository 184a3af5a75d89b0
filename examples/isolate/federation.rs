//! A federation of eight in one process: the real machines, messages handed over in order, no network.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "an example: small numbers, and a panic is the report"
)]

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::sync::Arc;

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use veilsum::genesis::Genesis;
use veilsum_aggregation::client::Membership;
use veilsum_aggregation::message::Chunk;
use veilsum_aggregation::{
    Abort, Client, ClientOutput, ClientUpdate, Deadlines, Floors, Now, Outcome, RoundRequest, Server,
    ServerOutput, ServerSetup, ToClient, ToServer,
};
use veilsum_attestation::statement::{Member, Policy, UpdateRule};
use veilsum_attestation::{Head, Log, model_digest};
use veilsum_crypto::chunk::Chunking;
use veilsum_crypto::{
    Attempt, BoundedVec, ClientId, ClusterId, Digest, Identity, Modulus, OrgId, RoundId, SuiteId,
};

/// Numbers in an update.
pub(crate) const ENTRIES: usize = 4;
const CLIENTS: u32 = 8;
const BITS: u8 = 16;

/// Bits of a word of a sum.
pub(crate) fn modulus_bits() -> u32 {
    u32::from(UpdateRule::modulus_bits(BITS, 1, CLIENTS) as u8)
}

/// Everybody's keys, and the beginning of the log.
pub(crate) struct Federation {
    server: Arc<ServerSetup>,
    genesis: Vec<Vec<u8>>,
    crowd: u32,
}

impl Federation {
    /// Eight clients of eight organisations under a policy with this crowd.
    pub(crate) fn new(crowd: u32) -> Result<Self, Box<dyn Error>> {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (authority, server) = (identity(1, 0)?, identity(2, 0)?);
        let members = (0..CLIENTS)
            .map(|client| {
                Ok(Member {
                    client: ClientId(client),
                    org: OrgId(client),
                    key: identity(3, client)?.public(),
                    tls: Digest([0; 32]),
                })
            })
            .collect::<Result<_, Box<dyn Error>>>()?;
        let name = BoundedVec::new(b"isolate".to_vec()).expect("a short name");
        let modulus = Modulus::new(modulus_bits() as u8)?;
        let policy = |members| Policy {
            suite: SuiteId::SUITE_1,
            name,
            server: server.public(),
            server_tls: Digest([0; 32]),
            clients: CLIENTS,
            members,
            threshold: 5,
            colluders: 0,
            dropouts: 0,
            crowd,
            crowd_orgs: 1,
            update: UpdateRule {
                entries: ENTRIES as u64,
                schema: Digest([0; 32]),
                value_bits: BITS,
                modulus,
                // A grid step of exactly 1/64.
                range_micros: 32_767 * 15_625,
                max_weight: 1,
            },
            initial: model_digest(&[0.0; ENTRIES]),
            rounds: 1,
            clustering: None,
            blocks: 0,
            keep_rounds: 0,
        };
        let found = |members| Ok::<_, Box<dyn Error>>(policy(members));
        let genesis = Genesis::found(&authority, "isolate", members, found, &mut rng)?;
        let server = Arc::new(ServerSetup {
            identity: server,
            book: genesis.book,
            policy: genesis.policy,
            policy_leaf: genesis.policy_leaf,
            deadlines: Deadlines {
                advertise: 100,
                share: 100,
                mask: 100,
                agree: 100,
                unmask: 100,
                reconnect: 0,
            },
        });
        Ok(Self {
            server,
            genesis: genesis.entries,
            crowd,
        })
    }

    /// What a client contributes, in grid steps.
    pub(crate) fn update(client: u32) -> Vec<i64> {
        (0..4)
            .map(|entry| i64::from(client + 1) * 100 + entry * 7 - 300)
            .collect()
    }

    fn client(&self, id: ClientId) -> Result<Client<ChaCha20Rng>, Box<dyn Error>> {
        let membership = Membership {
            me: id,
            identity: identity(3, id.0)?,
            book: self.server.book.clone(),
            policy: self.server.policy.clone(),
            policy_leaf: self.server.policy_leaf,
            floors: Floors {
                crowd: self.crowd,
                ..Floors::default()
            },
        };
        let rng = ChaCha20Rng::seed_from_u64(100 + u64::from(id.0));
        Ok(Client::new(Arc::new(membership), Head::empty(), rng)?)
    }

    /// One round; the clients in `gone` leave when they should upload.
    ///
    /// # Errors
    /// The name under which the round ended.
    pub(crate) fn round(&self, clusters: &[Vec<u32>], gone: &[u32]) -> Result<Outcome, Abort> {
        let mut clients = BTreeMap::new();
        for id in (0..CLIENTS).map(ClientId) {
            clients.insert(id, self.client(id).expect("eight clients with keys"));
        }
        let model: Arc<[f32]> = Arc::from([0.0; ENTRIES]);
        let request = RoundRequest {
            round: RoundId(1),
            attempt: Attempt(0),
            clusters: clusters
                .iter()
                .map(|members| {
                    (
                        members.iter().copied().map(ClientId).collect(),
                        Arc::clone(&model),
                    )
                })
                .collect(),
            graph_seed: [0; 32],
            present: clients.iter().map(|(id, client)| (*id, client.head())).collect(),
        };
        let log = Log::from_entries(self.genesis.iter().cloned());
        let rng = ChaCha20Rng::seed_from_u64(2);
        let mut now = Now(0);
        let mut server =
            Server::start(Arc::clone(&self.server), log, request, now, rng).map_err(|(abort, _)| abort)?;
        let mut spools: BTreeMap<(ClientId, ClusterId), Vec<u8>> = BTreeMap::new();
        let mut mail: VecDeque<(ClientId, ToClient)> = VecDeque::new();
        let mut ended = None;
        loop {
            while let Some(output) = server.poll_output() {
                match output {
                    ServerOutput::Send(to, message) => mail.push_back((to, message)),
                    ServerOutput::Done(outcome) => ended = Some(outcome),
                    ServerOutput::Aborted(abort) => return Err(abort),
                    _ => {}
                }
            }
            let Some((id, message)) = mail.pop_front() else {
                match (ended.take(), server.poll_deadline()) {
                    (Some(outcome), _) => return Ok(outcome),
                    (None, Some(deadline)) => {
                        now = deadline;
                        server.handle_deadline(now);
                        continue;
                    }
                    (None, None) => unreachable!("a round ends by name"),
                }
            };
            let Some(client) = clients.get_mut(&id) else {
                continue;
            };
            if let Err(refusal) = client.handle(message, now) {
                println!("   {id} refuses: {refusal}");
            }
            let mut leaves = false;
            while let Some(output) = client.poll_output() {
                match output {
                    ClientOutput::Send(message) => server.handle(id, message, now),
                    ClientOutput::Train { clusters, .. } => {
                        let steps = Self::update(id.0);
                        let delta = |_: &_| steps.iter().map(|step| *step as f32 / 64.0).collect();
                        let update = |(cluster, model): &(ClusterId, Digest)| ClientUpdate {
                            cluster: *cluster,
                            model: *model,
                            delta: delta(cluster),
                        };
                        let updates: Vec<_> = clusters.iter().map(update).collect();
                        client
                            .update(&updates, 1, now)
                            .expect("an update of the right size");
                    }
                    ClientOutput::Spool { cluster, packed, .. } => {
                        spools.insert((id, cluster), packed);
                    }
                    ClientOutput::Upload { .. } if gone.contains(&id.0) => leaves = true,
                    ClientOutput::Upload { round, attempt, from } => {
                        let chunking = Chunking::new(self.server.policy.update.modulus, ENTRIES + 1);
                        for (cluster, first) in from {
                            let packed = spools.get(&(id, cluster)).expect("spooled before");
                            for chunk in Chunk::cut((round, attempt), cluster, packed, chunking, first) {
                                server.handle(id, ToServer::Chunk(chunk), now);
                            }
                        }
                    }
                    _ => {}
                }
            }
            if leaves {
                clients.remove(&id);
                server.gone(id, now);
            }
        }
    }
}

fn identity(role: u8, number: u32) -> Result<Identity, Box<dyn Error>> {
    let mut seed = [role; 32];
    seed[..4].copy_from_slice(&number.to_le_bytes());
    Ok(Identity::from_seed(&seed)?)
}
