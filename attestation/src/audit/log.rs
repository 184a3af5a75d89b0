//! Do the entries hash to the head the server signed, and are the heads named in statements heads of this very log?

use super::report::Report;
use super::scene::Scene;
use super::verdict::CheckName;
use crate::bundle::verify_head;
use crate::checkpoint::Checkpoint;
use crate::log::Head;
use crate::merkle::Tree;
use crate::note::Note;
use veilsum_crypto::{Digest, PublicIdentity};

/// The signed head against the entries. Without a policy nobody knows the server's key.
pub(super) fn signed_head(
    note: &Note,
    checkpoint: &Checkpoint,
    tree: &Tree,
    federation: Digest,
    server: Option<PublicIdentity>,
    report: &mut Report,
) {
    let mut check = report.check(CheckName::SignedHead, None);
    check.demand(checkpoint.size() == tree.size(), || {
        format!(
            "the head is signed over {} entries and {} are here",
            checkpoint.size(),
            tree.size()
        )
    });
    check.demand(*checkpoint.root() == tree.root(), || {
        "the entries do not hash to the signed root".to_owned()
    });
    match server.map(|server| verify_head(note, checkpoint, &federation, server)) {
        Some(Ok(())) => {}
        Some(Err(error)) => check.violated(|| error.to_string()),
        None => check.not_checkable("no policy names the server's key".to_owned()),
    }
    check.done();
}

/// The plan was made on the log before it, and everybody who joined had accepted exactly that head.
pub(super) fn heads(scene: &Scene<'_>, tree: &Tree, report: &mut Report) {
    let mut check = report.check(CheckName::Heads, scene.place);
    let before = head_at(tree, scene.attempt.plan.index);
    check.demand(before == Some(scene.plan().head), || {
        "the plan names a head that is not this log's before it: the log was forked or rolled back".to_owned()
    });
    for (client, keys) in &scene.attempt.keys {
        check.demand(keys.body.head == scene.plan().head, || {
            format!("{client} joined on another head than the plan's")
        });
    }
    check.done();
}

/// The head when the log had `size` entries.
pub(super) fn head_at(tree: &Tree, size: u64) -> Option<Head> {
    tree.root_at(size).ok().map(|root| Head {
        size,
        root: Digest(root),
    })
}
