//! `veilsum-audit` as it is started: words, exit codes, and a fork file checked. That it judges bundles as `veilsum audit`
//! does is by construction: both call one function.

#![allow(clippy::unwrap_used, reason = "test code: a panic is the failure report")]

use std::process::{Command, Output};
use veilsum_attestation::checkpoint::Checkpoint;
use veilsum_attestation::note::{Note, NoteKey};
use veilsum_crypto::Identity;

fn audit(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_veilsum-audit"))
        .args(words)
        .output()
        .unwrap()
}

fn code(words: &[&str]) -> Option<i32> {
    audit(words).status.code()
}

#[test]
fn the_command_line_is_checked() {
    for words in [
        &[][..],
        &["a", "b"],
        &["a", "--format", "yaml"],
        &["a", "--trust"],
        &["a", "--out", "x"],
        &["a", "-x"],
        &["fork", "a"],
        &["fork", "a", "b", "c"],
        &["fork", "--check", "f", "a"],
    ] {
        let ran = audit(words);
        assert_eq!(ran.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&ran.stderr).contains("Usage:"));
    }
    assert_eq!((code(&["--help"]), code(&["--version"])), (Some(0), Some(0)));
}

#[test]
fn files_that_are_missing_or_none_have_their_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("bundle"), "nothing").unwrap();
    // Nobody to trust, a wrong file to trust, a missing bundle, one that is none.
    assert_eq!(code(&[&path("bundle")]), Some(3));
    let key = Identity::from_seed(&[7; 32]).unwrap().public().0;
    for (authority, want) in [("00".to_owned(), 3), ("00".repeat(32), 3), (hex::encode(key), 6)] {
        let text = format!("[trust]\nfederation = \"f\"\nauthority = \"{authority}\"\n");
        std::fs::write(path("auditor.toml"), text).unwrap();
        assert_eq!(code(&[&path("bundle")]), Some(want));
        assert_eq!(code(&["--format=json", &path("bundle")]), Some(want));
    }
    let json = audit(&["--format", "json", &path("bundle")]);
    assert!(String::from_utf8_lossy(&json.stdout).contains("\"overall\": \"unreadable\""));
    assert_eq!(code(&[&path("missing")]), Some(3));
    std::fs::write(path("auditor.toml"), "[trust]\nfederation = 1\n").unwrap();
    assert_eq!(code(&[&path("bundle")]), Some(3));
}

#[test]
fn a_fork_is_found_proved_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let signer = Identity::from_seed(&[7; 32]).unwrap();
    let key = NoteKey::new("veilsum/test", signer.public().0).unwrap();
    for (name, root) in [("a", 1), ("b", 2), ("c", 1)] {
        let text = Checkpoint::new("veilsum/test", 5, [root; 32])
            .unwrap()
            .to_string();
        let mut note = Note::new(text).unwrap();
        note.sign(&key, &|text| signer.sign_raw(text).0).unwrap();
        std::fs::write(path(name), note.to_string()).unwrap();
    }
    let (a, b, c, proof, vkey) = (path("a"), path("b"), path("c"), path("proof"), key.to_string());
    assert_eq!(code(&["fork", &a, &c, "--log", &vkey]), Some(0));
    assert_eq!(code(&["fork", &a, &b]), Some(3));
    assert_eq!(code(&["fork", &a, &b, "--log", &vkey, "--out", &proof]), Some(6));
    assert_eq!(code(&["fork", "--check", &proof]), Some(6));
    assert_eq!(code(&["fork", "--check", &proof, "--log", &vkey]), Some(6));
    assert_eq!(code(&["fork", "--check", &a]), Some(3));
    assert_eq!(code(&["fork", "--check", &path("none")]), Some(3));
}
