//! A depth model small enough to read, in plain Rust: the whole product runs on it without libtorch.
//!
//! The picture is cut into 16 × 12 cells. In each, ln depth = cell bias + weights · (features − running mean) + a
//! private offset of the client's own, fitted by stochastic gradient descent on the squared error of ln depth. It has
//! one tensor of every class: shared, buffer and private.

use crate::correction::Correction;
use crate::data::DepthDataset;
use crate::descriptor::Features;
use crate::error::LearnError;
use crate::layout::{Layout, TensorClass, TensorSpec};
use crate::learner::{Evaluation, Learner, TrainPlan, TrainReport};
use crate::private::PrivateState;
use crate::tensor::{PrivateTensor, SharedTensor};
use crate::toy::cells::{CELLS, Cells, FEATURES};
use crate::toy::descent::{descend, diverged, usable};
use crate::toy::score::score;
use crate::weights::Weights;

mod adam;
mod cells;
mod descent;
mod perceptron;
mod score;

pub use perceptron::Perceptron;

/// The model with one client's frames.
pub struct ToyDepth {
    layout: Layout,
    data: DepthDataset,
    train: Vec<Cells>,
    bias: Vec<f32>,
    weight: [f32; FEATURES],
    mean: [f32; FEATURES],
    offset: PrivateTensor,
}

impl ToyDepth {
    /// Columns of cells.
    pub const COLUMNS: usize = 16;
    /// Rows of cells.
    pub const ROWS: usize = 12;

    /// A model at its initial weights.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] if the pictures have fewer pixels than the model has cells.
    pub fn new(data: DepthDataset) -> Result<Self, LearnError> {
        check_size(&data)?;
        let layout = Self::model_layout()?;
        let offset = TensorSpec::new(OFFSET, [1], TensorClass::Private);
        let train = data.train().iter().map(Cells::of).collect();
        Ok(Self {
            layout,
            data,
            train,
            bias: vec![START_LOG_M; CELLS],
            weight: [0.0; FEATURES],
            mean: [0.0; FEATURES],
            offset: PrivateTensor::new(&offset, vec![0.0])?,
        })
    }

    /// The model's layout, the same for every client.
    ///
    /// # Errors
    ///
    /// None in practice: the layout is fixed and valid.
    pub fn model_layout() -> Result<Layout, LearnError> {
        Ok(Layout::new(vec![
            TensorSpec::new("cell.bias", [Self::ROWS, Self::COLUMNS], TensorClass::Shared),
            TensorSpec::new("feature.weight", [FEATURES], TensorClass::Shared),
            TensorSpec::new("feature.mean", [FEATURES], TensorClass::Buffer),
            TensorSpec::new(OFFSET, [1], TensorClass::Private),
        ])?)
    }

    /// What every client starts from: 10 m everywhere. The problem is convex, so no draw is needed.
    ///
    /// # Errors
    ///
    /// None in practice, as [`ToyDepth::model_layout`].
    pub fn initial_weights() -> Result<Weights, LearnError> {
        let layout = Self::model_layout()?;
        let mut values = vec![0.0; layout.upload_len()];
        for bias in values.iter_mut().take(CELLS) {
            *bias = START_LOG_M;
        }
        Weights::new(&layout, values)
    }

    /// The private offset, for tests that look for it where it must not be.
    #[must_use]
    pub fn private(&self) -> &PrivateTensor {
        &self.offset
    }

    fn private_offset(&self) -> f32 {
        self.offset.values().first().copied().unwrap_or(0.0)
    }

    fn predict_logs(&self, cells: &Cells) -> Vec<f32> {
        let offset = self.private_offset();
        self.bias
            .iter()
            .zip(&cells.features)
            .map(|(bias, f)| bias + offset + self.slope(f))
            .collect()
    }

    fn slope(&self, features: &[f32; FEATURES]) -> f32 {
        self.weight
            .iter()
            .zip(features)
            .zip(&self.mean)
            .map(|((w, f), m)| w * (f - m))
            .sum()
    }

    /// One gradient step. Returns the mean squared error before it, or `None` if no cell of the batch has depth.
    fn step(&mut self, batch: &[usize], rate: f32, correction: Option<&Correction>) -> Option<f64> {
        let mut bias = vec![(0.0_f32, 0.0_f32); CELLS];
        let mut weight = [0.0_f32; FEATURES];
        let mut mean = [0.0_f32; FEATURES];
        let (mut error_sum, mut square_sum, mut count) = (0.0_f32, 0.0_f64, 0.0_f32);
        for cells in batch.iter().filter_map(|&i| self.train.get(i)) {
            let predicted = self.predict_logs(cells);
            let each = predicted
                .iter()
                .zip(&cells.logs)
                .zip(&cells.features)
                .zip(&mut bias);
            for (((p, truth), features), (bias_sum, bias_count)) in each {
                let Some(truth) = truth else { continue };
                let error = p - truth;
                *bias_sum += error;
                *bias_count += 1.0;
                error_sum += error;
                square_sum += f64::from(error) * f64::from(error);
                count += 1.0;
                for ((w, m), (f, centre)) in weight
                    .iter_mut()
                    .zip(&mut mean)
                    .zip(features.iter().zip(&self.mean))
                {
                    *w += error * (f - centre);
                    *m += f - centre;
                }
            }
        }
        if count == 0.0 {
            return None;
        }
        // Each tensor steps along the mean gradient of the cells that it acts on.
        let mut bias: Vec<f32> = bias
            .into_iter()
            .map(|(sum, n)| if n > 0.0 { sum / n } else { 0.0 })
            .collect();
        for gradient in &mut weight {
            *gradient /= count;
        }
        if let Some(correction) = correction {
            let corrected: [(&mut [f32], &[f32]); 2] = [(&mut bias, &self.bias), (&mut weight, &self.weight)];
            add(correction, corrected);
        }
        for (bias, gradient) in self.bias.iter_mut().zip(bias) {
            *bias -= rate * gradient;
        }
        for ((w, g), (centre, m)) in self
            .weight
            .iter_mut()
            .zip(weight)
            .zip(self.mean.iter_mut().zip(mean))
        {
            *w -= rate * g;
            *centre += MEAN_MOMENTUM * m / count;
        }
        for offset in self.offset.values_mut() {
            *offset -= PRIVATE_SHARE * rate * error_sum / count;
        }
        Some(square_sum / f64::from(count))
    }

    fn restore(&mut self, saved: &(Weights, f32)) -> Result<(), LearnError> {
        self.load(&saved.0)?;
        for offset in self.offset.values_mut() {
            *offset = saved.1;
        }
        Ok(())
    }

    fn train_with(
        &mut self,
        plan: &TrainPlan,
        correction: Option<&Correction>,
    ) -> Result<TrainReport, LearnError> {
        plan.check()?;
        let mut usable = usable(self.data.name(), self.train.iter().map(Cells::has_depth))?;
        let without = u32::try_from(self.train.len() - usable.len()).unwrap_or(u32::MAX);
        let saved = (self.weights()?, self.private_offset());
        #[expect(clippy::cast_possible_truncation, reason = "a rate needs no double precision")]
        let rate = plan.learning_rate as f32;
        let outcome = descend(plan, &mut usable, |batch| self.step(batch, rate, correction));
        let outcome = outcome.and_then(|(report, passes)| {
            self.finite().map_err(|error| diverged(plan.round, error))?;
            Ok(TrainReport {
                skipped_frames: passes * without,
                ..report
            })
        });
        if outcome.is_err() {
            self.restore(&saved)?;
        }
        outcome
    }

    /// Refuses numbers that are not finite, the private one included.
    fn finite(&self) -> Result<(), LearnError> {
        self.weights()?;
        let value = self.private_offset();
        if value.is_finite() {
            return Ok(());
        }
        Err(LearnError::NonFinite {
            tensor: OFFSET.to_owned(),
            index: 0,
            value,
        })
    }
}

impl Learner for ToyDepth {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn weights(&self) -> Result<Weights, LearnError> {
        let parts = [self.bias.as_slice(), &self.weight, &self.mean];
        let tensors = self.layout.uploaded().zip(parts);
        let tensors = tensors.map(|(spec, values)| SharedTensor::new(spec, values.to_vec()));
        Weights::assemble(&self.layout, &tensors.collect::<Result<Vec<_>, _>>()?)
    }

    fn load(&mut self, weights: &Weights) -> Result<(), LearnError> {
        weights.check(&self.layout)?;
        let parts: [&mut [f32]; 3] = [&mut self.bias, &mut self.weight, &mut self.mean];
        for (part, (_, values)) in parts.into_iter().zip(weights.tensors()) {
            part.copy_from_slice(values);
        }
        Ok(())
    }

    fn train(&mut self, plan: &TrainPlan) -> Result<TrainReport, LearnError> {
        self.train_with(plan, None)
    }

    fn train_corrected(
        &mut self,
        plan: &TrainPlan,
        correction: &Correction,
    ) -> Result<TrainReport, LearnError> {
        correction.check(&self.layout)?;
        self.train_with(plan, Some(correction))
    }

    fn evaluate(&mut self) -> Result<Evaluation, LearnError> {
        score(&self.data, |cells| self.predict_logs(cells))
    }

    fn save_private(&self) -> Result<Option<PrivateState>, LearnError> {
        PrivateState::pack(&self.layout, std::slice::from_ref(&self.offset)).map(Some)
    }

    fn restore_private(&mut self, state: &PrivateState) -> Result<(), LearnError> {
        if let Some(offset) = state.unpack(&self.layout)?.pop() {
            self.offset = offset;
        }
        Ok(())
    }

    /// Positive and negative parts of the features of each cell: pooling takes positive numbers only.
    fn features(&mut self, frame: u32) -> Result<Features, LearnError> {
        let cells = self
            .train
            .get(frame as usize)
            .ok_or(LearnError::NoFrame { frame })?;
        let parts = |features: &[f32; FEATURES]| features.map(|value| [value.max(0.0), (-value).max(0.0)]);
        Ok(Features {
            height: Self::ROWS,
            width: Self::COLUMNS,
            channels: 2 * FEATURES,
            values: cells.features.iter().flat_map(parts).flatten().collect(),
        })
    }

    fn sample_count(&self) -> u32 {
        u32::try_from(self.data.train().len()).unwrap_or(u32::MAX)
    }
}

/// Refuses pictures with fewer pixels than cells.
fn check_size(data: &DepthDataset) -> Result<(), LearnError> {
    if data.width() >= ToyDepth::COLUMNS && data.height() >= ToyDepth::ROWS {
        return Ok(());
    }
    let what = format!(
        "the toy model needs pictures of at least {}x{} pixels, got {}x{}",
        ToyDepth::COLUMNS,
        ToyDepth::ROWS,
        data.width(),
        data.height()
    );
    Err(LearnError::Network { what })
}

/// Adds a correction to the gradients of leading tensors, each given with its values.
fn add<const N: usize>(correction: &Correction, tensors: [(&mut [f32], &[f32]); N]) {
    let proximal = correction.proximal();
    for ((gradient, values), (_, linear, anchor)) in tensors.into_iter().zip(correction.tensors()) {
        let parts = linear.iter().zip(anchor).zip(values);
        for (gradient, ((linear, anchor), value)) in gradient.iter_mut().zip(parts) {
            *gradient += linear + proximal * (value - anchor);
        }
    }
}

/// ln 10 m.
const START_LOG_M: f32 = std::f32::consts::LN_10;
const OFFSET: &str = "client.offset";
/// How far the running mean moves towards each batch's mean.
const MEAN_MOMENTUM: f32 = 0.1;
/// The private offset learns slower than the shared cells, so that it takes only what they cannot.
const PRIVATE_SHARE: f32 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Frame;
    use crate::data::generator::{Generator, Light, Place, Platform};
    use crate::learner::Example;
    use crate::learner::TrainLength;
    use crate::metrics::MetricsError;

    fn client(seed: u64, place: Place) -> ToyDepth {
        let g = Generator {
            platform: Platform::Ugv,
            place,
            light: Light::Day,
            width: 64,
            height: 48,
            train: 12,
            test: 6,
            seed,
        };
        ToyDepth::new(g.dataset().unwrap()).unwrap()
    }

    fn plan(round: u32) -> TrainPlan {
        TrainPlan {
            round,
            length: TrainLength::Epochs(4),
            learning_rate: 0.3,
            batch: 4,
            seed: 11,
        }
    }

    #[test]
    fn it_learns() {
        for place in Place::ALL {
            let mut toy = client(1, place);
            let before = toy.evaluate().unwrap();
            let report = toy.train(&plan(1)).unwrap();
            let after = toy.evaluate().unwrap();
            assert_eq!((report.steps, report.samples, report.skipped_frames), (12, 48, 0));
            assert!(report.loss_last < 0.5 * report.loss_first, "{report:?}");
            assert!(
                after.depth().unwrap().abs_rel < 0.7 * before.depth().unwrap().abs_rel,
                "{place:?}: {before:?} {after:?}"
            );
            assert!(after.loss < before.loss && after.images == 6);
            let Some(Example::Depth(example)) = after.example else {
                panic!("a depth learner shows depth")
            };
            assert_eq!(
                (example.rgb.len(), example.prediction.len()),
                (64 * 48 * 3, 64 * 48)
            );
        }
    }

    #[test]
    fn federated_averaging_learns_too() {
        let mut clients = [client(1, Place::Street), client(2, Place::Street)];
        let mut global = ToyDepth::initial_weights().unwrap();
        let mut scores = Vec::new();
        for round in 1..=4 {
            let mut trained = Vec::new();
            let mut score = 0.0;
            for toy in &mut clients {
                toy.load(&global).unwrap();
                score += toy.evaluate().unwrap().depth().unwrap().abs_rel / 2.0;
                toy.train(&plan(round)).unwrap();
                trained.push(toy.weights().unwrap());
            }
            scores.push(score);
            global = Weights::mean(&trained).unwrap();
        }
        assert!(scores[3] < 0.7 * scores[0], "{scores:?}");
    }

    #[test]
    fn plans_replay() {
        let run = |seed| {
            let mut toy = client(3, Place::Indoor);
            toy.train(&TrainPlan { seed, ..plan(1) }).unwrap();
            toy.weights().unwrap()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn the_private_offset_stays() {
        let mut toy = client(1, Place::Street);
        let base = toy.weights().unwrap();
        toy.train(&plan(1)).unwrap();
        let offset = toy.private().values()[0];
        assert!(offset.abs() > 1e-3, "{offset}");
        let trained = toy.weights().unwrap();
        for bytes in [trained.to_bytes(), trained.minus(&base).unwrap().to_bytes()] {
            assert!(!bytes.windows(4).any(|w| w == offset.to_le_bytes()));
        }
        toy.load(&base).unwrap();
        assert_eq!(toy.private().values(), [offset]);
        assert_eq!(toy.weights().unwrap(), base);
        assert_ne!(trained, base);
    }

    #[test]
    fn a_learning_rate_that_explodes_restores_the_start() {
        let mut toy = client(1, Place::Street);
        toy.train(&plan(1)).unwrap();
        let (before, offset) = (toy.weights().unwrap(), toy.private().values()[0]);
        let error = toy
            .train(&TrainPlan {
                learning_rate: 1e30,
                ..plan(7)
            })
            .unwrap_err();
        assert!(
            matches!(
                error,
                LearnError::NonFiniteLoss { round: 7, .. } | LearnError::Diverged { round: 7, .. }
            ),
            "{error}"
        );
        assert_eq!(toy.weights().unwrap(), before);
        assert_eq!(toy.private().values(), [offset]);
    }

    #[test]
    fn frames_without_depth_are_counted_and_nothing_is_an_error() {
        let good = client(1, Place::Street).data;
        let blank = |i: usize| {
            Frame::new(
                format!("blank/{i}"),
                64,
                48,
                vec![u8::try_from(i).unwrap(); 9216],
                vec![0.0; 3072],
            )
            .unwrap()
        };
        let make = |train: Vec<Frame>, test: Vec<Frame>| {
            ToyDepth::new(DepthDataset::new("c", (64, 48), good.range(), train, test).unwrap()).unwrap()
        };
        let mut mixed = good.train()[..3].to_vec();
        mixed.push(blank(0));
        let mut toy = make(mixed, vec![blank(1), good.test()[0].clone()]);
        assert_eq!(toy.train(&plan(1)).unwrap().skipped_frames, 4);
        assert_eq!(toy.evaluate().unwrap().images, 1);
        let mut none = make(vec![blank(0)], vec![blank(1)]);
        assert!(matches!(none.train(&plan(1)), Err(LearnError::NoTrainingData { client }) if client == "c"));
        assert!(matches!(
            none.evaluate(),
            Err(LearnError::Metrics(MetricsError::NoImages))
        ));
    }

    #[test]
    fn foreign_weights_and_small_pictures_are_refused() {
        let mut toy = client(1, Place::Street);
        let other = Layout::new(vec![TensorSpec::new("w", [204], TensorClass::Shared)]).unwrap();
        let foreign = Weights::new(&other, vec![0.0; 204]).unwrap();
        assert!(matches!(
            toy.load(&foreign),
            Err(LearnError::LayoutMismatch { .. })
        ));
        let frame = Frame::new("f", 8, 8, vec![0; 192], vec![1.0; 64]).unwrap();
        let small = DepthDataset::new("c", (8, 8), toy.data.range(), vec![frame], vec![]).unwrap();
        assert!(matches!(ToyDepth::new(small), Err(LearnError::Network { .. })));
    }
}
