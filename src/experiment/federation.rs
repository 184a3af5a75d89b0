//! Clients, clusters and rounds: `W ← Q · P · (locally trained W)`.
//!
//! P makes each cluster's model from its members, by weight; Q each client's start from its clusters, evenly. Both have
//! rows that sum to 1. A client in no cluster goes on from its own model.

use super::ExperimentError;
use super::averaging::{Averaging, Update};
use super::corrector::{Bend, Corrector};
use serde::{Deserialize, Serialize};
use veilsum_aggregation::cluster::Membership;
use veilsum_learner::{LearnError, Learner, TensorClass, TrainLength, TrainPlan, Weights};

/// How clients train.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Rounds.
    pub rounds: u32,
    /// Optimiser steps of a client in a round.
    pub steps: u32,
    /// Frames a step.
    pub batch: usize,
    /// Learning rate of the first round.
    pub learning_rate: f64,
    /// Factor on it from round to round.
    #[serde(default = "one")]
    pub decay: f64,
}

fn one() -> f64 {
    1.0
}

impl Schedule {
    /// The plan of a round, from 1.
    pub(super) fn plan(&self, round: u32, rate: Option<f64>, seed: u64) -> TrainPlan {
        let before = i32::try_from(round.saturating_sub(1)).unwrap_or(i32::MAX);
        TrainPlan {
            round,
            length: TrainLength::Steps(self.steps),
            learning_rate: rate.unwrap_or(self.learning_rate) * self.decay.powi(before),
            batch: self.batch,
            seed,
        }
    }
}

/// What becomes of running statistics and the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffers {
    /// Averaged like weights, with the same weights; never corrected.
    #[default]
    Averaged,
    /// A client goes on with its own; only models for sequences that belong to no client have averaged ones.
    Local,
}

/// Learners and where they stand.
pub struct Federation {
    clients: Vec<Box<dyn Learner>>,
    clusters: Membership,
    bend: Bend,
    corrector: Corrector,
    buffers: Buffers,
    /// What the next round starts from, by cluster.
    models: Vec<Weights>,
    /// What is scored, by cluster.
    served: Vec<Weights>,
    /// Each client's model after its last training.
    own: Vec<Weights>,
    round: u32,
    failures: u32,
}

impl Federation {
    /// All models at `start`.
    ///
    /// # Errors
    /// [`ExperimentError::Clusters`]: a membership of other clients, or a method that knows one server model under several.
    pub fn new(
        clients: Vec<Box<dyn Learner>>,
        clusters: Membership,
        bend: Bend,
        buffers: Buffers,
        start: &Weights,
    ) -> Result<Self, ExperimentError> {
        if clusters.clients() != clients.len() {
            return Err(ExperimentError::Clusters("the clusters are of other clients"));
        }
        let stateful = matches!(bend, Bend::Dyn { .. } | Bend::Scaffold { .. });
        if stateful && clusters.clusters() != 1 {
            return Err(ExperimentError::Clusters(
                "FedDyn and SCAFFOLD keep a state of one server model, so they run on one cluster",
            ));
        }
        let count = clients.len();
        Ok(Self {
            corrector: Corrector::new(bend, count, start.layout()),
            models: vec![start.clone(); clusters.clusters()],
            served: vec![start.clone(); clusters.clusters()],
            own: vec![start.clone(); count],
            clients,
            clusters,
            bend,
            buffers,
            round: 0,
            failures: 0,
        })
    }

    /// Trains everybody once and averages. A client whose training left the finite numbers hands nothing in and is counted.
    ///
    /// # Errors
    /// [`ExperimentError`].
    pub fn round(
        &mut self,
        schedule: &Schedule,
        seed: u64,
        averaging: &mut dyn Averaging,
    ) -> Result<(), ExperimentError> {
        self.round += 1;
        let mut updates = Vec::with_capacity(self.clients.len());
        for client in 0..self.clients.len() {
            let start = self.start(client, &self.models)?;
            let plan = schedule.plan(self.round, self.bend.rate(), client_seed(seed, client));
            let correction = self.corrector.correction(client, &start)?;
            let Some(learner) = self.clients.get_mut(client) else {
                continue;
            };
            learner.load(&start)?;
            let report = match &correction {
                Some(correction) => learner.train_corrected(&plan, correction),
                None => learner.train(&plan),
            };
            let report = match report {
                Ok(report) => report,
                Err(LearnError::NonFiniteLoss { .. } | LearnError::Diverged { .. }) => {
                    self.failures += 1;
                    updates.push(None);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let trained = learner.weights()?;
            let weight = self.bend.weight(learner.sample_count());
            let rate = plan.learning_rate;
            let values = self
                .corrector
                .upload(client, &start, &trained, report.steps, rate);
            if let Some(own) = self.own.get_mut(client) {
                *own = trained;
            }
            updates.push(Some(Update { values, weight }));
        }
        let bases: Vec<Vec<f32>> = self
            .models
            .iter()
            .map(|model| self.corrector.base(model))
            .collect();
        let means = averaging.average(&self.clusters, &bases, &updates)?;
        for (cluster, mean) in means.into_iter().enumerate() {
            let members = self.clusters.members(cluster);
            let there = members.filter(|client| updates.get(*client).is_some_and(Option::is_some));
            let (count, model) = (there.count(), self.models.get(cluster));
            let (Some(mean), Some(model)) = (mean, model) else {
                continue;
            };
            let (next, served) = self.corrector.fold(model, &mean, count)?;
            for (place, new) in [(&mut self.models, next), (&mut self.served, served)] {
                if let Some(place) = place.get_mut(cluster) {
                    *place = new;
                }
            }
        }
        Ok(())
    }

    /// The model a client works with: the mean of its clusters', or its own where it has none.
    fn start(&self, client: usize, models: &[Weights]) -> Result<Weights, ExperimentError> {
        let of = models.iter().enumerate();
        let of = of.filter(|(cluster, _)| self.clusters.contains(*cluster, client));
        let of: Vec<&Weights> = of.map(|(_, model)| model).collect();
        let own = self
            .own
            .get(client)
            .ok_or(ExperimentError::Clusters("a client is missing"))?;
        if of.is_empty() {
            return Ok(own.clone());
        }
        let mean = Weights::mean(of)?;
        if self.buffers == Buffers::Averaged || self.round <= 1 {
            return Ok(mean);
        }
        let mut values = Vec::with_capacity(mean.values().len());
        for ((spec, mean), (_, own)) in mean.tensors().zip(own.tensors()) {
            let kept = if spec.class == TensorClass::Buffer {
                own
            } else {
                mean
            };
            values.extend_from_slice(kept);
        }
        Ok(Weights::new(mean.layout(), values)?)
    }

    /// A client's learner with the model it would be served.
    ///
    /// # Errors
    /// [`ExperimentError`].
    pub fn serve(&mut self, client: usize) -> Result<&mut dyn Learner, ExperimentError> {
        let model = self.start(client, &self.served)?;
        let learner = self
            .clients
            .get_mut(client)
            .ok_or(ExperimentError::Clusters("a client is missing"))?;
        learner.load(&model)?;
        Ok(learner.as_mut())
    }

    /// The clusters' models as they are scored.
    #[must_use]
    pub fn served(&self) -> &[Weights] {
        &self.served
    }

    /// What the next round starts from.
    #[must_use]
    pub fn models(&self) -> &[Weights] {
        &self.models
    }

    /// Each client's model after its last training.
    #[must_use]
    pub fn own(&self) -> &[Weights] {
        &self.own
    }

    /// The clusters.
    #[must_use]
    pub fn clusters(&self) -> &Membership {
        &self.clusters
    }

    /// Clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Trainings so far that left the finite numbers.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// On how many clients' data a client's start rests: the inverse of the summed squares of its row of Q · P, averaged
    /// over the clients.
    #[must_use]
    pub fn donors(&self) -> f64 {
        let weights: Vec<u32> = self
            .clients
            .iter()
            .map(|c| self.bend.weight(c.sample_count()))
            .collect();
        donors(&self.clusters, &weights)
    }

    #[cfg(test)]
    pub(super) fn imbalance(&self) -> f64 {
        self.corrector.imbalance()
    }
}

/// See [`Federation::donors`].
#[must_use]
pub fn donors(clusters: &Membership, weights: &[u32]) -> f64 {
    let weight = |client: usize| weights.get(client).copied().map_or(0.0, f64::from);
    let mut total = 0.0;
    for client in 0..clusters.clients() {
        let mine: Vec<usize> = (0..clusters.clusters())
            .filter(|cluster| clusters.contains(*cluster, client))
            .collect();
        if mine.is_empty() {
            total += 1.0;
            continue;
        }
        let mut row = vec![0.0; clusters.clients()];
        for cluster in &mine {
            let whole: f64 = clusters.members(*cluster).map(weight).sum();
            for member in clusters.members(*cluster) {
                if let Some(cell) = row.get_mut(member) {
                    #[expect(clippy::cast_precision_loss, reason = "a handful of clusters")]
                    let share = 1.0 / mine.len() as f64;
                    *cell += share * weight(member) / whole;
                }
            }
        }
        total += row.iter().map(|share| share * share).sum::<f64>().recip();
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers of clients are far below 2^52")]
    let count = clusters.clients().max(1) as f64;
    total / count
}

/// Shuffles differ from client to client and are the same for every strategy.
fn client_seed(seed: u64, client: usize) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(client as u64)
}

#[cfg(test)]
#[expect(
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::manual_midpoint,
    reason = "exact values are expected, of small numbers"
)]
mod tests;
