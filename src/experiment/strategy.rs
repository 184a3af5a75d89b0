//! What a configuration's `[[strategy]]` sections come to: arms, each a way to bend gradients and a way to choose clusters.

use super::ExperimentError;
use super::corrector::Bend;
use super::disclosure::Disclosure;
use super::profile::ProfileKind;
use serde::{Deserialize, Serialize};
use veilsum_aggregation::cluster::Threshold;

/// One `[[strategy]]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum StrategyConfig {
    /// Everybody alone. An unseen sequence gets the model of the client with the nearest descriptor.
    Local {},
    /// One learner with everybody's frames, as many steps a round as all clients together.
    Centralised {},
    /// One average of all, by frames.
    FedAvg {},
    /// The same with a proximal term.
    FedProx {
        /// Its weight.
        mu: f32,
    },
    /// See [`Bend::Dyn`].
    FedDyn {
        /// α.
        alpha: f64,
        /// Rate of local gradient descent.
        learning_rate: f64,
    },
    /// See [`Bend::Scaffold`].
    Scaffold {
        /// Rate of local gradient descent.
        learning_rate: f64,
        /// The server's step.
        #[serde(default = "one")]
        server_rate: f64,
    },
    /// Disjoint clusters by a layer's weights.
    FedClust {
        /// Shares of pairs that are close, one arm each.
        #[serde(default)]
        overlap: Vec<f64>,
        /// An arm with the threshold in the largest gap.
        #[serde(default)]
        gap: bool,
        /// Local steps before clustering.
        steps: u32,
        /// How the last layer's tensors begin.
        layer: String,
    },
    /// Disjoint clusters by the subspaces of pictures.
    Pacfl {
        /// As for `FedClust`.
        #[serde(default)]
        overlap: Vec<f64>,
        /// As for `FedClust`.
        #[serde(default)]
        gap: bool,
        /// Vectors a client.
        #[serde(default = "three")]
        vectors: usize,
    },
    /// Clusters by descriptors.
    FeDepth {
        /// Overlapping balls, or disjoint ones to compare with.
        clusters: Form,
        /// As for `FedClust`.
        #[serde(default)]
        overlap: Vec<f64>,
        /// As for `FedClust`.
        #[serde(default)]
        gap: bool,
    },
}

/// Whether clusters overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// A ball around every client.
    Soft,
    /// Average linkage.
    Hard,
}

fn one() -> f64 {
    1.0
}

fn three() -> usize {
    3
}

/// One column of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its name, such as `soft-20`.
    pub label: String,
    /// What is added to gradients.
    pub bend: Bend,
    /// Who averages with whom.
    pub group: Group,
}

/// Who averages with whom.
#[derive(Clone, Debug, PartialEq)]
pub enum Group {
    /// Nobody.
    Alone,
    /// Frames are in one place.
    Pooled,
    /// Everybody.
    All,
    /// Those who are alike.
    Alike {
        /// In what.
        by: ProfileKind,
        /// Whether clusters overlap.
        form: Form,
        /// How alike.
        threshold: Threshold,
    },
}

/// Most pictures of a descriptor.
pub(super) const IMAGES: u32 = 256;

impl StrategyConfig {
    /// The arms of a section.
    ///
    /// # Errors
    /// [`ExperimentError::Setting`] for a setting that is no use.
    pub fn arms(&self) -> Result<Vec<Arm>, ExperimentError> {
        let arm = |label: &str, bend, group| {
            vec![Arm {
                label: label.to_owned(),
                bend,
                group,
            }]
        };
        Ok(match self {
            Self::Local {} => arm("local", Bend::Nothing, Group::Alone),
            Self::Centralised {} => arm("centralised", Bend::Nothing, Group::Pooled),
            Self::FedAvg {} => arm("fedavg", Bend::Nothing, Group::All),
            Self::FedProx { mu } => {
                at_least_zero("strategy.mu", f64::from(*mu))?;
                arm("fedprox", Bend::Prox { mu: *mu }, Group::All)
            }
            Self::FedDyn { alpha, learning_rate } => {
                above_zero("strategy.alpha", *alpha)?;
                above_zero("strategy.learning_rate", *learning_rate)?;
                let bend = Bend::Dyn {
                    alpha: *alpha,
                    rate: *learning_rate,
                };
                arm("feddyn", bend, Group::All)
            }
            Self::Scaffold {
                learning_rate,
                server_rate,
            } => {
                above_zero("strategy.learning_rate", *learning_rate)?;
                above_zero("strategy.server_rate", *server_rate)?;
                let bend = Bend::Scaffold {
                    rate: *learning_rate,
                    server_rate: *server_rate,
                };
                arm("scaffold", bend, Group::All)
            }
            Self::FedClust {
                overlap,
                gap,
                steps,
                layer,
            } => {
                let by = ProfileKind::Layer {
                    steps: *steps,
                    prefix: layer.clone(),
                };
                alike("fedclust", &by, Form::Hard, overlap, *gap)?
            }
            Self::Pacfl {
                overlap,
                gap,
                vectors,
            } => {
                let by = ProfileKind::Subspace { vectors: *vectors };
                alike("pacfl", &by, Form::Hard, overlap, *gap)?
            }
            Self::FeDepth {
                clusters,
                overlap,
                gap,
            } => {
                let name = match clusters {
                    Form::Soft => "soft",
                    Form::Hard => "hard",
                };
                let by = ProfileKind::Descriptor { images: IMAGES };
                alike(name, &by, *clusters, overlap, *gap)?
            }
        })
    }
}

impl Arm {
    /// What its set-up discloses. Training alone discloses nothing, but to say whose model serves an unseen sequence takes
    /// descriptors.
    #[must_use]
    pub fn disclosure(&self, routes: bool) -> Option<Disclosure> {
        match &self.group {
            Group::Alone if routes => Some(Disclosure::Descriptors),
            Group::Alone | Group::Pooled | Group::All => None,
            Group::Alike { by, .. } => Some(by.disclosure()),
        }
    }
}

fn alike(
    name: &str,
    by: &ProfileKind,
    form: Form,
    overlap: &[f64],
    gap: bool,
) -> Result<Vec<Arm>, ExperimentError> {
    if overlap.is_empty() && !gap {
        return Err(ExperimentError::Setting {
            key: "strategy.overlap",
            reason: format!("`{name}` needs an `overlap` or `gap = true`"),
        });
    }
    let mut arms = Vec::new();
    let mut add = |label: String, threshold| {
        arms.push(Arm {
            label,
            bend: Bend::Nothing,
            group: Group::Alike {
                by: by.clone(),
                form,
                threshold,
            },
        });
    };
    for share in overlap {
        if !(0.0..=1.0).contains(share) {
            return Err(ExperimentError::Setting {
                key: "strategy.overlap",
                reason: format!("{share} is no share: it must be from 0 to 1"),
            });
        }
        add(
            format!("{name}-{}", (share * 1000.0).round() / 10.0),
            Threshold::Overlap(*share),
        );
    }
    if gap {
        add(format!("{name}-gap"), Threshold::Gap);
    }
    Ok(arms)
}

fn above_zero(key: &'static str, value: f64) -> Result<(), ExperimentError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(ExperimentError::Setting {
        key,
        reason: format!("{value} must be a number above 0"),
    })
}

fn at_least_zero(key: &'static str, value: f64) -> Result<(), ExperimentError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(ExperimentError::Setting {
        key,
        reason: format!("{value} must be a number from 0 up"),
    })
}
