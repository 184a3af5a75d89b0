//! One client's network, frames and optimiser.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use tch::nn::{self, OptimizerConfig, VarStore};
use tch::{Device, Kind, Tensor};

use crate::data::{DepthDataset, Frame};
use crate::descriptor::Features;
use crate::device::DeviceChoice;
use crate::error::LearnError;
use crate::layout::Layout;
use crate::learner::{DepthExample, Evaluation, Learner, TrainPlan, TrainReport};
use crate::metrics::{DepthMetrics, DepthRange};
use crate::shuffle::shuffle;
use crate::tensor::PrivateTensor;
use crate::torch::adabins::{AdaBins, AdaBinsConfig, normalise};
use crate::torch::device::resolve;
use crate::torch::initial::draw;
use crate::torch::loss::{Silog, chamfer, silog};
use crate::torch::store::{Snapshot, Store};
use crate::weights::Weights;

/// How a client trains.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthLearnerConfig {
    /// The network.
    pub network: AdaBinsConfig,
    /// Where it runs.
    pub device: DeviceChoice,
    /// CPU threads libtorch may use. Holds for the whole process; `None` leaves libtorch's own choice. One thread a
    /// client is fastest when several clients share a machine.
    pub threads: Option<u32>,
    /// Weight decay of the optimiser (published: 0.1).
    pub weight_decay: f64,
    /// Decay of the optimiser's squared-gradient mean (published: 0.999).
    pub beta2: f64,
    /// Keep the optimiser's moments from round to round, although the average replaces the weights they belong to. With a dozen
    /// steps a round they are the better estimate: a fresh start moves every weight by the full rate at first. After a
    /// failed round they start afresh in any case.
    pub keep_moments: bool,
    /// Largest Euclidean length of a step's gradient (published: 0.1).
    pub clip_norm: f64,
    /// Weight of the bin-centre loss (published: 0.1).
    pub chamfer: f64,
    /// Form of the scale-invariant log loss.
    pub silog: Silog,
    /// Mirror half of the training frames, drawn from the plan's seed.
    pub mirror: bool,
    /// Beginnings of the names of tensors that stay, such as `bins.` for a head of the client's own.
    pub private: Vec<String>,
}

impl DepthLearnerConfig {
    /// The tiny network on one thread.
    #[must_use]
    pub fn tiny(range: DepthRange) -> Self {
        Self {
            network: AdaBinsConfig::tiny(range),
            device: DeviceChoice::Cpu,
            threads: Some(1),
            weight_decay: 0.01,
            beta2: 0.99,
            keep_moments: true,
            clip_norm: 5.0,
            chamfer: 0.02,
            silog: Silog::Unbiased,
            mirror: true,
            private: Vec::new(),
        }
    }
}

/// A client that trains a depth network with `AdamW`.
///
/// Within a round the learning rate rises over the first fifth of the steps and then falls along a cosine to a tenth of
/// [`TrainPlan::learning_rate`].
pub struct DepthLearner {
    config: DepthLearnerConfig,
    network: AdaBins,
    store: Store,
    data: DepthDataset,
    optimiser: Option<nn::Optimizer>,
}

impl DepthLearner {
    /// A client at the start that `seed` gives. All clients of a federation pass the same configuration and seed.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] if the frames do not fit the network's input or its range, or for an unusable
    /// configuration; [`LearnError::Device`] if the device is absent.
    pub fn new(config: DepthLearnerConfig, seed: u64, data: DepthDataset) -> Result<Self, LearnError> {
        let net = &config.network;
        let wrong = |what: String| Err(LearnError::Network { what });
        if (data.width(), data.height()) != (net.width, net.height) {
            return wrong(format!(
                "frames of client '{}' are {}x{} but the network takes {}x{}: read them at that size",
                data.name(),
                data.width(),
                data.height(),
                net.width,
                net.height
            ));
        }
        if data.range().cap_m > net.range.cap_m || data.range().min_m < net.range.min_m {
            return wrong(format!(
                "depths of client '{}' run from {} m to {} m but the network says {} m to {} m: widen network.range or narrow the client's",
                data.name(),
                data.range().min_m,
                data.range().cap_m,
                net.range.min_m,
                net.range.cap_m
            ));
        }
        if let Some(threads) = config.threads {
            tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(1));
        }
        keep_freed_memory();
        let (network, store) = build(&config, seed)?;
        Ok(Self {
            config,
            network,
            store,
            data,
            optimiser: None,
        })
    }

    /// The weights every client starts from: what a server publishes before the first round.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] for an unusable configuration.
    pub fn initial_weights(config: &DepthLearnerConfig, seed: u64) -> Result<Weights, LearnError> {
        let config = DepthLearnerConfig {
            device: DeviceChoice::Cpu,
            ..config.clone()
        };
        build(&config, seed)?.1.weights()
    }

    /// The client's frames.
    #[must_use]
    pub fn data(&self) -> &DepthDataset {
        &self.data
    }

    /// The tensors that stay.
    ///
    /// # Errors
    ///
    /// [`LearnError::Torch`] if libtorch cannot hand them over.
    pub fn private(&self) -> Result<Vec<PrivateTensor>, LearnError> {
        self.store.private()
    }

    /// Predicted depth of one frame at its own size, metres, row-major.
    ///
    /// # Errors
    ///
    /// [`LearnError::Torch`] if libtorch cannot hand the prediction over.
    pub fn predict(&self, frame: &Frame) -> Result<Vec<f32>, LearnError> {
        let (pictures, _) = self.tensors(&[(frame, false)]);
        let (depth, _) = tch::no_grad(|| self.network.predict(&pictures, false));
        Ok(Vec::try_from(
            depth.to_device(Device::Cpu).contiguous().flatten(0, -1),
        )?)
    }

    fn run(
        &self,
        plan: &TrainPlan,
        optimiser: &mut nn::Optimizer,
        usable: &mut [&Frame],
        left_out: u32,
    ) -> Result<TrainReport, LearnError> {
        let mut rng = ChaCha20Rng::seed_from_u64(plan.seed ^ (u64::from(plan.round) << 32));
        let steps = plan.steps(usable.len());
        let mut report = TrainReport {
            steps,
            samples: 0,
            loss_first: 0.0,
            loss_last: 0.0,
            skipped_frames: 0,
        };
        let mut at = usable.len();
        for step in 0..steps {
            if at >= usable.len() {
                shuffle(usable, &mut rng);
                at = 0;
                report.skipped_frames += left_out;
            }
            let end = (at + plan.batch).min(usable.len());
            let batch: Vec<(&Frame, bool)> = usable
                .get(at..end)
                .unwrap_or_default()
                .iter()
                .map(|frame| (*frame, self.config.mirror && rng.next_u32() & 1 == 1))
                .collect();
            at = end;
            report.samples += u32::try_from(batch.len()).unwrap_or(u32::MAX);
            let (pictures, truth) = self.tensors(&batch);
            let (depth, centres) = self.network.predict(&pictures, true);
            // Every frame of the batch has valid depth, so neither loss is missing.
            let Some(loss) = self.loss(&depth, &centres, &truth) else {
                continue;
            };
            let value = loss.double_value(&[]);
            if !value.is_finite() {
                return Err(LearnError::NonFiniteLoss {
                    round: plan.round,
                    step,
                    loss: value,
                });
            }
            optimiser.set_lr(plan.learning_rate * rate_share(step, steps));
            optimiser.zero_grad();
            loss.f_backward()?;
            optimiser.clip_grad_norm(self.config.clip_norm);
            optimiser.step();
            if step == 0 {
                report.loss_first = value;
            }
            report.loss_last = value;
        }
        match self.store.find_non_finite()? {
            None => Ok(report),
            Some((tensor, index, value)) => Err(LearnError::Diverged {
                round: plan.round,
                tensor,
                index,
                value,
            }),
        }
    }

    fn loss(&self, depth: &Tensor, centres: &Tensor, truth: &Tensor) -> Option<Tensor> {
        let main = silog(depth, truth, self.config.silog)?;
        // A quarter of the rows and columns says as much about where depths lie, at a sixteenth of the cost.
        let sparse = truth.slice(2, None, None, 4).slice(3, None, None, 4);
        Some(match chamfer(centres, &sparse) {
            Some(bins) => main + bins * self.config.chamfer,
            None => main,
        })
    }

    /// Pictures `[B, 3, H, W]`, normalised, and depths `[B, 1, H, W]`; frames marked true are mirrored.
    fn tensors(&self, batch: &[(&Frame, bool)]) -> (Tensor, Tensor) {
        let (width, height) = (self.data.width(), self.data.height());
        let mut rgb: Vec<u8> = Vec::with_capacity(batch.len() * width * height * 3);
        let mut depth: Vec<f32> = Vec::with_capacity(batch.len() * width * height);
        for (frame, mirrored) in batch {
            let (pixels, _) = frame.rgb().as_chunks::<3>();
            for (colours, depths) in pixels.chunks(width).zip(frame.depth().chunks(width)) {
                if *mirrored {
                    rgb.extend(colours.iter().rev().flatten());
                    depth.extend(depths.iter().rev());
                } else {
                    rgb.extend(colours.iter().flatten());
                    depth.extend(depths);
                }
            }
        }
        let side = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let (count, height, width) = (side(batch.len()), side(height), side(width));
        let device = self.store.device();
        let bytes = Tensor::from_slice(&rgb)
            .view([count, height, width, 3])
            .to_device(device);
        let metres = Tensor::from_slice(&depth)
            .view([count, 1, height, width])
            .to_device(device);
        (normalise(&bytes), metres)
    }

    fn undo(&self, saved: &Snapshot, error: LearnError) -> LearnError {
        match self.store.restore(saved) {
            Ok(()) => error,
            Err(worse) => worse,
        }
    }
}

impl Learner for DepthLearner {
    fn features(&mut self, frame: u32) -> Result<Features, LearnError> {
        let picture = self
            .data
            .train()
            .get(frame as usize)
            .ok_or(LearnError::NoFrame { frame })?;
        let (pictures, _) = self.tensors(&[(picture, false)]);
        let map = tch::no_grad(|| self.network.features(&pictures)).ok_or(LearnError::NoEncoder)?;
        let (_, channels, height, width) = map.size4()?;
        let side = |n: i64| usize::try_from(n).unwrap_or_default();
        Ok(Features {
            height: side(height),
            width: side(width),
            channels: side(channels),
            values: Vec::try_from(
                map.permute([0, 2, 3, 1])
                    .to_device(Device::Cpu)
                    .contiguous()
                    .flatten(0, -1),
            )?,
        })
    }

    fn layout(&self) -> &Layout {
        self.store.layout()
    }

    fn weights(&self) -> Result<Weights, LearnError> {
        self.store.weights()
    }

    fn load(&mut self, weights: &Weights) -> Result<(), LearnError> {
        self.store.load(weights)
    }

    fn train(&mut self, plan: &TrainPlan) -> Result<TrainReport, LearnError> {
        plan.check()?;
        let mut usable: Vec<&Frame> = self
            .data
            .train()
            .iter()
            .filter(|f| f.known_pixels() > 0)
            .collect();
        if usable.is_empty() {
            return Err(LearnError::NoTrainingData {
                client: self.data.name().to_owned(),
            });
        }
        let left_out = u32::try_from(self.data.train().len() - usable.len()).unwrap_or(u32::MAX);
        let saved = self.store.snapshot();
        let mut optimiser = match self.optimiser.take() {
            Some(kept) if self.config.keep_moments => kept,
            _ => {
                let adam = nn::AdamW {
                    wd: self.config.weight_decay,
                    beta2: self.config.beta2,
                    ..nn::AdamW::default()
                };
                adam.build(self.store.vars(), plan.learning_rate)?
            }
        };
        match self.run(plan, &mut optimiser, &mut usable, left_out) {
            Ok(report) => {
                self.optimiser = Some(optimiser);
                Ok(report)
            }
            // The moments are spoilt too and dropped.
            Err(error) => Err(self.undo(&saved, error)),
        }
    }

    fn evaluate(&mut self) -> Result<Evaluation, LearnError> {
        let range = self.data.range();
        let mut scores = Vec::new();
        let mut losses = 0.0;
        let mut example = None;
        for frame in self.data.test() {
            let (pictures, truth) = self.tensors(&[(frame, false)]);
            let (depth, centres) = tch::no_grad(|| self.network.predict(&pictures, false));
            let Some(loss) = tch::no_grad(|| self.loss(&depth, &centres, &truth)) else {
                continue;
            };
            let prediction: Vec<f32> =
                Vec::try_from(depth.to_device(Device::Cpu).contiguous().flatten(0, -1))?;
            scores.push(DepthMetrics::of_image(frame.depth(), &prediction, range)?);
            losses += loss.to_kind(Kind::Double).double_value(&[]);
            example.get_or_insert_with(|| DepthExample {
                name: frame.name().to_owned(),
                width: frame.width(),
                height: frame.height(),
                rgb: frame.rgb().to_vec(),
                truth: frame.depth().to_vec(),
                prediction: prediction
                    .iter()
                    .map(|p| p.clamp(range.min_m, range.cap_m))
                    .collect(),
                cap_m: range.cap_m,
            });
        }
        let metrics = DepthMetrics::mean(&scores)?;
        let images = u32::try_from(scores.len()).unwrap_or(u32::MAX);
        Ok(Evaluation {
            images,
            metrics,
            loss: losses / f64::from(images),
            example,
        })
    }

    fn sample_count(&self) -> u32 {
        u32::try_from(self.data.train().len()).unwrap_or(u32::MAX)
    }
}

/// Lets the C library keep what a training step frees for the next one.
///
/// A step allocates and frees the same megabytes again and again. glibc gives blocks above a threshold back to the system
/// at once, and a sixth of a step then goes into fetching them anew; freeing one block of this size raises that threshold
/// to it for good. Elsewhere this does nothing. The block is never touched and so never backed by memory.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(31 << 20)));
}

/// Share of the learning rate at a step: a short rise, then a cosine down to a tenth.
///
/// Adam's first steps after a restart move every weight by the full rate whatever its gradient, and an average of
/// weights that were still moving fast is worse than its parts; both are damped.
fn rate_share(step: u32, steps: u32) -> f64 {
    let (done, all) = (f64::from(step), f64::from(steps.max(1)));
    let rise = ((done + 1.0) / (0.2 * all).max(1.0)).min(1.0);
    rise * (0.55 + 0.45 * (std::f64::consts::PI * done / all).cos())
}

fn build(config: &DepthLearnerConfig, seed: u64) -> Result<(AdaBins, Store), LearnError> {
    let vars = VarStore::new(resolve(config.device)?);
    let network = AdaBins::new(&vars.root(), &config.network)?;
    draw(&vars, seed)?;
    Ok((
        network,
        Store::new(vars, &AdaBinsConfig::SHARED, &config.private)?,
    ))
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests;
