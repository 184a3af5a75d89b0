//! Where the checks write their findings.

use super::verdict::{About, CheckName, Finding, HeadSummary, Overall, RoundSummary, Status, Verdict};
use crate::checkpoint::Checkpoint;
use crate::statement::Policy;
use veilsum_crypto::{Attempt, Digest, RoundId};

/// The findings so far.
#[derive(Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    about: Option<About>,
}

/// The attempt a finding is about.
pub(super) type Where = Option<(RoundId, Attempt)>;

/// One check being made. It ends in `verified` unless something else was said.
pub(super) struct Check<'a> {
    report: &'a mut Report,
    name: CheckName,
    place: Where,
    said: usize,
}

impl Report {
    /// Begins a check.
    pub(super) fn check(&mut self, name: CheckName, place: Where) -> Check<'_> {
        Check {
            report: self,
            name,
            place,
            said: 0,
        }
    }

    /// Something that cannot be checked.
    pub(super) fn not_checkable(&mut self, name: CheckName, place: Where, reason: &str) {
        self.push(name, place, Status::NotCheckable(reason.to_owned()));
    }

    /// Says whose log it is.
    pub(super) fn about(&mut self, policy: &Policy, federation: &str, tier: &str, head: &Checkpoint) {
        self.about = Some(About {
            federation: federation.to_owned(),
            tier: tier.to_owned(),
            clients: policy.clients,
            threshold: policy.threshold,
            colluders: policy.colluders,
            crowd: policy.crowd,
            crowd_orgs: policy.crowd_orgs,
            rounds: policy.rounds,
            head: HeadSummary {
                size: head.size(),
                root: Digest(*head.root()).to_hex(),
            },
        });
    }

    fn push(&mut self, check: CheckName, place: Where, status: Status) {
        self.findings.push(Finding {
            check,
            round: place.map(|(round, _)| round),
            attempt: place.map(|(_, attempt)| attempt),
            status,
        });
    }

    /// Whether a check has said anything yet.
    pub(super) fn mentions(&self, check: CheckName) -> bool {
        self.findings.iter().any(|finding| finding.check == check)
    }

    /// Whether something was violated so far.
    pub(super) fn is_violated(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| matches!(finding.status, Status::Violated(_)))
    }

    /// Ends the audit.
    pub(super) fn verdict(self, rounds: Vec<RoundSummary>) -> Verdict {
        Verdict {
            overall: if self.is_violated() {
                Overall::Violated
            } else {
                Overall::Verified
            },
            findings: self.findings,
            rounds,
            about: self.about,
        }
    }
}

impl Check<'_> {
    /// Demands that something holds; says what is wrong otherwise.
    pub(super) fn demand(&mut self, holds: bool, detail: impl FnOnce() -> String) -> bool {
        if !holds {
            self.violated(detail);
        }
        holds
    }

    /// Something does not hold. Of many violations of one check in one attempt the first few are kept.
    pub(super) fn violated(&mut self, detail: impl FnOnce() -> String) {
        self.said += 1;
        if self.said <= MOST {
            self.report
                .push(self.name, self.place, Status::Violated(detail()));
        }
    }

    /// Part of the check cannot be made.
    pub(super) fn not_checkable(&mut self, reason: String) {
        self.said += 1;
        if self.said <= MOST {
            self.report
                .push(self.name, self.place, Status::NotCheckable(reason));
        }
    }

    /// Ends the check: `verified` if nothing else was said.
    pub(super) fn done(self) {
        if self.said == 0 {
            self.report.push(self.name, self.place, Status::Verified);
        }
    }
}

/// Findings kept of one check in one attempt.
const MOST: usize = 20;
