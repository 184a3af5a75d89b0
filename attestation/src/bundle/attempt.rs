//! The log as a story: who was enrolled, under which policy, and what happened in each attempt at a round. Statements that
//! do not fit where they stand are kept aside as strays, each with the reason.

use super::record::{Body, Record};
use crate::statement::{
    Aborted, Agree, Complaint, Descriptor, Keys, Kind, Late, Masked, Member, Party, Plan, Policy, Reveal,
    Shares, Sums,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use veilsum_crypto::{ClientId, Digest};

/// A statement with its place in the log.
#[derive(Debug)]
pub(crate) struct Said<S> {
    pub(crate) index: u64,
    pub(crate) leaf: Digest,
    pub(crate) body: S,
}

/// A whole log.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) members: Vec<Said<Member>>,
    pub(crate) policy: Option<Said<Policy>>,
    pub(crate) attempts: Vec<Attempt>,
    /// Every descriptor, between attempts or misplaced.
    pub(crate) descriptors: Vec<(ClientId, Said<Descriptor>)>,
    pub(crate) strays: Vec<Stray>,
}

/// One attempt at a round. The maps hold each client's first statement of the kind.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) plan: Said<Plan>,
    pub(crate) keys: BTreeMap<ClientId, Said<Keys>>,
    pub(crate) shares: BTreeMap<ClientId, Said<Shares>>,
    pub(crate) masked: BTreeMap<ClientId, Said<Masked>>,
    pub(crate) agrees: Vec<(ClientId, Said<Agree>)>,
    /// Every reveal of the attempt, misplaced and repeated ones included: what was opened was opened.
    pub(crate) reveals: Vec<(ClientId, Said<Reveal>)>,
    pub(crate) lates: Vec<Said<Late>>,
    /// Each client's complaints about dealers.
    pub(crate) complaints: Vec<(ClientId, Said<Complaint>)>,
    pub(crate) end: Option<End>,
    stage: Stage,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum End {
    Sums(Said<Sums>),
    Aborted(Said<Aborted>),
}

/// A statement that does not fit.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) index: u64,
    /// Number of the attempt it stands in, counted over the log.
    pub(crate) attempt: Option<usize>,
    pub(crate) kind: Kind,
    pub(crate) signer: Party,
    pub(crate) why: Why,
}

/// Why a statement does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its kind is another party's to sign.
    Signer,
    /// The client has made a statement of the kind in this attempt before.
    Again,
    /// After a statement of a later phase, or after the end.
    Order,
    /// Outside the beginning of the log, or before the first plan.
    Place,
}

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Keys,
    Shares,
    Masked,
    Agree,
    Reveal,
    Over,
}

impl Transcript {
    /// Takes the next record of the log.
    pub(crate) fn take(&mut self, record: Record) {
        let Record {
            index,
            leaf,
            entry,
            body,
        } = record;
        let (kind, signer) = (entry.kind, entry.signer);
        let refused = if signer_fits(kind, signer) {
            self.place(index, leaf, signer, body)
        } else {
            Some(Why::Signer)
        };
        if let Some(why) = refused {
            self.strays.push(Stray {
                index,
                attempt: self.attempts.len().checked_sub(1),
                kind,
                signer,
                why,
            });
        }
    }

    fn place(&mut self, index: u64, leaf: Digest, signer: Party, body: Body) -> Option<Why> {
        match body {
            Body::Member(body) if self.policy.is_none() => {
                self.members.push(Said { index, leaf, body });
                None
            }
            Body::Policy(body) if self.policy.is_none() => {
                self.policy = Some(Said { index, leaf, body });
                None
            }
            Body::Member(_) | Body::Policy(_) => Some(Why::Place),
            Body::Plan(body) if self.policy.is_some() => {
                self.attempts.push(Attempt::new(Said { index, leaf, body }));
                None
            }
            Body::Descriptor(body) if self.policy.is_some() => {
                let Party::Client(client) = signer else {
                    return Some(Why::Signer);
                };
                self.descriptors.push((client, Said { index, leaf, body }));
                let between = self.attempts.last().is_none_or(|attempt| attempt.end.is_some());
                (!between).then_some(Why::Order)
            }
            body => match self.attempts.last_mut() {
                Some(attempt) => attempt.take(index, leaf, signer, body),
                None => Some(Why::Place),
            },
        }
    }
}

impl Attempt {
    fn new(plan: Said<Plan>) -> Self {
        Self {
            plan,
            keys: BTreeMap::new(),
            shares: BTreeMap::new(),
            masked: BTreeMap::new(),
            agrees: Vec::new(),
            reveals: Vec::new(),
            lates: Vec::new(),
            complaints: Vec::new(),
            end: None,
            stage: Stage::Keys,
        }
    }

    /// The sums, for an attempt that published.
    pub(crate) fn sums(&self) -> Option<&Said<Sums>> {
        match &self.end {
            Some(End::Sums(said)) => Some(said),
            Some(End::Aborted(_)) | None => None,
        }
    }

    fn take(&mut self, index: u64, leaf: Digest, signer: Party, body: Body) -> Option<Why> {
        match (body, signer) {
            (Body::Keys(body), Party::Client(client)) => {
                let stage = self.advance(Stage::Keys);
                stage.or_else(|| first(&mut self.keys, client, Said { index, leaf, body }))
            }
            (Body::Shares(body), Party::Client(client)) => {
                let stage = self.advance(Stage::Shares);
                stage.or_else(|| first(&mut self.shares, client, Said { index, leaf, body }))
            }
            (Body::Masked(body), Party::Client(client)) => {
                let stage = self.advance(Stage::Masked);
                stage.or_else(|| first(&mut self.masked, client, Said { index, leaf, body }))
            }
            (Body::Agree(body), Party::Client(client)) => {
                let stage = self.advance(Stage::Agree);
                each(&mut self.agrees, client, Said { index, leaf, body }, stage)
            }
            (Body::Reveal(body), Party::Client(client)) => {
                let stage = self.advance(Stage::Reveal);
                each(&mut self.reveals, client, Said { index, leaf, body }, stage)
            }
            (Body::Complaint(body), Party::Client(client)) => {
                // Boxes are opened when the last has been dealt, and nobody complains who has seen a proposal.
                if self.stage < Stage::Shares || self.stage > Stage::Masked {
                    return Some(Why::Order);
                }
                self.stage = Stage::Masked;
                let again = self
                    .complaints
                    .iter()
                    .any(|(known, said)| *known == client && said.body.dealer == body.dealer);
                self.complaints.push((client, Said { index, leaf, body }));
                again.then_some(Why::Again)
            }
            (Body::Late(body), _) => {
                // The mask phase has begun once shares are in, and a client that is out may come at any time after.
                if self.stage < Stage::Shares || self.stage == Stage::Over {
                    return Some(Why::Order);
                }
                self.stage = self.stage.max(Stage::Masked);
                self.lates.push(Said { index, leaf, body });
                None
            }
            (Body::Sums(body), _) => self.close(End::Sums(Said { index, leaf, body })),
            (Body::Aborted(body), _) => self.close(End::Aborted(Said { index, leaf, body })),
            // Kinds that are placed before this is called, and client statements of others, which are strays by signer.
            _ => Some(Why::Place),
        }
    }

    fn advance(&mut self, to: Stage) -> Option<Why> {
        if self.stage > to {
            return Some(Why::Order);
        }
        self.stage = to;
        None
    }

    fn close(&mut self, end: End) -> Option<Why> {
        if self.stage == Stage::Over {
            return Some(Why::Order);
        }
        self.stage = Stage::Over;
        self.end = Some(end);
        None
    }
}

fn first<S>(map: &mut BTreeMap<ClientId, Said<S>>, client: ClientId, said: Said<S>) -> Option<Why> {
    match map.entry(client) {
        Slot::Vacant(slot) => {
            slot.insert(said);
            None
        }
        Slot::Occupied(_) => Some(Why::Again),
    }
}

fn each<S>(
    list: &mut Vec<(ClientId, Said<S>)>,
    client: ClientId,
    said: Said<S>,
    stage: Option<Why>,
) -> Option<Why> {
    let again = list.iter().any(|(known, _)| *known == client);
    list.push((client, said));
    stage.or(again.then_some(Why::Again))
}

/// Whose statements of a kind are.
fn signer_fits(kind: Kind, signer: Party) -> bool {
    match kind {
        Kind::Member | Kind::Policy => signer == Party::Authority,
        Kind::Plan | Kind::Sums | Kind::Late | Kind::Aborted => signer == Party::Server,
        Kind::Keys
        | Kind::Shares
        | Kind::Complaint
        | Kind::Masked
        | Kind::Agree
        | Kind::Reveal
        | Kind::Descriptor => matches!(signer, Party::Client(_)),
    }
}
