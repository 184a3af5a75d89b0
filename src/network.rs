//! From the `[learner]` section to a network: its layout, its common start, and a learner over a client's frames.

use crate::config::{LearnerConfig, LearnerKind};
use veilsum_learner::toy::ToyDepth;
use veilsum_learner::{DepthDataset, DeviceError, LearnError, Learner, Weights};

/// The size frames are brought to, width and height.
#[must_use]
pub fn frame_size(kind: LearnerKind) -> (usize, usize) {
    match kind {
        LearnerKind::Depth => (128, 96),
        LearnerKind::Linear => (64, 48),
    }
}

/// Channels of the features by which clients are clustered.
#[must_use]
pub fn feature_channels(kind: LearnerKind) -> u32 {
    match kind {
        LearnerKind::Depth => 48,
        LearnerKind::Linear => 12,
    }
}

/// The weights every cluster starts from.
///
/// # Errors
/// [`NetworkError`].
pub fn initial_weights(config: &LearnerConfig) -> Result<Weights, NetworkError> {
    match config.kind {
        LearnerKind::Linear => Ok(ToyDepth::initial_weights()?),
        LearnerKind::Depth => depth::initial_weights(config),
    }
}

/// A learner over a client's frames.
///
/// # Errors
/// [`NetworkError`].
pub fn learner(config: &LearnerConfig, data: DepthDataset) -> Result<Box<dyn Learner>, NetworkError> {
    match config.kind {
        LearnerKind::Linear => Ok(Box::new(ToyDepth::new(data)?)),
        LearnerKind::Depth => depth::learner(config, data),
    }
}

#[cfg(feature = "torch")]
mod depth {
    use super::{DepthDataset, LearnError, Learner, LearnerConfig, NetworkError, Weights};
    use veilsum_learner::DepthRange;
    use veilsum_learner::torch::{DepthLearner, DepthLearnerConfig};

    fn settings(config: &LearnerConfig) -> Result<DepthLearnerConfig, NetworkError> {
        let range = DepthRange::new(config.min_depth_m, config.max_depth_m).map_err(LearnError::from)?;
        Ok(DepthLearnerConfig {
            device: config.device.parse()?,
            ..DepthLearnerConfig::tiny(range)
        })
    }

    pub(super) fn initial_weights(config: &LearnerConfig) -> Result<Weights, NetworkError> {
        Ok(DepthLearner::initial_weights(&settings(config)?, config.seed)?)
    }

    pub(super) fn learner(
        config: &LearnerConfig,
        data: DepthDataset,
    ) -> Result<Box<dyn Learner>, NetworkError> {
        Ok(Box::new(DepthLearner::new(settings(config)?, config.seed, data)?))
    }
}

#[cfg(not(feature = "torch"))]
mod depth {
    use super::{DepthDataset, Learner, LearnerConfig, NetworkError, Weights};

    pub(super) fn initial_weights(_: &LearnerConfig) -> Result<Weights, NetworkError> {
        Err(NetworkError::NoTorch)
    }

    pub(super) fn learner(_: &LearnerConfig, _: DepthDataset) -> Result<Box<dyn Learner>, NetworkError> {
        Err(NetworkError::NoTorch)
    }
}

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Built without libtorch.
    #[error(
        "this veilsum was built without libtorch, so `learner.kind = \"depth\"` cannot run; build it with \
         `cargo xtask libtorch` and `cargo build --features torch`, or use `linear`"
    )]
    NoTorch,
    /// The network or its data.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
