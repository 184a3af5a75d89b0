//! One client's network, cameras, frames and optimiser.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use tch::nn::{self, OptimizerConfig};
use tch::{Device, Kind, Tensor};

use crate::bev::{Amcm, BevMetrics, FrameCounts, Masks, PersonalPart, Rig, Schedule};
use crate::data::bev::{BevDataset, BevFrame};
use crate::device::DeviceChoice;
use crate::error::LearnError;
use crate::layout::Layout;
use crate::learner::{BevExample, Evaluation, Example, Learner, Scores, TrainPlan, TrainReport};
use crate::private::PrivateState;
use crate::shuffle::shuffle;
use crate::tensor::PrivateTensor;
use crate::torch::bevt::loss::{IGNORED, weighted_cross_entropy};
use crate::torch::bevt::{Bevt, BevtConfig, Built, Views, build, normalise};
use crate::torch::block::size;
use crate::torch::device::resolve;
use crate::torch::learner::keep_freed_memory;
use crate::torch::store::{Snapshot, Store};
use crate::weights::Weights;

/// Where the tensors that a client keeps start from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrivateStart {
    /// The federation's seed, as all others: every client starts alike. Shared attention is averaged over clients and
    /// needs a common basis for the position code in the first rounds.
    #[default]
    Common,
    /// This client's own seed, as the published code in effect does. For comparison.
    Separate(u64),
}

/// Which tensors a local step changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalTraining {
    /// All, with one optimiser and one rate, as published.
    #[default]
    Joint,
    /// By turns: those that stay in even steps, those that travel in odd ones.
    Alternating,
}

/// The learning rate within and between rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// [`TrainPlan::learning_rate`] each round, with a short rise and a cosine inside it.
    #[default]
    Plan,
    /// The schedule's shape over the whole training, scaled so that its peak is [`TrainPlan::learning_rate`].
    Schedule(Schedule),
}

/// How a client trains.
#[derive(Clone, Debug, PartialEq)]
pub struct BevLearnerConfig {
    /// The network.
    pub network: BevtConfig,
    /// Where it runs.
    pub device: DeviceChoice,
    /// CPU threads libtorch may use. Holds for the whole process; `None` leaves libtorch's own choice.
    pub threads: Option<u32>,
    /// How absent cameras are dealt with.
    pub amcm: Amcm,
    /// What the client keeps.
    pub personal: PersonalPart,
    /// Where that starts from.
    pub private_start: PrivateStart,
    /// Which tensors a step changes.
    pub local: LocalTraining,
    /// The learning rate.
    pub rate: Rate,
    /// Weight decay (published: 0.01).
    pub weight_decay: f64,
    /// Added to the root of Adam's second moment (published: 1e-10).
    pub epsilon: f64,
    /// Decay of the optimiser's squared-gradient mean (published: 0.999).
    pub beta2: f64,
    /// Largest Euclidean length of a step's gradient (published: none).
    pub clip_norm: Option<f64>,
    /// Keep the optimiser's moments from round to round, as published, although the average replaces the weights they
    /// belong to. After a failed round they start afresh in any case.
    pub keep_moments: bool,
    /// Weight of a vehicle's cell in the loss; background has 1 (published: 75).
    pub vehicle_weight: f64,
}

impl BevLearnerConfig {
    /// The published network and training.
    #[must_use]
    pub fn published(personal: PersonalPart) -> Self {
        Self {
            network: BevtConfig::published(),
            device: DeviceChoice::Auto,
            threads: None,
            amcm: Amcm::Fov,
            personal,
            private_start: PrivateStart::Common,
            local: LocalTraining::Joint,
            rate: Rate::Schedule(Schedule::PUBLISHED),
            weight_decay: 0.01,
            epsilon: 1e-10,
            beta2: 0.999,
            clip_norm: None,
            keep_moments: true,
            vehicle_weight: 75.0,
        }
    }

    /// A small network on one thread, for a grid of metre-sized cells.
    #[must_use]
    pub fn tiny(network: BevtConfig, personal: PersonalPart) -> Self {
        Self {
            network,
            device: DeviceChoice::Cpu,
            threads: Some(1),
            rate: Rate::Plan,
            epsilon: 1e-8,
            beta2: 0.99,
            clip_norm: Some(5.0),
            vehicle_weight: 6.0,
            ..Self::published(personal)
        }
    }
}

/// A client that trains a bird's-eye-view network with `AdamW`.
pub struct BevLearner {
    config: BevLearnerConfig,
    network: Bevt,
    store: Store,
    data: BevDataset,
    masks: Masks,
    views: Views,
    /// Black cameras after the real ones.
    absent: usize,
    optimiser: Option<nn::Optimizer>,
}

impl BevLearner {
    /// A client at the start that `seed` gives. All clients of a federation pass the same network and seed; cameras may
    /// differ in number and place.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] if the frames do not fit the network's input or grid, or for an unusable configuration;
    /// [`LearnError::Device`] if the device is absent.
    pub fn new(config: BevLearnerConfig, seed: u64, data: BevDataset) -> Result<Self, LearnError> {
        let net = &config.network;
        let wrong = |what: String| Err(LearnError::Network { what });
        if data.picture_size() != (net.width, net.height) {
            let (width, height) = data.picture_size();
            return wrong(format!(
                "pictures of client '{}' are {width}x{height} but the network takes {}x{}: read them at that size",
                data.name(),
                net.width,
                net.height
            ));
        }
        if data.grid() != net.grid {
            return wrong(format!(
                "labels of client '{}' have {} cells over {} m but the network's grid {} over {} m: set the grid of both alike",
                data.name(),
                data.grid().cells,
                data.grid().metres,
                net.grid.cells,
                net.grid.metres
            ));
        }
        if !(config.vehicle_weight.is_finite() && config.vehicle_weight > 0.0) {
            return wrong("vehicle_weight must be a positive number".to_owned());
        }
        if let Some(threads) = config.threads {
            tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(1));
        }
        keep_freed_memory();
        let device = resolve(config.device)?;
        let own = match config.private_start {
            PrivateStart::Common => None,
            PrivateStart::Separate(own) => Some(own),
        };
        let Built { network, store } = build(net, config.personal, device, seed, own)?;
        let (rig, absent) = rig(config.amcm, data.rig());
        let masks = Masks::new(config.amcm, &rig, net.grid, &net.query_sides())?;
        let views = Views::new(net, &rig, &masks, device);
        Ok(Self {
            config,
            network,
            store,
            data,
            masks,
            views,
            absent,
            optimiser: None,
        })
    }

    /// The weights every client starts from: what a server publishes before the first round.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] for an unusable configuration.
    pub fn initial_weights(config: &BevLearnerConfig, seed: u64) -> Result<Weights, LearnError> {
        build(&config.network, config.personal, Device::Cpu, seed, None)?
            .store
            .weights()
    }

    /// The client's frames.
    #[must_use]
    pub fn data(&self) -> &BevDataset {
        &self.data
    }

    /// Which cells count for this client's cameras.
    #[must_use]
    pub fn masks(&self) -> &Masks {
        &self.masks
    }

    /// The tensors that stay.
    ///
    /// # Errors
    ///
    /// [`LearnError::Torch`] if libtorch cannot hand them over.
    pub fn private(&self) -> Result<Vec<PrivateTensor>, LearnError> {
        self.store.private()
    }

    /// The tensors that stay, for the client's own encrypted checkpoint.
    ///
    /// # Errors
    ///
    /// [`LearnError::NonFinite`] if a number is not finite.
    pub fn save_private(&self) -> Result<PrivateState, LearnError> {
        PrivateState::pack(self.store.layout(), &self.store.private()?)
    }

    /// Takes up what [`BevLearner::save_private`] handed out. The optimiser's moments start afresh.
    ///
    /// # Errors
    ///
    /// [`LearnError::PrivateState`] if it belongs to another model; nothing changes then.
    pub fn restore_private(&mut self, state: &PrivateState) -> Result<(), LearnError> {
        let tensors = state.unpack(self.store.layout())?;
        self.store.load_private(&tensors)?;
        self.optimiser = None;
        Ok(())
    }

    /// Where the network sees vehicles in one frame, row-major on the label's grid.
    ///
    /// # Errors
    ///
    /// [`GeometryError::Prediction`](crate::GeometryError::Prediction) if a logit is NaN.
    pub fn predict(&self, frame: &BevFrame) -> Result<Vec<bool>, LearnError> {
        let logits = tch::no_grad(|| self.network.forward(&self.pictures(&[frame]), &self.views, false));
        decide(&logits)
    }

    fn run(
        &self,
        plan: &TrainPlan,
        optimiser: &mut nn::Optimizer,
        usable: &mut [&BevFrame],
    ) -> Result<TrainReport, LearnError> {
        let mut rng = ChaCha20Rng::seed_from_u64(plan.seed ^ (u64::from(plan.round) << 32));
        if self.config.network.dropout > 0.0 {
            // libtorch draws what is dropped from a generator of its own.
            tch::manual_seed((plan.seed ^ (u64::from(plan.round) << 32)).cast_signed());
        }
        let steps = plan.steps(usable.len());
        let mut report = TrainReport {
            steps,
            samples: 0,
            loss_first: 0.0,
            loss_last: 0.0,
            skipped_frames: 0,
        };
        let has_private = self.store.layout().private().next().is_some();
        let mut at = usable.len();
        for step in 0..steps {
            if at >= usable.len() {
                shuffle(usable, &mut rng);
                at = 0;
            }
            let end = (at + plan.batch).min(usable.len());
            let batch: Vec<&BevFrame> = usable.get(at..end).unwrap_or_default().to_vec();
            at = end;
            report.samples += u32::try_from(batch.len()).unwrap_or(u32::MAX);
            if self.config.local == LocalTraining::Alternating && has_private {
                self.store.train_only(step % 2 == 0, step % 2 == 1)?;
            }
            optimiser.zero_grad();
            let logits = self.network.forward(&self.pictures(&batch), &self.views, true);
            // Every usable frame has a cell that counts, so there is a loss.
            let Some(loss) = self.loss(&logits, &batch) else {
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
            optimiser.set_lr(self.rate(plan, step, steps));
            loss.f_backward()?;
            if let Some(limit) = self.config.clip_norm {
                optimiser.clip_grad_norm(limit);
            }
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

    fn rate(&self, plan: &TrainPlan, step: u32, steps: u32) -> f64 {
        match self.config.rate {
            Rate::Plan => plan.learning_rate * crate::schedule::Schedule::Round.rate(step, steps),
            Rate::Schedule(schedule) => {
                let global = Schedule::step(plan.round, steps, step);
                plan.learning_rate / schedule.peak * schedule.rate(global, steps)
            }
        }
    }

    fn loss(&self, logits: &Tensor, batch: &[&BevFrame]) -> Option<Tensor> {
        let mut target: Vec<i64> = Vec::with_capacity(batch.len() * self.masks.cells().len());
        for frame in batch {
            target.extend(
                frame
                    .label()
                    .iter()
                    .zip(self.masks.cells())
                    .map(|(&vehicle, &counts)| {
                        match (counts, self.config.amcm) {
                            (true, _) => i64::from(vehicle),
                            // The published code blanks the label there and counts the cell.
                            (false, Amcm::Triangles) => 0,
                            (false, Amcm::Fov | Amcm::Off) => IGNORED,
                        }
                    }),
            );
        }
        let side = size(self.config.network.grid.cells);
        let target = Tensor::from_slice(&target)
            .view([size(batch.len()), side, side])
            .to_device(self.store.device());
        weighted_cross_entropy(logits, &target, self.config.vehicle_weight)
    }

    /// `[B, M, 3, H, W]`, normalised; absent cameras black.
    fn pictures(&self, batch: &[&BevFrame]) -> Tensor {
        let (width, height) = (self.config.network.width, self.config.network.height);
        let black = vec![0_u8; self.absent * width * height * 3];
        let mut bytes: Vec<u8> = Vec::new();
        for frame in batch {
            bytes.extend_from_slice(frame.pictures());
            bytes.extend_from_slice(&black);
        }
        let shape = [
            size(batch.len()),
            self.views.cameras(),
            size(height),
            size(width),
            3,
        ];
        normalise(
            &Tensor::from_slice(&bytes)
                .view(shape)
                .to_device(self.store.device()),
        )
    }

    fn undo(&self, saved: &Snapshot, error: LearnError) -> LearnError {
        match self.store.restore(saved) {
            Ok(()) => error,
            Err(worse) => worse,
        }
    }
}

/// The cameras that the network is told of.
fn rig(amcm: Amcm, own: &Rig) -> (Rig, usize) {
    match amcm {
        Amcm::Off => own.filled(),
        Amcm::Fov | Amcm::Triangles => (own.clone(), 0),
    }
}

/// A vehicle where its logit is the larger one.
fn decide(logits: &Tensor) -> Result<Vec<bool>, LearnError> {
    let difference = (logits.select(1, 1) - logits.select(1, 0)).to_device(Device::Cpu);
    let values: Vec<f32> = Vec::try_from(difference.contiguous().flatten(0, -1))?;
    match values.iter().position(|v| v.is_nan()) {
        Some(index) => Err(crate::bev::GeometryError::Prediction { index }.into()),
        None => Ok(values.iter().map(|&v| v > 0.0).collect()),
    }
}

impl Learner for BevLearner {
    fn save_private(&self) -> Result<Option<PrivateState>, LearnError> {
        let keeps = self.store.layout().private().next().is_some();
        keeps.then(|| Self::save_private(self)).transpose()
    }

    fn restore_private(&mut self, state: &PrivateState) -> Result<(), LearnError> {
        Self::restore_private(self, state)
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
        let mut usable: Vec<&BevFrame> = self.data.train().iter().collect();
        if usable.is_empty() || !self.masks.cells().contains(&true) {
            return Err(LearnError::NoTrainingData {
                client: self.data.name().to_owned(),
            });
        }
        let saved = self.store.snapshot();
        let mut optimiser = match self.optimiser.take() {
            Some(kept) if self.config.keep_moments => kept,
            _ => {
                let adam = nn::AdamW {
                    wd: self.config.weight_decay,
                    beta2: self.config.beta2,
                    eps: self.config.epsilon,
                    ..nn::AdamW::default()
                };
                adam.build(self.store.vars(), plan.learning_rate)?
            }
        };
        let trained = self.run(plan, &mut optimiser, &mut usable);
        let thawed = self.store.train_only(true, true);
        match trained.and_then(|report| thawed.map(|()| report)) {
            Ok(report) => {
                self.optimiser = Some(optimiser);
                Ok(report)
            }
            // The moments are spoilt too and dropped.
            Err(error) => Err(self.undo(&saved, error)),
        }
    }

    fn evaluate(&mut self) -> Result<Evaluation, LearnError> {
        let mut counts = Vec::new();
        let mut losses = 0.0;
        let mut example = None;
        for frame in self.data.test() {
            let logits = tch::no_grad(|| self.network.forward(&self.pictures(&[frame]), &self.views, false));
            let prediction = decide(&logits)?;
            if let Some(loss) = tch::no_grad(|| self.loss(&logits, &[frame])) {
                losses += loss.to_kind(Kind::Double).double_value(&[]);
            }
            counts.push((
                FrameCounts::of(&prediction, frame.label(), Some(self.masks.cells()))?,
                FrameCounts::of(&prediction, frame.label(), None)?,
            ));
            example.get_or_insert_with(|| {
                Example::Bev(BevExample {
                    name: frame.name().to_owned(),
                    cells: self.data.grid().cells,
                    truth: frame.label().to_vec(),
                    prediction: prediction.clone(),
                    counts: self.masks.cells().to_vec(),
                })
            });
        }
        let metrics = BevMetrics::of(&counts)?;
        let images = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        Ok(Evaluation {
            images,
            scores: Scores::Bev(metrics),
            loss: losses / f64::from(images),
            example,
        })
    }

    fn sample_count(&self) -> u32 {
        u32::try_from(self.data.train().len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
