//! The disclosure rule's times, what typical plans look like, and what the repair makes of them.
//!
//! `cargo bench -p veilsum-aggregation --bench plans`. Plans: every client in one random cluster, a fifth in a second; forty
//! a row. Clients lie on a line by their first cluster, so that merging neighbours costs least.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a bench: a panic is the report, and figures are approximate"
)]

use std::time::Instant;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use veilsum_aggregation::cluster::{Closeness, Divergences, Membership, Moves, Repair, repair};
use veilsum_attestation::disclosure::{CrowdRule, Proof, Verdict, check, crowd};
use veilsum_attestation::statement::Plan;

fn main() {
    times();
    typical();
}

/// Median and worst time of a verdict, and how it was reached.
fn times() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut small = Vec::new();
    for n in [32, 41] {
        for k in [3, 5, 8, 12] {
            for least in 3..=8 {
                small.extend((0..10).map(|_| (soft(&mut rng, n, k, 20).0, least)));
            }
        }
    }
    row("N 32-41, K 3-12, 20 %, c 3-8", &small);
    for overlap in [20, 50, 90] {
        let plans: Vec<_> = (0..5)
            .map(|_| (soft(&mut rng, 1_000, 30, overlap).0, 12))
            .collect();
        row(&format!("N 1000, K 30, {overlap} %, c 12"), &plans);
    }
    for (n, k, least) in [
        (41, 12, 5),
        (41, 12, 7),
        (100, 16, 5),
        (100, 16, 7),
        (1_000, 30, 5),
    ] {
        let plans: Vec<_> = (0..3).map(|_| (dense(&mut rng, n, k), least)).collect();
        row(&format!("dense {n} x {k}, c {least}"), &plans);
    }
}

fn row(name: &str, plans: &[(Membership, u32)]) {
    let mut spent = Vec::new();
    let mut nodes = 0;
    for (plan, least) in plans {
        let start = Instant::now();
        let verdict = check(plan, &orgs(plan.clients()), &rule(*least));
        spent.push(start.elapsed().as_secs_f64() * 1e3);
        if let Verdict::Safe(certificate) = verdict {
            for block in certificate.clients {
                if let Proof::Search { nodes: taken } = block.proof {
                    nodes = nodes.max(taken);
                }
            }
        }
    }
    spent.sort_by(f64::total_cmp);
    println!(
        "{name}: median {:.3} ms, worst {:.3} ms, at most {nodes} search nodes",
        spent[spent.len() / 2],
        spent[spent.len() - 1]
    );
}

/// Forty plans a row: crowd, least cover, and the repair to a cover of 5.
fn typical() {
    println!("| N | K | crowd | d | d >= 5 | crowd >= 5 | after repair: clusters | moved | cost | ms |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    for n in [32, 41] {
        for k in [3, 5, 8, 12] {
            let mut columns: [Vec<f64>; 6] = Default::default();
            for _ in 0..40 {
                let (plan, places) = soft(&mut rng, n, k, 20);
                let cover = match check(&plan, &orgs(n), &rule(u32::MAX)) {
                    Verdict::Exposed(exposure) => f64::from(exposure.covered),
                    other => panic!("{other}"),
                };
                let rows: Vec<Vec<f64>> = places
                    .iter()
                    .map(|a| places.iter().map(|b| (a - b).powi(2)).collect())
                    .collect();
                let divergences = Divergences::from_rows(&rows).unwrap();
                let start = Instant::now();
                let repaired = repair(&Repair {
                    clusters: &plan,
                    orgs: &orgs(n),
                    rule: rule(5),
                    alike: 0,
                    most: Plan::MOST_CLUSTERS,
                    closeness: Some(Closeness {
                        divergences: &divergences,
                        tau: 1.0,
                    }),
                    moves: Moves::default(),
                });
                let spent = start.elapsed().as_secs_f64() * 1e3;
                assert!(repaired.verdict.is_safe() && repaired.left_out.is_empty());
                let figures = [
                    crowd(&plan),
                    cover,
                    repaired.clusters.clusters() as f64,
                    repaired.moved as f64,
                    repaired.cost,
                    spent,
                ];
                for (column, figure) in columns.iter_mut().zip(figures) {
                    column.push(figure);
                }
            }
            let share =
                |column: &[f64]| column.iter().filter(|value| **value >= 5.0 - 1e-9).count() as f64 / 40.0;
            let (over, safe) = (share(&columns[0]), share(&columns[1]));
            let cells: Vec<String> = columns.iter_mut().map(|column| spread(column)).collect();
            println!(
                "| {n} | {k} | {} | {} | {safe:.2} | {over:.2} | {} | {} | {} | {} |",
                cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]
            );
        }
    }
}

/// Median, least and most.
fn spread(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let show = |value: f64| format!("{value:.1}").trim_end_matches(".0").to_owned();
    format!(
        "{} [{} {}]",
        show(0.5 * (values[values.len() / 2 - 1] + values[values.len() / 2])),
        show(values[0]),
        show(values[values.len() - 1])
    )
}

/// A plan, and where its clients lie: near their first cluster's number.
fn soft(rng: &mut ChaCha20Rng, n: usize, k: usize, overlap: u32) -> (Membership, Vec<f64>) {
    let mut below = |bound: usize| rng.next_u32() as usize % bound;
    let mut members = vec![Vec::new(); k];
    let mut places = Vec::new();
    for client in 0..n {
        let first = below(k);
        members[first].push(client);
        if below(100) < overlap as usize {
            members[(first + 1 + below(k - 1)) % k].push(client);
        }
        places.push(2.0 * first as f64 + below(1_000) as f64 / 1_000.0);
    }
    (Membership::from_members(n, &members).unwrap(), places)
}

/// Everybody in half of the clusters.
fn dense(rng: &mut ChaCha20Rng, n: usize, k: usize) -> Membership {
    let rows = (0..k)
        .map(|_| (0..n).map(|_| rng.next_u32() & 1 == 1).collect())
        .collect();
    Membership::new(rows).unwrap()
}

fn orgs(n: usize) -> Vec<u32> {
    (0..u32::try_from(n).unwrap()).collect()
}

fn rule(crowd: u32) -> CrowdRule {
    CrowdRule { crowd, crowd_orgs: 0 }
}
