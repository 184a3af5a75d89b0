//! What a client shows of itself in the set-up, and how far apart two are.

use super::ExperimentError;
use super::disclosure::Disclosure;
use super::federation::Schedule;
use super::subspace::Subspace;
use crate::describe;
use std::num::NonZeroUsize;
use veilsum_aggregation::cluster::{Divergences, Gaussian};
use veilsum_learner::descriptor::{Draw, Pooling, Summary};
use veilsum_learner::{DepthDataset, LearnError, Learner, Weights};

/// The kind of it, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum ProfileKind {
    /// `FeDepth`: pooled features of the common start's encoder; Jeffreys divergence.
    Descriptor {
        /// Most pictures.
        images: u32,
    },
    /// `FedClust`: the last layer after so many steps from the common start; Euclidean distance.
    Layer {
        /// Steps.
        steps: u32,
        /// How the tensors' names begin.
        prefix: String,
    },
    /// `PACFL`: so many leading vectors of the pictures; sum of principal angles.
    Subspace {
        /// Vectors.
        vectors: usize,
    },
}

impl ProfileKind {
    /// What it discloses.
    #[must_use]
    pub fn disclosure(&self) -> Disclosure {
        match self {
            Self::Descriptor { .. } => Disclosure::Descriptors,
            Self::Layer { .. } => Disclosure::FinalLayerWeights,
            Self::Subspace { .. } => Disclosure::DataSubspaces,
        }
    }

    /// Makes the profile of a learner that has not been trained yet.
    ///
    /// # Errors
    /// [`ExperimentError`]: a learner without an encoder, too few pictures, or no tensor of that name.
    pub fn of(
        &self,
        learner: &mut dyn Learner,
        data: &DepthDataset,
        start: &Weights,
        schedule: &Schedule,
        seed: u64,
    ) -> Result<Profile, ExperimentError> {
        learner.load(start)?;
        match self {
            Self::Descriptor { images } => {
                let draw = Draw {
                    images: *images,
                    exactly: false,
                    seed,
                    clip: None,
                    pooling: Pooling::default(),
                };
                let made = Summary::of(learner, draw)?
                    .descriptor([0; 32])
                    .map_err(LearnError::from)?;
                let gaussian = describe::gaussian(&made);
                Ok(Profile::Descriptor(
                    gaussian.map_err(|error| ExperimentError::Set(error.to_string()))?,
                ))
            }
            Self::Layer { steps, prefix } => {
                let short = Schedule {
                    steps: *steps,
                    ..*schedule
                };
                learner.train(&short.plan(1, None, seed))?;
                let trained = learner.weights()?;
                let of = trained
                    .tensors()
                    .filter(|(spec, _)| spec.name.starts_with(prefix.as_str()));
                let layer: Vec<f64> = of
                    .flat_map(|(_, values)| values)
                    .copied()
                    .map(f64::from)
                    .collect();
                if layer.is_empty() {
                    let names: Vec<&str> = trained.tensors().map(|(spec, _)| spec.name.as_str()).collect();
                    return Err(ExperimentError::Setting {
                        key: "strategy.layer",
                        reason: format!(
                            "no tensor begins with `{prefix}`; the last ones are {}",
                            tail(&names)
                        ),
                    });
                }
                Ok(Profile::Layer(layer))
            }
            Self::Subspace { vectors } => Ok(Profile::Subspace(Subspace::of_frames(data.train(), *vectors))),
        }
    }
}

fn tail(names: &[&str]) -> String {
    names.iter().rev().take(4).copied().collect::<Vec<_>>().join(", ")
}

/// One client's or sequence's.
#[derive(Clone, Debug)]
pub enum Profile {
    /// Mean and variance of features.
    Descriptor(Gaussian),
    /// A layer's numbers.
    Layer(Vec<f64>),
    /// A basis.
    Subspace(Subspace),
}

impl Profile {
    /// How far apart two of one kind are; infinite for two kinds.
    #[must_use]
    pub fn distance(&self, other: &Self) -> f64 {
        match (self, other) {
            (Self::Descriptor(a), Self::Descriptor(b)) => a.jeffreys(b),
            (Self::Layer(a), Self::Layer(b)) => {
                let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
                squares.sum::<f64>().sqrt()
            }
            (Self::Subspace(a), Self::Subspace(b)) => a.distance(b),
            _ => f64::INFINITY,
        }
    }

    /// All distances.
    ///
    /// # Errors
    /// [`ExperimentError::Set`] for distances that are none.
    pub fn matrix(all: &[Self]) -> Result<Divergences, ExperimentError> {
        let fault = |error: &dyn std::fmt::Display| ExperimentError::Set(error.to_string());
        let gaussians: Option<Vec<Gaussian>> = all
            .iter()
            .map(|profile| match profile {
                Self::Descriptor(gaussian) => Some(gaussian.clone()),
                _ => None,
            })
            .collect();
        if let Some(gaussians) = gaussians {
            return Divergences::jeffreys(&gaussians, NonZeroUsize::MIN).map_err(|error| fault(&error));
        }
        let mut rows = vec![vec![0.0; all.len()]; all.len()];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate().skip(i + 1) {
                let distance = a.distance(b);
                for (row, column) in [(i, j), (j, i)] {
                    if let Some(cell) = rows.get_mut(row).and_then(|row| row.get_mut(column)) {
                        *cell = distance;
                    }
                }
            }
        }
        Divergences::from_rows(&rows).map_err(|error| fault(&error))
    }
}
