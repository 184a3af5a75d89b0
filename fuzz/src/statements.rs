//! Statements, evidence files and client journals: what is read is written again byte for byte, no change of an honest
//! client's evidence convicts anybody, and no journal makes a client panic.

use crate::forge::key;
use crate::tape::Tape;
use crate::world::Federation;
use std::sync::OnceLock;
use veilsum_aggregation::message::EntryBytes;
use veilsum_aggregation::{Client, Now, ToClient};
use veilsum_attestation::Head;
use veilsum_attestation::evidence::{Evidence, EvidenceFile, judge};
use veilsum_attestation::statement::*;
use veilsum_crypto::testing::rng;
use veilsum_crypto::wire::{self, Wire};
use veilsum_crypto::{BoundedVec, ClientId};

/// What to read the rest as, then the bytes.
///
/// # Panics
/// When a rule is broken.
pub fn run(data: &[u8]) {
    let Some((what, bytes)) = data.split_first() else {
        return;
    };
    match what % 17 {
        0 => entry(bytes),
        1 => identity::<Member>(bytes),
        2 => policy(bytes),
        3 => identity::<Plan>(bytes),
        4 => identity::<Keys>(bytes),
        5 => identity::<Shares>(bytes),
        6 => identity::<Masked>(bytes),
        7 => identity::<Agree>(bytes),
        8 => identity::<Reveal>(bytes),
        9 => identity::<Sums>(bytes),
        10 => identity::<Late>(bytes),
        11 => identity::<Aborted>(bytes),
        12 => identity::<Complaint>(bytes),
        15 => identity::<Descriptor>(bytes),
        13 => evidence(bytes),
        14 => journal(bytes),
        _ => sealed_journal(bytes),
    }
}

fn identity<S: Wire + std::fmt::Debug>(bytes: &[u8]) {
    let _: Option<S> = same(bytes);
}

/// The value, written again byte for byte.
fn same<S: Wire + std::fmt::Debug>(bytes: &[u8]) -> Option<S> {
    let value: S = wire::decode(bytes).ok()?;
    assert_eq!(wire::encode(&value).as_deref(), Ok(bytes));
    assert!(!format!("{value:?}").is_empty());
    Some(value)
}

fn entry(bytes: &[u8]) {
    let known = known();
    let Some(entry) = same::<Entry>(bytes) else {
        return;
    };
    assert_eq!(entry.leaf().ok(), Some(leaf_hash(bytes)));
    fn read<S: Statement + std::fmt::Debug>(known: &Known, bytes: &[u8], entry: &Entry) {
        let Ok(signed) = Signed::<S>::parse(bytes) else {
            return;
        };
        assert_eq!(signed.peek().bytes().as_deref(), Ok(bytes));
        let believed = known.federation.book.read::<S>(bytes, entry.signer).is_ok();
        // Nobody in here signs: what is believed was said on the tape.
        assert_eq!(
            believed,
            known.entries.iter().any(|said| said == bytes),
            "{entry:?}"
        );
    }
    match entry.kind {
        Kind::Member => read::<Member>(known, bytes, &entry),
        Kind::Policy => read::<Policy>(known, bytes, &entry),
        Kind::Plan => read::<Plan>(known, bytes, &entry),
        Kind::Keys => read::<Keys>(known, bytes, &entry),
        Kind::Shares => read::<Shares>(known, bytes, &entry),
        Kind::Masked => read::<Masked>(known, bytes, &entry),
        Kind::Agree => read::<Agree>(known, bytes, &entry),
        Kind::Reveal => read::<Reveal>(known, bytes, &entry),
        Kind::Sums => read::<Sums>(known, bytes, &entry),
        Kind::Late => read::<Late>(known, bytes, &entry),
        Kind::Aborted => read::<Aborted>(known, bytes, &entry),
        Kind::Complaint => read::<Complaint>(known, bytes, &entry),
        Kind::Descriptor => read::<Descriptor>(known, bytes, &entry),
    }
}

fn policy(bytes: &[u8]) {
    if let Some(policy) = same::<Policy>(bytes) {
        let _ = policy.check();
    }
}

fn evidence(bytes: &[u8]) {
    let known = known();
    let Ok(file) = EvidenceFile::from_bytes(bytes) else {
        return;
    };
    assert_eq!(file.to_bytes().as_deref(), Ok(bytes));
    let book = &known.federation.book;
    let authority = key(Party::Authority).public();
    let judged = judge(&[file.clone(), known.file.clone()], *book.federation(), authority);
    if let Ok(proofs) = judged {
        assert_eq!(proofs, [], "honest parties are convicted");
    }
}

fn journal(bytes: &[u8]) {
    let known = known();
    let restored = Client::restore(known.federation.member(0), Head::empty(), bytes, rng(2));
    let written = known.journals.iter().any(|journal| journal == bytes);
    assert_eq!(restored.is_ok(), written, "a journal nobody wrote opens");
}

/// A journal under the right key that this client's code did not write: worse than anything outside can do.
fn sealed_journal(plain: &[u8]) {
    let known = known();
    let federation = &known.federation;
    let salt = [7; 32];
    let sealing = key(Party::Client(ClientId(0))).storage_key(&salt, &purpose(federation));
    let sealed = sealing.seal(AAD, plain.to_vec()).expect("short");
    let bytes = [MAGIC, &salt, &sealed].concat();
    let Ok(mut client) = Client::restore(federation.member(0), Head::empty(), &bytes, rng(2)) else {
        return;
    };
    client.connected();
    for message in &known.told {
        let _ = client.handle(message.clone(), Now(0));
        while client.poll_output().is_some() {}
    }
}

/// One honest life, and what was written in it.
struct Known {
    federation: Federation,
    entries: Vec<Vec<u8>>,
    file: EvidenceFile,
    journals: Vec<Vec<u8>>,
    told: Vec<ToClient>,
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let tape = Tape::record(1, 2);
        let told = tape.told();
        let federation = tape.world.federation;
        let entries: Vec<Vec<u8>> = federation
            .genesis
            .iter()
            .chain(&tape.world.disk)
            .cloned()
            .collect();
        Known {
            file: file(&federation, &entries),
            journals: tape.journals,
            federation,
            entries,
            told,
        }
    })
}

/// Everything that was signed in the first round, as a client could have kept it.
fn file(federation: &Federation, entries: &[Vec<u8>]) -> EvidenceFile {
    let of = |kind: Kind| {
        entries
            .iter()
            .filter(|bytes| wire::decode::<Entry>(bytes).is_ok_and(|entry| entry.kind == kind))
            .map(|bytes| BoundedVec::new(bytes.clone()).expect("an entry"))
            .collect::<Vec<EntryBytes>>()
    };
    let agrees = of(Kind::Agree);
    let proposals = agrees
        .iter()
        .filter_map(|entry| crate::forge::body::<Agree>(entry));
    let genesis = federation.genesis.iter().cloned();
    EvidenceFile {
        genesis: genesis
            .map(|entry| BoundedVec::new(entry).expect("an entry"))
            .collect::<Vec<EntryBytes>>()
            .bounded(),
        evidence: Evidence {
            client: ClientId(0),
            reason: BoundedVec::new(b"SplitView".to_vec()).expect("short"),
            held: Head::empty(),
            plans: of(Kind::Plan).bounded(),
            proposals: proposals.take(1).collect::<Vec<_>>().bounded(),
            entries: [of(Kind::Keys), agrees.clone()].concat().bounded(),
        },
    }
}

trait IntoBounded<T> {
    fn bounded<const MAX: usize>(self) -> BoundedVec<T, MAX>;
}

impl<T: std::fmt::Debug> IntoBounded<T> for Vec<T> {
    fn bounded<const MAX: usize>(self) -> BoundedVec<T, MAX> {
        BoundedVec::new(self).expect("few")
    }
}

fn purpose(federation: &Federation) -> [&[u8]; 3] {
    [b"client journal", &federation.book.federation().0, &[0; 4]]
}

/// Every entry and body, an evidence file, every journal, and what is inside it.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let known = known();
    let mut seeds = Vec::new();
    let mut put = |what: u8, bytes: &[u8]| seeds.push([&[what], bytes].concat());
    for bytes in &known.entries {
        put(0, bytes);
        if let Ok(entry) = wire::decode::<Entry>(bytes) {
            put(1 + entry.kind as u8, &entry.body);
        }
    }
    put(13, &known.file.to_bytes().expect("short"));
    for journal in &known.journals {
        put(14, journal);
        let (salt, sealed) = journal[MAGIC.len()..].split_first_chunk::<32>().expect("a salt");
        let sealing = key(Party::Client(ClientId(0))).storage_key(salt, &purpose(&known.federation));
        put(15, &sealing.open(AAD, sealed.to_vec()).expect("its own journal"));
    }
    seeds
}

const MAGIC: &[u8] = b"veilsum client journal 2\n";
const AAD: &[u8] = b"veilsum/v1/journal";
