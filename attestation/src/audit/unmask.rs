//! The masks come off one cluster's sum: of every contributor its self-mask, of every dropped client the pairwise masks the
//! contributors added for it. What is left must be what the server published.

use super::lanes;
use super::report::Check;
use super::sum::{Case, Running};
use crate::statement::{ClusterPlan, ClusterResult};
use std::collections::BTreeSet;
use veilsum_crypto::chunk::{self, Chunking};
use veilsum_crypto::stream::{AesCtr, Sign, StreamSeed, apply_all};
use veilsum_crypto::{ClientId, Digest, Modulus};

/// One cluster's sum, compared with what the server published; `None` when it cannot be recomputed.
pub(super) fn recompute(
    check: &mut Check<'_>,
    case: &Case<'_>,
    result: &ClusterResult,
    running: Option<Running>,
    chunking: Chunking,
    threads: usize,
) -> Option<Vec<u32>> {
    let id = result.cluster;
    let clients = running.as_ref().map(|running| &running.clients);
    let masks = accounted(check, case, result, clients)?;
    let mut sum = running?.words;
    take_off(&masks, 0, &mut sum, chunking.modulus(), threads);
    check.demand(root(chunking, &sum) == result.sum, || {
        format!("the sum of {id} is not the sum of its members' vectors")
    });
    weight(check, case, result, &sum);
    Some(sum)
}

/// The masks in a sum, if it is over whom the agreement says; otherwise what keeps them from being known is reported.
pub(super) fn accounted(
    check: &mut Check<'_>,
    case: &Case<'_>,
    result: &ClusterResult,
    clients: Option<&BTreeSet<ClientId>>,
) -> Option<Vec<(Sign, StreamSeed)>> {
    let id = result.cluster;
    let Some(cluster) = case.cluster(result) else {
        check.violated(|| format!("{id} was opened and is not in the plan"));
        return None;
    };
    let Some(agreed) = &case.agreed else {
        check.not_checkable(format!("without an agreement nobody knows whose sum {id} is"));
        return None;
    };
    let contributors: BTreeSet<ClientId> = cluster
        .members
        .intersection(&agreed.body.survivors)
        .copied()
        .collect();
    check.demand(result.contributors as usize == contributors.len(), || {
        format!(
            "{} clients are said to be in the sum of {id}, {} are",
            result.contributors,
            contributors.len()
        )
    });
    if clients != Some(&contributors) {
        check.violated(|| format!("the sum of {id} is not over exactly its surviving members"));
        return None;
    }
    match masks(case, result, cluster, &contributors) {
        Ok(masks) => Some(masks),
        Err(reason) => {
            check.not_checkable(reason);
            None
        }
    }
}

/// Takes masks off the words of a sum from number `start` on, and reduces them.
pub(super) fn take_off(
    masks: &[(Sign, StreamSeed)],
    start: u64,
    words: &mut [u32],
    modulus: Modulus,
    threads: usize,
) {
    let share = |start: u64, words: &mut [u32]| {
        let masks: Vec<(Sign, AesCtr)> = masks
            .iter()
            .map(|(sign, seed)| (*sign, AesCtr::new(seed)))
            .collect();
        apply_all(&masks, start, words);
        for word in words {
            *word = modulus.reduce(*word);
        }
    };
    // Whole shares for each thread.
    let each = words.len().div_ceil(SHARE).div_ceil(threads).max(1) * SHARE;
    if threads == 1 || each >= words.len() {
        return share(start, words);
    }
    std::thread::scope(|scope| {
        for (start, words) in (start..).step_by(each).zip(words.chunks_mut(each)) {
            scope.spawn(move || share(start, words));
        }
    });
}

/// A sum's last word against the weight stated; whether clients can have it together.
pub(super) fn weight(check: &mut Check<'_>, case: &Case<'_>, result: &ClusterResult, sum: &[u32]) {
    let id = result.cluster;
    let weight = sum.last().map_or(0, |word| u64::from(*word));
    check.demand(weight == result.weight, || {
        format!("the weight of {id} is {weight}, not {}", result.weight)
    });
    let clients = u64::from(result.contributors);
    let most = u64::from(case.scene.policy().update.max_weight) * clients;
    if !(clients..=most).contains(&weight) {
        check.not_checkable(format!(
            "the weight of {id} is {weight}, which {clients} clients cannot have together: one of them put in something \
             else, and nobody can tell who; the model stays as it was",
        ));
    }
}

/// Every mask in the sum with the sign that takes it off, or what keeps one from being known.
fn masks(
    case: &Case<'_>,
    result: &ClusterResult,
    cluster: &ClusterPlan,
    contributors: &BTreeSet<ClientId>,
) -> Result<Vec<(Sign, StreamSeed)>, String> {
    let (id, context) = (result.cluster, &case.scene.context);
    let mut masks = Vec::new();
    for client in contributors {
        let seed = case.opening.seeds.get(&(*client, id));
        let seed = seed.ok_or_else(|| format!("the self-mask of {client} for {id} was not opened"))?;
        let seed = seed.stream_seed(*client, id, &cluster.model, context);
        masks.push((Sign::Minus, seed));
    }
    let agreed = case.agreed.as_ref().map(|agreed| agreed.body);
    let dropped = agreed
        .into_iter()
        .flat_map(|body| body.sharers.difference(&body.survivors));
    for dropped in dropped.filter(|client| cluster.members.contains(client)) {
        let secret = case.opening.masks.get(dropped);
        let secret = secret.ok_or_else(|| format!("the mask secret of {dropped} was not opened"))?;
        for client in contributors {
            let keys = case.scene.attempt.keys.get(client);
            let seed = keys.and_then(|keys| {
                let public = &keys.body.mask_key;
                secret
                    .pair_seed(*dropped, *client, public, id, &cluster.model, context)
                    .ok()
            });
            let seed = seed.ok_or_else(|| format!("{dropped} and {client} have no common seed"))?;
            // The lower number of a pair adds its mask and the higher subtracts it; what the contributor did is undone.
            let undo = if client < dropped { Sign::Minus } else { Sign::Plus };
            masks.push((undo, seed));
        }
    }
    Ok(masks)
}

/// The chunk-tree root of a sum.
fn root(chunking: Chunking, sum: &[u32]) -> Digest {
    let mut bytes = Vec::new();
    let leaves: Vec<Digest> = sum
        .chunks(chunking.entries_per_chunk())
        .enumerate()
        .map(|(index, entries)| {
            bytes.clear();
            lanes::append(chunking.modulus(), entries, &mut bytes);
            chunk::leaf(index, &bytes)
        })
        .collect();
    chunk::root(&leaves)
}

/// Words of a thread's least share.
const SHARE: usize = 4096;
