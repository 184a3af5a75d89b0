//! Did the authority enrol everybody, and sign one safe policy for exactly them? (The log's beginning.)

use super::Trust;
use super::report::Report;
use super::verdict::CheckName;
use crate::bundle::{Body, Record, Stray, Transcript, Why};
use crate::statement::{KeyBook, Kind, Member, Party, Policy, members_digest};
use std::collections::BTreeSet;
use veilsum_crypto::{ClientId, Digest, PublicIdentity};

/// What the authority laid down: the basis of every later check.
pub(super) struct Charter {
    pub(super) book: KeyBook,
    pub(super) policy: Policy,
    pub(super) policy_leaf: Digest,
}

/// Reads the beginning of the log. `None` when there is no policy to go by; what else is wrong is reported.
pub(super) fn charter(
    records: &[Record],
    trust: &Trust,
    federation: Digest,
    report: &mut Report,
) -> Option<Charter> {
    let mut check = report.check(CheckName::Enrolment, None);
    let mut members: Vec<Member> = Vec::new();
    let mut leaves = Vec::new();
    let mut found: Option<(&Policy, Digest, Party)> = None;
    for record in records {
        match &record.body {
            Body::Member(member) => {
                check.demand(record.entry.signer == Party::Authority, || {
                    format!(
                        "entry {}: a member is enrolled by {}",
                        record.index, record.entry.signer
                    )
                });
                members.push(member.clone());
                leaves.push(record.leaf);
            }
            Body::Policy(policy) => {
                found = Some((policy, record.leaf, record.entry.signer));
                break;
            }
            _ => break,
        }
    }
    let Some((policy, policy_leaf, signer)) = found else {
        check.violated(|| "the log does not begin with members and a policy".to_owned());
        check.done();
        return None;
    };
    check.demand(signer == Party::Authority, || {
        format!("the policy is signed by {signer}")
    });
    check.demand(&*policy.name == trust.name.as_bytes(), || {
        let name = String::from_utf8_lossy(&policy.name).into_owned();
        format!("the policy is of the federation {name:?}, not {:?}", trust.name)
    });
    if let Err(error) = policy.check() {
        check.violated(|| error.to_string());
    }
    check.demand(policy.clients as usize == members.len(), || {
        format!(
            "the policy is for {} clients and {} are enrolled",
            policy.clients,
            members.len()
        )
    });
    check.demand(
        members
            .iter()
            .map(|member| member.client)
            .eq((0..policy.clients).map(ClientId)),
        || "members are not numbered from 0 without gaps".to_owned(),
    );
    check.demand(policy.members == members_digest(&leaves), || {
        "the policy is for other members than those enrolled".to_owned()
    });
    let mut keys = BTreeSet::new();
    let named = members
        .iter()
        .map(|member| (Party::Client(member.client), member.key))
        .chain([
            (Party::Server, policy.server),
            (Party::Authority, trust.authority),
        ]);
    for (party, key) in named {
        check.demand(PublicIdentity::checked(key.0).is_ok(), || {
            format!("the key of {party} is weak")
        });
        check.demand(keys.insert(key), || {
            format!("{party} has a key that another party has too")
        });
    }
    check.done();
    Some(Charter {
        book: KeyBook::new(federation, trust.authority, policy.server, members),
        policy: policy.clone(),
        policy_leaf,
    })
}

/// Members, policies and statements that stand where none may: after the beginning, or before the first plan.
pub(super) fn strays(transcript: &Transcript, report: &mut Report) {
    let misplaced = |stray: &&Stray| stray.why == Why::Place || stray.attempt.is_none();
    for stray in transcript.strays.iter().filter(misplaced) {
        let name = match stray.kind {
            Kind::Member | Kind::Policy => CheckName::Enrolment,
            _ => CheckName::Phases,
        };
        let mut check = report.check(name, None);
        check.violated(|| {
            format!(
                "entry {}: a {} statement has no place here",
                stray.index,
                stray.kind.name()
            )
        });
        check.done();
    }
}
