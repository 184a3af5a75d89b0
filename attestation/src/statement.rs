//! Statements: the signed, canonical records somebody is accountable for.
//!
//! The bodies the parties exchange in a round *are* the log's vocabulary: nothing is summarised afterwards. An [`Entry`]
//! is a statement on the wire and in the log; [`Signed`] is the same with its body parsed. Bodies are in the files below,
//! one kind each, in protocol order.

mod aborted;
mod agree;
mod clustering;
mod complaint;
mod descriptor;
mod enrol;
mod keys;
mod masked;
mod plan;
mod policy;
mod reveal;
mod set;
mod shares;
mod sums;

pub use aborted::{Aborted, Late, Phase};
pub use agree::Agree;
pub use clustering::{ClusteringRule, NoiseRule, ThresholdRule};
pub use complaint::{Complaint, FalseComplaint};
pub use descriptor::{Descriptor, descriptor_digest};
pub use enrol::Member;
pub use keys::{Commitment, Keys, roster_digest};
pub use masked::{Masked, VectorRoot};
pub use plan::{ClusterPlan, Plan};
pub use policy::{Policy, PolicyError, UpdateRule, members_digest};
pub use reveal::{MaskShare, Reveal, SelfShare};
pub use set::ClientSet;
pub use shares::Shares;
pub use sums::{ClusterResult, Sums};

use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use veilsum_crypto::label::Label;
use veilsum_crypto::wire::{self, Wire};
use veilsum_crypto::{
    BoundedVec, ClientId, Digest, Identity, PublicIdentity, Signature, Unverified, Verified, WireError,
};

/// A statement body: its place in the vocabulary.
pub trait Statement: Wire {
    /// The kind that marks it in an entry.
    const ENTRY_KIND: Kind;
}

/// What a statement says. The numbers are bytes of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "each variant is the body type of the same name, documented there"
)]
pub enum Kind {
    Member,
    Policy,
    Plan,
    Keys,
    Shares,
    Masked,
    Agree,
    Reveal,
    Sums,
    Late,
    Aborted,
    Complaint,
    Descriptor,
}

impl Kind {
    /// Lower-case name, as reports print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Policy => "policy",
            Self::Plan => "plan",
            Self::Keys => "keys",
            Self::Shares => "shares",
            Self::Masked => "masked",
            Self::Agree => "agree",
            Self::Reveal => "reveal",
            Self::Sums => "sums",
            Self::Late => "late",
            Self::Aborted => "aborted",
            Self::Complaint => "complaint",
            Self::Descriptor => "descriptor",
        }
    }

    /// One label per kind: a signature under one is none under another.
    fn label(self) -> Label {
        match self {
            Self::Member => Label::new("statement/member"),
            Self::Policy => Label::new("statement/policy"),
            Self::Plan => Label::new("statement/plan"),
            Self::Keys => Label::new("statement/keys"),
            Self::Shares => Label::new("statement/shares"),
            Self::Masked => Label::new("statement/masked"),
            Self::Agree => Label::new("statement/agree"),
            Self::Reveal => Label::new("statement/reveal"),
            Self::Sums => Label::new("statement/sums"),
            Self::Late => Label::new("statement/late"),
            Self::Aborted => Label::new("statement/aborted"),
            Self::Complaint => Label::new("statement/complaint"),
            Self::Descriptor => Label::new("statement/descriptor"),
        }
    }
}

/// Who signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Party {
    /// The consortium's authority: enrols members and signs the policy.
    Authority,
    /// The server.
    Server,
    /// A client.
    Client(ClientId),
}

impl std::fmt::Display for Party {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Authority => f.write_str("the authority"),
            Self::Server => f.write_str("the server"),
            Self::Client(client) => client.fmt(f),
        }
    }
}

/// A statement as it travels and as it is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// 32 random bytes, signed with the rest: a reader of one inclusion proof cannot guess its low-entropy neighbours.
    pub blinder: [u8; 32],
    /// What the body is.
    pub kind: Kind,
    /// Who signed.
    pub signer: Party,
    /// The canonical bytes of the body.
    pub body: BoundedVec<u8, MAX_BODY>,
    /// Ed25519 over label of the kind ‖ federation ‖ blinder ‖ signer ‖ body.
    pub signature: Signature,
}

impl Wire for Entry {
    const KIND: &'static str = "entry";
    // C2SP tlog-tiles bundles carry a u16 length before each entry.
    const MAX_LEN: usize = 65_535;
}

impl Entry {
    /// The entry's leaf in the log: `SHA-256(0x00 ‖ entry)` (RFC 6962 2.1).
    ///
    /// # Errors
    /// [`WireError::OwnTooLong`] for an entry that cannot be encoded.
    pub fn leaf(&self) -> Result<Digest, WireError> {
        Ok(leaf_hash(&wire::encode(self)?))
    }
}

/// `SHA-256(0x00 ‖ entry)` (RFC 6962 2.1).
#[must_use]
pub fn leaf_hash(entry: &[u8]) -> Digest {
    Digest(crate::merkle::leaf_hash(entry))
}

/// A statement with its entry: what was signed, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<S> {
    entry: Entry,
    leaf: Digest,
    body: S,
}

impl<S: Statement> Signed<S> {
    /// Signs a statement.
    ///
    /// # Errors
    /// [`WireError::OwnTooLong`] when the body exceeds what an entry may hold.
    pub fn make<R: CryptoRng + ?Sized>(
        body: S,
        signer: Party,
        identity: &Identity,
        federation: &Digest,
        rng: &mut R,
    ) -> Result<Self, WireError> {
        let mut blinder = [0; 32];
        rng.fill_bytes(&mut blinder);
        let bytes = wire::encode(&body)?;
        let got = bytes.len();
        let bytes = BoundedVec::new(bytes).map_err(|_| WireError::OwnTooLong {
            kind: S::KIND,
            got,
            max: MAX_BODY,
        })?;
        let message = signed_bytes(federation, &blinder, signer, &bytes);
        let signature = identity.sign(S::ENTRY_KIND.label(), &message);
        let entry = Entry {
            blinder,
            kind: S::ENTRY_KIND,
            signer,
            body: bytes,
            signature,
        };
        let leaf = entry.leaf()?;
        Ok(Self { entry, leaf, body })
    }

    /// Reads an entry that should hold this kind of statement. Nothing is believed yet.
    ///
    /// # Errors
    /// [`StatementError::Wire`] for bytes that are not canonical, [`StatementError::WrongKind`] for another kind.
    pub fn parse(bytes: &[u8]) -> Result<Unverified<Self>, StatementError> {
        let entry: Entry = wire::decode(bytes)?;
        if entry.kind != S::ENTRY_KIND {
            return Err(StatementError::WrongKind {
                want: S::KIND,
                got: entry.kind.name(),
            });
        }
        let body = wire::decode(&entry.body)?;
        Ok(Unverified::new(Self {
            leaf: leaf_hash(bytes),
            entry,
            body,
        }))
    }

    /// What is said.
    #[must_use]
    pub fn body(&self) -> &S {
        &self.body
    }

    /// Who says it.
    #[must_use]
    pub fn signer(&self) -> Party {
        self.entry.signer
    }

    /// The leaf hash of the entry.
    #[must_use]
    pub fn leaf(&self) -> Digest {
        self.leaf
    }

    /// The entry's canonical bytes.
    ///
    /// # Errors
    /// None for an entry that was made or parsed; the bound was checked then.
    pub fn bytes(&self) -> Result<Vec<u8>, WireError> {
        wire::encode(&self.entry)
    }
}

/// The keys statements are checked with: the authority's, the server's, and each member's.
#[derive(Clone, Debug)]
pub struct KeyBook {
    federation: Digest,
    authority: PublicIdentity,
    server: PublicIdentity,
    members: BTreeMap<ClientId, Member>,
}

impl KeyBook {
    /// Collects the keys of one federation.
    #[must_use]
    pub fn new(
        federation: Digest,
        authority: PublicIdentity,
        server: PublicIdentity,
        members: impl IntoIterator<Item = Member>,
    ) -> Self {
        Self {
            federation,
            authority,
            server,
            members: members
                .into_iter()
                .map(|member| (member.client, member))
                .collect(),
        }
    }

    /// The federation's digest.
    #[must_use]
    pub fn federation(&self) -> &Digest {
        &self.federation
    }

    /// The server's key.
    #[must_use]
    pub fn server(&self) -> PublicIdentity {
        self.server
    }

    /// All members by client number.
    #[must_use]
    pub fn members(&self) -> &BTreeMap<ClientId, Member> {
        &self.members
    }

    /// The signing key of a party, if it is enrolled.
    #[must_use]
    pub fn key(&self, party: Party) -> Option<PublicIdentity> {
        match party {
            Party::Authority => Some(self.authority),
            Party::Server => Some(self.server),
            Party::Client(client) => self.members.get(&client).map(|member| member.key),
        }
    }

    /// Checks a statement's signature with its signer's key.
    ///
    /// # Errors
    /// [`StatementError::UnknownSigner`] or [`StatementError::BadSignature`].
    pub fn verify<S: Statement>(
        &self,
        unverified: Unverified<Signed<S>>,
    ) -> Result<Verified<Signed<S>>, StatementError> {
        let signer = unverified.peek().signer();
        let key = self.key(signer).ok_or(StatementError::UnknownSigner(signer))?;
        unverified
            .verify(|signed| verifies(&key, &self.federation, &signed.entry))
            .map_err(|_| StatementError::BadSignature {
                kind: S::KIND,
                signer,
            })
    }

    /// Parses and checks a statement that must come from `signer`.
    ///
    /// # Errors
    /// [`StatementError`], with [`StatementError::WrongSigner`] when somebody else signed it.
    pub fn read<S: Statement>(
        &self,
        bytes: &[u8],
        signer: Party,
    ) -> Result<Verified<Signed<S>>, StatementError> {
        let unverified = Signed::<S>::parse(bytes)?;
        let got = unverified.peek().signer();
        if got != signer {
            return Err(StatementError::WrongSigner {
                kind: S::KIND,
                want: signer,
                got,
            });
        }
        self.verify(unverified)
    }
}

/// Whether an entry carries its signer's signature in this federation.
#[must_use]
pub fn verifies(key: &PublicIdentity, federation: &Digest, entry: &Entry) -> bool {
    let message = signed_bytes(federation, &entry.blinder, entry.signer, &entry.body);
    key.verifies(entry.kind.label(), &message, &entry.signature)
}

/// The digest that names a federation: its authority's key and its name.
#[must_use]
pub fn federation_digest(authority: &PublicIdentity, name: &str) -> Digest {
    FEDERATION.hash(&[&authority.0, name.as_bytes()])
}

fn signed_bytes(federation: &Digest, blinder: &[u8; 32], signer: Party, body: &[u8]) -> Vec<u8> {
    let (tag, client) = match signer {
        Party::Authority => (0u8, 0),
        Party::Server => (1, 0),
        Party::Client(client) => (2, client.0),
    };
    let mut message = Vec::with_capacity(69 + body.len());
    message.extend_from_slice(&federation.0);
    message.extend_from_slice(blinder);
    message.push(tag);
    message.extend_from_slice(&client.to_le_bytes());
    message.extend_from_slice(body);
    message
}

/// Why bytes are not a believable statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// The bytes are not canonical.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Another kind of statement was expected here.
    #[error(
        "a {want} statement was expected and a {got} statement came; the sender does not follow the protocol"
    )]
    WrongKind {
        /// Expected.
        want: &'static str,
        /// Received.
        got: &'static str,
    },
    /// The signer is not enrolled.
    #[error("a statement is signed by {0}, who is not enrolled in this federation")]
    UnknownSigner(Party),
    /// Somebody else signed.
    #[error("a {kind} statement of {want} is signed by {got}")]
    WrongSigner {
        /// Kind of statement.
        kind: &'static str,
        /// Who should have signed.
        want: Party,
        /// Who did.
        got: Party,
    },
    /// The signature does not hold: changed on the way, or made with another key or for another federation.
    #[error(
        "the signature of {signer} on a {kind} statement does not hold: it was changed, or made for another federation"
    )]
    BadSignature {
        /// Kind of statement.
        kind: &'static str,
        /// Who is said to have signed.
        signer: Party,
    },
}

/// The longest body: an entry of 65,535 bytes less its other fields.
pub const MAX_BODY: usize = 65_535 - 160;

const FEDERATION: Label = Label::new("federation");

#[cfg(test)]
mod tests {
    use super::*;
    use veilsum_crypto::testing::rng;
    use veilsum_crypto::{Attempt, RoundId};

    fn book() -> (KeyBook, Identity, Identity) {
        let (server, client) = (
            Identity::from_seed(&[1; 32]).unwrap(),
            Identity::from_seed(&[2; 32]).unwrap(),
        );
        let member = Member {
            client: ClientId(4),
            org: veilsum_crypto::OrgId(0),
            key: client.public(),
            tls: Digest([0; 32]),
        };
        let authority = Identity::from_seed(&[3; 32]).unwrap().public();
        (
            KeyBook::new(Digest([9; 32]), authority, server.public(), [member]),
            server,
            client,
        )
    }

    fn late() -> Late {
        Late {
            round: RoundId(1),
            attempt: Attempt(0),
            client: ClientId(4),
            digest: Digest([7; 32]),
        }
    }

    #[test]
    fn a_statement_round_trips_and_every_flipped_bit_is_refused() {
        let (book, server, _) = book();
        let signed = Signed::make(late(), Party::Server, &server, book.federation(), &mut rng(1)).unwrap();
        let bytes = signed.bytes().unwrap();
        let read = book.read::<Late>(&bytes, Party::Server).unwrap().into_inner();
        assert_eq!(read, signed);
        for bit in 0..bytes.len() * 8 {
            let mut bent = bytes.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            assert!(book.read::<Late>(&bent, Party::Server).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn wrong_signer_kind_and_federation_are_named() {
        let (book, server, client) = book();
        let by_client = Signed::make(
            late(),
            Party::Client(ClientId(4)),
            &client,
            book.federation(),
            &mut rng(1),
        )
        .unwrap();
        let bytes = by_client.bytes().unwrap();
        assert!(book.read::<Late>(&bytes, Party::Client(ClientId(4))).is_ok());
        assert!(matches!(
            book.read::<Late>(&bytes, Party::Server),
            Err(StatementError::WrongSigner { .. })
        ));
        assert!(matches!(
            book.read::<Aborted>(&bytes, Party::Server),
            Err(StatementError::WrongKind {
                want: "aborted",
                got: "late"
            })
        ));
        let stranger = Signed::make(
            late(),
            Party::Client(ClientId(5)),
            &client,
            book.federation(),
            &mut rng(1),
        )
        .unwrap();
        assert!(matches!(
            book.read::<Late>(&stranger.bytes().unwrap(), Party::Client(ClientId(5))),
            Err(StatementError::UnknownSigner(_))
        ));
        let elsewhere = Signed::make(late(), Party::Server, &server, &Digest([8; 32]), &mut rng(1)).unwrap();
        assert!(matches!(
            book.read::<Late>(&elsewhere.bytes().unwrap(), Party::Server),
            Err(StatementError::BadSignature { .. })
        ));
    }
}
