//! What a server hands out after a real demonstration: each tier's file is judged alike by both verifiers, holds nothing it
//! must not, and vectors go after their window.
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
use veilsum_attestation::bundle::Forbidden;
use veilsum_attestation::bundle::tier::{Item, Tier};
use veilsum_crypto::ClientId;

fn veilsum(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_veilsum"))
        .args(words)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A demonstration of three rounds; a client is killed in the first.
struct Kept {
    folder: tempfile::TempDir,
    consortium: PathBuf,
    config: String,
    trust: String,
}

fn demonstration() -> Kept {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("demo");
    let ran = veilsum(&[
        "demo",
        "--rounds",
        "3",
        "--kill-round",
        "1",
        "--steps",
        "2",
        "--keep",
        "--dir",
        dir.to_str().unwrap(),
    ]);
    assert!(ran.status.success(), "{}", text(&ran));
    let consortium = dir.join("consortium");
    let path = |name: &str| consortium.join(name).to_str().unwrap().to_owned();
    Kept {
        config: path("server/server.toml"),
        trust: path("auditor/auditor.toml"),
        folder,
        consortium,
    }
}

impl Kept {
    fn export(&self, out: &str, words: &[&str]) -> (String, Output) {
        let out = self.folder.path().join(out).to_str().unwrap().to_owned();
        let all = [&["export", "--config", &self.config, "--out", &out], words].concat();
        let ran = veilsum(&all);
        (out, ran)
    }

    /// The exit code and the verdict.
    fn audit(&self, file: &str, words: &[&str]) -> (Option<i32>, Value) {
        let all = [
            &["audit", "--trust", &self.trust, "--format", "json", file],
            words,
        ]
        .concat();
        let ran = veilsum(&all);
        (
            ran.status.code(),
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", text(&ran))),
        )
    }

    /// What the second verifier says; `None` where it cannot run.
    fn second(&self, file: &str, words: &[&str]) -> Option<Value> {
        let probe = Command::new("python3")
            .args(["-c", "import cryptography"])
            .output();
        if !probe.is_ok_and(|probe| probe.status.success()) {
            println!("second verifier skipped: it needs python3 and its package `cryptography`");
            return None;
        }
        let told: toml::Table = std::fs::read_to_string(&self.trust).unwrap().parse().unwrap();
        let trust = |name: &str| told["trust"][name].as_str().unwrap().to_owned();
        let ran = Command::new("python3")
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/second-verifier/verify.py"
            ))
            .args([
                "--federation",
                &trust("federation"),
                "--authority",
                &trust("authority"),
            ])
            .args(words)
            .arg(file)
            .output()
            .unwrap();
        Some(serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", text(&ran))))
    }
}

/// A descriptor file of four channels as a learner writes it.
fn descriptor(client: u8, noised: bool) -> Vec<u8> {
    let mut bytes = vec![1, u8::from(noised)];
    bytes.extend([9; 32]);
    bytes.extend(777u32.to_le_bytes());
    bytes.extend(4u32.to_le_bytes());
    if noised {
        bytes.extend(0.5f64.to_le_bytes());
        bytes.extend(0.25f64.to_le_bytes());
    }
    for channel in 0..8u8 {
        bytes.extend((f32::from(client) + f32::from(channel) / 8.0 + 0.5).to_le_bytes());
    }
    bytes
}

#[test]
fn a_demonstration_is_handed_out_in_four_tiers() {
    let kept = demonstration();
    let write = |name: &str, bytes: &[u8]| {
        let path = kept.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let noised: Vec<String> = (0..3)
        .map(|client| write(&format!("client-{client}.desc"), &descriptor(client, true)))
        .collect();
    let raw = write("raw.desc", &descriptor(0, false));
    let mut plan = vec!["--tier", "plan", "--descriptors"];
    plan.extend(noised.iter().map(String::as_str));

    let tiers: [(&str, &[&str]); 4] = [
        ("public", &["--tier", "public"]),
        ("member", &["--tier", "member", "--client", "1"]),
        ("auditor", &["--tier", "auditor"]),
        ("plan", &plan),
    ];
    let mut sizes = Vec::new();
    for (name, words) in tiers {
        let (file, ran) = kept.export(&format!("{name}.veil"), words);
        assert!(ran.status.success(), "{name}: {}", text(&ran));
        let (code, verdict) = kept.audit(&file, &[]);
        assert_eq!(
            (code, &verdict["overall"]),
            (Some(0), &Value::from("verified")),
            "{name}"
        );
        if let Some(second) = kept.second(&file, &[]) {
            assert_eq!(second["overall"], "verified", "{name}: {second:#}");
        }
        holds_no_names(&kept.consortium, &file);
        let bytes = std::fs::read(&file).unwrap();
        // One bit in the middle, where statements or vectors are: no tier's file is verified then.
        if name != "plan" {
            let mut bent = bytes.clone();
            let middle = bent.len() / 2;
            bent[middle] ^= 1;
            let bent = write("bent.veil", &bent);
            assert_eq!(
                veilsum(&["audit", "--trust", &kept.trust, &bent]).status.code(),
                Some(6)
            );
        }
        sizes.push((name, bytes.len()));
    }
    println!("{sizes:?}");
    // Numbers of images stay behind, and clients go by numbers that another server's salt would not give.
    let plan_bytes = std::fs::read(kept.folder.path().join("plan.veil")).unwrap();
    let images: Vec<u8> = [777u32.to_le_bytes(), 4u32.to_le_bytes()].concat();
    assert!(!plan_bytes.windows(8).any(|window| window == images));

    // What must not be handed out is refused, with its name, and nothing is written.
    for (words, exit, said) in [
        (
            vec!["--tier", "plan", "--descriptors", raw.as_str()],
            3,
            "without noise",
        ),
        (
            vec!["--tier", "public", "--descriptors", noised[0].as_str()],
            3,
            "the public tier must not hold a descriptor",
        ),
        (vec!["--tier", "member", "--client", "99"], 3, "not enrolled"),
        (vec!["--tier", "member"], 2, "--client"),
        (vec!["--tier", "public", "--client", "1"], 2, "--tier member"),
        (vec!["--tier", "plan", "--keep-rounds", "1"], 2, "--tier auditor"),
    ] {
        let (file, ran) = kept.export("refused.veil", &words);
        assert_eq!(ran.status.code(), Some(exit), "{words:?}: {}", text(&ran));
        assert!(text(&ran).contains(said), "{words:?}: {}", text(&ran));
        assert!(!Path::new(&file).exists(), "{words:?}");
    }

    spot_checked(&kept);
    gone(&kept);
}

/// Names of the parties' folders, and addresses: in no file.
fn holds_no_names(consortium: &Path, file: &str) {
    let bytes = std::fs::read(file).unwrap();
    let mut names: Vec<String> = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    for folder in std::fs::read_dir(consortium).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().to_str().unwrap().to_owned();
        if folder.file_type().unwrap().is_dir() && !["server", "auditor"].contains(&name.as_str()) {
            names.push(name);
        }
    }
    assert!(names.len() > 3, "{names:?}");
    for name in names {
        let found = bytes.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(!found, "{file} holds {name}");
    }
}

fn spot_checked(kept: &Kept) {
    let file = kept
        .folder
        .path()
        .join("auditor.veil")
        .to_str()
        .unwrap()
        .to_owned();
    let (code, verdict) = kept.audit(&file, &["--spot-check", "50%", "--seed", "2 6 3 1"]);
    assert_eq!(code, Some(0));
    let findings = verdict["findings"].as_array().unwrap();
    let sums: Vec<_> = findings
        .iter()
        .filter(|finding| finding["check"] == "sums")
        .map(|finding| finding["reason"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(
        sums.iter().all(|reason| reason.starts_with("spot check: ")),
        "{sums:?}"
    );
    for words in [
        &["--spot-check", "0.5"] as &[&str],
        &["--seed", "1"],
        &["--spot-check", "0", "--seed", "1"],
        &["--spot-check", "1.5", "--seed", "1"],
    ] {
        let all = [&["audit", "--trust", &kept.trust, &file], words].concat();
        assert_eq!(veilsum(&all).status.code(), Some(2), "{words:?}");
    }
    for threads in ["1", "3"] {
        let (code, verdict) = kept.audit(&file, &["--threads", threads]);
        assert_eq!((code, &verdict["overall"]), (Some(0), &Value::from("verified")));
    }
}

/// The vectors of the first round go when two more are published; the auditor who was told so says which sums he could not
/// recompute, and another calls it a violation.
fn gone(kept: &Kept) {
    let vectors = kept.consortium.join("server/state/vectors");
    let folders = || {
        let mut names: Vec<String> = std::fs::read_dir(&vectors)
            .unwrap()
            .map(|file| file.unwrap().file_name().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    let before = folders();
    // The page is written whole or not at all, and never over what it is made from.
    let page = kept.folder.path().join("page.html").to_str().unwrap().to_owned();
    let bundle = kept
        .consortium
        .join("auditor/bundle.veil")
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(kept.audit(&bundle, &["--html", &page]).0, Some(0));
    let first = std::fs::read_to_string(&page).unwrap();
    for line in [
        "<!DOCTYPE html>",
        "Nothing wrong was found. ",
        "<h4>Who left, and when</h4>",
        "before its update arrived</td>",
    ] {
        assert!(first.contains(line), "{line}\n{first}");
    }
    assert_eq!(kept.audit(&bundle, &["--html", &page]).0, Some(0));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), first);
    let whole = std::fs::read(&bundle).unwrap();
    let over = veilsum(&["audit", "--trust", &kept.trust, "--html", &bundle, &bundle]);
    assert_eq!(over.status.code(), Some(3), "{}", text(&over));
    assert!(text(&over).contains("would overwrite"));
    assert_eq!(std::fs::read(&bundle).unwrap(), whole);
    let cut = kept.folder.path().join("cut.veil").to_str().unwrap().to_owned();
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(kept.audit(&cut, &["--html", &page]).0, Some(6));
    let unreadable = std::fs::read_to_string(&page).unwrap();
    assert!(unreadable.contains("cannot be read, so it proves nothing") && !unreadable.contains("verified"));

    let (file, ran) = kept.export("kept.veil", &["--keep-rounds", "2"]);
    assert!(ran.status.success(), "{}", text(&ran));
    assert!(text(&ran).contains("gone by retention"), "{}", text(&ran));
    let after = folders();
    assert!(
        before.iter().any(|name| name.starts_with("000001-")),
        "{before:?}"
    );
    assert!(!after.iter().any(|name| name.starts_with("000001-")), "{after:?}");
    assert!(after.iter().any(|name| name.starts_with("000002-")), "{after:?}");

    let (code, verdict) = kept.audit(&file, &["--keep-rounds", "2"]);
    assert_eq!((code, &verdict["overall"]), (Some(0), &Value::from("verified")));
    let reasons = verdict["findings"].to_string();
    assert!(reasons.contains("vectors gone by retention"));
    assert_eq!(kept.audit(&file, &[]).0, Some(6));
    assert_eq!(kept.audit(&file, &["--keep-rounds", "3"]).0, Some(6));
    if let Some(second) = kept.second(&file, &["--keep-rounds", "2"]) {
        assert_eq!(second["overall"], "verified");
        assert_eq!(kept.second(&file, &[]).unwrap()["overall"], "violated");
    }
    // Exported again, with nothing said: what is gone stays gone.
    let (file, ran) = kept.export("again.veil", &[]);
    assert!(ran.status.success(), "{}", text(&ran));
    assert_eq!(kept.audit(&file, &["--keep-rounds", "2"]).0, Some(0));
}

/// Every kind of data that no reader is handed, in every tier.
#[test]
fn what_nobody_may_hold_is_refused_by_name_in_every_tier() {
    for tier in [Tier::Public, Tier::Member(ClientId(1)), Tier::Auditor, Tier::Plan] {
        for (item, name) in [
            (Item::SealedShares, "SealedShares"),
            (Item::Vector(Some(Forbidden::NotSurvivor)), "DroppedVector"),
            (Item::Vector(Some(Forbidden::NotPublished)), "AbortedVector"),
            (Item::Vector(Some(Forbidden::NotReleased)), "WithheldVector"),
            (Item::ExpiredVector, "ExpiredVector"),
            (Item::RawDescriptor, "RawDescriptor"),
            (Item::SampleCounts, "SampleCounts"),
            (Item::PrivateTensor, "PrivateTensor"),
            (Item::ClientMetrics, "ClientMetrics"),
            (Item::PartyName, "PartyName"),
            (Item::Address, "Address"),
            (Item::Timing, "Timing"),
        ] {
            assert_eq!(tier.admits(item).unwrap_err().name(), name);
        }
    }
}
