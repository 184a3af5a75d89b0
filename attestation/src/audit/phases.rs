//! Are the statements in the order of the phases, does nobody take part without the phase before
//! (`U1 ⊇ U2 ⊇ U3 ⊇ U4`), and are at least t clients left at every step?

use super::report::Report;
use super::scene::Scene;
use super::verdict::CheckName;
use crate::bundle::Why;
use std::collections::BTreeSet;
use veilsum_crypto::ClientId;

pub(super) fn check(scene: &Scene<'_>, report: &mut Report) {
    let attempt = scene.attempt;
    let invited: BTreeSet<ClientId> = scene.plan().invited().iter().copied().collect();
    let joined: BTreeSet<ClientId> = attempt.keys.keys().copied().collect();
    let dealt: BTreeSet<ClientId> = attempt.shares.keys().copied().collect();
    let uploaded: BTreeSet<ClientId> = attempt.masked.keys().copied().collect();
    let signed: BTreeSet<ClientId> = attempt.agrees.iter().map(|(client, _)| *client).collect();
    let revealed: BTreeSet<ClientId> = attempt.reveals.iter().map(|(client, _)| *client).collect();

    let mut check = report.check(CheckName::Phases, scene.place);
    for stray in scene.strays(Why::Order) {
        check.violated(|| {
            format!(
                "entry {}: a {} statement after those of a later phase",
                stray.index,
                stray.kind.name()
            )
        });
    }
    for (did, before, what) in [
        (&joined, &invited, "joined without being in the plan"),
        (&dealt, &joined, "dealt shares without keys"),
        (&uploaded, &dealt, "masked without having dealt shares"),
        (&signed, &uploaded, "signed the agreement without having uploaded"),
        (&revealed, &signed, "revealed without having signed the agreement"),
    ] {
        for client in did.difference(before) {
            check.violated(|| format!("{client} {what}"));
        }
    }
    check.done();

    let mut check = report.check(CheckName::Threshold, scene.place);
    let need = scene.threshold();
    let published = attempt.sums().is_some();
    for (next, have, what) in [
        (!dealt.is_empty(), joined.len(), "sent keys"),
        (!uploaded.is_empty(), dealt.len(), "dealt shares"),
        (!signed.is_empty(), uploaded.len(), "uploaded"),
        (
            !revealed.is_empty() || published,
            signed.len(),
            "signed the agreement",
        ),
        (published, revealed.len(), "revealed"),
    ] {
        check.demand(!next || have >= need, || {
            format!("{have} clients {what}, {need} are needed, and the round went on")
        });
    }
    check.done();
}
