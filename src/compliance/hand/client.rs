//! A dishonest client: its machine is honest, its hands change what the machine says and hears.

use super::{body, bounded, signer};
use crate::compliance::EngineError;
use crate::compliance::fault::Deed;
use crate::compliance::script::{Act, View};
use std::collections::BTreeMap;
use veilsum_aggregation::message::{Dealing, Inbox, SealedBox};
use veilsum_aggregation::{ToClient, ToServer};
use veilsum_attestation::dealing::{BOX_AAD, BoxTree};
use veilsum_attestation::statement::{
    Agree, ClientSet, Keys, Masked, Reveal, SelfShare, Shares, Statement, VectorRoot, leaf_hash,
    roster_digest,
};
use veilsum_crypto::chunk::Chunking;
use veilsum_crypto::residue::{pack, unpack};
use veilsum_crypto::share::{Secret, share_digest};
use veilsum_crypto::{ClientId, ClusterId, Digest, Modulus, Share};

/// What a client sends in place of a message.
pub(in crate::compliance) fn sends(
    act: &mut Act,
    view: &View<'_>,
    me: ClientId,
    message: ToServer,
) -> Result<Vec<ToServer>, EngineError> {
    if !act.who.contains(&me) {
        return Ok(vec![message]);
    }
    let sent = match (act.spec.does, message) {
        (Deed::WrongBox, ToServer::Shares(dealing)) => {
            let forged = bent_box(view, me, &dealing)?;
            act.memory.originals.insert(me, dealing.entry);
            ToServer::Shares(forged)
        }
        (Deed::WrongDealing, ToServer::Shares(dealing)) => {
            let forged = dealt_anew(act, view, me, &dealing)?;
            act.memory.originals.insert(me, dealing.entry);
            ToServer::Shares(forged)
        }
        (Deed::WrongLength, ToServer::Masked(entry)) => changed(view, me, &entry, |masked: &mut Masked| {
            vectors(masked, |vectors| {
                if let Some(first) = vectors.first_mut() {
                    first.bytes += 1;
                }
            })
        })
        .map(ToServer::Masked)?,
        (Deed::ForeignCluster, ToServer::Masked(entry)) => {
            changed(view, me, &entry, |masked: &mut Masked| {
                vectors(masked, |vectors| {
                    if let Some(last) = vectors.last_mut() {
                        last.cluster = ClusterId(60);
                    }
                })
            })
            .map(ToServer::Masked)?
        }
        (Deed::WrongRoot, ToServer::Masked(entry)) => {
            changed(view, me, &entry, other_roots).map(ToServer::Masked)?
        }
        (Deed::TwoVectors, ToServer::Masked(entry)) => {
            act.memory.originals.insert(me, entry.clone());
            ToServer::Masked(entry)
        }
        (Deed::TwoVectors, ToServer::Chunk(chunk)) => return two_vectors(act, view, me, chunk),
        (Deed::WrongModulus, ToServer::Chunk(mut chunk)) => {
            chunk.bytes = repacked(view, chunk.index as usize, &chunk.bytes)?;
            ToServer::Chunk(chunk)
        }
        (Deed::WrongAgree, ToServer::Agree(entry)) => changed(view, me, &entry, |agree: &mut Agree| {
            let other: ClientSet = agree
                .survivors
                .iter()
                .copied()
                .filter(|client| *client != me)
                .collect();
            agree.survivors = other;
            Ok(())
        })
        .map(ToServer::Agree)?,
        (Deed::WrongReveal, ToServer::Reveal(entry)) => changed(view, me, &entry, |reveal: &mut Reveal| {
            let mut shares: Vec<SelfShare> = reveal.self_shares.to_vec();
            if let Some(byte) = shares.first_mut().and_then(|share| share.share.first_mut()) {
                *byte ^= 1;
            }
            reveal.self_shares = bounded(shares)?;
            Ok(())
        })
        .map(ToServer::Reveal)?,
        (Deed::Stranger, ToServer::Keys(entry)) => {
            ToServer::Keys(view.federation.by_stranger(me, body::<Keys>(&entry)?)?)
        }
        (_, message) => message,
    };
    Ok(vec![sent])
}

/// What a client's machine is told in place of a message.
pub(in crate::compliance) fn hears(
    act: &mut Act,
    me: ClientId,
    message: ToClient,
) -> Result<ToClient, EngineError> {
    if !matches!(act.spec.does, Deed::WrongDealing | Deed::WrongBox) || !act.who.contains(&me) {
        return Ok(message);
    }
    Ok(match message {
        ToClient::Roster(roster) => {
            act.memory.rosters.insert(me, roster.clone());
            ToClient::Roster(roster)
        }
        // Its machine must not see that its own dealing was exchanged.
        ToClient::Inbox(inbox) => {
            let mut shares = inbox.shares.to_vec();
            for entry in shares.iter_mut().filter(|entry| signer(entry) == Some(me)) {
                if let Some(original) = act.memory.originals.get(&me) {
                    *entry = original.clone();
                }
            }
            ToClient::Inbox(Inbox {
                shares: bounded(shares)?,
                ..inbox
            })
        }
        message => message,
    })
}

fn changed<S: Statement>(
    view: &View<'_>,
    me: ClientId,
    entry: &[u8],
    change: impl FnOnce(&mut S) -> Result<(), EngineError>,
) -> Result<veilsum_aggregation::message::EntryBytes, EngineError> {
    let mut statement: S = body(entry)?;
    change(&mut statement)?;
    view.federation.by_client(me, statement)
}

fn vectors(masked: &mut Masked, change: impl FnOnce(&mut Vec<VectorRoot>)) -> Result<(), EngineError> {
    let mut vectors = masked.vectors.to_vec();
    change(&mut vectors);
    masked.vectors = bounded(vectors)?;
    Ok(())
}

fn other_roots(masked: &mut Masked) -> Result<(), EngineError> {
    vectors(masked, |vectors| {
        for vector in vectors {
            vector.root = Digest([4; 32]);
        }
    })
}

/// After the last chunk of the first announcement comes a second announcement.
fn two_vectors(
    act: &mut Act,
    view: &View<'_>,
    me: ClientId,
    chunk: veilsum_aggregation::message::Chunk,
) -> Result<Vec<ToServer>, EngineError> {
    let rule = &view.federation.policy.update;
    let entries = usize::try_from(rule.entries).unwrap_or(usize::MAX - 1) + 1;
    let count = Chunking::new(rule.modulus, entries).count();
    let last_cluster = act
        .memory
        .originals
        .get(&me)
        .and_then(|entry| body::<Masked>(entry).ok())
        .and_then(|masked| masked.vectors.last().map(|vector| vector.cluster));
    let is_last = chunk.index as usize + 1 == count && Some(chunk.cluster) == last_cluster;
    let mut sent = vec![ToServer::Chunk(chunk)];
    if is_last && let Some(entry) = act.memory.originals.get(&me) {
        sent.push(ToServer::Masked(changed(view, me, entry, other_roots)?));
    }
    Ok(sent)
}

/// A chunk's entries packed with one bit fewer.
fn repacked(view: &View<'_>, index: usize, bytes: &[u8]) -> Result<Vec<u8>, EngineError> {
    let rule = &view.federation.policy.update;
    let entries = usize::try_from(rule.entries).unwrap_or(usize::MAX - 1) + 1;
    let count = Chunking::new(rule.modulus, entries)
        .range(index)
        .map(|range| range.len())
        .unwrap_or_default();
    let words = unpack(rule.modulus, bytes, count)
        .map_err(|_| EngineError::Internal("a chunk that does not unpack"))?;
    let fewer =
        Modulus::new(rule.modulus.bits() - 1).map_err(|_| EngineError::Internal("no such modulus"))?;
    let words: Vec<u32> = words.into_iter().map(|word| fewer.reduce(word)).collect();
    Ok(pack(fewer, &words))
}

/// A box that does not open, under this dealer's own good signature.
fn bent_box(view: &View<'_>, me: ClientId, dealing: &Dealing) -> Result<Dealing, EngineError> {
    let mut boxes = dealing.boxes.to_vec();
    if let Some(first) = boxes.first_mut() {
        let mut sealed = first.sealed.to_vec();
        if let Some(byte) = sealed.get_mut(3) {
            *byte ^= 1;
        }
        first.sealed = bounded(sealed)?;
    }
    let mut shares: Shares = body(&dealing.entry)?;
    shares.boxes = BoxTree::of(boxes.iter().map(|sealed| &*sealed.sealed)).root();
    Ok(Dealing {
        entry: view.federation.by_client(me, shares)?,
        boxes: bounded(boxes)?,
    })
}

/// Shares of other self-masks than this client committed to, well sealed and with the digests that belong to them.
fn dealt_anew(act: &Act, view: &View<'_>, me: ClientId, dealing: &Dealing) -> Result<Dealing, EngineError> {
    let federation = view.federation;
    let missing = || EngineError::Internal("a dealer without a roster");
    let roster = act.memory.rosters.get(&me).ok_or_else(missing)?;
    let keys: BTreeMap<ClientId, Keys> = roster
        .keys
        .iter()
        .map(|entry| Ok((signer(entry).ok_or_else(missing)?, body(entry)?)))
        .collect::<Result<_, EngineError>>()?;
    let leaves: Vec<Digest> = roster.keys.iter().map(|entry| leaf_hash(entry)).collect();
    let own = keys.get(&me).ok_or_else(missing)?;
    let heard = view.taps.get(&me).ok_or_else(missing)?;
    let round = view.plan()?;
    let context = round
        .context(federation.policy.suite, *federation.book.federation(), own.plan)
        .with_roster(roster_digest(&leaves));
    let clusters: Vec<ClusterId> = round.clusters_of(me).map(|(cluster, _)| cluster).collect();
    let mut shares: Shares = body(&dealing.entry)?;
    let mut digests = shares.digests.to_vec();
    let mut boxes = Vec::new();
    let no_box = |_| EngineError::Internal("a box of its own does not open");
    for sealed in &dealing.boxes {
        let holder = sealed.receiver;
        let their = keys.get(&holder).ok_or_else(missing)?;
        let seal_key = || {
            heard
                .box_secret(&own.box_key)?
                .seal_key(&their.box_key, me, holder, &context)
                .map_err(|_| EngineError::Internal("a key that is no key"))
        };
        let mut plain = seal_key()?
            .open(BOX_AAD, sealed.sealed.to_vec())
            .map_err(no_box)?;
        let row = keys
            .keys()
            .position(|client| *client == holder)
            .unwrap_or_default();
        for (column, cluster) in clusters.iter().enumerate() {
            // Any scalar but the right one: the holder's number is as good as another.
            let mut scalar = [0; 32];
            for (slot, byte) in scalar.iter_mut().zip((holder.0 + 1).to_le_bytes()) {
                *slot = byte;
            }
            let share = Share::from_bytes(scalar).map_err(|_| EngineError::Internal("no share"))?;
            let start = 32 * (1 + column);
            if let Some(slot) = plain.get_mut(start..start + 32) {
                slot.copy_from_slice(&scalar);
            }
            let secret = Secret::SelfMask(*cluster);
            let at = row * (1 + clusters.len()) + 1 + column;
            if let Some(slot) = digests.get_mut(at) {
                *slot = share_digest(&share, me, holder, secret, &context);
            }
        }
        let sealed = seal_key()?.seal(BOX_AAD, plain).map_err(no_box)?;
        boxes.push(SealedBox {
            receiver: holder,
            sealed: bounded(sealed)?,
        });
    }
    shares.digests = bounded(digests)?;
    shares.boxes = BoxTree::of(boxes.iter().map(|sealed: &SealedBox| &*sealed.sealed)).root();
    Ok(Dealing {
        entry: federation.by_client(me, shares)?,
        boxes: bounded(boxes)?,
    })
}
