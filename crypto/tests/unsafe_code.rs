//! Unsafe code stays where docs/adr/0010-kernel.md puts it: the compiler forbids it in every other crate, and denies it in
//! every other file of this one.

#![allow(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::fs;
use std::path::{Path, PathBuf};

/// The only files that may allow it: two of the program, and what the bench compares them with.
const ALLOWED: [&str; 3] = [
    "benches/measure/bare.rs",
    "src/stream/arm.rs",
    "src/stream/x86.rs",
];

fn crate_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below a folder.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The lines of a manifest's table, in order, without comments.
fn table(manifest: &str, name: &str) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|line| *line != format!("[{name}]"))
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_lints_are_the_workspace_s_but_for_one_word() {
    let workspace = read(&crate_root().join("../Cargo.toml"));
    let own = read(&crate_root().join("Cargo.toml"));
    let rust = table(&workspace, "workspace.lints.rust");
    assert!(rust.contains(&r#"unsafe_code = "forbid""#.to_owned()));
    let denied: Vec<String> = rust
        .iter()
        .map(|line| line.replace(r#"unsafe_code = "forbid""#, r#"unsafe_code = "deny""#))
        .collect();
    assert_eq!(table(&own, "lints.rust"), denied);
    let clippy = table(&workspace, "workspace.lints.clippy");
    assert!(clippy.len() > 5);
    assert_eq!(table(&own, "lints.clippy"), clippy);
}

#[test]
fn every_other_member_takes_the_workspace_s_lints() {
    let workspace = read(&crate_root().join("../Cargo.toml"));
    assert_eq!(table(&workspace, "lints"), ["workspace = true"]);
    let members = workspace
        .lines()
        .find_map(|line| line.strip_prefix("members = "))
        .unwrap();
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    assert!(members.len() >= 6 && members.contains(&"crypto"), "{members:?}");
    for member in members.into_iter().filter(|member| *member != "crypto") {
        let manifest = read(&crate_root().join("..").join(member).join("Cargo.toml"));
        assert_eq!(table(&manifest, "lints"), ["workspace = true"], "{member}");
    }
}

#[test]
fn three_files_allow_unsafe_code_and_each_block_says_why_it_is_sound() {
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches"] {
        sources(&crate_root().join(folder), &mut files);
    }
    assert!(files.len() > 15);
    let this = crate_root().join("tests/unsafe_code.rs");
    for path in files.iter().filter(|path| **path != this) {
        let name = path.strip_prefix(crate_root()).unwrap().to_str().unwrap();
        let text = read(path);
        let allowed = ALLOWED.contains(&name);
        assert_eq!(text.contains("unsafe_code"), allowed, "{name}");
        assert!(
            !allowed || text.contains("#![deny(unsafe_op_in_unsafe_fn)]"),
            "{name}"
        );
        let mut before = "";
        for line in text.lines().map(str::trim) {
            let is_code = !["//", "#![", "unsafe_code,"]
                .iter()
                .any(|start| line.starts_with(start));
            if is_code && line.contains("unsafe") {
                let line = line.strip_prefix("here.then(|| ").unwrap_or(line);
                assert!(allowed, "{name}: {line}");
                assert!(before.starts_with("// SAFETY: "), "{name}: {line}");
                assert!(line.starts_with("unsafe {"), "{name}: only blocks: {line}");
            }
            before = line;
        }
    }
}
