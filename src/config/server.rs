//! `server.toml`.

use super::{TlsConfig, TrustConfig, WatchConfig};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use veilsum_aggregation::Deadlines;

/// The server's settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// UDP address to listen on.
    pub listen: SocketAddr,
    /// The policy file everybody signed.
    pub policy: PathBuf,
    /// This server's signing key, 64 hexadecimal characters; readable by its owner only.
    pub key: PathBuf,
    /// Folder for the log, models and masked vectors.
    pub state: PathBuf,
    /// The model all clusters start from: little-endian f32.
    pub initial_model: PathBuf,
    /// C2SP policy file of the witnesses that must cosign the log's head before a round starts; none without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<PathBuf>,
    /// Where the auditor's bundle is written when the rounds are done.
    pub bundle: PathBuf,
    /// Whom to trust.
    pub trust: TrustConfig,
    /// TLS files.
    pub tls: TlsConfig,
    /// How rounds start.
    pub round: RoundConfig,
    /// How long each phase may take.
    pub deadlines: DeadlineConfig,
    /// Where the server can be looked at; nowhere without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<WatchConfig>,
}

/// The members of each cluster.
pub type ClusterList = Vec<Vec<u32>>;

/// How rounds start.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundConfig {
    /// The clusters: client numbers of each. Left out where the policy clusters clients by their data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: ClusterList,
    /// A round starts once this many clients are connected,
    pub wait_for: usize,
    /// or after so many seconds, if at least the threshold is connected.
    pub start_after_s: u64,
    /// How long a clustering waits for clients to describe their data, where the policy says so: long enough for the slowest
    /// machine to look at its images once.
    #[serde(default = "describe_s")]
    pub describe_s: u64,
    /// Attempts at one round before the server gives up.
    pub attempts: u32,
}

/// How long each phase may take, in seconds. A phase ends earlier once every connected client has answered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadlineConfig {
    /// Training and keys.
    pub advertise_s: u64,
    /// Shares.
    pub share_s: u64,
    /// Masked uploads.
    pub mask_s: u64,
    /// Signatures on the agreement.
    pub agree_s: u64,
    /// Reveals.
    pub unmask_s: u64,
    /// How long a client whose connection is gone may take to come back before it counts as dropped.
    #[serde(default = "reconnect_s")]
    pub reconnect_s: u64,
}

fn describe_s() -> u64 {
    120
}

fn reconnect_s() -> u64 {
    2
}

impl DeadlineConfig {
    /// In milliseconds.
    #[must_use]
    pub fn deadlines(&self) -> Deadlines {
        let ms = |seconds: u64| seconds.saturating_mul(1000);
        Deadlines {
            advertise: ms(self.advertise_s),
            share: ms(self.share_s),
            mask: ms(self.mask_s),
            agree: ms(self.agree_s),
            unmask: ms(self.unmask_s),
            reconnect: ms(self.reconnect_s),
        }
    }
}
