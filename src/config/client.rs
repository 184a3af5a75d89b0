//! `client.toml`.

use super::{ConfigError, DataConfig, TlsConfig, TrustConfig, WatchConfig};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use veilsum_aggregation::Floors;
use veilsum_learner::bev::PersonalPart;

/// A client's settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientConfig {
    /// This client's number in the policy.
    pub client: u32,
    /// The server's UDP address.
    pub server: SocketAddr,
    /// The name in the server's certificate.
    pub server_name: String,
    /// The policy file everybody signed.
    pub policy: PathBuf,
    /// This client's signing key, 64 hexadecimal characters; readable by its owner only.
    pub key: PathBuf,
    /// Folder for the last log head and example pictures. Nothing in it is sent.
    pub state: PathBuf,
    /// Give up when the server cannot be reached for so many seconds.
    pub give_up_after_s: u64,
    /// Whom to trust.
    pub trust: TrustConfig,
    /// TLS files.
    pub tls: TlsConfig,
    /// Minima this client insists on; no message of the server lowers them.
    pub floors: FloorConfig,
    /// The network.
    pub learner: LearnerConfig,
    /// How it trains.
    pub training: TrainingConfig,
    /// The frames.
    pub data: DataConfig,
    /// Where the client can be looked at; nowhere without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<WatchConfig>,
}

impl ClientConfig {
    /// Whether training can be done with these settings: found out before the server hears of this client.
    ///
    /// # Errors
    /// [`ConfigError::Value`] naming the key.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, reason: &str| {
            Err(ConfigError::Value {
                key,
                reason: reason.to_owned(),
            })
        };
        let training = &self.training;
        if training.steps == 0 {
            return wrong("training.steps", "it must be at least 1");
        }
        if training.batch == 0 || training.batch > 65_536 {
            return wrong("training.batch", "it must be between 1 and 65536 frames");
        }
        if !(training.learning_rate.is_finite() && training.learning_rate > 0.0) {
            return wrong("training.learning_rate", "it must be a positive number");
        }
        if !(training.decay.is_finite() && training.decay > 0.0 && training.decay <= 1.0) {
            return wrong("training.decay", "it must be above 0 and at most 1");
        }
        let (low, high) = (self.learner.min_depth_m, self.learner.max_depth_m);
        if !(low > 0.0 && high.is_finite() && low < high) {
            return wrong(
                "learner.min_depth_m",
                "it must be positive and below learner.max_depth_m, both in metres",
            );
        }
        if let DataConfig::Generated { train, test, .. } = &self.data
            && (*train == 0 || *train > 100_000 || *test > 100_000)
        {
            return wrong(
                "data.train",
                "between 1 and 100000 training frames and at most 100000 test frames can be generated",
            );
        }
        Ok(())
    }
}

/// See [`Floors`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloorConfig {
    /// Fewest clients in the policy.
    pub clients: u32,
    /// Smallest threshold.
    pub threshold: u32,
    /// Smallest crowd of a released combination, in clients.
    pub crowd: u32,
    /// Smallest crowd of a released combination, in organisations.
    pub crowd_orgs: u32,
    /// Fewest organisations in the policy.
    #[serde(default = "one")]
    pub orgs: u32,
    /// Largest magnitude an entry of an update may have in a sum; larger policies are refused.
    #[serde(default = "any_range")]
    pub max_range: f64,
    /// Most rounds this client takes part in.
    #[serde(default = "any_number")]
    pub max_rounds: u64,
    /// Most that what it says of its data may cost altogether, as epsilon at a delta of 10^-6. Descriptors without noise cost
    /// more than any number: with this key a policy that asks for them is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_epsilon: Option<f64>,
}

fn one() -> u32 {
    1
}

fn any_range() -> f64 {
    f64::from(u32::MAX) / 1e6
}

fn any_number() -> u64 {
    // The largest integer TOML can say.
    i64::MAX.cast_unsigned()
}

/// In millionths; a number that is none, or negative, refuses every policy.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is meant"
)]
fn micros(value: f64) -> u32 {
    (value * 1e6).round() as u32
}

/// As [`micros`], for numbers of any size.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is meant"
)]
fn micros_wide(value: f64) -> u64 {
    (value * 1e6).floor() as u64
}

impl From<FloorConfig> for Floors {
    fn from(floors: FloorConfig) -> Self {
        Self {
            clients: floors.clients,
            threshold: floors.threshold,
            crowd: floors.crowd,
            crowd_orgs: floors.crowd_orgs,
            orgs: floors.orgs,
            max_range_micros: micros(floors.max_range),
            max_rounds: floors.max_rounds,
            max_epsilon_micros: floors.max_epsilon.map_or(u64::MAX, micros_wide),
        }
    }
}

/// Which network.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnerConfig {
    /// The kind of network.
    pub kind: LearnerKind,
    /// Which depth network; the linear learner has no choice.
    #[serde(default)]
    pub network: NetworkName,
    /// How large it is.
    #[serde(default)]
    pub size: NetworkSize,
    /// Where it runs: `auto`, `cpu` or `cuda:N`.
    pub device: String,
    /// Seed of the common start; the same for all clients of a federation.
    pub seed: u64,
    /// Smallest depth the network can say, metres.
    pub min_depth_m: f32,
    /// Largest depth the network can say, metres.
    pub max_depth_m: f32,
    /// What a bird's-eye-view client keeps to itself: `camera-embeddings` (`FedCaP`), `nothing` (`FedAvg`), `encoder`, `head`,
    /// `attention` or `everything`. The same for all clients; depth networks do not use it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub personal: PersonalPart,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default(personal: &PersonalPart) -> bool {
    *personal == PersonalPart::default()
}

/// Kinds of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LearnerKind {
    /// A depth network through libtorch.
    Depth,
    /// Log-depth regression in plain Rust: small, no libtorch.
    Linear,
    /// Vehicles in a bird's-eye view, the transformer of `FedBEVT` at its tiny size, through libtorch.
    Bev,
}

/// Depth networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkName {
    /// Adaptive bins over a convolutional encoder.
    #[default]
    AdaBins,
    /// Window random fields over a Swin transformer.
    NewCrfs,
    /// Cosine coefficients in steps over a Swin transformer.
    DcDepth,
}

/// Sizes of depth networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkSize {
    /// Trains on a processor core.
    #[default]
    Tiny,
    /// As its paper has it: tens to hundreds of millions of parameters.
    Published,
}

/// How a client trains in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingConfig {
    /// Optimiser steps a round.
    pub steps: u32,
    /// Learning rate of the first round.
    pub learning_rate: f64,
    /// Factor on the learning rate from round to round; 1 keeps it.
    pub decay: f64,
    /// Frames a step.
    pub batch: usize,
    /// Seed of shuffles and augmentation.
    pub seed: u64,
}
