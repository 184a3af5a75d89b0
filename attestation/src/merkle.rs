//! The log's Merkle tree: RFC 6962 hashing, RFC 9162 proofs.
//!
//! A leaf is `H(00 || entry)`, a node `H(01 || left || right)`, the empty tree `H("")`; a tree of `n` leaves
//! is split at the largest power of two below `n`. [`Tree`] makes proofs, the free functions check them and
//! need nothing but what is on the wire: any number and any list of hashes is safe to pass.

mod proof;
mod tree;

pub use proof::{verify_consistency, verify_inclusion};
pub use tree::{Nodes, Tree, prove_consistency, prove_inclusion, root};

use sha2::{Digest, Sha256};

/// A SHA-256 value: of a leaf, a node or a whole tree.
pub type Hash = [u8; 32];

/// The hash of a log entry.
#[must_use]
pub fn leaf_hash(entry: &[u8]) -> Hash {
    Sha256::new()
        .chain_update([0])
        .chain_update(entry)
        .finalize()
        .into()
}

/// The hash over two subtrees.
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new()
        .chain_update([1])
        .chain_update(left)
        .chain_update(right)
        .finalize()
        .into()
}

/// The root of the tree without leaves.
#[must_use]
pub fn empty_root() -> Hash {
    Sha256::digest([]).into()
}

/// What is wrong with a proof, or with a request for one.
///
/// The first group blames the caller's own numbers, the second whoever sent the proof.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MerkleError {
    /// A proof about more leaves than this tree has.
    #[error("the tree has {held} leaves, {asked} were asked for: ask for a size it has reached")]
    TooLarge {
        /// Leaves of the tree.
        held: u64,
        /// The size asked for.
        asked: u64,
    },
    /// A leaf outside the tree it shall be in.
    #[error("leaf {index} is not in a tree of {size} leaves: indices start at 0")]
    NoSuchLeaf {
        /// The index.
        index: u64,
        /// The size of the tree.
        size: u64,
    },
    /// Every tree extends the empty one, so such a proof would say nothing.
    #[error("consistency with the empty tree proves nothing: start from the first head that has a leaf")]
    FromEmpty,
    /// A log does not shrink.
    #[error(
        "a log of {new} leaves cannot extend one of {old}: the log was rolled back or the heads are swapped"
    )]
    Shrunk {
        /// The earlier size.
        old: u64,
        /// The later size.
        new: u64,
    },
    /// The number of hashes does not fit the sizes.
    #[error("a proof of {expected} hashes was expected, {got} came: the proof is for other sizes or was cut")]
    ProofLength {
        /// Hashes that the sizes call for.
        expected: usize,
        /// Hashes in the proof.
        got: usize,
    },
    /// The proof does not lead to the (later) root.
    #[error(
        "the proof does not lead to the root: the leaf is not in the log, or log and root are not the same"
    )]
    RootMismatch,
    /// The proof does not lead to the earlier root, or one size has two roots.
    #[error("the log does not extend the earlier root: keep both heads, they are evidence of a fork")]
    OldRootMismatch,
}
