//! Jeffreys divergences of many pairs at once: strips of channels, blocks of clients, threads over pairs of blocks.
//!
//! Two sums per pair, `Σ (a − b)²/(ab)` and `Σ (μa − μb)² (1/a + 1/b)`, both of positive terms only. The same pair gives
//! the same bits wherever it stands, on any number of threads, and in either order: every sum runs over the channels
//! in the same four lanes, and every term is symmetric. As an inner product (the test oracle of [`super::Divergences`]) it
//! takes three quarters of the time and loses digits to cancellation wherever means are large against their spread.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Gaussian;

/// The two sums of a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pair {
    /// `Σ a/b + b/a − 2`.
    pub(super) spread: f64,
    /// `Σ (μa − μb)² (1/a + 1/b)`.
    pub(super) shift: f64,
}

/// Calls `give(i, j, pair)` once for every `i < j`, in no promised order, on the calling thread.
pub(super) fn all_pairs(
    clients: &[Gaussian],
    threads: NonZeroUsize,
    mut give: impl FnMut(usize, usize, Pair),
) {
    let table = Table::new(clients);
    let blocks = clients.len().div_ceil(BLOCK);
    let tasks: Vec<(usize, usize)> = (0..blocks)
        .flat_map(|first| (first..blocks).map(move |second| (first, second)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(&(first, second)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((first, second, table.block(first, second)));
        }
        done
    };
    let mut place = |results: Vec<(usize, usize, Vec<Pair>)>| {
        for (first, second, pairs) in results {
            for (at, pair) in pairs.into_iter().enumerate() {
                let (i, j) = (first * BLOCK + at / BLOCK, second * BLOCK + at % BLOCK);
                if i < j && j < clients.len() {
                    give(i, j, pair);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get().min(tasks.len()))
            .map(|_| scope.spawn(work))
            .collect();
        place(work());
        for other in others {
            match other.join() {
                Ok(results) => place(results),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
}

/// All descriptors, a strip of channels of one client in one piece: means, variances, inverse variances.
struct Table {
    /// Lanes of a strip, row-major by client and strip.
    cells: Vec<[[f64; LANES]; 3]>,
    /// Lanes of all strips of one client.
    row: usize,
    clients: usize,
}

impl Table {
    fn new(clients: &[Gaussian]) -> Self {
        let channels = clients.first().map_or(0, Gaussian::channels);
        let row = channels.div_ceil(LANES);
        let mut cells = Vec::with_capacity(row * clients.len());
        for client in clients {
            for (mean, variance) in client.mean().chunks(LANES).zip(client.variance().chunks(LANES)) {
                // Equal padding adds nothing.
                let mut lane = [[0.0; LANES], [1.0; LANES], [1.0; LANES]];
                for (at, (mean, variance)) in mean.iter().zip(variance).enumerate() {
                    for (plane, value) in lane.iter_mut().zip([*mean, *variance, variance.recip()]) {
                        if let Some(cell) = plane.get_mut(at) {
                            *cell = value;
                        }
                    }
                }
                cells.push(lane);
            }
        }
        Self {
            cells,
            row,
            clients: clients.len(),
        }
    }

    /// `BLOCK * BLOCK` pairs, row-major; those beyond the last client or not above the diagonal stay zero.
    fn block(&self, first: usize, second: usize) -> Vec<Pair> {
        let mut pairs = vec![Pair::default(); BLOCK * BLOCK];
        for strip in (0..self.row).step_by(STRIP) {
            for (i, line) in pairs.chunks_exact_mut(BLOCK).enumerate() {
                let one = self.strip(first * BLOCK + i, strip);
                for (j, pair) in line.iter_mut().enumerate() {
                    if first < second || i < j {
                        let sums = terms(one, self.strip(second * BLOCK + j, strip));
                        pair.spread += sums.spread;
                        pair.shift += sums.shift;
                    }
                }
            }
        }
        pairs
    }

    /// A client's lanes from `strip` on; none beyond the last client.
    fn strip(&self, client: usize, strip: usize) -> &[[[f64; LANES]; 3]] {
        let from = client * self.row + strip;
        let to = client * self.row + (strip + STRIP).min(self.row);
        if client < self.clients {
            self.cells.get(from..to).unwrap_or(&[])
        } else {
            &[]
        }
    }
}

/// The sums over one strip.
fn terms(one: &[[[f64; LANES]; 3]], other: &[[[f64; LANES]; 3]]) -> Pair {
    let mut spread = [0.0; LANES];
    let mut shift = [0.0; LANES];
    for ([ma, va, qa], [mb, vb, qb]) in one.iter().zip(other) {
        #[allow(
            clippy::indexing_slicing,
            reason = "arrays of LANES, indexed below LANES: the compiler sees it and keeps the loop in registers"
        )]
        for lane in 0..LANES {
            let (d, m) = (va[lane] - vb[lane], ma[lane] - mb[lane]);
            spread[lane] += d * d * (qa[lane] * qb[lane]);
            shift[lane] += m * m * (qa[lane] + qb[lane]);
        }
    }
    let total = |[a, b, c, d]: [f64; LANES]| (a + b) + (c + d);
    Pair {
        spread: total(spread),
        shift: total(shift),
    }
}

/// Sums kept side by side.
const LANES: usize = 4;
/// Lanes of channels taken at a time: with [`BLOCK`] clients on both sides, 384 KiB.
const STRIP: usize = 64;
/// Clients on each side of a block.
const BLOCK: usize = 32;
