//! The disclosure rule against full enumeration, known attacks, and hostile plans.
//!
//! The oracle knows nothing of atoms, bases or primes: it deletes every set of clients (or organisations), by
//! size, and asks whether the integer rank fell.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "test helpers index what they built"
)]

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Instant;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use veilsum_attestation::disclosure::{
    BlockProof, Certificate, Cover, CrowdRule, Exposure, Membership, MembershipError, Proof, Undecided,
    Verdict, Window, Withheld, check, check_within, clusters_you_can_have, crowd, leverages, parity,
    parity_support, release_set,
};

#[path = "disclosure/plan.rs"]
mod plan;
use plan::{Plan, below, dense, determinant_is_the_prime, permutation, soft};

#[test]
fn agrees_with_full_enumeration() {
    let mut rng = ChaCha20Rng::seed_from_u64(0x6469_7363);
    let (mut safe, mut exposed, mut proofs) = (0, 0, [0; 3]);
    for case in 0..6_000 {
        let plan = Plan::random(&mut rng);
        let truth = [Cover::Clients, Cover::Organisations].map(|cover| plan.least(cover, 99));
        // Half of the rules sit on the edge: exactly what is covered, or one more.
        let edge = |least: Option<u32>, rng: &mut ChaCha20Rng| match least {
            Some(least) if below(rng, 2) == 0 => least + below(rng, 3) / 2,
            _ => below(rng, 7),
        };
        let rule = CrowdRule {
            crowd: edge(truth[0], &mut rng),
            crowd_orgs: edge(truth[1], &mut rng),
        };
        let clients = truth[0].filter(|least| *least < rule.crowd);
        let organisations = truth[1].filter(|least| *least < rule.crowd_orgs);
        let matrix = plan.matrix();
        match check(&matrix, &plan.orgs, &rule) {
            Verdict::Safe(certificate) => {
                safe += 1;
                assert_eq!(
                    (clients, organisations),
                    (None, None),
                    "case {case}: {plan:?} {rule:?}"
                );
                assert!(certificate.verify(&matrix, &plan.orgs, &rule), "case {case}");
                tally(&certificate, &mut proofs);
            }
            Verdict::Exposed(exposure) => {
                exposed += 1;
                let (cover, least) = match clients {
                    Some(least) => (Cover::Clients, least),
                    None => (
                        Cover::Organisations,
                        organisations.expect("the oracle finds it safe"),
                    ),
                };
                assert_eq!(
                    (exposure.cover, exposure.covered),
                    (cover, least),
                    "case {case}: {plan:?} {rule:?}"
                );
                assert!(exposure.verify(&matrix, &plan.orgs), "case {case}: {exposure:?}");
            }
            Verdict::Undecided(reason) => panic!("case {case}: {reason}"),
        }
    }
    println!("{safe} safe (atoms, bases, search: {proofs:?}), {exposed} exposed");
    assert!(safe > 1_000 && exposed > 1_000 && proofs.iter().all(|proofs| *proofs > 100));
}

#[test]
fn no_small_combination_of_a_larger_plan_beats_the_verdict() {
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let mut equal = 0;
    for case in 0..150 {
        let k = 3 + case % 4;
        let matrix = soft(&mut rng, 32 + case % 10, k, 40);
        let orgs: Vec<u32> = (0..41).collect();
        let orgs = &orgs[..matrix.clients()];
        // All multipliers from -2 to 2.
        let mut least = usize::MAX;
        for choice in 0..5_i32.pow(u32::try_from(k).unwrap()) {
            let factor = |cluster: usize| choice / 5_i32.pow(u32::try_from(cluster).unwrap()) % 5 - 2;
            let value = |client: &usize| -> i32 {
                (0..k)
                    .filter(|cluster| matrix.contains(*cluster, *client))
                    .map(factor)
                    .sum()
            };
            let support = (0..matrix.clients()).filter(|client| value(client) != 0).count();
            least = least.min(if support == 0 { usize::MAX } else { support });
        }
        let Verdict::Exposed(exposure) = check(&matrix, orgs, &rule(42, 0)) else {
            panic!("42 of 41")
        };
        assert!(
            exposure.verify(&matrix, orgs) && exposure.covered as usize <= least,
            "case {case}"
        );
        assert!(check(&matrix, orgs, &rule(exposure.covered, exposure.covered)).is_safe());
        equal += usize::from(exposure.covered as usize == least);
    }
    assert!(equal > 140, "{equal}");
}

#[test]
fn the_order_of_rows_and_columns_does_not_matter() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    for _ in 0..1_000 {
        let plan = Plan::random(&mut rng);
        let rule = CrowdRule {
            crowd: 2 + below(&mut rng, 5),
            crowd_orgs: 1 + below(&mut rng, 3),
        };
        let columns = permutation(&mut rng, plan.orgs.len());
        let rows = permutation(&mut rng, plan.rows.len());
        let other = Plan {
            rows: rows
                .iter()
                .map(|row| columns.iter().map(|column| plan.rows[*row][*column]).collect())
                .collect(),
            orgs: columns.iter().map(|column| plan.orgs[*column]).collect(),
        };
        let (one, two) = (plan.check(rule), other.check(rule));
        assert_eq!(summary(&one), summary(&two));
        assert_eq!(one, plan.check(rule));
    }
}

#[test]
fn removing_clients_lowers_the_cover_by_no_more() {
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    for _ in 0..500 {
        let plan = Plan::random(&mut rng);
        let n = plan.orgs.len();
        let before = plan.least(Cover::Clients, 99).map_or(0, i64::from);
        let gone = below(&mut rng, 4) as usize;
        let survivors: Vec<usize> = permutation(&mut rng, n).into_iter().skip(gone).collect();
        let left = plan.matrix().restrict(&survivors);
        let needed = before - i64::try_from(gone).unwrap();
        if needed > 0 {
            let rule = rule(u32::try_from(needed).unwrap(), 0);
            assert!(
                check(&left, &plan.orgs, &rule).is_safe(),
                "{plan:?} without {gone}"
            );
        }
    }
}

#[test]
fn clusters_that_differ_in_one_client_expose_it() {
    let exposure = exposure(5, &[&[0, 1, 2, 3], &[0, 1, 2, 3, 4]], 2);
    assert_eq!(exposure.clients, [4]);
    assert_eq!(exposure.coefficients, [(0, 1), (1, -1)]);
    assert_eq!((exposure.covered, exposure.required), (1, 2));
    assert_eq!(
        Verdict::Exposed(exposure).to_string(),
        "exposed: sum[0] - sum[1] covers 1 client(s) where 2 are required: clients [4]"
    );
}

#[test]
fn a_cluster_of_one_exposes_it() {
    let exposure = exposure(6, &[&[0, 1, 2, 3, 4], &[5]], 2);
    assert_eq!((exposure.clients, exposure.coefficients), (vec![5], vec![(1, 1)]));
}

#[test]
fn a_triangle_exposes_each_corner() {
    let exposure = exposure(3, &[&[0, 1], &[1, 2], &[0, 2]], 2);
    assert_eq!((exposure.clients.len(), exposure.coefficients.len()), (1, 3));
}

#[test]
fn three_pairwise_clusters_pass_over_the_integers_and_leak_a_parity() {
    // Ten clients in each pair of three clusters, client 30 in the first alone.
    let mut members = vec![Vec::new(); 3];
    for client in 0..30 {
        for cluster in (0..3).filter(|cluster| *cluster != client / 10) {
            members[cluster].push(client);
        }
    }
    members[0].push(30);
    let matrix = Membership::from_members(31, &members).unwrap();
    let orgs = vec![0; 31];
    let rule = |crowd| CrowdRule { crowd, crowd_orgs: 1 };
    assert!(check(&matrix, &orgs, &rule(11)).is_safe());
    let Verdict::Exposed(exposure) = check(&matrix, &orgs, &rule(12)) else {
        panic!("11 are covered")
    };
    assert_eq!(exposure.covered, 11);
    assert_eq!(parity_support(&matrix), Some(1));
    assert!((crowd(&matrix) - 10.2).abs() < 0.05, "{}", crowd(&matrix));
}

#[test]
fn nothing_released_and_repeated_or_empty_clusters_are_harmless() {
    let rule = rule(3, 2);
    let orgs = [1, 1, 2, 2, 3];
    let safe = |members: &[Vec<usize>]| {
        let matrix = Membership::from_members(5, members).unwrap();
        let verdict = check(&matrix, &orgs, &rule);
        let Verdict::Safe(certificate) = &verdict else {
            return false;
        };
        certificate.verify(&matrix, &orgs, &rule)
    };
    assert!(safe(&[]));
    assert!(safe(&[vec![], vec![]]));
    assert!(safe(&[vec![0, 1, 2], vec![0, 1, 2], vec![]]));
    assert!(!safe(&[vec![0, 1, 2], vec![1, 2]]));
    let empty = Membership::new(Vec::new()).unwrap();
    assert!(check(&empty, &[], &rule).is_safe());
    assert!(crowd(&empty).is_infinite());
    assert_eq!(parity_support(&empty), None);
}

#[test]
fn clients_of_one_maker_count_once() {
    // Six clients in every difference, but one maker behind them.
    let matrix = Membership::from_members(12, &[(0..12).collect(), (0..6).collect()]).unwrap();
    let orgs = [1, 1, 1, 2, 2, 2, 9, 9, 9, 9, 9, 9];
    let rule = rule(6, 2);
    let Verdict::Exposed(exposure) = check(&matrix, &orgs, &rule) else {
        panic!("maker 9 is alone")
    };
    assert_eq!((exposure.cover, exposure.covered), (Cover::Organisations, 1));
    assert_eq!(exposure.organisations, [9]);
    assert_eq!(exposure.clients, (6..12).collect::<Vec<_>>());
    assert!(exposure.verify(&matrix, &orgs));
}

#[test]
fn many_separate_clusters_are_one_block_each() {
    let members: Vec<Vec<usize>> = (0..150)
        .map(|cluster| (cluster * 6..cluster * 6 + 6).collect())
        .collect();
    let matrix = Membership::from_members(900, &members).unwrap();
    let orgs: Vec<u32> = (0..900).map(|client| client % 6).collect();
    let verdict = check(&matrix, &orgs, &rule(6, 6));
    let Verdict::Safe(certificate) = &verdict else {
        panic!("{verdict}")
    };
    assert_eq!(certificate.clients.len(), 150);
    assert!(
        !check(
            &matrix,
            &orgs,
            &CrowdRule {
                crowd: 7,
                crowd_orgs: 0
            }
        )
        .is_safe()
    );
}

#[test]
fn a_chain_longer_than_the_faithful_order_is_decided() {
    // 60 clusters, each sharing two clients with the next, and each repeated as a sum of others.
    let mut members: Vec<Vec<usize>> = (0..60).map(|k| (4 * k..4 * k + 6).collect()).collect();
    let matrix = Membership::from_members(242, &members).unwrap();
    let orgs: Vec<u32> = (0..242).collect();
    assert!(
        check(
            &matrix,
            &orgs,
            &CrowdRule {
                crowd: 3,
                crowd_orgs: 3
            }
        )
        .is_safe()
    );
    // A cluster that depends on others (the union of every third one), so the rank is below their number.
    members.push((0..60).step_by(3).flat_map(|k| 4 * k..4 * k + 6).collect());
    let matrix = Membership::from_members(242, &members).unwrap();
    assert!(
        check(
            &matrix,
            &orgs,
            &CrowdRule {
                crowd: 3,
                crowd_orgs: 3
            }
        )
        .is_safe()
    );
    // One more that differs from it in two clients.
    members.push(members[60].iter().copied().skip(2).collect());
    let matrix = Membership::from_members(242, &members).unwrap();
    let Verdict::Exposed(exposure) = check(&matrix, &orgs, &rule(3, 1)) else {
        panic!("clients 0 and 1 are exposed")
    };
    assert_eq!(exposure.clients, [0, 1]);
    assert!(exposure.verify(&matrix, &orgs));
}

#[test]
fn a_plan_built_against_the_prime_is_not_safe() {
    // The determinant is the prime, so the 92 sums look dependent modulo it: there every combination covers
    // two clients, while over the integers each client can be isolated.
    let members = determinant_is_the_prime();
    let matrix = Membership::from_members(92, &members).unwrap();
    let orgs: Vec<u32> = (0..93).collect();
    let verdict = check(&matrix, &orgs[..92], &rule(2, 1));
    assert_eq!(verdict, Verdict::Undecided(Undecided::Arithmetic));
    let release = release_set(&matrix, &orgs[..92], &rule(2, 1), 1);
    assert!(release.verdict.is_safe() && !release.withheld.is_empty());
    // With one more client the rank is right, and wrong again once that client is deleted: what is then found
    // does not hold over the integers and must not be reported.
    let mut members = members;
    members[91].push(92);
    let matrix = Membership::from_members(93, &members).unwrap();
    match check(&matrix, &orgs, &rule(2, 1)) {
        Verdict::Exposed(exposure) => assert!(exposure.verify(&matrix, &orgs)),
        other => assert_eq!(other, Verdict::Undecided(Undecided::Arithmetic)),
    }
}

#[test]
fn a_changed_certificate_is_refused() {
    // 36 clients spread over four clusters, most of them in two: bases for 5, and atoms of 2 and 3.
    let mut members = vec![Vec::new(); 4];
    for client in 0..36 {
        members[client % 4].push(client);
        members[(client / 4) % 4].push(client);
    }
    let plan = Membership::from_members(36, &members).unwrap();
    let orgs: Vec<u32> = (0..36).collect();
    let rule = rule(5, 5);
    let verdict = check(&plan, &orgs, &rule);
    let Verdict::Safe(certificate) = verdict else {
        panic!("{verdict}")
    };
    let Proof::Bases(bases) = &certificate.clients[0].proof else {
        panic!("{certificate}")
    };
    assert!(certificate.verify(&plan, &orgs, &rule));
    let broken = |change: &dyn Fn(&mut Vec<Vec<usize>>)| {
        let mut broken = certificate.clone();
        let mut bases = bases.clone();
        change(&mut bases);
        broken.clients[0].proof = Proof::Bases(bases);
        broken.verify(&plan, &orgs, &rule)
    };
    assert!(broken(&|_| {}));
    assert!(!broken(&|bases| drop(bases.pop())));
    assert!(!broken(&|bases| bases[1] = bases[0].clone()));
    assert!(!broken(&|bases| bases[0].truncate(3)));
    assert!(!broken(&|bases| bases[0][0] = 99));
    assert!(!certificate.verify(&plan, &orgs[..35], &rule));
    assert!(!certificate.verify(&plan, &orgs, &CrowdRule { crowd: 9, ..rule }));
    assert!(!certificate.verify(&plan.release(&[0, 1]), &orgs, &rule));
    let mut claims = certificate.clone();
    for least in 0..=5 {
        claims.clients[0].proof = Proof::Atoms { least };
        assert!(!claims.verify(&plan, &orgs, &rule), "{least}");
    }
    claims.clients.clear();
    assert!(!claims.verify(&plan, &orgs, &rule));
    // A search certificate is checked by searching.
    let exposed = Membership::from_members(36, &[(0..36).collect(), (1..36).collect()]).unwrap();
    let mut lie = certificate.clone();
    lie.clients = vec![BlockProof {
        clusters: vec![0, 1],
        proof: Proof::Search { nodes: 3 },
    }];
    lie.organisations = lie.clients.clone();
    assert!(!lie.verify(&exposed, &orgs, &rule));
}

#[test]
fn a_changed_exposure_is_refused() {
    let matrix = Membership::from_members(5, &[vec![0, 1, 2, 3], vec![0, 1, 2, 3, 4]]).unwrap();
    let orgs = [0, 0, 1, 1, 2];
    let Verdict::Exposed(exposure) = check(&matrix, &orgs, &rule(2, 1)) else {
        panic!("client 4 is exposed")
    };
    assert!(exposure.verify(&matrix, &orgs));
    let changes: [&dyn Fn(&mut Exposure); 5] = [
        &|exposure| exposure.coefficients[0].1 = 2,
        &|exposure| exposure.clients.push(3),
        &|exposure| exposure.organisations.push(7),
        &|exposure| exposure.covered += 1,
        &|exposure| exposure.coefficients.clear(),
    ];
    for change in changes {
        let mut other = exposure.clone();
        change(&mut other);
        assert!(!other.verify(&matrix, &orgs));
    }
}

#[test]
fn running_out_of_work_is_not_safe() {
    let plan = dense(41, 12, 3);
    let orgs: Vec<u32> = (0..41).collect();
    let rule = rule(7, 1);
    let verdict = check_within(&plan, &orgs, &rule, 20_000);
    assert_eq!(
        verdict,
        Verdict::Undecided(Undecided::WorkLimit { limit: 20_000 })
    );
    assert!(!verdict.is_safe());
    let short = check(&plan, &orgs[..40], &rule);
    assert_eq!(
        short,
        Verdict::Undecided(Undecided::Organisations {
            clients: 41,
            organisations: 40
        })
    );
}

#[test]
fn what_is_released_is_safe_and_why_the_rest_is_not_is_said() {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let (mut all, mut some, mut none) = (0, 0, 0);
    for case in 0..1_500 {
        let plan = Plan::random(&mut rng);
        let rule = CrowdRule {
            crowd: 1 + below(&mut rng, 5),
            crowd_orgs: below(&mut rng, 4),
        };
        let floor = below(&mut rng, 4);
        let matrix = plan.matrix();
        let release = release_set(&matrix, &plan.orgs, &rule, floor);
        assert_eq!(release, release_set(&matrix, &plan.orgs, &rule, floor));
        assert!(release.verdict.is_safe());
        let left = Plan {
            rows: release
                .released
                .iter()
                .map(|row| plan.rows[*row].clone())
                .collect(),
            ..plan.clone()
        };
        assert_eq!(left.least(Cover::Clients, rule.crowd), None, "case {case}");
        assert_eq!(
            left.least(Cover::Organisations, rule.crowd_orgs),
            None,
            "case {case}"
        );
        assert!(
            release
                .released
                .iter()
                .all(|row| matrix.size(*row) >= floor.max(1) as usize)
        );
        let mut seen: BTreeSet<usize> = release.released.iter().copied().collect();
        assert!(release.withheld.iter().all(|(row, _)| seen.insert(*row)));
        assert_eq!(seen.len(), plan.rows.len());
        for (row, reason) in &release.withheld {
            match reason {
                Withheld::Empty => assert_eq!(matrix.size(*row), 0),
                Withheld::TooFewClients { clients, required } => assert!(clients < required),
                Withheld::Exposes {
                    covered, required, ..
                } => assert!(covered < required),
                other => panic!("case {case}: {other}"),
            }
        }
        match (release.released.len(), release.withheld.len()) {
            (_, 0) => all += 1,
            (0, _) => none += 1,
            _ => some += 1,
        }
    }
    println!("released all {all}, some {some}, none {none}");
    assert!(all > 50 && some > 200 && none > 50);
}

#[test]
fn the_cluster_that_does_the_damage_is_withheld() {
    // 0 and 1 differ in client 8; 2 is apart. Of 0 and 1 the smaller one goes.
    let members = [(0..9).collect(), (0..8).collect(), (9..15).collect()];
    let matrix = Membership::from_members(15, &members).unwrap();
    let orgs: Vec<u32> = (0..15).collect();
    let release = release_set(&matrix, &orgs, &rule(3, 3), 3);
    assert_eq!(release.released, [0, 2]);
    let reason = Withheld::Exposes {
        cover: Cover::Clients,
        covered: 1,
        required: 3,
    };
    assert_eq!(
        reason.to_string(),
        "a combination with it covers 1 client(s), 3 required"
    );
    assert_eq!(release.withheld, [(1, reason)]);
    // Cluster 1 is within 0 by one and around 2 by one: withholding it alone mends both.
    let members = [(0..10).collect(), (0..9).collect(), (0..8).collect()];
    let matrix = Membership::from_members(15, &members).unwrap();
    let release = release_set(&matrix, &orgs, &rule(2, 1), 1);
    assert_eq!(release.released, [0, 2]);
    // Each within the one before, by 3, 2 and 1 clients. One withheld is not enough: the one goes after which
    // the closest two differ most, though it is not the smallest; then the one that leaves the rule to hold.
    let members = [
        (0..12).collect(),
        (0..9).collect(),
        (0..7).collect(),
        (0..6).collect(),
    ];
    let matrix = Membership::from_members(15, &members).unwrap();
    let release = release_set(
        &matrix,
        &orgs,
        &CrowdRule {
            crowd: 5,
            crowd_orgs: 1,
        },
        1,
    );
    assert_eq!(release.released, [0, 3]);
    assert_eq!(
        release
            .withheld
            .iter()
            .map(|(cluster, _)| *cluster)
            .collect::<Vec<_>>(),
        [2, 1]
    );
    // Organisations that do not fit: nothing opens.
    let release = release_set(&matrix, &orgs[1..], &rule(2, 1), 1);
    assert!(release.released.is_empty() && !release.verdict.is_safe());
}

#[test]
fn parity_agrees_with_listing_all_combinations() {
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    for _ in 0..300 {
        let plan = Plan::random(&mut rng);
        let n = plan.orgs.len();
        let mut least = None;
        for choice in 1_u32..1 << plan.rows.len() {
            let chosen = |column: usize| {
                let ones = plan
                    .rows
                    .iter()
                    .enumerate()
                    .filter(|(row, bits)| choice >> row & 1 == 1 && bits[column]);
                ones.count() % 2
            };
            let support = (0..n).map(chosen).sum::<usize>();
            if support > 0 {
                let support = u32::try_from(support).unwrap();
                least = Some(least.map_or(support, |least: u32| least.min(support)));
            }
        }
        assert_eq!(parity_support(&plan.matrix()), least, "{plan:?}");
        let Some(found) = parity(&plan.matrix()) else {
            continue;
        };
        let times = |client: usize| {
            found
                .clusters
                .iter()
                .filter(|row| plan.rows[**row][client])
                .count()
        };
        let odd: Vec<usize> = (0..n).filter(|client| times(*client) % 2 == 1).collect();
        assert_eq!((&found.clients, Some(count(&odd))), (&odd, least), "{plan:?}");
    }
}

#[test]
fn the_crowd_lies_between_the_smallest_atom_and_the_least_cover() {
    let mut rng = ChaCha20Rng::seed_from_u64(13);
    for _ in 0..300 {
        let plan = Plan::random(&mut rng);
        let Some(least) = plan.least(Cover::Clients, 99) else {
            continue;
        };
        let crowd = crowd(&plan.matrix());
        assert!(
            (1.0 - 1e-9..=f64::from(least) + 1e-9).contains(&crowd),
            "{crowd} of {least}: {plan:?}"
        );
    }
    let one = Membership::from_members(9, &[(0..7).collect()]).unwrap();
    assert!((crowd(&one) - 7.0).abs() < 1e-9);
}

#[test]
fn leverages_are_those_of_the_normal_equations() {
    // W = [1 1 1 0; 0 1 1 1]: W W^T = [3 2; 2 3], its inverse [3 -2; -2 3] / 5, so the outer clients have 3/5 and
    // the inner ones 2/5, together the rank.
    let matrix = Membership::from_members(5, &[vec![0, 1, 2], vec![1, 2, 3], vec![0, 1, 2]]).unwrap();
    for (found, expected) in leverages(&matrix).into_iter().zip([0.6, 0.4, 0.4, 0.6, 0.0]) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
    let mut rng = ChaCha20Rng::seed_from_u64(14);
    for _ in 0..200 {
        let plan = Plan::random(&mut rng);
        let found = leverages(&plan.matrix());
        let sum: f64 = found.iter().sum();
        assert!(
            (sum - sum.round()).abs() < 1e-9 && found.iter().all(|one| (-1e-9..1.0 + 1e-9).contains(one))
        );
    }
    // Too entangled for exact ranks: the crowd is not infinite then, but that of the sums.
    let matrix = Membership::from_members(92, &determinant_is_the_prime()).unwrap();
    let found = leverages(&matrix);
    assert!((crowd(&matrix) - 1.0).abs() < 1e-6, "{}", crowd(&matrix));
    assert!((found.iter().sum::<f64>() - 92.0).abs() < 1e-6);
}

#[test]
fn two_rounds_of_one_plan_expose_a_dropout_and_whole_groups_do_not() {
    let mut rng = ChaCha20Rng::seed_from_u64(15);
    let orgs: Vec<u32> = (0..40).collect();
    let two = rule(2, 0);
    for _ in 0..20 {
        let plan = soft(&mut rng, 40, 3, 20);
        let mut window = Window::new(40, NonZeroUsize::new(5).unwrap());
        window.push(plan.clone()).unwrap();
        let one = window.crowd();
        assert!((one - crowd(&plan)).abs() < 1e-12);
        let gone = below(&mut rng, 40) as usize;
        window
            .push(plan.restrict(&(0..40).filter(|client| *client != gone).collect::<Vec<_>>()))
            .unwrap();
        // If nothing changed between the rounds, the difference is the client that is missing.
        assert!((window.crowd() - 1.0).abs() < 1e-9, "{}", window.crowd());
        let Verdict::Exposed(exposure) = window.check(&orgs, &two) else {
            panic!("client {gone} is exposed")
        };
        assert_eq!(exposure.clients, [gone]);
        // Five full rounds later it is forgotten.
        for _ in 0..5 {
            window.push(plan.clone()).unwrap();
        }
        assert_eq!(window.rounds(), 5);
        assert!((window.crowd() - one).abs() < 1e-9);
    }
    // Groups of four with the same clusters, which count only when complete, over 30 rounds.
    let members = [(0..24).collect(), (16..40).collect(), (8..20).collect()];
    let plan = Membership::from_members(40, &members).unwrap();
    let mut window = Window::new(40, NonZeroUsize::new(30).unwrap());
    for _ in 0..30 {
        let gone = [below(&mut rng, 40) / 4, below(&mut rng, 40) / 4];
        let whole = |client: &usize| !gone.contains(&(u32::try_from(*client).unwrap() / 4));
        window
            .push(plan.restrict(&(0..40).filter(whole).collect::<Vec<_>>()))
            .unwrap();
    }
    assert!(window.crowd() > 4.0 - 1e-6, "{}", window.crowd());
    let other = Membership::from_members(39, &[vec![0]]).unwrap();
    assert_eq!(
        window.push(other),
        Err(MembershipError::Ragged {
            cluster: 0,
            got: 39,
            expected: 40
        })
    );
    assert_eq!(window.rounds(), 30);
}

#[test]
fn clusters_you_can_have_at_the_very_best() {
    assert_eq!(clusters_you_can_have(32, 5, 0, 0), 6);
    assert_eq!(clusters_you_can_have(41, 4, 2, 2), 5);
    assert_eq!(clusters_you_can_have(3, 4, 0, 0), 0);
    assert_eq!(clusters_you_can_have(10, 0, 0, 0), 10);
    assert_eq!(clusters_you_can_have(10, u32::MAX, u32::MAX, 1), 0);
}

/// Not a test of anything: prints times. `cargo test --release -- --ignored --nocapture figures`.
#[test]
#[ignore = "prints times"]
fn figures() {
    let time = |name: &str, plans: &[(Membership, u32)]| {
        let mut times = Vec::new();
        let mut kinds = std::collections::BTreeMap::new();
        for (plan, least) in plans {
            let orgs: Vec<u32> = (0..u32::try_from(plan.clients()).unwrap()).collect();
            let start = Instant::now();
            let verdict = check(plan, &orgs, &rule(*least, 0));
            times.push(start.elapsed().as_secs_f64() * 1e3);
            let kind = match verdict {
                Verdict::Safe(certificate) => match &certificate.clients[0].proof {
                    Proof::Atoms { .. } => "atoms",
                    Proof::Bases(_) => "bases",
                    Proof::Search { nodes } => {
                        println!("  {nodes} nodes");
                        "search"
                    }
                },
                Verdict::Exposed(_) => "exposed",
                Verdict::Undecided(_) => "undecided",
            };
            *kinds.entry(kind).or_insert(0) += 1;
        }
        times.sort_by(f64::total_cmp);
        println!(
            "{name}: median {:.3} ms, worst {:.3} ms, {kinds:?}",
            times[times.len() / 2],
            times[times.len() - 1]
        );
    };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut plans = Vec::new();
    for n in [32, 41] {
        for k in [3, 5, 8, 12] {
            for least in 3..=8 {
                plans.extend((0..10).map(|_| (soft(&mut rng, n, k, 20), least)));
            }
        }
    }
    time("N 32-41, K 3-12, 20 %, c 3-8", &plans);
    for overlap in [20, 50, 90] {
        let plans: Vec<_> = (0..5).map(|_| (soft(&mut rng, 1_000, 30, overlap), 12)).collect();
        time(&format!("N 1000, K 30, {overlap} %, c 12"), &plans);
    }
    for (n, k, least) in [
        (41, 12, 5),
        (41, 12, 7),
        (100, 16, 5),
        (100, 16, 7),
        (100, 16, 9),
        (1_000, 30, 5),
    ] {
        let plans: Vec<_> = (0..3).map(|seed| (dense(n, k, seed), least)).collect();
        time(&format!("dense {n} x {k}, c {least}"), &plans);
    }
}

fn count(list: &[usize]) -> u32 {
    u32::try_from(list.len()).unwrap()
}

fn rule(crowd: u32, crowd_orgs: u32) -> CrowdRule {
    CrowdRule { crowd, crowd_orgs }
}

fn exposure(clients: usize, members: &[&[usize]], least: u32) -> Exposure {
    let members: Vec<Vec<usize>> = members.iter().map(|list| list.to_vec()).collect();
    let matrix = Membership::from_members(clients, &members).unwrap();
    let orgs = vec![0; clients];
    match check(&matrix, &orgs, &rule(least, 1)) {
        Verdict::Exposed(exposure) if exposure.verify(&matrix, &orgs) => exposure,
        other => panic!("{other}"),
    }
}

/// What must not depend on the order.
fn summary(verdict: &Verdict) -> Option<(Cover, u32)> {
    match verdict {
        Verdict::Safe(_) => None,
        Verdict::Exposed(exposure) => Some((exposure.cover, exposure.covered)),
        Verdict::Undecided(reason) => panic!("{reason}"),
    }
}

fn tally(certificate: &Certificate, proofs: &mut [usize; 3]) {
    for block in certificate.clients.iter().chain(&certificate.organisations) {
        proofs[match block.proof {
            Proof::Atoms { .. } => 0,
            Proof::Bases(_) => 1,
            Proof::Search { .. } => 2,
        }] += 1;
    }
}
