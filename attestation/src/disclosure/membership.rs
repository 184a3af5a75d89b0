//! Who is in which cluster.

/// The 0/1 matrix of a plan: one row per cluster, one column per client.
///
/// Rows and columns keep their numbers when clusters are withheld or clients drop: their entries become
/// zero. So the organisation of each column, and every index in a verdict, stays what it was in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    clients: usize,
    /// Per cluster, bit `i % 64` of word `i / 64` is client `i`.
    rows: Vec<Vec<u64>>,
}

/// Why rows are no membership matrix. Always the fault of whoever made the matrix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// Rows of different lengths.
    #[error(
        "cluster {cluster} has {got} columns where the first has {expected}: give every cluster one entry per client"
    )]
    Ragged {
        /// The row at fault.
        cluster: usize,
        /// Its length in clients (in words for bitsets).
        got: usize,
        /// The length of the others.
        expected: usize,
    },
    /// A client number or bit beyond the last client.
    #[error("cluster {cluster} names client {client} of {clients}: client numbers start at 0")]
    UnknownClient {
        /// The row at fault.
        cluster: usize,
        /// The number found.
        client: usize,
        /// How many clients there are.
        clients: usize,
    },
}

impl Membership {
    /// From rows of booleans, `rows[cluster][client]`.
    ///
    /// # Errors
    /// [`MembershipError::Ragged`] if the rows differ in length.
    pub fn new(rows: Vec<Vec<bool>>) -> Result<Self, MembershipError> {
        let clients = rows.first().map_or(0, Vec::len);
        let mut packed = Vec::with_capacity(rows.len());
        for (cluster, row) in rows.into_iter().enumerate() {
            if row.len() != clients {
                return Err(MembershipError::Ragged {
                    cluster,
                    got: row.len(),
                    expected: clients,
                });
            }
            let word = |bits: &[bool]| bits.iter().rev().fold(0, |word, bit| word << 1 | u64::from(*bit));
            packed.push(row.chunks(WORD).map(word).collect());
        }
        Ok(Self {
            clients,
            rows: packed,
        })
    }

    /// From bitsets: client `i` is bit `i % 64` of word `i / 64`; `clients.div_ceil(64)` words a row.
    ///
    /// # Errors
    /// [`MembershipError`] for a row of another length or a bit beyond the last client.
    pub fn from_bitsets(clients: usize, rows: Vec<Vec<u64>>) -> Result<Self, MembershipError> {
        let words = clients.div_ceil(WORD);
        for (cluster, row) in rows.iter().enumerate() {
            if row.len() != words {
                return Err(MembershipError::Ragged {
                    cluster,
                    got: row.len(),
                    expected: words,
                });
            }
            if let Some(client) = bits(row).find(|client| *client >= clients) {
                return Err(MembershipError::UnknownClient {
                    cluster,
                    client,
                    clients,
                });
            }
        }
        Ok(Self { clients, rows })
    }

    /// From the list of clients of each cluster; order and repetitions do not matter.
    ///
    /// # Errors
    /// [`MembershipError::UnknownClient`] for a number that is not below `clients`.
    pub fn from_members(clients: usize, members: &[Vec<usize>]) -> Result<Self, MembershipError> {
        let mut rows = vec![vec![0; clients.div_ceil(WORD)]; members.len()];
        for (cluster, (row, list)) in rows.iter_mut().zip(members).enumerate() {
            for &client in list {
                let word = row.get_mut(client / WORD).filter(|_| client < clients);
                *word.ok_or(MembershipError::UnknownClient {
                    cluster,
                    client,
                    clients,
                })? |= 1 << (client % WORD);
            }
        }
        Ok(Self { clients, rows })
    }

    /// The rows of several matrices over `clients` clients, one matrix after the other. Those over another number of
    /// clients are left out.
    pub(super) fn stacked<'a>(clients: usize, matrices: impl IntoIterator<Item = &'a Self>) -> Self {
        let same = matrices.into_iter().filter(|matrix| matrix.clients == clients);
        Self {
            clients,
            rows: same.flat_map(|matrix| matrix.rows.iter().cloned()).collect(),
        }
    }

    /// Number of rows, withheld and empty ones included.
    #[must_use]
    pub fn clusters(&self) -> usize {
        self.rows.len()
    }

    /// Number of columns, dropped clients included.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// Whether the client is in the cluster; `false` beyond the matrix.
    #[must_use]
    pub fn contains(&self, cluster: usize, client: usize) -> bool {
        let word = self.rows.get(cluster).and_then(|row| row.get(client / WORD));
        word.is_some_and(|word| word >> (client % WORD) & 1 == 1)
    }

    /// The clients of a cluster, ascending.
    pub fn members(&self, cluster: usize) -> impl Iterator<Item = usize> {
        self.rows.get(cluster).into_iter().flat_map(|row| bits(row))
    }

    /// How many clients a cluster has.
    #[must_use]
    pub fn size(&self, cluster: usize) -> usize {
        self.bitset(cluster)
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// A row as words, the form [`Membership::from_bitsets`] takes; empty beyond the matrix.
    #[must_use]
    pub fn bitset(&self, cluster: usize) -> &[u64] {
        self.rows.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// The same matrix with only these clients left; all other columns become zero.
    /// Numbers of clients that do not exist are ignored.
    #[must_use]
    pub fn restrict(&self, survivors: &[usize]) -> Self {
        let mut mask = vec![0; self.clients.div_ceil(WORD)];
        for &client in survivors.iter().filter(|client| **client < self.clients) {
            if let Some(word) = mask.get_mut(client / WORD) {
                *word |= 1 << (client % WORD);
            }
        }
        let keep = |row: &Vec<u64>| row.iter().zip(&mask).map(|(word, mask)| word & mask).collect();
        Self {
            clients: self.clients,
            rows: self.rows.iter().map(keep).collect(),
        }
    }

    /// The same matrix with only these clusters released; all other rows become zero.
    /// Numbers of clusters that do not exist are ignored.
    #[must_use]
    pub fn release(&self, clusters: &[usize]) -> Self {
        let keep = |(cluster, row): (usize, &Vec<u64>)| {
            if clusters.contains(&cluster) {
                row.clone()
            } else {
                vec![0; row.len()]
            }
        };
        Self {
            clients: self.clients,
            rows: self.rows.iter().enumerate().map(keep).collect(),
        }
    }
}

/// The positions of the one bits, ascending.
pub(super) fn bits(row: &[u64]) -> impl Iterator<Item = usize> {
    row.iter().enumerate().flat_map(|(index, word)| {
        (0..WORD)
            .filter(move |bit| word >> bit & 1 == 1)
            .map(move |bit| index * WORD + bit)
    })
}

/// Clients in one word of a row.
const WORD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ways_in_agree_across_a_word_boundary() {
        let members = vec![vec![0, 63, 64, 129], vec![], vec![1, 1, 128]];
        let matrix = Membership::from_members(130, &members).unwrap();
        let rows = (0..3)
            .map(|k| (0..130).map(|i| members[k].contains(&i)).collect())
            .collect();
        assert_eq!(Membership::new(rows).unwrap(), matrix);
        let words = (0..3).map(|k| matrix.bitset(k).to_vec()).collect();
        assert_eq!(Membership::from_bitsets(130, words).unwrap(), matrix);
        assert_eq!(matrix.members(0).collect::<Vec<_>>(), members[0]);
        assert_eq!(
            (matrix.size(0), matrix.size(1), matrix.size(2), matrix.size(9)),
            (4, 0, 2, 0)
        );
        assert!(matrix.contains(0, 129) && !matrix.contains(0, 130) && !matrix.contains(3, 0));
    }

    #[test]
    fn malformed_rows_are_named() {
        let ragged = Membership::new(vec![vec![true], vec![true, false]]);
        assert_eq!(
            ragged,
            Err(MembershipError::Ragged {
                cluster: 1,
                got: 2,
                expected: 1
            })
        );
        let beyond = Membership::from_bitsets(3, vec![vec![0b111], vec![0b1000]]);
        assert_eq!(
            beyond,
            Err(MembershipError::UnknownClient {
                cluster: 1,
                client: 3,
                clients: 3
            })
        );
        let short = Membership::from_bitsets(65, vec![vec![1]]);
        assert_eq!(
            short,
            Err(MembershipError::Ragged {
                cluster: 0,
                got: 1,
                expected: 2
            })
        );
        let unknown = Membership::from_members(3, &[vec![3]]);
        assert_eq!(
            unknown,
            Err(MembershipError::UnknownClient {
                cluster: 0,
                client: 3,
                clients: 3
            })
        );
    }

    #[test]
    fn restricting_and_releasing_keep_the_numbers() {
        let matrix = Membership::from_members(70, &[vec![0, 69], vec![1, 69]]).unwrap();
        let left = matrix.restrict(&[69, 1, 500]);
        assert_eq!((left.clients(), left.clusters()), (70, 2));
        assert_eq!(left.members(0).collect::<Vec<_>>(), [69]);
        let one = left.release(&[1, 7]);
        assert_eq!((one.size(0), one.size(1)), (0, 2));
    }
}
