//! What the auditor makes of real rounds: honest ones are verified whoever drops and whatever is aborted, and whatever is
//! changed in a bundle, by chance or on purpose and signed anew, is never verified.
//!
//! The tests stand here and not beside the auditor because only this crate may know both it and the machines that make
//! what it audits.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

#[path = "audited/catalogue.rs"]
mod catalogue;
#[path = "audited/cheats.rs"]
mod cheats;
#[path = "audited/export.rs"]
mod export;
#[path = "audited/flips.rs"]
mod flips;
#[path = "audited/forge.rs"]
mod forge;
#[path = "audited/pace.rs"]
mod pace;
#[path = "audited/run.rs"]
mod run;
#[path = "audited/second.rs"]
mod second;
#[path = "audited/spot.rs"]
mod spot;
#[path = "audited/tiers.rs"]
mod tiers;
#[path = "audited/witnessed.rs"]
mod witnessed;
#[path = "rounds/world.rs"]
#[allow(dead_code, reason = "shared with the tests of rounds, which use the rest")]
mod world;

use rand_core::Rng;
use run::{Run, audit, two_clusters};
use veilsum_attestation::audit::{CheckName, Overall, Status, Verdict};
use veilsum_crypto::*;
use world::{Death, Setup, World};

#[test]
fn an_honest_round_is_verified_and_every_check_is_made() {
    let run = Run::of(two_clusters(), 1, &[&[]]);
    let verdict = audit(run.federation(), &run.bundle());
    println!("{verdict}");
    assert_eq!(verdict.overall, Overall::Verified);
    for check in CheckName::ALL {
        assert!(
            verdict.findings.iter().any(|finding| finding.check == *check),
            "{check} says nothing"
        );
    }
    assert_eq!(verdict.rounds.len(), 1);
    let round = &verdict.rounds[0];
    assert_eq!((round.survivors.len(), round.dropped.len()), (8, 0));
    assert_eq!(round.released.len(), 2);
    let weight = |cluster: usize| -> u64 {
        let members = &run.federation().setup.clusters[cluster];
        members
            .iter()
            .map(|client| u64::from(run.world.contributions[&ClientId(*client)].weight))
            .sum()
    };
    assert_eq!(round.released[0].weight, weight(0));
    assert_eq!(round.released[1].weight, weight(1));
}

#[test]
fn clusters_that_change_where_clients_count_in_groups_are_a_violation() {
    for (blocks, overall) in [(2, Overall::Violated), (0, Overall::Verified)] {
        let setup = Setup {
            clusters: vec![(0..8).collect()],
            ..two_clusters()
        };
        let mut run = Run::with(setup, 4, |policy| policy.blocks = blocks);
        run.attempt(1, 0, &[]);
        run.world.federation.setup.clusters = vec![(0..6).collect()];
        run.attempt(2, 0, &[]);
        let verdict = audit(run.federation(), &run.bundle());
        assert_eq!(verdict.overall, overall, "{verdict}");
        let found = |finding: &&veilsum_attestation::audit::Finding| {
            matches!(finding.status, Status::Violated { .. })
        };
        let named: Vec<CheckName> = verdict
            .findings
            .iter()
            .filter(found)
            .map(|finding| finding.check)
            .collect();
        assert_eq!(named, vec![CheckName::Clustering; usize::from(blocks > 0)]);
    }
}

#[test]
fn a_verdict_is_the_same_after_a_trip_through_json_and_uses_three_words() {
    let run = Run::of(two_clusters(), 2, &[&[(3, 3)]]);
    let mut bundle = run.bundle();
    let last = bundle.len() - 40;
    bundle[last] ^= 1;
    let verdict = audit(run.federation(), &bundle);
    assert_eq!(verdict.overall, Overall::Violated);
    let json = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["overall"], "violated");
    for finding in value["findings"].as_array().unwrap() {
        let word = finding["status"].as_str().unwrap();
        assert!(
            ["verified", "violated", "not checkable"].contains(&word),
            "{word}"
        );
        assert_eq!(finding.get("reason").is_some(), word != "verified");
    }
    let table = verdict.to_string();
    assert!(table.ends_with("\nviolated"), "{table}");
    println!("{json}\n{table}");
}

/// A random small federation: N 3 to 9, K 1 to 3. Cluster 0 holds everybody, so something can always be opened.
fn random_setup(seed: u64) -> Setup {
    let mut dice = veilsum_crypto::testing::rng(seed);
    let mut pick = |low: u32, high: u32| low + dice.next_u32() % (high - low + 1);
    let clients = pick(3, 9);
    let mut setup = Setup {
        clients,
        threshold: pick(clients / 2 + 1, clients),
        clusters: vec![(0..clients).collect()],
        entries: pick(1, 40) as usize,
        crowd: 2,
        orgs: pick(1, clients),
    };
    let wanted = pick(1, 3) as usize;
    for _ in 0..12 {
        if setup.clusters.len() >= wanted {
            break;
        }
        setup
            .clusters
            .push((0..clients).filter(|_| pick(0, 1) == 1).collect());
        let mut trial = World::new(setup.clone(), seed);
        let log = trial.genesis_log();
        if trial.start(log, 1).is_err() {
            setup.clusters.pop();
        }
    }
    setup
}

/// One to three rounds; before some of them an attempt in which too few clients stay.
fn random_run(seed: u64) -> Run {
    let setup = random_setup(seed);
    let (n, t) = (setup.clients, setup.threshold);
    let mut run = Run::new(setup, seed);
    let mut dice = veilsum_crypto::testing::rng(seed ^ 0xaced);
    let mut pick = |below: u32| dice.next_u32() % below;
    let rounds = 1 + u64::from(pick(3));
    for round in 1..=rounds {
        let mut attempt = 0;
        if pick(3) == 0 {
            let doomed = n - t + 1 + pick(t);
            let deaths = victims(&mut pick, n, doomed);
            run.attempt(round, attempt, &deaths);
            attempt += u32::from(run.world.aborted.is_some());
            // Clients that revealed answer nothing more of that round: as the driver does, go on with the next.
            if run
                .world
                .aborted
                .as_ref()
                .is_some_and(|abort| abort.name() == "TooFewReveal")
            {
                continue;
            }
        }
        if run
            .world
            .outcome
            .as_ref()
            .is_some_and(|outcome| outcome.round == RoundId(round))
        {
            continue;
        }
        let doomed = pick(n - t + 1);
        let deaths = victims(&mut pick, n, doomed);
        run.attempt(round, attempt, &deaths);
        assert!(run.world.outcome.is_some(), "seed {seed}: at least t were left");
    }
    run
}

fn victims(pick: &mut impl FnMut(u32) -> u32, n: u32, count: u32) -> Vec<(u32, Death)> {
    let mut ids: Vec<u32> = (0..n).collect();
    (0..count)
        .map(|_| {
            let victim = ids.swap_remove(pick(ids.len() as u32) as usize);
            let death = Death {
                after_sends: pick(9) as usize,
                noticed: pick(2) == 0,
                in_flight_lost: pick(2) == 0,
            };
            (victim, death)
        })
        .collect()
}

#[test]
fn honest_rounds_are_verified_whoever_drops_and_whatever_is_aborted() {
    let (aborted, dropped, withheld, revealed_in_vain) = honest(0..40);
    assert!(aborted > 5 && dropped > 12 && withheld > 0 && revealed_in_vain > 0);
}

/// `cargo test --release -p veilsum-aggregation --test audited five_hundred -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes"]
fn five_hundred_honest_federations_are_verified() {
    let (aborted, dropped, withheld, revealed_in_vain) = honest(0..500);
    assert!(aborted > 60 && dropped > 150 && withheld > 10 && revealed_in_vain > 5);
}

/// Audits federations and demands that nothing is found; attempts aborted, clients dropped and clusters withheld in
/// published ones, attempts with reveals that opened nothing.
fn honest(seeds: std::ops::Range<u64>) -> (usize, usize, usize, usize) {
    let federations = seeds.end - seeds.start;
    let (mut attempts, mut aborted, mut dropped, mut withheld, mut revealed_in_vain) = (0, 0, 0, 0, 0);
    for seed in seeds {
        let run = random_run(seed);
        let verdict = audit(run.federation(), &run.bundle());
        let wrong: Vec<_> = verdict.violations().collect();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        // Only what no bundle can show may be left open.
        for finding in &verdict.findings {
            if let Status::NotCheckable(reason) = &finding.status {
                assert!(
                    finding.check >= CheckName::Witnesses,
                    "seed {seed}: {}: {reason}",
                    finding.check
                );
            }
        }
        attempts += verdict.rounds.len();
        aborted += verdict
            .rounds
            .iter()
            .filter(|round| round.aborted.is_some())
            .count();
        revealed_in_vain += verdict
            .rounds
            .iter()
            .filter(|round| round.aborted.as_deref() == Some("TooFewReveal"))
            .count();
        let published = verdict.rounds.iter().filter(|round| round.aborted.is_none());
        for round in published {
            dropped += round.dropped.len();
            withheld += round.withheld.len();
        }
    }
    println!(
        "{federations} federations, {attempts} attempts, {aborted} aborted ({revealed_in_vain} with reveals), {dropped} clients \
         dropped and {withheld} clusters withheld in published ones: all verified"
    );
    (aborted, dropped, withheld, revealed_in_vain)
}

#[test]
fn a_log_of_an_aborted_and_a_published_attempt_says_so() {
    let mut run = Run::new(two_clusters(), 4);
    let gone = Death {
        after_sends: 2,
        noticed: true,
        in_flight_lost: true,
    };
    run.attempt(1, 0, &[(0, gone), (1, gone), (2, gone), (3, gone)]);
    run.attempt(1, 1, &[(7, gone)]);
    run.attempt(2, 0, &[]);
    let verdict = audit(run.federation(), &run.bundle());
    println!("{verdict}");
    assert!(verdict.is_verified());
    let reasons: Vec<_> = verdict
        .rounds
        .iter()
        .map(|round| round.aborted.as_deref())
        .collect();
    assert_eq!(reasons, [Some("TooFewMasked"), None, None]);
    assert_eq!(verdict.rounds[1].dropped, [ClientId(7)]);
    assert_eq!(verdict.rounds[2].head.size, run.log.head().size);
    assert_eq!(verdict.rounds[2].head.root, run.log.head().root.to_hex());
}

#[test]
fn without_models_nobody_could_check_the_new_ones_which_is_a_violation() {
    let mut run = Run::of(two_clusters(), 5, &[&[], &[]]);
    run.models.clear();
    let verdict = audit(run.federation(), &run.bundle());
    let violated: Vec<_> = verdict.violations().map(|finding| finding.check).collect();
    assert_eq!(violated, [CheckName::Models; 4]);
}
