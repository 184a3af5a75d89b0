//! One client's network, frames and optimiser.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use tch::nn::{self, OptimizerConfig, VarStore};
use tch::{Device, Kind, Tensor};

use crate::correction::{Correction, LocalOptimiser};
use crate::data::{DepthDataset, Frame};
use crate::descriptor::Features;
use crate::device::DeviceChoice;
use crate::error::LearnError;
use crate::layout::Layout;
use crate::learner::{DepthExample, Evaluation, Example, Learner, Scores, TrainPlan, TrainReport};
use crate::metrics::{DepthMetrics, DepthRange};
use crate::schedule::Schedule;
use crate::shuffle::shuffle;
use crate::tensor::PrivateTensor;
use crate::torch::adabins::normalise;
use crate::torch::augment::{Augment, Colours, FlipTest, Part};
use crate::torch::correct::Corrected;
use crate::torch::device::resolve;
use crate::torch::network::{
    DepthNetwork, ENCODER_GROUP, NetworkConfig, NetworkKind, NetworkSize, Prediction, SHARED,
};
use crate::torch::objective::Objective;
use crate::torch::pass::Pass;
use crate::torch::pretrained::Pretrained;
use crate::torch::store::{Snapshot, Store};
use crate::weights::Weights;

/// How a client trains.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthLearnerConfig {
    /// The network.
    pub network: NetworkConfig,
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
    /// Largest Euclidean length of a step's gradient (published: AdaBins 0.1, DCDepth 1); `None` never shortens one, as
    /// published for NeWCRFs.
    pub clip_norm: Option<f64>,
    /// How the learning rate moves within a plan.
    pub schedule: Schedule,
    /// The encoder's learning rate as a share of the rest's (published for DCDepth: 0.25).
    pub encoder_rate: f64,
    /// What training minimises.
    pub objective: Objective,
    /// Random changes to training frames, drawn from the plan's seed.
    pub augment: Augment,
    /// Whether scoring averages with the mirrored picture.
    pub flip_test: FlipTest,
    /// Weights of the encoder or the whole network to begin with, from a file.
    pub pretrained: Option<Pretrained>,
    /// Beginnings of the names of tensors that stay, such as `bins.` for a head of the client's own.
    pub private: Vec<String>,
}

impl DepthLearnerConfig {
    /// One of the six ready-made networks. Tiny ones train on one thread, with settings for short rounds; published
    /// ones with what their papers' code has for NYU, which means one plan for the whole training.
    #[must_use]
    pub fn new(kind: NetworkKind, size: NetworkSize, range: DepthRange) -> Self {
        let base = Self {
            network: NetworkConfig::new(kind, size, range),
            device: DeviceChoice::Cpu,
            threads: Some(1),
            weight_decay: 0.01,
            beta2: 0.99,
            keep_moments: true,
            clip_norm: Some(5.0),
            schedule: Schedule::Round,
            encoder_rate: 1.0,
            objective: Objective::new(kind, size),
            augment: Augment::MIRROR,
            flip_test: FlipTest::Off,
            pretrained: None,
            private: Vec::new(),
        };
        if size == NetworkSize::Tiny {
            return base;
        }
        let base = Self {
            threads: None,
            weight_decay: 0.0,
            beta2: 0.999,
            flip_test: FlipTest::Ramps,
            augment: Augment {
                colours: Some(Colours::NYU),
                ..Augment::MIRROR
            },
            ..base
        };
        match kind {
            NetworkKind::AdaBins => Self {
                weight_decay: 0.1,
                clip_norm: Some(0.1),
                schedule: Schedule::ADABINS,
                flip_test: FlipTest::Mean,
                augment: Augment {
                    rotate_deg: 2.5,
                    ..base.augment
                },
                ..base
            },
            NetworkKind::NewCrfs => Self {
                clip_norm: None,
                schedule: Schedule::NEWCRFS,
                augment: Augment {
                    known: Some(Part::NYU),
                    ..base.augment
                },
                ..base
            },
            NetworkKind::DcDepth => Self {
                clip_norm: Some(1.0),
                schedule: Schedule::DCDEPTH,
                encoder_rate: 0.25,
                ..base
            },
        }
    }

    /// The tiny AdaBins on one thread.
    #[must_use]
    pub fn tiny(range: DepthRange) -> Self {
        Self::new(NetworkKind::AdaBins, NetworkSize::Tiny, range)
    }
}

/// A client that trains a depth network with `AdamW`.
pub struct DepthLearner {
    config: DepthLearnerConfig,
    network: Box<dyn DepthNetwork>,
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
        let (width, height) = config.network.picture();
        let range = config.network.range();
        let wrong = |what: String| Err(LearnError::Network { what });
        if (data.width(), data.height()) != (width, height) {
            return wrong(format!(
                "frames of client '{}' are {}x{} but the network takes {}x{}: read them at that size",
                data.name(),
                data.width(),
                data.height(),
                width,
                height
            ));
        }
        if data.range().cap_m > range.cap_m || data.range().min_m < range.min_m {
            return wrong(format!(
                "depths of client '{}' run from {} m to {} m but the network says {} m to {} m: widen network.range or narrow the client's",
                data.name(),
                data.range().min_m,
                data.range().cap_m,
                range.min_m,
                range.cap_m
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
        let (bytes, _) = self.tensors(&[(frame, false)]);
        let (_, depth) = self.score(&normalise(&bytes));
        Ok(Vec::try_from(
            depth.to_device(Device::Cpu).contiguous().flatten(0, -1),
        )?)
    }

    /// A prediction and its depth `[B, 1, H, W]`, averaged with the mirrored picture's if asked for.
    fn score(&self, pictures: &Tensor) -> (Prediction, Tensor) {
        tch::no_grad(|| {
            let straight = self.network.forward(pictures, &mut Pass::evaluate());
            let depth = match self.config.flip_test {
                FlipTest::Off => straight.depth().shallow_clone(),
                flip => {
                    let mirrored = self.network.forward(&pictures.flip([3]), &mut Pass::evaluate());
                    flip.join(straight.depth(), mirrored.depth())
                }
            };
            (straight, depth)
        })
    }

    fn run(
        &self,
        plan: &TrainPlan,
        optimiser: &mut nn::Optimizer,
        usable: &mut [&Frame],
        left_out: u32,
        correction: Option<&Correction>,
    ) -> Result<TrainReport, LearnError> {
        let corrected = correction
            .map(|given| Corrected::new(&self.store, given))
            .transpose()?;
        let descent = correction.is_some_and(|given| given.optimiser() == LocalOptimiser::Sgd);
        let mut rng = ChaCha20Rng::seed_from_u64(plan.seed ^ (u64::from(plan.round) << 32));
        let mut changes = ChaCha20Rng::seed_from_u64(rng_seed(plan, CHANGES));
        let mut pass = Pass::train(rng_seed(plan, OMISSIONS));
        let steps = plan.steps(usable.len());
        let mut report = TrainReport {
            steps,
            samples: 0,
            loss_first: 0.0,
            loss_last: 0.0,
            skipped_frames: 0,
        };
        let mut first = None;
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
                .map(|frame| (*frame, self.config.augment.mirror && rng.next_u32() & 1 == 1))
                .collect();
            at = end;
            let (bytes, depth) = self.tensors(&batch);
            let (pictures, truth) = self.augmented(&bytes, depth, &mut changes);
            let prediction = self.network.forward(&pictures, &mut pass);
            let used = u32::try_from(batch.len()).unwrap_or(u32::MAX);
            // Turning a frame may have moved its only known pixels out of it.
            let Some(loss) = self.config.objective.of(&prediction, &pictures, &truth) else {
                report.skipped_frames += used;
                report.steps -= 1;
                continue;
            };
            report.samples += used;
            let value = loss.double_value(&[]);
            if !value.is_finite() {
                return Err(LearnError::NonFiniteLoss {
                    round: plan.round,
                    step,
                    loss: value,
                });
            }
            if !descent {
                let rate = plan.learning_rate * self.config.schedule.rate(step, steps);
                optimiser.set_lr(rate);
                optimiser.set_lr_group(ENCODER_GROUP, rate * self.config.encoder_rate);
                if let Some(momentum) = self.config.schedule.momentum(step, steps) {
                    optimiser.set_momentum(momentum);
                }
            }
            optimiser.zero_grad();
            loss.f_backward()?;
            if let Some(length) = self.config.clip_norm {
                optimiser.clip_grad_norm(length);
            }
            if let Some(corrected) = &corrected {
                corrected.add()?;
            }
            optimiser.step();
            first.get_or_insert(value);
            report.loss_last = value;
        }
        let Some(loss_first) = first else {
            return Err(LearnError::NoTrainingData {
                client: self.data.name().to_owned(),
            });
        };
        report.loss_first = loss_first;
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

    fn augmented(&self, bytes: &Tensor, depth: Tensor, rng: &mut ChaCha20Rng) -> (Tensor, Tensor) {
        let augment = &self.config.augment;
        if augment.rotate_deg <= 0.0 && augment.colours.is_none() && augment.known.is_none() {
            return (normalise(bytes), depth);
        }
        let pictures = bytes.permute([0, 3, 1, 2]).to_kind(Kind::Float);
        let (pictures, depth) = augment.apply(pictures, depth, rng);
        (normalise(&pictures.permute([0, 2, 3, 1])), depth)
    }

    /// Whether a frame has a depth that training counts.
    fn is_usable(&self, frame: &Frame) -> bool {
        let (width, height) = (frame.width(), frame.height());
        let above = self.config.objective.above_m.max(0.0);
        frame.depth().iter().enumerate().any(|(at, depth)| {
            let inside = |part: &Part| part.holds(at / width.max(1), at % width.max(1), height, width);
            *depth > above && self.config.augment.known.as_ref().is_none_or(inside)
        })
    }

    /// Bytes `[B, H, W, 3]` and depths `[B, 1, H, W]`; frames marked true are mirrored.
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
        (bytes, metres)
    }

    fn undo(&self, saved: &Snapshot, error: LearnError) -> LearnError {
        match self.store.restore(saved) {
            Ok(()) => error,
            Err(worse) => worse,
        }
    }

    fn train_with(
        &mut self,
        plan: &TrainPlan,
        correction: Option<&Correction>,
    ) -> Result<TrainReport, LearnError> {
        plan.check()?;
        let mut usable: Vec<&Frame> = self.data.train().iter().filter(|f| self.is_usable(f)).collect();
        if usable.is_empty() {
            return Err(LearnError::NoTrainingData {
                client: self.data.name().to_owned(),
            });
        }
        let left_out = u32::try_from(self.data.train().len() - usable.len()).unwrap_or(u32::MAX);
        let saved = self.store.snapshot();
        let descent = correction.is_some_and(|given| given.optimiser() == LocalOptimiser::Sgd);
        let mut optimiser = match self.optimiser.take() {
            Some(kept) if self.config.keep_moments && !descent => kept,
            _ if descent => nn::Sgd::default().build(self.store.vars(), plan.learning_rate)?,
            _ => {
                let adam = nn::AdamW {
                    wd: self.config.weight_decay,
                    beta2: self.config.beta2,
                    ..nn::AdamW::default()
                };
                adam.build(self.store.vars(), plan.learning_rate)?
            }
        };
        match self.run(plan, &mut optimiser, &mut usable, left_out, correction) {
            Ok(report) => {
                // Plain descent has nothing to keep.
                self.optimiser = Some(optimiser).filter(|_| !descent);
                Ok(report)
            }
            // The moments are spoilt too and dropped.
            Err(error) => Err(self.undo(&saved, error)),
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
        let (bytes, _) = self.tensors(&[(picture, false)]);
        let map = tch::no_grad(|| self.network.features(&normalise(&bytes))).ok_or(LearnError::NoEncoder)?;
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
        self.train_with(plan, None)
    }

    fn train_corrected(
        &mut self,
        plan: &TrainPlan,
        correction: &Correction,
    ) -> Result<TrainReport, LearnError> {
        self.train_with(plan, Some(correction))
    }

    fn evaluate(&mut self) -> Result<Evaluation, LearnError> {
        let range = self.data.range();
        let mut scores = Vec::new();
        let mut losses = 0.0;
        let mut example = None;
        for frame in self.data.test() {
            let (bytes, truth) = self.tensors(&[(frame, false)]);
            let pictures = normalise(&bytes);
            let (prediction, depth) = self.score(&pictures);
            let Some(loss) = tch::no_grad(|| self.config.objective.of(&prediction, &pictures, &truth)) else {
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
            scores: Scores::Depth(metrics),
            loss: losses / f64::from(images),
            example: example.map(Example::Depth),
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
pub(crate) fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(31 << 20)));
}

/// Odd constants that keep the streams of a plan's randomness apart.
const CHANGES: u64 = 0x9e37_79b9_7f4a_7c15;
const OMISSIONS: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// A seed of its own for each use of a plan's randomness.
fn rng_seed(plan: &TrainPlan, purpose: u64) -> u64 {
    plan.seed ^ (u64::from(plan.round) << 32) ^ purpose
}

fn build(config: &DepthLearnerConfig, seed: u64) -> Result<(Box<dyn DepthNetwork>, Store), LearnError> {
    let vars = VarStore::new(resolve(config.device)?);
    let network = config.network.build(&vars.root())?;
    config.network.draw(&vars, seed)?;
    if let Some(pretrained) = &config.pretrained {
        pretrained.load(&vars, config.network.kind())?;
    }
    Ok((network, Store::new(vars, &SHARED, &config.private)?))
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests;
