//! Cosigned heads in the audit: a quorum over a head of this very log, or the check says what is missing.

use crate::forge::Forge;
use crate::run::{Run, auditor, two_clusters};
use crate::second::compare_with;
use crate::world::identity;
use veilsum_attestation::Head;
use veilsum_attestation::audit::{CheckName, Status, Verdict};
use veilsum_attestation::bundle::sign_head;
use veilsum_attestation::note::Note;
use veilsum_attestation::tlog::{CosignerKey, TrustPolicy};
use veilsum_crypto::*;

fn key(witness: u32) -> CosignerKey {
    CosignerKey::new(
        &format!("witness.example/{witness}"),
        identity(7, witness).public().0,
    )
    .unwrap()
}

/// Two of witnesses 0, 1 and 2.
pub(crate) fn policy() -> String {
    let mut text = String::new();
    for witness in 0..3 {
        text.push_str(&format!("witness w{witness} {}\n", key(witness)));
    }
    text + "group orgs 2 w0 w1 w2\nquorum orgs\n"
}

/// A head the server signed, cosigned by witnesses at times.
pub(crate) fn cosigned(federation: &Digest, server: u32, head: Head, witnesses: &[(u32, u64)]) -> String {
    let signed = sign_head(&head, federation, &identity(2, server)).unwrap();
    let mut note = Note::parse(signed.as_bytes()).unwrap();
    let text = note.text().to_owned();
    for (witness, time) in witnesses {
        let own = identity(7, *witness);
        note.add(key(*witness).cosign(&text, *time, &|text| own.sign_raw(text).0))
            .unwrap();
    }
    note.to_string()
}

fn judged(run: &Run, forge: &Forge, since: u64) -> Verdict {
    let bundle = forge.bundle();
    let verdict = auditor(run.federation())
        .witnessed_by(TrustPolicy::parse(policy().as_bytes()).unwrap(), since)
        .audit(bundle.as_slice(), &mut |_| {});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), policy()).unwrap();
    let (path, since) = (file.path().to_str().unwrap(), since.to_string());
    compare_with(&bundle, &["--witnesses", path, "--since", &since], &verdict);
    verdict.unwrap()
}

fn witnesses(verdict: &Verdict) -> &Status {
    let mut all = verdict
        .findings
        .iter()
        .filter(|finding| finding.check == CheckName::Witnesses);
    let one = &all.next().unwrap().status;
    assert!(all.next().is_none());
    println!("{}: {}", one.word(), one.reason().unwrap_or_default());
    one
}

#[test]
fn a_quorum_over_the_head_is_verified_and_anything_less_is_not() {
    let run = Run::of(two_clusters(), 61, &[&[], &[(2, 2)]]);
    let forge = Forge::of(&run);
    let (federation, head) = (forge.federation, forge.head());
    let with = |note: String, since| {
        let mut forge = forge.clone();
        forge.cosigned = Some(note);
        judged(&run, &forge, since)
    };
    let enough = cosigned(&federation, 0, head, &[(0, 100), (2, 200)]);
    let verdict = with(enough.clone(), 0);
    assert_eq!(witnesses(&verdict), &Status::Verified);
    assert!(verdict.is_verified());
    // Nobody asked for witnesses: they are no reason to refuse, and none to believe.
    let mut unasked = forge.clone();
    unasked.cosigned = Some(enough.clone());
    let plain = crate::run::audit(run.federation(), &unasked.bundle());
    assert!(plain.is_verified());
    assert!(matches!(witnesses(&plain), Status::NotCheckable(_)));

    let other_root = Head {
        root: Digest([9; 32]),
        ..head
    };
    let beyond = Head {
        size: head.size + 1,
        ..head
    };
    for (what, note, since, words) in [
        (
            "one of three",
            cosigned(&federation, 0, head, &[(1, 100)]),
            0,
            "lacks the quorum",
        ),
        (
            "nobody",
            cosigned(&federation, 0, head, &[]),
            0,
            "lacks the quorum",
        ),
        (
            "a witness the policy does not know",
            cosigned(&federation, 0, head, &[(0, 100), (5, 100)]),
            0,
            "lacks the quorum",
        ),
        (
            "one witness twice",
            cosigned(&federation, 0, head, &[(0, 100), (0, 101)]),
            0,
            "lacks the quorum",
        ),
        (
            "another tree of the same size",
            cosigned(&federation, 0, other_root, &[(0, 100), (1, 100)]),
            0,
            "forked",
        ),
        (
            "a longer log",
            cosigned(&federation, 0, beyond, &[(0, 100), (1, 100)]),
            0,
            "forked",
        ),
        (
            "another server's head",
            cosigned(&federation, 1, head, &[(0, 100), (1, 100)]),
            0,
            "no known key has signed",
        ),
        (
            "another federation's log",
            cosigned(&Digest([3; 32]), 0, head, &[(0, 100), (1, 100)]),
            0,
            "is of the log",
        ),
        ("too old", enough.clone(), 150, "from before 150"),
    ] {
        let verdict = with(note, since);
        let Status::Violated(reason) = witnesses(&verdict) else {
            panic!("{what}: {verdict}")
        };
        assert!(reason.contains(words), "{what}: {reason}");
        assert_eq!(verdict.violations().count(), 1, "{what}");
    }
    // A known witness's line that does not hold refuses the head, whatever else is on it.
    let mut note = Note::parse(cosigned(&federation, 0, head, &[(0, 100), (1, 100)]).as_bytes()).unwrap();
    note.add(key(2).cosign("another text", 100, &|text| identity(7, 2).sign_raw(text).0))
        .unwrap();
    assert!(matches!(
        witnesses(&with(note.to_string(), 0)),
        Status::Violated(_)
    ));
    // No cosigned head at all.
    assert!(matches!(witnesses(&judged(&run, &forge, 0)), Status::Violated(_)));
}

#[test]
fn sums_after_the_cosigned_head_are_not_covered() {
    let run = Run::of(two_clusters(), 62, &[&[], &[]]);
    let mut forge = Forge::of(&run);
    // As a server has it that asks before each round: the head before the last one.
    let plan = forge.all(veilsum_attestation::statement::Kind::Plan)[1];
    let before = run.log.head_at(plan as u64).unwrap();
    forge.cosigned = Some(cosigned(&forge.federation, 0, before, &[(0, 1), (1, 1)]));
    let verdict = judged(&run, &forge, 0);
    assert!(verdict.is_verified());
    let Status::NotCheckable(reason) = witnesses(&verdict) else {
        panic!("{verdict}")
    };
    assert!(reason.contains(&format!("first {plan} of")), "{reason}");
}
