//! The plan under repair as rows of bits: what can be done to it, and what that costs.

use super::weigh::WORK;
use super::{Action, Closeness, Membership, Repair};

/// Clusters by their first numbers; those that are gone are empty.
pub(super) struct Table<'a> {
    pub(super) clients: usize,
    /// Members, as bitsets.
    pub(super) rows: Vec<Vec<u64>>,
    /// What each is made of.
    pub(super) origins: Vec<Vec<usize>>,
    pub(super) closeness: Option<Closeness<'a>>,
    /// What is left of [`WORK`].
    pub(super) work: u64,
}

impl<'a> Table<'a> {
    pub(super) fn new(wanted: &Repair<'a>) -> Self {
        let count = wanted.clusters.clusters();
        Self {
            clients: wanted.clusters.clients(),
            rows: (0..count)
                .map(|cluster| wanted.clusters.bitset(cluster).to_vec())
                .collect(),
            origins: (0..count).map(|cluster| vec![cluster]).collect(),
            closeness: wanted.closeness,
            work: WORK,
        }
    }

    /// The plan as it stands, with the first numbers.
    pub(super) fn matrix(&self) -> Membership {
        membership(self.clients, self.rows.clone())
    }

    /// A cluster inside another, if there is one; of two equal ones the later.
    pub(super) fn contained(&self) -> Option<Action> {
        let open: Vec<usize> = self.open().collect();
        open.iter().rev().find_map(|cluster| {
            let inside = |other: &&usize| {
                let same = self.row(*cluster) == self.row(**other);
                **other != *cluster
                    && (!same || **other < *cluster)
                    && self
                        .row(*cluster)
                        .iter()
                        .zip(self.row(**other))
                        .all(|(row, other)| row & !other == 0)
            };
            let within = *open.iter().find(inside)?;
            Some(Action::Contained {
                cluster: *cluster,
                within,
            })
        })
    }

    pub(super) fn apply(&mut self, action: Action) {
        match action {
            Action::Merge { cluster, with } => {
                let moved = self.close(with);
                let from = self.origins.get_mut(with).map(std::mem::take).unwrap_or_default();
                if let Some(row) = self.rows.get_mut(cluster) {
                    for (word, more) in row.iter_mut().zip(moved) {
                        *word |= more;
                    }
                }
                if let Some(origins) = self.origins.get_mut(cluster) {
                    origins.extend(from);
                    origins.sort_unstable();
                }
            }
            Action::Cut { client, cluster } => {
                let word = self
                    .rows
                    .get_mut(cluster)
                    .and_then(|row| row.get_mut(client / 64));
                if let Some(word) = word {
                    *word &= !(1 << (client % 64));
                }
            }
            Action::Withhold { cluster } | Action::Contained { cluster, .. } => {
                self.close(cluster);
            }
        }
    }

    /// The clusters that are left, and what they are made of.
    pub(super) fn finish(self) -> (Membership, Vec<Vec<usize>>) {
        let open: Vec<usize> = self.open().collect();
        let pick = |cluster: &usize| {
            (
                self.row(*cluster).to_vec(),
                self.origins.get(*cluster).cloned().unwrap_or_default(),
            )
        };
        let (rows, origins) = open.iter().map(pick).unzip();
        (membership(self.clients, rows), origins)
    }

    /// What actions cost one after the other.
    pub(super) fn total(&self, actions: &[Action]) -> f64 {
        if let [action] = actions {
            return self.cost(*action);
        }
        let mut changed = self.copy();
        actions.iter().fold(0.0, |sum, action| {
            let cost = changed.cost(*action);
            changed.apply(*action);
            sum + cost
        })
    }

    pub(super) fn copy(&self) -> Self {
        Self {
            rows: self.rows.clone(),
            origins: self.origins.clone(),
            ..*self
        }
    }

    /// What an action does to pairs, against what their divergence says.
    pub(super) fn cost(&self, action: Action) -> f64 {
        let mut cost = 0.0;
        match action {
            Action::Merge { cluster, with } => {
                for one in self.members(cluster).filter(|one| !self.has(with, *one)) {
                    for other in self.members(with).filter(|other| !self.has(cluster, *other)) {
                        if !self.together(one, other, None) {
                            cost += self.joined(one, other);
                        }
                    }
                }
            }
            Action::Cut { client, cluster } => {
                for other in self.members(cluster).filter(|other| *other != client) {
                    if !self.together(client, other, Some(cluster)) {
                        cost += self.parted(client, other);
                    }
                }
            }
            Action::Withhold { cluster } => {
                for one in self.members(cluster) {
                    for other in self.members(cluster).filter(|other| *other > one) {
                        if !self.together(one, other, Some(cluster)) {
                            cost += self.parted(one, other);
                        }
                    }
                }
            }
            Action::Contained { .. } => {}
        }
        cost
    }

    pub(super) fn joined(&self, one: usize, other: usize) -> f64 {
        self.closeness.map_or(1.0, |known| {
            (known.divergences.at(one, other) - known.tau).max(0.0)
        })
    }

    pub(super) fn parted(&self, one: usize, other: usize) -> f64 {
        self.closeness.map_or(1.0, |known| {
            (known.tau - known.divergences.at(one, other)).max(0.0)
        })
    }

    /// Whether two clients share a cluster other than one.
    pub(super) fn together(&self, one: usize, other: usize, except: Option<usize>) -> bool {
        self.of(one)
            .any(|cluster| Some(cluster) != except && self.has(cluster, other))
    }

    /// The clusters of a client.
    pub(super) fn of(&self, client: usize) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(move |cluster| self.has(*cluster, client))
    }

    pub(super) fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(|cluster| self.size(*cluster) > 0)
    }

    pub(super) fn members(&self, cluster: usize) -> impl Iterator<Item = usize> {
        (0..self.clients).filter(move |client| self.has(cluster, *client))
    }

    pub(super) fn has(&self, cluster: usize, client: usize) -> bool {
        self.row(cluster)
            .get(client / 64)
            .is_some_and(|word| word >> (client % 64) & 1 == 1)
    }

    pub(super) fn size(&self, cluster: usize) -> u32 {
        self.row(cluster).iter().map(|word| word.count_ones()).sum()
    }

    pub(super) fn row(&self, cluster: usize) -> &[u64] {
        self.rows.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// Empties a cluster and hands out its members.
    pub(super) fn close(&mut self, cluster: usize) -> Vec<u64> {
        let empty = vec![0; self.clients.div_ceil(64)];
        self.rows
            .get_mut(cluster)
            .map(|row| std::mem::replace(row, empty))
            .unwrap_or_default()
    }
}

/// Rows whose bits lie below `clients`, as all that come from a membership do.
fn membership(clients: usize, rows: Vec<Vec<u64>>) -> Membership {
    #[expect(
        clippy::expect_used,
        reason = "rows keep the length and the columns they came with"
    )]
    Membership::from_bitsets(clients, rows).expect("rows of a membership")
}
