//! Rules about what is opened, each broken once: agreement, reveals and sums.

use crate::hand::Hand;
use crate::rules::{OTHER, broken, dropped, tricked};
use crate::tricks::{Bend, Tricks};
use veilsum_attestation::Head;
use veilsum_attestation::audit::CheckName;
use veilsum_attestation::audit::Overall;
use veilsum_attestation::statement::*;
use veilsum_crypto::*;

#[test]
fn of_the_agreement() {
    let check = CheckName::Agreement;
    let agree = |agree| Bend {
        agree,
        ..Bend::default()
    };
    broken(
        Bend {
            silent: |kind, _| kind == Kind::Agree,
            ..Bend::default()
        },
        check,
        "without any agreement",
    );
    broken(agree(|agree| agree.plan = OTHER), check, "another plan or roster");
    broken(
        agree(|agree| agree.roster = OTHER),
        check,
        "another plan or roster",
    );
    broken(
        agree(|agree| agree.sharers = [0, 1, 2, 3].map(ClientId).into_iter().collect()),
        check,
        "other dealers",
    );
    broken(
        agree(|agree| agree.head = Head::empty()),
        check,
        "right after the last masked statement",
    );
    broken(
        agree(|agree| agree.head.size -= 1),
        check,
        "right after the last masked statement",
    );
    broken(
        agree(|agree| agree.survivors = [0, 1, 2, 3].map(ClientId).into_iter().collect()),
        check,
        "client 4 uploaded in time and is left out",
    );
    broken(
        agree(|agree| agree.survivors = [0, 1, 2, 3].map(ClientId).into_iter().collect()),
        check,
        "client 4 signed the agreement and is not among its survivors",
    );
    let revived = |agree: &mut Agree| agree.survivors = (0..5).map(ClientId).collect();
    tricked(
        dropped(agree(revived)),
        check,
        "client 4 counts as survivor and uploaded nothing",
    );
    broken(
        Bend {
            sign: |client, agree| {
                if client.0 == 3 {
                    agree.head.root = OTHER
                }
            },
            ..Bend::default()
        },
        check,
        "client 3 signed another survivor set, head or release",
    );
    broken(
        Bend {
            sign: |client, agree| {
                if client.0 > 2 {
                    agree.head.root = OTHER
                }
            },
            ..Bend::default()
        },
        check,
        "3 clients signed one agreement and 4 are needed",
    );
    let sums = |sums| Bend {
        sums,
        ..Bend::default()
    };
    broken(
        sums(|sums| sums.plan = OTHER),
        check,
        "the sums are of another plan",
    );
    broken(
        sums(|sums| sums.agreement = OTHER),
        check,
        "the sums refer to another agreement",
    );
    broken(
        sums(|sums| sums.results = BoundedVec::default()),
        check,
        "other clusters were opened",
    );
    let disclosure = CheckName::Disclosure;
    broken(
        agree(|agree| agree.release = BoundedVec::default()),
        disclosure,
        "opens nothing",
    );
    broken(
        agree(|agree| agree.release = BoundedVec::new(vec![ClusterId(0), ClusterId(1)]).unwrap()),
        disclosure,
        "where the rule gives",
    );
    broken(
        agree(|agree| agree.survivors = [0, 1, 2, 3, 77].map(ClientId).into_iter().collect()),
        disclosure,
        "the release: client 77",
    );
}

#[test]
fn of_reveals() {
    let check = CheckName::Reveals;
    let reveal = |reveal| Bend {
        reveal,
        ..Bend::default()
    };
    let intruders = || Bend {
        intruders: vec![4],
        silent: |kind, client| kind == Kind::Agree && client.0 == 4,
        ..Bend::default()
    };
    tricked(
        dropped(intruders()),
        check,
        "client 4 revealed without having signed the agreement",
    );
    broken(
        reveal(|client, body| {
            if client.0 == 1 {
                body.agreement = OTHER
            }
        }),
        check,
        "client 1 answered another agreement",
    );
    let unasked = |client: ClientId, body: &mut Reveal| {
        if client.0 == 1 {
            let share = MaskShare {
                owner: ClientId(0),
                share: [1; 32],
            };
            body.mask_shares = BoundedVec::new(vec![share]).unwrap();
        }
    };
    broken(
        reveal(unasked),
        check,
        "client 1 revealed a mask share of client 0, who did not drop",
    );
    broken(reveal(unasked), CheckName::OneKind, "client 0");
    let withheld = |client: ClientId, body: &mut Reveal| {
        if client.0 == 1 {
            body.mask_shares = BoundedVec::default();
        }
    };
    tricked(
        dropped(reveal(withheld)),
        check,
        "client 1 withheld its mask share of client 4",
    );
    tricked(
        dropped(reveal(withheld)),
        CheckName::MaskSecrets,
        "only 3 good shares of the mask secret of client 4",
    );
    let kept = |client: ClientId, body: &mut Reveal| {
        if client.0 == 1 {
            body.self_shares = BoundedVec::new(body.self_shares[1..].to_vec()).unwrap();
        }
    };
    broken(
        reveal(kept),
        check,
        "client 1 withheld its self-mask share of client 0",
    );
    broken(
        reveal(kept),
        CheckName::SelfSeeds,
        "only 3 good shares of the self-mask of client 0",
    );
    let turned = |client: ClientId, body: &mut Reveal| {
        if client.0 == 1 {
            let mut shares = body.self_shares.to_vec();
            shares.swap(0, 1);
            body.self_shares = BoundedVec::new(shares).unwrap();
        }
    };
    broken(
        reveal(turned),
        check,
        "client 1 revealed a share twice, or out of order",
    );
    let twice = |client: ClientId, body: &mut Reveal| {
        if client.0 == 1 {
            let mut shares = body.self_shares.to_vec();
            shares.insert(0, shares[0]);
            body.self_shares = BoundedVec::new(shares).unwrap();
        }
    };
    broken(
        reveal(twice),
        check,
        "client 1 revealed a share twice, or out of order",
    );
    let other = |client: ClientId, body: &mut Reveal| {
        if client.0 == 1 {
            let mut share = body.self_shares[0];
            share.cluster = ClusterId(1);
            body.self_shares =
                BoundedVec::new([&body.self_shares[..1], &[share], &body.self_shares[1..]].concat()).unwrap();
        }
    };
    broken(
        reveal(other),
        check,
        "client 1 revealed a self-mask share of client 0 for cluster 1, which was not to be opened",
    );
    let wrong = |client: ClientId, body: &mut Reveal| {
        if client.0 == 1 {
            let mut shares = body.mask_shares.to_vec();
            shares[0].share[0] ^= 1;
            body.mask_shares = BoundedVec::new(shares).unwrap();
        }
    };
    tricked(
        dropped(reveal(wrong)),
        CheckName::Shares,
        "client 1 revealed another mask share of client 4 than it was dealt",
    );
    let large = |client: ClientId, body: &mut Reveal| {
        if client.0 == 1 {
            let mut shares = body.self_shares.to_vec();
            shares[0].share = [0xff; 32];
            body.self_shares = BoundedVec::new(shares).unwrap();
        }
    };
    broken(
        reveal(large),
        CheckName::Shares,
        "client 1 revealed another self-mask share of client 0",
    );
}

#[test]
fn of_sums() {
    let sums = |sums| Bend {
        sums,
        ..Bend::default()
    };
    let check = CheckName::Sums;
    broken(
        sums(|sums| one(sums, |one| one.contributors = 4)),
        check,
        "4 clients are said to be in the sum of cluster 0, 5 are",
    );
    broken(
        sums(|sums| one(sums, |one| one.cluster = ClusterId(1))),
        check,
        "cluster 1 was opened and is not in the plan",
    );
    broken(
        sums(|sums| one(sums, |one| one.weight += 1)),
        check,
        "the weight of cluster 0 is",
    );
    broken(
        sums(|sums| one(sums, |one| one.sum = OTHER)),
        check,
        "is not the sum of its members' vectors",
    );
    broken(
        sums(|sums| one(sums, |one| one.model = OTHER)),
        CheckName::Models,
        "is not its old one plus the mean update",
    );
    broken(
        Bend {
            masked: |client, body| {
                if client.0 == 1 {
                    body.vectors = BoundedVec::default()
                }
            },
            ..Bend::default()
        },
        check,
        "is not over exactly its surviving members",
    );
    // A member whose weight cancels the others': the sum is nobody's.
    let mut hand = Hand::new();
    hand.attempt(
        1,
        0,
        &Tricks {
            weightless: Some(4),
            ..Tricks::default()
        },
    );
    // Whoever spoilt the weight cannot be told, and the server did nothing wrong: the model stays.
    let verdict = hand.audit();
    assert_eq!(verdict.overall, Overall::Verified, "{verdict}");
}

fn one(sums: &mut Sums, change: fn(&mut ClusterResult)) {
    let mut one = sums.results[0];
    change(&mut one);
    sums.results = BoundedVec::new(vec![one]).unwrap();
}
