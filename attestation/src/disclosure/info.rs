//! Figures for people. No verdict rests on them.

use super::block::{Atom, Block, Cover, blocks};
use super::count;
use super::membership::{Membership, bits};
use super::work::Work;

/// The effective crowd of the worst-placed client: 1 / its leverage. One sum over `n` clients gives `n`; a client alone
/// gives 1; no sum gives infinity. Floating point, for information.
#[must_use]
pub fn crowd(matrix: &Membership) -> f64 {
    let largest = leverages(matrix).into_iter().fold(0.0, f64::max);
    if largest > 0.0 {
        1.0 / largest
    } else {
        f64::INFINITY
    }
}

/// The leverage of every client, from 0 to 1: the share of its variance that the sums explain for equal independent
/// inputs. They add up to the number of independent sums. Floating point, for information.
#[must_use]
pub fn leverages(matrix: &Membership) -> Vec<f64> {
    let mut leverages = vec![0.0; matrix.clients()];
    let mut put = |clients: &[usize], value: f64| {
        for client in clients {
            if let Some(place) = leverages.get_mut(*client) {
                *place = value;
            }
        }
    };
    if let Ok(blocks) = blocks(matrix, &[], Cover::Clients, &mut Work::new(u64::MAX)) {
        for block in &blocks {
            for (atom, value) in block.atoms.iter().zip(block_leverages(block)) {
                put(&atom.clients, value);
            }
        }
    } else {
        // Too entangled for exact ranks, as many rounds on top of each other can be.
        let rows = (0..matrix.clusters()).map(|cluster| {
            let bit = |client| f64::from(u8::from(matrix.contains(cluster, client)));
            (0..matrix.clients()).map(bit).collect()
        });
        let ones = vec![1.0; matrix.clients()];
        for (client, value) in row_space(rows, &ones).into_iter().enumerate() {
            put(&[client], value);
        }
    }
    leverages
}

/// What whoever has the sums learns modulo 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parity {
    /// The clusters whose sums are added, ascending.
    pub clusters: Vec<usize>,
    /// The clients that are then counted an odd number of times: the parity of their total is known in every coordinate.
    pub clients: Vec<usize>,
}

/// Least number of clients in a combination of the sums that is nonzero modulo 2. `None` if there is no such
/// combination, or if more than 24 sums are independent modulo 2, which is too many to list.
#[must_use]
pub fn parity_support(matrix: &Membership) -> Option<u32> {
    Some(count(parity(matrix)?.clients.len()))
}

/// The combination of [`parity_support`]; the first of equally small ones. Integer noise hides it.
#[must_use]
pub fn parity(matrix: &Membership) -> Option<Parity> {
    // A basis over GF(2): each row with its leading bit, reduced by the rows before; and what it is made of.
    let mut basis: Vec<(usize, u64, Odd)> = Vec::new();
    for cluster in 0..matrix.clusters() {
        let mut row = Odd::new(matrix, cluster);
        for (word, bit, known) in &basis {
            if row.clients.get(*word).is_some_and(|value| value & bit != 0) {
                row.add(known);
            }
        }
        let lead = row.clients.iter().enumerate().find(|(_, value)| **value != 0);
        if let Some((word, bit)) = lead.map(|(word, value)| (word, 1 << value.trailing_zeros())) {
            basis.push((word, bit, row));
        }
    }
    if basis.is_empty() || basis.len() > PARITY_ROWS {
        return None;
    }
    // Gray code: each step adds one row.
    let mut sum = Odd {
        clients: vec![0; matrix.clients().div_ceil(64)],
        clusters: vec![0; matrix.clusters().div_ceil(64)],
    };
    let mut least: Option<(u32, Odd)> = None;
    for step in 1_u64..1 << basis.len() {
        if let Some((_, _, row)) = basis.get(step.trailing_zeros() as usize) {
            sum.add(row);
        }
        let weight = sum.clients.iter().map(|word: &u64| word.count_ones()).sum();
        if least.as_ref().is_none_or(|(lightest, _)| weight < *lightest) {
            least = Some((weight, sum.clone()));
        }
    }
    let (_, found) = least?;
    Some(Parity {
        clusters: bits(&found.clusters).collect(),
        clients: bits(&found.clients).collect(),
    })
}

/// A sum of rows modulo 2, and of which.
#[derive(Clone)]
struct Odd {
    clients: Vec<u64>,
    clusters: Vec<u64>,
}

impl Odd {
    fn new(matrix: &Membership, cluster: usize) -> Self {
        let mut clusters = vec![0; matrix.clusters().div_ceil(64)];
        if let Some(word) = clusters.get_mut(cluster / 64) {
            *word = 1 << (cluster % 64);
        }
        Self {
            clients: matrix.bitset(cluster).to_vec(),
            clusters,
        }
    }

    fn add(&mut self, other: &Self) {
        let sums = self.clients.iter_mut().chain(&mut self.clusters);
        for (sum, row) in sums.zip(other.clients.iter().chain(&other.clusters)) {
            *sum ^= row;
        }
    }
}

/// How many clusters `n` clients can have if the effective [`crowd`] shall be `c` with `m` colluding and `s` dropping out:
/// leverages add up to the number of independent sums, so the worst client's crowd is at most `n / clusters`. Disjoint
/// clusters reach it. The rule itself counts the least cover, which is never below the crowd, so overlapping clusters may
/// pass it beyond this number, at a smaller crowd.
#[must_use]
pub fn clusters_you_can_have(n: u32, c: u32, m: u32, s: u32) -> u32 {
    n / c.saturating_add(m).saturating_add(s).max(1)
}

/// The leverage of a client of each atom.
fn block_leverages(block: &Block) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "numbers of clients are far below 2^52")]
    let sizes: Vec<f64> = block.atoms.iter().map(|atom| atom.clients.len() as f64).collect();
    let rows = (0..block.rank()).map(|row| {
        let bit = |atom: &Atom| f64::from(u8::from(atom.pattern.get(row).copied().unwrap_or(false)));
        block.atoms.iter().map(bit).collect()
    });
    row_space(rows, &sizes)
}

/// The diagonal of the projection on the space of the rows, each column standing for `sizes` equal ones. Gram-Schmidt,
/// twice for accuracy; rows of which nothing is left add nothing.
fn row_space(rows: impl Iterator<Item = Vec<f64>>, sizes: &[f64]) -> Vec<f64> {
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter()
            .zip(b)
            .zip(sizes)
            .map(|((a, b), size)| a * b * size)
            .sum()
    };
    let mut frame: Vec<Vec<f64>> = Vec::new();
    for mut vector in rows {
        let before = product(&vector, &vector);
        for _ in 0..2 {
            for known in &frame {
                let along = product(&vector, known);
                for (value, known) in vector.iter_mut().zip(known) {
                    *value -= along * known;
                }
            }
        }
        let left = product(&vector, &vector);
        if left > before * NOTHING_LEFT {
            let length = left.sqrt();
            frame.push(vector.iter().map(|value| value / length).collect());
        }
    }
    let leverage = |column: usize| {
        let entries = frame.iter().filter_map(|row| row.get(column));
        entries.map(|value| value * value).sum()
    };
    (0..sizes.len()).map(leverage).collect()
}

/// 2^24 combinations take a fraction of a second.
const PARITY_ROWS: usize = 24;

/// Share of a row's squared length that is rounding.
const NOTHING_LEFT: f64 = 1e-20;
