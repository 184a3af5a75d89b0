//! The learner's part of a round, run off the network's thread: score a model, or train and take differences.

use crate::config::TrainingConfig;
use crate::describe::describe;
use crate::picture;
use chacha20::ChaCha20Rng;
use std::sync::Arc;
use veilsum_aggregation::ClientUpdate;
use veilsum_aggregation::client::Membership;
use veilsum_attestation::statement::{ClusteringRule, Policy};
use veilsum_crypto::{ClusterId, Digest, RoundId};
use veilsum_learner::{
    Example, LearnError, Learner, PrivateState, Scores, TrainLength, TrainPlan, TrainReport, Weights,
};

/// A learner and how it trains.
pub struct Work {
    learner: Box<dyn Learner>,
    training: TrainingConfig,
    /// Whether there are test frames to score on.
    scores: bool,
}

/// What there is to do.
pub(super) enum Job {
    /// Score a cluster's model on this client's own test frames.
    Score {
        round: RoundId,
        cluster: ClusterId,
        model: Vec<f32>,
    },
    /// Describe the client's data with the encoder of a model.
    Describe {
        clustering: u64,
        model: Vec<f32>,
        member: Arc<Membership>,
        rule: ClusteringRule,
        noise: Box<ChaCha20Rng>,
    },
    /// Train from the mean of the clusters' models and take the difference to each.
    Train {
        round: RoundId,
        generation: u64,
        models: Vec<(ClusterId, Digest, Vec<f32>)>,
    },
}

/// What came of it.
pub(super) enum JobResult {
    Scored {
        round: RoundId,
        cluster: ClusterId,
        evaluation: Result<Option<Score>, WorkError>,
    },
    Described {
        clustering: u64,
        outcome: Result<Vec<u8>, WorkError>,
    },
    Trained {
        round: RoundId,
        generation: u64,
        outcome: Result<Trained, WorkError>,
    },
}

pub(super) struct Score {
    pub(super) images: u32,
    pub(super) loss: f64,
    pub(super) scores: Scores,
    /// PNG: picture, truth, prediction.
    pub(super) example: Option<Vec<u8>>,
}

pub(super) struct Trained {
    pub(super) report: TrainReport,
    pub(super) weight: u32,
    pub(super) updates: Vec<ClientUpdate>,
    /// What stays with the client.
    pub(super) private: Option<PrivateState>,
}

impl Work {
    /// A learner with its training settings. `scores` says whether it has test frames.
    #[must_use]
    pub fn new(learner: Box<dyn Learner>, training: TrainingConfig, scores: bool) -> Self {
        Self {
            learner,
            training,
            scores,
        }
    }

    /// Takes up the tensors that stay with the client.
    pub(super) fn restore(&mut self, state: &PrivateState) -> Result<(), WorkError> {
        Ok(self.learner.restore_private(state)?)
    }

    pub(super) fn run(&mut self, job: Job) -> JobResult {
        match job {
            Job::Score {
                round,
                cluster,
                model,
            } => JobResult::Scored {
                round,
                cluster,
                evaluation: self.score(model),
            },
            Job::Describe {
                clustering,
                model,
                member,
                rule,
                mut noise,
            } => JobResult::Described {
                clustering,
                outcome: self.describe(clustering, model, &member.policy, &rule, &mut noise),
            },
            Job::Train {
                round,
                generation,
                models,
            } => JobResult::Trained {
                round,
                generation,
                outcome: self.train(round, models),
            },
        }
    }

    fn score(&mut self, model: Vec<f32>) -> Result<Option<Score>, WorkError> {
        if !self.scores {
            return Ok(None);
        }
        let weights = Weights::new(self.learner.layout(), model)?;
        self.learner.load(&weights)?;
        let evaluation = self.learner.evaluate()?;
        let example = evaluation.example.as_ref().and_then(|example| match example {
            Example::Depth(example) => picture::triptych(example).ok(),
            Example::Bev(example) => picture::views(example).ok(),
        });
        Ok(Some(Score {
            images: evaluation.images,
            loss: evaluation.loss,
            scores: evaluation.scores,
            example,
        }))
    }

    fn describe(
        &mut self,
        clustering: u64,
        model: Vec<f32>,
        policy: &Policy,
        rule: &ClusteringRule,
        noise: &mut ChaCha20Rng,
    ) -> Result<Vec<u8>, WorkError> {
        let weights = Weights::new(self.learner.layout(), model)?;
        self.learner.load(&weights)?;
        // Another draw for each clustering, the same one after a crash.
        let seed = self.training.seed.wrapping_add(clustering << 32);
        let descriptor = describe(self.learner.as_mut(), policy, rule, seed, noise)?;
        Ok(descriptor.encode())
    }

    /// FeDepth's client step: start from the mean of the models of one's clusters; what goes back to each cluster is the
    /// difference to its own model, so that the server's average is the average of the trained weights.
    fn train(
        &mut self,
        round: RoundId,
        models: Vec<(ClusterId, Digest, Vec<f32>)>,
    ) -> Result<Trained, WorkError> {
        let layout = self.learner.layout().clone();
        let models = models
            .into_iter()
            .map(|(cluster, digest, model)| Ok((cluster, digest, Weights::new(&layout, model)?)))
            .collect::<Result<Vec<_>, LearnError>>()?;
        self.learner
            .load(&Weights::mean(models.iter().map(|(_, _, weights)| weights))?)?;
        let rounds_before = i32::try_from(round.0.saturating_sub(1)).unwrap_or(i32::MAX);
        let report = self.learner.train(&TrainPlan {
            round: u32::try_from(round.0).unwrap_or(u32::MAX),
            length: TrainLength::Steps(self.training.steps),
            learning_rate: self.training.learning_rate * self.training.decay.powi(rounds_before),
            batch: self.training.batch,
            seed: self.training.seed,
        })?;
        let trained = self.learner.weights()?;
        let updates = models
            .iter()
            .map(|(cluster, model, weights)| {
                let delta = trained.minus(weights)?;
                Ok(ClientUpdate {
                    cluster: *cluster,
                    model: *model,
                    delta: delta.values().to_vec(),
                })
            })
            .collect::<Result<_, LearnError>>()?;
        Ok(Trained {
            report,
            weight: self.learner.sample_count().max(1),
            updates,
            private: self.learner.save_private()?,
        })
    }
}

/// Why the learner stopped. Nothing of the round was sent.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct WorkError(#[from] LearnError);
