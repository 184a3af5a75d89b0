//! `descriptor`: a client's word on what its data looks like, for one clustering. Signed by the client.
//!
//! The descriptor itself is not in the log: it is a blob beside it, under its digest. So a log can be shown to those who may
//! know who took part and not what anybody's data looks like.

use super::{Kind, Statement};
use serde::{Deserialize, Serialize};
use veilsum_crypto::label::Label;
use veilsum_crypto::{Digest, Wire};

/// One client's descriptor for one clustering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Leaf hash of the policy.
    pub policy: Digest,
    /// Number of the clustering, from 1.
    pub clustering: u64,
    /// [`descriptor_digest`] of its bytes.
    pub digest: Digest,
}

impl Wire for Descriptor {
    const KIND: &'static str = "descriptor";
    const MAX_LEN: usize = 32 + 8 + 32;
}

impl Statement for Descriptor {
    const ENTRY_KIND: Kind = Kind::Descriptor;
}

/// The digest of a descriptor's bytes.
#[must_use]
pub fn descriptor_digest(bytes: &[u8]) -> Digest {
    DESCRIPTOR.hash(&[bytes])
}

const DESCRIPTOR: Label = Label::new("descriptor");
