//! What a demo run found: `report.json`, and one self-contained page made of it.
//!
//! [`Report`] is the only source of figures: the page shows nothing that the JSON does not hold, and each figure on it
//! carries the JSON pointer it came from. Reading and writing is in [`mod@file`], the page in [`html`].

use serde::{Deserialize, Serialize};

pub mod file;
pub mod html;
pub mod picture;

mod chart;

use crate::events::LogHead;

/// Name and version of the report's JSON.
pub const SCHEMA: &str = "veilsum-demo/1";

/// [`Report::data`] of a run without recorded frames.
pub const BUILT_IN_DATA: &str = "built-in generator";

/// Facts of one run.
///
/// Figures are rounded by [`rounded`] before they are stored, so that text and number are the same everywhere. Clients
/// are numbered as in the policy, clusters from 0, rounds from 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program that made it.
    pub veilsum: String,
    /// The federation's name.
    pub federation: String,
    /// Start of the run, seconds since 1970 UTC.
    pub started_unix_s: u64,
    /// Length of the run in milliseconds, with start-up and audit.
    pub took_ms: u64,
    /// `depth` or `linear`.
    pub learner: String,
    /// Where the frames came from: [`BUILT_IN_DATA`], or a folder.
    pub data: String,
    /// Seed of data, start and training.
    pub seed: u64,
    /// Whether the run did what it should.
    pub outcome: Outcome,
    /// What the consortium agreed on.
    pub policy: Policy,
    /// Names, by organisation number.
    pub organisations: Vec<String>,
    /// By client number.
    pub clients: Vec<Client>,
    /// By cluster number.
    pub clusters: Vec<Cluster>,
    /// The finished rounds, ascending.
    pub rounds: Vec<Round>,
    /// Attempts that opened nothing, in order.
    pub aborted: Vec<AbortedAttempt>,
    /// How each cluster's model did, by cluster number.
    pub curves: Vec<Curve>,
    /// The client that was killed on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<Kill>,
    /// Pictures, one client per robot type.
    pub examples: Vec<Example>,
    /// The audit, once it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// Where the run's files are.
    pub files: Files,
}

/// Whether the run did what it should.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// All checks hold.
    pub passed: bool,
    /// The command's exit code.
    pub exit_code: u8,
    /// Each check.
    pub checks: Vec<Check>,
}

/// One condition of a good run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Short name, such as `all rounds done`.
    pub name: String,
    /// It holds.
    pub passed: bool,
    /// What was found, as a sentence.
    pub says: String,
}

/// Parameters of the policy that a reader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Clients it takes to open anything.
    pub threshold: u32,
    /// Fewest clients that any released combination of sums covers.
    pub crowd: u32,
    /// Fewest organisations that any released combination of sums covers.
    pub crowd_orgs: u32,
}

/// One client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Number in the policy.
    pub id: u32,
    /// Index into the report's organisations.
    pub organisation: u32,
    /// Robot type, or the folder's name.
    pub robot: String,
    /// Place and light, or nothing.
    pub place: String,
    /// Clusters it belongs to.
    pub clusters: Vec<u32>,
    /// Bytes it sent in the rounds it finished.
    pub sent_bytes: u64,
    /// Bytes it received in the rounds it finished.
    pub received_bytes: u64,
}

/// One cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Number.
    pub id: u32,
    /// Its clients.
    pub members: Vec<u32>,
}

/// One finished round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Number, from 1.
    pub round: u64,
    /// The attempt that succeeded, from 0.
    pub attempt: u32,
    /// Clients whose vectors count.
    pub survivors: Vec<u32>,
    /// Clients of the plan whose vectors do not.
    pub dropped: Vec<u32>,
    /// Clusters that were opened.
    pub released: Vec<u32>,
    /// Clusters that stayed closed.
    pub withheld: Vec<u32>,
    /// Sum of sample counts of each released cluster, in the order of `released`.
    pub weights: Vec<u64>,
    /// From the round's start to its end, milliseconds.
    pub took_ms: u64,
    /// Bytes the server received.
    pub bytes_in: u64,
    /// Bytes the server sent.
    pub bytes_out: u64,
    /// The log after the round.
    pub head: LogHead,
}

/// One attempt that opened nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortedAttempt {
    /// Round.
    pub round: u64,
    /// Attempt.
    pub attempt: u32,
    /// The reason's name.
    pub reason: String,
    /// The reason as a sentence.
    pub detail: String,
}

/// One cluster's model over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Cluster.
    pub cluster: u32,
    /// Ascending by round; round 0 is the model before any training.
    pub points: Vec<Point>,
    /// AbsRel of a guess that needs no network, the mean picture of each member's training frames: the mean over the
    /// members that have test frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_picture_abs_rel: Option<f64>,
    /// AbsRel of the last point over that of the first, minus 1; −0.4 is a fall by 40 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abs_rel_change: Option<f64>,
}

/// The mean over the members that scored the model on their own test frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The model after this round.
    pub round: u64,
    /// Members that scored it.
    pub clients: u32,
    /// Test frames of all of them.
    pub images: u32,
    /// Mean training loss.
    pub loss: f64,
    /// Mean |g − p| / g.
    pub abs_rel: f64,
    /// Mean root of squared error, metres.
    pub rmse: f64,
    /// Share of pixels within a factor of 1.25.
    pub delta1: f64,
}

/// The client that was killed on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kill {
    /// Which.
    pub client: u32,
    /// In which round.
    pub round: u64,
    /// Bytes it had uploaded.
    pub sent_bytes: u64,
    /// Bytes of the whole upload.
    pub total_bytes: u64,
    /// When it was killed, milliseconds from the start of the run.
    pub killed_ms: u64,
    /// When it was started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_ms: Option<u64>,
    /// The first round that counted it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_in_round: Option<u64>,
}

/// One client's test frame, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// Whose frame.
    pub client: u32,
    /// Its robot type.
    pub robot: String,
    /// Whose model.
    pub cluster: u32,
    /// With the earliest model.
    pub first: Shot,
    /// With the latest model.
    pub last: Shot,
}

/// One picture: the frame, its true depth and the predicted depth side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shot {
    /// The model after this round.
    pub round: u64,
    /// A PNG, base64.
    pub png_base64: String,
}

/// The auditor's verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// `verified`, `violated`, or another word of the auditor.
    pub overall: String,
    /// How long the audit took, milliseconds.
    pub took_ms: u64,
    /// Each check, in the auditor's order.
    pub checks: Vec<AuditCheck>,
}

/// One check of the auditor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditCheck {
    /// What was checked.
    pub name: String,
    /// `verified`, `violated`, or why not checked.
    pub status: String,
    /// What was found.
    pub says: String,
}

/// Where the run's files are. Paths as given, so relative ones are relative to where the demo was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The bundle for auditors.
    pub bundle: String,
    /// What an auditor is told out of band: the federation's name and its authority's key.
    pub trust: String,
    /// What the processes said.
    pub logs: String,
}

/// A figure as reports hold it: six decimals, so that its text reads back as the same number. NaN and infinities have
/// no text in JSON and become nothing.
#[must_use]
pub fn rounded(figure: f64) -> Option<f64> {
    let scaled = (figure * DECIMALS).round() / DECIMALS;
    scaled
        .is_finite()
        .then_some(if scaled == 0.0 { 0.0 } else { scaled })
}

const DECIMALS: f64 = 1e6;

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
