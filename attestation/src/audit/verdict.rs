//! What an audit ends in. Three words only: `verified`, `violated`, `not checkable`, the last two with what was found.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use veilsum_crypto::{Attempt, ClientId, ClusterId, OrgId, RoundId};

/// The result of an audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// `verified` when nothing was violated.
    pub overall: Overall,
    /// One or more per check and attempt, in the order they were made.
    pub findings: Vec<Finding>,
    /// One per attempt, in log order.
    pub rounds: Vec<RoundSummary>,
    /// Whose log it is; `None` for a log without a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}

/// Whose log was audited, and what its policy asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The federation's name, as the auditor was told it.
    pub federation: String,
    /// The tier of the file: `auditor`, `member`, `plan` or `public`.
    pub tier: String,
    /// Enrolled clients.
    pub clients: u32,
    /// Clients every step needs.
    pub threshold: u32,
    /// Clients that may collude.
    pub colluders: u32,
    /// Fewest clients any combination of opened sums may cover.
    pub crowd: u32,
    /// Fewest organisations it may cover.
    pub crowd_orgs: u32,
    /// Rounds agreed on.
    pub rounds: u64,
    /// The signed head.
    pub head: HeadSummary,
}

/// The whole verdict in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overall {
    /// No check found a violation.
    Verified,
    /// At least one did.
    Violated,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The check.
    pub check: CheckName,
    /// The round it is about; `None` for the whole log.
    pub round: Option<RoundId>,
    /// The attempt at that round.
    pub attempt: Option<Attempt>,
    /// What was found.
    #[serde(flatten)]
    pub status: Status,
}

/// One of three words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", content = "reason")]
pub enum Status {
    /// The check was made and holds.
    #[serde(rename = "verified")]
    Verified,
    /// The check was made and does not hold.
    #[serde(rename = "violated")]
    Violated(String),
    /// The bundle does not hold what the check needs, or no bundle can.
    #[serde(rename = "not checkable")]
    NotCheckable(String),
}

macro_rules! checks {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// The checks, in the order they are reported.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum CheckName {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl CheckName {
            /// The name in reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }
    };
}

checks! {
    /// The entries hash to a head the server signed.
    SignedHead = "signed head";
    /// Every entry is canonical.
    Entries = "entries";
    /// The authority enrolled the members and signed one safe policy for them.
    Enrolment = "enrolment";
    /// Every statement carries the signature of the party whose kind it is.
    Signatures = "signatures";
    /// Heads named in the round are heads of this very log.
    Heads = "heads";
    /// Descriptors come as the policy says, and a clustering holds until the next one.
    Clustering = "clustering";
    /// The plan follows the policy and comes in turn.
    Plan = "plan";
    /// The plan exposes nobody, and the release is the one the rule gives on the survivors.
    Disclosure = "disclosure";
    /// One statement per client and kind, all about this plan and roster, keys fresh and for the right clusters.
    Roster = "roster";
    /// Statements are in the order of the phases, and nobody takes part in a phase without the one before.
    Phases = "phases";
    /// At least t clients at every step.
    Threshold = "threshold";
    /// At least t survivors signed one survivor set, head and release, and the survivors are who uploaded.
    Agreement = "agreement";
    /// Every complaint about a dealer convicts that dealer.
    Complaints = "complaints";
    /// Only signers of the agreement revealed, exactly the shares it asks for.
    Reveals = "reveals";
    /// Nobody's self-mask and mask secret were both opened.
    OneKind = "one kind of share";
    /// Every revealed share is the one its dealer stated.
    Shares = "shares";
    /// Every self-mask seed opened is the one its owner committed to, whichever t shares are used.
    SelfSeeds = "self-mask seeds";
    /// Every mask secret opened belongs to its public key, whichever t shares are used.
    MaskSecrets = "mask secrets";
    /// Every masked vector is the one its client committed to.
    Vectors = "masked vectors";
    /// Every released sum, recomputed bit for bit.
    Sums = "sums";
    /// Every cluster starts from its last model, and every new model is the old one plus the mean update.
    Models = "models";
    /// The attempt ended, and as its statements say.
    Ending = "ending";
    /// Witnesses signed the head.
    Witnesses = "witnesses";
    /// What clients put in is honest.
    Inputs = "inputs";
    /// Shares that moved outside the log.
    OffLog = "shares off the log";
    /// Secrets and vectors were erased.
    Erasure = "erasure";
    /// Separate clients are separate parties.
    Identities = "separate parties";
}

/// One attempt at a round, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundSummary {
    /// Round.
    pub round: RoundId,
    /// Attempt at it.
    pub attempt: Attempt,
    /// Clients whose vectors count.
    pub survivors: Vec<ClientId>,
    /// Clients that sent keys and are not among the survivors.
    pub dropped: Vec<ClientId>,
    /// Released clusters, as the server stated them.
    pub released: Vec<ReleasedCluster>,
    /// Clusters that stayed closed.
    pub withheld: Vec<ClusterId>,
    /// The log right after the attempt.
    pub head: HeadSummary,
    /// Why nothing was opened; `None` for a published attempt.
    pub aborted: Option<String>,
    /// The clients of each cluster of the plan, by its number.
    #[serde(default)]
    pub clusters: Vec<Vec<ClientId>>,
    /// How far every client of the plan came; empty where the file does not show it.
    #[serde(default)]
    pub courses: Vec<Course>,
    /// Why each cluster that was withheld stayed closed; empty where the file does not show it.
    #[serde(default)]
    pub closed: Vec<Closed>,
}

/// How far a client came in an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// The client.
    pub client: ClientId,
    /// Its organisation.
    pub organisation: Option<OrgId>,
    /// The last thing it did.
    pub step: Step,
    /// The entry of the log that shows it.
    pub entry: Option<u64>,
    /// The entry in which the server says that its update came too late.
    pub late: Option<u64>,
    /// Whether its update counts.
    pub counts: bool,
}

/// What a client does in an attempt, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Named by the plan, and nothing more.
    Invited,
    /// Sent its keys.
    Keys,
    /// Dealt its shares.
    Shares,
    /// Sent its masked update.
    Masked,
    /// Signed the agreement.
    Agree,
    /// Opened the shares asked for.
    Reveal,
}

/// A cluster that stayed closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The cluster.
    pub cluster: ClusterId,
    /// Why.
    pub reason: String,
}

/// One released cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedCluster {
    /// The cluster.
    pub cluster: ClusterId,
    /// Clients in its sum.
    pub contributors: u32,
    /// Sum of their sample weights.
    pub weight: u64,
    /// Digest of its new model, hexadecimal.
    pub model: String,
}

/// A head, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadSummary {
    /// Entries.
    pub size: u64,
    /// Root, hexadecimal.
    pub root: String,
}

impl Verdict {
    /// Whether nothing was violated.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.overall == Overall::Verified
    }

    /// What was violated.
    pub fn violations(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| matches!(finding.status, Status::Violated(_)))
    }
}

impl Status {
    /// The word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Violated(_) => "violated",
            Self::NotCheckable(_) => "not checkable",
        }
    }

    /// What was found, where the word alone does not say it.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Verified => None,
            Self::Violated(reason) | Self::NotCheckable(reason) => Some(reason),
        }
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Overall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Verified => "verified",
            Self::Violated => "violated",
        })
    }
}

impl fmt::Display for Verdict {
    /// A short table: one line per check that holds everywhere, one line per finding that needs a reason, one line per
    /// attempt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<18} {:<18} {:<14} reason", "check", "where", "status")?;
        for check in CheckName::ALL {
            let all: Vec<&Finding> = self
                .findings
                .iter()
                .filter(|finding| finding.check == *check)
                .collect();
            let holding = all.iter().filter(|finding| finding.status == Status::Verified);
            let (count, whole) = holding.fold((0usize, false), |(count, whole), finding| {
                (count + 1, whole || finding.round.is_none())
            });
            if count > 0 {
                let place = if whole {
                    "log".to_owned()
                } else {
                    format!("{count} attempt(s)")
                };
                writeln!(f, "{check:<18} {place:<18} verified")?;
            }
            for finding in all {
                if let Some(reason) = finding.status.reason() {
                    let place = Place(finding.round, finding.attempt).to_string();
                    let word = finding.status.word();
                    writeln!(f, "{check:<18} {place:<18} {word:<14} {reason}")?;
                }
            }
        }
        writeln!(f)?;
        for round in &self.rounds {
            writeln!(f, "{round}")?;
        }
        let open = self.findings.iter().filter(|finding| {
            let sums = [CheckName::Vectors, CheckName::Sums].contains(&finding.check);
            sums && matches!(finding.status, Status::NotCheckable(_))
        });
        let open: BTreeSet<_> = open.map(|finding| (finding.round, finding.attempt)).collect();
        if !open.is_empty() {
            writeln!(
                f,
                "\nnot every sum was recomputed: see above, {} place(s)",
                open.len()
            )?;
        }
        write!(f, "\n{}", self.overall)
    }
}

impl fmt::Display for RoundSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", Place(Some(self.round), Some(self.attempt)))?;
        if let Some(reason) = &self.aborted {
            return write!(f, "nothing opened ({reason})");
        }
        write!(
            f,
            "{} survivors, {} dropped",
            self.survivors.len(),
            self.dropped.len()
        )?;
        for released in &self.released {
            write!(
                f,
                "; {} opened: {} clients, weight {}",
                released.cluster, released.contributors, released.weight
            )?;
        }
        for cluster in &self.withheld {
            write!(f, "; {cluster} withheld")?;
        }
        Ok(())
    }
}

/// Where a finding belongs.
pub(super) struct Place(pub(super) Option<RoundId>, pub(super) Option<Attempt>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(round), Some(Attempt(0)) | None) => round.fmt(f),
            (Some(round), Some(attempt)) => write!(f, "{round}, {attempt}"),
            (None, _) => f.write_str("log"),
        }
    }
}
