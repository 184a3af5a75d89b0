//! `agree`: one survivor set, one head, one release set. Signed by each client before any unmasking share moves.

use super::{ClientSet, Kind, Statement};
use crate::log::Head;
use serde::{Deserialize, Serialize};
use veilsum_crypto::label::Label;
use veilsum_crypto::wire::{self, Wire, WireError};
use veilsum_crypto::{BoundedVec, ClusterId, Digest, Identity, PublicIdentity, Signature};

/// What t clients sign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agree {
    /// Leaf hash of the plan.
    pub plan: Digest,
    /// Digest of the roster.
    pub roster: Digest,
    /// The clients that dealt shares.
    pub sharers: ClientSet,
    /// The clients whose masked vectors count.
    pub survivors: ClientSet,
    /// The clusters whose sums are opened, ascending.
    pub release: BoundedVec<ClusterId, 64>,
    /// The log after the last masked statement.
    pub head: Head,
    /// The server's signature on [`Agree::digest`]: what it proposed, it can be held to.
    pub server: Signature,
}

impl Agree {
    /// The digest reveals, sums and the server's signature refer to: over everything but that signature.
    ///
    /// # Errors
    /// None for a body within its bound.
    pub fn digest(&self) -> Result<Digest, WireError> {
        let bytes = wire::encode(self)?;
        let proposed = bytes.len().saturating_sub(size_of::<Signature>());
        Ok(AGREEMENT.hash(&[bytes.get(..proposed).unwrap_or_default()]))
    }

    /// The server puts its name to this proposal.
    ///
    /// # Errors
    /// None for a body within its bound.
    pub fn propose(self, server: &Identity, federation: &Digest) -> Result<Self, WireError> {
        let message = proposal_message(&self.digest()?, federation);
        let server = server.sign(PROPOSAL, &message);
        Ok(Self { server, ..self })
    }

    /// Whether the server of that key proposed this.
    #[must_use]
    pub fn is_proposed_by(&self, server: &PublicIdentity, federation: &Digest) -> bool {
        self.digest().is_ok_and(|digest| {
            server.verifies(PROPOSAL, &proposal_message(&digest, federation), &self.server)
        })
    }
}

impl Wire for Agree {
    const KIND: &'static str = "agree";
    const MAX_LEN: usize = 64 + 2 * 520 + 8 + 64 * 2 + 40 + 64;
}

impl Statement for Agree {
    const ENTRY_KIND: Kind = Kind::Agree;
}

fn proposal_message(digest: &Digest, federation: &Digest) -> Vec<u8> {
    [federation.0, digest.0].concat()
}

const AGREEMENT: Label = Label::new("agreement");
const PROPOSAL: Label = Label::new("proposal");
