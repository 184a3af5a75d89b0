//! Notes, checkpoints, log files and transport frames.

use crate::script::Script;
use crate::world::identity;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use veilsum_attestation::checkpoint::Checkpoint;
use veilsum_attestation::note::{Note, NoteKey};
use veilsum_attestation::tlog::{
    AddCheckpoint, CosignerKey, Fork, LogProof, Tile, TileKind, TrustPolicy, join_entries, split_entries,
};
use veilsum_crypto::{PublicIdentity, Signature};
use veilsum_transport::{Frame, FrameDecoder, Lane};

/// What to read the rest as, then the bytes.
///
/// # Panics
/// When a rule is broken.
pub fn run(data: &[u8]) {
    let Some((what, bytes)) = data.split_first() else {
        return;
    };
    let text = std::str::from_utf8(bytes).ok();
    match (what % 12, text) {
        (0, _) => note(bytes),
        (1, Some(text)) => exactly::<Checkpoint>(text),
        (2, Some(text)) => again::<NoteKey>(text),
        (3, Some(text)) => again::<CosignerKey>(text),
        (4, _) => policy(bytes),
        (5, Some(text)) => again::<LogProof>(text),
        (6, Some(text)) => again::<Fork>(text),
        (7, Some(text)) => exactly::<Tile>(text),
        (8, _) => {
            if let Ok(request) = AddCheckpoint::parse(bytes) {
                let written = request.to_string();
                assert!(AddCheckpoint::parse(written.as_bytes()).is_ok());
            }
        }
        (9, _) => {
            for width in [1, 2, 256] {
                let tile = Tile::new(TileKind::Entries, 0, width).expect("a width");
                if let Ok(entries) = split_entries(tile, bytes) {
                    assert_eq!(join_entries(entries.iter().copied()).as_deref().ok(), Some(bytes));
                }
            }
        }
        _ => frames(bytes),
    }
}

/// There is one spelling.
fn exactly<T: FromStr + Display>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string(), text);
    }
}

/// What is written is read as the same.
fn again<T: FromStr + Display + PartialEq + Debug>(text: &str)
where
    T::Err: Debug,
{
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string().parse::<T>().expect("written here"), value);
    }
}

fn note(bytes: &[u8]) {
    let Ok(note) = Note::parse(bytes) else {
        return;
    };
    let written = note.to_string();
    assert_eq!(Note::parse(written.as_bytes()).expect("written here"), note);
    let check = |public: &[u8; 32], text: &[u8], signature: &[u8; 64]| {
        PublicIdentity(*public).verifies_raw(text, &Signature(*signature))
    };
    if note.verify(&[server_key()], &check).is_ok() {
        assert!(
            texts().contains(&note.text().to_owned()),
            "nobody signed {:?}",
            note.text()
        );
    }
}

fn policy(bytes: &[u8]) {
    if let Ok(policy) = TrustPolicy::parse(bytes) {
        let written = policy.to_string();
        let read = TrustPolicy::parse(written.as_bytes()).expect("written here");
        assert_eq!(read.to_string(), written);
    }
}

/// The first bytes say the lane, the cap and where the stream is cut.
fn frames(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let lane = Lane::BOTH[script.below(2)];
    let max = [0, 10, 300, 70_000, u32::MAX][script.below(5)];
    let step = script.below(40) + 1;
    let stream = bytes.get(3..).unwrap_or_default();
    let mut decoder = FrameDecoder::new(lane, max);
    let mut written = Vec::new();
    for piece in stream.chunks(step) {
        let mut rest = piece;
        while !rest.is_empty() {
            match decoder.feed(&mut rest) {
                Ok(Some(frame)) => {
                    let Frame { body, .. } = &frame;
                    written.extend_from_slice(&frame.header(max).expect("it was within the cap"));
                    written.extend_from_slice(body);
                }
                Ok(None) => {}
                Err(_) => return,
            }
            assert!(decoder.held() <= stream.len() + veilsum_transport::frame::READ_STEP);
        }
    }
    assert!(stream.starts_with(&written));
    assert_eq!(decoder.end().is_ok(), stream.len() == written.len());
}

fn server_key() -> NoteKey {
    NoteKey::new("log.example", identity(2, 0).public().0).expect("a name")
}

fn texts() -> Vec<String> {
    [0, 7]
        .map(|size| {
            Checkpoint::new("log.example", size, [3; 32])
                .expect("a name")
                .to_string()
        })
        .to_vec()
}

fn signed(text: &str) -> Note {
    let mut note = Note::new(text).expect("text");
    note.sign(&server_key(), &|text| identity(2, 0).sign_raw(text).0)
        .expect("room");
    note
}

/// One of each.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut put = |what: u8, bytes: &[u8]| seeds.push([&[what], bytes].concat());
    for text in texts() {
        put(0, signed(&text).to_string().as_bytes());
        put(1, text.as_bytes());
    }
    let note = signed(&texts()[1]);
    let witness = CosignerKey::new("witness.example", identity(3, 0).public().0).expect("a name");
    put(2, server_key().to_string().as_bytes());
    put(3, witness.to_string().as_bytes());
    put(
        4,
        format!(
            "log {} https://log.example/\nwitness w {witness} https://w.example/\ngroup g 1 w\nquorum g\n",
            server_key()
        )
        .as_bytes(),
    );
    let proof = LogProof::new(3, vec![[1; 32]; 3], note.clone(), Some(b"extra".to_vec())).expect("short");
    put(5, proof.to_string().as_bytes());
    let other = signed(
        &Checkpoint::new("log.example", 7, [4; 32])
            .expect("a name")
            .to_string(),
    );
    put(6, &fork(&note, &other));
    for tile in ["tile/0/x001/x234/067.p/112", "tile/entries/000", "tile/5/063.p/1"] {
        put(7, tile.as_bytes());
    }
    let request = AddCheckpoint::new(3, vec![[1; 32]; 3], note).expect("short");
    put(8, request.to_string().as_bytes());
    put(9, &[0, 3, 1, 2, 3, 0, 0, 0, 1, 9]);
    put(10, &[0, 2, 3, 3, 0, 0, 0, 7, 1, 2, 1, 0, 0, 0, 9]);
    put(10, &[&[1, 3, 9, 200, 0, 0, 0, 7], [5; 199].as_slice()].concat());
    seeds
}

fn fork(one: &Note, other: &Note) -> Vec<u8> {
    let mut text = format!("veilsum-fork/1\nlog {}\n", server_key());
    for note in [one, other] {
        let note = note.to_string();
        text.push_str(&format!("note {}\n{note}", note.len()));
    }
    text.into_bytes()
}
