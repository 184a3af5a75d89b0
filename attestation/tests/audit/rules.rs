//! Every rule broken once, by statements that are otherwise in order and signed: the check it belongs to says so, in words
//! of its own.

use crate::hand::Hand;
use crate::tricks::{Bend, Finish, Founding, Tricks};
use veilsum_attestation::Head;
use veilsum_attestation::audit::{CheckName, Verdict};
use veilsum_attestation::statement::*;
use veilsum_crypto::*;

/// Demands a violation of the check in these words.
pub(crate) fn says(verdict: &Verdict, check: CheckName, words: &str) {
    let found = verdict
        .violations()
        .any(|finding| finding.check == check && finding.status.reason().unwrap().contains(words));
    assert!(found, "{check}: {words}\n{verdict}");
}

pub(crate) fn broken(bend: Bend, check: CheckName, words: &str) {
    tricked(
        Tricks {
            bend,
            ..Tricks::default()
        },
        check,
        words,
    );
}

pub(crate) fn tricked(tricks: Tricks, check: CheckName, words: &str) {
    let mut hand = Hand::new();
    hand.attempt(1, 0, &tricks);
    says(&hand.audit(), check, words);
}

/// With client 4 dropped.
pub(crate) fn dropped(bend: Bend) -> Tricks {
    Tricks {
        dropped: vec![4],
        bend,
        ..Tricks::default()
    }
}

pub(crate) const OTHER: Digest = Digest([0x77; 32]);

#[test]
fn of_enrolment() {
    let founded = |founding: Founding, words: &str| {
        let mut hand = Hand::founded(&founding);
        hand.attempt(1, 0, &Tricks::default());
        says(&hand.audit(), CheckName::Enrolment, words);
    };
    let base = Founding::default;
    founded(
        Founding {
            enrolled_by: Party::Server,
            ..base()
        },
        "a member is enrolled by the server",
    );
    founded(
        Founding {
            policy: |policy| policy.name = BoundedVec::new(b"else".to_vec()).unwrap(),
            ..base()
        },
        "of the federation",
    );
    founded(
        Founding {
            policy: |policy| policy.threshold = 3,
            ..base()
        },
        "policy is unsafe",
    );
    founded(
        Founding {
            policy: |policy| policy.clients = 6,
            ..base()
        },
        "6 clients and 5 are enrolled",
    );
    founded(
        Founding {
            policy: |policy| policy.members = OTHER,
            ..base()
        },
        "other members than those enrolled",
    );
    let renumber = |member: &mut Member| member.client.0 += u32::from(member.client.0 == 4);
    founded(
        Founding {
            member: renumber,
            ..base()
        },
        "without gaps",
    );
    let share = |member: &mut Member| member.key = Identity::from_seed(&[3; 32]).unwrap().public();
    founded(
        Founding {
            member: share,
            ..base()
        },
        "has a key that another party has too",
    );
    let weak = |member: &mut Member| member.key.0 = [0; 32];
    founded(
        Founding {
            member: weak,
            ..base()
        },
        "the key of client 0 is weak",
    );
}

#[test]
fn of_plans() {
    broken(
        Bend {
            plan: |plan| plan.clusters = BoundedVec::default(),
            ..Bend::default()
        },
        CheckName::Plan,
        "no cluster",
    );
    let stranger = |plan: &mut Plan| {
        let mut one = plan.clusters[0].clone();
        one.members = one.members.iter().copied().chain([ClientId(77)]).collect();
        plan.clusters = BoundedVec::new(vec![one]).unwrap();
    };
    broken(
        Bend {
            plan: stranger,
            ..Bend::default()
        },
        CheckName::Plan,
        "client 77 is in the plan and not enrolled",
    );
    broken(
        Bend {
            plan: |plan| plan.policy = OTHER,
            ..Bend::default()
        },
        CheckName::Plan,
        "another policy",
    );
    let small = |plan: &mut Plan| {
        let mut two = vec![plan.clusters[0].clone(); 2];
        two[1].members = [0, 1, 2].map(ClientId).into_iter().collect();
        plan.clusters = BoundedVec::new(two).unwrap();
    };
    broken(
        Bend {
            plan: small,
            ..Bend::default()
        },
        CheckName::Disclosure,
        "the plan leaks",
    );
    let without = |plan: &mut Plan| {
        let mut one = plan.clusters[0].clone();
        one.members = one
            .members
            .iter()
            .copied()
            .filter(|client| client.0 != 4)
            .collect();
        plan.clusters = BoundedVec::new(vec![one]).unwrap();
    };
    broken(
        Bend {
            plan: without,
            ..Bend::default()
        },
        CheckName::Phases,
        "client 4 joined without being in the plan",
    );
    broken(
        Bend {
            plan: |plan| plan.head = Head::empty(),
            ..Bend::default()
        },
        CheckName::Heads,
        "forked or rolled back",
    );
}

#[test]
fn of_the_roster() {
    let check = CheckName::Roster;
    let keys = |keys| Bend {
        keys,
        ..Bend::default()
    };
    broken(
        keys(|client, keys| {
            if client.0 == 1 {
                keys.plan = OTHER
            }
        }),
        check,
        "client 1 joined another plan",
    );
    broken(
        keys(|client, keys| {
            if client.0 == 1 {
                keys.commitments = BoundedVec::default()
            }
        }),
        check,
        "client 1 commits to seeds of other clusters",
    );
    broken(
        keys(|client, keys| {
            if client.0 == 1 {
                keys.box_key.0 = [0xff; 32]
            }
        }),
        check,
        "a round key of client 1 is no key",
    );
    broken(
        keys(|client, keys| {
            if client.0 == 1 {
                keys.mask_key.0 = [0; 32]
            }
        }),
        check,
        "a round key of client 1 is no key",
    );
    let shares = |shares| Bend {
        shares,
        ..Bend::default()
    };
    broken(
        shares(|client, body| {
            if client.0 == 1 {
                body.roster = OTHER
            }
        }),
        check,
        "client 1 dealt shares for another",
    );
    broken(
        shares(|client, body| {
            if client.0 == 1 {
                body.plan = OTHER
            }
        }),
        check,
        "client 1 dealt shares for another",
    );
    broken(
        shares(|client, body| {
            if client.0 == 1 {
                body.digests = BoundedVec::default()
            }
        }),
        check,
        "client 1 states 0 shares where 10 are due",
    );
    let masked = |masked| Bend {
        masked,
        ..Bend::default()
    };
    broken(
        masked(|client, body| {
            if client.0 == 1 {
                body.roster = OTHER
            }
        }),
        check,
        "client 1 masked for another plan",
    );
    broken(
        masked(|client, body| {
            if client.0 == 1 {
                body.plan = OTHER
            }
        }),
        check,
        "client 1 masked for another plan",
    );
    broken(
        masked(|client, body| {
            if client.0 == 1 {
                body.vectors = BoundedVec::new([body.vectors[0]; 2].to_vec()).unwrap()
            }
        }),
        check,
        "client 1 masked for other clusters",
    );
    let longer = |client: ClientId, body: &mut Masked| {
        let mut vector = body.vectors[0];
        vector.bytes += u64::from(client.0 == 1);
        body.vectors = BoundedVec::new(vec![vector]).unwrap();
    };
    broken(
        masked(longer),
        check,
        "a masked vector of client 1 has another length",
    );
}

#[test]
fn of_phases_and_thresholds() {
    let silent = |silent| Bend {
        silent,
        ..Bend::default()
    };
    broken(
        silent(|kind, client| kind == Kind::Shares && client.0 == 1),
        CheckName::Phases,
        "client 1 masked without having dealt shares",
    );
    broken(
        silent(|kind, client| kind == Kind::Keys && client.0 == 1),
        CheckName::Phases,
        "client 1 dealt shares without keys",
    );
    broken(
        silent(|kind, client| kind == Kind::Agree && client.0 == 1),
        CheckName::Phases,
        "client 1 revealed without having signed",
    );
    broken(
        Bend {
            sign: |_, agree| agree.server = Signature([7; 64]),
            ..Bend::default()
        },
        CheckName::Agreement,
        "the server never signed the proposal",
    );
    let intruders = || Bend {
        intruders: vec![4],
        ..Bend::default()
    };
    tricked(
        dropped(intruders()),
        CheckName::Phases,
        "client 4 signed the agreement without having uploaded",
    );
    let check = CheckName::Threshold;
    broken(
        silent(|kind, client| kind == Kind::Keys && client.0 < 2),
        check,
        "3 clients sent keys",
    );
    broken(
        silent(|kind, client| kind == Kind::Shares && client.0 < 2),
        check,
        "3 clients dealt shares",
    );
    broken(
        silent(|kind, client| kind == Kind::Agree && client.0 < 2),
        check,
        "3 clients signed the agreement",
    );
    tricked(
        Tricks {
            dropped: vec![3, 4],
            ..Tricks::default()
        },
        check,
        "3 clients uploaded",
    );
    tricked(
        Tricks {
            revealers: 3,
            ..Tricks::default()
        },
        check,
        "3 clients revealed",
    );
}

#[test]
fn of_endings() {
    let check = CheckName::Ending;
    let late = |attempt, client| Late {
        round: RoundId(1),
        attempt: Attempt(attempt),
        client: ClientId(client),
        digest: OTHER,
    };
    let with = |late| Bend {
        late: Some(late),
        ..Bend::default()
    };
    let mut hand = Hand::new();
    hand.attempt(1, 0, &dropped(with(late(0, 4))));
    assert!(hand.audit().is_verified());
    broken(with(late(1, 4)), check, "late in another attempt than its own");
    broken(with(late(0, 77)), check, "client 77 was late and is not enrolled");
    let aborted = |aborted: fn(&mut Aborted)| Tricks {
        revealers: 3,
        finish: Finish::Aborted("TooFewReveal", vec![]),
        bend: Bend {
            aborted,
            ..Bend::default()
        },
        ..Tricks::default()
    };
    tricked(
        aborted(|body| body.attempt.0 = 1),
        check,
        "the abort is of another attempt",
    );
    tricked(
        aborted(|body| body.phase = Phase::Agree),
        check,
        "aborted in phase agree with statements of a later one",
    );
    tricked(
        aborted(|body| body.phase = Phase::Mask),
        check,
        "aborted in phase mask with statements of a later one",
    );
}
