//! From the `[learner]` section to a network: its layout, its common start, and a learner over a client's frames.

use crate::config::{Frames, LearnerConfig, LearnerKind, NetworkName, NetworkSize};
use veilsum_learner::bev::Grid;
use veilsum_learner::data::bev::BevDataset;
use veilsum_learner::toy::ToyDepth;
use veilsum_learner::{DepthDataset, DeviceError, LearnError, Learner, Weights};

/// The size frames are brought to, width and height.
#[must_use]
pub fn frame_size(config: &LearnerConfig) -> (usize, usize) {
    match (config.kind, config.size, config.network) {
        (LearnerKind::Linear, _, _) => (64, 48),
        (LearnerKind::Bev, _, _) => (48, 32),
        (LearnerKind::Depth, NetworkSize::Tiny, _) => (128, 96),
        (LearnerKind::Depth, NetworkSize::Published, NetworkName::AdaBins) => (544, 416),
        (LearnerKind::Depth, NetworkSize::Published, NetworkName::NewCrfs | NetworkName::DcDepth) => {
            (640, 480)
        }
    }
}

/// Channels of the features by which clients are clustered; `None` for a network that has none.
#[must_use]
pub fn feature_channels(kind: LearnerKind) -> Option<u32> {
    match kind {
        LearnerKind::Depth => Some(48),
        LearnerKind::Linear => Some(12),
        LearnerKind::Bev => None,
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
        LearnerKind::Bev => bev::initial_weights(config),
    }
}

/// A learner over a client's frames.
///
/// # Errors
/// [`NetworkError`].
pub fn learner(config: &LearnerConfig, frames: Frames) -> Result<Box<dyn Learner>, NetworkError> {
    match (config.kind, frames) {
        (LearnerKind::Linear, Frames::Depth(data)) => Ok(Box::new(ToyDepth::new(data)?)),
        (LearnerKind::Depth, Frames::Depth(data)) => depth::learner(config, data),
        (LearnerKind::Bev, Frames::Bev(data)) => bev::learner(config, data),
        (kind, Frames::Depth(_)) => Err(NetworkError::Frames {
            kind,
            wanted: "`generated-fleet` or `fleet-folder`",
        }),
        (kind, Frames::Bev(_)) => Err(NetworkError::Frames {
            kind,
            wanted: "`generated` or `folder`",
        }),
    }
}

/// The grid of bird's-eye views: ten metres to each side, in cells of a metre.
pub const BEV_GRID: Grid = Grid {
    cells: 20,
    metres: 20.0,
};

#[cfg(feature = "torch")]
mod bev {
    use super::{BEV_GRID, BevDataset, Learner, LearnerConfig, NetworkError, Weights};
    use veilsum_learner::torch::{BevLearner, BevLearnerConfig, BevtConfig};

    fn settings(config: &LearnerConfig) -> Result<BevLearnerConfig, NetworkError> {
        Ok(BevLearnerConfig {
            device: config.device.parse()?,
            ..BevLearnerConfig::tiny(BevtConfig::tiny(BEV_GRID), config.personal)
        })
    }

    pub(super) fn initial_weights(config: &LearnerConfig) -> Result<Weights, NetworkError> {
        Ok(BevLearner::initial_weights(&settings(config)?, config.seed)?)
    }

    pub(super) fn learner(
        config: &LearnerConfig,
        data: BevDataset,
    ) -> Result<Box<dyn Learner>, NetworkError> {
        Ok(Box::new(BevLearner::new(settings(config)?, config.seed, data)?))
    }
}

#[cfg(not(feature = "torch"))]
mod bev {
    use super::{BevDataset, Learner, LearnerConfig, NetworkError, Weights};

    pub(super) fn initial_weights(_: &LearnerConfig) -> Result<Weights, NetworkError> {
        Err(NetworkError::NoTorch)
    }

    pub(super) fn learner(_: &LearnerConfig, _: BevDataset) -> Result<Box<dyn Learner>, NetworkError> {
        Err(NetworkError::NoTorch)
    }
}

#[cfg(feature = "torch")]
mod depth {
    use super::{
        DepthDataset, LearnError, Learner, LearnerConfig, NetworkError, NetworkName, NetworkSize, Weights,
    };
    use veilsum_learner::DepthRange;
    use veilsum_learner::torch::{self, DepthLearner, DepthLearnerConfig, NetworkKind};

    pub(super) fn settings(config: &LearnerConfig) -> Result<DepthLearnerConfig, NetworkError> {
        let range = DepthRange::new(config.min_depth_m, config.max_depth_m).map_err(LearnError::from)?;
        let kind = match config.network {
            NetworkName::AdaBins => NetworkKind::AdaBins,
            NetworkName::NewCrfs => NetworkKind::NewCrfs,
            NetworkName::DcDepth => NetworkKind::DcDepth,
        };
        let size = match config.size {
            NetworkSize::Tiny => torch::NetworkSize::Tiny,
            NetworkSize::Published => torch::NetworkSize::Published,
        };
        Ok(DepthLearnerConfig {
            device: config.device.parse()?,
            ..DepthLearnerConfig::new(kind, size, range)
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
        "this veilsum was built without libtorch, so `learner.kind = \"depth\"` and `\"bev\"` cannot run; build it with \
         `cargo xtask libtorch` and `cargo build --features torch`, or use `linear`"
    )]
    NoTorch,
    /// Frames of another task.
    #[error("the `[data]` of this client is not for `learner.kind = {kind:?}`: its kind must be {wanted}")]
    Frames {
        /// The network.
        kind: LearnerKind,
        /// Kinds of data that fit.
        wanted: &'static str,
    },
    /// The network or its data.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(network: &str, size: &str) -> Result<LearnerConfig, toml::de::Error> {
        toml::from_str(&format!(
            "kind = \"depth\"\nnetwork = \"{network}\"\nsize = \"{size}\"\ndevice = \"cpu\"\nseed = 1\nmin_depth_m = 0.1\nmax_depth_m = 10.0"
        ))
    }

    #[test]
    fn unknown_networks_and_sizes_are_refused_with_the_choice() {
        let error = config("midas", "tiny").unwrap_err().to_string();
        for part in ["line 2", "midas", "adabins", "newcrfs", "dcdepth"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = config("newcrfs", "huge").unwrap_err().to_string();
        for part in ["line 3", "huge", "tiny", "published"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn a_config_that_names_neither_has_the_tiny_adabins() {
        let config: LearnerConfig = toml::from_str(
            "kind = \"depth\"\ndevice = \"cpu\"\nseed = 1\nmin_depth_m = 0.1\nmax_depth_m = 10.0",
        )
        .unwrap();
        assert_eq!(
            (config.network, config.size),
            (NetworkName::AdaBins, NetworkSize::Tiny)
        );
        assert_eq!(frame_size(&config), (128, 96));
    }

    /// Frames are read at the size that the network takes.
    #[cfg(feature = "torch")]
    #[test]
    fn frames_fit_every_network() {
        for network in ["adabins", "newcrfs", "dcdepth"] {
            for size in ["tiny", "published"] {
                let config = config(network, size).unwrap();
                let settings = depth::settings(&config).unwrap();
                assert_eq!(
                    settings.network.picture(),
                    frame_size(&config),
                    "{network} {size}"
                );
            }
        }
    }
}
