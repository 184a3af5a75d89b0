//! Witnesses over the network: the C2SP tlog-witness protocol on plain HTTP/1.1.
//!
//! An organisation runs [`Desk::serve`] (`veilsum witness`) and so keeps the server to one history; the server asks them
//! with [`Quorum::collect`] and hands out heads that carry the quorum's cosignatures. The decisions are in
//! [`veilsum_attestation::tlog`]; here are sockets, files and the clock. The protocol needs no secrecy (what is asked and
//! answered is public and signed), so TLS is left to a proxy where names must be hidden.

mod client;
mod desk;
mod key;
mod store;

pub use client::{AskError, Collected, Quorum, QuorumSetupError, WitnessAnswer};
pub use desk::{Desk, DeskError, DeskEvent};
pub use key::{KeyError, witness_key};
pub use store::{DeskStore, DeskStoreError};

use veilsum_crypto::{PublicIdentity, Signature};

/// Strict Ed25519, as everywhere else.
pub(crate) fn verifies(public: &[u8; 32], text: &[u8], signature: &[u8; 64]) -> bool {
    PublicIdentity(*public).verifies_raw(text, &Signature(*signature))
}
