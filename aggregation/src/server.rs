//! The server of a round: trusted for nothing but availability.
//!
//! One machine runs one attempt at one round. It collects, adds masked vectors, asks for agreement, and opens only the
//! sums the agreement names. A client whose message does not hold is put out of the round by name and counts as dropped;
//! the round goes on while at least t are left and otherwise ends in a named [`Abort`] with nothing opened.

mod advertise;
mod agree;
mod collect;
mod recover;
mod share;
mod unmask;

pub use recover::Stored;

use crate::Now;
use crate::abort::Abort;
use crate::message::{EntryBytes, Extends, Hello, PlanMessage, Refused, ToClient, ToServer, Waits};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use veilsum_attestation::release::{PlanLeak, check_plan};
use veilsum_attestation::statement::{
    Aborted, Agree, ClientSet, ClusterPlan, Complaint, Entry, KeyBook, Keys, Masked, Party,
    Phase as PhaseName, Plan, Policy, Shares, Signed, Statement, Sums, leaf_hash,
};
use veilsum_attestation::{Head, Log, model_digest};
use veilsum_crypto::{Attempt, BoundedVec, ClientId, ClusterId, Digest, Identity, RoundId, WireError, wire};

/// What a server is. The same for all rounds.
pub struct ServerSetup {
    /// Its signing key.
    pub identity: Identity,
    /// Everybody's keys.
    pub book: KeyBook,
    /// The policy, signature checked.
    pub policy: Policy,
    /// Leaf hash of the policy's entry.
    pub policy_leaf: Digest,
    /// How long each phase may take.
    pub deadlines: Deadlines,
}

/// How long each phase may take, in milliseconds. A phase ends earlier once every connected client has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Training and keys.
    pub advertise: u64,
    /// Shares.
    pub share: u64,
    /// Masked uploads.
    pub mask: u64,
    /// Signatures on the agreement.
    pub agree: u64,
    /// Reveals.
    pub unmask: u64,
    /// How long a client whose connection is gone may take to come back before it counts as dropped.
    pub reconnect: u64,
}

/// One attempt at a round.
pub struct RoundRequest {
    /// Round.
    pub round: RoundId,
    /// Attempt at it, from 0.
    pub attempt: Attempt,
    /// The clusters: members and the model each starts from.
    pub clusters: Vec<(ClientSet, Arc<[f32]>)>,
    /// Seed of the neighbour graph; the complete graph ignores it.
    pub graph_seed: [u8; 32],
    /// The clients that are connected now, with the last head each holds.
    pub present: BTreeMap<ClientId, Head>,
}

/// What the driver must do.
#[derive(Debug)]
pub enum ServerOutput {
    /// Send a message.
    Send(ClientId, ToClient),
    /// Append this entry to the log on disk.
    Record(Vec<u8>),
    /// Keep a client's masked vector for the audit: the packed bytes, all chunks together.
    Store {
        /// Whose.
        client: ClientId,
        /// For which cluster.
        cluster: ClusterId,
        /// Packed bytes.
        bytes: Vec<u8>,
    },
    /// A client is out of the round.
    Refused(ClientId, Refusal),
    /// Where the round stands; for progress displays.
    Progress {
        /// Phase.
        phase: PhaseName,
        /// Clients that have answered.
        have: usize,
        /// Clients that are waited for.
        want: usize,
    },
    /// The sums are open. Comes before the `sums` entry is recorded, so that the models are stored first.
    Done(Outcome),
    /// The round is over and nothing was opened.
    Aborted(Abort),
}

/// What a finished round gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Round.
    pub round: RoundId,
    /// The clients whose vectors count.
    pub survivors: ClientSet,
    /// One per released cluster, ascending.
    pub opened: Vec<Opened>,
    /// Clusters that stay closed this round.
    pub withheld: Vec<ClusterId>,
}

/// One opened cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The cluster.
    pub cluster: ClusterId,
    /// The sum modulo 2^m, its last word the sum of weights.
    pub sum: Vec<u32>,
    /// Clients in the sum.
    pub contributors: u32,
    /// The cluster's new model.
    pub model: Arc<[f32]>,
}

/// A server's machine for one attempt.
pub struct Server<R> {
    core: Core<R>,
    phase: Phase,
}

/// What all phases share.
struct Core<R> {
    setup: Arc<ServerSetup>,
    rng: R,
    log: Log,
    plan: Plan,
    plan_leaf: Digest,
    plan_entry: EntryBytes,
    models: Vec<Arc<[f32]>>,
    /// Clients that may still answer in this round.
    present: BTreeSet<ClientId>,
    /// Those of them whose connection is gone, with the time by which they must be back.
    away: BTreeMap<ClientId, Now>,
    /// Leaf hashes of what this attempt has logged: the same bytes again say nothing new.
    said: BTreeSet<Digest>,
    heads: BTreeMap<ClientId, Head>,
    deadline: Now,
    /// Clients whose late vector is in the log.
    late: BTreeSet<ClientId>,
    /// Who was told what.
    refused: BTreeSet<(ClientId, &'static str)>,
    /// An agreement was sent.
    asked: bool,
    outputs: VecDeque<ServerOutput>,
}

enum Phase {
    Advertise(advertise::Advertise),
    Share(share::Share),
    Collect(collect::Collect),
    Agree(agree::AgreePhase),
    Unmask(unmask::Unmask),
    Over,
}

impl<R: CryptoRng> Server<R> {
    /// Plans an attempt at a round and sends the plan to everybody who is connected.
    ///
    /// # Errors
    /// [`Abort::PlanLeaks`] or [`Abort::BadPlan`] before anything is sent; the log comes back untouched.
    pub fn start(
        setup: Arc<ServerSetup>,
        log: Log,
        request: RoundRequest,
        now: Now,
        mut rng: R,
    ) -> Result<Self, (Abort, Log)> {
        let signed = match plan(&setup, &log, &request, &mut rng) {
            Ok(signed) => signed,
            Err(abort) => return Err((abort, log)),
        };
        let plan = signed.body().clone();
        let Some(plan_entry) = signed.bytes().ok().and_then(|bytes| BoundedVec::new(bytes).ok()) else {
            return Err((Abort::BadPlan("the plan exceeds one log entry"), log));
        };
        let models = request.clusters.into_iter().map(|(_, model)| model).collect();
        let invited = plan.invited();
        let present = request
            .present
            .keys()
            .copied()
            .filter(|client| invited.contains(client))
            .collect();
        let mut core = Core {
            deadline: now.plus(setup.deadlines.advertise),
            setup,
            rng,
            log,
            plan_leaf: signed.leaf(),
            plan_entry,
            plan,
            models,
            present,
            away: BTreeMap::new(),
            said: BTreeSet::new(),
            heads: request.present,
            late: BTreeSet::new(),
            refused: BTreeSet::new(),
            asked: false,
            outputs: VecDeque::new(),
        };
        if let Err(abort) = core.send_plan() {
            return Err((abort, core.log));
        }
        let mut server = Self {
            core,
            phase: Phase::Advertise(advertise::Advertise::default()),
        };
        server.advance(now);
        Ok(server)
    }

    /// The next thing the driver must do.
    pub fn poll_output(&mut self) -> Option<ServerOutput> {
        self.core.outputs.pop_front()
    }

    /// When [`Server::handle_deadline`] wants to be called; `None` once the round is over.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Now> {
        let soonest = self.core.away.values().copied().min();
        (!self.is_over()).then(|| soonest.map_or(self.core.deadline, |back| back.min(self.core.deadline)))
    }

    /// Whether the round is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// The phase, for people.
    #[must_use]
    pub fn phase(&self) -> PhaseName {
        match &self.phase {
            Phase::Advertise(_) => PhaseName::Advertise,
            Phase::Share(_) => PhaseName::Share,
            Phase::Collect(_) => PhaseName::Mask,
            Phase::Agree(_) => PhaseName::Agree,
            Phase::Unmask(_) => PhaseName::Unmask,
            Phase::Over => PhaseName::Publish,
        }
    }

    /// The attempt this machine runs.
    #[must_use]
    pub fn attempt(&self) -> (RoundId, Attempt) {
        (self.core.plan.round, self.core.plan.attempt)
    }

    /// Whether an agreement was sent. Clients that answered it answer nothing more of this round, in whatever attempt, even
    /// if their answer never came.
    #[must_use]
    pub fn asked_to_reveal(&self) -> bool {
        self.core.asked
    }

    /// The log, and the last head each client is known to hold.
    #[must_use]
    pub fn into_parts(self) -> (Log, BTreeMap<ClientId, Head>) {
        (self.core.log, self.core.heads)
    }

    /// Takes a client's message. A message that does not hold puts its sender out of the round; it never ends the round
    /// for the others by itself.
    pub fn handle(&mut self, from: ClientId, message: ToServer, now: Now) {
        self.core.note_head(from, &message);
        if self.is_over() {
            return;
        }
        match message {
            // What belongs to an attempt that is over says nothing about this one.
            message if self.core.is_stale(&message, self.phase()) => return,
            // The same bytes again say nothing new: a client repeats its last word after a lost connection.
            message if self.core.knows(from, &message) => return,
            ToServer::Refuse(reason) => {
                self.core.put_out(from);
                self.phase.forget(from);
                self.core
                    .outputs
                    .push_back(ServerOutput::Refused(from, Refusal::Ended(reason.name())));
            }
            // Chunks follow a statement that was refused already.
            ToServer::Chunk(_) if !self.core.present.contains(&from) => return,
            message if !self.core.present.contains(&from) => {
                if let ToServer::Masked(entry) = &message {
                    self.core.note_late(from, entry);
                }
                let invited = self.core.plan.invited().contains(&from);
                let refusal = if invited {
                    Refusal::Late
                } else {
                    Refusal::NotInvited(from)
                };
                self.core.refuse(from, refusal);
                return;
            }
            message => {
                if let Err(refusal) = self.phase.accept(&mut self.core, from, message) {
                    // A second answer changes nothing; whatever else does not hold ends this client's part.
                    if !matches!(refusal, Refusal::AlreadyAnswered) {
                        self.core.put_out(from);
                        self.phase.forget(from);
                    }
                    self.core.refuse(from, refusal);
                }
            }
        }
        self.advance(now);
    }

    /// A client has connected. One that stands in this attempt gets what it misses; a newcomer may join while keys are
    /// still collected; anybody else waits for the next attempt.
    pub fn join(&mut self, client: ClientId, hello: &Hello, now: Now) {
        self.core.heads.insert(client, hello.head);
        if self.is_over() || !self.core.plan.invited().contains(&client) {
            return;
        }
        let here = (self.core.plan.round, self.core.plan.attempt);
        let waits = hello
            .at
            .filter(|at| (at.round, at.attempt) == here)
            .map(|at| at.waits);
        let missing = match waits {
            Some(waits) if self.core.present.contains(&client) => {
                self.core.away.remove(&client);
                self.phase.missing(&self.core, client, waits)
            }
            None if matches!(&self.phase, Phase::Advertise(phase) if !phase.holds(client)) => {
                self.core.away.remove(&client);
                self.core.present.insert(client);
                match self.core.plan_message(client) {
                    Ok(message) => Ok(Some(ToClient::Plan(message))),
                    Err(abort) => return self.abort(&abort),
                }
            }
            // It forgot this attempt, or came back too late.
            waits => {
                self.core.put_out(client);
                self.phase.forget(client);
                if waits.is_some() {
                    Err(Refusal::Late)
                } else {
                    Ok(None)
                }
            }
        };
        match missing {
            Ok(Some(message)) => self.core.send(client, message),
            Ok(None) => {}
            Err(refusal) => {
                self.core.put_out(client);
                self.phase.forget(client);
                self.core.refuse(client, refusal);
            }
        }
        self.advance(now);
    }

    /// A client's connection is gone. Unless it is back within [`Deadlines::reconnect`] it counts as dropped.
    pub fn gone(&mut self, client: ClientId, now: Now) {
        if self.core.present.contains(&client) {
            let back = now.plus(self.core.setup.deadlines.reconnect);
            self.core.away.entry(client).or_insert(back);
            self.handle_deadline(now);
        }
    }

    /// Ends the current phase if its time is up, and the wait for clients that are away.
    pub fn handle_deadline(&mut self, now: Now) {
        if self.is_over() {
            return;
        }
        let lost: Vec<ClientId> = self
            .core
            .away
            .iter()
            .filter(|(_, back)| **back <= now)
            .map(|(client, _)| *client)
            .collect();
        for client in &lost {
            self.core.put_out(*client);
            self.phase.forget(*client);
        }
        if !lost.is_empty() {
            self.advance(now);
        }
        if !self.is_over() && now >= self.core.deadline {
            self.step(now);
            self.advance(now);
        }
    }

    /// Ends the round, for instance because the operator stops the server.
    pub fn stop(&mut self) {
        if !self.is_over() {
            self.abort(&Abort::Internal("stopped by the operator"));
        }
    }

    /// Moves on for as long as every client that is still here has answered.
    fn advance(&mut self, now: Now) {
        loop {
            let (have, want) = self.phase.count(&self.core);
            if self.is_over() {
                return;
            }
            self.core.outputs.push_back(ServerOutput::Progress {
                phase: self.phase(),
                have,
                want,
            });
            if have < want {
                return;
            }
            self.step(now);
        }
    }

    /// Ends the current phase with what there is.
    fn step(&mut self, now: Now) {
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        let next = match phase {
            Phase::Advertise(phase) => phase.finish(&mut self.core, now).map(Phase::Share),
            Phase::Share(phase) => phase.finish(&mut self.core, now).map(Phase::Collect),
            Phase::Collect(phase) => phase.finish(&mut self.core, now).map(Phase::Agree),
            Phase::Agree(phase) => phase.finish(&mut self.core, now).map(Phase::Unmask),
            Phase::Unmask(phase) => phase.finish(&mut self.core).map(|()| Phase::Over),
            Phase::Over => Ok(Phase::Over),
        };
        match next {
            Ok(phase) => self.phase = phase,
            Err((abort, phase)) => self.core.abort(&abort, phase),
        }
    }

    fn abort(&mut self, abort: &Abort) {
        let phase = self.phase();
        self.phase = Phase::Over;
        self.core.abort(abort, phase);
    }
}

impl Phase {
    fn accept<R: CryptoRng>(
        &mut self,
        core: &mut Core<R>,
        from: ClientId,
        message: ToServer,
    ) -> Result<(), Refusal> {
        match (self, message) {
            // A hello says nothing about the round; a reveal may have been on its way when the t-th ended the phase.
            (_, ToServer::Hello(_)) | (Self::Over, ToServer::Reveal(_)) => Ok(()),
            (Self::Advertise(phase), ToServer::Keys(entry)) => phase.accept(core, from, &entry),
            (Self::Share(phase), ToServer::Shares(dealing)) => phase.accept(core, from, dealing),
            (Self::Collect(phase), ToServer::Complaint(entry)) => phase.accept_complaint(core, from, &entry),
            (Self::Collect(phase), ToServer::Masked(entry)) => phase.accept_masked(core, from, &entry),
            (Self::Collect(phase), ToServer::Chunk(chunk)) => phase.accept_chunk(core, from, &chunk),
            (Self::Agree(phase), ToServer::Agree(entry)) => phase.accept(core, from, &entry),
            (Self::Unmask(phase), ToServer::Reveal(entry)) => phase.accept(core, from, &entry),
            (_, message) => Err(Refusal::OutOfOrder {
                got: kind(&message),
                waiting: "in another phase",
            }),
        }
    }

    /// What a client that is back misses, by what it waits for.
    fn missing<R: CryptoRng>(
        &self,
        core: &Core<R>,
        client: ClientId,
        waits: Waits,
    ) -> Result<Option<ToClient>, Refusal> {
        let message = match (self, waits) {
            (Self::Share(phase), Waits::Roster) => Some(ToClient::Roster(phase.roster_message())),
            (Self::Collect(phase), Waits::Inbox) => Some(ToClient::Inbox(phase.inbox(client)?)),
            (Self::Collect(phase), Waits::Proposal) => phase.received(core, client).map(ToClient::Continue),
            (Self::Agree(phase), Waits::Proposal) => Some(ToClient::Proposal(phase.proposal(client)?)),
            (Self::Unmask(phase), Waits::Agreement) => Some(ToClient::Agreement(phase.agreement())),
            // The server waits for this client's word, which the client repeats.
            (Self::Advertise(_), Waits::Roster)
            | (Self::Share(_), Waits::Inbox)
            | (Self::Agree(_), Waits::Agreement)
            | (Self::Unmask(_), Waits::Sums) => None,
            // The client's last word never came and the phase it was for is over.
            _ => return Err(Refusal::Late),
        };
        Ok(message)
    }

    /// Throws away what a client that is out has half delivered.
    fn forget(&mut self, client: ClientId) {
        if let Self::Collect(phase) = self {
            phase.forget(client);
        }
    }

    /// Clients that have answered, and clients that are waited for.
    fn count<R: CryptoRng>(&self, core: &Core<R>) -> (usize, usize) {
        match self {
            Self::Advertise(phase) => phase.count(&core.present),
            Self::Share(phase) => phase.count(&core.present),
            Self::Collect(phase) => phase.count(&core.present),
            Self::Agree(phase) => phase.count(&core.present),
            Self::Unmask(phase) => phase.count(&core.present, core.threshold()),
            Self::Over => (0, 0),
        }
    }
}

impl<R: CryptoRng> Core<R> {
    fn plan_message(&self, client: ClientId) -> Result<PlanMessage, Abort> {
        let held = self.heads.get(&client).copied().unwrap_or_else(Head::empty);
        // A client that claims a head this log never had gets no proof and will say Rollback itself.
        let now = self.plan.head.size;
        let consistency = std::iter::once(held.size)
            .chain(self.log.heads_beyond(held.size, MOST_HEADS).map(|head| head.size))
            .filter_map(|from| {
                let proof = BoundedVec::new(self.log.consistency(from, now)?).ok()?;
                Some(Extends { from, proof })
            })
            .collect();
        let consistency = BoundedVec::new(consistency).map_err(|_| Abort::Internal("too many proofs"))?;
        Ok(PlanMessage {
            entry: self.plan_entry.clone(),
            consistency,
        })
    }

    fn send_plan(&mut self) -> Result<(), Abort> {
        self.record_bytes(&self.plan_entry.clone());
        for client in self.present.clone() {
            let message = self.plan_message(client)?;
            self.send(client, ToClient::Plan(message));
        }
        Ok(())
    }

    /// Whether a statement is in this attempt's log already.
    fn knows(&self, from: ClientId, message: &ToServer) -> bool {
        let entry = match message {
            ToServer::Keys(entry)
            | ToServer::Complaint(entry)
            | ToServer::Masked(entry)
            | ToServer::Agree(entry)
            | ToServer::Reveal(entry) => entry,
            ToServer::Shares(dealing) => &dealing.entry,
            ToServer::Hello(_)
            | ToServer::Chunk(_)
            | ToServer::Refuse(_)
            | ToServer::Described(_)
            | ToServer::NotDescribed(_) => {
                return false;
            }
        };
        let own = || wire::decode::<Entry>(entry).is_ok_and(|entry| entry.signer == Party::Client(from));
        self.said.contains(&leaf_hash(entry)) && own()
    }

    /// A client takes no further part in this attempt.
    fn put_out(&mut self, client: ClientId) {
        self.present.remove(&client);
        self.away.remove(&client);
    }

    /// Only these go on; whoever is away stays awaited if it is among them. The others are told that they were too late.
    fn keep_present(&mut self, keep: impl Fn(&ClientId) -> bool) {
        let late: Vec<ClientId> = self
            .present
            .iter()
            .copied()
            .filter(|client| !keep(client))
            .collect();
        for client in late {
            self.put_out(client);
            self.refuse(client, Refusal::Late);
        }
    }

    fn threshold(&self) -> usize {
        self.setup.policy.threshold as usize
    }

    fn send(&mut self, to: ClientId, message: ToClient) {
        self.outputs.push_back(ServerOutput::Send(to, message));
    }

    /// Says why, once: a client that goes on sending gets no further answers.
    fn refuse(&mut self, client: ClientId, refusal: Refusal) {
        if !self.refused.insert((client, refusal.name())) {
            return;
        }
        let refused = Refused::named(self.plan.round, self.plan.attempt, refusal.name());
        self.send(client, ToClient::Refused(refused));
        self.outputs.push_back(ServerOutput::Refused(client, refusal));
    }

    fn record<S: Statement>(&mut self, signed: &Signed<S>) -> Result<EntryBytes, Abort> {
        let bytes = signed.bytes()?;
        self.record_bytes(&bytes);
        let got = bytes.len();
        BoundedVec::new(bytes).map_err(|_| {
            Abort::Wire(WireError::OwnTooLong {
                kind: S::KIND,
                got,
                max: 65_535,
            })
        })
    }

    fn record_bytes(&mut self, entry: &[u8]) {
        self.said.insert(leaf_hash(entry));
        self.log.append(entry.to_vec());
        self.outputs.push_back(ServerOutput::Record(entry.to_vec()));
    }

    fn sign<S: Statement>(&mut self, body: S) -> Result<Signed<S>, Abort> {
        Ok(Signed::make(
            body,
            Party::Server,
            &self.setup.identity,
            self.setup.book.federation(),
            &mut self.rng,
        )?)
    }

    fn read<S: Statement>(&self, entry: &[u8], from: ClientId) -> Result<Signed<S>, Refusal> {
        Ok(self
            .setup
            .book
            .read::<S>(entry, Party::Client(from))?
            .into_inner())
    }

    /// Whether a message belongs to an attempt that is over. A client cannot be ahead of the server, so a message of a
    /// later phase is an old one.
    fn is_stale(&self, message: &ToServer, phase: PhaseName) -> bool {
        let belongs = match message {
            ToServer::Chunk(chunk) => (chunk.round, chunk.attempt) == (self.plan.round, self.plan.attempt),
            ToServer::Refuse(refused) => {
                (refused.round, refused.attempt) == (self.plan.round, self.plan.attempt)
            }
            // A client repeats its last word after a lost connection, also when another attempt has begun since.
            ToServer::Keys(entry) => !self.is_earlier(plan_of::<Keys>(entry)),
            ToServer::Shares(dealing) => !self.is_earlier(plan_of::<Shares>(&dealing.entry)),
            ToServer::Masked(entry) => !self.is_earlier(plan_of::<Masked>(entry)),
            ToServer::Complaint(entry) => !self.is_earlier(plan_of::<Complaint>(entry)),
            ToServer::Agree(entry) => !self.is_earlier(plan_of::<Agree>(entry)),
            ToServer::Hello(_) | ToServer::Reveal(_) => true,
            // A clustering is over when a round begins.
            ToServer::Described(_) | ToServer::NotDescribed(_) => false,
        };
        !belongs || of_phase(message).is_some_and(|of| of > phase)
    }

    /// Whether a plan is that of an attempt before this one.
    fn is_earlier(&self, plan: Option<Digest>) -> bool {
        plan.is_some_and(|plan| plan != self.plan_leaf && self.log.has_plan(&plan))
    }

    /// A client that signed a head holds it, whether or not the message is still of use.
    fn note_head(&mut self, from: ClientId, message: &ToServer) {
        let head = match message {
            ToServer::Hello(hello) => Some(hello.head),
            ToServer::Keys(entry) => self
                .read::<Keys>(entry, from)
                .ok()
                .map(|signed| signed.body().head),
            ToServer::Agree(entry) => self
                .read::<Agree>(entry, from)
                .ok()
                .map(|signed| signed.body().head),
            _ => None,
        };
        if let Some(head) = head {
            self.heads.insert(from, head);
        }
    }

    /// Logs that a client's vector came too late: a good statement for this plan, once per client.
    fn note_late(&mut self, client: ClientId, entry: &[u8]) {
        let fits = self
            .read::<Masked>(entry, client)
            .is_ok_and(|signed| signed.body().plan == self.plan_leaf);
        if !fits || !self.late.insert(client) {
            return;
        }
        let body = veilsum_attestation::statement::Late {
            round: self.plan.round,
            attempt: self.plan.attempt,
            client,
            digest: leaf_hash(entry),
        };
        if let Ok(signed) = self.sign(body) {
            let _ = self.record(&signed);
        }
    }

    fn abort(&mut self, abort: &Abort, phase: PhaseName) {
        let body = Aborted {
            round: self.plan.round,
            attempt: self.plan.attempt,
            phase,
            reason: BoundedVec::new(abort.name().as_bytes().to_vec()).unwrap_or_default(),
            culprits: abort.culprits(),
        };
        if let Ok(entry) = self.sign(body).and_then(|signed| self.record(&signed)) {
            for client in self.plan.invited().iter() {
                self.send(*client, ToClient::Aborted(entry.clone()));
            }
        }
        self.outputs.push_back(ServerOutput::Aborted(abort.clone()));
    }

    fn publish(&mut self, sums: Sums, outcome: Outcome) -> Result<(), Abort> {
        let signed = self.sign(sums)?;
        // The models are stored before the log says that they exist: a crash in between loses a round, not a model.
        self.outputs.push_back(ServerOutput::Done(outcome));
        let entry = self.record(&signed)?;
        for client in self.plan.invited().iter() {
            self.send(*client, ToClient::Published(entry.clone()));
        }
        Ok(())
    }
}

/// Counts how many of those present are in `done`.
fn answered(present: &BTreeSet<ClientId>, done: impl Fn(&ClientId) -> bool) -> (usize, usize) {
    (
        present.iter().filter(|client| done(client)).count(),
        present.len(),
    )
}

fn plan<R: CryptoRng>(
    setup: &ServerSetup,
    log: &Log,
    request: &RoundRequest,
    rng: &mut R,
) -> Result<Signed<Plan>, Abort> {
    let entries = setup.policy.update.entries;
    if request.clusters.is_empty() {
        return Err(Abort::BadPlan("there is no cluster"));
    }
    if request
        .clusters
        .iter()
        .any(|(_, model)| model.len() as u64 != entries)
    {
        return Err(Abort::BadPlan(
            "a model does not have the policy's number of entries",
        ));
    }
    if request
        .clusters
        .iter()
        .flat_map(|(members, _)| members.iter())
        .any(|client| !setup.book.members().contains_key(client))
    {
        return Err(Abort::BadPlan("a cluster names a client that is not enrolled"));
    }
    let clusters = request
        .clusters
        .iter()
        .map(|(members, model)| ClusterPlan {
            model: model_digest(model),
            members: members.clone(),
        })
        .collect();
    let plan = Plan {
        round: request.round,
        attempt: request.attempt,
        policy: setup.policy_leaf,
        head: log.head(),
        clusters: BoundedVec::new(clusters).map_err(|_| Abort::BadPlan("more than 64 clusters"))?,
        graph_seed: request.graph_seed,
    };
    check_plan(&plan, &setup.book, &setup.policy).map_err(|leak| match leak {
        PlanLeak::Exposed(clients) => Abort::PlanLeaks { clients },
        PlanLeak::SmallBlock(clients) => Abort::SmallBlock { clients },
        PlanLeak::Undecided => Abort::PlanLeaks {
            clients: ClientSet::default(),
        },
        _ => Abort::BadPlan("the clusters are no membership matrix"),
    })?;
    Ok(Signed::make(
        plan,
        Party::Server,
        &setup.identity,
        setup.book.federation(),
        rng,
    )?)
}

/// Heads a client may have been shown and kept without being heard of since: a few attempts' worth.
const MOST_HEADS: usize = 12;

/// The plan a statement is about.
fn plan_of<S: Statement + AboutPlan>(entry: &[u8]) -> Option<Digest> {
    let unverified = Signed::<S>::parse(entry).ok()?;
    Some(unverified.peek().body().plan())
}

/// A statement that names its plan.
trait AboutPlan {
    fn plan(&self) -> Digest;
}

macro_rules! about_plan {
    ($($body:ty),*) => {
        $(impl AboutPlan for $body {
            fn plan(&self) -> Digest {
                self.plan
            }
        })*
    };
}

about_plan!(Keys, Shares, Complaint, Masked, Agree);

/// The phase in which a message is sent.
fn of_phase(message: &ToServer) -> Option<PhaseName> {
    match message {
        ToServer::Hello(_) | ToServer::Refuse(_) | ToServer::Described(_) | ToServer::NotDescribed(_) => None,
        ToServer::Keys(_) => Some(PhaseName::Advertise),
        ToServer::Shares(_) => Some(PhaseName::Share),
        ToServer::Complaint(_) | ToServer::Masked(_) | ToServer::Chunk(_) => Some(PhaseName::Mask),
        ToServer::Agree(_) => Some(PhaseName::Agree),
        ToServer::Reveal(_) => Some(PhaseName::Unmask),
    }
}

fn kind(message: &ToServer) -> &'static str {
    match message {
        ToServer::Hello(_) => "hello",
        ToServer::Keys(_) => "keys",
        ToServer::Shares(_) => "shares",
        ToServer::Complaint(_) => "complaint",
        ToServer::Masked(_) => "masked",
        ToServer::Chunk(_) => "chunk",
        ToServer::Agree(_) => "agree",
        ToServer::Reveal(_) => "reveal",
        ToServer::Refuse(_) => "refuse",
        ToServer::Described(_) => "described",
        ToServer::NotDescribed(_) => "not described",
    }
}
