//! Did at least t survivors sign one and the same survivor set, head and release, and are the survivors exactly those
//! whose uploads the log holds?

use super::log::head_at;
use super::report::Report;
use super::scene::Scene;
use super::verdict::CheckName;
use crate::merkle::Tree;
use crate::statement::Agree;
use std::collections::BTreeSet;
use veilsum_crypto::{ClientId, Digest};

/// What the clients of an attempt agreed on.
pub(super) struct Agreed<'a> {
    pub(super) body: &'a Agree,
    pub(super) digest: Digest,
    /// Who signed exactly this.
    pub(super) signers: BTreeSet<ClientId>,
}

/// The agreement of an attempt, if it came to one.
pub(super) fn check<'a>(scene: &Scene<'a>, tree: &Tree, report: &mut Report) -> Option<Agreed<'a>> {
    let attempt = scene.attempt;
    let Some((_, first)) = attempt.agrees.first() else {
        if attempt.sums().is_some() || !attempt.reveals.is_empty() {
            let mut check = report.check(CheckName::Agreement, scene.place);
            check.violated(|| "shares or sums were opened without any agreement".to_owned());
            check.done();
        }
        return None;
    };
    let body = &first.body;
    let mut check = report.check(CheckName::Agreement, scene.place);
    let mut signers = BTreeSet::new();
    for (client, agree) in &attempt.agrees {
        if check.demand(agree.body == *body, || {
            format!("{client} signed another survivor set, head or release than the others")
        }) {
            signers.insert(*client);
        }
        check.demand(agree.body.survivors.contains(client), || {
            format!("{client} signed the agreement and is not among its survivors")
        });
    }
    check.demand(
        body.is_proposed_by(&scene.policy().server, scene.book().federation()),
        || "the server never signed the proposal that was agreed on".to_owned(),
    );
    check.demand(
        body.plan == scene.plan_leaf() && body.roster == scene.roster,
        || "the agreement is about another plan or roster".to_owned(),
    );
    check.demand(body.sharers == scene.sharers(), || {
        "the agreement names other dealers than those in the log".to_owned()
    });
    let uploaded = scene.counted();
    for client in body.survivors.difference(&uploaded) {
        check.violated(|| {
            format!("{client} counts as survivor and uploaded nothing in time, or its group did not")
        });
    }
    for client in uploaded.difference(&body.survivors) {
        check.violated(|| format!("{client} uploaded in time and is left out of the survivors"));
    }
    // Between the last upload and the first signature stand at most refusals of late uploads.
    let last = attempt
        .masked
        .values()
        .map(|said| said.index + 1)
        .max()
        .unwrap_or(u64::MAX);
    check.demand(
        (last..=first.index).contains(&body.head.size) && head_at(tree, body.head.size) == Some(body.head),
        || "the head agreed on is not this log's right after the last masked statement".to_owned(),
    );
    if let Some(sums) = attempt.sums() {
        let need = scene.threshold();
        check.demand(signers.len() >= need, || {
            format!(
                "{} clients signed one agreement and {need} are needed",
                signers.len()
            )
        });
        let digest = body.digest().ok();
        check.demand(sums.body.plan == scene.plan_leaf(), || {
            "the sums are of another plan".to_owned()
        });
        check.demand(Some(sums.body.agreement) == digest, || {
            "the sums refer to another agreement".to_owned()
        });
        check.demand(
            sums.body
                .results
                .iter()
                .map(|result| result.cluster)
                .eq(body.release.iter().copied()),
            || "other clusters were opened than the agreement names".to_owned(),
        );
    }
    check.done();
    Some(Agreed {
        body,
        digest: body.digest().ok()?,
        signers,
    })
}
