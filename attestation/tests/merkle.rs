//! Merkle proofs against the recursive definitions of RFC 9162, published vectors, and mutations.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "test helpers index what they built"
)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use veilsum_attestation::merkle::{
    Hash, MerkleError, Tree, empty_root, leaf_hash, node_hash, verify_consistency, verify_inclusion,
};

#[test]
fn hashes_are_those_of_rfc_6962() {
    // The RFC has no vectors: these are the reference trees of Certificate Transparency.
    assert_eq!(
        hex::encode(empty_root()),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    assert_eq!(
        hex::encode(leaf_hash(b"")),
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    );
    assert_eq!(
        hex::encode(node_hash(&leaf_hash(b""), &leaf_hash(&[0]))),
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
    );
    // Eight entries, roots at every size.
    let entries = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];
    let roots = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    let mut tree = Tree::new();
    for (entry, root) in entries.iter().zip(roots) {
        tree.append(&hex::decode(entry).unwrap());
        assert_eq!(hex::encode(tree.root()), root);
    }
}

#[test]
fn every_proof_up_to_size_66_agrees_with_the_definition() {
    let leaves: Vec<Hash> = (0..SIZE as u64)
        .map(|index| leaf_hash(&index.to_be_bytes()))
        .collect();
    let mut tree = Tree::new();
    let (mut inclusions, mut consistencies) = (0, 0);
    for size in 0..=SIZE {
        let root = mth(&leaves[..size]);
        assert_eq!((tree.size(), tree.root()), (size as u64, root));
        for index in 0..size {
            let proof = tree.inclusion_proof(index as u64, size as u64).unwrap();
            assert_eq!(proof, path(index, &leaves[..size]));
            assert_eq!(
                verify_inclusion(&leaves[index], index as u64, size as u64, &proof, &root),
                Ok(())
            );
            inclusions += 1;
        }
        for old in 1..=size {
            let proof = tree.consistency_proof(old as u64, size as u64).unwrap();
            let expected = if old == size {
                Vec::new()
            } else {
                subproof(old, &leaves[..size], true)
            };
            assert_eq!(proof, expected, "{old} to {size}");
            let old_root = mth(&leaves[..old]);
            assert_eq!(
                verify_consistency(old as u64, size as u64, &proof, &old_root, &root),
                Ok(())
            );
            consistencies += 1;
        }
        if let Some(leaf) = leaves.get(size) {
            assert_eq!(tree.append_leaf_hash(*leaf), size as u64);
        }
    }
    // The finished tree answers for every size it has had.
    for size in 0..=SIZE {
        assert_eq!(tree.root_at(size as u64), Ok(mth(&leaves[..size])));
    }
    assert_eq!((inclusions, consistencies), (2_211, 2_211));
    assert_eq!((tree.leaf(65), tree.leaf(66)), (Some(leaves[65]), None));
}

#[test]
fn no_changed_proof_passes() {
    let leaves: Vec<Hash> = (0..24_u64).map(|index| leaf_hash(&index.to_be_bytes())).collect();
    let mut tree = Tree::new();
    for leaf in &leaves {
        tree.append_leaf_hash(*leaf);
    }
    let mut refused = 0;
    for size in 1..=24_u64 {
        let root = tree.root_at(size).unwrap();
        for index in 0..size {
            let leaf = leaves[usize::try_from(index).unwrap()];
            let proof = tree.inclusion_proof(index, size).unwrap();
            for changed in changes(&proof) {
                assert!(verify_inclusion(&leaf, index, size, &changed, &root).is_err());
                refused += 1;
            }
            for (wrong_index, wrong_size) in
                [(index ^ 1, size), (index + 1, size), (index, index), (size, size)]
            {
                assert!(verify_inclusion(&leaf, wrong_index, wrong_size, &proof, &root).is_err());
            }
            assert!(verify_inclusion(&flip(leaf), index, size, &proof, &root).is_err());
            assert_eq!(
                verify_inclusion(&leaf, index, size, &proof, &flip(root)),
                Err(MerkleError::RootMismatch)
            );
        }
        for old in 1..=size {
            let old_root = tree.root_at(old).unwrap();
            let proof = tree.consistency_proof(old, size).unwrap();
            for changed in changes(&proof) {
                assert!(verify_consistency(old, size, &changed, &old_root, &root).is_err());
                refused += 1;
            }
            assert!(verify_consistency(old, size, &proof, &flip(old_root), &root).is_err());
            assert!(verify_consistency(old, size, &proof, &old_root, &flip(root)).is_err());
            if old != size {
                assert!(verify_consistency(old, size, &proof, &root, &old_root).is_err());
                assert_eq!(
                    verify_consistency(size, old, &proof, &root, &old_root),
                    Err(MerkleError::Shrunk { old: size, new: old })
                );
            }
            assert_eq!(
                verify_consistency(0, size, &proof, &empty_root(), &root),
                Err(MerkleError::FromEmpty)
            );
        }
    }
    assert!(refused > 5_000, "{refused}");
}

#[test]
fn hostile_numbers_are_refused_by_name() {
    let hash = [7; 32];
    let long = vec![hash; 200];
    let sizes = [0, 1, 2, 3, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX];
    for size in sizes {
        for index in sizes {
            for proof in [
                &long[..0],
                &long[..1],
                &long[..63],
                &long[..64],
                &long[..65],
                &long[..],
            ] {
                assert!(verify_inclusion(&hash, index, size, proof, &[0; 32]).is_err());
                assert!(verify_consistency(index, size, proof, &[0; 32], &[1; 32]).is_err());
            }
        }
    }
    assert_eq!(
        verify_inclusion(&hash, 5, 5, &[], &hash),
        Err(MerkleError::NoSuchLeaf { index: 5, size: 5 })
    );
    assert_eq!(
        verify_inclusion(&hash, 0, u64::MAX, &[], &hash),
        Err(MerkleError::ProofLength { expected: 64, got: 0 })
    );
    let mut tree = Tree::new();
    tree.append(b"one");
    assert_eq!(tree.root_at(2), Err(MerkleError::TooLarge { held: 1, asked: 2 }));
    assert_eq!(
        tree.root_at(u64::MAX),
        Err(MerkleError::TooLarge {
            held: 1,
            asked: u64::MAX
        })
    );
    assert_eq!(
        tree.inclusion_proof(1, 1),
        Err(MerkleError::NoSuchLeaf { index: 1, size: 1 })
    );
    assert_eq!(
        tree.inclusion_proof(0, 2),
        Err(MerkleError::TooLarge { held: 1, asked: 2 })
    );
    assert_eq!(tree.consistency_proof(0, 1), Err(MerkleError::FromEmpty));
    assert_eq!(
        tree.consistency_proof(2, 1),
        Err(MerkleError::Shrunk { old: 2, new: 1 })
    );
    assert_eq!(
        tree.consistency_proof(1, 2),
        Err(MerkleError::TooLarge { held: 1, asked: 2 })
    );
    assert_eq!(
        verify_consistency(4, 4, &[], &hash, &[8; 32]),
        Err(MerkleError::OldRootMismatch)
    );
}

#[test]
fn published_inclusion_vectors() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("vectors/merkle/inclusion.json")).unwrap();
    for vector in &vectors {
        let (leaf, root) = (hash(&vector["leafHash"]), hash(&vector["root"]));
        let (index, size) = (number(&vector["leafIdx"]), number(&vector["treeSize"]));
        let passes = leaf
            .zip(root)
            .zip(proof(&vector["proof"]))
            .is_some_and(|((leaf, root), proof)| verify_inclusion(&leaf, index, size, &proof, &root).is_ok());
        assert_eq!(passes, vector["wantErr"] == false, "{}", vector["file"]);
    }
    assert_eq!(vectors.len(), 98);
}

#[test]
fn published_consistency_vectors() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("vectors/merkle/consistency.json")).unwrap();
    let mut from_empty = 0;
    for vector in &vectors {
        let (old, new) = (number(&vector["size1"]), number(&vector["size2"]));
        let roots = hash(&vector["root1"]).zip(hash(&vector["root2"]));
        let passes = roots
            .zip(proof(&vector["proof"]))
            .is_some_and(|((old_root, new_root), proof)| {
                verify_consistency(old, new, &proof, &old_root, &new_root).is_ok()
            });
        // See the README of the vectors: what starts from nothing is refused.
        from_empty += usize::from(old == 0);
        assert_eq!(
            passes,
            vector["wantErr"] == false && old != 0,
            "{}",
            vector["file"]
        );
    }
    assert_eq!((vectors.len(), from_empty), (97, 8));
}

/// RFC 9162, 2.1.1.
fn mth(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => empty_root(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(middle(leaves.len()));
            node_hash(&mth(left), &mth(right))
        }
    }
}

/// RFC 9162, 2.1.3.1.
fn path(index: usize, leaves: &[Hash]) -> Vec<Hash> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let k = middle(leaves.len());
    let (left, right) = leaves.split_at(k);
    let (mut inner, sibling) = if index < k {
        (path(index, left), mth(right))
    } else {
        (path(index - k, right), mth(left))
    };
    inner.push(sibling);
    inner
}

/// RFC 9162, 2.1.4.1.
fn subproof(old: usize, leaves: &[Hash], whole: bool) -> Vec<Hash> {
    if old == leaves.len() {
        return if whole { Vec::new() } else { vec![mth(leaves)] };
    }
    let k = middle(leaves.len());
    let (left, right) = leaves.split_at(k);
    let (mut inner, sibling) = if old <= k {
        (subproof(old, left, whole), mth(right))
    } else {
        (subproof(old - k, right, false), mth(left))
    };
    inner.push(sibling);
    inner
}

/// The largest power of two below.
fn middle(size: usize) -> usize {
    let mut k = 1;
    while k * 2 < size {
        k *= 2;
    }
    k
}

/// Every hash flipped, dropped, doubled or swapped with the next, and one too many at either end.
fn changes(proof: &[Hash]) -> Vec<Vec<Hash>> {
    let mut changed = Vec::new();
    let mut change = |edit: &dyn Fn(&mut Vec<Hash>)| {
        let mut copy = proof.to_vec();
        edit(&mut copy);
        if copy != proof {
            changed.push(copy);
        }
    };
    for at in 0..proof.len() {
        change(&|proof| proof[at] = flip(proof[at]));
        change(&|proof| {
            proof.remove(at);
        });
        change(&|proof| proof.insert(at, proof[at]));
        change(&|proof| {
            let next = (at + 1) % proof.len();
            proof.swap(at, next);
        });
    }
    change(&|proof| proof.push([0; 32]));
    change(&|proof| proof.insert(0, [0; 32]));
    changed
}

fn flip(mut hash: Hash) -> Hash {
    hash[17] ^= 4;
    hash
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// 32 bytes, for which some vectors have the words "don't care" and a digit; `None` where that is the mistake.
fn hash(value: &Value) -> Option<Hash> {
    let mut bytes = STANDARD.decode(value.as_str()?).unwrap();
    if bytes.starts_with(b"don't care") {
        bytes.resize(32, 0);
    }
    bytes.try_into().ok()
}

fn proof(value: &Value) -> Option<Vec<Hash>> {
    value
        .as_array()
        .map_or(Some(Vec::new()), |hashes| hashes.iter().map(hash).collect())
}

const SIZE: usize = 66;
