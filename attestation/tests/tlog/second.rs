//! Proofs both ways against `ct-merkle`, a second implementation of RFC 6962.

use ct_merkle::mem_backed_tree::MemoryBackedTree;
use ct_merkle::{ConsistencyProof, InclusionProof, RootHash};
use sha2::Sha256;
use veilsum_attestation::merkle::{Hash, Tree, leaf_hash, verify_consistency, verify_inclusion};

fn chunks(bytes: &[u8]) -> Vec<Hash> {
    bytes.as_chunks::<32>().0.to_vec()
}

#[test]
fn each_makes_what_the_other_takes() {
    let (mut ours, mut theirs) = (Tree::new(), MemoryBackedTree::<Sha256, Vec<u8>>::new());
    let (mut inclusions, mut consistencies) = (0, 0);
    let mut their_roots: Vec<RootHash<Sha256>> = vec![theirs.root()];
    for size in 1..=48u64 {
        let entry = size.to_le_bytes().to_vec();
        ours.append(&entry);
        theirs.push(entry);
        let root = theirs.root();
        assert_eq!(root.as_bytes().as_slice(), ours.root());
        for index in 0..size {
            let place = usize::try_from(index).unwrap();
            let entry = (index + 1).to_le_bytes().to_vec();
            let mine = ours.inclusion_proof(index, size).unwrap();
            let other = theirs.prove_inclusion(place);
            assert_eq!(chunks(other.as_bytes()), mine);
            let proof = InclusionProof::<Sha256>::try_from_bytes(mine.concat()).unwrap();
            root.verify_inclusion(&entry, index, &proof).unwrap();
            assert!(root.verify_inclusion(&b"other".to_vec(), index, &proof).is_err());
            verify_inclusion(
                &leaf_hash(&entry),
                index,
                size,
                &chunks(other.as_bytes()),
                &ours.root(),
            )
            .unwrap();
            inclusions += 1;
        }
        for old in 1..size {
            let mine = ours.consistency_proof(old, size).unwrap();
            let other = theirs.prove_consistency(usize::try_from(size - old).unwrap());
            assert_eq!(chunks(other.as_bytes()), mine);
            let proof = ConsistencyProof::<Sha256>::try_from_bytes(mine.concat()).unwrap();
            let old_root = &their_roots[usize::try_from(old).unwrap()];
            root.verify_consistency(old_root, &proof).unwrap();
            let before = ours.root_at(old).unwrap();
            verify_consistency(old, size, &chunks(other.as_bytes()), &before, &ours.root()).unwrap();
            consistencies += 1;
        }
        their_roots.push(root);
    }
    assert_eq!((inclusions, consistencies), (1_176, 1_128));
}
