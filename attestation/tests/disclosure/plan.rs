//! Random plans, and the oracle that decides small ones by deleting every set of clients.

use std::collections::BTreeSet;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use veilsum_attestation::disclosure::{Cover, CrowdRule, Membership, Verdict, check};

/// A small plan, as the oracle sees it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// `rows[cluster][client]`.
    pub(crate) rows: Vec<Vec<bool>>,
    /// The organisation of each client.
    pub(crate) orgs: Vec<u32>,
}

impl Plan {
    /// Up to 8 clusters of up to 12 clients: sparse to dense, with clones, near-clones and empty rows.
    pub(crate) fn random(rng: &mut ChaCha20Rng) -> Self {
        let n = 1 + below(rng, 12) as usize;
        let k = 1 + below(rng, 8) as usize;
        if below(rng, 3) == 0 {
            return Self::entangled(rng);
        }
        let density = 1 + below(rng, 9);
        let mut rows: Vec<Vec<bool>> = Vec::new();
        for row in 0..k {
            let kind = below(rng, 10);
            let mut bits: Vec<bool> = match (kind, row) {
                (0, _) => vec![false; n],
                (1..=3, 1..) => rows[below(rng, u32::try_from(row).unwrap()) as usize].clone(),
                _ => (0..n).map(|_| below(rng, 10) < density).collect(),
            };
            if kind == 2 {
                let flip = below(rng, u32::try_from(n).unwrap()) as usize;
                bits[flip] = !bits[flip];
            }
            rows.push(bits);
        }
        // Repeating columns makes larger atoms, so that more plans are safe.
        if below(rng, 2) == 0 {
            let few = 1 + below(rng, 4) as usize;
            for row in &mut rows {
                for column in 0..n {
                    row[column] = row[column % few];
                }
            }
        }
        let makers = 1 + below(rng, 8);
        let orgs = (0..n).map(|_| below(rng, makers)).collect();
        Self { rows, orgs }
    }

    /// Two to four clusters of a dozen clients, half of whom are in two or three: covers around 3, and
    /// seldom bases enough to prove it.
    fn entangled(rng: &mut ChaCha20Rng) -> Self {
        let k = 2 + below(rng, 3);
        let mut rows = vec![vec![false; 12]; k as usize];
        for place in 0..36 {
            // The first of three places always, the others half of the time.
            if place < 12 || below(rng, 2) == 0 {
                rows[below(rng, k) as usize][place % 12] = true;
            }
        }
        let makers = 5 + below(rng, 8);
        Self {
            rows,
            orgs: (0..12).map(|_| below(rng, makers)).collect(),
        }
    }

    pub(crate) fn matrix(&self) -> Membership {
        Membership::new(self.rows.clone()).unwrap()
    }

    pub(crate) fn check(&self, rule: CrowdRule) -> Verdict {
        check(&self.matrix(), &self.orgs, &rule)
    }

    /// The least number, below `required`, of clients (or organisations) whose removal lowers the rank.
    pub(crate) fn least(&self, cover: Cover, required: u32) -> Option<u32> {
        let n = self.orgs.len();
        let groups: Vec<Vec<usize>> = match cover {
            Cover::Clients => (0..n).map(|client| vec![client]).collect(),
            Cover::Organisations => {
                let names: BTreeSet<u32> = self.orgs.iter().copied().collect();
                names
                    .iter()
                    .map(|name| (0..n).filter(|client| self.orgs[*client] == *name).collect())
                    .collect()
            }
        };
        let full = rank(&self.rows, &vec![true; n]);
        let mut sets: Vec<u32> = (0..1_u32 << groups.len()).collect();
        sets.sort_by_key(|set| set.count_ones());
        let falls = |set: &u32| {
            let mut stays = vec![true; n];
            for (index, group) in groups.iter().enumerate() {
                if set >> index & 1 == 1 {
                    for client in group {
                        stays[*client] = false;
                    }
                }
            }
            rank(&self.rows, &stays) < full
        };
        let found = sets
            .iter()
            .take_while(|set| set.count_ones() < required)
            .find(|set| falls(set));
        found.map(|set| set.count_ones())
    }
}

/// Integer rank on some columns: fraction-free, every value a minor, so at most 56 for 8 rows of 0 and 1.
fn rank(rows: &[Vec<bool>], stays: &[bool]) -> usize {
    let mut matrix: Vec<Vec<i64>> = rows
        .iter()
        .map(|row| {
            row.iter()
                .zip(stays)
                .filter(|(_, stays)| **stays)
                .map(|(bit, _)| i64::from(*bit))
                .collect()
        })
        .collect();
    let width = matrix.first().map_or(0, Vec::len);
    let (mut rank, mut previous) = (0, 1);
    for column in 0..width {
        let Some(row) = (rank..matrix.len()).find(|row| matrix[*row][column] != 0) else {
            continue;
        };
        matrix.swap(rank, row);
        for below in rank + 1..matrix.len() {
            let factor = matrix[below][column];
            for at in 0..width {
                let value = matrix[rank][column] * matrix[below][at] - factor * matrix[rank][at];
                assert_eq!(value % previous, 0);
                matrix[below][at] = value / previous;
            }
        }
        previous = matrix[rank][column];
        rank += 1;
    }
    rank
}

/// Below `bound`, near enough evenly.
pub(crate) fn below(rng: &mut ChaCha20Rng, bound: u32) -> u32 {
    rng.next_u32() % bound
}

/// The numbers below `n` in random order.
pub(crate) fn permutation(rng: &mut ChaCha20Rng, n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        order.swap(last, below(rng, u32::try_from(last + 1).unwrap()) as usize);
    }
    order
}

/// Every client in one random cluster, and `overlap` % of them in a second.
pub(crate) fn soft(rng: &mut ChaCha20Rng, n: usize, k: usize, overlap: u32) -> Membership {
    let mut members = vec![Vec::new(); k];
    for client in 0..n {
        let order = permutation(rng, k);
        members[order[0]].push(client);
        if below(rng, 100) < overlap {
            members[order[1]].push(client);
        }
    }
    Membership::from_members(n, &members).unwrap()
}

/// Everybody in half of the clusters.
pub(crate) fn dense(n: usize, k: usize, seed: u64) -> Membership {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    Membership::new(
        (0..k)
            .map(|_| (0..n).map(|_| below(&mut rng, 2) == 1).collect())
            .collect(),
    )
    .unwrap()
}

/// Clusters whose 92 by 92 matrix has determinant 2^61 - 1. With ones above the diagonal the leading minors obey
/// `d(i) = sum over j <= i of (-1)^(i-j) h(i, j) d(j - 1)`, so ones at even distances make them Fibonacci
/// numbers, and in the last row any number can be put together from these with alternating signs.
pub(crate) fn determinant_is_the_prime() -> Vec<Vec<usize>> {
    let n: usize = 92;
    let mut members: Vec<Vec<usize>> = (0..n)
        .map(|row| {
            (0..=row)
                .filter(|column| (row - column).is_multiple_of(2))
                .chain([row + 1])
                .collect()
        })
        .collect();
    let mut minors = vec![1_i128];
    for row in 0..n - 1 {
        minors.push(
            (0..=row)
                .filter(|column| (row - column).is_multiple_of(2))
                .map(|column| minors[column])
                .sum(),
        );
    }
    let term = |column: usize| {
        if (n - 1 - column).is_multiple_of(2) {
            minors[column]
        } else {
            -minors[column]
        }
    };
    let mut left = (1_i128 << 61) - 1;
    members[n - 1].clear();
    for column in (0..n).rev() {
        let lowest: i128 = (0..column).map(term).filter(|term| *term < 0).sum();
        let highest: i128 = (0..column).map(term).filter(|term| *term > 0).sum();
        if !(lowest..=highest).contains(&left) {
            left -= term(column);
            members[n - 1].push(column);
        }
    }
    assert_eq!(left, 0);
    members
}
