//! The second verifier, `tests/second-verifier/verify.py`, beside the auditor: written from `docs/transcript.md` by itself,
//! it must come to the same verdict and the same sums on every bundle these tests audit.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use veilsum_attestation::audit::{AuditError, CheckName, RoundSummary, Verdict};

/// One running verifier; it is asked about bundle after bundle.
struct Second {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Second {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args([PROGRAM, "--federation", "test federation", "--authority"])
            .arg(hex(&crate::world::identity(1, 0).public().0))
            .arg("--stream")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn ask(&mut self, bundle: &[u8]) -> serde_json::Value {
        let length = u32::try_from(bundle.len()).unwrap();
        self.input.write_all(&length.to_le_bytes()).unwrap();
        self.input.write_all(bundle).unwrap();
        self.input.flush().unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the second verifier broke: {error} {line:?}"))
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ready() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| {
        let probe = Command::new("python3")
            .args(["-c", "import cryptography"])
            .output();
        let ready = probe.as_ref().is_ok_and(|probe| probe.status.success());
        if !ready {
            println!("second verifier skipped: it needs python3 and its package `cryptography`");
        }
        ready
    })
}

/// The second verifier's answer with options; `None` where it cannot run.
fn ask_with(bundle: &[u8], options: &[&str]) -> Option<serde_json::Value> {
    if !ready() {
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bundle).unwrap();
    let output = Command::new("python3")
        .args([PROGRAM, "--federation", "test federation", "--authority"])
        .arg(hex(&crate::world::identity(1, 0).public().0))
        .args(options)
        .arg(file.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}")))
}

/// The second verifier's answer; `None` where it cannot run.
fn ask(bundle: &[u8]) -> Option<serde_json::Value> {
    thread_local! {
        static SECOND: RefCell<Option<Second>> = const { RefCell::new(None) };
    }
    ready().then(|| SECOND.with_borrow_mut(|second| second.get_or_insert_with(Second::start).ask(bundle)))
}

/// Demands that both verifiers say the same of a bundle.
pub(crate) fn compare(bundle: &[u8], first: &Result<Verdict, AuditError>) {
    if let Some(second) = ask(bundle) {
        agree(first, &second);
    }
}

/// As [`compare`], with options of the second verifier that say what the first was asked.
pub(crate) fn compare_with(bundle: &[u8], options: &[&str], first: &Result<Verdict, AuditError>) {
    if let Some(second) = ask_with(bundle, options) {
        agree(first, &second);
    }
}

fn agree(first: &Result<Verdict, AuditError>, second: &serde_json::Value) {
    let word = match first {
        Ok(verdict) => verdict.overall.to_string(),
        Err(_) => "unreadable".to_owned(),
    };
    let said = match first {
        Ok(verdict) => verdict
            .violations()
            .map(|finding| {
                format!(
                    "{}: {}",
                    finding.check,
                    finding.status.reason().unwrap_or_default()
                )
            })
            .collect::<Vec<_>>()
            .join("\n"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        second["overall"],
        word.as_str(),
        "\nfirst: {said}\nsecond: {second:#}"
    );
    let Ok(verdict) = first else { return };
    if !verdict.is_verified() {
        return;
    }
    // Of a verified bundle every sum, by round, attempt and cluster; but for those whose vectors are gone.
    let mut sums = second["sums"].as_array().unwrap().iter();
    let gone = |round: &RoundSummary| {
        verdict.findings.iter().any(|finding| {
            (finding.check, finding.round, finding.attempt)
                == (CheckName::Vectors, Some(round.round), Some(round.attempt))
                && finding.status.reason() == Some("vectors gone by retention")
        })
    };
    for round in verdict.rounds.iter().filter(|round| !gone(round)) {
        for released in &round.released {
            let sum = sums
                .next()
                .unwrap_or_else(|| panic!("the second verifier has no sum of {round}"));
            assert_eq!(sum["round"], round.round.0);
            assert_eq!(sum["attempt"], round.attempt.0);
            assert_eq!(sum["cluster"], released.cluster.0);
            assert_eq!(sum["contributors"], released.contributors);
            assert_eq!(sum["weight"], released.weight);
            // Without the model it starts from neither says anything of the new one.
            if !sum["model"].is_null() {
                assert_eq!(sum["model"], released.model.as_str());
            }
        }
    }
    assert!(sums.next().is_none());
}

/// Demands that the second verifier does not call this verified.
pub(crate) fn never_verified(bundle: &[u8]) {
    if let Some(second) = ask(bundle) {
        assert_ne!(second["overall"], "verified");
    }
}

/// A change in one byte: neither calls the bundle verified. Which of the two other words it gets may depend on how far each
/// reads before it stops.
#[test]
fn neither_verifies_a_changed_byte() {
    let setup = crate::world::Setup {
        clients: 4,
        threshold: 3,
        clusters: vec![vec![0, 1, 2, 3]],
        entries: 5,
        crowd: 2,
        orgs: 2,
    };
    let run = crate::run::Run::of(setup, 41, &[&[(2, 2)]]);
    let (bundle, auditor) = (run.bundle(), crate::run::auditor(run.federation()));
    // A stride prime to the format's widths visits every kind of field.
    for at in (0..bundle.len()).step_by(61) {
        let mut changed = bundle.clone();
        changed[at] ^= 1 << (at % 8);
        let verdict = auditor.audit(changed.as_slice(), &mut |_| {});
        assert!(!verdict.is_ok_and(|verdict| verdict.is_verified()), "byte {at}");
        if let Some(second) = ask(&changed) {
            assert_ne!(second["overall"], "verified", "byte {at}");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/second-verifier/verify.py");
