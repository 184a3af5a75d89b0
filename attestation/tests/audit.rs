//! The auditor against rounds made by hand: one test plays the authority, the server and all clients, holds every secret,
//! and so can break rules that no later edit can break with the signatures still holding. Rounds of the real machines are
//! audited beside those machines.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

#[path = "audit/clustering.rs"]
mod clustering;
#[path = "audit/files.rs"]
mod files;
#[path = "audit/hand.rs"]
mod hand;
#[path = "audit/opening.rs"]
mod opening;
#[path = "audit/rules.rs"]
mod rules;
#[path = "audit/tricks.rs"]
mod tricks;

use hand::Hand;
use tricks::{Finish, Tricks};
use veilsum_attestation::audit::{CheckName, Progress, Status, Verdict};

/// The checks that found something, each once.
fn violated(verdict: &Verdict) -> Vec<CheckName> {
    let mut names: Vec<_> = verdict.violations().map(|finding| finding.check).collect();
    names.sort();
    names.dedup();
    names
}

fn one(tricks: &Tricks) -> Verdict {
    let mut hand = Hand::new();
    hand.attempt(1, 0, tricks);
    hand.audit()
}

#[test]
fn rounds_made_by_hand_are_verified() {
    let mut hand = Hand::new();
    hand.attempt(1, 0, &Tricks::default());
    hand.attempt(
        2,
        0,
        &Tricks {
            dropped: vec![2],
            ..Tricks::default()
        },
    );
    // More than t reveal: every t of them must give the same secrets, and do.
    hand.attempt(
        3,
        0,
        &Tricks {
            dropped: vec![0],
            revealers: 5,
            ..Tricks::default()
        },
    );
    let (mut done, mut rounds) = (0, Vec::new());
    let verdict = hand.audit_with(&mut |progress| {
        if let Progress::Vectors {
            round,
            done: now,
            total,
        } = progress
        {
            assert_eq!((now, total), (done + 1, 13));
            done = now;
            rounds.push(round.0);
        }
    });
    assert_eq!(violated(&verdict), [], "{verdict}");
    assert_eq!(done, 13);
    assert!(rounds.is_sorted());
    let models = verdict
        .findings
        .iter()
        .filter(|finding| finding.check == CheckName::Models);
    assert!(models.clone().all(|finding| finding.status == Status::Verified));
    assert_eq!(
        models.count(),
        6,
        "twice an attempt: where it starts, where it ends"
    );
}

#[test]
fn a_dealer_whose_shares_are_not_what_it_committed_to() {
    let cheat = |finish| Tricks {
        false_commitment: Some(1),
        finish,
        ..Tricks::default()
    };
    // Published all the same: the commitment does not hold.
    let verdict = one(&cheat(Finish::Sums));
    assert_eq!(violated(&verdict), [CheckName::SelfSeeds], "{verdict}");
    let named = verdict.violations().next().unwrap();
    assert!(named.status.reason().unwrap().starts_with("client 1 dealt"));
    // Aborted with the right one blamed: all in order, and nothing was opened.
    let verdict = one(&cheat(Finish::Aborted("BadDealer", vec![1])));
    assert_eq!(violated(&verdict), [], "{verdict}");
    assert_eq!(verdict.rounds[0].aborted.as_deref(), Some("BadDealer"));
    // Aborted with another one blamed.
    let verdict = one(&cheat(Finish::Aborted("BadDealer", vec![3])));
    assert_eq!(
        violated(&verdict),
        [CheckName::SelfSeeds, CheckName::Ending],
        "{verdict}"
    );
    // The dealer of an honest round blamed.
    let verdict = one(&Tricks {
        finish: Finish::Aborted("BadDealer", vec![1]),
        ..Tricks::default()
    });
    assert_eq!(violated(&verdict), [CheckName::Ending], "{verdict}");
}

#[test]
fn shares_on_a_polynomial_of_too_high_a_degree() {
    // The first t shares give the committed seed; others do not. With t reveals nobody can tell.
    let tricks = Tricks {
        high_degree: Some(3),
        ..Tricks::default()
    };
    assert_eq!(violated(&one(&tricks)), []);
    let verdict = one(&Tricks {
        revealers: 5,
        ..tricks
    });
    assert_eq!(violated(&verdict), [CheckName::SelfSeeds], "{verdict}");
}

#[test]
fn a_dropped_client_whose_mask_shares_are_of_another_secret() {
    let verdict = one(&Tricks {
        dropped: vec![4],
        false_mask_shares: Some(4),
        ..Tricks::default()
    });
    assert_eq!(violated(&verdict), [CheckName::MaskSecrets], "{verdict}");
}

#[test]
fn keys_used_twice() {
    let mut hand = Hand::new();
    hand.attempt(1, 0, &Tricks::default());
    hand.attempt(
        2,
        0,
        &Tricks {
            old_keys: Some(2),
            ..Tricks::default()
        },
    );
    let verdict = hand.audit();
    assert_eq!(violated(&verdict), [CheckName::Roster], "{verdict}");
    assert!(
        verdict
            .violations()
            .next()
            .unwrap()
            .status
            .reason()
            .unwrap()
            .starts_with("client 2")
    );
}

#[test]
fn masks_over_other_dealers_than_the_log_holds() {
    let verdict = one(&Tricks {
        other_sharers: Some(2),
        ..Tricks::default()
    });
    assert_eq!(violated(&verdict), [CheckName::Roster], "{verdict}");
}

#[test]
fn a_client_on_another_head() {
    let verdict = one(&Tricks {
        other_head: Some(2),
        ..Tricks::default()
    });
    assert_eq!(violated(&verdict), [CheckName::Heads], "{verdict}");
}

#[test]
fn a_sum_over_masks_that_do_not_cancel() {
    // One client leaves a mask out; the server publishes what comes out. The sum is then what the log says it is, garbage
    // and all; its weight is none that so many clients can have, so the model stays, and the verdict says so.
    let verdict = one(&Tricks {
        bare: Some(2),
        ..Tricks::default()
    });
    assert_eq!(violated(&verdict), [], "{verdict}");
    assert!(
        verdict
            .to_string()
            .contains("which 5 clients cannot have together"),
        "{verdict}"
    );
}

#[test]
fn a_round_that_begins_before_the_last_one() {
    for (round, attempt, fine) in [
        (3, 0, true),
        (2, 1, false),
        (2, 0, false),
        (1, 0, false),
        (101, 0, false),
        (0, 0, false),
    ] {
        let mut hand = Hand::new();
        hand.attempt(2, 0, &Tricks::default());
        hand.attempt(round, attempt, &Tricks::default());
        let verdict = hand.audit();
        // Two attempts of one number share the names of their vectors, so more than the plan is at odds then.
        assert_eq!(
            violated(&verdict).first(),
            (!fine).then_some(&CheckName::Plan),
            "round {round}, {attempt}: {verdict}"
        );
    }
}

#[test]
fn aborts_that_say_what_the_log_says() {
    let early = |reveals, reason| Tricks {
        revealers: reveals,
        finish: Finish::Aborted(reason, vec![]),
        ..Tricks::default()
    };
    assert_eq!(violated(&one(&early(3, "TooFewReveal"))), []);
    assert_eq!(violated(&one(&early(0, "TooFewReveal"))), []);
    for (reveals, reason) in [
        (4, "TooFewReveal"),
        (3, "TooFewAgree"),
        (3, "TooFewMasked"),
        (3, "ReleaseLeaks"),
    ] {
        let verdict = one(&early(reveals, reason));
        assert_eq!(violated(&verdict), [CheckName::Ending], "{reason}: {verdict}");
    }
    // Somebody is blamed where nobody is at fault.
    let blamed = Tricks {
        revealers: 3,
        finish: Finish::Aborted("TooFewReveal", vec![4]),
        ..Tricks::default()
    };
    assert_eq!(violated(&one(&blamed)), [CheckName::Ending]);
    // A reason that leaves no trace, and an attempt without an end: open, not wrong.
    for finish in [Finish::Aborted("Internal", vec![]), Finish::Nothing] {
        let verdict = one(&Tricks {
            revealers: 3,
            finish,
            ..Tricks::default()
        });
        assert_eq!(violated(&verdict), []);
        let ending = verdict
            .findings
            .iter()
            .find(|finding| finding.check == CheckName::Ending)
            .unwrap();
        assert!(matches!(ending.status, Status::NotCheckable(_)), "{verdict}");
    }
    assert_eq!(
        violated(&one(&Tricks {
            finish: Finish::Nothing,
            ..Tricks::default()
        })),
        [CheckName::Ending]
    );
}
