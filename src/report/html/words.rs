//! What a run shows and what it does not, in plain words. Each sentence is only said when the facts carry it.

use super::figure::{Facts, escape};
use crate::report::BUILT_IN_DATA;

/// What this run shows, one HTML sentence each.
pub(super) fn shown(facts: &Facts<'_>) -> Vec<String> {
    let report = facts.report;
    let mut said = Vec::new();
    if !report.rounds.is_empty() {
        said.push(format!(
            "{} clients of {} organisations and one server ran as separate processes, each with its own keys and \
             certificate. They finished {} training rounds in {} overlapping clusters over QUIC with mutual TLS.",
            report.clients.len(),
            report.organisations.len(),
            report.rounds.len(),
            report.clusters.len(),
        ));
    }
    if facts.verified() {
        said.push(format!(
            "An auditor recomputed every released sum bit for bit from the masked vectors and the revealed shares. It \
             found the signatures and the survivors' agreements in order, and no client with both kinds of share opened. \
             At least {} clients had to sign before anything was opened.",
            facts.count("/policy/threshold"),
        ));
        said.push(format!(
            "The server received masked vectors only and opened one sum per released cluster. No combination of the sums \
             of a round covers fewer than {} clients or {} organisations.",
            facts.count("/policy/crowd"),
            facts.count("/policy/crowd_orgs"),
        ));
    }
    if let Some(kill) = &report.kill {
        let dropped = report
            .rounds
            .iter()
            .any(|round| round.round == kill.round && round.dropped.contains(&kill.client));
        if dropped {
            said.push(format!(
                "Client {} was killed in round {} after {} of the {} of its upload. The half upload counted for nothing, \
                 the round still ended with the exact sum of the others{}.",
                facts.count("/kill/client"),
                facts.count("/kill/round"),
                facts.bytes("/kill/sent_bytes"),
                facts.bytes("/kill/total_bytes"),
                match kill.back_in_round {
                    Some(_) => format!(
                        ", and the client, started again, counted in round {}",
                        facts.count("/kill/back_in_round")
                    ),
                    None => String::new(),
                },
            ));
        }
    }
    for (index, curve) in report.curves.iter().enumerate() {
        if curve.abs_rel_change.is_some_and(|change| change < 0.0) && curve.points.len() > 1 {
            said.push(format!(
                "Training worked under the masks: in cluster {} the relative depth error on frames the training never \
                 saw went from {} to {} ({}).",
                curve.cluster,
                facts.score(&format!("/curves/{index}/points/0/abs_rel")),
                facts.score(&format!("/curves/{index}/points/{}/abs_rel", curve.points.len() - 1)),
                facts.change(&format!("/curves/{index}/abs_rel_change")),
            ));
        }
        if curve.mean_picture_abs_rel.is_some() {
            said.push(format!(
                "For comparison: a picture that shows the mean depth of the training frames scores {} in cluster {}.",
                facts.score(&format!("/curves/{index}/mean_picture_abs_rel")),
                curve.cluster,
            ));
        }
    }
    said
}

/// What this run does not show.
pub(super) fn not_shown(facts: &Facts<'_>) -> Vec<String> {
    let report = facts.report;
    let pictures = if report.data == BUILT_IN_DATA {
        "The frames were drawn by the built-in generator. The scores say that training works, not how good the network is \
         in the world; <code>--data</code> runs the same on recorded frames."
            .to_owned()
    } else {
        format!(
            "The scores are for the frames in {}, for this short training and this small network.",
            escape(&report.data)
        )
    };
    vec![
        "All processes ran on one machine and one person held all the keys. Between organisations the same programs run \
         with keys that each organisation makes and keeps itself."
            .to_owned(),
        "A sum still tells something about its addends, and a model about its training data. Masks hide each update \
         inside the sum; they are no differential privacy, and this run added no noise."
            .to_owned(),
        format!(
            "A server together with {} or more colluding clients could open another client's update. That is the \
             threshold the consortium chose.",
            facts.count("/policy/threshold"),
        ),
        "A client that trains on bad data, or lies about its update, is not found out: nobody sees single updates."
            .to_owned(),
        pictures,
    ]
}

impl Facts<'_> {
    pub(super) fn verified(&self) -> bool {
        self.report
            .audit
            .as_ref()
            .is_some_and(|audit| audit.overall == VERIFIED)
    }
}

/// The auditor's word for a bundle in which everything holds.
pub(super) const VERIFIED: &str = "verified";
