//! How far apart every two clients are.

use std::num::NonZeroUsize;

use super::{Gaussian, kernel};

/// A symmetric matrix of divergences with a zero diagonal; none is negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergences {
    clients: usize,
    /// Above the diagonal, row by row.
    upper: Vec<f64>,
}

impl Divergences {
    /// The Jeffreys divergences of all pairs; see [`Gaussian::jeffreys`]. `threads` changes the time and nothing else.
    ///
    /// Memory: 24 bytes per client and channel, and up to 60 bytes per pair.
    ///
    /// # Errors
    /// [`DivergenceError`]: descriptors of different lengths, or so far apart that the divergence is no number.
    pub fn jeffreys(clients: &[Gaussian], threads: NonZeroUsize) -> Result<Self, DivergenceError> {
        Self::from_pairs(clients, threads, |_, _, pair| 0.5 * (pair.spread + pair.shift))
    }

    pub(super) fn from_pairs(
        clients: &[Gaussian],
        threads: NonZeroUsize,
        value: impl Fn(usize, usize, kernel::Pair) -> f64,
    ) -> Result<Self, DivergenceError> {
        let channels = clients.first().map_or(0, Gaussian::channels);
        if let Some((client, other)) = clients
            .iter()
            .enumerate()
            .find(|(_, other)| other.channels() != channels)
        {
            return Err(DivergenceError::Channels {
                client,
                got: other.channels(),
                expected: channels,
            });
        }
        let mut matrix = Self::zero(clients.len());
        let mut wrong = None;
        kernel::all_pairs(clients, threads, |i, j, pair| {
            let value = value(i, j, pair);
            if !value.is_finite() && wrong.is_none_or(|at| (i, j) < at) {
                wrong = Some((i, j));
            }
            matrix.put(i, j, value);
        });
        match wrong {
            Some((row, column)) => Err(DivergenceError::NotFinite { row, column }),
            None => Ok(matrix),
        }
    }

    /// From the full matrix, `rows[i][j]`. The two halves may differ by one part in 10⁹, as two programs might; the
    /// upper one counts.
    ///
    /// # Errors
    /// [`DivergenceError`]: not square, not symmetric, a diagonal that is not 0, negative or not finite.
    pub fn from_rows(rows: &[Vec<f64>]) -> Result<Self, DivergenceError> {
        let mut matrix = Self::zero(rows.len());
        for (row, values) in rows.iter().enumerate() {
            if values.len() != rows.len() {
                return Err(DivergenceError::Square {
                    row,
                    got: values.len(),
                    expected: rows.len(),
                });
            }
            for (column, value) in values.iter().enumerate() {
                if !value.is_finite() {
                    return Err(DivergenceError::NotFinite { row, column });
                }
                if *value < 0.0 {
                    return Err(DivergenceError::Negative {
                        row,
                        column,
                        value: *value,
                    });
                }
                if row == column && *value != 0.0 {
                    return Err(DivergenceError::Diagonal { row, value: *value });
                }
                if row < column {
                    matrix.put(row, column, *value);
                } else if (value - matrix.at(row, column)).abs() > 1e-9 * value.abs() {
                    return Err(DivergenceError::Asymmetric {
                        row,
                        column,
                        value: *value,
                        other: matrix.at(row, column),
                    });
                }
            }
        }
        Ok(matrix)
    }

    /// Number of clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// The divergence of two clients, at least 0; 0 to itself, infinity beyond the matrix.
    #[must_use]
    pub fn at(&self, i: usize, j: usize) -> f64 {
        let (low, high) = (i.min(j), i.max(j));
        if high >= self.clients {
            f64::INFINITY
        } else if low == high {
            0.0
        } else {
            self.upper
                .get(self.place(low, high))
                .copied()
                .unwrap_or(f64::INFINITY)
        }
    }

    /// The divergences of all pairs, each once.
    #[must_use]
    pub fn pairs(&self) -> &[f64] {
        &self.upper
    }

    /// With 0 in place of what is negative.
    pub(super) fn clamped(mut self) -> Self {
        for value in &mut self.upper {
            *value = value.max(0.0);
        }
        self
    }

    fn zero(clients: usize) -> Self {
        Self {
            clients,
            upper: vec![0.0; clients * clients.saturating_sub(1) / 2],
        }
    }

    fn put(&mut self, i: usize, j: usize, value: f64) {
        let place = self.place(i, j);
        if let Some(cell) = self.upper.get_mut(place) {
            *cell = value;
        }
    }

    /// Of `i < j < clients`.
    fn place(&self, i: usize, j: usize) -> usize {
        i * (2 * self.clients - i - 1) / 2 + (j - i - 1)
    }
}

/// Why there are no divergences. Rows, columns and clients count from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DivergenceError {
    /// Descriptors of different encoders.
    #[error(
        "client {client}'s descriptor has {got} channels where the first has {expected}: all clients must use the same encoder"
    )]
    Channels {
        /// The client.
        client: usize,
        /// Its channels.
        got: usize,
        /// The first client's.
        expected: usize,
    },
    /// Clients that added noise of different sizes.
    #[error(
        "client {client} added noise of another size than the first: all clients must follow the same policy"
    )]
    Noise {
        /// The client.
        client: usize,
    },
    /// A row of another length than the matrix.
    #[error("row {row} has {got} values where the matrix has {expected} rows: it must be square")]
    Square {
        /// The row.
        row: usize,
        /// Values in it.
        got: usize,
        /// Rows of the matrix.
        expected: usize,
    },
    /// NaN or infinity, as given or because two descriptors are out of all proportion.
    #[error("the divergence of clients {row} and {column} is not a finite number")]
    NotFinite {
        /// One client.
        row: usize,
        /// The other.
        column: usize,
    },
    /// Below zero.
    #[error("the divergence of clients {row} and {column} is {value}: no divergence is negative")]
    Negative {
        /// One client.
        row: usize,
        /// The other.
        column: usize,
        /// What was given.
        value: f64,
    },
    /// A client that differs from itself.
    #[error("the divergence of client {row} to itself is {value}: the diagonal must be 0")]
    Diagonal {
        /// The client.
        row: usize,
        /// What was given.
        value: f64,
    },
    /// Two halves that disagree.
    #[error(
        "row {row} says {value} for client {column}, row {column} says {other} for client {row}: they must agree"
    )]
    Asymmetric {
        /// The row below the diagonal.
        row: usize,
        /// Its column.
        column: usize,
        /// What it says.
        value: f64,
        /// What the upper half says.
        other: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    /// Between 0 and 1.
    fn unit(rng: &mut ChaCha20Rng) -> f64 {
        f64::from(rng.next_u32()) / f64::from(u32::MAX)
    }

    fn clients(rng: &mut ChaCha20Rng, n: usize, channels: usize, far: f64) -> Vec<Gaussian> {
        (0..n)
            .map(|_| {
                let mean = (0..channels).map(|_| far + unit(rng)).collect();
                let variance = (0..channels).map(|_| 0.01 + unit(rng)).collect();
                Gaussian::new(mean, variance).unwrap()
            })
            .collect()
    }

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    /// `J = ½ (⟨[a + μa², −2μa, 1, 1/a, μa/a, μa²/a], [1/b, μb/b, μb²/b, b + μb², −2μb, 1]⟩ − 2D)`, the same number from
    /// other arithmetic: what two parties could compute without showing either descriptor.
    fn inner_product(a: &Gaussian, b: &Gaussian) -> f64 {
        let mut sum = 0.0;
        for ((ma, va), (mb, vb)) in a
            .mean()
            .iter()
            .zip(a.variance())
            .zip(b.mean().iter().zip(b.variance()))
        {
            let left = [va + ma * ma, -2.0 * ma, 1.0, 1.0 / va, ma / va, ma * ma / va];
            let right = [1.0 / vb, mb / vb, mb * mb / vb, vb + mb * mb, -2.0 * mb, 1.0];
            sum += left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>() - 2.0;
        }
        sum / 2.0
    }

    #[test]
    fn blocks_agree_with_the_direct_and_the_inner_product_form() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        // Around the block of 32 clients, the lane of 4 and the strip of 256 channels.
        for (n, channels) in [
            (1, 3),
            (2, 1),
            (31, 5),
            (32, 256),
            (33, 255),
            (65, 257),
            (70, 600),
        ] {
            let clients = clients(&mut rng, n, channels, 0.0);
            let matrix = Divergences::jeffreys(&clients, threads(2)).unwrap();
            assert_eq!(matrix.pairs().len(), n * (n - 1) / 2);
            for i in 0..n {
                for j in 0..n {
                    let direct = clients[i].jeffreys(&clients[j]);
                    let (blocked, inner) = (matrix.at(i, j), inner_product(&clients[i], &clients[j]));
                    assert!(
                        (blocked - direct).abs() <= 1e-13 * direct,
                        "{n} {channels} {i} {j}"
                    );
                    assert!(
                        (inner - direct).abs() <= 1e-10 * (1.0 + direct),
                        "{inner} {direct}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_blocked_form_keeps_its_digits_far_from_the_origin() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let clients = clients(&mut rng, 2, 64, 1e6);
        let matrix = Divergences::jeffreys(&clients, threads(1)).unwrap();
        // Means around 10⁶ with variances around 1: exact to the rounding of the inputs' difference.
        assert!((matrix.at(0, 1) / clients[0].jeffreys(&clients[1]) - 1.0).abs() < 1e-14);
    }

    #[test]
    fn neither_threads_nor_order_change_a_bit() {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let clients = clients(&mut rng, 71, 37, 0.0);
        let matrix = Divergences::jeffreys(&clients, threads(1)).unwrap();
        assert_eq!(matrix, Divergences::jeffreys(&clients, threads(3)).unwrap());
        assert_eq!(matrix, Divergences::jeffreys(&clients, threads(99)).unwrap());
        let backwards: Vec<Gaussian> = clients.iter().rev().cloned().collect();
        let other = Divergences::jeffreys(&backwards, threads(2)).unwrap();
        for i in 0..71 {
            for j in 0..71 {
                assert_eq!(matrix.at(i, j).to_bits(), other.at(70 - i, 70 - j).to_bits());
            }
        }
    }

    #[test]
    fn descriptors_that_do_not_compare_are_named() {
        let one = |channels| Gaussian::new(vec![0.0; channels], vec![1.0; channels]).unwrap();
        assert_eq!(
            Divergences::jeffreys(&[one(2), one(2), one(3)], threads(1)),
            Err(DivergenceError::Channels {
                client: 2,
                got: 3,
                expected: 2
            })
        );
        let far = Gaussian::new(vec![1e200, 0.0], vec![1e-200, 1.0]).unwrap();
        assert_eq!(
            Divergences::jeffreys(&[one(2), one(2), far], threads(1)),
            Err(DivergenceError::NotFinite { row: 0, column: 2 })
        );
        assert_eq!(Divergences::jeffreys(&[], threads(1)).unwrap().clients(), 0);
    }

    #[test]
    fn a_matrix_that_is_none_is_named() {
        let read = |rows: &[&[f64]]| {
            Divergences::from_rows(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>())
        };
        let good = read(&[&[0.0, 1.5, 2.0], &[1.5, 0.0, 0.25], &[2.0, 0.25, 0.0]]).unwrap();
        assert_eq!((good.at(2, 0), good.at(1, 2), good.at(1, 1)), (2.0, 0.25, 0.0));
        assert!(good.at(0, 3).is_infinite());
        assert!(matches!(
            read(&[&[0.0, 1.0], &[1.0]]),
            Err(DivergenceError::Square {
                row: 1,
                got: 1,
                expected: 2
            })
        ));
        assert!(matches!(
            read(&[&[0.0, 1.0], &[1.1, 0.0]]),
            Err(DivergenceError::Asymmetric {
                row: 1,
                column: 0,
                ..
            })
        ));
        assert!(matches!(
            read(&[&[0.0, -1.0], &[-1.0, 0.0]]),
            Err(DivergenceError::Negative {
                row: 0,
                column: 1,
                ..
            })
        ));
        assert!(matches!(
            read(&[&[0.5]]),
            Err(DivergenceError::Diagonal { row: 0, .. })
        ));
        assert!(matches!(
            read(&[&[0.0, f64::NAN], &[1.0, 0.0]]),
            Err(DivergenceError::NotFinite { row: 0, column: 1 })
        ));
    }
}
