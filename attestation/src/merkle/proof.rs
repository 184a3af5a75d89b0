//! Checking proofs.

use super::{Hash, MerkleError, node_hash};

/// Checks that `leaf` is number `index` in the tree of `size` leaves with this root (RFC 9162, 2.1.3.2).
///
/// # Errors
/// [`MerkleError::NoSuchLeaf`], [`MerkleError::ProofLength`] or [`MerkleError::RootMismatch`].
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    size: u64,
    proof: &[Hash],
    root: &Hash,
) -> Result<(), MerkleError> {
    let Some(last) = size.checked_sub(1).filter(|last| index <= *last) else {
        return Err(MerkleError::NoSuchLeaf { index, size });
    };
    expect_length(inclusion_length(index, last), proof)?;
    let mut path = Path { index, last };
    let hash = proof.iter().fold(*leaf, |hash, sibling| {
        if path.step() {
            node_hash(sibling, &hash)
        } else {
            node_hash(&hash, sibling)
        }
    });
    if hash == *root {
        Ok(())
    } else {
        Err(MerkleError::RootMismatch)
    }
}

/// Checks that the tree of `new` leaves extends the tree of `old` leaves (RFC 9162, 2.1.4.2).
///
/// From the empty tree this is always an error, as it would prove nothing. Equal sizes take an empty proof
/// and equal roots.
///
/// # Errors
/// [`MerkleError::FromEmpty`], [`MerkleError::Shrunk`], [`MerkleError::ProofLength`],
/// [`MerkleError::OldRootMismatch`] or [`MerkleError::RootMismatch`].
pub fn verify_consistency(
    old: u64,
    new: u64,
    proof: &[Hash],
    old_root: &Hash,
    new_root: &Hash,
) -> Result<(), MerkleError> {
    if old == 0 {
        return Err(MerkleError::FromEmpty);
    }
    if old > new {
        return Err(MerkleError::Shrunk { old, new });
    }
    if old == new {
        expect_length(0, proof)?;
        return if old_root == new_root {
            Ok(())
        } else {
            Err(MerkleError::OldRootMismatch)
        };
    }
    // The last node of the old tree that the new one still has, and its level.
    let level = old.trailing_zeros();
    let (index, last) = ((old - 1) >> level, (new - 1) >> level);
    // Where it is the whole old tree, its hash is the old root and not sent again.
    let whole = old.is_power_of_two();
    expect_length(inclusion_length(index, last) + usize::from(!whole), proof)?;
    let (seed, rest) = match proof {
        [seed, rest @ ..] if !whole => (seed, rest),
        rest => (old_root, rest),
    };
    let mut path = Path { index, last };
    let (mut old_hash, mut new_hash) = (*seed, *seed);
    for sibling in rest {
        if path.step() {
            old_hash = node_hash(sibling, &old_hash);
            new_hash = node_hash(sibling, &new_hash);
        } else {
            new_hash = node_hash(&new_hash, sibling);
        }
    }
    if old_hash != *old_root {
        return Err(MerkleError::OldRootMismatch);
    }
    if new_hash == *new_root {
        Ok(())
    } else {
        Err(MerkleError::RootMismatch)
    }
}

/// The way from a node to the root: its number on its level, and the last number there.
struct Path {
    index: u64,
    last: u64,
}

impl Path {
    /// Up one step of the proof; whether the hash that the proof gives there stands on the left.
    fn step(&mut self) -> bool {
        let left = self.index & 1 == 1 || self.index == self.last;
        if left {
            // The last node of a level has no sibling while its number is even: it moves up unchanged.
            let alone = self.index.trailing_zeros();
            self.index = self.index.checked_shr(alone).unwrap_or(0);
            self.last = self.last.checked_shr(alone).unwrap_or(0);
        }
        self.index >>= 1;
        self.last >>= 1;
        left
    }
}

/// Hashes on the way from node `index` to the root, where `last` is the last number of its level: one for
/// each level up to where the two ways meet, from there one for each node on the left.
fn inclusion_length(index: u64, last: u64) -> usize {
    let inner = u64::BITS - (index ^ last).leading_zeros();
    let border = index.checked_shr(inner).unwrap_or(0).count_ones();
    (inner + border) as usize
}

fn expect_length(expected: usize, proof: &[Hash]) -> Result<(), MerkleError> {
    if proof.len() == expected {
        return Ok(());
    }
    Err(MerkleError::ProofLength {
        expected,
        got: proof.len(),
    })
}
