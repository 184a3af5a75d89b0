//! Dishonest hands: each takes a message of an honest machine and gives what is sent instead. They sign with their own
//! party's real key and with nobody else's.

pub(super) mod client;
pub(super) mod replay;
pub(super) mod server;

use super::EngineError;
use veilsum_attestation::statement::{Entry, Party, Statement};
use veilsum_crypto::{ClientId, wire};

/// The body of an entry, its signature unchecked.
fn body<S: Statement>(entry: &[u8]) -> Result<S, EngineError> {
    let entry: Entry = wire::decode(entry)?;
    Ok(wire::decode(&entry.body)?)
}

/// The client that signed an entry, or says so.
fn signer(entry: &[u8]) -> Option<ClientId> {
    match wire::decode::<Entry>(entry).ok()?.signer {
        Party::Client(client) => Some(client),
        _ => None,
    }
}

/// A list as a message holds it.
fn bounded<T, const MAX: usize>(items: Vec<T>) -> Result<veilsum_crypto::BoundedVec<T, MAX>, EngineError> {
    veilsum_crypto::BoundedVec::new(items).map_err(|_| EngineError::Internal("a forged list is too long"))
}
