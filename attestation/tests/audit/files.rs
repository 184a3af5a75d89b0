//! What is handed out: vectors that went by the policy's window, and files of other tiers with any byte changed. Both
//! verifiers are asked.

use crate::hand::Hand;
use crate::tricks::{Founding, Tricks};
use crate::violated;
use veilsum_attestation::audit::{CheckName, Status, Verdict};
use veilsum_attestation::bundle::tier::Tier;
use veilsum_attestation::statement::{ClusteringRule, ThresholdRule};
use veilsum_crypto::ClientId;

/// Three published rounds under a policy.
fn three(founding: &Founding) -> Hand {
    let mut hand = Hand::founded(founding);
    for round in 1..=3 {
        hand.attempt(round, 0, &Tricks::default());
    }
    hand
}

/// What both verifiers say of the bundle without the vectors of some rounds, when they are told a window.
fn said(hand: &Hand, gone: &[u64], told: Option<u64>) -> Verdict {
    let bundle = hand.bundle(gone);
    let (auditor, text) = (Hand::auditor(), told.unwrap_or_default().to_string());
    let (auditor, options) = match told {
        Some(rounds) => (auditor.keeping(rounds), vec!["--keep-rounds", &*text]),
        None => (auditor, vec![]),
    };
    let verdict = auditor.audit(bundle.as_slice(), &mut |_| {}).unwrap();
    if let Some(second) = Hand::second(&[bundle], &options) {
        assert_eq!(second, [verdict.overall.to_string()], "{verdict}");
    }
    verdict
}

#[test]
fn the_window_everybody_signed_is_kept_to_the_round() {
    let hand = three(&Founding {
        policy: |policy| policy.keep_rounds = 2,
        ..Founding::default()
    });
    // Nothing gone, or what may be.
    assert_eq!(violated(&said(&hand, &[], None)), []);
    let verdict = said(&hand, &[1], None);
    assert_eq!(violated(&verdict), []);
    for check in [CheckName::Vectors, CheckName::Sums] {
        let open = verdict.findings.iter().any(|finding| {
            finding.check == check
                && finding.round.is_some_and(|round| round.0 == 1)
                && finding.status == Status::NotCheckable("vectors gone by retention".to_owned())
        });
        assert!(open, "{verdict}");
    }
    // Too early, whatever the auditor was told; and the policy's word stands where he was told a longer window.
    for told in [None, Some(1), Some(2), Some(9)] {
        assert_eq!(
            violated(&said(&hand, &[2], told)),
            [CheckName::Vectors],
            "{told:?}"
        );
        assert_eq!(violated(&said(&hand, &[1], told)), [], "{told:?}");
    }
    // Without a window in the policy, what the auditor was told counts, and nothing may be gone when he was told nothing.
    let hand = three(&Founding::default());
    assert_eq!(violated(&said(&hand, &[1], Some(2))), []);
    assert_eq!(violated(&said(&hand, &[1], Some(3))), [CheckName::Vectors]);
    assert_eq!(violated(&said(&hand, &[1], None)), [CheckName::Vectors]);
}

/// Every byte of a file changed in turn by one bit, and one of it cut off: never verified. The second verifier takes a
/// sample.
fn never_verified(file: &[u8]) {
    let auditor = Hand::auditor();
    let verified = |bytes: &[u8]| {
        let verdict = auditor.audit(bytes, &mut |_| {});
        verdict.is_ok_and(|verdict| verdict.is_verified())
    };
    assert!(verified(file));
    let bent = |at: usize| {
        let mut bent = file.to_vec();
        bent[at] ^= 1 << (at % 8);
        bent
    };
    for at in 0..file.len() {
        assert!(!verified(&bent(at)), "byte {at} of {}", file.len());
    }
    let mut sample = vec![file.to_vec()];
    sample.extend((0..file.len()).step_by(file.len() / 60 + 1).map(bent));
    let wanted = sample.len();
    if let Some(second) = Hand::second(&sample, &[]) {
        assert_eq!((second.len(), second[0].as_str()), (wanted, "verified"));
        for (place, said) in second.iter().enumerate().skip(1) {
            assert!(
                ["violated", "unreadable"].contains(&said.as_str()),
                "{place}: {said}"
            );
        }
    }
}

#[test]
fn no_byte_of_a_members_file_can_be_changed() {
    let mut hand = Hand::new();
    hand.attempt(
        1,
        0,
        &Tricks {
            dropped: vec![0],
            ..Tricks::default()
        },
    );
    never_verified(&hand.subset(Tier::Member(ClientId(2))));
}

#[test]
fn no_byte_of_a_public_file_can_be_changed() {
    let mut hand = Hand::new();
    hand.attempt(1, 0, &Tricks::default());
    never_verified(&hand.subset(Tier::Public));
}

#[test]
fn no_byte_of_a_plan_auditors_statements_can_be_changed() {
    let mut hand = Hand::founded(&Founding {
        policy: |policy| {
            policy.clustering = Some(ClusteringRule {
                threshold: ThresholdRule::Gap,
                every: 0,
                images: 8,
                channels: 1,
                noise: None,
            });
        },
        ..Founding::default()
    });
    for client in 0..5 {
        hand.describe(client, 1, |_| {});
    }
    hand.attempt(1, 0, &Tricks::default());
    never_verified(&hand.subset(Tier::Plan));
}
