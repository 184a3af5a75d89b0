//! The tree that makes proofs.

use super::{Hash, MerkleError, empty_root, leaf_hash, node_hash};

/// An append-only tree that answers for every size it has had.
///
/// Holds hashes only, 64 bytes a leaf: every complete subtree is hashed once and never changes. Roots and
/// proofs cost as many steps as the tree is high, squared.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// `levels[l][i]` covers leaves `i * 2^l` to `(i + 1) * 2^l`.
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// The empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an entry; its index.
    pub fn append(&mut self, entry: &[u8]) -> u64 {
        self.append_leaf_hash(leaf_hash(entry))
    }

    /// Appends an entry of which only the leaf hash is known; its index.
    pub fn append_leaf_hash(&mut self, leaf: Hash) -> u64 {
        let index = self.size();
        let mut hash = leaf;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let Some(row) = self.levels.get_mut(level) else {
                break;
            };
            row.push(hash);
            if row.len() % 2 == 1 {
                break;
            }
            if let [.., left, right] = row.as_slice() {
                hash = node_hash(left, right);
            }
        }
        index
    }

    /// Number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.levels.first().map_or(0, |leaves| leaves.len() as u64)
    }

    /// The hash of a leaf.
    #[must_use]
    pub fn leaf(&self, index: u64) -> Option<Hash> {
        self.node(0, index)
    }

    /// The root over all leaves.
    #[must_use]
    pub fn root(&self) -> Hash {
        self.root_at(self.size()).unwrap_or_else(|_| empty_root())
    }

    /// The root when the tree had `size` leaves.
    ///
    /// # Errors
    /// [`MerkleError::TooLarge`] if it has not got there yet.
    pub fn root_at(&self, size: u64) -> Result<Hash, MerkleError> {
        root(size, &mut self.nodes(size))
    }

    /// The proof that leaf `index` is in the tree of the first `size` leaves (RFC 9162, 2.1.3.1).
    ///
    /// # Errors
    /// [`MerkleError::TooLarge`] or [`MerkleError::NoSuchLeaf`].
    pub fn inclusion_proof(&self, index: u64, size: u64) -> Result<Vec<Hash>, MerkleError> {
        self.holds(size)?;
        prove_inclusion(index, size, &mut self.nodes(size))
    }

    /// The proof that the tree of `new` leaves extends the tree of `old` leaves (RFC 9162, 2.1.4.1).
    /// Empty for equal sizes.
    ///
    /// # Errors
    /// [`MerkleError::FromEmpty`] for `old` 0, [`MerkleError::Shrunk`] or [`MerkleError::TooLarge`].
    pub fn consistency_proof(&self, old: u64, new: u64) -> Result<Vec<Hash>, MerkleError> {
        self.holds(new)?;
        prove_consistency(old, new, &mut self.nodes(new))
    }

    /// The hash over the complete subtree of leaves `index * 2^level` to `(index + 1) * 2^level`; `None` where the tree
    /// has not all of them.
    #[must_use]
    pub fn node(&self, level: u8, index: u64) -> Option<Hash> {
        self.levels
            .get(usize::from(level))?
            .get(usize::try_from(index).ok()?)
            .copied()
    }

    fn nodes(&self, asked: u64) -> impl FnMut(u8, u64) -> Result<Hash, MerkleError> {
        let held = self.size();
        move |level, index| {
            self.node(level, index)
                .ok_or(MerkleError::TooLarge { held, asked })
        }
    }

    fn holds(&self, size: u64) -> Result<(), MerkleError> {
        if size > self.size() {
            return Err(MerkleError::TooLarge {
                held: self.size(),
                asked: size,
            });
        }
        Ok(())
    }
}

/// Where the hashes of complete subtrees come from: level, then index on that level. Only subtrees inside the size asked
/// for are fetched, so tiles of that size are enough.
pub type Nodes<'a, E> = dyn FnMut(u8, u64) -> Result<Hash, E> + 'a;

/// The root of the tree of `size` leaves.
///
/// # Errors
/// Those of `nodes`.
pub fn root<E>(size: u64, nodes: &mut Nodes<'_, E>) -> Result<Hash, E> {
    if size == 0 {
        Ok(empty_root())
    } else {
        range(0, size, nodes)
    }
}

/// The proof that leaf `index` is in the tree of `size` leaves (RFC 9162, 2.1.3.1).
///
/// # Errors
/// [`MerkleError::NoSuchLeaf`], and those of `nodes`.
pub fn prove_inclusion<E: From<MerkleError>>(
    index: u64,
    size: u64,
    nodes: &mut Nodes<'_, E>,
) -> Result<Vec<Hash>, E> {
    if index >= size {
        return Err(MerkleError::NoSuchLeaf { index, size }.into());
    }
    let (mut start, mut end, mut proof) = (0, size, Vec::new());
    while end - start > 1 {
        let middle = start + split(end - start);
        if index < middle {
            proof.push(range(middle, end, nodes)?);
            end = middle;
        } else {
            proof.push(range(start, middle, nodes)?);
            start = middle;
        }
    }
    proof.reverse();
    Ok(proof)
}

/// The proof that the tree of `new` leaves extends the tree of `old` leaves (RFC 9162, 2.1.4.1). Empty for equal sizes.
///
/// # Errors
/// [`MerkleError::FromEmpty`], [`MerkleError::Shrunk`], and those of `nodes`.
pub fn prove_consistency<E: From<MerkleError>>(
    old: u64,
    new: u64,
    nodes: &mut Nodes<'_, E>,
) -> Result<Vec<Hash>, E> {
    if old == 0 {
        return Err(MerkleError::FromEmpty.into());
    }
    if old > new {
        return Err(MerkleError::Shrunk { old, new }.into());
    }
    let (mut start, mut end, mut proof) = (0, new, Vec::new());
    // Down to the subtree that ends where the old tree ended.
    while end != old {
        let middle = start + split(end - start);
        if old <= middle {
            proof.push(range(middle, end, nodes)?);
            end = middle;
        } else {
            proof.push(range(start, middle, nodes)?);
            start = middle;
        }
    }
    // Where that subtree is the whole old tree, the verifier has its hash.
    if start != 0 {
        proof.push(range(start, end, nodes)?);
    }
    proof.reverse();
    Ok(proof)
}

/// The hash over leaves `start..end`, of which there is at least one; `start` is a multiple of the next power of two.
fn range<E>(start: u64, end: u64, nodes: &mut Nodes<'_, E>) -> Result<Hash, E> {
    // Complete subtrees from left to right, then folded from the right.
    let (mut at, mut peaks) = (start, Vec::new());
    while at < end {
        // At most 63: a u64 holds the size.
        let level = u8::try_from((end - at).ilog2()).unwrap_or(u8::MAX);
        peaks.push(nodes(level, at >> level)?);
        at += 1 << level;
    }
    Ok(peaks
        .into_iter()
        .rev()
        .reduce(|right, left| node_hash(&left, &right))
        .unwrap_or_else(empty_root))
}

/// The largest power of two below `size`, for sizes of 2 and more.
fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}
