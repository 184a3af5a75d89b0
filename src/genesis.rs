//! The policy file: the signed beginning of a federation's log, which every party holds.
//!
//! Layout: the line `veilsum-policy/1`, then each entry as `u32` little-endian length and bytes: all `member` statements in
//! client order, then the `policy`. A party believes it only under the authority key it was told of out of band.

use rand_core::CryptoRng;
use std::path::Path;
use veilsum_attestation::statement::{
    KeyBook, Member, Party, Policy, PolicyError, Signed, StatementError, federation_digest, members_digest,
};
use veilsum_crypto::{ClientId, Digest, Identity, IdentityError, PublicIdentity, WireError};

/// Whom a party trusts: told out of band, in its configuration.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The federation's name.
    pub federation: String,
    /// The authority's signing key.
    pub authority: PublicIdentity,
}

/// A policy file whose signatures hold.
#[derive(Clone, Debug)]
pub struct Genesis {
    /// The entries, as they begin the log.
    pub entries: Vec<Vec<u8>>,
    /// Everybody's keys.
    pub book: KeyBook,
    /// The policy.
    pub policy: Policy,
    /// Leaf hash of the policy's entry.
    pub policy_leaf: Digest,
}

impl Genesis {
    /// Reads and checks a policy file.
    ///
    /// # Errors
    /// [`GenesisError`]: unreadable, not signed by the authority, incomplete, or an unsafe policy.
    pub fn read(path: &Path, trust: &Trust) -> Result<Self, GenesisError> {
        let bytes = std::fs::read(path).map_err(|error| GenesisError::Io {
            path: path.display().to_string(),
            error,
        })?;
        Self::parse(&bytes, trust)
    }

    /// Checks the bytes of a policy file.
    ///
    /// # Errors
    /// As [`Genesis::read`].
    pub fn parse(bytes: &[u8], trust: &Trust) -> Result<Self, GenesisError> {
        let entries = split(bytes)?;
        let (policy_entry, member_entries) = entries.split_last().ok_or(GenesisError::Malformed)?;
        PublicIdentity::checked(trust.authority.0).map_err(|_| GenesisError::Authority)?;
        let federation = federation_digest(&trust.authority, &trust.federation);
        let authority_only = KeyBook::new(federation, trust.authority, trust.authority, []);
        let mut members: Vec<Member> = Vec::with_capacity(member_entries.len());
        let mut leaves = Vec::with_capacity(member_entries.len());
        for entry in member_entries {
            let signed = authority_only
                .read::<Member>(entry, Party::Authority)?
                .into_inner();
            let member = signed.body().clone();
            if member.client != ClientId(u32::try_from(members.len()).unwrap_or(u32::MAX)) {
                return Err(GenesisError::Members("they are not numbered from 0 without gaps"));
            }
            if members
                .iter()
                .any(|other| other.key == member.key || other.tls == member.tls)
            {
                return Err(GenesisError::Members("two of them have one key"));
            }
            PublicIdentity::checked(member.key.0)?;
            leaves.push(signed.leaf());
            members.push(member);
        }
        let signed: Signed<Policy> = authority_only
            .read::<Policy>(policy_entry, Party::Authority)?
            .into_inner();
        let policy = signed.body().clone();
        PublicIdentity::checked(policy.server.0)?;
        policy.check()?;
        if policy.clients as usize != members.len() || policy.members != members_digest(&leaves) {
            return Err(GenesisError::Members(
                "they are not the ones the policy was signed for",
            ));
        }
        if *policy.name != *trust.federation.as_bytes() {
            return Err(GenesisError::Members(
                "the policy is for a federation of another name",
            ));
        }
        let book = KeyBook::new(federation, trust.authority, policy.server, members);
        Ok(Self {
            policy_leaf: signed.leaf(),
            entries,
            book,
            policy,
        })
    }

    /// Signs a federation's beginning: its members in the order given, then the policy that `policy` makes of their digest.
    /// Whether it is a safe one is the caller's to check, before it signs.
    ///
    /// # Errors
    /// What `policy` refuses, and a statement over its bound.
    pub fn found<E: From<WireError>, R: CryptoRng + ?Sized>(
        authority: &Identity,
        name: &str,
        members: Vec<Member>,
        policy: impl FnOnce(Digest) -> Result<Policy, E>,
        rng: &mut R,
    ) -> Result<Self, E> {
        let federation = federation_digest(&authority.public(), name);
        let mut entries = Vec::with_capacity(members.len() + 1);
        let mut leaves = Vec::with_capacity(members.len());
        for member in &members {
            let signed = Signed::make(member.clone(), Party::Authority, authority, &federation, rng)?;
            leaves.push(signed.leaf());
            entries.push(signed.bytes()?);
        }
        let policy = policy(members_digest(&leaves))?;
        let signed = Signed::make(policy.clone(), Party::Authority, authority, &federation, rng)?;
        entries.push(signed.bytes()?);
        Ok(Self {
            book: KeyBook::new(federation, authority.public(), policy.server, members),
            policy_leaf: signed.leaf(),
            entries,
            policy,
        })
    }

    /// The bytes of a policy file.
    #[must_use]
    pub fn file(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for entry in entries {
            bytes.extend_from_slice(&u32::try_from(entry.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend_from_slice(entry);
        }
        bytes
    }
}

fn split(bytes: &[u8]) -> Result<Vec<Vec<u8>>, GenesisError> {
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
        return Err(other_file(bytes));
    };
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<4>().ok_or(GenesisError::Malformed)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (entry, tail) = tail.split_at_checked(length).ok_or(GenesisError::Malformed)?;
        entries.push(entry.to_vec());
        rest = tail;
    }
    Ok(entries)
}

/// A policy file of another version, or another kind of file.
fn other_file(bytes: &[u8]) -> GenesisError {
    let version = bytes
        .strip_prefix(KIND)
        .and_then(|rest| rest.split(|byte| *byte == b'\n').next())
        .filter(|version| !version.is_empty() && version.len() <= 8 && version.is_ascii())
        .map(|version| String::from_utf8_lossy(version).escape_default().to_string());
    version.map_or(GenesisError::NotAPolicyFile, GenesisError::Version)
}

/// Why a policy file is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenesisError {
    /// It cannot be read.
    #[error("cannot read the policy file {path}: {error}")]
    Io {
        /// Which file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// Another kind of file.
    #[error("this is not a policy file (it does not begin with `veilsum-policy/1`)")]
    NotAPolicyFile,
    /// A later version.
    #[error(
        "the policy file is `veilsum-policy/{0}`, another version than this program's `veilsum-policy/1`; use the veilsum that the consortium uses"
    )]
    Version(String),
    /// Cut short.
    #[error("the policy file is cut short or damaged; fetch it again from the consortium")]
    Malformed,
    /// A statement in it does not hold.
    #[error("the policy file does not hold under the authority key of your configuration: {0}")]
    Statement(#[from] StatementError),
    /// The authority key of the configuration is none.
    #[error("`trust.authority` is not a signing key; ask the consortium's authority for the right one")]
    Authority,
    /// A weak key.
    #[error(transparent)]
    Key(#[from] IdentityError),
    /// The members do not fit.
    #[error("the members in the policy file do not fit: {0}")]
    Members(&'static str),
    /// Unsafe parameters.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

const KIND: &[u8] = b"veilsum-policy/";
const MAGIC: &[u8] = b"veilsum-policy/1\n";
