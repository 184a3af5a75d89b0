//! A case's faults at work: who does what, decided once, and asked at every message.

use super::EngineError;
use super::coverage::Phase;
use super::fault::{Cast, Deed, FaultSpec, MessageName, Part, Source, When};
use super::federation::Federation;
use super::tap::Heard;
use chacha20::ChaCha20Rng;
use rand_core::Rng;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_aggregation::message::{EntryBytes, Roster};
use veilsum_aggregation::{ToClient, ToServer};
use veilsum_attestation::statement::{Entry, Kind, Plan};
use veilsum_crypto::{ClientId, ClusterId, RoundId, wire};

/// All faults of a case.
pub(super) struct Script {
    acts: Vec<Act>,
    pub(super) cast: Cast,
    /// Every message so far, when a fault replays some.
    pub(super) archive: Option<Archive>,
    /// The same of another federation.
    pub(super) elsewhere: Archive,
}

/// Messages by round, client and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Archive {
    pub(super) up: BTreeMap<(RoundId, ClientId, MessageName), ToServer>,
    pub(super) down: BTreeMap<(RoundId, ClientId, MessageName), ToClient>,
}

/// One fault.
pub(super) struct Act {
    pub(super) spec: FaultSpec,
    pub(super) who: BTreeSet<ClientId>,
    pub(super) round: RoundId,
    pub(super) memory: Memory,
}

/// What a fault remembers from one message to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// It has happened.
    pub(super) done: bool,
    /// To these clients it has happened.
    pub(super) served: BTreeSet<ClientId>,
    /// Statements kept back.
    pub(super) entries: Vec<EntryBytes>,
    /// A client's statement before it was exchanged.
    pub(super) originals: BTreeMap<ClientId, EntryBytes>,
    /// The roster each client was shown.
    pub(super) rosters: BTreeMap<ClientId, Roster>,
    /// The agreement each client was shown.
    pub(super) agreements: BTreeMap<ClientId, Vec<EntryBytes>>,
    /// Chunks sent so far.
    pub(super) chunks: BTreeMap<ClientId, usize>,
    /// The cluster of each client's first chunk.
    pub(super) first: BTreeMap<ClientId, ClusterId>,
    /// Statements of the phase recorded so far.
    pub(super) recorded: usize,
}

/// What a hand may look at.
pub(super) struct View<'a> {
    pub(super) federation: &'a Federation,
    pub(super) round: RoundId,
    /// The server's log.
    pub(super) log: &'a [Vec<u8>],
    /// Generators of clients that cheat.
    pub(super) taps: &'a BTreeMap<ClientId, Heard>,
}

/// What happens to a client as it sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing.
    Goes,
    /// The message arrives then.
    Arrives(When),
    /// The client dies before it.
    Dies { noticed: Option<bool>, back: bool },
}

/// What happens to the server as it records an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerFate {
    Goes,
    /// It dies with the entry on disk.
    Dies,
    /// The entry is not kept.
    DiskFull,
}

impl Script {
    /// Decides who does what.
    pub(super) fn new(specs: &[FaultSpec], mut cast: Cast, last: u64) -> Result<Self, EngineError> {
        let mut acts = Vec::new();
        for spec in specs {
            let who = cast.pick(spec).map_err(EngineError::Words)?;
            acts.push(Act {
                who,
                round: RoundId(spec.round.unwrap_or(last)),
                spec: spec.clone(),
                memory: Memory::default(),
            });
        }
        let archive = acts
            .iter()
            .any(|act| act.spec.does == Deed::Replay)
            .then(Archive::default);
        Ok(Self {
            acts,
            cast,
            archive,
            elsewhere: Archive::default(),
        })
    }

    /// Whether a fault needs what was said in another federation.
    pub(super) fn listens_elsewhere(&self) -> bool {
        self.acts
            .iter()
            .any(|act| act.spec.from == Some(Source::AnotherFederation))
    }

    /// Nothing goes wrong any more; what is said is still heard.
    pub(super) fn silence(&mut self) {
        self.acts.clear();
    }

    /// The faults of a round.
    pub(super) fn acts(&mut self, round: RoundId) -> impl Iterator<Item = &mut Act> {
        self.acts.iter_mut().filter(move |act| act.round == round)
    }

    /// Whether a deed is done in a round, and by or to whom.
    pub(super) fn does(&self, deed: Deed, round: RoundId) -> Option<&Act> {
        self.acts
            .iter()
            .find(|act| act.spec.does == deed && act.round == round)
    }

    /// Clients whose generators are listened to.
    pub(super) fn tapped(&self) -> BTreeSet<ClientId> {
        self.acts
            .iter()
            .filter(|act| act.spec.does == Deed::WrongDealing)
            .flat_map(|act| act.who.iter().copied())
            .collect()
    }

    /// What happens to a client as it sends.
    pub(super) fn fate(&mut self, round: RoundId, id: ClientId, message: &ToServer, chunks: usize) -> Fate {
        let phase = phase_of(message);
        for act in self.acts(round).filter(|act| act.who.contains(&id)) {
            let back = act.spec.does == Deed::Restart;
            if matches!(message, ToServer::Chunk(_)) {
                *act.memory.chunks.entry(id).or_default() += 1;
            }
            if act.spec.at != phase || phase.is_none() {
                continue;
            }
            match act.spec.does {
                Deed::Crash | Deed::Restart => {
                    let sent = act.memory.chunks.get(&id).copied().unwrap_or_default();
                    let now = match (message, act.spec.part) {
                        (ToServer::Chunk(_), Some(Part::Half)) => sent > chunks / 2,
                        (ToServer::Chunk(chunk), Some(Part::FirstCluster)) => {
                            chunk.cluster != *act.memory.first.entry(id).or_insert(chunk.cluster)
                        }
                        (_, Some(_)) => false,
                        (_, None) => true,
                    };
                    if now && act.memory.served.insert(id) {
                        return Fate::Dies {
                            noticed: act.spec.noticed,
                            back,
                        };
                    }
                }
                Deed::Straggle => {
                    if let Some(when) = act.spec.when {
                        return Fate::Arrives(when);
                    }
                }
                _ => {}
            }
        }
        Fate::Goes
    }

    /// Whether a client dies before a message reaches it.
    pub(super) fn dies_before(&mut self, round: RoundId, id: ClientId, message: &ToClient) -> Option<Fate> {
        let phase = match message {
            ToClient::Plan(_) => Phase::P0,
            ToClient::Published(_) => Phase::P6,
            _ => return None,
        };
        self.acts(round)
            .filter(|act| matches!(act.spec.does, Deed::Crash | Deed::Restart))
            .filter(|act| act.spec.at == Some(phase) && act.who.contains(&id))
            .find_map(|act| act.memory.served.insert(id).then_some(&*act))
            .map(|act| Fate::Dies {
                noticed: act.spec.noticed,
                back: act.spec.does == Deed::Restart,
            })
    }

    /// What happens to the server as it records.
    pub(super) fn server_fate(&mut self, round: RoundId, entry: &[u8], threshold: usize) -> ServerFate {
        let phase = wire::decode::<Entry>(entry)
            .ok()
            .and_then(|entry| phase_of_kind(entry.kind));
        for act in self.acts(round) {
            let deed = act.spec.does;
            if !matches!(deed, Deed::ServerCrash | Deed::ServerDiskFull)
                || act.spec.at != phase
                || act.memory.done
            {
                continue;
            }
            act.memory.recorded += 1;
            let wanted = if act.spec.part == Some(Part::Threshold) {
                threshold
            } else {
                1
            };
            if act.memory.recorded >= wanted {
                act.memory.done = true;
                return if deed == Deed::ServerCrash {
                    ServerFate::Dies
                } else {
                    ServerFate::DiskFull
                };
            }
        }
        ServerFate::Goes
    }

    /// Whether a client can keep nothing more in a phase.
    pub(super) fn client_disk_full(&mut self, round: RoundId, id: ClientId, phase: Option<Phase>) -> bool {
        self.acts(round)
            .filter(|act| act.spec.does == Deed::ClientDiskFull && act.who.contains(&id))
            .any(|act| phase >= act.spec.at)
    }

    /// Flips a bit of a message, if that is what happens to it.
    pub(super) fn flip(
        &mut self,
        round: RoundId,
        id: ClientId,
        name: Option<MessageName>,
        body: &mut [u8],
        dice: &mut ChaCha20Rng,
    ) {
        for act in self.acts(round) {
            if act.spec.does == Deed::Flip
                && name.is_some()
                && act.spec.what == name
                && act.who.contains(&id)
                && act.memory.served.insert(id)
            {
                let bit = dice.next_u64() % (body.len().max(1) as u64 * 8);
                let at = usize::try_from(bit / 8).unwrap_or_default();
                if let Some(byte) = body.get_mut(at) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
    }
}

impl View<'_> {
    /// The plan of the attempt, as logged.
    pub(super) fn plan(&self) -> Result<Plan, EngineError> {
        self.log
            .iter()
            .rev()
            .filter_map(|bytes| wire::decode::<Entry>(bytes).ok())
            .find(|entry| entry.kind == Kind::Plan)
            .and_then(|entry| wire::decode::<Plan>(&entry.body).ok())
            .ok_or(EngineError::Internal("there is no plan in the log"))
    }
}

/// The phase in which a client sends a message.
pub(super) fn phase_of(message: &ToServer) -> Option<Phase> {
    match message {
        ToServer::Keys(_) => Some(Phase::P1),
        ToServer::Shares(_) => Some(Phase::P2),
        ToServer::Masked(_) | ToServer::Chunk(_) => Some(Phase::P3),
        ToServer::Agree(_) => Some(Phase::P4),
        ToServer::Reveal(_) => Some(Phase::P5),
        _ => None,
    }
}

fn phase_of_kind(kind: Kind) -> Option<Phase> {
    match kind {
        Kind::Plan => Some(Phase::P0),
        Kind::Keys => Some(Phase::P1),
        Kind::Shares => Some(Phase::P2),
        Kind::Masked => Some(Phase::P3),
        Kind::Agree => Some(Phase::P4),
        Kind::Reveal => Some(Phase::P5),
        Kind::Sums => Some(Phase::P6),
        _ => None,
    }
}

/// A client's message, by name.
pub(super) fn name_up(message: &ToServer) -> Option<MessageName> {
    Some(match message {
        ToServer::Keys(_) => MessageName::Keys,
        ToServer::Shares(_) => MessageName::Shares,
        ToServer::Masked(_) => MessageName::Masked,
        ToServer::Chunk(_) => MessageName::Chunk,
        ToServer::Agree(_) => MessageName::Agree,
        ToServer::Reveal(_) => MessageName::Reveal,
        _ => return None,
    })
}

/// The server's message, by name.
pub(super) fn name_down(message: &ToClient) -> Option<MessageName> {
    Some(match message {
        ToClient::Plan(_) => MessageName::Plan,
        ToClient::Roster(_) => MessageName::Roster,
        ToClient::Inbox(_) => MessageName::Inbox,
        ToClient::Proposal(_) => MessageName::Proposal,
        ToClient::Agreement(_) => MessageName::Agreement,
        ToClient::Published(_) => MessageName::Published,
        _ => return None,
    })
}
