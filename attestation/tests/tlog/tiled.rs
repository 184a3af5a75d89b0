//! Tiles and bundles: the worked example of the text, the output of `tlog_tiles`, and a published log.

use super::common::{TESSERA_ENTRIES, TESSERA_KEY, strict, tessera_heads};
use proptest::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use veilsum_attestation::checkpoint::Checkpoint;
use veilsum_attestation::merkle::{Hash, Tree, leaf_hash, verify_consistency, verify_inclusion};
use veilsum_attestation::note::NoteKey;
use veilsum_attestation::tlog::{
    TILE_WIDTH, Tile, TileError, TileKind, TileTree, join_entries, split_entries, tiles,
};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/tlog/tiles.json")).unwrap()
}

fn hash_of(hashes: &[Hash]) -> String {
    hex::encode(Sha256::digest(hashes.concat()))
}

/// The tree of 70,000 entries of the vectors.
fn large() -> Tree {
    let mut tree = Tree::new();
    for index in 0..70_000u64 {
        tree.append(&index.to_be_bytes());
    }
    tree
}

#[test]
fn the_worked_example_of_the_text() {
    let list = tiles(0, 70_000);
    let of = |kind| list.iter().filter(move |tile| tile.kind() == kind);
    let shape = |kind| {
        let full = of(kind).filter(|tile| tile.is_full()).count();
        let partial: Vec<u16> = of(kind).filter(|tile| !tile.is_full()).map(Tile::width).collect();
        (full, partial)
    };
    assert_eq!(shape(TileKind::Hashes(0)), (273, vec![112]));
    assert_eq!(shape(TileKind::Entries), (273, vec![112]));
    assert_eq!(shape(TileKind::Hashes(1)), (1, vec![17]));
    assert_eq!(shape(TileKind::Hashes(2)), (0, vec![1]));
    assert_eq!(list.len(), 274 * 2 + 2 + 1);
    // A tree of size 256: one full tile of level 0 and a partial one of level 1.
    let paths: Vec<String> = tiles(0, 256).iter().map(Tile::to_string).collect();
    assert_eq!(paths, ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]);
    let tile = Tile::new(TileKind::Hashes(0), 1_234_067, TILE_WIDTH).unwrap();
    assert_eq!(tile.to_string(), "tile/0/x001/x234/067");
    assert!(tiles(0, 0).is_empty() && tiles(7, 7).is_empty());
}

#[test]
fn names_and_contents_are_those_of_tlog_tiles() {
    let (vectors, tree) = (vectors(), large());
    let rows = |name: &str| vectors[name].as_array().unwrap().clone();
    for row in rows("roots") {
        let root = tree.root_at(row[0].as_u64().unwrap()).unwrap();
        assert_eq!(hex::encode(root), row[1].as_str().unwrap());
    }
    for row in rows("new_tiles") {
        let mut paths: Vec<String> = tiles(row[0].as_u64().unwrap(), row[1].as_u64().unwrap())
            .iter()
            .filter(|tile| tile.kind() != TileKind::Entries)
            .map(|tile| format!("{tile}\n"))
            .collect();
        paths.sort();
        assert_eq!(paths.len() as u64, row[2].as_u64().unwrap(), "{row}");
        assert_eq!(
            hex::encode(Sha256::digest(paths.concat())),
            row[3].as_str().unwrap()
        );
    }
    for row in rows("tiles") {
        let tile: Tile = row[0].as_str().unwrap().parse().unwrap();
        let bytes = tile.hashes(&tree).unwrap();
        assert_eq!(hex::encode(Sha256::digest(bytes)), row[1].as_str().unwrap());
    }
    for row in rows("paths") {
        let index = row[0].as_u64().unwrap();
        let hashes = Tile::new(TileKind::Hashes(4), index, 1).unwrap();
        let entries = Tile::new(TileKind::Entries, index, TILE_WIDTH).unwrap();
        for (tile, column) in [(hashes, 1), (entries, 2)] {
            let path = row[column]
                .as_str()
                .unwrap()
                .replace("tile/data/", "tile/entries/");
            assert_eq!(tile.to_string(), path);
            assert_eq!(path.parse(), Ok(tile));
        }
    }
    // Proofs from tiles alone, against those of tlog_tiles.
    let fetch = |tile: Tile| tile.hashes(&tree).map_err(|error| error.to_string());
    for row in rows("consistency") {
        let (old, new) = (row[0].as_u64().unwrap(), row[1].as_u64().unwrap());
        let proof = TileTree::new(new, fetch).consistency_proof(old).unwrap();
        assert_eq!(proof.len() as u64, row[2].as_u64().unwrap());
        assert_eq!(hash_of(&proof), row[3].as_str().unwrap());
        let root = |size| tree.root_at(size).unwrap();
        assert_eq!(
            verify_consistency(old, new, &proof, &root(old), &root(new)),
            Ok(())
        );
    }
    for row in rows("inclusion") {
        let (index, size) = (row[0].as_u64().unwrap(), row[1].as_u64().unwrap());
        let proof = TileTree::new(size, fetch).inclusion_proof(index).unwrap();
        assert_eq!(proof.len() as u64, row[2].as_u64().unwrap());
        assert_eq!(hash_of(&proof), row[3].as_str().unwrap());
        let (leaf, root) = (leaf_hash(&index.to_be_bytes()), tree.root_at(size).unwrap());
        assert_eq!(verify_inclusion(&leaf, index, size, &proof, &root), Ok(()));
    }
}

#[test]
fn a_published_log_has_these_bundles_roots_and_signatures() {
    let key: NoteKey = TESSERA_KEY.parse().unwrap();
    let mut tree = Tree::new();
    let heads = tessera_heads();
    assert_eq!(heads.len(), 16);
    for (size, head) in heads.iter().enumerate() {
        if let Some(entry) = size.checked_sub(1).and_then(|last| TESSERA_ENTRIES.get(last)) {
            tree.append(entry.as_bytes());
        }
        assert_eq!(head.verify(std::slice::from_ref(&key), &strict).unwrap(), [&key]);
        let checkpoint: Checkpoint = head.text().parse().unwrap();
        assert_eq!(
            (checkpoint.size(), *checkpoint.root()),
            (size as u64, tree.root())
        );
    }
    let tile = Tile::new(TileKind::Entries, 0, 15).unwrap();
    let bytes = join_entries(TESSERA_ENTRIES.map(str::as_bytes)).unwrap();
    assert_eq!(&bytes[..10], b"\x00\x03one\x00\x03two");
    assert_eq!(
        split_entries(tile, &bytes).unwrap(),
        TESSERA_ENTRIES.map(str::as_bytes)
    );
}

#[test]
fn only_one_spelling_of_a_path_is_read() {
    for path in [
        "",
        "tile",
        "tile/0",
        "tile/0/",
        "tile/0/0",
        "tile/0/0000",
        "tile/0/1000",
        "tile/0/x000/001",
        "tile/0/001/002",
        "tile/0/x001",
        "tile/00/000",
        "tile/64/000",
        "tile/-1/000",
        "tile/+0/000",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/000.p/",
        "tile/0/000.p",
        "tile/data/000",
        "/tile/0/000",
        "tile/0/000/",
        "tile/0/x18/x446/x744/x073/x709/x551/616",
        "tile/0/x018/x446/x744/x073/x709/x551/616",
        "tile/0/\u{660}\u{660}\u{660}",
    ] {
        assert!(
            matches!(path.parse::<Tile>(), Err(TileError::Path(_))),
            "{path:?}"
        );
    }
    let largest = "tile/63/x018/x446/x744/x073/x709/x551/615.p/255";
    assert_eq!(largest.parse::<Tile>().unwrap().to_string(), largest);
    assert!(Tile::new(TileKind::Hashes(0), 0, 0).is_err());
    assert!(Tile::new(TileKind::Hashes(64), 0, 1).is_err());
}

#[test]
fn damaged_tiles_are_named() {
    let tile = Tile::new(TileKind::Entries, 0, 2).unwrap();
    let damaged = Err(TileError::Content { tile });
    for bytes in [
        &b""[..],
        b"\x00",
        b"\x00\x01",
        b"\x00\x01a",
        b"\x00\x01a\x00",
        b"\x00\x01a\x00\x02b",
        b"\x00\x01a\x00\x01b\x00",
        b"\x00\x01a\x00\x01b\x00\x01c",
    ] {
        assert_eq!(split_entries(tile, bytes), damaged, "{bytes:?}");
    }
    assert_eq!(
        split_entries(tile, b"\x00\x00\x00\x01b").unwrap(),
        [&b""[..], b"b"]
    );
    let long = vec![0; 65_536];
    assert_eq!(
        join_entries([long.as_slice()]),
        Err(TileError::EntryLength(65_536))
    );
    assert_eq!(join_entries([&long[1..]]).unwrap().len(), 65_537);
    // A tree over tiles of another tree has another root, and one over short tiles has none.
    let tree = super::common::tree(300, "");
    let mut other = TileTree::new(300, |tile: Tile| {
        let mut bytes = tile.hashes(&tree).unwrap();
        bytes[0] ^= 1;
        Ok(bytes)
    });
    assert_ne!(other.root().unwrap(), tree.root());
    let mut short = TileTree::new(300, |tile: Tile| Ok(tile.hashes(&tree).unwrap()[32..].to_vec()));
    assert!(matches!(short.root(), Err(TileError::Content { .. })));
    let mut gone = TileTree::new(300, |_| Err("no such file".to_owned()));
    assert!(matches!(gone.root(), Err(TileError::Missing { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a log grows, the tiles written on the way are those of its size, and they prove what the tree proves.
    #[test]
    fn growth_leaves_the_tiles_of_the_size(steps in prop::collection::vec(0u64..700, 1..6)) {
        let tree = super::common::tree(steps.iter().sum(), "p");
        let mut written: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut size = 0;
        for step in &steps {
            for tile in tiles(size, size + step) {
                if tile.kind() != TileKind::Entries {
                    written.insert(tile.to_string(), tile.hashes(&tree).unwrap());
                }
            }
            size += step;
        }
        for tile in tiles(0, size).iter().filter(|tile| tile.kind() != TileKind::Entries) {
            prop_assert!(written.contains_key(&tile.to_string()), "{} lacks {}", size, tile);
        }
        if size > 0 {
            let fetch = |tile: Tile| written.get(&tile.to_string()).cloned().ok_or_else(|| tile.to_string());
            let mut tiled = TileTree::new(size, fetch);
            prop_assert_eq!(tiled.root().unwrap(), tree.root());
            let index = size / 3;
            prop_assert_eq!(tiled.inclusion_proof(index).unwrap(), tree.inclusion_proof(index, size).unwrap());
            let old = size / 2 + 1;
            prop_assert_eq!(tiled.consistency_proof(old).unwrap(), tree.consistency_proof(old, size).unwrap());
        }
    }
}
