//! Clustering thousands of clients: time, memory, growth with the square of their number.
//!
//! `cargo bench -p veilsum-aggregation --bench cluster`. Descriptors are drawn around 20 centres, 2,048 channels each.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a bench: a panic is the report, and figures are approximate"
)]

use std::num::NonZeroUsize;
use std::time::Instant;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use veilsum_aggregation::cluster::{
    Divergences, Gaussian, Linkage, Threshold, hard, multi_membership, sharing, soft,
};

const CHANNELS: usize = 2_048;

fn main() {
    let all = descriptors(2_000);
    let cores = std::thread::available_parallelism().unwrap();
    println!("{CHANNELS} channels, {cores} cores; medians of 3");
    let mut before: Option<(usize, f64)> = None;
    for n in [250, 500, 1_000, 2_000] {
        let clients = all.get(..n).unwrap();
        let one = median(|| drop(Divergences::jeffreys(clients, NonZeroUsize::MIN)));
        let many = median(|| drop(Divergences::jeffreys(clients, cores)));
        let growth = before.map_or(String::new(), |(m, time)| {
            let square = (n as f64 / m as f64).powi(2);
            format!(", {:.2} of the square's growth", one / time / square)
        });
        println!(
            "N {n}: matrix {one:.2} s on one core, {many:.2} s on {cores}: {:.0} million pair-channels/s a core{growth}",
            (n * (n - 1) / 2 * CHANNELS) as f64 / one / 1e6
        );
        before = Some((n, one));
    }
    // Pair by pair, without blocks, and as an inner product: the same work in other arithmetic.
    let few = all.get(..500).unwrap();
    let blocked = median(|| drop(Divergences::jeffreys(few, NonZeroUsize::MIN)));
    let direct = median(|| {
        let sum = |i: usize| -> f64 {
            few.iter()
                .skip(i + 1)
                .map(|b| few.get(i).unwrap().jeffreys(b))
                .sum()
        };
        std::hint::black_box((0..few.len()).map(sum).sum::<f64>());
    });
    let inner = median(|| {
        std::hint::black_box(inner_products(few));
    });
    println!(
        "N 500, one core: blocks {blocked:.2} s, pair by pair {direct:.2} s, inner products {inner:.2} s"
    );
    let divergences = Divergences::jeffreys(&all, cores).unwrap();
    for share in [0.02, 0.1] {
        let start = Instant::now();
        let tau = Threshold::Overlap(share).choose(&divergences).unwrap().tau;
        let clusters = soft(&divergences, tau);
        println!(
            "N 2000, overlap {share}: {} soft clusters, {:.2} of the clients in several, {:.2} of the pairs together, {:.2} s",
            clusters.clusters(),
            multi_membership(&clusters),
            sharing(&clusters),
            start.elapsed().as_secs_f64()
        );
        let start = Instant::now();
        let parted = hard(&divergences, tau, Linkage::Complete);
        println!(
            "  hard: {} clusters, {:.2} s",
            parted.clusters(),
            start.elapsed().as_secs_f64()
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "peak memory: {}; the descriptors alone: {} MiB",
        peak.unwrap_or("not known").trim_start_matches("VmHWM:").trim(),
        (all.len() * CHANNELS * 16) >> 20
    );
}

/// `½ (⟨a + μa², 1/b⟩ + ⟨b + μb², 1/a⟩ − 2 ⟨μa μb, 1/a + 1/b⟩ + …)` with the same lanes and strips of clients as the crate.
fn inner_products(clients: &[Gaussian]) -> f64 {
    let rows: Vec<Vec<[[f64; 4]; 3]>> = clients
        .iter()
        .map(|client| {
            let lanes = client
                .mean()
                .chunks_exact(4)
                .zip(client.variance().chunks_exact(4));
            lanes
                .map(|(mean, variance)| {
                    let at = |lane: usize| (*mean.get(lane).unwrap(), *variance.get(lane).unwrap());
                    let mut cell = [[0.0; 4]; 3];
                    for (lane, ((m, x), q)) in (0..4).zip({
                        let [m, x, q] = &mut cell;
                        m.iter_mut().zip(x).zip(q)
                    }) {
                        let (mean, variance) = at(lane);
                        (*m, *x, *q) = (mean, variance + mean * mean, variance.recip());
                    }
                    cell
                })
                .collect()
        })
        .collect();
    let mut total = 0.0;
    for block in rows.chunks(32) {
        for other in rows.chunks(32) {
            if block.as_ptr() > other.as_ptr() {
                continue;
            }
            for strip in (0..CHANNELS / 4).step_by(64) {
                for a in block {
                    for b in other {
                        total += strip_sum(
                            a.get(strip..strip + 64).unwrap(),
                            b.get(strip..strip + 64).unwrap(),
                        );
                    }
                }
            }
        }
    }
    total
}

fn strip_sum(a: &[[[f64; 4]; 3]], b: &[[[f64; 4]; 3]]) -> f64 {
    let (mut plus, mut minus) = ([0.0; 4], [0.0; 4]);
    for ([ma, xa, qa], [mb, xb, qb]) in a.iter().zip(b) {
        #[allow(clippy::indexing_slicing, reason = "arrays of four")]
        for lane in 0..4 {
            plus[lane] += xa[lane] * qb[lane] + xb[lane] * qa[lane];
            minus[lane] += ma[lane] * mb[lane] * (qa[lane] + qb[lane]);
        }
    }
    plus.iter().sum::<f64>() - 2.0 * minus.iter().sum::<f64>()
}

fn descriptors(n: usize) -> Vec<Gaussian> {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut unit = || f64::from(rng.next_u32()) / f64::from(u32::MAX);
    let centres: Vec<Vec<f64>> = (0..20).map(|_| (0..CHANNELS).map(|_| unit()).collect()).collect();
    (0..n)
        .map(|client| {
            let (one, two, mix) = (
                centres.get(client % 20).unwrap(),
                centres.get((client + 1) % 20).unwrap(),
                unit() * unit(),
            );
            let mean = one.iter().zip(two).map(|(a, b)| a + mix * (b - a) + 0.1 * unit());
            let mean = mean.collect();
            Gaussian::new(mean, (0..CHANNELS).map(|_| 0.5 + unit()).collect()).unwrap()
        })
        .collect()
}

fn median(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..3)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(1).copied().unwrap_or(0.0)
}
