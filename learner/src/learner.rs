//! The learner trait, training plans and reports.

use std::fmt;

use crate::bev::BevMetrics;
use crate::correction::Correction;
use crate::descriptor::Features;
use crate::error::LearnError;
use crate::layout::Layout;
use crate::metrics::DepthMetrics;
use crate::private::PrivateState;
use crate::weights::Weights;

/// One client's model and data.
///
/// A round is `load` → `evaluate` → `train` → `weights().minus(&loaded)`. Time is the caller's business: nothing in here
/// reads a clock, and randomness comes from [`TrainPlan::seed`] alone, so a plan replays.
pub trait Learner: Send {
    /// The model's tensors. Fixed for the learner's life.
    fn layout(&self) -> &Layout;

    /// The current uploaded tensors.
    ///
    /// # Errors
    ///
    /// [`LearnError::NonFinite`] if a weight is not finite.
    fn weights(&self) -> Result<Weights, LearnError>;

    /// Replaces the uploaded tensors. Private tensors keep their values.
    ///
    /// # Errors
    ///
    /// [`LearnError::LayoutMismatch`] if the weights belong to another model; nothing changes then.
    fn load(&mut self, weights: &Weights) -> Result<(), LearnError>;

    /// Trains on this client's frames. On any error the weights are those from before the call.
    ///
    /// # Errors
    ///
    /// An unusable plan, no training data, or training that left the finite numbers.
    fn train(&mut self, plan: &TrainPlan) -> Result<TrainReport, LearnError>;

    /// Trains as [`Learner::train`] does, with something added to every gradient.
    ///
    /// # Errors
    ///
    /// As [`Learner::train`]; [`LearnError::NoCorrection`] for a model that takes none, which is the default, and
    /// [`LearnError::LayoutMismatch`] for a correction of another model.
    fn train_corrected(
        &mut self,
        plan: &TrainPlan,
        correction: &Correction,
    ) -> Result<TrainReport, LearnError> {
        let _ = (plan, correction);
        Err(LearnError::NoCorrection)
    }

    /// Scores the current weights on this client's test frames.
    ///
    /// # Errors
    ///
    /// [`MetricsError`](crate::MetricsError) if no frame has a valid pixel: a score is never NaN.
    fn evaluate(&mut self) -> Result<Evaluation, LearnError>;

    /// What the encoder makes of training frame `frame`, counted from 0, with the current weights: its last map.
    ///
    /// # Errors
    ///
    /// [`LearnError::NoEncoder`] for a model without one, which is the default, and [`LearnError::NoFrame`] beyond the last frame.
    fn features(&mut self, frame: u32) -> Result<Features, LearnError> {
        let _ = frame;
        Err(LearnError::NoEncoder)
    }

    /// The tensors that stay, for the client's own encrypted checkpoint; `None` for a model without any.
    ///
    /// # Errors
    ///
    /// [`LearnError::NonFinite`] if a number is not finite.
    fn save_private(&self) -> Result<Option<PrivateState>, LearnError> {
        Ok(None)
    }

    /// Takes up what [`Learner::save_private`] handed out.
    ///
    /// # Errors
    ///
    /// [`LearnError::PrivateState`] if it belongs to another model; nothing changes then.
    fn restore_private(&mut self, state: &PrivateState) -> Result<(), LearnError> {
        state.unpack(self.layout()).map(|_| ())
    }

    /// Training frames, the client's weight in an average.
    fn sample_count(&self) -> u32;
}

/// What to do in one round.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainPlan {
    /// Round, from 1; for reports and to vary the seed.
    pub round: u32,
    /// How long.
    pub length: TrainLength,
    /// Learning rate of the local optimiser.
    pub learning_rate: f64,
    /// Frames per step.
    pub batch: usize,
    /// Seed of shuffles and augmentation. Mixed with `round`.
    pub seed: u64,
}

impl TrainPlan {
    /// Refuses plans that cannot be carried out.
    ///
    /// # Errors
    ///
    /// [`LearnError::Plan`] naming the setting.
    pub fn check(&self) -> Result<(), LearnError> {
        let wrong = |what: &str| {
            Err(LearnError::Plan {
                round: self.round,
                what: what.to_owned(),
            })
        };
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            return wrong("learning_rate must be a positive number");
        }
        if self.batch == 0 {
            return wrong("batch must be at least 1");
        }
        match self.length {
            TrainLength::Epochs(0) => wrong("epochs must be at least 1"),
            TrainLength::Steps(0) => wrong("steps must be at least 1"),
            TrainLength::Epochs(_) | TrainLength::Steps(_) => Ok(()),
        }
    }

    /// Optimiser steps that this plan means for `samples` frames.
    #[must_use]
    pub fn steps(&self, samples: usize) -> u32 {
        match self.length {
            TrainLength::Steps(steps) => steps,
            TrainLength::Epochs(epochs) => {
                let per_epoch = u32::try_from(samples.div_ceil(self.batch.max(1))).unwrap_or(u32::MAX);
                epochs.saturating_mul(per_epoch)
            }
        }
    }
}

/// Length of local training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainLength {
    /// Passes over the data; the last batch of a pass may be smaller.
    Epochs(u32),
    /// Optimiser steps, passing over the data as often as needed.
    Steps(u32),
}

/// What local training did.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainReport {
    /// Optimiser steps taken.
    pub steps: u32,
    /// Frames used, counting repeats.
    pub samples: u32,
    /// Loss of the first step, before any change.
    pub loss_first: f64,
    /// Loss of the last step.
    pub loss_last: f64,
    /// Frames without valid depth that were left out, counting repeats.
    pub skipped_frames: u32,
}

/// Scores on the test frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Test frames scored.
    pub images: u32,
    /// Means over those frames, in the scores of the learner's task.
    pub scores: Scores,
    /// Mean training loss over those frames.
    pub loss: f64,
    /// A frame with its prediction, for reports.
    pub example: Option<Example>,
}

impl Evaluation {
    /// The scores of a depth learner; `None` for another task.
    #[must_use]
    pub fn depth(&self) -> Option<&DepthMetrics> {
        match &self.scores {
            Scores::Depth(metrics) => Some(metrics),
            Scores::Bev(_) => None,
        }
    }

    /// The scores of a bird's-eye-view learner; `None` for another task.
    #[must_use]
    pub fn bev(&self) -> Option<&BevMetrics> {
        match &self.scores {
            Scores::Bev(metrics) => Some(metrics),
            Scores::Depth(_) => None,
        }
    }
}

/// Scores of one task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scores {
    /// Monocular depth.
    Depth(DepthMetrics),
    /// Vehicles in a bird's-eye view.
    Bev(BevMetrics),
}

/// A test frame with its prediction.
#[derive(Clone, Debug, PartialEq)]
pub enum Example {
    /// Monocular depth.
    Depth(DepthExample),
    /// A bird's-eye view.
    Bev(BevExample),
}

/// One test frame's true and predicted bird's-eye view.
#[derive(Clone, PartialEq)]
pub struct BevExample {
    /// The frame's name in its data set.
    pub name: String,
    /// Cells a side. Row 0 is farthest ahead, column 0 farthest left.
    pub cells: usize,
    /// Where vehicles are, row-major.
    pub truth: Vec<bool>,
    /// Where the network says they are.
    pub prediction: Vec<bool>,
    /// Which cells count: those that some camera sees.
    pub counts: Vec<bool>,
}

impl fmt::Debug for BevExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "BevExample({} {2}x{2}, {} vehicle cells)",
            self.name,
            self.truth.iter().filter(|t| **t).count(),
            self.cells
        )
    }
}

/// One test frame, its true depth and the predicted one.
#[derive(Clone, PartialEq)]
pub struct DepthExample {
    /// The frame's name in its data set.
    pub name: String,
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// 8-bit RGB, row by row, three bytes a pixel: `3 · width · height` bytes.
    pub rgb: Vec<u8>,
    /// True depth in metres, planar z; 0 where unknown.
    pub truth: Vec<f32>,
    /// Predicted depth in metres.
    pub prediction: Vec<f32>,
    /// Depth at which colour scales should end, metres.
    pub cap_m: f32,
}

impl fmt::Debug for DepthExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DepthExample({} {}x{})", self.name, self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> TrainPlan {
        TrainPlan {
            round: 3,
            length: TrainLength::Epochs(2),
            learning_rate: 0.1,
            batch: 4,
            seed: 1,
        }
    }

    #[test]
    fn epochs_count_partial_batches() {
        assert_eq!(plan().steps(9), 6);
        assert_eq!(plan().steps(8), 4);
        assert_eq!(
            TrainPlan {
                length: TrainLength::Steps(5),
                ..plan()
            }
            .steps(9),
            5
        );
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert!(plan().check().is_ok());
        let cases = [
            (
                TrainPlan {
                    learning_rate: 0.0,
                    ..plan()
                },
                "learning_rate",
            ),
            (
                TrainPlan {
                    learning_rate: f64::NAN,
                    ..plan()
                },
                "learning_rate",
            ),
            (TrainPlan { batch: 0, ..plan() }, "batch"),
            (
                TrainPlan {
                    length: TrainLength::Epochs(0),
                    ..plan()
                },
                "epochs",
            ),
            (
                TrainPlan {
                    length: TrainLength::Steps(0),
                    ..plan()
                },
                "steps",
            ),
        ];
        for (plan, word) in cases {
            let error = plan.check().unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("round 3"), "{error}");
        }
    }
}
