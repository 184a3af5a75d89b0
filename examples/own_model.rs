//! A model of your own: whatever implements `Learner` trains under masks. Here, two numbers that calibrate a range finder.
//!
//! `cargo run --example own_model`. The readings of all clients together give scale 2 and offset 0.5 m.

#[path = "own_model/calibration.rs"]
mod calibration;
#[path = "simulated/federation.rs"]
mod federation;

use calibration::Calibration;
use federation::{Fault, Federation};
use veilsum_attestation::audit::Overall;
use veilsum_learner::learner::Scores;
use veilsum_learner::{
    DepthMetrics, DepthRange, Evaluation, Layout, LearnError, Learner, TensorClass, TensorSpec, TrainPlan,
    TrainReport, Weights,
};

struct RangeFinder(Weights, Calibration);

impl Learner for RangeFinder {
    fn layout(&self) -> &Layout {
        self.0.layout()
    }
    fn weights(&self) -> Result<Weights, LearnError> {
        Ok(self.0.clone())
    }
    fn load(&mut self, weights: &Weights) -> Result<(), LearnError> {
        self.0 = Weights::new(self.layout(), weights.values().to_vec())?;
        Ok(())
    }
    fn train(&mut self, plan: &TrainPlan) -> Result<TrainReport, LearnError> {
        let (steps, samples) = (plan.steps(4), self.sample_count());
        let loss_first = self.1.loss(self.0.values());
        for _ in 0..steps {
            let step = self.1.step(self.0.values(), plan.learning_rate);
            self.0 = self.0.plus(&step)?;
        }
        let (loss_last, skipped_frames) = (self.1.loss(self.0.values()), 0);
        Ok(TrainReport {
            steps,
            samples,
            loss_first,
            loss_last,
            skipped_frames,
        })
    }
    fn evaluate(&mut self) -> Result<Evaluation, LearnError> {
        let guess = self.1.predict(self.0.values());
        let depth = DepthMetrics::of_image(self.1.depths(), &guess, DepthRange::new(0.01, 100.0)?)?;
        Ok(Evaluation {
            images: 1,
            scores: Scores::Depth(depth),
            loss: self.1.loss(self.0.values()),
            example: None,
        })
    }
    fn sample_count(&self) -> u32 {
        4
    }
}

pub(crate) fn main() -> Result<(), Fault> {
    let numbers = TensorSpec::new("calibration", [2], TensorClass::Shared);
    let initial = Weights::new(&Layout::new(vec![numbers])?, vec![1.0, 0.0])?;
    let federation = Federation::found(&initial, 3)?;
    let learner =
        |client| -> Box<dyn Learner> { Box::new(RangeFinder(initial.clone(), Calibration::of(client))) };
    let model = federation.run((0..8).map(learner).collect(), 100, 0.3)?;
    let verdict = federation.audit(&std::fs::read(federation.bundle())?)?;
    println!("together {model:?}; the audit says {:?}", verdict.overall);
    let near = model
        .iter()
        .zip([2.0, 0.5])
        .all(|(got, due)| (got - due).abs() < 0.02);
    if !near || verdict.overall != Overall::Verified {
        return Err("the calibration was not found".into());
    }
    Ok(())
}
