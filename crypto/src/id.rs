//! Names of the parties and places of a round. Plain numbers, typed so that they cannot be swapped.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id! {
    /// A client: one learner with its own data and key. Numbered from 0 in the policy's member list.
    ClientId(u32), "client "
}
id! {
    /// An organisation (OEM) of the consortium; a client belongs to exactly one.
    OrgId(u32), "organisation "
}
id! {
    /// A cluster: a set of clients whose models are averaged. Clusters overlap.
    ClusterId(u16), "cluster "
}
id! {
    /// A round of the federation, counted from 1.
    RoundId(u64), "round "
}
id! {
    /// A repetition of one round after an abort, counted from 0. Keys are never shared between attempts.
    Attempt(u32), "attempt "
}
id! {
    /// The cipher suite. It is part of every derivation.
    SuiteId(u16), "suite "
}

impl SuiteId {
    /// ristretto255, HKDF-SHA256, ChaCha20-Poly1305 boxes, Ed25519, AES-128-CTR masks.
    pub const SUITE_1: SuiteId = SuiteId(1);
}

impl ClientId {
    /// The client's Shamir abscissa: its number plus one, because a share at 0 would be the secret itself.
    #[must_use]
    pub fn abscissa(self) -> u64 {
        u64::from(self.0) + 1
    }
}
