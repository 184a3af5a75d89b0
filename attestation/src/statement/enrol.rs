//! `member`: the authority enrols one client. Signed by the authority.

use super::{Kind, Statement};
use serde::{Deserialize, Serialize};
use veilsum_crypto::{ClientId, Digest, OrgId, PublicIdentity, Wire};

/// One enrolled client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number, counted from 0.
    pub client: ClientId,
    /// The organisation that answers for it.
    pub org: OrgId,
    /// Its application key: signs its statements.
    pub key: PublicIdentity,
    /// SHA-256 of the public key info of its TLS certificate: who may speak for it on the network.
    pub tls: Digest,
}

impl Wire for Member {
    const KIND: &'static str = "member";
    const MAX_LEN: usize = 72;
}

impl Statement for Member {
    const ENTRY_KIND: Kind = Kind::Member;
}
