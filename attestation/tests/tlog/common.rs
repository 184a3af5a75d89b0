//! Signers with fixed seeds, and the log of the published test data.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use veilsum_attestation::checkpoint::Checkpoint;
use veilsum_attestation::merkle::Tree;
use veilsum_attestation::note::{Note, NoteKey};
use veilsum_attestation::tlog::CosignerKey;

/// Strict Ed25519 by ring.
pub(crate) fn strict(public: &[u8; 32], text: &[u8], signature: &[u8; 64]) -> bool {
    UnparsedPublicKey::new(&ED25519, public)
        .verify(text, signature)
        .is_ok()
}

/// A key pair from a seed.
pub(crate) struct Signer(Ed25519KeyPair);

impl Signer {
    pub(crate) fn new(seed: u8) -> Self {
        Self::from_seed(&[seed; 32])
    }

    pub(crate) fn from_seed(seed: &[u8; 32]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed).unwrap())
    }

    /// From the form Go's note package writes.
    pub(crate) fn from_skey(skey: &str) -> Self {
        let bytes = STANDARD.decode(skey.rsplit('+').next().unwrap()).unwrap();
        Self::from_seed(bytes[1..].try_into().unwrap())
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        self.0.public_key().as_ref().try_into().unwrap()
    }

    pub(crate) fn sign(&self, text: &[u8]) -> [u8; 64] {
        self.0.sign(text).as_ref().try_into().unwrap()
    }

    pub(crate) fn log_key(&self, origin: &str) -> NoteKey {
        NoteKey::new(origin, self.public()).unwrap()
    }

    pub(crate) fn cosigner(&self, name: &str) -> CosignerKey {
        CosignerKey::new(name, self.public()).unwrap()
    }

    /// A signed head of a log.
    pub(crate) fn head(&self, origin: &str, size: u64, root: [u8; 32]) -> Note {
        let text = Checkpoint::new(origin, size, root).unwrap().to_string();
        let mut note = Note::new(text).unwrap();
        note.sign(&self.log_key(origin), &|text| self.sign(text)).unwrap();
        note
    }

    pub(crate) fn head_of(&self, origin: &str, tree: &Tree) -> Note {
        self.head(origin, tree.size(), tree.root())
    }
}

/// A tree of `size` entries, entry i being i as eight big-endian bytes under a prefix.
pub(crate) fn tree(size: u64, prefix: &str) -> Tree {
    let mut tree = Tree::new();
    for index in 0..size {
        tree.append(&[prefix.as_bytes(), &index.to_be_bytes()].concat());
    }
    tree
}

pub(crate) const TESSERA_KEY: &str =
    "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx";
pub(crate) const TESSERA_ENTRIES: [&str; 15] = [
    "one", "two", "three", "four", "five", "six", "seven", "eit", "nain", "ten", "ileven", "twelf",
    "threeten", "fourten", "fivten",
];

/// The published heads by size.
pub(crate) fn tessera_heads() -> Vec<Note> {
    include_str!("../vectors/tlog/tessera.txt")
        .lines()
        .skip(1)
        .map(|line| {
            let [size, root, signature] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let name = "example.com/log/testdata";
            let note = format!("{name}\n{size}\n{root}\n\n\u{2014} {name} {signature}\n");
            Note::parse(note.as_bytes()).unwrap()
        })
        .collect()
}
