//! What can be done to a plan next, and what that gives for what it costs.

use veilsum_attestation::disclosure::{CrowdRule, Verdict, check_counting, leverages};

use super::super::kind::{kinds, smallest};
use super::table::Table;
use super::{Action, Membership, Reason, Repair};

/// What to do next, and why.
pub(super) struct Next {
    pub(super) reason: Reason,
    /// In order; more than one where clients move together.
    pub(super) actions: Vec<Action>,
}

/// Actions, what they cost and what they give.
struct Offer {
    actions: Vec<Action>,
    cost: f64,
    /// Clients gained, up to what is asked for.
    gain: f64,
}

impl Table<'_> {
    /// What to do about a verdict, about clients that are too few of their kind, or about too many clusters; `None` when all
    /// is well or nothing can be done.
    pub(super) fn next(&mut self, verdict: &Verdict, wanted: &Repair<'_>) -> Option<Next> {
        if !verdict.is_safe() {
            let actions = self.uncover(verdict, wanted)?;
            return Some(Next {
                reason: Reason::Exposed(verdict.clone()),
                actions,
            });
        }
        if let Some((signature, clients)) = smallest(&self.matrix(), wanted.alike) {
            let actions = self.accompany(&signature, &clients, wanted)?;
            return Some(Next {
                reason: Reason::Alone {
                    clients,
                    least: wanted.alike,
                },
                actions,
            });
        }
        let clusters: Vec<usize> = self.open().collect();
        if clusters.len() > wanted.most {
            return Some(Next {
                reason: Reason::TooMany {
                    clusters: clusters.len(),
                    most: wanted.most,
                },
                actions: self.fewer(&clusters)?,
            });
        }
        None
    }

    /// What makes the worst combination cover more.
    fn uncover(&mut self, verdict: &Verdict, wanted: &Repair<'_>) -> Option<Vec<Action>> {
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
        let mut actions = self.merges(&clusters, wanted);
        actions.extend(self.withheld(&clusters, wanted));
        if wanted.moves.cut {
            for &cluster in &clusters {
                for &client in clients.iter().filter(|client| self.has(cluster, **client)) {
                    if self.of(client).count() > 1 && self.size(cluster) > 1 {
                        actions.push(vec![Action::Cut { client, cluster }]);
                    }
                }
            }
        }
        let weight = |reach: &Reach| reach.clients + reach.orgs - reach.short;
        self.choose(actions, wanted, weight)
            .or_else(|| self.last_resort(&clusters))
    }

    /// What gives clients more of their kind: all of them leave one of their clusters, or clusters become fewer.
    fn accompany(
        &mut self,
        signature: &[usize],
        clients: &[usize],
        wanted: &Repair<'_>,
    ) -> Option<Vec<Action>> {
        let mut actions = self.merges(signature, wanted);
        actions.extend(self.withheld(signature, wanted));
        if wanted.moves.cut && signature.len() > 1 {
            for &cluster in signature {
                let leave = |&client: &usize| Action::Cut { client, cluster };
                actions.push(clients.iter().map(leave).collect());
            }
        }
        self.choose(actions, wanted, |reach| -reach.lacking)
            .or_else(|| self.last_resort(signature))
    }

    /// The cheapest merge of any two clusters.
    fn fewer(&self, clusters: &[usize]) -> Option<Vec<Action>> {
        let pairs = clusters.iter().enumerate().flat_map(|(place, &cluster)| {
            let later = clusters.iter().skip(place + 1);
            later.map(move |&with| Action::Merge { cluster, with })
        });
        pairs
            .map(|action| (self.cost(action), action))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
            .map(|(_, action)| vec![action])
    }

    /// Of what can be done, what costs least for what it gives; `weight` says how good a plan is.
    fn choose(
        &mut self,
        actions: Vec<Vec<Action>>,
        wanted: &Repair<'_>,
        weight: impl Fn(&Reach) -> f64,
    ) -> Option<Vec<Action>> {
        let mut offers: Vec<Offer> = actions
            .into_iter()
            .map(|actions| Offer {
                cost: self.total(&actions),
                actions,
                gain: 0.0,
            })
            .collect();
        offers.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.actions.cmp(&b.actions)));
        // Nothing may help at once: the cheapest merge, then the cheapest cluster nobody needs, are steps on the way.
        let merge = |offer: &&Offer| matches!(offer.actions[..], [Action::Merge { .. }]);
        let withhold = |offer: &&Offer| matches!(offer.actions[..], [Action::Withhold { .. }]);
        let otherwise = (offers.iter().find(merge))
            .or_else(|| offers.iter().find(withhold))
            .map(|offer| offer.actions.clone());
        // The dear ones are not worth weighing.
        offers.truncate(OFFERS);
        let before = self.reach(wanted);
        for offer in &mut offers {
            let mut changed = self.copy();
            for action in &offer.actions {
                changed.apply(*action);
            }
            while let Some(action) = changed.contained() {
                changed.apply(action);
            }
            let after = changed.reach(wanted);
            self.work = changed.work;
            // A better average is no help where the worst combination then covers fewer.
            offer.gain = match (&before, &after) {
                (Some(before), Some(after))
                    if after.clients >= before.clients && after.orgs >= before.orgs =>
                {
                    weight(after) - weight(before)
                }
                _ => 0.0,
            };
        }
        let helps = |offer: &&Offer| offer.gain > LEAST_GAIN;
        let best = offers.iter().filter(helps).min_by(|a, b| {
            let price = |offer: &Offer| offer.cost / offer.gain;
            (price(a).total_cmp(&price(b)))
                .then(b.gain.total_cmp(&a.gain))
                .then(a.actions.cmp(&b.actions))
        });
        best.map(|offer| offer.actions.clone()).or(otherwise)
    }

    /// The smallest of some clusters goes, whoever is left without one.
    fn last_resort(&self, clusters: &[usize]) -> Option<Vec<Action>> {
        let smallest = clusters
            .iter()
            .filter(|cluster| self.size(**cluster) > 0)
            .min_by_key(|cluster| (self.size(**cluster), **cluster))?;
        Some(vec![Action::Withhold { cluster: *smallest }])
    }

    /// Each of `clusters` with any other.
    fn merges(&self, clusters: &[usize], wanted: &Repair<'_>) -> Vec<Vec<Action>> {
        let mut merges = Vec::new();
        if wanted.moves.merge {
            for &one in clusters.iter().filter(|cluster| self.size(**cluster) > 0) {
                for other in self.open().filter(|other| *other != one) {
                    let (cluster, with) = (one.min(other), one.max(other));
                    merges.push(vec![Action::Merge { cluster, with }]);
                }
            }
            merges.sort_unstable();
            merges.dedup();
        }
        merges
    }

    /// Those of `clusters` that nobody needs.
    fn withheld(&self, clusters: &[usize], wanted: &Repair<'_>) -> Vec<Vec<Action>> {
        let spare = |cluster: &&usize| {
            self.size(**cluster) > 0 && self.members(**cluster).all(|client| self.of(client).count() > 1)
        };
        let open = clusters.iter().filter(|_| wanted.moves.withhold).filter(spare);
        open.map(|&cluster| vec![Action::Withhold { cluster }]).collect()
    }

    /// How good the plan is; `None` once the work is used up.
    fn reach(&mut self, wanted: &Repair<'_>) -> Option<Reach> {
        let matrix = self.matrix();
        let CrowdRule {
            crowd: clients,
            crowd_orgs,
        } = wanted.rule;
        let by_client = CrowdRule {
            crowd: clients,
            crowd_orgs: 0,
        };
        let by_org = CrowdRule { crowd: 0, crowd_orgs };
        let (covered_clients, covered_orgs) = (
            self.covered(&matrix, wanted.orgs, by_client, clients)?,
            self.covered(&matrix, wanted.orgs, by_org, crowd_orgs)?,
        );
        // A client of leverage h is in a crowd of 1/h.
        let short = leverages(&matrix)
            .into_iter()
            .map(|leverage| (leverage * f64::from(clients) - 1.0).max(0.0))
            .fold(0.0, |sum, one| sum + one);
        let lacking: u32 = kinds(&matrix)
            .values()
            .map(|kind| {
                wanted
                    .alike
                    .saturating_sub(u32::try_from(kind.len()).unwrap_or(u32::MAX))
            })
            .sum();
        Some(Reach {
            clients: covered_clients,
            orgs: covered_orgs,
            short,
            lacking: f64::from(lacking),
        })
    }

    /// What the worst combination covers, up to `enough`.
    fn covered(&mut self, matrix: &Membership, orgs: &[u32], rule: CrowdRule, enough: u32) -> Option<f64> {
        if self.work == 0 {
            return None;
        }
        let (verdict, spent) = check_counting(matrix, orgs, &rule, QUESTION.min(self.work));
        self.work -= spent;
        Some(match verdict {
            Verdict::Safe(_) => f64::from(enough),
            Verdict::Exposed(exposure) => f64::from(exposure.covered),
            Verdict::Undecided(_) => 0.0,
        })
    }
}

/// How good a plan is.
struct Reach {
    /// Clients in the worst combination, up to what the rule asks for.
    clients: f64,
    /// Organisations in the worst combination, up to what the rule asks for.
    orgs: f64,
    /// How far all clients together fall short of the crowd.
    short: f64,
    /// Clients lacking in kinds that are too small to be counted together.
    lacking: f64,
}

/// How many offers are weighed in a step.
const OFFERS: usize = 48;
/// Below this a gain is rounding.
const LEAST_GAIN: f64 = 1e-9;
/// Of a single question, a thirtieth of the protocol's limit: what is harder counts as not covered.
pub(super) const QUESTION: u64 = 1 << 24;
/// Of all that is weighed for one plan.
pub(super) const WORK: u64 = 1 << 30;
