//! What was seen of a run: endings, refusals, and everything the honest machines said.

use std::collections::{BTreeMap, BTreeSet};
use veilsum_aggregation::{Outcome, ToServer};
use veilsum_attestation::statement::{Agree, Entry, Reveal, leaf_hash};
use veilsum_crypto::label::{Hasher, Label};
use veilsum_crypto::{Attempt, ClientId, ClusterId, Digest, RoundId, wire};

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    /// Sums were opened.
    Sum(Outcome),
    /// Nothing was.
    Abort(String),
    /// The server stopped, because it could not keep what it had to.
    ServerStopped,
}

/// What the machines did.
pub(super) struct Facts {
    pub(super) endings: Vec<(RoundId, Attempt, Ending)>,
    /// Whom the server refused, and how it called that.
    pub(super) by_server: Vec<(ClientId, &'static str)>,
    /// Which client refused what.
    pub(super) by_client: Vec<(ClientId, &'static str)>,
    /// Clients that stopped because they could not keep what they had to.
    pub(super) stopped: BTreeSet<ClientId>,
    /// The models that clients were told of.
    pub(super) done: BTreeMap<ClientId, Vec<(ClusterId, Digest)>>,
    /// Statements of honest machines, per client and attempt.
    pub(super) agrees: BTreeMap<(ClientId, RoundId, Attempt), BTreeSet<Digest>>,
    pub(super) masked: BTreeMap<(ClientId, RoundId, Attempt), BTreeSet<Digest>>,
    pub(super) reveals: BTreeMap<(ClientId, RoundId), BTreeSet<Digest>>,
    /// Owners whose self-mask shares, and whose mask key shares, honest clients sent, per attempt.
    pub(super) self_owners: BTreeMap<(RoundId, Attempt), BTreeSet<ClientId>>,
    pub(super) mask_owners: BTreeMap<(RoundId, Attempt), BTreeSet<ClientId>>,
    /// What went wrong that must never.
    pub(super) broken: Vec<String>,
    transcript: Hasher,
}

impl Facts {
    pub(super) fn new() -> Self {
        Self {
            endings: Vec::new(),
            by_server: Vec::new(),
            by_client: Vec::new(),
            stopped: BTreeSet::new(),
            done: BTreeMap::new(),
            agrees: BTreeMap::new(),
            masked: BTreeMap::new(),
            reveals: BTreeMap::new(),
            self_owners: BTreeMap::new(),
            mask_owners: BTreeMap::new(),
            broken: Vec::new(),
            transcript: TRANSCRIPT.hasher(),
        }
    }

    /// Adds bytes to the transcript.
    pub(super) fn transcribe(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.transcript.part(part);
        }
    }

    /// The transcript's digest, with the log.
    pub(super) fn transcript(&mut self, log: &[Vec<u8>]) -> Digest {
        let mut hasher = std::mem::replace(&mut self.transcript, TRANSCRIPT.hasher());
        for entry in log {
            hasher.part(entry);
        }
        hasher.finish()
    }

    /// Notes what an honest machine says.
    pub(super) fn said(&mut self, client: ClientId, round: RoundId, attempt: Attempt, message: &ToServer) {
        let place = (client, round, attempt);
        match message {
            ToServer::Masked(entry) => {
                self.masked.entry(place).or_default().insert(leaf_hash(entry));
            }
            ToServer::Agree(entry) => {
                if let Some(digest) = body::<Agree>(entry).and_then(|agree| agree.digest().ok()) {
                    self.agrees.entry(place).or_default().insert(digest);
                }
            }
            ToServer::Reveal(entry) => {
                self.reveals
                    .entry((client, round))
                    .or_default()
                    .insert(leaf_hash(entry));
                if let Some(reveal) = body::<Reveal>(entry) {
                    let selves = self.self_owners.entry((round, attempt)).or_default();
                    selves.extend(reveal.self_shares.iter().map(|share| share.owner));
                    let masks = self.mask_owners.entry((round, attempt)).or_default();
                    masks.extend(reveal.mask_shares.iter().map(|share| share.owner));
                }
            }
            _ => {}
        }
    }

    /// How the last attempt ended.
    pub(super) fn ending(&self) -> Option<&(RoundId, Attempt, Ending)> {
        self.endings.last()
    }
}

fn body<S: veilsum_attestation::statement::Statement>(entry: &[u8]) -> Option<S> {
    wire::decode(&wire::decode::<Entry>(entry).ok()?.body).ok()
}

const TRANSCRIPT: Label = Label::new("compliance-transcript");
