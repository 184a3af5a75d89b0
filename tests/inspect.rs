//! What comes out of a real demonstration: its log stepped through, audited by both verifiers, and forked.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use veilsum_attestation::Log;
use veilsum_attestation::audit::command::{AuditRequest, Ending, Shape, audit};
use veilsum_attestation::bundle::{BundleReader, Part, sign_head};
use veilsum_attestation::note::NoteKey;
use veilsum_attestation::statement::federation_digest;
use veilsum_crypto::{Digest, Identity, PublicIdentity};

fn veilsum(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_veilsum"))
        .args(words)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A demonstration's consortium: the bundle, and every key.
struct Kept {
    _folder: tempfile::TempDir,
    bundle: PathBuf,
    trust: PathBuf,
    authority: String,
    server: Identity,
    log: Log,
}

fn demonstration() -> Kept {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("demo");
    let ran = veilsum(&[
        "demo",
        "--rounds",
        "2",
        "--kill-round",
        "1",
        "--steps",
        "2",
        "--keep",
        "--dir",
        dir.to_str().unwrap(),
    ]);
    assert!(
        ran.status.success(),
        "{}{}",
        text(&ran),
        String::from_utf8_lossy(&ran.stderr)
    );
    let consortium = dir.join("consortium");
    let trust = consortium.join("auditor/auditor.toml");
    let told: toml::Table = std::fs::read_to_string(&trust).unwrap().parse().unwrap();
    let seed = std::fs::read_to_string(consortium.join("server/server.key")).unwrap();
    let bundle = consortium.join("auditor/bundle.veil");
    let mut reader = BundleReader::new(std::fs::File::open(&bundle).unwrap()).unwrap();
    assert!(matches!(reader.part().unwrap(), Part::Head(_)));
    let entries = std::iter::from_fn(|| reader.entry().unwrap());
    Kept {
        log: Log::from_entries(entries),
        authority: told["trust"]["authority"].as_str().unwrap().to_owned(),
        server: Identity::from_seed(&Digest::from_hex(seed.trim_end()).unwrap().0).unwrap(),
        _folder: folder,
        bundle,
        trust,
    }
}

#[test]
fn a_demonstration_is_inspected_audited_twice_and_forked() {
    let kept = demonstration();
    let verdict = same_words(&kept);
    inspected(&kept, &verdict);
    second_opinion(&kept, &verdict);
    forked(&kept);
}

/// The command prints what the shared code prints, and ends as it ends.
fn same_words(kept: &Kept) -> Value {
    let bundle = kept.bundle.to_str().unwrap();
    let mut json = String::new();
    for (shape, name) in [(Shape::Human, "human"), (Shape::Json, "json")] {
        let ran = veilsum(&["audit", bundle, "--format", name]);
        let mut out = Vec::new();
        let request = AuditRequest {
            shape,
            ..AuditRequest::of(&kept.bundle)
        };
        assert_eq!(audit(&request, &mut out).unwrap(), Ending::Clean);
        assert_eq!(ran.status.code(), Some(0));
        json = text(&ran);
        assert_eq!(json, String::from_utf8(out).unwrap());
    }
    serde_json::from_str(&json).unwrap()
}

/// Every step of the log, and at the end of each round what the audit says of it.
fn inspected(kept: &Kept, verdict: &Value) {
    let ran = veilsum(&["inspect", kept.bundle.to_str().unwrap(), "--format", "json"]);
    assert_eq!(ran.status.code(), Some(0));
    let lines: Vec<Value> = text(&ran)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (heads, steps): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.get("log").is_some());
    assert_eq!(heads.len(), 1);
    assert_eq!(steps.len(), kept.log.entries().len());
    assert!(
        steps
            .iter()
            .enumerate()
            .all(|(index, step)| step["index"] == index)
    );
    // The server's key, as witnesses are told it.
    let key: NoteKey = heads[0]["log"].as_str().unwrap().parse().unwrap();
    assert_eq!(*key.public(), kept.server.public().0);
    for round in verdict["rounds"].as_array().unwrap() {
        let ends = |step: &&Value| step["kind"] == "sums" && step["state"]["round"] == round["round"];
        let state = &steps.iter().find(ends).unwrap()["state"];
        assert_eq!(state["survivors"], round["survivors"]);
        let left: Vec<u64> = state["left"]
            .as_object()
            .unwrap()
            .keys()
            .map(|client| client.parse().unwrap())
            .collect();
        let dropped: Vec<u64> = round["dropped"]
            .as_array()
            .unwrap()
            .iter()
            .map(|client| client.as_u64().unwrap())
            .collect();
        assert_eq!(left, dropped);
        for released in round["released"].as_array().unwrap() {
            let opened = &state["opened"][released["cluster"].to_string()];
            assert_eq!(
                *opened,
                serde_json::json!([released["contributors"], released["weight"]])
            );
        }
        assert_eq!(
            state["withheld"].as_object().unwrap().len(),
            round["withheld"].as_array().unwrap().len()
        );
    }
    // The client killed in round one left in the phase it was killed in.
    let first = veilsum(&["inspect", kept.bundle.to_str().unwrap(), "--round", "1"]);
    assert!(text(&first).contains("uploaded nothing in time"));
    assert!(!text(&first).contains("round 2"));
}

fn second_opinion(kept: &Kept, verdict: &Value) {
    let probe = Command::new("python3")
        .args(["-c", "import cryptography"])
        .output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        println!("second verifier skipped: it needs python3 and its package `cryptography`");
        return;
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/second-verifier/verify.py");
    let ran = Command::new("python3")
        .arg(program)
        .args(["--federation", "demo consortium", "--authority", &kept.authority])
        .arg(&kept.bundle)
        .output()
        .unwrap();
    assert_eq!(
        ran.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let second: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let mut sums = second["sums"].as_array().unwrap().iter();
    for round in verdict["rounds"].as_array().unwrap() {
        for released in round["released"].as_array().unwrap() {
            let sum = sums.next().unwrap();
            for field in ["cluster", "contributors", "weight", "model"] {
                assert_eq!(sum[field], released[field], "{field}");
            }
        }
    }
    assert!(sums.next().is_none());
}

/// The server, with its own key, signs heads that fit and heads that do not.
fn forked(kept: &Kept) {
    let folder = tempfile::tempdir().unwrap();
    let authority = PublicIdentity(Digest::from_hex(&kept.authority).unwrap().0);
    let federation = federation_digest(&authority, "demo consortium");
    let size = kept.log.entries().len() as u64;
    let honest = kept.log.head_at(size - 9).unwrap();
    let mut other_log = Log::from_entries(kept.log.entries()[..10].iter().cloned());
    while other_log.head().size < size {
        other_log.append(b"another history".to_vec());
    }
    let write = |name: &str, head| {
        let path = folder.path().join(name);
        std::fs::write(&path, sign_head(&head, &federation, &kept.server).unwrap()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let fits = write("fits", honest);
    let shorter = write("shorter", other_log.head_at(size - 9).unwrap());
    let same_size = write("same", other_log.head());
    let (bundle, trust) = (kept.bundle.to_str().unwrap(), kept.trust.to_str().unwrap());
    let fork = |other: &str, more: &[&str]| {
        let words = [&["audit", "fork", bundle, other, "--trust", trust], more].concat();
        veilsum(&words)
    };
    assert_eq!(fork(&fits, &[]).status.code(), Some(0));
    assert_eq!(fork(bundle, &[]).status.code(), Some(0));
    for (number, other) in [&shorter, &same_size].into_iter().enumerate() {
        let proof = folder.path().join(format!("fork-{number}"));
        let proof = proof.to_str().unwrap();
        let found = fork(other, &["--out", proof, "--format", "json"]);
        assert_eq!(found.status.code(), Some(6), "{}", text(&found));
        let found: Value = serde_json::from_str(&text(&found)).unwrap();
        assert_eq!(found["result"], "forked");
        // A third party needs the file only, and the log's key to know whose it is.
        let log = found["log"].as_str().unwrap();
        let checked = veilsum(&["audit", "fork", "--check", proof, "--log", log]);
        assert_eq!(checked.status.code(), Some(6), "{}", text(&checked));
        assert!(text(&checked).contains("FORKED"));
        let other = log.replace("veilsum/", "veilsum+");
        let refused = veilsum(&["audit", "fork", "--check", proof, "--log", &other]);
        assert_eq!(refused.status.code(), Some(3));
        let whole = std::fs::read_to_string(proof).unwrap();
        std::fs::write(proof, whole.replacen("note ", "note 1", 1)).unwrap();
        assert_eq!(
            veilsum(&["audit", "fork", "--check", proof]).status.code(),
            Some(3)
        );
    }
    // Two heads of two sizes and no log to tell them apart; a head nobody's key is known for.
    let keyless = veilsum(&["audit", "fork", &fits, &same_size]);
    assert_eq!(keyless.status.code(), Some(3));
    let key = NoteKey::new(
        &veilsum_attestation::bundle::log_name(&federation),
        kept.server.public().0,
    );
    let key = key.unwrap().to_string();
    let blind = veilsum(&["audit", "fork", &fits, &same_size, "--log", &key]);
    assert_eq!(blind.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&blind.stderr).contains("bundle of the longer log"));
    assert_eq!(
        veilsum(&["audit", "fork", &fits, &shorter, "--log", &key])
            .status
            .code(),
        Some(6)
    );
}
