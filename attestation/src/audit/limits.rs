//! What no bundle can show. Said in every verdict, so that `verified` is not read for more than it is.

use super::report::Report;
use super::verdict::CheckName;

pub(super) fn state(report: &mut Report) {
    for (check, reason) in [
        (
            CheckName::Inputs,
            "vectors are masked: whether an update is honest or within its range is not in them",
        ),
        (
            CheckName::OffLog,
            "members compare the log with their own journals: only they know what they sent",
        ),
        (
            CheckName::Erasure,
            "no record can show that keys and vectors were erased",
        ),
        (
            CheckName::Identities,
            "the authority answers for separate clients being separate parties",
        ),
    ] {
        report.not_checkable(check, None, reason);
    }
}
