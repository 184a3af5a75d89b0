//! A learner whose update is known beforehand.

use crate::compliance::federation::Contribution;
use veilsum_learner::{
    Evaluation, Layout, LearnError, Learner, MetricsError, TensorClass, TensorSpec, TrainPlan, TrainReport,
    Weights,
};

/// Moves the weights by a contribution and nothing else.
pub(super) struct Known {
    layout: Layout,
    weights: Weights,
    contribution: Contribution,
}

impl Known {
    pub(super) fn new(contribution: Contribution) -> Result<Self, LearnError> {
        let entries = contribution.values.len();
        let layout = Layout::new(vec![TensorSpec::new("known", vec![entries], TensorClass::Shared)])?;
        let weights = Weights::new(&layout, vec![0.5; entries])?;
        Ok(Self {
            layout,
            weights,
            contribution,
        })
    }
}

impl Learner for Known {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn weights(&self) -> Result<Weights, LearnError> {
        Ok(self.weights.clone())
    }

    fn load(&mut self, weights: &Weights) -> Result<(), LearnError> {
        self.weights = weights.clone();
        Ok(())
    }

    fn train(&mut self, _plan: &TrainPlan) -> Result<TrainReport, LearnError> {
        let moved = self
            .weights
            .values()
            .iter()
            .zip(self.contribution.delta())
            .map(|(weight, delta)| weight + delta)
            .collect();
        self.weights = Weights::new(&self.layout, moved)?;
        Ok(TrainReport {
            steps: 1,
            samples: self.contribution.weight,
            loss_first: 1.0,
            loss_last: 1.0,
            skipped_frames: 0,
        })
    }

    fn evaluate(&mut self) -> Result<Evaluation, LearnError> {
        Err(MetricsError::NoImages.into())
    }

    fn sample_count(&self) -> u32 {
        self.contribution.weight
    }
}
