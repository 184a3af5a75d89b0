//! An experiment's file.

use super::ExperimentError;
use super::disclosure::Disclosure;
use super::federation::{Buffers, Schedule};
use super::masked::Masking;
use super::scenario::{RANGE, Scenario};
use super::strategy::{Arm, StrategyConfig};
use crate::config::{Frames, LearnerConfig, LearnerKind, NetworkName, NetworkSize};
use crate::network;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::path::PathBuf;
use veilsum_learner::toy::Perceptron;
use veilsum_learner::{DepthDataset, Learner, Weights};

/// Everything that decides what comes out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentConfig {
    /// Version of the file's form: 1.
    pub version: u32,
    /// The experiment's name, also of its folder.
    pub name: String,
    /// Seeds, each one draw of data and one start.
    pub seeds: Vec<u64>,
    /// How means are made.
    #[serde(default)]
    pub aggregation: Aggregation,
    /// Fewest clients in any combination of sums; clusters are repaired until it holds. Masks need it, plain means do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowd: Option<u32>,
    /// Running statistics.
    #[serde(default)]
    pub buffers: Buffers,
    /// What the set-up may show of single clients.
    #[serde(default)]
    pub leave: Vec<Disclosure>,
    /// The data.
    pub scenario: Scenario,
    /// The network.
    pub learner: LearnerChoice,
    /// The common start.
    pub warm_start: WarmStart,
    /// Local training.
    pub training: Schedule,
    /// Size of the masked numbers.
    #[serde(default)]
    pub masking: MaskingConfig,
    /// What is compared.
    #[serde(default)]
    pub strategy: Vec<StrategyConfig>,
    /// Comparisons fixed beforehand.
    #[serde(default)]
    pub compare: Vec<Compare>,
    /// The folder that recordings' paths begin in.
    #[serde(skip)]
    pub base: PathBuf,
}

/// How means are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Aggregation {
    /// By arithmetic.
    #[default]
    Plain,
    /// By the protocol.
    Masked,
}

/// Which network; `network` and `size` as in a client's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnerChoice {
    /// Kind.
    pub kind: Kind,
    /// Depth network, for `depth`.
    #[serde(default)]
    pub network: NetworkName,
    /// Its size.
    #[serde(default)]
    pub size: NetworkSize,
    /// Where it runs.
    #[serde(default = "cpu")]
    pub device: String,
}

fn cpu() -> String {
    "cpu".to_owned()
}

/// Kinds of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Log-depth regression by cells. Too small for pooled data to be worth much.
    Linear,
    /// Two hidden layers by cells, in plain Rust.
    Perceptron,
    /// A depth network through libtorch.
    Depth,
}

/// Training of the common start on public frames, for relative depth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmStart {
    /// Steps; 0 leaves the network as it was drawn.
    pub steps: u32,
    /// Frames a step.
    pub batch: usize,
    /// Learning rate.
    pub learning_rate: f64,
}

/// See [`Masking`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskingConfig {
    /// Bits of an entry.
    pub value_bits: u8,
    /// Largest magnitude of a weighted entry.
    pub range: f64,
}

impl Default for MaskingConfig {
    fn default() -> Self {
        Self {
            value_bits: 24,
            range: 4.0,
        }
    }
}

/// One comparison of two arms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// The arm that should be better.
    pub first: String,
    /// The other.
    pub second: String,
}

impl ExperimentConfig {
    /// The arms, after everything was checked that can be before any work.
    ///
    /// # Errors
    /// [`ExperimentError::Setting`] naming the key, [`ExperimentError::Disclosure`] without leave.
    pub fn arms(&self) -> Result<Vec<Arm>, ExperimentError> {
        let wrong = |key, reason: &str| {
            Err(ExperimentError::Setting {
                key,
                reason: reason.to_owned(),
            })
        };
        if self.version != 1 {
            return wrong("version", "this program reads version 1");
        }
        if self.name.is_empty()
            || !self
                .name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        {
            return wrong(
                "name",
                "letters, digits, `-` and `_` are what it may hold: it becomes a folder",
            );
        }
        let distinct: BTreeSet<u64> = self.seeds.iter().copied().collect();
        if self.seeds.is_empty() || distinct.len() != self.seeds.len() {
            return wrong("seeds", "at least one is needed, and none twice");
        }
        let schedule = &self.training;
        if schedule.rounds == 0 || schedule.steps == 0 || schedule.batch == 0 {
            return wrong("training", "rounds, steps and batch must be at least 1");
        }
        let rate = |rate: f64| rate.is_finite() && rate > 0.0;
        if !rate(schedule.learning_rate) || !rate(schedule.decay) || schedule.decay > 1.0 {
            return wrong(
                "training.learning_rate",
                "rate and decay must be positive, the decay at most 1",
            );
        }
        let warm = &self.warm_start;
        if warm.steps > 0 && (warm.batch == 0 || !rate(warm.learning_rate)) {
            return wrong("warm_start", "batch and learning_rate must be positive");
        }
        if let Some((key, reason)) = self.scenario.fault(warm.steps > 0) {
            return wrong(key, reason);
        }
        if self.aggregation == Aggregation::Masked && self.crowd.is_none_or(|crowd| crowd < 2) {
            return wrong("crowd", "masked sums need a crowd of at least 2");
        }
        let masking = &self.masking;
        if !(2..=24).contains(&masking.value_bits) || !(1e-3..=1e3).contains(&masking.range) {
            return wrong("masking.range", "2 to 24 bits and a range from 0.001 to 1000");
        }
        let mut arms: Vec<Arm> = Vec::new();
        for section in &self.strategy {
            for arm in section.arms()? {
                if let Some(disclosure) = arm.disclosure(self.routes()) {
                    disclosure.allowed(&self.leave, &arm.label)?;
                }
                if arms.iter().any(|other| other.label == arm.label) {
                    return Err(ExperimentError::Setting {
                        key: "strategy",
                        reason: format!("`{}` is there twice", arm.label),
                    });
                }
                arms.push(arm);
            }
        }
        if arms.is_empty() {
            return wrong("strategy", "there is none");
        }
        for name in self
            .compare
            .iter()
            .flat_map(|compare| [&compare.first, &compare.second])
        {
            if !arms.iter().any(|arm| arm.label == *name) {
                let all: Vec<&str> = arms.iter().map(|arm| arm.label.as_str()).collect();
                return Err(ExperimentError::Setting {
                    key: "compare",
                    reason: format!("`{name}` is not one of {}", all.join(", ")),
                });
            }
        }
        Ok(arms)
    }

    /// Whether unseen sequences are routed and scored, instead of every client's own test frames.
    #[must_use]
    pub fn routes(&self) -> bool {
        self.scenario.routes()
    }

    /// SHA-256 of everything but the seeds: results of other settings are not gone on with.
    #[must_use]
    pub fn digest(&self) -> String {
        let fixed = Self {
            seeds: Vec::new(),
            ..self.clone()
        };
        let text = serde_json::to_vec(&fixed).unwrap_or_default();
        hex::encode(Sha256::digest(text))
    }

    pub(super) fn masks(&self, seed: u64) -> Masking {
        Masking {
            value_bits: self.masking.value_bits,
            range: self.masking.range,
            crowd: self.crowd.unwrap_or(2),
            seed,
        }
    }
}

impl LearnerChoice {
    /// Width and height of its pictures.
    #[must_use]
    pub fn picture(&self) -> (usize, usize) {
        network::frame_size(&self.as_client(0))
    }

    fn as_client(&self, seed: u64) -> LearnerConfig {
        LearnerConfig {
            kind: match self.kind {
                Kind::Linear | Kind::Perceptron => LearnerKind::Linear,
                Kind::Depth => LearnerKind::Depth,
            },
            network: self.network,
            size: self.size,
            device: self.device.clone(),
            seed,
            min_depth_m: RANGE.min_m,
            max_depth_m: RANGE.cap_m,
            personal: veilsum_learner::bev::PersonalPart::default(),
        }
    }

    /// A learner over frames.
    ///
    /// # Errors
    /// [`ExperimentError`]: built without libtorch, or frames that do not fit.
    pub fn learner(&self, seed: u64, data: DepthDataset) -> Result<Box<dyn Learner>, ExperimentError> {
        Ok(match self.kind {
            Kind::Perceptron => Box::new(Perceptron::new(seed, data)?),
            Kind::Linear | Kind::Depth => network::learner(&self.as_client(seed), Frames::Depth(data))?,
        })
    }

    /// What the network is drawn as.
    ///
    /// # Errors
    /// As [`LearnerChoice::learner`].
    pub fn initial(&self, seed: u64) -> Result<Weights, ExperimentError> {
        Ok(match self.kind {
            Kind::Perceptron => Perceptron::initial_weights(seed)?,
            Kind::Linear | Kind::Depth => network::initial_weights(&self.as_client(seed))?,
        })
    }
}
