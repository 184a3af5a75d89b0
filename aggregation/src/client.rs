//! The client of a round.
//!
//! A client is in one phase at a time; each phase is a value that is spent when its message arrives (files below, in
//! order). Whatever goes wrong ends the round for this client with a named [`Refusal`], drops its secrets and reveals
//! nothing; the next plan starts afresh.

mod advertise;
mod agree;
mod describe;
mod journal;
mod mask;
mod plan;
mod share;
mod shown;
mod unmask;

pub use journal::JournalError;
use shown::Shown;

use crate::Now;
use crate::message::{
    Described, EntryBytes, Hello, Received, Refused, Standing, ToClient, ToServer, Waits, printable,
};
use crate::privacy::zcdp;
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use veilsum_attestation::Head;
use veilsum_attestation::evidence::Evidence;
use veilsum_attestation::statement::{
    Aborted, ClientSet, KeyBook, Party, Plan, Policy, Statement, Sums, leaf_hash,
};
use veilsum_crypto::{Attempt, ClientId, ClusterId, Digest, Identity, RoundId};

/// Who a client is and what it signed up to. The same for all rounds.
pub struct Membership {
    /// Its number.
    pub me: ClientId,
    /// Its signing key.
    pub identity: Identity,
    /// The keys of everybody else.
    pub book: KeyBook,
    /// The policy, signature checked.
    pub policy: Policy,
    /// Leaf hash of the policy's entry.
    pub policy_leaf: Digest,
    /// What this client insists on whatever the policy says.
    pub floors: Floors,
}

/// A client's own limits. No message of the server moves them, and neither does a policy, whoever signed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floors {
    /// Fewest clients in a policy.
    pub clients: u32,
    /// Fewest organisations among them.
    pub orgs: u32,
    /// Smallest threshold.
    pub threshold: u32,
    /// Smallest crowd of a released combination, in clients.
    pub crowd: u32,
    /// Smallest crowd of a released combination, in organisations.
    pub crowd_orgs: u32,
    /// Largest magnitude an entry of this client's update may have in a sum, in millionths.
    pub max_range_micros: u32,
    /// Most rounds it takes part in.
    pub max_rounds: u64,
    /// Most its descriptors may cost altogether, as epsilon at a delta of 10^-6, in millionths; descriptors without noise
    /// cost more than any number.
    pub max_epsilon_micros: u64,
}

impl Default for Floors {
    /// What every client insists on: somebody else in the sum, of another organisation.
    fn default() -> Self {
        Self {
            clients: 3,
            orgs: 1,
            threshold: 2,
            crowd: 2,
            crowd_orgs: 1,
            max_range_micros: u32::MAX,
            max_rounds: u64::MAX,
            max_epsilon_micros: u64::MAX,
        }
    }
}

impl Floors {
    /// Whether a policy is within all limits.
    ///
    /// # Errors
    /// [`Refusal::BelowFloor`] naming the first parameter that is not.
    pub fn check(&self, policy: &Policy, book: &KeyBook) -> Result<(), Refusal> {
        let orgs: BTreeSet<_> = book.members().values().map(|member| member.org).collect();
        for (what, got, floor) in [
            ("the number of clients", policy.clients as usize, self.clients),
            ("the number of organisations", orgs.len(), self.orgs),
            ("the threshold", policy.threshold as usize, self.threshold),
            ("the crowd", policy.crowd as usize, self.crowd),
            (
                "the crowd of organisations",
                policy.crowd_orgs as usize,
                self.crowd_orgs,
            ),
        ] {
            if got < floor as usize {
                return Err(Refusal::BelowFloor {
                    what,
                    got: got as u64,
                    bound: "at least",
                    floor: u64::from(floor),
                });
            }
        }
        let range = u64::from(policy.update.range_micros);
        for (what, got, most) in [
            ("the range of an entry", range, u64::from(self.max_range_micros)),
            ("the number of rounds", policy.rounds, self.max_rounds),
            (
                "epsilon of all descriptors, in millionths,",
                epsilon_micros(policy),
                self.max_epsilon_micros,
            ),
        ] {
            if got > most {
                return Err(Refusal::BelowFloor {
                    what,
                    got,
                    bound: "at most",
                    floor: most,
                });
            }
        }
        Ok(())
    }
}

/// What all descriptors of a client cost under a policy, as epsilon at 10^-6, in millionths.
fn epsilon_micros(policy: &Policy) -> u64 {
    let Some(rule) = policy.clustering else {
        return 0;
    };
    let count = rule.number(RoundId(policy.rounds));
    let cost = rule.noise.and_then(|noise| {
        #[expect(clippy::cast_precision_loss, reason = "clusterings far below 2^52")]
        let rho = zcdp::rho(f64::from(noise.multiplier_micros) / 1e6).ok()? * count as f64;
        zcdp::epsilon(rho, DELTA).ok()
    });
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an epsilon is not negative, and the cast saturates"
    )]
    cost.map_or(u64::MAX, |epsilon| (epsilon * 1e6).ceil() as u64)
}

/// The delta at which the costs of descriptors are told.
const DELTA: f64 = 1e-6;

/// What the driver must do.
#[derive(Debug)]
pub enum ClientOutput {
    /// Send a message.
    Send(ToServer),
    /// Train, then hand in [`Client::update`].
    Train {
        /// Round.
        round: RoundId,
        /// The clusters of this client, with the digest of the model each starts from.
        clusters: Vec<(ClusterId, Digest)>,
    },
    /// Keep this head on disk: the server's log must extend it from now on.
    Keep(Head),
    /// Keep this masked vector on disk before going on. One per cluster; those of an earlier attempt may go.
    Spool {
        /// Round.
        round: RoundId,
        /// Attempt at it.
        attempt: Attempt,
        /// Cluster.
        cluster: ClusterId,
        /// The packed vector.
        packed: Vec<u8>,
    },
    /// Replace the journal by these bytes and make them durable before going on: whatever is sent next depends on it.
    Journal(Vec<u8>),
    /// Send the chunks of the kept vectors ([`crate::message::Chunk::cut`]) that the server does not have.
    Upload {
        /// Round.
        round: RoundId,
        /// Attempt at it.
        attempt: Attempt,
        /// For each vector, ascending: the number of its first chunk to send.
        from: Vec<(ClusterId, u32)>,
    },
    /// Make the descriptor for this clustering and hand it in with [`Client::described`]; or, if one was kept for it, send
    /// that one again.
    Describe {
        /// Number of the clustering, from 1.
        clustering: u64,
    },
    /// Keep this answer on disk before going on: the same one is sent whenever it is asked for again.
    KeepDescriptor {
        /// Number of the clustering.
        clustering: u64,
        /// The answer.
        described: Described,
    },
    /// The server was caught: keep what it showed, for others to judge.
    Evidence(Box<Evidence>),
    /// The phase changed; for progress displays.
    Progress {
        /// What this client does now.
        doing: &'static str,
    },
    /// The round is over and these clusters have new models.
    Done {
        /// Round.
        round: RoundId,
        /// Digests of the new models of this client's released clusters.
        models: Vec<(ClusterId, Digest)>,
        /// Clusters of this client that were withheld: their models stay.
        withheld: Vec<ClusterId>,
    },
    /// The server ended the round; nothing was opened.
    Ended {
        /// Round.
        round: RoundId,
        /// The reason's name.
        reason: String,
    },
}

/// What the learner hands in.
#[derive(Clone, PartialEq)]
pub struct ClientUpdate {
    /// The cluster it is for.
    pub cluster: ClusterId,
    /// Digest of the model it starts from.
    pub model: Digest,
    /// New weights less that model, shared entries only.
    pub delta: Vec<f32>,
}

impl std::fmt::Debug for ClientUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientUpdate({}, {} entries)", self.cluster, self.delta.len())
    }
}

/// A client's machine.
pub struct Client<R> {
    member: Arc<Membership>,
    rng: R,
    head: Head,
    last: Option<(RoundId, Attempt)>,
    /// Leaf hash of the plan accepted last.
    worked_on: Option<Digest>,
    /// The last attempt this client sent keys in. After a crash it takes no part in it unless its journal goes on.
    spent: Option<(RoundId, Attempt)>,
    /// The last round this client answered an unmask request in. It answers none of that round again, in whatever
    /// attempt: the same updates summed over other survivors would tell single clients apart.
    revealed: Option<RoundId>,
    /// The clusters of the last plan this client sent keys for, where the policy has them hold.
    grouping: Option<journal::Grouping>,
    phase: Phase,
    /// The journal holds more than what is over.
    journalled: bool,
    shown: Shown,
    outputs: VecDeque<ClientOutput>,
}

enum Phase {
    Idle,
    Training(plan::Training),
    Advertised(advertise::Advertised),
    Shared(share::Shared),
    Uploaded(mask::Uploaded),
    Agreed(agree::Agreed),
    Revealed(unmask::Revealed),
}

impl Phase {
    fn doing(&self) -> &'static str {
        match self {
            Self::Idle => "waiting for a plan",
            Self::Training(_) => "training",
            Self::Advertised(_) => "waiting for the roster",
            Self::Shared(_) => "waiting for shares",
            Self::Uploaded(_) => "waiting for the proposal",
            Self::Agreed(_) => "waiting for the agreement",
            Self::Revealed(_) => "waiting for the sums",
        }
    }

    /// What of the server's this phase waits for; `None` where the client can go on with nothing.
    fn waits(&self) -> Option<Waits> {
        match self {
            Self::Idle | Self::Training(_) => None,
            Self::Advertised(_) => Some(Waits::Roster),
            Self::Shared(_) => Some(Waits::Inbox),
            Self::Uploaded(_) => Some(Waits::Proposal),
            Self::Agreed(_) => Some(Waits::Agreement),
            Self::Revealed(_) => Some(Waits::Sums),
        }
    }

    /// The entry of the plan this phase belongs to.
    fn plan_entry(&self) -> Option<&EntryBytes> {
        Some(match self {
            Self::Idle => return None,
            Self::Training(phase) => &phase.scope.entry,
            Self::Advertised(phase) => &phase.scope.entry,
            Self::Shared(phase) => &phase.scope.entry,
            Self::Uploaded(phase) => &phase.scope.entry,
            Self::Agreed(phase) => &phase.scope.entry,
            Self::Revealed(phase) => &phase.scope.entry,
        })
    }

    /// The leaf hash of the plan this phase belongs to.
    fn plan_leaf(&self) -> Option<Digest> {
        self.plan_entry().map(|entry| leaf_hash(entry))
    }

    /// What of this phase survives a crash.
    fn stage(&self) -> Result<journal::Stage, Refusal> {
        Ok(match self {
            Self::Idle | Self::Training(_) | Self::Advertised(_) | Self::Shared(_) => journal::Stage::Out,
            Self::Uploaded(phase) => journal::Stage::Uploaded(journal::Uploaded::of(phase)?),
            Self::Agreed(phase) => journal::Stage::Agreed(journal::Agreed::of(phase)?),
            Self::Revealed(phase) => journal::Stage::Revealed(journal::Revealed::of(phase)?),
        })
    }
}

impl<R: CryptoRng> Client<R> {
    /// A client that holds `head` of the server's log.
    ///
    /// # Errors
    /// [`Refusal::BelowFloor`] for a policy below the client's floors.
    pub fn new(member: Arc<Membership>, head: Head, rng: R) -> Result<Self, Refusal> {
        member.floors.check(&member.policy, &member.book)?;
        Ok(Self {
            member,
            rng,
            head,
            last: None,
            worked_on: None,
            spent: None,
            revealed: None,
            grouping: None,
            phase: Phase::Idle,
            journalled: false,
            shown: Shown::default(),
            outputs: VecDeque::new(),
        })
    }

    /// A client that goes on from its journal: it says again what it said, or is out of the attempt it was in.
    ///
    /// # Errors
    /// [`RestoreError`]: a journal that cannot be read is no reason to start without one.
    pub fn restore(
        member: Arc<Membership>,
        head: Head,
        journal: &[u8],
        rng: R,
    ) -> Result<Self, RestoreError> {
        let record = journal::Record::open(journal, &member)?;
        let phase = match record.stage {
            journal::Stage::Out => Phase::Idle,
            journal::Stage::Uploaded(stage) => Phase::Uploaded(stage.restore(&member)?),
            journal::Stage::Agreed(stage) => Phase::Agreed(stage.restore(&member)?),
            journal::Stage::Revealed(stage) => Phase::Revealed(stage.restore(&member)?),
        };
        let mut client = Self::new(member, head, rng)?;
        client.last = record.last;
        client.spent = record.last;
        client.revealed = record.revealed;
        client.grouping = record.grouping;
        client.journalled = !matches!(phase, Phase::Idle);
        client.phase = phase;
        Ok(client)
    }

    /// A connection is up: says hello and, where the server may not have it, the last word again. What was still to be sent
    /// on the connection before is dropped.
    pub fn connected(&mut self) {
        self.outputs
            .retain(|output| !matches!(output, ClientOutput::Send(_) | ClientOutput::Upload { .. }));
        let at = self
            .phase
            .waits()
            .zip(self.last)
            .map(|(waits, (round, attempt))| Standing {
                round,
                attempt,
                waits,
            });
        self.send(ToServer::Hello(Hello { head: self.head, at }));
        let again = match &self.phase {
            // The server says first how much of an upload it has.
            Phase::Idle | Phase::Training(_) | Phase::Uploaded(_) => return,
            Phase::Advertised(phase) => ToServer::Keys(phase.keys.clone()),
            Phase::Shared(phase) => ToServer::Shares(phase.dealing.clone()),
            Phase::Agreed(phase) => ToServer::Agree(phase.entry.clone()),
            Phase::Revealed(phase) => ToServer::Reveal(phase.entry.clone()),
        };
        self.send(again);
    }

    /// The last head this client accepted.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// What the client is doing, for people.
    #[must_use]
    pub fn doing(&self) -> &'static str {
        self.phase.doing()
    }

    /// The next thing the driver must do.
    pub fn poll_output(&mut self) -> Option<ClientOutput> {
        self.outputs.pop_front()
    }

    /// Takes a message of the server.
    ///
    /// # Errors
    /// A [`Refusal`]: this client is out of the round, its secrets are gone, and a notice to the server is queued.
    pub fn handle(&mut self, message: ToClient, _now: Now) -> Result<(), Refusal> {
        let waiting = self.phase.doing();
        self.shown.note(&message, &self.phase);
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        let member = Arc::clone(&self.member);
        let member = member.as_ref();
        let next = match (message, phase) {
            // The plan it works on already: after a lost connection the server cannot know.
            (ToClient::Plan(message), phase) if phase.plan_entry() == Some(&message.entry) => {
                self.phase = phase;
                return Ok(());
            }
            // A new plan ends whatever was going on: secrets of the old round are dropped unused.
            (ToClient::Plan(message), phase) => match self.accept_plan(member, &message) {
                Err(Refusal::WrongContext) if self.shown.is_second(&message.entry) => Err(
                    Refusal::SplitView("a second plan for the attempt this client is in"),
                ),
                // An old one ends nothing. A client that can take no part in it says so, or the server would wait for it.
                Err(Refusal::WrongContext) => {
                    if matches!(phase, Phase::Idle)
                        && let Ok(signed) = member.book.read::<Plan>(&message.entry, Party::Server)
                    {
                        let plan = signed.get().body();
                        let name = Refusal::WrongContext.name();
                        self.send(ToServer::Refuse(Refused::named(plan.round, plan.attempt, name)));
                    }
                    self.phase = phase;
                    return Err(Refusal::WrongContext);
                }
                next => next.map(Phase::Training),
            },
            (ToClient::Roster(message), Phase::Advertised(phase)) => phase
                .on_roster(member, &message, &mut self.rng)
                .map(|(next, send)| {
                    self.send(send);
                    Phase::Shared(next)
                }),
            (ToClient::Inbox(message), Phase::Shared(phase)) => phase
                .on_inbox(member, message, &mut self.rng)
                .and_then(|(next, vectors)| self.upload(next, vectors)),
            (ToClient::Proposal(message), Phase::Uploaded(phase)) => phase
                .on_proposal(member, &message, &mut self.rng)
                .and_then(|(next, send)| {
                    self.keep(next.head());
                    let next = Phase::Agreed(next);
                    self.write(&next)?;
                    self.send(send);
                    Ok(next)
                }),
            (ToClient::Agreement(message), Phase::Agreed(phase)) => phase
                .on_agreement(member, &message, &mut self.rng)
                .and_then(|(next, send)| {
                    self.revealed = self.last.map(|(round, _)| round);
                    let next = Phase::Revealed(next);
                    self.write(&next)?;
                    self.send(send);
                    Ok(next)
                }),
            // A second request never gets a second answer, and does not cost the round's result either.
            (ToClient::Agreement(_), Phase::Revealed(phase)) => {
                self.phase = Phase::Revealed(phase);
                return Err(Refusal::AlreadyAnswered);
            }
            (ToClient::Published(entry), Phase::Revealed(phase)) => read_server::<Sums>(member, &entry)
                .and_then(|sums| phase.on_sums(member, &sums))
                .map(|done| {
                    self.outputs.push_back(done);
                    Phase::Idle
                }),
            // The round went on without this client: it came too late somewhere, or its connection was gone.
            (ToClient::Published(entry), phase) => read_server::<Sums>(member, &entry).map(|sums| {
                if phase.plan_leaf() == Some(sums.plan) {
                    self.outputs
                        .extend(self.last.map(|(round, _)| ClientOutput::Ended {
                            round,
                            reason: "PublishedWithoutThisClient".to_owned(),
                        }));
                    Phase::Idle
                } else {
                    phase
                }
            }),
            (ToClient::Aborted(entry), phase) => read_server::<Aborted>(member, &entry).map(|aborted| {
                if Some((aborted.round, aborted.attempt)) == self.last {
                    let reason = printable(&aborted.reason);
                    self.outputs.push_back(ClientOutput::Ended {
                        round: aborted.round,
                        reason,
                    });
                    Phase::Idle
                } else {
                    phase
                }
            }),
            (ToClient::Describe(ask), phase) => {
                describe::check(member, ask.clustering, self.last).map(|()| {
                    self.outputs.push_back(ClientOutput::Describe {
                        clustering: ask.clustering,
                    });
                    phase
                })
            }
            (ToClient::Continue(message), Phase::Uploaded(phase)) => {
                if Some((message.round, message.attempt)) == self.last {
                    self.go_on(&phase, &message.received);
                }
                Ok(Phase::Uploaded(phase))
            }
            (ToClient::Refused(refused), phase) => {
                if Some((refused.round, refused.attempt)) == self.last {
                    return Err(Refusal::Ended(refused.name()));
                }
                Ok(phase)
            }
            // Out of the round, its remaining messages are for others.
            (_, Phase::Idle) => return Ok(()),
            (message, _) => Err(Refusal::OutOfOrder {
                got: name(&message),
                waiting,
            }),
        };
        self.settle(next)
    }

    /// Takes the learner's updates: one per cluster of [`ClientOutput::Train`], and this client's sample weight.
    ///
    /// # Errors
    /// A [`Refusal`]: nothing was sent and this client is out of the round.
    pub fn update(&mut self, updates: &[ClientUpdate], weight: u32, _now: Now) -> Result<(), Refusal> {
        let waiting = self.phase.doing();
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        let member = Arc::clone(&self.member);
        let next = match phase {
            Phase::Training(phase) => {
                let (head, grouping) = (phase.head(), phase.grouping(member.as_ref()));
                phase
                    .on_update(member.as_ref(), updates, weight, &mut self.rng)
                    .and_then(|(next, send)| {
                        self.keep(head);
                        self.grouping = grouping;
                        let next = Phase::Advertised(next);
                        self.spent = self.last;
                        self.write(&next)?;
                        self.send(send);
                        Ok(next)
                    })
            }
            _ => Err(Refusal::OutOfOrder {
                got: "update",
                waiting,
            }),
        };
        self.settle(next)
    }

    /// Leaves the round, for instance because training failed. The server is told the reason's name.
    pub fn leave(&mut self, reason: &str) {
        self.phase = Phase::Idle;
        self.forget();
        if let Some((round, attempt)) = self.last {
            self.send(ToServer::Refuse(Refused::named(round, attempt, reason)));
        }
    }

    fn accept_plan(
        &mut self,
        member: &Membership,
        message: &crate::message::PlanMessage,
    ) -> Result<plan::Training, Refusal> {
        let training = match plan::Training::new(
            member,
            message,
            &self.head,
            self.last,
            self.revealed,
            self.worked_on,
            self.grouping,
        ) {
            Ok(training) => training,
            Err(refusal) => {
                // A refused plan is over for this client too: the server is told which one it was.
                if let Ok(signed) = member.book.read::<Plan>(&message.entry, Party::Server) {
                    let plan = signed.get().body();
                    self.last = self.last.max(Some((plan.round, plan.attempt)));
                }
                return Err(refusal);
            }
        };
        self.last = Some(training.round());
        self.worked_on = Some(training.scope.leaf);
        self.outputs.push_back(training.order());
        Ok(training)
    }

    fn settle(&mut self, next: Result<Phase, Refusal>) -> Result<(), Refusal> {
        match next {
            Ok(phase) => {
                self.phase = phase;
                self.forget();
                self.outputs.push_back(ClientOutput::Progress {
                    doing: self.phase.doing(),
                });
                Ok(())
            }
            Err(refusal) => {
                if refusal.blames_the_server() {
                    let evidence = self.shown.evidence(self.member.me, self.head, refusal.name());
                    self.outputs.push_back(ClientOutput::Evidence(Box::new(evidence)));
                }
                self.leave(refusal.name());
                Err(refusal)
            }
        }
    }

    /// Writes down the vectors and then the step, and sends them.
    fn upload(&mut self, next: mask::Uploaded, vectors: Vec<mask::Packed>) -> Result<Phase, Refusal> {
        let (round, attempt) = (next.scope.plan.round, next.scope.plan.attempt);
        for (cluster, packed) in vectors {
            self.outputs.push_back(ClientOutput::Spool {
                round,
                attempt,
                cluster,
                packed,
            });
        }
        let next = Phase::Uploaded(next);
        self.write(&next)?;
        if let Phase::Uploaded(phase) = &next {
            self.go_on(phase, &[]);
        }
        Ok(next)
    }

    /// Sends what the server does not have of an upload.
    fn go_on(&mut self, phase: &mask::Uploaded, received: &[Received]) {
        for send in phase.sends() {
            self.send(send);
        }
        let from = phase
            .vectors
            .iter()
            .map(|cluster| {
                let has = received.iter().find(|known| known.cluster == *cluster);
                (*cluster, has.map_or(0, |known| known.chunks))
            })
            .collect();
        self.outputs.push_back(ClientOutput::Upload {
            round: phase.scope.plan.round,
            attempt: phase.scope.plan.attempt,
            from,
        });
    }

    fn write(&mut self, phase: &Phase) -> Result<(), Refusal> {
        let stage = phase.stage()?;
        self.journalled = !matches!(stage, journal::Stage::Out);
        let member = Arc::clone(&self.member);
        let record = journal::Record::new(&member, self.spent, self.revealed, self.grouping, stage);
        let bytes = record.seal(&member, &mut self.rng)?;
        self.outputs.push_back(ClientOutput::Journal(bytes));
        Ok(())
    }

    /// Once the round is over, the shares of others leave the disk.
    fn forget(&mut self) {
        if self.journalled && matches!(self.phase, Phase::Idle | Phase::Training(_)) {
            // The record is a few dozen bytes then: it cannot be too long.
            let _ = self.write(&Phase::Idle);
        }
    }

    fn keep(&mut self, head: Head) {
        self.head = head;
        self.outputs.push_back(ClientOutput::Keep(head));
    }

    fn send(&mut self, message: ToServer) {
        self.outputs.push_back(ClientOutput::Send(message));
    }
}

fn read_server<S: Statement + Clone>(member: &Membership, entry: &[u8]) -> Result<S, Refusal> {
    Ok(member.book.read::<S>(entry, Party::Server)?.get().body().clone())
}

fn name(message: &ToClient) -> &'static str {
    match message {
        ToClient::Plan(_) => "plan",
        ToClient::Roster(_) => "roster",
        ToClient::Inbox(_) => "inbox",
        ToClient::Proposal(_) => "proposal",
        ToClient::Agreement(_) => "agreement",
        ToClient::Published(_) => "published",
        ToClient::Aborted(_) => "aborted",
        ToClient::Refused(_) => "refused",
        ToClient::Continue(_) => "continue",
        ToClient::Describe(_) => "describe",
    }
}

/// Why a client does not start from its journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The journal.
    #[error("the journal: {0}")]
    Journal(#[from] JournalError),
    /// The policy is below this client's floors.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Refuses a set smaller than the threshold.
fn at_least_threshold(set: &ClientSet, what: &'static str, policy: &Policy) -> Result<(), Refusal> {
    let need = policy.threshold as usize;
    if set.len() < need {
        Err(Refusal::TooFew {
            what,
            have: set.len(),
            need,
        })
    } else {
        Ok(())
    }
}
