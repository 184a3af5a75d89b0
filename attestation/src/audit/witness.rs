//! Did enough witnesses cosign a head of this very log? Asked when the auditor was given the consortium's witness policy
//! (C2SP tlog-policy): a quorum over the last head means that nobody else was shown another history up to there.

use super::report::Report;
use super::verdict::CheckName;
use crate::bundle::{parse_cosigned, verify_head};
use crate::merkle::Hash;
use crate::tlog::TrustPolicy;
use std::collections::BTreeSet;
use veilsum_crypto::{Digest, PublicIdentity, Signature};

/// What the auditor asks of witnesses.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) policy: TrustPolicy,
    /// Cosignatures older than this, POSIX seconds, do not count.
    pub(super) since: u64,
}

/// What is known about the log whose head is to be witnessed.
pub(super) struct Witnessed<'a> {
    pub(super) federation: Digest,
    pub(super) server: Option<PublicIdentity>,
    /// Entries of the log.
    pub(super) size: u64,
    /// Entries up to the last that opened a sum.
    pub(super) published: u64,
    /// Whether this log had that root at that size.
    pub(super) had: &'a dyn Fn(u64, &Hash) -> bool,
}

pub(super) fn check(
    demand: Option<&Demand>,
    cosigned: Option<&[u8]>,
    log: &Witnessed<'_>,
    report: &mut Report,
) {
    let mut check = report.check(CheckName::Witnesses, None);
    match (demand.filter(|demand| !demand.policy.needs_none()), cosigned) {
        (None, None) => check.not_checkable(
            "no quorum is asked for and there are no cosignatures: compare the head with those the members hold"
                .to_owned(),
        ),
        (None, Some(_)) => check.not_checkable(
            "there are cosignatures and no policy says whose count: give the witnesses' policy file".to_owned(),
        ),
        (Some(_), None) => check.violated(|| {
            "the policy asks for a quorum of witnesses and no cosigned head is here".to_owned()
        }),
        (Some(demand), Some(bytes)) => match judge(demand, bytes, log) {
            Err(reason) => check.violated(|| reason),
            Ok(size) if size < log.published => check.not_checkable(format!(
                "the quorum cosigned the first {size} of {} entries and sums were opened after them: have the head \
                 cosigned and export again",
                log.size
            )),
            Ok(_) => {}
        },
    }
    check.done();
}

/// The entries the quorum stands for, or what is wrong.
fn judge(demand: &Demand, bytes: &[u8], log: &Witnessed<'_>) -> Result<u64, String> {
    let (note, checkpoint) = parse_cosigned(bytes).map_err(|error| error.to_string())?;
    let Some(server) = log.server else {
        return Err("no policy names the server's key".to_owned());
    };
    verify_head(&note, &checkpoint, &log.federation, server).map_err(|error| error.to_string())?;
    let verifies = |public: &[u8; 32], text: &[u8], signature: &[u8; 64]| {
        PublicIdentity(*public).verifies_raw(text, &Signature(*signature))
    };
    let accepted = demand
        .policy
        .accept(&note, &verifies)
        .map_err(|error| error.to_string())?;
    if !(log.had)(checkpoint.size(), checkpoint.root()) {
        return Err(format!(
            "the head cosigned at {} entries is not this log's: the log was forked",
            checkpoint.size()
        ));
    }
    let fresh: BTreeSet<&[u8]> = accepted
        .witnesses
        .iter()
        .filter(|(_, time)| *time >= demand.since)
        .filter_map(|(key, _)| {
            let known = demand.policy.witnesses().iter();
            known
                .filter(|line| line.key == **key)
                .map(|line| line.name.as_slice())
                .next()
        })
        .collect();
    if !demand.policy.satisfied(&fresh) {
        return Err(format!(
            "{} of {} cosignatures are from before {}, and the rest are no quorum",
            accepted.witnesses.len() - fresh.len(),
            accepted.witnesses.len(),
            demand.since
        ));
    }
    Ok(checkpoint.size())
}
