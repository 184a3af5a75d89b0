//! A server that starts again finds an attempt without an end in its log. If enough was revealed the sums are as good as
//! open, so it opens them for everybody; otherwise it says that it was lost, and nothing is opened.

use super::share::Round;
use super::unmask::{Unmask, Unmasking};
use super::{Core, Phase, PhaseName, Server, ServerSetup};
use crate::Now;
use crate::abort::Abort;
use crate::message::Agreement;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use veilsum_attestation::Log;
use veilsum_attestation::statement::{
    Agree, Complaint, Entry, Keys, Kind, Masked, Party, Plan, Reveal, Shares, Signed, Statement, leaf_hash,
};
use veilsum_crypto::chunk::Chunking;
use veilsum_crypto::residue::unpack;
use veilsum_crypto::{Attempt, BoundedVec, ClientId, ClusterId, Digest, RoundId, wire};

/// What a server keeps beside its log.
pub trait Stored {
    /// The model of that digest.
    fn model(&self, digest: &Digest) -> Option<Arc<[f32]>>;
    /// A masked vector, packed.
    fn vector(
        &self,
        round: RoundId,
        attempt: Attempt,
        client: ClientId,
        cluster: ClusterId,
    ) -> Option<Vec<u8>>;
}

impl<R: CryptoRng> Server<R> {
    /// Ends the attempt that `log` leaves open. The machine is over at once; its outputs are to be done as ever.
    ///
    /// # Errors
    /// The log itself, when it leaves nothing open.
    pub fn recover(
        setup: Arc<ServerSetup>,
        log: Log,
        stored: &dyn Stored,
        now: Now,
        rng: R,
    ) -> Result<Self, Log> {
        let Some(open) = OpenAttempt::read(&log) else {
            return Err(log);
        };
        let Ok(plan_entry) = BoundedVec::new(open.plan_entry.clone()) else {
            return Err(log);
        };
        let models = open
            .plan
            .clusters
            .iter()
            .map(|cluster| stored.model(&cluster.model).unwrap_or_default())
            .collect();
        let core = Core {
            deadline: now,
            plan_leaf: leaf_hash(&open.plan_entry),
            plan_entry,
            plan: open.plan.clone(),
            models,
            present: BTreeSet::new(),
            away: BTreeMap::new(),
            said: BTreeSet::new(),
            heads: BTreeMap::new(),
            late: BTreeSet::new(),
            refused: BTreeSet::new(),
            asked: open.agrees.len() >= setup.policy.threshold as usize,
            outputs: VecDeque::new(),
            setup,
            rng,
            log,
        };
        let mut server = Self {
            core,
            phase: Phase::Over,
        };
        let lost = Abort::ServerLost;
        let phase = open.phase(server.core.threshold());
        let end = match open.unmask(&mut server.core, stored) {
            Some(unmask) if unmask.is_enough(server.core.threshold()) => {
                unmask.finish(&mut server.core).map_err(|(abort, _)| abort)
            }
            _ => Err(lost),
        };
        if let Err(abort) = end {
            server.core.abort(&abort, phase);
        }
        Ok(server)
    }
}

/// An attempt without an end, as the log has it.
struct OpenAttempt {
    plan: Plan,
    plan_entry: Vec<u8>,
    keys: Vec<Vec<u8>>,
    shares: Vec<Vec<u8>>,
    complaints: Vec<Vec<u8>>,
    masked: Vec<Vec<u8>>,
    agrees: Vec<Vec<u8>>,
    reveals: Vec<Vec<u8>>,
}

impl OpenAttempt {
    fn read(log: &Log) -> Option<Self> {
        let mut open: Option<Self> = None;
        for bytes in log.entries() {
            let entry: Entry = wire::decode(bytes).ok()?;
            let list = match (entry.kind, &mut open) {
                (Kind::Plan, _) => {
                    open = Some(Self {
                        plan: wire::decode(&entry.body).ok()?,
                        plan_entry: bytes.clone(),
                        keys: Vec::new(),
                        shares: Vec::new(),
                        complaints: Vec::new(),
                        masked: Vec::new(),
                        agrees: Vec::new(),
                        reveals: Vec::new(),
                    });
                    continue;
                }
                (Kind::Sums | Kind::Aborted, _) => {
                    open = None;
                    continue;
                }
                (Kind::Keys, Some(open)) => &mut open.keys,
                (Kind::Shares, Some(open)) => &mut open.shares,
                (Kind::Complaint, Some(open)) => &mut open.complaints,
                (Kind::Masked, Some(open)) => &mut open.masked,
                (Kind::Agree, Some(open)) => &mut open.agrees,
                (Kind::Reveal, Some(open)) => &mut open.reveals,
                _ => continue,
            };
            list.push(bytes.clone());
        }
        open
    }

    /// How far it may have come: with t signatures the agreement may have been sent.
    fn phase(&self, threshold: usize) -> PhaseName {
        if self.agrees.len() >= threshold {
            PhaseName::Unmask
        } else if !self.agrees.is_empty() {
            PhaseName::Agree
        } else if !self.masked.is_empty() || !self.complaints.is_empty() {
            PhaseName::Mask
        } else if !self.shares.is_empty() {
            PhaseName::Share
        } else {
            PhaseName::Advertise
        }
    }

    /// The unmask phase as it stood; `None` when the log or the vectors do not give it.
    fn unmask<R: CryptoRng>(&self, core: &mut Core<R>, stored: &dyn Stored) -> Option<Unmask> {
        let agree = read::<_, Agree>(core, self.agrees.first()?)?.1.body().clone();
        let keys: BTreeMap<ClientId, Signed<Keys>> = read_all(core, &self.keys)?;
        let dealers: BTreeMap<ClientId, Signed<Shares>> = read_all(core, &self.shares)?;
        let masked: BTreeMap<ClientId, Signed<Masked>> = read_all(core, &self.masked)?;
        let mut complaints: BTreeMap<ClientId, BTreeSet<ClientId>> = BTreeMap::new();
        for entry in &self.complaints {
            let (receiver, complaint) = read::<_, Complaint>(core, entry)?;
            complaints
                .entry(complaint.body().dealer)
                .or_default()
                .insert(receiver);
        }
        let next = Unmasking {
            round: Round::new(core, &keys),
            dealers: dealers
                .into_iter()
                .map(|(client, signed)| (client, signed.body().clone()))
                .collect(),
            complaints,
            sums: sums(core, &agree, &masked, stored)?,
            agree,
        };
        let mut unmask = Unmask::new(next, Agreement::default()).ok()?;
        for entry in &self.reveals {
            let (client, _) = read::<_, Reveal>(core, entry)?;
            unmask.take_back(core, client, entry).ok()?;
        }
        Some(unmask)
    }
}

/// The released clusters' masked sums, from the vectors on disk, each checked against its root.
fn sums<R>(
    core: &Core<R>,
    agree: &Agree,
    masked: &BTreeMap<ClientId, Signed<Masked>>,
    stored: &dyn Stored,
) -> Option<BTreeMap<ClusterId, Vec<u32>>> {
    let rule = &core.setup.policy.update;
    let entries = usize::try_from(rule.entries).ok()?.checked_add(1)?;
    let chunking = Chunking::new(rule.modulus, entries);
    let mut sums: BTreeMap<ClusterId, Vec<u32>> = agree
        .release
        .iter()
        .map(|cluster| (*cluster, vec![0; entries]))
        .collect();
    for client in agree.survivors.iter() {
        for vector in &masked.get(client)?.body().vectors {
            let Some(sum) = sums.get_mut(&vector.cluster) else {
                continue;
            };
            let packed = stored.vector(core.plan.round, core.plan.attempt, *client, vector.cluster)?;
            let words = unpack(rule.modulus, &packed, entries).ok()?;
            if chunking.root_of(&words) != vector.root {
                return None;
            }
            for (total, word) in sum.iter_mut().zip(words) {
                *total = total.wrapping_add(word);
            }
        }
    }
    Some(sums)
}

/// A client's statement from the log, its signature checked again: disks fail.
fn read<R, S: Statement>(core: &Core<R>, entry: &[u8]) -> Option<(ClientId, Signed<S>)> {
    let signed = core
        .setup
        .book
        .verify(Signed::<S>::parse(entry).ok()?)
        .ok()?
        .into_inner();
    match signed.signer() {
        Party::Client(client) => Some((client, signed)),
        Party::Authority | Party::Server => None,
    }
}

fn read_all<R, S: Statement>(core: &Core<R>, entries: &[Vec<u8>]) -> Option<BTreeMap<ClientId, Signed<S>>> {
    entries.iter().map(|entry| read(core, entry)).collect()
}
