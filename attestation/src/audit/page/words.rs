//! What the page says in plain words.

use super::super::verdict::{CheckName, Course, Step};

/// What a check asks.
pub(super) fn question(check: CheckName) -> &'static str {
    match check {
        CheckName::SignedHead => {
            "Is this the very record that the server signed, nothing added, changed or left out?"
        }
        CheckName::Entries => "Can every statement be read, in its one valid spelling?",
        CheckName::Enrolment => {
            "Did the authority enrol every client, and sign one safe set of rules for them?"
        }
        CheckName::Signatures => "Is every statement signed by the one who is said to make it?",
        CheckName::Heads => "Do the parties speak of this record and no other?",
        CheckName::Clustering => "Were clients grouped when and as the rules say?",
        CheckName::Plan => "Does each round's plan keep to the rules, and start where the last round ended?",
        CheckName::Disclosure => {
            "Is what was opened just what may be opened without showing too few clients?"
        }
        CheckName::Roster => "Did each client speak once, about this round, with fresh keys?",
        CheckName::Phases => "Did everything happen in its order?",
        CheckName::Threshold => "Were there enough clients at every step?",
        CheckName::Agreement => {
            "Did enough clients sign one and the same list of whose updates count and what is opened?"
        }
        CheckName::Complaints => "Where a client complained about another, was it right?",
        CheckName::Reveals => "Did only those who signed open anything, and just what was agreed?",
        CheckName::OneKind => {
            "Was no client's update opened by itself? (Both kinds of its secrets would do that.)"
        }
        CheckName::Shares => "Is every part of a secret that was opened the part that was handed out?",
        CheckName::SelfSeeds => "Are the opened locks those that their clients set at the start?",
        CheckName::MaskSecrets => "Are the opened secrets of clients that left theirs?",
        CheckName::Vectors => "Are the masked updates those that the clients signed for?",
        CheckName::Sums => "Is every opened sum, recomputed, what the server published?",
        CheckName::Models => "Is every new model the old one moved by that sum?",
        CheckName::Ending => "Did the round end as is said?",
        CheckName::Witnesses => "Did independent witnesses sign the record?",
        CheckName::Inputs => "Did clients send in honest updates?",
        CheckName::OffLog => "Was nothing handed over outside the record?",
        CheckName::Erasure => "Were secrets thrown away?",
        CheckName::Identities => "Are separate clients separate parties?",
    }
}

/// When a client left.
pub(super) fn left(course: &Course) -> &'static str {
    match (course.step, course.late) {
        (Step::Invited, None) => "did not join",
        (_, Some(_)) => "sent its update too late",
        (Step::Keys, None) => "after it joined, before it handed out its shares",
        (Step::Shares, None) => "after it handed out its shares, before its update arrived",
        (Step::Masked | Step::Agree | Step::Reveal, None) => "its update arrived and does not count",
    }
}

/// How that is known.
pub(super) fn known(course: &Course) -> String {
    if let Some(entry) = course.late {
        return format!("the server logged it as late, in entry {entry}");
    }
    match (course.step, course.entry) {
        (Step::Masked | Step::Agree | Step::Reveal, Some(entry)) => format!(
            "its update is entry {entry}, and those who signed left it out: another client of its group did not send one, or \
             the checks below say what is wrong"
        ),
        (_, Some(entry)) => format!("entry {entry} is the last it signed in this attempt"),
        (_, None) => "the record holds nothing of it in this attempt".to_owned(),
    }
}

/// Why an attempt opened nothing.
pub(super) fn abort(reason: &str) -> &'static str {
    match reason {
        "TooFewKeys" => "too few clients joined",
        "TooFewShares" => "too few clients handed out shares",
        "TooFewMasked" => "too few updates arrived",
        "TooFewAgree" => "too few clients signed what was to be opened",
        "TooFewReveal" => "too few clients answered at the end",
        "ReleaseLeaks" => "any sum of those who were left would have shown too few clients",
        "BadDealer" => "a client handed out shares that are none",
        "Unfinished" => "it has no end; the server stopped, or the file was made meanwhile",
        _ => "the server ended it",
    }
}

/// What a whole record proves, and what it does not.
pub(super) const WHOLE: (&[&str], &[&str]) = (
    &[
        "Whose updates are in each sum that was opened, and that the sum is theirs, to the last bit.",
        "That enough clients signed the list of those updates before anything was opened.",
        "That what the record shows opened lets nobody work out the sum of fewer clients than agreed.",
        "That each new model follows from the sum.",
        "That nobody changed the record after the server signed it.",
    ],
    &[
        "That clients sent in honest updates: they are masked, and stay so.",
        "That nothing was handed over outside the record: each member compares it with its own journal.",
        "That keys and updates were thrown away.",
        "That two clients are not one party: the authority answers for that.",
        "That others were shown the same record, unless witnesses signed it: compare the head below.",
    ],
);

/// What a part of a record proves, and what it does not.
pub(super) const PART: (&[&str], &[&str]) = (
    &[
        "That the statements shown are in the record that the server signed, and fit each other.",
        "That nobody changed them afterwards.",
    ],
    &[
        "That the sums are right: the updates behind them are not in this file.",
        "Anything about what the file leaves out.",
        "That others were shown the same record, unless witnesses signed it: compare the head below.",
    ],
);
