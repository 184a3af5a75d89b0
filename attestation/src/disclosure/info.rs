//! Figures for people. No verdict rests on them.

use super::block::{Block, Cover, blocks};
use super::membership::Membership;
use super::work::Work;

/// The effective crowd of the worst-placed client: 1 / its leverage, the share of its variance that the sums
/// explain for equal independent inputs. One sum over `n` clients gives `n`; a client alone gives 1; no sum
/// gives infinity. Floating point, for information.
#[must_use]
pub fn crowd(matrix: &Membership) -> f64 {
    let blocks = blocks(matrix, &[], Cover::Clients, &mut Work::new(u64::MAX)).unwrap_or_default();
    let largest = blocks.iter().map(largest_leverage).fold(0.0, f64::max);
    if largest > 0.0 {
        1.0 / largest
    } else {
        f64::INFINITY
    }
}

/// Least number of clients in a combination of the sums that is nonzero modulo 2: whoever has the sums knows
/// the parity of these clients' total in every coordinate. `None` if there is no such combination, or if more
/// than 24 sums are independent modulo 2, which is too many to list.
#[must_use]
pub fn parity_support(matrix: &Membership) -> Option<u32> {
    // A basis over GF(2): each row with its leading bit, reduced by the rows before.
    let mut basis: Vec<(usize, u64, Vec<u64>)> = Vec::new();
    for cluster in 0..matrix.clusters() {
        let mut row = matrix.bitset(cluster).to_vec();
        for (word, bit, known) in &basis {
            if row.get(*word).is_some_and(|value| value & bit != 0) {
                add(&mut row, known);
            }
        }
        let lead = row.iter().enumerate().find(|(_, value)| **value != 0);
        if let Some((word, bit)) = lead.map(|(word, value)| (word, 1 << value.trailing_zeros())) {
            basis.push((word, bit, row));
        }
    }
    if basis.is_empty() || basis.len() > PARITY_ROWS {
        return None;
    }
    // Gray code: each step adds one row.
    let mut sum = vec![0; matrix.clients().div_ceil(64)];
    let mut least = u32::MAX;
    for step in 1_u64..1 << basis.len() {
        if let Some((_, _, row)) = basis.get(step.trailing_zeros() as usize) {
            add(&mut sum, row);
        }
        least = least.min(sum.iter().map(|word: &u64| word.count_ones()).sum());
    }
    Some(least)
}

/// How many clusters `n` clients can carry at the very best if every combination shall cover `c` honest
/// clients with `m` colluding and `s` dropping out: the worst client's crowd is at most `n / clusters`.
#[must_use]
pub fn clusters_you_can_have(n: u32, c: u32, m: u32, s: u32) -> u32 {
    n / c.saturating_add(m).saturating_add(s).max(1)
}

/// Leverages add up to the rank. Gram-Schmidt, twice for accuracy, on rows weighted by the size of each atom.
fn largest_leverage(block: &Block) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers of clients are far below 2^52")]
    let sizes: Vec<f64> = block.atoms.iter().map(|atom| atom.clients.len() as f64).collect();
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter()
            .zip(b)
            .zip(&sizes)
            .map(|((a, b), size)| a * b * size)
            .sum()
    };
    let mut frame: Vec<Vec<f64>> = Vec::new();
    for row in 0..block.rank() {
        let entries = block
            .atoms
            .iter()
            .map(|atom| atom.pattern.get(row).copied().unwrap_or(false));
        let mut vector: Vec<f64> = entries.map(|bit| f64::from(u8::from(bit))).collect();
        for _ in 0..2 {
            for known in &frame {
                let along = product(&vector, known);
                for (value, known) in vector.iter_mut().zip(known) {
                    *value -= along * known;
                }
            }
        }
        let length = product(&vector, &vector).sqrt();
        if length > f64::EPSILON {
            frame.push(vector.iter().map(|value| value / length).collect());
        }
    }
    let leverage = |atom: usize| {
        frame
            .iter()
            .filter_map(|row| row.get(atom))
            .map(|value| value * value)
            .sum()
    };
    (0..block.atoms.len()).map(leverage).fold(0.0, f64::max)
}

/// Modulo 2.
fn add(sum: &mut [u64], row: &[u64]) {
    for (sum, row) in sum.iter_mut().zip(row) {
        *sum ^= row;
    }
}

/// 2^24 combinations take a fraction of a second.
const PARITY_ROWS: usize = 24;
