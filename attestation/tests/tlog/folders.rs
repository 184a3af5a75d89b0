//! A log on disk: what a crash at any step leaves, and what damage is told.

use super::common::{Signer, TESSERA_ENTRIES, tessera_heads, tree};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use veilsum_attestation::merkle::Tree;
use veilsum_attestation::tlog::{FolderError, LogFolder, Tile, TileKind, TileTree, tiles};

const ORIGIN: &str = "veilsum/test";

fn entry(index: u64) -> Vec<u8> {
    format!("entry {index}").into_bytes()
}

fn append(log: &mut LogFolder, from: u64, to: u64) {
    let entries: Vec<Vec<u8>> = (from..to).map(entry).collect();
    log.append(entries.iter().map(Vec::as_slice)).unwrap();
}

fn publish(log: &mut LogFolder) {
    let head = Signer::new(1).head_of(ORIGIN, log.tree());
    log.publish(&head).unwrap();
}

/// Every file under a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_published_log_is_laid_out_as_its_makers_laid_it_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = LogFolder::open(folder.path()).unwrap().folder;
    for (size, head) in tessera_heads().into_iter().enumerate() {
        if let Some(entry) = size.checked_sub(1).map(|last| TESSERA_ENTRIES[last]) {
            log.append([entry.as_bytes()]).unwrap();
        }
        log.publish(&head).unwrap();
    }
    let found = files(folder.path());
    // One partial tile and bundle for each signed size, and the last head.
    assert_eq!(found.len(), 31);
    for size in 1..=15u16 {
        for kind in ["0", "entries"] {
            let path = format!("tile/{kind}/000.p/{size}");
            assert!(found.contains_key(&folder.path().join(&path)), "{path}");
        }
    }
    let head = String::from_utf8(found[&folder.path().join("checkpoint")].clone()).unwrap();
    assert_eq!(head, tessera_heads()[15].to_string());
}

#[test]
fn a_log_grows_over_reopening_and_proves_from_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let (mut size, mut want) = (0, Tree::new());
    for step in [0, 1, 254, 1, 1, 300, 512, 3] {
        let opened = LogFolder::open(folder.path()).unwrap();
        assert_eq!((opened.entries.len() as u64, opened.removed), (size, 0));
        let mut log = opened.folder;
        assert_eq!(log.published(), size);
        append(&mut log, size, size + step);
        for index in size..size + step {
            want.append(&entry(index));
        }
        size += step;
        publish(&mut log);
        for tile in tiles(0, size) {
            let bytes = log.read(tile).unwrap();
            match tile.kind() {
                TileKind::Hashes(_) => assert_eq!(bytes, tile.hashes(&want).unwrap()),
                TileKind::Entries => assert!(bytes.starts_with(b"\x00")),
            }
        }
        let mut tiled = TileTree::new(size, |tile| log.read(tile).map_err(|error| error.to_string()));
        assert_eq!(tiled.root().unwrap(), want.root());
    }
    // Full tiles have replaced their partial forms.
    assert!(!folder.path().join("tile/0/000.p").exists());
    assert!(!folder.path().join("tile/entries/000.p").exists());
}

#[test]
fn a_crash_after_any_file_leaves_a_log_that_goes_on() {
    // The files a growth of 300 entries writes, in order; a crash leaves a prefix of them, the last one half written
    // beside its place.
    let whole = tempfile::tempdir().unwrap();
    let mut log = LogFolder::open(whole.path()).unwrap().folder;
    append(&mut log, 0, 200);
    publish(&mut log);
    let before = files(whole.path());
    append(&mut log, 200, 500);
    let appended = files(whole.path());
    publish(&mut log);
    let after = files(whole.path());
    let relative = |path: &PathBuf| path.strip_prefix(whole.path()).unwrap().to_path_buf();
    let bundles = ["tile/entries/000", "tile/entries/001.p/244"];
    let hashes: Vec<String> = tiles(200, 500)
        .iter()
        .filter(|tile| tile.kind() != TileKind::Entries)
        .map(Tile::to_string)
        .collect();
    let order: Vec<PathBuf> = bundles
        .iter()
        .map(PathBuf::from)
        .chain(hashes.iter().map(PathBuf::from))
        .chain([PathBuf::from("checkpoint")])
        .collect();
    for (path, bytes) in &appended {
        assert!(before.get(path) == Some(bytes) || bundles.contains(&relative(path).to_str().unwrap()));
    }
    for steps in 0..=order.len() {
        let crashed = tempfile::tempdir().unwrap();
        for (path, bytes) in &before {
            let path = crashed.path().join(relative(path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        for path in &order[..steps] {
            let full = crashed.path().join(path);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, &after[&whole.path().join(path)]).unwrap();
        }
        if let Some(path) = order.get(steps) {
            let mut beside = crashed.path().join(path).into_os_string();
            beside.push(".new");
            fs::create_dir_all(Path::new(&beside).parent().unwrap()).unwrap();
            let bytes = &after[&whole.path().join(path)];
            fs::write(&beside, &bytes[..bytes.len() / 2]).unwrap();
        }
        let opened = LogFolder::open(crashed.path()).unwrap();
        let held = [200, 256, 500][steps.min(2)];
        assert_eq!(opened.entries.len(), held, "after {steps} files");
        assert_eq!(opened.removed, usize::from(steps < order.len()));
        let mut log = opened.folder;
        assert_eq!(log.published(), if steps == order.len() { 500 } else { 200 });
        append(&mut log, held as u64, 500);
        publish(&mut log);
        assert_eq!(log.tree().root(), tree_of(500).root());
        assert_eq!(LogFolder::open(crashed.path()).unwrap().folder.published(), 500);
    }
}

fn tree_of(size: u64) -> Tree {
    let mut tree = Tree::new();
    for index in 0..size {
        tree.append(&entry(index));
    }
    tree
}

#[test]
fn torn_entries_nobody_signed_are_dropped_and_signed_ones_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = LogFolder::open(folder.path()).unwrap().folder;
    append(&mut log, 0, 256);
    publish(&mut log);
    append(&mut log, 256, 260);
    let torn = folder.path().join("tile/entries/001.p/4");
    let bytes = fs::read(&torn).unwrap();
    fs::write(&torn, &bytes[..bytes.len() - 1]).unwrap();
    let found = LogFolder::open(folder.path()).unwrap();
    assert_eq!((found.entries.len(), found.removed), (256, 1));
    assert!(!torn.exists());
    // Cut, changed and lost signed entries.
    let signed = folder.path().join("tile/entries/000");
    let bytes = fs::read(&signed).unwrap();
    fs::write(&signed, &bytes[..bytes.len() - 1]).unwrap();
    let open = || LogFolder::open(folder.path()).unwrap_err();
    assert!(matches!(
        open(),
        FolderError::Damaged {
            signed: 256,
            held: 0,
            ..
        }
    ));
    assert!(signed.exists());
    let mut bent = bytes.clone();
    bent[5] ^= 1;
    fs::write(&signed, bent).unwrap();
    assert!(matches!(open(), FolderError::OtherEntries { .. }));
    fs::remove_file(&signed).unwrap();
    assert!(matches!(open(), FolderError::Damaged { held: 0, .. }));
    fs::write(&signed, bytes).unwrap();
    assert_eq!(LogFolder::open(folder.path()).unwrap().entries.len(), 256);
    fs::write(folder.path().join("checkpoint"), "nothing").unwrap();
    assert!(matches!(open(), FolderError::Note(_)));
}

#[test]
fn only_the_whole_log_is_published_and_only_entries_that_fit_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = LogFolder::open(folder.path()).unwrap().folder;
    append(&mut log, 0, 3);
    let signer = Signer::new(1);
    for head in [
        signer.head_of(ORIGIN, &tree_of(2)),
        signer.head_of(ORIGIN, &tree(3, "other")),
    ] {
        assert!(matches!(
            log.publish(&head),
            Err(FolderError::OtherHead { held: 3, .. })
        ));
    }
    let oversized = vec![0; 65_536];
    assert!(matches!(
        log.append([&b"fits"[..], &oversized]),
        Err(FolderError::Tile(_))
    ));
    assert_eq!(log.tree().size(), 3);
    publish(&mut log);
    // Unsigned widths are not kept, signed ones are.
    append(&mut log, 3, 5);
    append(&mut log, 5, 6);
    let kept: Vec<bool> = [3, 5, 6]
        .map(|width| folder.path().join(format!("tile/entries/000.p/{width}")).exists())
        .to_vec();
    assert_eq!(kept, [true, false, true]);
}
