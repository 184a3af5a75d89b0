//! The audit of a subset: is each statement in the log the server signed, is it whose it says, and do those shown fit each
//! other? What a subset leaves out it cannot show, and the verdict says so.

use super::ending::planned;
use super::report::Report;
use super::verdict::{CheckName, HeadSummary, ReleasedCluster, RoundSummary, Verdict};
use super::witness::{self, Witnessed};
use super::{AuditError, Auditor, limits};
use crate::bundle::subset::{Proven, SubsetParts};
use crate::bundle::tier::Tier;
use crate::bundle::{Body, parse_head, verify_head};
use crate::checkpoint::Checkpoint;
use crate::merkle::{Hash, verify_consistency, verify_inclusion};
use crate::note::Note;
use crate::statement::{Agree, Kind, Member, Party, Plan, Policy, Sums, verifies};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use veilsum_crypto::{ClientId, Digest, PublicIdentity};

impl Auditor {
    /// Judges what follows a subset's first line.
    pub(super) fn subset(&self, source: impl Read) -> Result<Verdict, AuditError> {
        let parts = SubsetParts::read(source)?;
        let (note, checkpoint) = parse_head(&parts.head)?;
        let mut report = Report::default();
        let subset = Subset::found(&parts, &note, &checkpoint, self.federation);
        subset.entries(&mut report);
        let founded = subset.enrolment(self, &mut report);
        subset.head(founded.as_ref(), &mut report);
        let mut rounds = Vec::new();
        if let Some(founded) = &founded {
            report.about(
                founded.policy,
                &self.trust.name,
                &parts.tier.to_string(),
                &checkpoint,
            );
            subset.signatures(self, founded, &mut report);
            rounds = subset.story(founded, &mut report);
        }
        subset.descriptors(&mut report);
        let cosigned = parts.cosigned.as_ref();
        let (size, root) = (checkpoint.size(), checkpoint.root());
        witness::check(
            self.witnesses.as_ref(),
            cosigned.map(|(bytes, _)| bytes.as_slice()),
            &Witnessed {
                federation: self.federation,
                server: founded.as_ref().map(|founded| founded.policy.server),
                size,
                published: subset.published(),
                had: &|old, old_root| {
                    cosigned.is_some_and(|(_, proof)| {
                        verify_consistency(old, size, proof, old_root, root).is_ok()
                    })
                },
            },
            &mut report,
        );
        limits::state(&mut report);
        for check in CheckName::ALL {
            if !report.mentions(*check) {
                report.not_checkable(
                    *check,
                    None,
                    &format!("a file of the {} tier does not hold what this needs", parts.tier),
                );
            }
        }
        Ok(report.verdict(rounds))
    }
}

struct Subset<'a> {
    parts: &'a SubsetParts,
    note: &'a Note,
    checkpoint: &'a Checkpoint,
    federation: Digest,
}

/// What the authority laid down.
struct Founded<'a> {
    policy: &'a Policy,
    policy_leaf: Digest,
    /// The member a file is for.
    member: Option<&'a Member>,
}

/// A plan shown, and what was shown of its round.
struct Round<'a> {
    plan: &'a Plan,
    leaf: Digest,
    agree: Option<&'a Agree>,
    sums: Option<&'a Sums>,
    aborted: Option<String>,
    said: BTreeSet<Kind>,
}

impl<'a> Subset<'a> {
    fn found(parts: &'a SubsetParts, note: &'a Note, checkpoint: &'a Checkpoint, federation: Digest) -> Self {
        Self {
            parts,
            note,
            checkpoint,
            federation,
        }
    }

    /// Statements that can be read, in log order.
    fn records(&self) -> impl Iterator<Item = (&'a Proven, &'a Body, Party)> {
        self.parts.statements.iter().filter_map(|proven| {
            let record = proven.record.as_ref().ok()?;
            Some((proven, &record.body, record.entry.signer))
        })
    }

    fn entries(&self, report: &mut Report) {
        let mut check = report.check(CheckName::Entries, None);
        let (size, root) = (self.checkpoint.size(), self.checkpoint.root());
        let shown = self.parts.statements.iter();
        for proven in shown.clone() {
            if let Err(error) = &proven.record {
                check.violated(|| format!("entry {}: {error}", proven.index));
            }
        }
        let leaves = self.parts.leaves.iter();
        let all = shown
            .map(|proven| (proven.index, &proven.leaf, proven.proof.as_slice()))
            .chain(leaves.map(|(index, leaf, proof)| (*index, leaf, proof.as_slice())));
        for (index, leaf, proof) in all {
            let proved = verify_inclusion(leaf, index, size, proof as &[Hash], root);
            if let Err(error) = proved {
                check.violated(|| format!("entry {index} is not shown to be in the log: {error}"));
            }
        }
        check.done();
    }

    fn enrolment(&self, auditor: &Auditor, report: &mut Report) -> Option<Founded<'a>> {
        let mut check = report.check(CheckName::Enrolment, None);
        let mut policies = self.records().filter_map(|(proven, body, signer)| match body {
            Body::Policy(policy) => Some((proven, policy, signer)),
            _ => None,
        });
        let Some((proven, policy, signer)) = policies.next() else {
            check.violated(|| "there is no policy, so nobody knows whose keys count".to_owned());
            check.done();
            return None;
        };
        check.demand(policies.next().is_none(), || "there are two policies".to_owned());
        check.demand(signer == Party::Authority, || {
            format!("the policy is signed by {signer}")
        });
        check.demand(&*policy.name == auditor.trust.name.as_bytes(), || {
            "the policy is of another federation".to_owned()
        });
        if let Err(error) = policy.check() {
            check.violated(|| error.to_string());
        }
        check.demand(proven.index == u64::from(policy.clients), || {
            "the policy does not stand right after its members".to_owned()
        });
        check.demand(PublicIdentity::checked(policy.server.0).is_ok(), || {
            "the key of the server is weak".to_owned()
        });
        let mut member = None;
        for (proven, body, signer) in self.records() {
            let Body::Member(body) = body else { continue };
            check.demand(signer == Party::Authority, || {
                format!("{} is enrolled by {signer}", body.client)
            });
            check.demand(
                member.is_none()
                    && u64::from(body.client.0) == proven.index
                    && body.client.0 < policy.clients,
                || format!("{} is not enrolled in its place", body.client),
            );
            check.demand(PublicIdentity::checked(body.key.0).is_ok(), || {
                format!("the key of {} is weak", body.client)
            });
            member = Some(body);
        }
        if let Tier::Member(client) = self.parts.tier {
            check.demand(member.is_some_and(|member| member.client == client), || {
                format!("the enrolment of {client}, whose file this is, is missing")
            });
        }
        check.done();
        Some(Founded {
            policy,
            policy_leaf: Digest(proven.leaf),
            member,
        })
    }

    fn head(&self, founded: Option<&Founded<'_>>, report: &mut Report) {
        let mut check = report.check(CheckName::SignedHead, None);
        match founded {
            Some(founded) => {
                let server = founded.policy.server;
                if let Err(error) = verify_head(self.note, self.checkpoint, &self.federation, server) {
                    check.violated(|| error.to_string());
                }
            }
            None => check.not_checkable("no policy names the server's key".to_owned()),
        }
        check.done();
    }

    /// Signatures, with the keys that are here: another client's on an agreement is its server's word.
    fn signatures(&self, auditor: &Auditor, founded: &Founded<'_>, report: &mut Report) {
        let mut check = report.check(CheckName::Signatures, None);
        for proven in &self.parts.statements {
            let Ok(record) = &proven.record else { continue };
            let (kind, signer) = (record.entry.kind, record.entry.signer);
            let right = match kind {
                Kind::Member | Kind::Policy => signer == Party::Authority,
                Kind::Plan | Kind::Sums | Kind::Late | Kind::Aborted => signer == Party::Server,
                _ => matches!(signer, Party::Client(_)),
            };
            check.demand(right, || {
                format!("entry {}: a {} statement of {signer}", proven.index, kind.name())
            });
            let key = match signer {
                Party::Authority => Some(auditor.trust.authority),
                Party::Server => Some(founded.policy.server),
                Party::Client(client) => founded
                    .member
                    .filter(|member| member.client == client)
                    .map(|member| member.key),
            };
            if let Some(key) = key {
                check.demand(verifies(&key, &self.federation, &record.entry), || {
                    format!(
                        "entry {}: the signature of {signer} on a {} statement does not hold",
                        proven.index,
                        kind.name()
                    )
                });
            }
        }
        check.done();
    }

    /// Rounds in log order: plans come in turn, agreements are the server's, sums are of what was agreed, and the member's
    /// own statements are about the plan they follow.
    fn story(&self, founded: &Founded<'a>, report: &mut Report) -> Vec<RoundSummary> {
        let mut rounds: Vec<Round<'a>> = Vec::new();
        let mut check = report.check(CheckName::Plan, None);
        for (proven, body, signer) in self.records() {
            let index = proven.index;
            if let Body::Plan(plan) = body {
                let last = rounds.last().map(|round| (round.plan.round, round.plan.attempt));
                check.demand(plan.policy == founded.policy_leaf, || {
                    format!("entry {index}: a plan under another policy")
                });
                check.demand(
                    last.is_none_or(|last| last < (plan.round, plan.attempt))
                        && (1..=founded.policy.rounds).contains(&plan.round.0),
                    || format!("entry {index}: a plan out of turn"),
                );
                check.demand(plan.head.size == index, || {
                    format!("entry {index}: a plan made on another head than the one before it")
                });
                rounds.push(Round {
                    plan,
                    leaf: Digest(proven.leaf),
                    agree: None,
                    sums: None,
                    aborted: None,
                    said: BTreeSet::new(),
                });
                continue;
            }
            if let Body::Descriptor(body) = body {
                check.demand(body.policy == founded.policy_leaf, || {
                    format!("entry {index}: a descriptor for another policy")
                });
                continue;
            }
            if matches!(body, Body::Member(_) | Body::Policy(_)) {
                continue;
            }
            let Some(round) = rounds.last_mut() else {
                check.violated(|| format!("entry {index}: a statement before any plan"));
                continue;
            };
            let again = match (body, signer) {
                (Body::Complaint(_) | Body::Late(_), _) => false,
                (Body::Agree(_), Party::Client(client)) if !self.is_for(client) => false,
                _ => !round.said.insert(body.kind()),
            };
            check.demand(!again, || format!("entry {index}: said before in this round"));
            round.take(body, index, &mut check, founded, self.federation);
        }
        check.done();
        let mut check = report.check(CheckName::Agreement, None);
        for round in &rounds {
            round.agreement(&mut check);
        }
        check.done();
        rounds
            .iter()
            .filter_map(|round| round.summary(self.checkpoint))
            .collect()
    }

    fn is_for(&self, client: ClientId) -> bool {
        self.parts.tier == Tier::Member(client)
    }

    /// Entries up to the last shown that opened a sum.
    fn published(&self) -> u64 {
        let sums = self
            .records()
            .filter_map(|(proven, body, _)| matches!(body, Body::Sums(_)).then_some(proven.index + 1));
        let leaves = self.parts.leaves.iter().map(|(index, ..)| index + 1);
        sums.chain(leaves).max().unwrap_or(0)
    }

    /// Descriptors: all of one encoder, under one noise, of one length, finite, and each client's own.
    fn descriptors(&self, report: &mut Report) {
        let Some(first) = self.parts.descriptors.first() else {
            return;
        };
        let mut check = report.check(CheckName::Inputs, None);
        let mut numbers = BTreeSet::new();
        for (place, descriptor) in self.parts.descriptors.iter().enumerate() {
            check.demand(numbers.insert(descriptor.number), || {
                format!("descriptor {place} is of a client that has one already")
            });
            let alike = descriptor.source == first.source
                && descriptor.noise.map(f64::to_bits) == first.noise.map(f64::to_bits)
                && descriptor.values.len() == first.values.len();
            check.demand(alike, || {
                format!("descriptor {place} is of another encoder, noise or length than the first")
            });
            check.demand(descriptor.values.iter().all(|value| value.is_finite()), || {
                format!("descriptor {place} holds a value that is no number")
            });
        }
        check.done();
    }
}

impl<'a> Round<'a> {
    fn take(
        &mut self,
        body: &'a Body,
        index: u64,
        check: &mut super::report::Check<'_>,
        founded: &Founded<'_>,
        federation: Digest,
    ) {
        let about = match body {
            Body::Keys(body) => {
                check.demand(body.head == self.plan.head, || {
                    format!("entry {index}: keys on another head than the plan's")
                });
                Some(body.plan)
            }
            Body::Shares(body) => Some(body.plan),
            Body::Complaint(body) => Some(body.plan),
            Body::Masked(body) => Some(body.plan),
            Body::Sums(body) => {
                self.sums = Some(body);
                Some(body.plan)
            }
            Body::Agree(body) => {
                check.demand(body.is_proposed_by(&founded.policy.server, &federation), || {
                    format!("entry {index}: an agreement the server did not propose")
                });
                check.demand(
                    self.agree.is_none_or(|known| known.digest() == body.digest()),
                    || format!("entry {index}: a second survivor set, head or release in one round"),
                );
                self.agree = self.agree.or(Some(body));
                Some(body.plan)
            }
            Body::Reveal(body) => {
                check.demand(
                    self.agree
                        .is_some_and(|agree| agree.digest() == Ok(body.agreement)),
                    || format!("entry {index}: a reveal for another agreement"),
                );
                None
            }
            Body::Aborted(body) => {
                check.demand(
                    (body.round, body.attempt) == (self.plan.round, self.plan.attempt),
                    || format!("entry {index}: an abort of another attempt"),
                );
                self.aborted = Some(super::ending::reason(body));
                None
            }
            Body::Late(body) => {
                check.demand(
                    (body.round, body.attempt) == (self.plan.round, self.plan.attempt),
                    || format!("entry {index}: late in another attempt"),
                );
                None
            }
            Body::Member(_) | Body::Policy(_) | Body::Plan(_) | Body::Descriptor(_) => None,
        };
        check.demand(about.is_none_or(|plan| plan == self.leaf), || {
            format!("entry {index}: a statement about another plan than the last before it")
        });
    }

    /// Sums are of the agreement, all of its release and nothing else.
    fn agreement(&self, check: &mut super::report::Check<'_>) {
        let Some(sums) = self.sums else { return };
        let place = format!("{}, {}", self.plan.round, self.plan.attempt);
        let Some(agree) = self.agree else {
            return check.violated(|| format!("{place}: sums without an agreement"));
        };
        check.demand(agree.digest() == Ok(sums.agreement), || {
            format!("{place}: the sums are of another agreement")
        });
        let opened = sums.results.iter().map(|result| result.cluster);
        check.demand(opened.eq(agree.release.iter().copied()), || {
            format!("{place}: other clusters were opened than agreed")
        });
        let counts: BTreeMap<_, usize> = self
            .plan
            .numbered()
            .map(|(cluster, body)| (cluster, body.members.intersection(&agree.survivors).count()))
            .collect();
        for result in &sums.results {
            check.demand(
                counts.get(&result.cluster) == Some(&(result.contributors as usize)),
                || format!("{place}: the contributors of {} are miscounted", result.cluster),
            );
        }
    }

    fn summary(&self, checkpoint: &Checkpoint) -> Option<RoundSummary> {
        if self.sums.is_none() && self.aborted.is_none() {
            return None;
        }
        let results = self.sums.map(|sums| &*sums.results).unwrap_or_default();
        let released: Vec<ReleasedCluster> = results
            .iter()
            .map(|result| ReleasedCluster {
                cluster: result.cluster,
                contributors: result.contributors,
                weight: result.weight,
                model: result.model.to_hex(),
            })
            .collect();
        Some(RoundSummary {
            round: self.plan.round,
            attempt: self.plan.attempt,
            survivors: self
                .agree
                .map(|agree| agree.survivors.iter().copied().collect())
                .unwrap_or_default(),
            dropped: Vec::new(),
            withheld: self
                .plan
                .numbered()
                .map(|(cluster, _)| cluster)
                .filter(|cluster| released.iter().all(|open| open.cluster != *cluster))
                .collect(),
            released,
            head: HeadSummary {
                size: checkpoint.size(),
                root: Digest(*checkpoint.root()).to_hex(),
            },
            aborted: self.aborted.clone(),
            clusters: planned(self.plan),
            courses: Vec::new(),
            closed: Vec::new(),
        })
    }
}
