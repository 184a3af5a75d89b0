//! A federation in one process: the real machines, the real bytes, virtual time, and a seeded scheduler that delivers
//! messages in any order the channels let.

mod client;
mod life;
mod server;

use super::EngineError;
use super::coverage::Phase;
use super::disk::Disk;
use super::facts::{Ending, Facts};
use super::fault::{Cast, Deed, FaultSpec, When};
use super::federation::{Contribution, DEADLINES, Federation, MAX_WEIGHT};
use super::network::{Lane, Network, Packet};
use super::script::Script;
use super::tap::{Heard, Tap};
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use veilsum_aggregation::server::RoundRequest;
use veilsum_aggregation::{Client, Now, Server, ToClient, ToServer};
use veilsum_attestation::statement::Phase as PhaseName;
use veilsum_attestation::{Head, model_digest};
use veilsum_crypto::{Attempt, ClientId, ClusterId, RoundId};

/// One client's place.
struct Seat {
    machine: Client<Tap>,
    kept: Kept,
    alive: bool,
    /// Its connection is up.
    connected: bool,
    /// How wrong its clock is, in milliseconds.
    skew: i64,
    contribution: Contribution,
}

/// A client's disk.
struct Kept {
    head: Head,
    journal: Option<Vec<u8>>,
    vectors: BTreeMap<ClusterId, Vec<u8>>,
}

/// What happens at a set time.
#[derive(Clone, Copy, Debug)]
enum Alarm {
    /// A partition ends.
    Heal(ClientId),
    /// The server's process is back.
    ServerBack,
    /// It has waited long enough for its clients.
    ServerStarts,
    /// A client's process is back.
    ClientBack(ClientId),
    /// A client connects, for the first time or again.
    Connect(ClientId),
}

/// The federation at work.
pub(super) struct World {
    pub(super) federation: Federation,
    pub(super) script: Script,
    pub(super) facts: Facts,
    pub(super) disk: Disk,
    pub(super) models: Vec<Arc<[f32]>>,
    pub(super) taps: BTreeMap<ClientId, Heard>,
    seats: BTreeMap<ClientId, Seat>,
    server: Option<Server<ChaCha20Rng>>,
    network: Network,
    dice: ChaCha20Rng,
    now: u64,
    alarms: BTreeMap<(u64, u64), Alarm>,
    alarm_count: u64,
    round: RoundId,
    attempt: Attempt,
    phase: Option<PhaseName>,
    /// When the server's phase ends, whoever is away.
    phase_ends: u64,
    /// The disk as it was before the round before.
    backup: Option<(Disk, Vec<Arc<[f32]>>)>,
    /// Who joins late in this round.
    late: BTreeMap<ClientId, When>,
    /// The server is back and waits for these clients before it starts its next attempt.
    awaited: Option<BTreeSet<ClientId>>,
    /// The end of the last attempt, for clients that were away.
    over: Option<((RoundId, Attempt), ToClient)>,
    /// Everybody's generators are listened to.
    tap_all: bool,
}

impl World {
    /// A federation that has not run yet.
    pub(super) fn new(
        federation: Federation,
        faults: &[FaultSpec],
        rounds: u64,
        seed: u64,
        tap_all: bool,
    ) -> Result<Self, EngineError> {
        let mut dice = ChaCha20Rng::seed_from_u64(seed);
        let mut order: Vec<ClientId> = (0..federation.size.n).map(ClientId).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, dice.next_u32() as usize % (last + 1));
        }
        let cast = Cast::new(federation.size, &federation.clusters, order);
        let script = Script::new(faults, cast, rounds)?;
        let entries = federation.policy.update.entries;
        let start: Arc<[f32]> = Arc::from(vec![0.5; usize::try_from(entries).unwrap_or_default()]);
        let mut disk = Disk::new(&federation.genesis);
        disk.keep_model(&start);
        let models = federation.clusters.iter().map(|_| Arc::clone(&start)).collect();
        let mut world = Self {
            script,
            facts: Facts::new(),
            disk,
            models,
            taps: BTreeMap::new(),
            seats: BTreeMap::new(),
            server: None,
            network: Network::new(8),
            dice,
            now: 0,
            alarms: BTreeMap::new(),
            alarm_count: 0,
            round: RoundId(0),
            attempt: Attempt(0),
            phase: None,
            phase_ends: 0,
            backup: None,
            late: BTreeMap::new(),
            awaited: None,
            over: None,
            tap_all,
            federation,
        };
        // Contributions first, from a generator of their own: they must not depend on what goes wrong.
        let mut values = ChaCha20Rng::seed_from_u64(seed ^ 0x5eed);
        for client in (0..world.federation.size.n).map(ClientId) {
            let contribution = Contribution::random(client, entries, &mut values);
            let kept = Kept {
                head: Head::empty(),
                journal: None,
                vectors: BTreeMap::new(),
            };
            let seat = Seat {
                machine: world.machine(client, &kept)?,
                kept,
                alive: true,
                connected: true,
                skew: 0,
                contribution,
            };
            world.seats.insert(client, seat);
        }
        Ok(world)
    }

    /// Runs rounds 1 to `rounds`, each with as many attempts as the server's crashes make.
    pub(super) fn run(&mut self, rounds: u64) -> Result<(), EngineError> {
        for round in (1..=rounds).map(RoundId) {
            if self.script.does(Deed::ServerRollback, round).is_some()
                && let Some((disk, models)) = self.backup.take()
            {
                (self.disk, self.models) = (disk, models);
                self.facts.endings.clear();
                self.over = None;
                self.wake()?;
                let (round, attempt) = self.disk.next();
                self.begin(round, attempt)?;
                return self.settle();
            }
            self.backup = Some((self.disk.clone(), self.models.clone()));
            self.wake()?;
            self.begin(round, Attempt(0))?;
            self.settle()?;
            if !matches!(self.facts.ending(), Some((_, _, Ending::Sum(_)))) {
                return Ok(());
            }
            if self.script.does(Deed::RepeatRound, round).is_some() {
                self.begin(round, Attempt(self.attempt.0 + 1))?;
                self.settle()?;
            }
        }
        Ok(())
    }

    /// Starts an attempt at a round with everybody who is here.
    fn begin(&mut self, round: RoundId, attempt: Attempt) -> Result<(), EngineError> {
        (self.round, self.attempt) = (round, attempt);
        self.facts.done.clear();
        self.prepare(round, attempt);
        let mut absent: BTreeSet<ClientId> = self.dead().collect();
        absent.extend(self.late.keys().copied());
        if let Some(act) = self.script.does(Deed::StayAway, round) {
            absent.extend(act.who.iter().copied());
        }
        for client in &absent {
            self.disconnect(*client);
        }
        let clusters = (0u16..)
            .map(ClusterId)
            .zip(&self.models)
            .map(|(cluster, model)| (self.federation.cluster_set(cluster), Arc::clone(model)))
            .collect();
        let present = self
            .seats
            .iter()
            .filter(|(client, seat)| !absent.contains(client) && seat.connected)
            .map(|(client, seat)| (*client, seat.machine.head()))
            .collect();
        let request = RoundRequest {
            round,
            attempt,
            clusters,
            graph_seed: [0; 32],
            present,
        };
        let rng = ChaCha20Rng::seed_from_u64(self.dice.next_u64());
        let setup = self.federation.server_setup()?;
        match Server::start(setup, self.disk.log(), request, Now(self.now), rng) {
            Ok(server) => {
                self.phase = None;
                self.phase_ends = self.now + DEADLINES.advertise;
                self.server = Some(server);
                for (client, when) in std::mem::take(&mut self.late) {
                    let limit = DEADLINES.advertise;
                    let at = match when {
                        When::Inside => self.now + limit - 50,
                        _ => self.now + limit + 1,
                    };
                    self.alarm(at, Alarm::Connect(client));
                }
                self.begin_partitions(Phase::P0)?;
                self.drain_server()
            }
            Err((abort, _)) => {
                self.end(Ending::Abort(abort.name().to_owned()));
                Ok(())
            }
        }
    }

    /// What a round's faults change before it begins.
    fn prepare(&mut self, round: RoundId, attempt: Attempt) {
        self.network.latency = if self.script.does(Deed::Reorder, round).is_some() {
            90
        } else {
            8
        };
        let mut skewed = Vec::new();
        let mut changed = Vec::new();
        for act in self.script.acts(round) {
            match act.spec.does {
                Deed::Straggle => {
                    for client in act.who.iter().copied() {
                        skewed.push(client);
                        if act.spec.at == Some(Phase::P0)
                            && attempt == Attempt(0)
                            && let Some(when) = act.spec.when
                        {
                            self.late.insert(client, when);
                        }
                    }
                }
                Deed::TooHeavy | Deed::NotFinite | Deed::BeyondRange => {
                    changed.extend(act.who.iter().map(|client| (*client, act.spec.does)));
                }
                _ => {}
            }
        }
        for client in skewed {
            let early = self.dice.next_u32().is_multiple_of(2);
            if let Some(seat) = self.seats.get_mut(&client) {
                seat.skew = if early { -100_000 } else { 100_000 };
            }
        }
        for (client, deed) in changed {
            if let Some(seat) = self.seats.get_mut(&client) {
                match deed {
                    Deed::TooHeavy => seat.contribution.weight = MAX_WEIGHT + 1,
                    Deed::NotFinite => seat.contribution.instead = Some(f32::NAN),
                    _ => seat.contribution.instead = Some(if client.0 % 2 == 0 { 1e30 } else { -1e30 }),
                }
            }
        }
    }

    fn begin_partitions(&mut self, phase: Phase) -> Result<(), EngineError> {
        let deadline = self.phase_ends;
        let now = self.now;
        let mut cut = Vec::new();
        for act in self.script.acts(self.round) {
            if act.spec.does != Deed::Partition || act.spec.at != Some(phase) || act.memory.done {
                continue;
            }
            act.memory.done = true;
            let until = match act.spec.when {
                Some(When::Inside) => Some(now + deadline.saturating_sub(now) / 2),
                Some(When::Outside) => Some(now + 100_000),
                _ => None,
            };
            let noticed = act.spec.noticed.unwrap_or(false);
            cut.extend(act.who.iter().map(|client| (*client, until, noticed)));
        }
        for (client, until, noticed) in cut {
            self.network.cut(client);
            if let Some(until) = until {
                self.alarm(until, Alarm::Heal(client));
            }
            if noticed {
                self.disconnect(client);
                self.server_gone(client)?;
            }
        }
        Ok(())
    }

    fn alarm(&mut self, at: u64, alarm: Alarm) {
        self.alarm_count += 1;
        self.alarms.insert((at, self.alarm_count), alarm);
    }

    /// Runs until nothing is left to happen.
    fn settle(&mut self) -> Result<(), EngineError> {
        for _ in 0..MOST_STEPS {
            if !self.step()? {
                return Ok(());
            }
        }
        Err(EngineError::Internal("the round does not end"))
    }

    /// Lets the next thing happen; false when nothing is left.
    fn step(&mut self) -> Result<bool, EngineError> {
        let message = self.network.next();
        let deadline = self.deadline();
        let alarm = self.alarms.keys().next().map(|(at, _)| *at);
        let Some(at) = [message, deadline, alarm].into_iter().flatten().min() else {
            return Ok(false);
        };
        self.now = self.now.max(at);
        if alarm == Some(at)
            && let Some((_, alarm)) = self.alarms.pop_first()
        {
            self.ring(alarm)?;
        } else if message == Some(at) {
            if let Some((lane, packet)) = self.network.take(self.now, &mut self.dice) {
                self.deliver(lane, &packet)?;
            }
        } else if let Some(server) = &mut self.server {
            server.handle_deadline(Now(self.now));
            self.drain_server()?;
        }
        Ok(true)
    }

    fn deadline(&self) -> Option<u64> {
        self.server
            .as_ref()
            .and_then(Server::poll_deadline)
            .map(|now| now.0)
    }

    fn ring(&mut self, alarm: Alarm) -> Result<(), EngineError> {
        match alarm {
            Alarm::Heal(client) => {
                self.network.heal(client, self.now);
                if self.seats.get(&client).is_some_and(|seat| seat.connected) {
                    Ok(())
                } else {
                    self.connect(client)
                }
            }
            Alarm::ServerBack => self.server_back(),
            Alarm::ServerStarts => {
                let waited = self.awaited.take().is_some();
                let (round, attempt) = self.disk.next();
                if waited && round == self.round {
                    self.begin(round, attempt)
                } else {
                    Ok(())
                }
            }
            Alarm::ClientBack(client) => {
                self.revive(client)?;
                self.connect(client)
            }
            Alarm::Connect(client) => self.connect(client),
        }
    }

    fn deliver(&mut self, lane: Lane, packet: &Packet) -> Result<(), EngineError> {
        let client = lane.client();
        let way: &[u8] = match lane {
            Lane::Control(_) => b"c",
            Lane::Bulk(_) => b"b",
            Lane::Down(_) => b"d",
        };
        let id = client.0.to_le_bytes();
        self.facts.transcribe(&[way, &id, &[packet.kind], &packet.body]);
        match lane {
            Lane::Control(_) | Lane::Bulk(_) => {
                if let Ok(message) = ToServer::decode(packet.kind, &packet.body) {
                    return self.server_hears(client, message);
                }
                // The server closes the connection; the client comes back on another.
                self.facts.by_server.push((client, "Malformed"));
                self.disconnect(client);
                self.alarm(self.now + 20, Alarm::Connect(client));
                self.server_gone(client)
            }
            Lane::Down(_) => {
                if !self.is_there(client) {
                    return Ok(());
                }
                if let Ok(message) = ToClient::decode(packet.kind, &packet.body) {
                    return self.client_hears(client, message);
                }
                self.facts.by_client.push((client, "Malformed"));
                self.kill(client, Some(true))
            }
        }
    }

    /// The plain sum of the survivors in one cluster, weight last, modulo 2^m.
    pub(super) fn plain_sum(&self, cluster: ClusterId, survivors: &BTreeSet<ClientId>) -> Vec<u32> {
        let modulus = self.federation.policy.update.modulus;
        let entries = usize::try_from(self.federation.policy.update.entries).unwrap_or_default();
        let members = self.federation.cluster_set(cluster);
        let mut sum = vec![0i64; entries + 1];
        for client in members.intersection(survivors) {
            if let Some(seat) = self.seats.get(client) {
                for (index, total) in sum.iter_mut().enumerate() {
                    *total += seat.contribution.term(index);
                }
            }
        }
        sum.into_iter()
            .map(|total| u32::try_from(total.rem_euclid(1i64 << modulus.bits())).unwrap_or_default())
            .collect()
    }

    /// A client's own words in one cluster before masking.
    pub(super) fn plain_words(&self, client: ClientId) -> Vec<u32> {
        self.federation
            .clusters
            .iter()
            .position(|set| set.contains(&client))
            .and_then(|cluster| u16::try_from(cluster).ok())
            .map(|cluster| self.plain_sum(ClusterId(cluster), &[client].into()))
            .unwrap_or_default()
    }

    /// Whether every model a client was told of is the model its cluster really got.
    pub(super) fn believes(&self, models: &[(ClusterId, veilsum_crypto::Digest)]) -> bool {
        models.iter().all(|(cluster, digest)| {
            self.models
                .get(usize::from(cluster.0))
                .is_some_and(|model| model_digest(model) == *digest)
        })
    }
}

fn phase_number(phase: PhaseName) -> Phase {
    match phase {
        PhaseName::Advertise => Phase::P1,
        PhaseName::Share => Phase::P2,
        PhaseName::Mask => Phase::P3,
        PhaseName::Agree => Phase::P4,
        PhaseName::Unmask => Phase::P5,
        PhaseName::Publish => Phase::P6,
    }
}

/// How long a phase may take.
fn length(phase: PhaseName) -> u64 {
    match phase {
        PhaseName::Advertise => DEADLINES.advertise,
        PhaseName::Share => DEADLINES.share,
        PhaseName::Mask => DEADLINES.mask,
        PhaseName::Agree => DEADLINES.agree,
        PhaseName::Unmask => DEADLINES.unmask,
        PhaseName::Publish => 0,
    }
}

const MOST_STEPS: usize = 2_000_000;
