//! Does every complaint convict its dealer? A server that logs a false one would put an honest client out.

use super::report::Report;
use super::scene::Scene;
use super::verdict::CheckName;
use crate::dealing::BoxPlace;
use std::collections::{BTreeMap, BTreeSet};
use veilsum_crypto::{BoxPublic, ClientId};

/// Shares that never came to be: a dealer, and the receiver whose box it spoilt.
#[derive(Default)]
pub(super) struct Complaints(BTreeSet<(ClientId, ClientId)>);

impl Complaints {
    /// Whether `receiver` has no share of `dealer`.
    pub(super) fn between(&self, dealer: ClientId, receiver: ClientId) -> bool {
        self.0.contains(&(dealer, receiver))
    }

    /// Whether anybody complained about `dealer`.
    pub(super) fn against(&self, dealer: ClientId) -> bool {
        self.0.iter().any(|(known, _)| *known == dealer)
    }
}

/// Judges an attempt's complaints.
pub(super) fn check(scene: &Scene<'_>, report: &mut Report) -> Complaints {
    let mut held = Complaints::default();
    let mut check = report.check(CheckName::Complaints, scene.place);
    let roster: Vec<ClientId> = scene.attempt.keys.keys().copied().collect();
    let keys: BTreeMap<ClientId, BoxPublic> = scene
        .attempt
        .keys
        .iter()
        .map(|(client, keys)| (*client, keys.body.box_key))
        .collect();
    for (receiver, complaint) in &scene.attempt.complaints {
        let dealer = complaint.body.dealer;
        let Some(shares) = scene.attempt.shares.get(&dealer) else {
            check.violated(|| format!("{receiver} complains about {dealer}, who dealt nothing"));
            continue;
        };
        let place = BoxPlace {
            dealer,
            receiver: *receiver,
            shares: &shares.body,
            clusters: &scene.clusters_of(dealer),
            roster: &roster,
            context: &scene.context,
        };
        match complaint.body.check(&place, &keys) {
            Ok(()) => {
                held.0.insert((dealer, *receiver));
            }
            Err(error) => {
                check.violated(|| format!("the complaint of {receiver} about {dealer} is false: {error}"));
            }
        }
    }
    check.done();
    held
}
