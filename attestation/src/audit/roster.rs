//! Is there one signed statement per client and kind, about this plan and this roster, with fresh keys for the right
//! clusters?

use super::plan::History;
use super::report::{Check, Report};
use super::scene::Scene;
use super::verdict::CheckName;
use crate::bundle::{Record, Why};
use crate::statement::{KeyBook, Keys, Masked, verifies};
use veilsum_crypto::ClientId;
use veilsum_crypto::chunk::Chunking;

/// Every entry's signature, with the key the authority enrolled for its signer.
pub(super) fn signatures(records: &[Record], book: &KeyBook, report: &mut Report) {
    let mut check = report.check(CheckName::Signatures, None);
    for record in records {
        let (index, entry) = (record.index, &record.entry);
        let (kind, signer) = (entry.kind.name(), entry.signer);
        match book.key(signer) {
            None => check
                .violated(|| format!("entry {index}: a {kind} statement of {signer}, who is not enrolled")),
            Some(key) => {
                check.demand(verifies(&key, book.federation(), entry), || {
                    format!("entry {index}: the signature of {signer} on a {kind} statement does not hold")
                });
            }
        }
    }
    check.done();
}

pub(super) fn check(scene: &Scene<'_>, history: &mut History, report: &mut Report) {
    let mut check = report.check(CheckName::Roster, scene.place);
    for stray in scene.strays(Why::Signer) {
        check.violated(|| {
            format!(
                "entry {}: {} statements are not for {} to sign",
                stray.index,
                stray.kind.name(),
                stray.signer
            )
        });
    }
    for stray in scene.strays(Why::Again) {
        check.violated(|| {
            format!(
                "entry {}: a second {} statement of {}",
                stray.index,
                stray.kind.name(),
                stray.signer
            )
        });
    }
    for (client, keys) in &scene.attempt.keys {
        check_keys(&mut check, scene, history, *client, &keys.body);
    }
    for (client, shares) in &scene.attempt.shares {
        let body = &shares.body;
        check.demand(
            body.plan == scene.plan_leaf() && body.roster == scene.roster,
            || format!("{client} dealt shares for another plan or roster"),
        );
        let want = scene.attempt.keys.len() * (1 + scene.clusters_of(*client).len());
        check.demand(body.digests.len() == want, || {
            format!(
                "{client} states {} shares where {want} are due",
                body.digests.len()
            )
        });
    }
    for (client, masked) in &scene.attempt.masked {
        check_masked(&mut check, scene, *client, &masked.body);
    }
    check.done();
}

fn check_keys(
    check: &mut Check<'_>,
    scene: &Scene<'_>,
    history: &mut History,
    client: ClientId,
    keys: &Keys,
) {
    check.demand(keys.plan == scene.plan_leaf(), || {
        format!("{client} joined another plan")
    });
    let clusters = scene.clusters_of(client);
    check.demand(
        keys.commitments
            .iter()
            .map(|commitment| commitment.cluster)
            .eq(clusters),
        || format!("{client} commits to seeds of other clusters than its own"),
    );
    check.demand(
        keys.box_key.check().is_ok() && keys.mask_key.check().is_ok(),
        || format!("a round key of {client} is no key"),
    );
    check.demand(
        history.is_fresh(keys.mask_key.0) & history.is_fresh(keys.box_key.0),
        || format!("{client} uses a round key that was used before"),
    );
}

fn check_masked(check: &mut Check<'_>, scene: &Scene<'_>, client: ClientId, masked: &Masked) {
    check.demand(
        masked.plan == scene.plan_leaf() && masked.roster == scene.roster,
        || format!("{client} masked for another plan or roster"),
    );
    check.demand(masked.sharers == scene.sharers(), || {
        format!("{client} masked over other dealers than those in the log")
    });
    let clusters = scene.clusters_of(client);
    check.demand(
        masked.vectors.iter().map(|vector| vector.cluster).eq(clusters),
        || format!("{client} masked for other clusters than its own"),
    );
    let bytes = chunking(scene).total_bytes().unwrap_or(usize::MAX) as u64;
    check.demand(masked.vectors.iter().all(|vector| vector.bytes == bytes), || {
        format!("a masked vector of {client} has another length than the policy's {bytes} bytes")
    });
}

/// How the round's vectors are cut: the policy's entries and the weight.
fn chunking(scene: &Scene<'_>) -> Chunking {
    let rule = &scene.policy().update;
    let entries = usize::try_from(rule.entries)
        .unwrap_or(usize::MAX)
        .saturating_add(1);
    Chunking::new(rule.modulus, entries)
}
