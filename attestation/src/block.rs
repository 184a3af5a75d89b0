//! Blocks: groups of clients that are counted all together or not at all.
//!
//! Sums over changing survivors tell single clients apart when their updates hardly change from round to round: the
//! difference of two rounds is what the missing client sent. When clients of the same clusters are counted in fixed groups
//! of at least b, every difference of any number of rounds is over whole groups, so nobody is ever alone among fewer than b
//! (TRUST model, many rounds). The price is that one dropout takes its group along.
//!
//! Groups follow from the plan alone: clients of the same clusters in ascending order, b at a time, the last group with the
//! rest. They hold for as long as the clusters do.

use crate::statement::{ClientSet, Plan};
use std::collections::BTreeMap;
use veilsum_crypto::{ClientId, ClusterId};

/// The groups of a plan, in the order of their first clients. Where fewer than `least` clients are in the same clusters,
/// their group is smaller.
#[must_use]
pub fn blocks(plan: &Plan, least: u32) -> Vec<ClientSet> {
    let least = (least as usize).max(1);
    let mut alike: BTreeMap<Vec<ClusterId>, Vec<ClientId>> = BTreeMap::new();
    for client in plan.invited().iter() {
        let signature = plan.clusters_of(*client).map(|(cluster, _)| cluster).collect();
        alike.entry(signature).or_default().push(*client);
    }
    let mut blocks: Vec<ClientSet> = Vec::new();
    for clients in alike.into_values() {
        let groups = (clients.len() / least).max(1);
        for group in 0..groups {
            let end = if group + 1 == groups {
                clients.len()
            } else {
                (group + 1) * least
            };
            blocks.push(clients.iter().copied().take(end).skip(group * least).collect());
        }
    }
    blocks.sort_by_key(|block| block.iter().next().copied());
    blocks
}

/// The clients among `here` that are counted: those whose whole group is here. Everybody without groups.
#[must_use]
pub fn counted(plan: &Plan, least: u32, here: &ClientSet) -> ClientSet {
    if least == 0 {
        return here.clone();
    }
    blocks(plan, least)
        .into_iter()
        .filter(|block| block.is_subset(here))
        .flat_map(|block| block.iter().copied().collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Head;
    use crate::statement::ClusterPlan;
    use veilsum_crypto::{Attempt, BoundedVec, Digest, RoundId};

    fn plan(clusters: &[std::ops::Range<u32>]) -> Plan {
        Plan {
            round: RoundId(1),
            attempt: Attempt(0),
            policy: Digest([0; 32]),
            head: Head::empty(),
            clusters: BoundedVec::new(
                clusters
                    .iter()
                    .map(|range| ClusterPlan {
                        model: Digest([0; 32]),
                        members: range.clone().map(ClientId).collect(),
                    })
                    .collect(),
            )
            .unwrap(),
            graph_seed: [0; 32],
        }
    }

    fn set(clients: &[u32]) -> ClientSet {
        clients.iter().copied().map(ClientId).collect()
    }

    #[test]
    fn groups_are_of_one_kind_and_nobody_is_left_over() {
        // 0 to 4 in the first cluster alone, 5 to 7 in both, 8 and 9 in the second alone.
        let plan = plan(&[0..8, 5..10]);
        assert_eq!(
            blocks(&plan, 2),
            [set(&[0, 1]), set(&[2, 3, 4]), set(&[5, 6, 7]), set(&[8, 9])]
        );
        // Too few of the last kind for three.
        assert_eq!(
            blocks(&plan, 3),
            [set(&[0, 1, 2, 3, 4]), set(&[5, 6, 7]), set(&[8, 9])]
        );
        let all = plan.invited();
        assert_eq!(counted(&plan, 2, &all), all);
        let without = all.iter().copied().filter(|client| client.0 != 3).collect();
        assert_eq!(counted(&plan, 2, &without), set(&[0, 1, 5, 6, 7, 8, 9]));
        assert_eq!(counted(&plan, 0, &without), without);
    }
}
