//! A small network in plain Rust that can tell domains apart, for experiments without libtorch.
//!
//! Each cell of a picture ([`ToyDepth`](super::ToyDepth) says how it is cut) is looked at with what the whole picture is
//! like, by two hidden layers of 24 rectified units: 1,153 numbers, Adam on the squared error of ln depth. Unlike the
//! linear model it can say different depths for a like cell in a room and in a street, so that data of many domains
//! pooled is worth having.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use crate::correction::{Correction, LocalOptimiser};
use crate::data::DepthDataset;
use crate::descriptor::Features;
use crate::error::LearnError;
use crate::layout::{Layout, TensorClass, TensorSpec};
use crate::learner::{Evaluation, Learner, TrainPlan, TrainReport};
use crate::toy::adam::Adam;
use crate::toy::cells::{Cells, FEATURES};
use crate::toy::descent::{descend, diverged, usable};
use crate::toy::score::score;
use crate::toy::{ToyDepth, check_size};
use crate::weights::Weights;

/// The network with one client's frames.
pub struct Perceptron {
    layout: Layout,
    data: DepthDataset,
    train: Vec<Sample>,
    weights: Vec<f32>,
    adam: Adam,
}

struct Sample {
    inputs: Vec<[f32; INPUTS]>,
    logs: Vec<Option<f32>>,
}

impl Sample {
    fn of(cells: &Cells) -> Self {
        Self {
            inputs: inputs(cells),
            logs: cells.logs.clone(),
        }
    }
}

impl Perceptron {
    /// The network at its initial weights.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] if the pictures have fewer pixels than cells.
    pub fn new(seed: u64, data: DepthDataset) -> Result<Self, LearnError> {
        check_size(&data)?;
        let start = Self::initial_weights(seed)?;
        Ok(Self {
            layout: start.layout().clone(),
            train: data.train().iter().map(|f| Sample::of(&Cells::of(f))).collect(),
            data,
            weights: start.values().to_vec(),
            adam: Adam::new(start.values().len()),
        })
    }

    /// The network's layout, the same for every client.
    ///
    /// # Errors
    ///
    /// None in practice: the layout is fixed and valid.
    pub fn model_layout() -> Result<Layout, LearnError> {
        let of = |name: &str, shape: &[usize]| TensorSpec::new(name, shape, TensorClass::Shared);
        Ok(Layout::new(vec![
            of("first.weight", &[INPUTS, HIDDEN]),
            of("first.bias", &[HIDDEN]),
            of("second.weight", &[HIDDEN, HIDDEN]),
            of("second.bias", &[HIDDEN]),
            of("out.weight", &[HIDDEN]),
            of("out.bias", &[1]),
        ])?)
    }

    /// What every client starts from: weights uniform within ±√(6/inputs) (He et al. 2015), no bias but ln 10 m.
    ///
    /// # Errors
    ///
    /// None in practice, as [`Perceptron::model_layout`].
    #[expect(clippy::cast_precision_loss, reason = "layer widths, and 24 bits")]
    pub fn initial_weights(seed: u64) -> Result<Weights, LearnError> {
        let layout = Self::model_layout()?;
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut values = Vec::with_capacity(layout.upload_len());
        for spec in layout.uploaded() {
            let limit: f32 = match (spec.name.as_str(), spec.shape.first()) {
                ("first.weight", _) => (6.0 / INPUTS as f32).sqrt(),
                ("second.weight", _) => (6.0 / HIDDEN as f32).sqrt(),
                ("out.weight", _) => (1.0 / HIDDEN as f32).sqrt(),
                _ => 0.0,
            };
            let rest = if spec.name == "out.bias" { START_LOG_M } else { 0.0 };
            for _ in 0..spec.len() {
                let unit = (rng.next_u32() >> 8) as f32 / (1_u32 << 23) as f32 - 1.0;
                values.push(limit * unit + rest);
            }
        }
        Weights::new(&layout, values)
    }

    fn parts(values: &[f32]) -> Option<Parts<'_>> {
        let (first, rest) = values.split_at_checked(INPUTS * HIDDEN)?;
        let (first_bias, rest) = rest.split_first_chunk::<HIDDEN>()?;
        let (second, rest) = rest.split_at_checked(HIDDEN * HIDDEN)?;
        let (second_bias, rest) = rest.split_first_chunk::<HIDDEN>()?;
        let (out, rest) = rest.split_first_chunk::<HIDDEN>()?;
        Some(Parts {
            first: first.as_chunks().0,
            first_bias,
            second: second.as_chunks().0,
            second_bias,
            out,
            out_bias: *rest.first()?,
        })
    }

    fn predict(&self, cells: &Cells) -> Vec<f32> {
        let Some(parts) = Self::parts(&self.weights) else {
            return Vec::new();
        };
        inputs(cells).iter().map(|x| parts.forward(x).2).collect()
    }

    /// Adds a sample's gradient; its summed squared error and number of cells with depth.
    fn backward(parts: &Parts<'_>, sample: &Sample, gradient: &mut [f32]) -> Option<(f64, u32)> {
        let (first, rest) = gradient.split_at_mut_checked(INPUTS * HIDDEN)?;
        let (first_bias, rest) = rest.split_first_chunk_mut::<HIDDEN>()?;
        let (second, rest) = rest.split_at_mut_checked(HIDDEN * HIDDEN)?;
        let (second_bias, rest) = rest.split_first_chunk_mut::<HIDDEN>()?;
        let (out, rest) = rest.split_first_chunk_mut::<HIDDEN>()?;
        let out_bias = rest.first_mut()?;
        let first = first.as_chunks_mut::<HIDDEN>().0;
        let second = second.as_chunks_mut::<HIDDEN>().0;
        let (mut square, mut count) = (0.0, 0);
        for (x, truth) in sample.inputs.iter().zip(&sample.logs) {
            let Some(truth) = truth else { continue };
            let (h1, h2, p) = parts.forward(x);
            let error = p - truth;
            square += f64::from(error) * f64::from(error);
            count += 1;
            *out_bias += error;
            let mut d2 = [0.0; HIDDEN];
            for (((d, g), h), w) in d2.iter_mut().zip(&mut *out).zip(&h2).zip(parts.out) {
                *g += error * h;
                *d = if *h > 0.0 { error * w } else { 0.0 };
            }
            let mut d1 = [0.0; HIDDEN];
            for (((d, h), row), w) in d1.iter_mut().zip(&h1).zip(&mut *second).zip(parts.second) {
                if *h <= 0.0 {
                    continue;
                }
                for ((g, d2), w) in row.iter_mut().zip(&d2).zip(w) {
                    *g += h * d2;
                    *d += w * d2;
                }
            }
            plus(second_bias, &d2);
            plus(first_bias, &d1);
            for (x, row) in x.iter().zip(&mut *first) {
                for (g, d1) in row.iter_mut().zip(&d1) {
                    *g += x * d1;
                }
            }
        }
        Some((square, count))
    }

    /// One step; the mean squared error before it, or `None` if no cell of the batch has depth.
    fn step(
        &mut self,
        batch: &[usize],
        gradient: &mut [f32],
        rate: f32,
        correction: Option<&Correction>,
    ) -> Option<f64> {
        gradient.fill(0.0);
        let (mut square, mut count) = (0.0, 0);
        let parts = Self::parts(&self.weights)?;
        for sample in batch.iter().filter_map(|index| self.train.get(*index)) {
            let (more, cells) = Self::backward(&parts, sample, gradient)?;
            square += more;
            count += cells;
        }
        if count == 0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "cells of a batch")]
        let cells = count as f32;
        for g in &mut *gradient {
            *g /= cells;
        }
        if let Some(correction) = correction {
            correct(correction, gradient, &self.weights);
        }
        match correction.map(Correction::optimiser) {
            Some(LocalOptimiser::Sgd) => {
                for (w, g) in self.weights.iter_mut().zip(&*gradient) {
                    *w -= rate * g;
                }
            }
            Some(LocalOptimiser::Own) | None => self.adam.step(&mut self.weights, gradient, rate),
        }
        Some(square / f64::from(count))
    }

    fn train_with(
        &mut self,
        plan: &TrainPlan,
        correction: Option<&Correction>,
    ) -> Result<TrainReport, LearnError> {
        plan.check()?;
        let has_depth = |sample: &Sample| sample.logs.iter().any(Option::is_some);
        let mut usable = usable(self.data.name(), self.train.iter().map(has_depth))?;
        let without = u32::try_from(self.train.len() - usable.len()).unwrap_or(u32::MAX);
        let saved = self.weights.clone();
        #[expect(clippy::cast_possible_truncation, reason = "a rate needs no double precision")]
        let rate = plan.learning_rate as f32;
        let mut gradient = vec![0.0; self.weights.len()];
        let outcome = descend(plan, &mut usable, |batch| {
            self.step(batch, &mut gradient, rate, correction)
        });
        let outcome = outcome.and_then(|(report, passes)| {
            self.weights().map_err(|error| diverged(plan.round, error))?;
            Ok(TrainReport {
                skipped_frames: passes * without,
                ..report
            })
        });
        if outcome.is_err() {
            self.weights = saved;
            self.adam = Adam::new(self.weights.len());
        }
        outcome
    }
}

impl Learner for Perceptron {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn weights(&self) -> Result<Weights, LearnError> {
        Weights::new(&self.layout, self.weights.clone())
    }

    fn load(&mut self, weights: &Weights) -> Result<(), LearnError> {
        weights.check(&self.layout)?;
        self.weights.copy_from_slice(weights.values());
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
        score(&self.data, |cells| self.predict(cells))
    }

    /// The second hidden layer of each cell.
    fn features(&mut self, frame: u32) -> Result<Features, LearnError> {
        let sample = self
            .train
            .get(frame as usize)
            .ok_or(LearnError::NoFrame { frame })?;
        let parts = Self::parts(&self.weights).ok_or(LearnError::NoEncoder)?;
        Ok(Features {
            height: ToyDepth::ROWS,
            width: ToyDepth::COLUMNS,
            channels: HIDDEN,
            values: sample.inputs.iter().flat_map(|x| parts.forward(x).1).collect(),
        })
    }

    fn sample_count(&self) -> u32 {
        u32::try_from(self.data.train().len()).unwrap_or(u32::MAX)
    }
}

/// The network's tensors.
struct Parts<'a> {
    first: &'a [[f32; HIDDEN]],
    first_bias: &'a [f32; HIDDEN],
    second: &'a [[f32; HIDDEN]],
    second_bias: &'a [f32; HIDDEN],
    out: &'a [f32; HIDDEN],
    out_bias: f32,
}

impl Parts<'_> {
    /// Both hidden layers and the ln depth.
    fn forward(&self, x: &[f32; INPUTS]) -> ([f32; HIDDEN], [f32; HIDDEN], f32) {
        let h1 = layer(x, self.first, self.first_bias);
        let h2 = layer(&h1, self.second, self.second_bias);
        let p = h2.iter().zip(self.out).map(|(h, w)| h * w).sum::<f32>() + self.out_bias;
        (h1, h2, p)
    }
}

fn layer(x: &[f32], weight: &[[f32; HIDDEN]], bias: &[f32; HIDDEN]) -> [f32; HIDDEN] {
    let mut h = *bias;
    for (x, row) in x.iter().zip(weight) {
        for (h, w) in h.iter_mut().zip(row) {
            *h += x * w;
        }
    }
    h.map(|h| h.max(0.0))
}

fn plus(sum: &mut [f32; HIDDEN], more: &[f32; HIDDEN]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

/// What the network sees of each cell: its own features, where it is, and mean and spread of the picture's.
fn inputs(cells: &Cells) -> Vec<[f32; INPUTS]> {
    #[expect(clippy::cast_precision_loss, reason = "a few hundred cells")]
    let count = cells.features.len().max(1) as f32;
    let mut mean = [0.0_f32; FEATURES];
    let mut square = [0.0_f32; FEATURES];
    for features in &cells.features {
        for ((m, s), f) in mean.iter_mut().zip(&mut square).zip(features) {
            *m += f / count;
            *s += f * f / count;
        }
    }
    let spread = mean.iter().zip(&square).map(|(m, s)| (s - m * m).max(0.0).sqrt());
    let picture: Vec<f32> = mean.iter().copied().chain(spread).collect();
    cells
        .features
        .iter()
        .enumerate()
        .map(|(cell, own)| {
            #[expect(clippy::cast_precision_loss, reason = "a few hundred cells")]
            let (row, column) = (
                2.0 * (cell / ToyDepth::COLUMNS) as f32 / (ToyDepth::ROWS - 1) as f32 - 1.0,
                2.0 * (cell % ToyDepth::COLUMNS) as f32 / (ToyDepth::COLUMNS - 1) as f32 - 1.0,
            );
            let mut x = [0.0; INPUTS];
            let values = own
                .iter()
                .copied()
                .chain([row, column, column.abs()])
                .chain(picture.iter().copied());
            for (x, value) in x.iter_mut().zip(values) {
                *x = value;
            }
            x
        })
        .collect()
}

/// Adds a correction to the gradient of all tensors, which lie one after another.
fn correct(correction: &Correction, gradient: &mut [f32], weights: &[f32]) {
    let proximal = correction.proximal();
    let parts = correction
        .tensors()
        .flat_map(|(_, linear, anchor)| linear.iter().zip(anchor));
    for ((g, w), (linear, anchor)) in gradient.iter_mut().zip(weights).zip(parts) {
        *g += linear + proximal * (w - anchor);
    }
}

const HIDDEN: usize = 24;
const INPUTS: usize = 3 * FEATURES + 3;
/// ln 10 m.
const START_LOG_M: f32 = std::f32::consts::LN_10;

#[cfg(test)]
mod tests;
