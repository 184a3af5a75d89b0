//! The plan under repair, what can be done next, and what that costs and gives.

use veilsum_attestation::disclosure::{CrowdRule, Verdict, check_within, leverages};

use super::{Action, Closeness, Membership, Moves, Repair};

/// Clusters by their first numbers; those that are gone are empty.
pub(super) struct Table<'a> {
    clients: usize,
    /// Members, as bitsets.
    rows: Vec<Vec<u64>>,
    /// What each is made of.
    origins: Vec<Vec<usize>>,
    closeness: Option<Closeness<'a>>,
}

/// An action, what it costs and what it gives.
struct Offer {
    action: Action,
    cost: f64,
    /// Clients gained in cover and crowd, up to what is asked for.
    gain: f64,
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

    /// What to do about a verdict, and what it costs; `None` when it is safe or nothing can be done.
    pub(super) fn choose(&self, verdict: &Verdict, wanted: &Repair<'_>) -> Option<(Action, f64)> {
        let (clusters, clients) = match verdict {
            Verdict::Safe(_) => return None,
            Verdict::Exposed(exposure) => (
                exposure
                    .coefficients
                    .iter()
                    .map(|(cluster, _)| *cluster)
                    .collect(),
                exposure.clients.as_slice(),
            ),
            Verdict::Undecided(_) => (self.open().collect::<Vec<usize>>(), [].as_slice()),
        };
        let mut offers = self.offers(&clusters, clients, wanted.moves);
        // The dear ones are not worth weighing.
        offers.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.action.cmp(&b.action)));
        offers.truncate(OFFERS);
        let before = reach(&self.matrix(), wanted);
        for offer in &mut offers {
            let mut changed = Table {
                rows: self.rows.clone(),
                origins: self.origins.clone(),
                ..*self
            };
            changed.apply(offer.action);
            while let Some(action) = changed.contained() {
                changed.apply(action);
            }
            let after = reach(&changed.matrix(), wanted);
            // A better average is no help where the worst combination then covers fewer.
            offer.gain = if after.0 < before.0 || after.1 < before.1 {
                0.0
            } else {
                (after.0 - before.0) + (after.1 - before.1) + (after.2 - before.2)
            };
        }
        let helps = |offer: &&Offer| offer.gain > LEAST_GAIN;
        let best = offers.iter().filter(helps).min_by(|a, b| {
            let price = |offer: &Offer| offer.cost / offer.gain;
            (price(a).total_cmp(&price(b)))
                .then(b.gain.total_cmp(&a.gain))
                .then(a.action.cmp(&b.action))
        });
        // Nothing helps at once: the cheapest merge, then the cheapest cluster nobody needs, are steps on the way.
        let merge = |offer: &&Offer| matches!(offer.action, Action::Merge { .. });
        let withhold = |offer: &&Offer| matches!(offer.action, Action::Withhold { .. });
        best.or_else(|| offers.iter().find(merge))
            .or_else(|| offers.iter().find(withhold))
            .map(|offer| (offer.action, offer.cost))
            .or_else(|| self.last_resort(&clusters))
    }

    /// The smallest cluster of an exposing combination goes, whoever is left without one.
    fn last_resort(&self, clusters: &[usize]) -> Option<(Action, f64)> {
        let smallest = clusters
            .iter()
            .filter(|cluster| self.size(**cluster) > 0)
            .min_by_key(|cluster| (self.size(**cluster), **cluster))?;
        let action = Action::Withhold { cluster: *smallest };
        Some((action, self.cost(action)))
    }

    /// Everything that changes one of `clusters`.
    fn offers(&self, clusters: &[usize], clients: &[usize], moves: Moves) -> Vec<Offer> {
        let mut actions = Vec::new();
        for &one in clusters.iter().filter(|cluster| self.size(**cluster) > 0) {
            if moves.merge {
                for other in self.open().filter(|other| *other != one) {
                    let (cluster, with) = (one.min(other), one.max(other));
                    actions.push(Action::Merge { cluster, with });
                }
            }
            if moves.cut {
                for &client in clients.iter().filter(|client| self.has(one, **client)) {
                    if self.of(client).count() > 1 && self.size(one) > 1 {
                        actions.push(Action::Cut { client, cluster: one });
                    }
                }
            }
            if moves.withhold && self.members(one).all(|client| self.of(client).count() > 1) {
                actions.push(Action::Withhold { cluster: one });
            }
        }
        actions.sort_unstable();
        actions.dedup();
        actions
            .into_iter()
            .map(|action| Offer {
                action,
                cost: self.cost(action),
                gain: 0.0,
            })
            .collect()
    }

    /// What an action does to pairs, against what their divergence says.
    fn cost(&self, action: Action) -> f64 {
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

    fn joined(&self, one: usize, other: usize) -> f64 {
        self.closeness.map_or(1.0, |known| {
            (known.divergences.at(one, other) - known.tau).max(0.0)
        })
    }

    fn parted(&self, one: usize, other: usize) -> f64 {
        self.closeness.map_or(1.0, |known| {
            (known.tau - known.divergences.at(one, other)).max(0.0)
        })
    }

    /// Whether two clients share a cluster other than one.
    fn together(&self, one: usize, other: usize, except: Option<usize>) -> bool {
        self.of(one)
            .any(|cluster| Some(cluster) != except && self.has(cluster, other))
    }

    /// The clusters of a client.
    fn of(&self, client: usize) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(move |cluster| self.has(*cluster, client))
    }

    fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(|cluster| self.size(*cluster) > 0)
    }

    fn members(&self, cluster: usize) -> impl Iterator<Item = usize> {
        (0..self.clients).filter(move |client| self.has(cluster, *client))
    }

    fn has(&self, cluster: usize, client: usize) -> bool {
        self.row(cluster)
            .get(client / 64)
            .is_some_and(|word| word >> (client % 64) & 1 == 1)
    }

    fn size(&self, cluster: usize) -> u32 {
        self.row(cluster).iter().map(|word| word.count_ones()).sum()
    }

    fn row(&self, cluster: usize) -> &[u64] {
        self.rows.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// Empties a cluster and hands out its members.
    fn close(&mut self, cluster: usize) -> Vec<u64> {
        let empty = vec![0; self.clients.div_ceil(64)];
        self.rows
            .get_mut(cluster)
            .map(|row| std::mem::replace(row, empty))
            .unwrap_or_default()
    }
}

/// How much is covered: clients and organisations in the worst combination, each up to what the rule asks for, and how
/// little all clients together fall short of the crowd.
fn reach(matrix: &Membership, wanted: &Repair<'_>) -> (f64, f64, f64) {
    let CrowdRule {
        crowd: clients,
        crowd_orgs,
    } = wanted.rule;
    let covered = |rule: CrowdRule, enough: u32| match check_within(matrix, wanted.orgs, &rule, WORK) {
        Verdict::Safe(_) => f64::from(enough),
        Verdict::Exposed(exposure) => f64::from(exposure.covered),
        Verdict::Undecided(_) => 0.0,
    };
    // A client of leverage h is in a crowd of 1/h.
    let short = leverages(matrix)
        .into_iter()
        .map(|leverage| (leverage * f64::from(clients) - 1.0).max(0.0))
        .fold(0.0, |sum, one| sum + one);
    let by_client = CrowdRule {
        crowd: clients,
        crowd_orgs: 0,
    };
    let by_org = CrowdRule { crowd: 0, crowd_orgs };
    (covered(by_client, clients), covered(by_org, crowd_orgs), -short)
}

/// Rows whose bits lie below `clients`, as all that come from a membership do.
fn membership(clients: usize, rows: Vec<Vec<u64>>) -> Membership {
    #[expect(
        clippy::expect_used,
        reason = "rows keep the length and the columns they came with"
    )]
    Membership::from_bitsets(clients, rows).expect("rows of a membership")
}

/// How many offers are weighed in a step.
const OFFERS: usize = 48;
/// Below this a gain is rounding.
const LEAST_GAIN: f64 = 1e-9;
/// Of a single question, a thirtieth of the protocol's limit: what is harder counts as not covered.
const WORK: u64 = 1 << 24;
