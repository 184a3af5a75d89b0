//! What a client writes down before it sends, so that after a crash it says the same again or nothing.
//!
//! A record replaces the one before it. Up to the masked upload nothing secret is written: a client that crashes earlier
//! is out of the attempt. From then on the record holds the other clients' shares, so that this client can still answer
//! the one unmask request; its own mask secret and self-mask seeds are never written. Vectors are kept beside it, masked.
//! The record is sealed under a key of the client's identity: a copy of the file without the key file says nothing.

use super::{Membership, agree, mask, plan, unmask};
use crate::message::{EntryBytes, MESSAGE_CAP};
use crate::refusal::Refusal;
use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use veilsum_attestation::dealing::Dealt;
use veilsum_attestation::statement::{Agree, ClientSet, Masked, Signed, leaf_hash};
use veilsum_crypto::wire::{self, Wire};
use veilsum_crypto::{Attempt, BoundedVec, ClientId, ClusterId, Digest, RoundId, WireError};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// What is on disk.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    /// The policy it was written under.
    policy: Digest,
    pub(super) last: Option<(RoundId, Attempt)>,
    pub(super) revealed: Option<RoundId>,
    pub(super) grouping: Option<Grouping>,
    pub(super) stage: Stage,
}

/// Who is in which cluster, for as long as a clustering holds.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grouping {
    pub(super) clustering: u64,
    pub(super) clusters: Digest,
}

/// How far the attempt `last` has come.
#[derive(Serialize, Deserialize)]
pub(super) enum Stage {
    /// Nothing to go on with.
    Out,
    Uploaded(Uploaded),
    Agreed(Agreed),
    Revealed(Revealed),
}

#[derive(Serialize, Deserialize)]
pub(super) struct Uploaded {
    plan: EntryBytes,
    roster: Digest,
    sharers: ClientSet,
    held: BoundedVec<Held, 4096>,
    complaints: BoundedVec<EntryBytes, 4096>,
    masked: EntryBytes,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Agreed {
    plan: EntryBytes,
    held: BoundedVec<Held, 4096>,
    agree: EntryBytes,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Revealed {
    plan: EntryBytes,
    agreement: Digest,
    release: BoundedVec<ClusterId, 64>,
    reveal: EntryBytes,
}

/// One dealer's shares, in the order of a box.
#[derive(Serialize, Deserialize)]
struct Held {
    dealer: ClientId,
    shares: BoundedVec<Scalar32, 65>,
}

/// A share at rest inside the sealed record, wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop, Serialize, Deserialize)]
struct Scalar32([u8; 32]);

impl Wire for Record {
    const KIND: &'static str = "client journal";
    const MAX_LEN: usize = MESSAGE_CAP;
}

impl Record {
    pub(super) fn new(
        member: &Membership,
        last: Option<(RoundId, Attempt)>,
        revealed: Option<RoundId>,
        grouping: Option<Grouping>,
        stage: Stage,
    ) -> Self {
        Self {
            policy: member.policy_leaf,
            last,
            revealed,
            grouping,
            stage,
        }
    }

    /// The file's bytes: magic, a fresh salt, the sealed record.
    pub(super) fn seal<R: CryptoRng + ?Sized>(
        &self,
        member: &Membership,
        rng: &mut R,
    ) -> Result<Vec<u8>, Refusal> {
        let mut salt = [0; 32];
        rng.fill_bytes(&mut salt);
        let sealed = key(member, &salt)
            .seal(AAD, wire::encode(self)?)
            .map_err(|_| Refusal::Wire(too_long()))?;
        Ok([MAGIC.as_slice(), &salt, &sealed].concat())
    }

    /// Reads a file's bytes.
    pub(super) fn open(bytes: &[u8], member: &Membership) -> Result<Self, JournalError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(JournalError::Version)?;
        let (salt, sealed) = rest.split_first_chunk::<32>().ok_or(JournalError::Damaged)?;
        let plain = key(member, salt)
            .open(AAD, sealed.to_vec())
            .map_err(|_| JournalError::Damaged)?;
        let record: Self = wire::decode(&Zeroizing::new(plain)).map_err(|_| JournalError::Damaged)?;
        if record.policy == member.policy_leaf {
            Ok(record)
        } else {
            Err(JournalError::OtherPolicy)
        }
    }
}

impl Uploaded {
    pub(super) fn of(phase: &mask::Uploaded) -> Result<Self, Refusal> {
        Ok(Self {
            plan: phase.scope.entry.clone(),
            roster: phase.roster_digest,
            sharers: phase.sharers.clone(),
            held: held_out(&phase.held)?,
            complaints: BoundedVec::new(phase.complaints.clone()).map_err(|_| Refusal::Wire(too_long()))?,
            masked: phase.masked.clone(),
        })
    }

    pub(super) fn restore(self, member: &Membership) -> Result<mask::Uploaded, JournalError> {
        let scope = plan::Scope::read(member, self.plan)?;
        let vectors = Signed::<Masked>::parse(&self.masked)
            .map_err(|_| JournalError::Damaged)?
            .peek()
            .body()
            .vectors
            .iter()
            .map(|vector| vector.cluster)
            .collect();
        Ok(mask::Uploaded {
            roster_digest: self.roster,
            sharers: self.sharers,
            held: held_in(self.held, &scope)?,
            complaints: self.complaints.into_vec(),
            masked_leaf: leaf_hash(&self.masked),
            masked: self.masked,
            vectors,
            scope,
        })
    }
}

impl Agreed {
    pub(super) fn of(phase: &agree::Agreed) -> Result<Self, Refusal> {
        Ok(Self {
            plan: phase.scope.entry.clone(),
            held: held_out(&phase.held)?,
            agree: phase.entry.clone(),
        })
    }

    pub(super) fn restore(self, member: &Membership) -> Result<agree::Agreed, JournalError> {
        let scope = plan::Scope::read(member, self.plan)?;
        let agree = Signed::<Agree>::parse(&self.agree)
            .map_err(|_| JournalError::Damaged)?
            .peek()
            .body()
            .clone();
        Ok(agree::Agreed {
            held: held_in(self.held, &scope)?,
            agree,
            entry: self.agree,
            scope,
        })
    }
}

impl Revealed {
    pub(super) fn of(phase: &unmask::Revealed) -> Result<Self, Refusal> {
        Ok(Self {
            plan: phase.scope.entry.clone(),
            agreement: phase.agreement,
            release: BoundedVec::new(phase.release.clone()).map_err(|_| Refusal::Wire(too_long()))?,
            reveal: phase.entry.clone(),
        })
    }

    pub(super) fn restore(self, member: &Membership) -> Result<unmask::Revealed, JournalError> {
        Ok(unmask::Revealed {
            scope: plan::Scope::read(member, self.plan)?,
            agreement: self.agreement,
            release: self.release.into_vec(),
            entry: self.reveal,
        })
    }
}

fn held_out(held: &BTreeMap<ClientId, Dealt>) -> Result<BoundedVec<Held, 4096>, Refusal> {
    let held = held
        .iter()
        .map(|(dealer, dealt)| {
            let bytes = dealt.to_bytes();
            let shares = bytes.as_chunks::<32>().0.iter().copied().map(Scalar32).collect();
            Ok(Held {
                dealer: *dealer,
                shares: BoundedVec::new(shares).map_err(|_| Refusal::Wire(too_long()))?,
            })
        })
        .collect::<Result<_, Refusal>>()?;
    BoundedVec::new(held).map_err(|_| Refusal::Wire(too_long()))
}

fn held_in(
    held: BoundedVec<Held, 4096>,
    scope: &plan::Scope,
) -> Result<BTreeMap<ClientId, Dealt>, JournalError> {
    held.into_vec()
        .into_iter()
        .map(|held| {
            let clusters: Vec<_> = scope
                .plan
                .clusters_of(held.dealer)
                .map(|(cluster, _)| cluster)
                .collect();
            let mut bytes = Zeroizing::new(Vec::with_capacity(32 * held.shares.len()));
            for share in &*held.shares {
                bytes.extend_from_slice(&share.0);
            }
            let dealt = Dealt::from_bytes(&bytes, &clusters).ok_or(JournalError::Damaged)?;
            Ok((held.dealer, dealt))
        })
        .collect()
}

fn key(member: &Membership, salt: &[u8; 32]) -> veilsum_crypto::seal::SealKey {
    let me = member.me.0.to_le_bytes();
    member
        .identity
        .storage_key(salt, &[b"client journal", &member.book.federation().0, &me])
}

fn too_long() -> WireError {
    WireError::OwnTooLong {
        kind: Record::KIND,
        got: MESSAGE_CAP + 1,
        max: MESSAGE_CAP,
    }
}

/// Why a journal cannot be gone on from. Starting without it could answer twice, so the client does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Written by another version, or no journal.
    #[error("it is not a client journal of this version; use the version that wrote it to finish the round")]
    Version,
    /// Changed, cut, or another client's.
    #[error(
        "it was changed, cut short, or belongs to another client or key; restore it, or move it away once the federation's round is over: without it this client could answer a round twice"
    )]
    Damaged,
    /// Written under another policy.
    #[error("it was written under another policy; use another state folder for another policy")]
    OtherPolicy,
}

const MAGIC: &[u8; 25] = b"veilsum client journal 2\n";
const AAD: &[u8] = b"veilsum/v1/journal";
