//! Chunk trees: one digest commits to a long vector, and any 64 KiB of it can be checked alone.
//!
//! A packed vector is cut so that no entry straddles a cut: a chunk holds [`Chunking::entries_per_chunk`] entries, at
//! most 65,536 bytes. The root is the RFC 6962 tree shape over labelled leaf and node hashes; the leaf carries its
//! index and the leaf count is bound in the root, so chunks can be neither moved nor dropped.

use crate::label::{Digest, Label};
use crate::residue::Modulus;
use std::ops::Range;

/// How a vector of `entries` residues is cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunking {
    modulus: Modulus,
    entries: usize,
}

impl Chunking {
    /// The cut of a vector.
    #[must_use]
    pub fn new(modulus: Modulus, entries: usize) -> Self {
        Self { modulus, entries }
    }

    /// Entries in every chunk but the last: as many multiples of eight as fit 64 KiB, so chunks end on whole bytes.
    #[must_use]
    pub fn entries_per_chunk(&self) -> usize {
        CHUNK_BYTES / usize::from(self.modulus.bits()) * 8
    }

    /// The number of chunks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.div_ceil(self.entries_per_chunk())
    }

    /// The entries chunk `index` holds; `None` beyond the last.
    #[must_use]
    pub fn range(&self, index: usize) -> Option<Range<usize>> {
        let start = index.checked_mul(self.entries_per_chunk())?;
        (start < self.entries).then(|| start..self.entries.min(start + self.entries_per_chunk()))
    }

    /// The bytes of chunk `index`; `None` beyond the last.
    #[must_use]
    pub fn bytes(&self, index: usize) -> Option<usize> {
        self.modulus.packed_len(self.range(index)?.len())
    }

    /// The bytes of the whole vector, all chunks together.
    #[must_use]
    pub fn total_bytes(&self) -> Option<usize> {
        self.modulus.packed_len(self.entries)
    }

    /// The modulus of the entries.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The root of a vector that is already in memory: packs and hashes chunk by chunk.
    #[must_use]
    pub fn root_of(&self, words: &[u32]) -> Digest {
        let leaves: Vec<Digest> = words
            .chunks(self.entries_per_chunk())
            .enumerate()
            .map(|(index, chunk)| leaf(index, &crate::residue::pack(self.modulus, chunk)))
            .collect();
        root(&leaves)
    }
}

/// The digest of chunk number `index`.
#[must_use]
pub fn leaf(index: usize, bytes: &[u8]) -> Digest {
    CHUNK_LEAF.hash(&[&(index as u64).to_le_bytes(), bytes])
}

/// The root over all leaves in order.
#[must_use]
pub fn root(leaves: &[Digest]) -> Digest {
    CHUNK_ROOT.hash(&[&(leaves.len() as u64).to_le_bytes(), &subtree(leaves).0])
}

fn subtree(leaves: &[Digest]) -> Digest {
    match leaves {
        [] => Digest([0; 32]),
        [one] => *one,
        many => {
            // RFC 6962 2.1: the left side is the largest power of two below the count.
            let split = 1 << (many.len() - 1).ilog2();
            let (left, right) = many.split_at(split);
            CHUNK_NODE.hash(&[&subtree(left).0, &subtree(right).0])
        }
    }
}

/// The largest chunk, in bytes.
pub const CHUNK_BYTES: usize = 65_536;

const CHUNK_LEAF: Label = Label::new("chunk-leaf");
const CHUNK_NODE: Label = Label::new("chunk-node");
const CHUNK_ROOT: Label = Label::new("chunk-root");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_vector_once_and_fit() {
        for bits in 1..=32 {
            let modulus = Modulus::new(bits).unwrap();
            for entries in [0, 1, 7, 16_384, 16_385, 200_001] {
                let chunking = Chunking::new(modulus, entries);
                let mut next = 0;
                let mut bytes = 0;
                for index in 0..chunking.count() {
                    let range = chunking.range(index).unwrap();
                    assert_eq!(range.start, next);
                    assert!(!range.is_empty());
                    next = range.end;
                    assert!(chunking.bytes(index).unwrap() <= CHUNK_BYTES);
                    bytes += chunking.bytes(index).unwrap();
                }
                assert_eq!(next, entries);
                assert_eq!(chunking.range(chunking.count()), None);
                assert_eq!(Some(bytes), chunking.total_bytes());
            }
        }
    }

    #[test]
    fn roots_notice_order_count_and_content() {
        let a = leaf(0, b"a");
        let b = leaf(1, b"b");
        assert_ne!(root(&[a, b]), root(&[b, a]));
        assert_ne!(root(&[a]), root(&[a, a]));
        assert_ne!(root(&[]), root(&[Digest([0; 32])]));
        assert_ne!(leaf(0, b"a"), leaf(1, b"a"));
        // A node's two children hashed as one leaf must not give the node.
        assert_ne!(root(&[a, b]), root(&[CHUNK_NODE.hash(&[&a.0, &b.0])]));
    }
}
