//! What a server says about itself.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::names;

/// One thing that happened at the server. Clients and clusters by their numbers in the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServerEvent {
    /// Ready for clients.
    Listening {
        /// Address and port.
        addr: String,
    },
    /// A client proved who it is.
    Connected {
        /// Which.
        client: u32,
        /// Clients connected now.
        connected: u32,
        /// Clients of the policy.
        expected: u32,
    },
    /// A client's connection ended.
    Disconnected {
        /// Which.
        client: u32,
    },
    /// The clients were clustered by what their data looks like.
    Clustered {
        /// Number of the clustering, from 1.
        clustering: u64,
        /// The threshold, a decimal number.
        tau: String,
        /// Share of the pairs of clients within it.
        overlap: String,
        /// Soft clusters at that threshold, before the disclosure rule.
        wanted: u32,
        /// What was done to them so that nobody is exposed.
        steps: Vec<String>,
        /// Members of each cluster, by cluster number.
        clusters: Vec<Vec<u32>>,
        /// Clients that are in no cluster.
        left_out: Vec<u32>,
    },
    /// An attempt at a round starts.
    Round {
        /// Round, from 1.
        round: u64,
        /// Attempt, from 0.
        attempt: u32,
        /// Members of each cluster, by cluster number.
        clusters: Vec<Vec<u32>>,
        /// Bytes received since the server started.
        #[serde(default)]
        bytes_in: u64,
        /// Bytes sent since the server started.
        #[serde(default)]
        bytes_out: u64,
    },
    /// The witnesses were asked to cosign the log's head.
    Witnessed {
        /// Entries of the log they were shown.
        entries: u64,
        /// Whether enough of them cosigned.
        quorum: bool,
        /// What each answered, in the order of the policy file.
        witnesses: Vec<WitnessWord>,
    },
    /// Where the round stands.
    Phase {
        /// Round.
        round: u64,
        /// `advertise`, `share`, `mask`, `agree`, `unmask` or `publish`.
        phase: String,
        /// Clients that have answered.
        have: u32,
        /// Clients that are waited for.
        want: u32,
        /// Milliseconds until the phase ends without the missing ones.
        deadline_ms: u64,
        /// Bytes received in this round so far.
        bytes_in: u64,
        /// Bytes sent in this round so far.
        bytes_out: u64,
    },
    /// Clients have not said what their data looks like, and the round waits for them.
    Waiting {
        /// Number of the clustering.
        clustering: u64,
        /// Clients that have.
        described: u32,
        /// Clients without whom there is no plan.
        needed: u32,
        /// Who is waited for.
        clients: Vec<u32>,
        /// Seconds until it goes on without them, if enough have.
        seconds: u64,
    },
    /// A client was put out of the round.
    Refused {
        /// Which.
        client: u32,
        /// Why, as a sentence.
        reason: String,
    },
    /// A round is over and its sums are open.
    RoundDone {
        /// Round.
        round: u64,
        /// The attempt that succeeded.
        attempt: u32,
        /// Clients whose vectors count.
        survivors: Vec<u32>,
        /// Clients of the plan whose vectors do not.
        dropped: Vec<u32>,
        /// Clusters that were opened.
        released: Vec<u32>,
        /// Clusters that stay closed.
        withheld: Vec<u32>,
        /// Why each of them does, in the order of `withheld`.
        #[serde(default)]
        withheld_why: Vec<String>,
        /// Sum of sample counts of each released cluster, in the order of `released`.
        weights: Vec<u64>,
        /// Rounds of the window since this server started.
        #[serde(default)]
        window_rounds: u32,
        /// Effective crowd, in thousandths, of all sums opened in the window together, if no client's update changed from round
        /// to round: the worst case over many rounds.
        #[serde(default)]
        window_crowd_milli: u32,
        /// Bytes received in this round.
        #[serde(default)]
        bytes_in: u64,
        /// Bytes sent in this round.
        #[serde(default)]
        bytes_out: u64,
        /// The log after the round.
        head: LogHead,
    },
    /// An attempt ended with nothing opened.
    RoundAborted {
        /// Round.
        round: u64,
        /// Attempt.
        attempt: u32,
        /// The reason's name, such as `TooFewMasked`.
        reason: String,
        /// The reason as a sentence.
        detail: String,
        /// Bytes received in this attempt.
        #[serde(default)]
        bytes_in: u64,
        /// Bytes sent in this attempt.
        #[serde(default)]
        bytes_out: u64,
        /// The log after the attempt; left out by older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<LogHead>,
    },
    /// The page and the metrics are at this address.
    Watching {
        /// Address and port, TCP.
        addr: String,
    },
    /// All rounds are done.
    Finished {
        /// How many.
        rounds: u64,
        /// The bundle for auditors.
        bundle: String,
        /// The final log head.
        head: LogHead,
    },
    /// The server gives up.
    Failed {
        /// The reason's name.
        reason: String,
        /// The reason as a sentence.
        detail: String,
    },
    /// An event of a newer version.
    #[serde(other, skip_serializing)]
    Other,
}

/// What a witness answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessWord {
    /// Its name in the policy file.
    pub name: String,
    /// When it cosigned, POSIX seconds by its own clock; nothing when it did not.
    pub cosigned_at: Option<u64>,
    /// Why it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Size and root of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHead {
    /// Entries.
    pub size: u64,
    /// Merkle root (RFC 6962), lower-case hexadecimal.
    pub root: String,
}

impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { addr } => write!(f, "listening on {addr}"),
            Self::Connected {
                client,
                connected,
                expected,
            } => write!(f, "client {client} connected ({connected} of {expected})"),
            Self::Disconnected { client } => write!(f, "client {client} disconnected"),
            Self::Waiting {
                clustering,
                described,
                needed,
                clients,
                seconds,
            } => write!(
                f,
                "clustering {clustering}: {described} clients have described their data ({needed} are needed); clients {clients:?} have {seconds} s left"
            ),
            Self::Clustered {
                clustering,
                overlap,
                wanted,
                steps,
                clusters,
                left_out,
                ..
            } => {
                write!(
                    f,
                    "clustering {clustering}: {wanted} soft clusters ({overlap} of the pairs close), {} after {} step(s) of repair",
                    clusters.len(),
                    steps.len()
                )?;
                if !left_out.is_empty() {
                    write!(f, "; in none: {}", names(left_out))?;
                }
                Ok(())
            }
            Self::Watching { addr } => write!(f, "page and metrics at http://{addr}/"),
            Self::Witnessed {
                entries,
                quorum,
                witnesses,
            } => {
                let cosigned = witnesses
                    .iter()
                    .filter(|witness| witness.cosigned_at.is_some())
                    .count();
                let enough = if *quorum { "enough" } else { "too few" };
                write!(
                    f,
                    "log of {entries} entries: {cosigned} of {} witnesses cosigned, {enough}",
                    witnesses.len()
                )
            }
            Self::Round {
                round,
                attempt,
                clusters,
                ..
            } => {
                write!(f, "round {round}, attempt {attempt}:")?;
                for (cluster, members) in clusters.iter().enumerate() {
                    let comma = if cluster == 0 { "" } else { ";" };
                    write!(f, "{comma} cluster {cluster} has clients {}", names(members))?;
                }
                Ok(())
            }
            Self::Phase {
                round,
                phase,
                have,
                want,
                ..
            } => write!(f, "round {round}, {phase}: {have} of {want}"),
            Self::Refused { client, reason } => write!(f, "client {client} is out of the round: {reason}"),
            Self::RoundDone {
                round,
                survivors,
                dropped,
                withheld,
                window_rounds,
                window_crowd_milli,
                head,
                ..
            } => {
                write!(f, "round {round} done: {} survivors", survivors.len())?;
                if !dropped.is_empty() {
                    write!(f, ", dropped {}", names(dropped))?;
                }
                if !withheld.is_empty() {
                    write!(f, ", withheld clusters: {}", names(withheld))?;
                }
                if *window_rounds > 1 {
                    let crowd = f64::from(*window_crowd_milli) / 1e3;
                    write!(f, ", crowd over {window_rounds} rounds at worst {crowd:.1}")?;
                }
                write!(f, "; log of {} entries", head.size)
            }
            Self::RoundAborted {
                round,
                attempt,
                reason,
                detail,
                ..
            } => write!(f, "round {round}, attempt {attempt} aborted ({reason}): {detail}"),
            Self::Finished { rounds, bundle, .. } => {
                write!(f, "finished {rounds} rounds; bundle for auditors: {bundle}")
            }
            Self::Failed { reason, detail } => write!(f, "failed ({reason}): {detail}"),
            Self::Other => Ok(()),
        }
    }
}
