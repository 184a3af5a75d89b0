//! Statements changed and signed anew: what a party can do that holds its own key, and everybody's but one.

use crate::script::Script;
use crate::world::{Federation, identity};
use veilsum_aggregation::message::EntryBytes;
use veilsum_attestation::statement::*;
use veilsum_crypto::testing::rng;
use veilsum_crypto::{BoundedVec, ClientId, Identity, wire};

/// A party's key.
pub(crate) fn key(party: Party) -> Identity {
    match party {
        Party::Authority => identity(1, 0),
        Party::Server => identity(2, 0),
        Party::Client(client) => identity(3, client.0),
    }
}

/// Changes the body of an entry as the script says and signs it anew; the entry as it was where that gives no statement, or
/// where `honest` is its signer.
pub(crate) fn forge(
    federation: &Federation,
    bytes: &EntryBytes,
    honest: Option<ClientId>,
    script: &mut Script<'_>,
) -> EntryBytes {
    let Ok(entry) = wire::decode::<Entry>(bytes) else {
        return bytes.clone();
    };
    if honest.is_some_and(|honest| entry.signer == Party::Client(honest)) {
        return bytes.clone();
    }
    let mut body = entry.body.to_vec();
    script.bend(&mut body);
    let forged = match entry.kind {
        Kind::Member => sign::<Member>(federation, &body, entry.signer),
        Kind::Policy => sign::<Policy>(federation, &body, entry.signer),
        Kind::Plan => sign::<Plan>(federation, &body, entry.signer),
        Kind::Keys => sign::<Keys>(federation, &body, entry.signer),
        Kind::Shares => sign::<Shares>(federation, &body, entry.signer),
        Kind::Masked => sign::<Masked>(federation, &body, entry.signer),
        Kind::Agree => sign::<Agree>(federation, &body, entry.signer),
        Kind::Reveal => sign::<Reveal>(federation, &body, entry.signer),
        Kind::Sums => sign::<Sums>(federation, &body, entry.signer),
        Kind::Late => sign::<Late>(federation, &body, entry.signer),
        Kind::Aborted => sign::<Aborted>(federation, &body, entry.signer),
        Kind::Complaint => sign::<Complaint>(federation, &body, entry.signer),
        Kind::Descriptor => sign::<Descriptor>(federation, &body, entry.signer),
    };
    forged.unwrap_or_else(|| bytes.clone())
}

fn sign<S: Statement>(federation: &Federation, body: &[u8], signer: Party) -> Option<EntryBytes> {
    let body: S = wire::decode(body).ok()?;
    let book = &federation.book;
    let signed = Signed::make(body, signer, &key(signer), book.federation(), &mut rng(5)).ok()?;
    BoundedVec::new(signed.bytes().ok()?).ok()
}

/// The statement in an entry that this code made itself or has checked.
pub(crate) fn body<S: Statement>(entry: &[u8]) -> Option<S> {
    let entry: Entry = wire::decode(entry).ok()?;
    wire::decode(&entry.body).ok()
}
