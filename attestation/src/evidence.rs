//! What a client was shown when it refused to go on, in a file that convicts without the client being believed.
//!
//! A split view is proved by two statements under one signature that cannot both be honest. One file is enough when the
//! client saw both; otherwise two members lay their files side by side. [`judge`] believes the authority's key and
//! signatures, nothing else.

use crate::log::Head;
use crate::release::{check_plan, release_for};
use crate::statement::{
    Agree, Entry, KeyBook, Keys, Kind, Member, Party, Plan, Policy, Signed, StatementError, members_digest,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fmt;
use veilsum_crypto::wire::{self, Wire, WireError};
use veilsum_crypto::{Attempt, BoundedVec, ClientId, Digest, PublicIdentity, RoundId};

/// What one client was shown in one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Whose file it is.
    pub client: ClientId,
    /// The name of the refusal.
    pub reason: BoundedVec<u8, 64>,
    /// The last head the client had accepted.
    pub held: Head,
    /// The plans it was shown.
    pub plans: BoundedVec<BoundedVec<u8, { Entry::MAX_LEN }>, 16>,
    /// The proposals it was shown, with the server's signature.
    pub proposals: BoundedVec<Agree, 16>,
    /// Other parties' `keys` and `agree` entries it was shown.
    pub entries: BoundedVec<BoundedVec<u8, { Entry::MAX_LEN }>, 8192>,
}

/// An evidence file: the evidence, and the beginning of the log that names everybody's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceFile {
    /// The `member` entries and the `policy` entry.
    pub genesis: BoundedVec<BoundedVec<u8, { Entry::MAX_LEN }>, 4097>,
    /// What was shown.
    pub evidence: Evidence,
}

impl Wire for EvidenceFile {
    const KIND: &'static str = "evidence file";
    const MAX_LEN: usize = 64 << 20;
}

impl EvidenceFile {
    /// The file's bytes.
    ///
    /// # Errors
    /// [`WireError::OwnTooLong`] beyond 64 MiB.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        Ok([MAGIC.as_slice(), &wire::encode(self)?].concat())
    }

    /// Reads a file. Nothing in it is believed yet.
    ///
    /// # Errors
    /// [`EvidenceError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EvidenceError> {
        let body = bytes
            .strip_prefix(MAGIC.as_slice())
            .ok_or(EvidenceError::Version)?;
        Ok(wire::decode(body)?)
    }
}

/// What files prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Who is convicted.
    pub party: Party,
    /// Of what.
    pub offence: Offence,
    /// The round, where it is about one.
    pub round: Option<(RoundId, Attempt)>,
}

/// What a party cannot have done honestly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Offence {
    /// Two plans for one attempt.
    TwoPlans,
    /// Two proposals for one plan.
    TwoProposals,
    /// Two logs: heads of one size with different roots.
    Fork,
    /// A plan of a log that is shorter than one proposed before.
    Rollback,
    /// A plan that names another policy than the authority signed.
    OtherPolicy,
    /// A plan whose overlap exposes clients.
    PlanLeaks,
    /// A proposal that opens what the disclosure rule withholds, or withholds what it opens.
    ReleaseLeaks,
    /// A proposal over fewer survivors than the threshold.
    TooFew,
    /// A client's two different keys for one plan.
    TwoKeys,
    /// A client's signatures on two agreements of one plan.
    TwoAgreements,
}

impl Offence {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TwoPlans => "TwoPlans",
            Self::TwoProposals => "TwoProposals",
            Self::Fork => "Fork",
            Self::Rollback => "Rollback",
            Self::OtherPolicy => "OtherPolicy",
            Self::PlanLeaks => "PlanLeaks",
            Self::ReleaseLeaks => "ReleaseLeaks",
            Self::TooFew => "TooFew",
            Self::TwoKeys => "TwoKeys",
            Self::TwoAgreements => "TwoAgreements",
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.offence {
            Offence::TwoPlans => "signed two different plans for one attempt",
            Offence::TwoProposals => "proposed two different survivor sets, heads or releases for one plan",
            Offence::Fork => "signed two logs of one size with different contents",
            Offence::Rollback => "signed a plan of a log shorter than one it had proposed before",
            Offence::OtherPolicy => "signed a plan under another policy than the authority's",
            Offence::PlanLeaks => "signed a plan whose overlap exposes clients",
            Offence::ReleaseLeaks => "proposed another release than the disclosure rule gives",
            Offence::TooFew => "proposed fewer survivors than the threshold",
            Offence::TwoKeys => "signed two different keys for one plan",
            Offence::TwoAgreements => "signed two different agreements for one plan",
        };
        write!(f, "{} {what}", self.party)?;
        match self.round {
            Some((round, attempt)) => write!(f, " ({round}, {attempt})"),
            None => Ok(()),
        }
    }
}

/// What the files prove together, given the federation's digest and its authority's key.
///
/// # Errors
/// [`EvidenceError`] for files whose founding entries the authority did not sign, or of different federations.
pub fn judge(
    files: &[EvidenceFile],
    federation: Digest,
    authority: PublicIdentity,
) -> Result<Vec<Proof>, EvidenceError> {
    let mut court: Option<Court> = None;
    for file in files {
        let charter = Charter::read(&file.genesis, federation, authority)?;
        match &court {
            Some(court) if court.charter.policy_leaf != charter.policy_leaf => {
                return Err(EvidenceError::Different);
            }
            Some(_) => {}
            None => court = Some(Court::new(charter)),
        }
        if let Some(court) = &mut court {
            court.hear(&file.evidence);
        }
    }
    Ok(court
        .map(|mut court| {
            court.rollbacks();
            court.proofs
        })
        .unwrap_or_default())
}

/// The keys and the policy, as the authority signed them.
struct Charter {
    book: KeyBook,
    policy: Policy,
    policy_leaf: Digest,
}

impl Charter {
    fn read(
        genesis: &[BoundedVec<u8, { Entry::MAX_LEN }>],
        federation: Digest,
        authority: PublicIdentity,
    ) -> Result<Self, EvidenceError> {
        // The server's key is known only after the policy: the authority's statements need none.
        let bare = KeyBook::new(federation, authority, authority, []);
        let (policy, members) = genesis.split_last().ok_or(EvidenceError::Genesis)?;
        let policy = bare.read::<Policy>(policy, Party::Authority)?.into_inner();
        let members = members
            .iter()
            .map(|entry| Ok(bare.read::<Member>(entry, Party::Authority)?.into_inner()))
            .collect::<Result<Vec<_>, StatementError>>()?;
        let leaves: Vec<Digest> = members.iter().map(Signed::leaf).collect();
        if members_digest(&leaves) != policy.body().members {
            return Err(EvidenceError::Genesis);
        }
        let book = KeyBook::new(
            federation,
            authority,
            policy.body().server,
            members.iter().map(|signed| signed.body().clone()),
        );
        Ok(Self {
            book,
            policy_leaf: policy.leaf(),
            policy: policy.body().clone(),
        })
    }
}

/// Everything heard so far that carries a good signature.
struct Court {
    charter: Charter,
    plans: BTreeMap<(RoundId, Attempt), (Digest, Plan)>,
    by_leaf: BTreeMap<Digest, Plan>,
    proposals: BTreeMap<Digest, Digest>,
    /// Size of the log proposed in each attempt.
    proposed: BTreeMap<(RoundId, Attempt), u64>,
    heads: BTreeMap<u64, Digest>,
    keys: BTreeMap<(ClientId, Digest), Digest>,
    agrees: BTreeMap<(ClientId, Digest), Digest>,
    proofs: Vec<Proof>,
}

impl Court {
    fn new(charter: Charter) -> Self {
        Self {
            charter,
            plans: BTreeMap::new(),
            by_leaf: BTreeMap::new(),
            proposals: BTreeMap::new(),
            proposed: BTreeMap::new(),
            heads: BTreeMap::new(),
            keys: BTreeMap::new(),
            agrees: BTreeMap::new(),
            proofs: Vec::new(),
        }
    }

    /// What carries no good signature proves nothing and is passed over.
    fn hear(&mut self, evidence: &Evidence) {
        for entry in &evidence.plans {
            if let Ok(signed) = self.charter.book.read::<Plan>(entry, Party::Server) {
                let signed = signed.into_inner();
                self.hear_plan(signed.leaf(), signed.body().clone());
            }
        }
        for agree in &evidence.proposals {
            self.hear_proposal(agree);
        }
        for entry in &evidence.entries {
            self.hear_entry(entry);
        }
    }

    fn hear_plan(&mut self, leaf: Digest, plan: Plan) {
        let place = (plan.round, plan.attempt);
        if self.by_leaf.contains_key(&leaf) {
            return;
        }
        self.head(plan.head, Some(place));
        if plan.policy != self.charter.policy_leaf {
            self.convict(Party::Server, Offence::OtherPolicy, Some(place));
        }
        if check_plan(&plan, &self.charter.book, &self.charter.policy).is_err() {
            self.convict(Party::Server, Offence::PlanLeaks, Some(place));
        }
        match self.plans.entry(place) {
            Slot::Vacant(slot) => {
                slot.insert((leaf, plan.clone()));
            }
            Slot::Occupied(_) => self.convict(Party::Server, Offence::TwoPlans, Some(place)),
        }
        self.by_leaf.insert(leaf, plan);
    }

    fn hear_proposal(&mut self, agree: &Agree) {
        let Ok(digest) = agree.digest() else { return };
        if !agree.is_proposed_by(&self.charter.policy.server, self.charter.book.federation()) {
            return;
        }
        let plan = self.by_leaf.get(&agree.plan).cloned();
        let place = plan.as_ref().map(|plan| (plan.round, plan.attempt));
        match self.proposals.entry(agree.plan) {
            Slot::Occupied(slot) if *slot.get() == digest => return,
            Slot::Occupied(_) => self.convict(Party::Server, Offence::TwoProposals, place),
            Slot::Vacant(slot) => {
                slot.insert(digest);
            }
        }
        self.head(agree.head, place);
        if let Some(place) = place {
            self.proposed.insert(place, agree.head.size);
        }
        if agree.survivors.len() < self.charter.policy.threshold as usize {
            self.convict(Party::Server, Offence::TooFew, place);
        }
        if let Some(plan) = plan {
            let release = release_for(&plan, &agree.survivors, &self.charter.book, &self.charter.policy);
            if release.map_or(true, |release| {
                release.is_empty() || release.as_slice() != &*agree.release
            }) {
                self.convict(Party::Server, Offence::ReleaseLeaks, place);
            }
        }
    }

    fn hear_entry(&mut self, bytes: &[u8]) {
        let Ok(entry) = wire::decode::<Entry>(bytes) else {
            return;
        };
        let Party::Client(client) = entry.signer else {
            return;
        };
        match entry.kind {
            Kind::Keys => {
                if let Ok(signed) = self.charter.book.read::<Keys>(bytes, entry.signer) {
                    let signed = signed.into_inner();
                    let plan = signed.body().plan;
                    let known = self.keys.insert((client, plan), signed.leaf());
                    if known.is_some_and(|known| known != signed.leaf()) {
                        self.convict(entry.signer, Offence::TwoKeys, None);
                    }
                }
            }
            Kind::Agree => {
                if let Ok(signed) = self.charter.book.read::<Agree>(bytes, entry.signer) {
                    let signed = signed.into_inner();
                    let Ok(digest) = signed.body().digest() else {
                        return;
                    };
                    let known = self.agrees.insert((client, signed.body().plan), digest);
                    if known.is_some_and(|known| known != digest) {
                        self.convict(entry.signer, Offence::TwoAgreements, None);
                    }
                    // What the client signed carries what the server proposed to it.
                    self.hear_proposal(signed.body());
                }
            }
            _ => {}
        }
    }

    /// Plans of a log shorter than one proposed in an earlier attempt.
    fn rollbacks(&mut self) {
        let back: Vec<(RoundId, Attempt)> = self
            .plans
            .iter()
            .filter(|(place, (_, plan))| {
                self.proposed
                    .iter()
                    .any(|(earlier, size)| earlier < *place && *size > plan.head.size)
            })
            .map(|(place, _)| *place)
            .collect();
        for place in back {
            self.convict(Party::Server, Offence::Rollback, Some(place));
        }
    }

    fn head(&mut self, head: Head, place: Option<(RoundId, Attempt)>) {
        let known = *self.heads.entry(head.size).or_insert(head.root);
        if known != head.root {
            self.convict(Party::Server, Offence::Fork, place);
        }
    }

    fn convict(&mut self, party: Party, offence: Offence, round: Option<(RoundId, Attempt)>) {
        let proof = Proof {
            party,
            offence,
            round,
        };
        if !self.proofs.contains(&proof) {
            self.proofs.push(proof);
        }
    }
}

/// Why files cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// Not an evidence file of this version.
    #[error("it is not an evidence file of this version")]
    Version,
    /// The bytes are not canonical.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A founding entry that the authority did not sign.
    #[error("its founding entries: {0}; check the authority's key and the federation's name")]
    Statement(#[from] StatementError),
    /// Founding entries that do not belong together.
    #[error("its founding entries are not the members and the policy of one federation")]
    Genesis,
    /// Files of different policies.
    #[error("the files are of different policies and say nothing about each other")]
    Different,
}

const MAGIC: &[u8; 19] = b"veilsum evidence 1\n";
