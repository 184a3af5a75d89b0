//! The same means by the protocol: real client and server machines, every message encoded and read again, masks and all.
//!
//! The machines are pumped in one thread, first come first served, without a network; `drive` is what puts one under them. Keys come from the seed, so nothing here protects anybody: it shows that what the
//! protocol opens is the mean that plain averaging gives, within the grid of the quantiser.

use super::ExperimentError;
use super::averaging::{Averaging, Update};
use crate::genesis::Genesis;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use veilsum_aggregation::client::Membership as Member;
use veilsum_aggregation::cluster::Membership;
use veilsum_aggregation::message::Chunk;
use veilsum_aggregation::server::Opened;
use veilsum_aggregation::{
    Client, ClientOutput, ClientUpdate, Deadlines, Floors, Now, RoundRequest, Server, ServerOutput,
    ServerSetup, ToClient, ToServer,
};
use veilsum_attestation::statement::{Member as Enrolled, Policy, UpdateRule};
use veilsum_attestation::{Log, model_digest};
use veilsum_crypto::chunk::Chunking;
use veilsum_crypto::{
    Attempt, BoundedVec, ClientId, ClusterId, Digest, Identity, Modulus, OrgId, RoundId, SuiteId,
};

/// How updates become integers and who must be in a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Masking {
    /// Bits of an entry, 2 to 24.
    pub value_bits: u8,
    /// Largest magnitude of an entry times its share of the largest weight. More is refused here, where a client would cut.
    pub range: f64,
    /// Fewest clients in any combination of sums.
    pub crowd: u32,
    /// Seed of keys and roundings.
    pub seed: u64,
}

impl Masking {
    /// The distance of two grid points, in units of an entry times its share of the largest weight.
    #[must_use]
    pub fn step(&self) -> f64 {
        self.range / f64::from((1_i32 << (u32::from(self.value_bits.clamp(2, 24)) - 1)) - 1)
    }

    /// How far an opened mean may be from the exact one: each client's entry is off by less than a step.
    #[must_use]
    pub fn bound(&self, weights: &[u32]) -> f64 {
        let total: f64 = weights.iter().copied().map(f64::from).sum();
        let most = weights.iter().copied().max().map_or(0.0, f64::from);
        #[expect(clippy::cast_precision_loss, reason = "numbers of clients are far below 2^52")]
        let clients = weights.len() as f64;
        clients * self.step() * most / total.max(1.0)
    }
}

/// A federation that lasts as long as a run.
pub struct Masked {
    masking: Masking,
    world: Option<World>,
}

impl Masked {
    /// Founded at the first mean.
    #[must_use]
    pub fn new(masking: Masking) -> Self {
        Self { masking, world: None }
    }

    /// Protocol rounds so far.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.world.as_ref().map_or(0, |world| world.round)
    }
}

impl Averaging for Masked {
    fn average(
        &mut self,
        clusters: &Membership,
        bases: &[Vec<f32>],
        updates: &[Option<Update>],
    ) -> Result<Vec<Option<Vec<f32>>>, ExperimentError> {
        let world = match &mut self.world {
            Some(world) => world,
            empty => empty.insert(World::found(self.masking, bases, updates)?),
        };
        world.run(clusters, bases, updates)
    }
}

struct World {
    masking: Masking,
    policy: Policy,
    setup: Arc<ServerSetup>,
    clients: Vec<Client<ChaCha20Rng>>,
    log: Log,
    rng: ChaCha20Rng,
    round: u64,
}

/// A message on its way.
enum Letter {
    Up(ClientId, u8, Vec<u8>),
    Down(ClientId, u8, Vec<u8>),
}

impl World {
    fn found(
        masking: Masking,
        bases: &[Vec<f32>],
        updates: &[Option<Update>],
    ) -> Result<Self, ExperimentError> {
        let fault = |what: &dyn std::fmt::Display| ExperimentError::Round(what.to_string());
        let mut rng = ChaCha20Rng::seed_from_u64(masking.seed);
        let mut identity = || {
            let mut seed = [0; 32];
            rng.fill_bytes(&mut seed);
            Identity::from_seed(&seed).map_err(|error| fault(&error))
        };
        let (authority, server) = (identity()?, identity()?);
        let count = u32::try_from(updates.len()).map_err(|error| fault(&error))?;
        let keys = (0..count).map(|_| identity()).collect::<Result<Vec<_>, _>>()?;
        let members = (0..count)
            .zip(&keys)
            .map(|(client, key)| Enrolled {
                client: ClientId(client),
                org: OrgId(client),
                key: key.public(),
                tls: Digest([0; 32]),
            })
            .collect();
        let base = bases.first().ok_or_else(|| fault(&"there is no cluster"))?;
        let max_weight = updates.iter().flatten().map(|update| update.weight).max();
        let max_weight = max_weight.unwrap_or(1);
        let bits = UpdateRule::modulus_bits(masking.value_bits, max_weight, count);
        let bits = u8::try_from(bits).unwrap_or(u8::MAX);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, and the policy's check names a range of 0"
        )]
        let range_micros = (masking.range * 1e6).round() as u32;
        let modulus = Modulus::new(bits).map_err(|error| fault(&error))?;
        let policy = |members| Policy {
            suite: SuiteId::SUITE_1,
            name: BoundedVec::new(NAME.as_bytes().to_vec()).unwrap_or_default(),
            server: server.public(),
            server_tls: Digest([0; 32]),
            clients: count,
            members,
            threshold: count / 2 + 1,
            colluders: 0,
            dropouts: 0,
            crowd: masking.crowd,
            crowd_orgs: 1,
            update: UpdateRule {
                entries: base.len() as u64,
                schema: Digest([0; 32]),
                value_bits: masking.value_bits,
                modulus,
                range_micros,
                max_weight,
            },
            initial: model_digest(base),
            rounds: u64::from(u32::MAX),
            clustering: None,
            blocks: 0,
            keep_rounds: 0,
        };
        let safe = |members| {
            let policy = policy(members);
            policy.check().map_err(|error| fault(&error))?;
            Ok::<_, ExperimentError>(policy)
        };
        let genesis = Genesis::found(&authority, NAME, members, safe, &mut rng)?;
        let log = Log::from_entries(genesis.entries);
        let clients = (0..count)
            .zip(keys)
            .map(|(client, identity)| {
                let member = Member {
                    me: ClientId(client),
                    identity,
                    book: genesis.book.clone(),
                    policy: genesis.policy.clone(),
                    policy_leaf: genesis.policy_leaf,
                    floors: Floors::default(),
                };
                let own = ChaCha20Rng::seed_from_u64(rng.next_u64());
                Client::new(Arc::new(member), veilsum_attestation::Head::empty(), own)
                    .map_err(|error| fault(&error))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let setup = Arc::new(ServerSetup {
            identity: server,
            book: genesis.book,
            policy: genesis.policy.clone(),
            policy_leaf: genesis.policy_leaf,
            deadlines: DEADLINES,
        });
        Ok(Self {
            masking,
            policy: genesis.policy,
            setup,
            clients,
            log,
            rng,
            round: 0,
        })
    }

    fn run(
        &mut self,
        clusters: &Membership,
        bases: &[Vec<f32>],
        updates: &[Option<Update>],
    ) -> Result<Vec<Option<Vec<f32>>>, ExperimentError> {
        self.round += 1;
        let lists = (0..clusters.clusters()).zip(bases).map(|(cluster, base)| {
            let members = clusters.members(cluster).map(id).collect();
            (members, Arc::from(base.as_slice()))
        });
        let heads = self.clients.iter().enumerate();
        let request = RoundRequest {
            round: RoundId(self.round),
            attempt: Attempt(0),
            clusters: lists.collect(),
            graph_seed: [0; 32],
            present: heads
                .map(|(client, machine)| (id(client), machine.head()))
                .collect(),
        };
        let own = ChaCha20Rng::seed_from_u64(self.rng.next_u64());
        let log = std::mem::take(&mut self.log);
        let server = Server::start(Arc::clone(&self.setup), log, request, Now(0), own)
            .map_err(|(abort, _)| ExperimentError::Round(abort.to_string()))?;
        let mut pump = Pump {
            masking: self.masking,
            policy: &self.policy,
            clients: &mut self.clients,
            server,
            letters: VecDeque::new(),
            spools: BTreeMap::new(),
            opened: None,
            now: Now(0),
            bases,
            updates,
        };
        pump.run()?;
        let opened = pump.opened.take().unwrap_or_default();
        self.log = pump.server.into_parts().0;
        let mut models: Vec<Option<Vec<f32>>> = vec![None; clusters.clusters()];
        for one in opened {
            if let Some(place) = models.get_mut(usize::from(one.cluster.0)) {
                *place = Some(one.model.to_vec());
            }
        }
        Ok(models)
    }
}

/// One round under way.
struct Pump<'a> {
    masking: Masking,
    policy: &'a Policy,
    clients: &'a mut Vec<Client<ChaCha20Rng>>,
    server: Server<ChaCha20Rng>,
    letters: VecDeque<Letter>,
    spools: BTreeMap<(ClientId, ClusterId), Vec<u8>>,
    opened: Option<Vec<Opened>>,
    now: Now,
    bases: &'a [Vec<f32>],
    updates: &'a [Option<Update>],
}

impl Pump<'_> {
    fn run(&mut self) -> Result<(), ExperimentError> {
        loop {
            self.drain_server()?;
            let Some(letter) = self.letters.pop_front() else {
                // Whoever is waited for has left: time passes.
                let Some(deadline) = self.server.poll_deadline() else {
                    return Ok(());
                };
                self.now = deadline;
                self.server.handle_deadline(deadline);
                continue;
            };
            match letter {
                Letter::Up(from, kind, body) => {
                    let message = ToServer::decode(kind, &body).map_err(round)?;
                    self.server.handle(from, message, self.now);
                }
                Letter::Down(to, kind, body) => {
                    let message = ToClient::decode(kind, &body).map_err(round)?;
                    self.client(to)?.handle(message, Now(0)).map_err(round)?;
                    self.drain_client(to)?;
                }
            }
        }
    }

    fn client(&mut self, id: ClientId) -> Result<&mut Client<ChaCha20Rng>, ExperimentError> {
        let unknown = || ExperimentError::Round(format!("a message for {id}, who is not there"));
        self.clients.get_mut(id.0 as usize).ok_or_else(unknown)
    }

    fn drain_server(&mut self) -> Result<(), ExperimentError> {
        while let Some(output) = self.server.poll_output() {
            match output {
                ServerOutput::Send(to, message) => {
                    let (kind, _, body) = message.encode().map_err(round)?;
                    self.letters.push_back(Letter::Down(to, kind, body));
                }
                ServerOutput::Done(outcome) => self.opened = Some(outcome.opened),
                ServerOutput::Aborted(abort) => return Err(round(abort)),
                ServerOutput::Refused(client, refusal) => {
                    // One that trained to no good has left by itself.
                    if self.updates.get(client.0 as usize).is_none_or(Option::is_some) {
                        return Err(round(refusal));
                    }
                }
                ServerOutput::Record(_) | ServerOutput::Store { .. } | ServerOutput::Progress { .. } => {}
            }
        }
        Ok(())
    }

    fn drain_client(&mut self, from: ClientId) -> Result<(), ExperimentError> {
        while let Some(output) = self.client(from)?.poll_output() {
            match output {
                ClientOutput::Send(message) => self.post(from, &message)?,
                ClientOutput::Train { clusters, .. } => self.train(from, &clusters)?,
                ClientOutput::Spool { cluster, packed, .. } => {
                    self.spools.insert((from, cluster), packed);
                }
                ClientOutput::Upload {
                    round: number,
                    attempt,
                    from: firsts,
                } => {
                    let rule = self.policy.update;
                    let words = usize::try_from(rule.entries).unwrap_or_default() + 1;
                    let chunking = Chunking::new(rule.modulus, words);
                    for (cluster, first) in firsts {
                        let packed = self.spools.remove(&(from, cluster)).unwrap_or_default();
                        for chunk in Chunk::cut((number, attempt), cluster, &packed, chunking, first) {
                            self.post(from, &ToServer::Chunk(chunk))?;
                        }
                    }
                }
                ClientOutput::Evidence(_) => {
                    return Err(ExperimentError::Round(
                        "a client says the server cheated".to_owned(),
                    ));
                }
                ClientOutput::Keep(_)
                | ClientOutput::Journal(_)
                | ClientOutput::Describe { .. }
                | ClientOutput::KeepDescriptor { .. }
                | ClientOutput::Progress { .. }
                | ClientOutput::Done { .. }
                | ClientOutput::Ended { .. } => {}
            }
        }
        Ok(())
    }

    fn post(&mut self, from: ClientId, message: &ToServer) -> Result<(), ExperimentError> {
        let (kind, _, body) = message.encode().map_err(round)?;
        self.letters.push_back(Letter::Up(from, kind, body));
        Ok(())
    }

    fn train(&mut self, me: ClientId, clusters: &[(ClusterId, Digest)]) -> Result<(), ExperimentError> {
        let Some(update) = self.updates.get(me.0 as usize).and_then(Option::as_ref) else {
            self.client(me)?.leave("training failed");
            return Ok(());
        };
        let share = f64::from(update.weight) / f64::from(self.policy.update.max_weight);
        let mut made = Vec::with_capacity(clusters.len());
        for (cluster, model) in clusters {
            let base = self
                .bases
                .get(usize::from(cluster.0))
                .map_or(&[][..], Vec::as_slice);
            let delta: Vec<f32> = update
                .values
                .iter()
                .zip(base)
                .map(|(new, old)| new - old)
                .collect();
            let largest = delta
                .iter()
                .fold(0.0_f64, |most, entry| most.max(f64::from(entry.abs())));
            if largest * share > self.masking.range {
                return Err(ExperimentError::Range {
                    client: me.0,
                    largest: largest * share,
                    range: self.masking.range,
                });
            }
            made.push(ClientUpdate {
                cluster: *cluster,
                model: *model,
                delta,
            });
        }
        let weight = update.weight;
        self.client(me)?.update(&made, weight, Now(0)).map_err(round)
    }
}

fn id(client: usize) -> ClientId {
    ClientId(u32::try_from(client).unwrap_or(u32::MAX))
}

fn round(error: impl std::fmt::Display) -> ExperimentError {
    ExperimentError::Round(error.to_string())
}

const NAME: &str = "experiment";
const DEADLINES: Deadlines = Deadlines {
    advertise: 1000,
    share: 1000,
    mask: 1000,
    agree: 1000,
    unmask: 1000,
    reconnect: 0,
};
