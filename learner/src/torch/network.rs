//! The depth networks by name: what each is built from, and what each predicts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::{self, VarStore};

use crate::error::LearnError;
use crate::metrics::DepthRange;
use crate::torch::adabins::{AdaBins, AdaBinsConfig};
use crate::torch::dcdepth::{DcDepth, DcDepthConfig};
use crate::torch::initial::draw_as;
use crate::torch::newcrfs::{NewCrfs, NewCrfsConfig};
use crate::torch::pass::Pass;
use crate::torch::{dcdepth, swin};

/// The beginnings of the names of all tensors that may travel.
pub(crate) const SHARED: [&str; 10] = [
    "encoder.", "decoder.", "bins.", "pyramid.", "crf3.", "crf2.", "crf1.", "crf0.", "head.", "update.",
];

/// The optimiser's group of the encoder's tensors, which may have a learning rate of their own.
pub(crate) const ENCODER_GROUP: usize = 1;

/// Where an encoder's tensors go.
pub(crate) fn encoder_path<'a>(path: &nn::Path<'a>) -> nn::Path<'a> {
    (path / "encoder").set_group(ENCODER_GROUP)
}

/// A network from pictures to depth.
pub trait DepthNetwork: Send + fmt::Debug {
    /// `pictures` is `[B, 3, H, W]`, as [`normalise`](crate::torch::adabins::normalise) gives them.
    fn forward(&self, pictures: &Tensor, pass: &mut Pass) -> Prediction;

    /// The encoder's last map, `[B, C, H / 32, W / 32]`; `None` for an encoder without stages.
    fn features(&self, pictures: &Tensor) -> Option<Tensor>;
}

/// What a network predicts. All maps are `[B, 1, H, W]` at the input's size, or half of it for the bins.
#[derive(Debug)]
pub struct Prediction {
    depth: Tensor,
    centres: Option<Tensor>,
    steps: Vec<Step>,
}

/// One of several ever finer predictions.
#[derive(Debug)]
pub struct Step {
    /// ln metres, `[B, 1, H, W]`.
    pub log_depth: Tensor,
    /// Coefficients of the cosine transform of every patch, row-major, `[B, side², H / side, W / side]`.
    pub coefficients: Tensor,
}

impl Prediction {
    /// A prediction in metres.
    #[must_use]
    pub fn of_depth(depth: Tensor) -> Self {
        Self {
            depth,
            centres: None,
            steps: Vec::new(),
        }
    }

    /// The last of several steps is the prediction, held within a range.
    #[must_use]
    pub fn of_steps(steps: Vec<Step>, range: DepthRange) -> Self {
        let (low, high) = (f64::from(range.min_m), f64::from(range.cap_m));
        let depth = steps.last().map_or_else(Tensor::new, |step| {
            step.log_depth.clamp(low.ln(), high.ln()).exp()
        });
        Self {
            depth,
            centres: None,
            steps,
        }
    }

    /// Adds the centres of bins, `[B, bins]`, metres.
    #[must_use]
    pub fn with_centres(self, centres: Tensor) -> Self {
        Self {
            centres: Some(centres),
            ..self
        }
    }

    /// Metres.
    pub fn depth(&self) -> &Tensor {
        &self.depth
    }

    /// Centres of the bins, of a network that has bins.
    #[must_use]
    pub fn centres(&self) -> Option<&Tensor> {
        self.centres.as_ref()
    }

    /// The steps of a network that predicts in steps; else none.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// Which architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// Adaptive bins over a convolutional encoder and decoder (Bhat et al. 2021).
    AdaBins,
    /// Neural window fully connected random fields over a Swin transformer (Yuan et al. 2022).
    NewCrfs,
    /// Cosine-transform coefficients of depth patches, in steps, over a Swin transformer (Wang et al. 2024).
    DcDepth,
}

/// How large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkSize {
    /// Trains on a CPU core; 128 × 96 pictures.
    Tiny,
    /// As its paper has it.
    Published,
}

fn unknown(setting: &str, found: &str, known: &str) -> LearnError {
    LearnError::Network {
        what: format!("there is no {setting} '{found}': choose one of {known}"),
    }
}

impl FromStr for NetworkKind {
    type Err = LearnError;

    fn from_str(name: &str) -> Result<Self, LearnError> {
        match name {
            "adabins" => Ok(Self::AdaBins),
            "newcrfs" => Ok(Self::NewCrfs),
            "dcdepth" => Ok(Self::DcDepth),
            _ => Err(unknown("network", name, "adabins, newcrfs, dcdepth")),
        }
    }
}

impl FromStr for NetworkSize {
    type Err = LearnError;

    fn from_str(name: &str) -> Result<Self, LearnError> {
        match name {
            "tiny" => Ok(Self::Tiny),
            "published" => Ok(Self::Published),
            _ => Err(unknown("network size", name, "tiny, published")),
        }
    }
}

/// A network's architecture and all its sizes. Every client of a federation uses the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkConfig {
    /// See [`NetworkKind::AdaBins`].
    AdaBins(AdaBinsConfig),
    /// See [`NetworkKind::NewCrfs`].
    NewCrfs(NewCrfsConfig),
    /// See [`NetworkKind::DcDepth`].
    DcDepth(DcDepthConfig),
}

impl NetworkConfig {
    /// One of the six ready-made networks.
    #[must_use]
    pub fn new(kind: NetworkKind, size: NetworkSize, range: DepthRange) -> Self {
        use NetworkSize::{Published, Tiny};
        match (kind, size) {
            (NetworkKind::AdaBins, Tiny) => Self::AdaBins(AdaBinsConfig::tiny(range)),
            (NetworkKind::AdaBins, Published) => Self::AdaBins(AdaBinsConfig::published(range)),
            (NetworkKind::NewCrfs, Tiny) => Self::NewCrfs(NewCrfsConfig::tiny(range)),
            (NetworkKind::NewCrfs, Published) => Self::NewCrfs(NewCrfsConfig::published(range)),
            (NetworkKind::DcDepth, Tiny) => Self::DcDepth(DcDepthConfig::tiny(range)),
            (NetworkKind::DcDepth, Published) => Self::DcDepth(DcDepthConfig::published(range)),
        }
    }

    /// Which architecture it is.
    #[must_use]
    pub fn kind(&self) -> NetworkKind {
        match self {
            Self::AdaBins(_) => NetworkKind::AdaBins,
            Self::NewCrfs(_) => NetworkKind::NewCrfs,
            Self::DcDepth(_) => NetworkKind::DcDepth,
        }
    }

    /// Width and height of the pictures it takes.
    #[must_use]
    pub fn picture(&self) -> (usize, usize) {
        match self {
            Self::AdaBins(c) => (c.width, c.height),
            Self::NewCrfs(c) => (c.width, c.height),
            Self::DcDepth(c) => (c.width, c.height),
        }
    }

    /// The same network for pictures of another size.
    #[must_use]
    pub fn with_picture(mut self, width: usize, height: usize) -> Self {
        let (w, h) = match &mut self {
            Self::AdaBins(c) => (&mut c.width, &mut c.height),
            Self::NewCrfs(c) => (&mut c.width, &mut c.height),
            Self::DcDepth(c) => (&mut c.width, &mut c.height),
        };
        (*w, *h) = (width, height);
        self
    }

    /// Depths that it can say.
    #[must_use]
    pub fn range(&self) -> DepthRange {
        match self {
            Self::AdaBins(c) => c.range,
            Self::NewCrfs(c) => c.range,
            Self::DcDepth(c) => c.range,
        }
    }

    /// Refuses configurations that cannot be built.
    ///
    /// # Errors
    ///
    /// [`LearnError`] naming the setting.
    pub fn check(&self) -> Result<(), LearnError> {
        match self {
            Self::AdaBins(c) => c.check(),
            Self::NewCrfs(c) => c.check(),
            Self::DcDepth(c) => c.check(),
        }
    }

    /// Adds the network's tensors to a store.
    ///
    /// # Errors
    ///
    /// As [`NetworkConfig::check`].
    pub fn build(&self, path: &nn::Path) -> Result<Box<dyn DepthNetwork>, LearnError> {
        Ok(match self {
            Self::AdaBins(c) => Box::new(AdaBins::new(path, c)?),
            Self::NewCrfs(c) => Box::new(NewCrfs::new(path, c)?),
            Self::DcDepth(c) => Box::new(DcDepth::new(path, c)?),
        })
    }

    /// Draws the common start of a store that holds this network.
    ///
    /// # Errors
    ///
    /// [`LearnError::Torch`] if libtorch refuses a copy.
    pub fn draw(&self, store: &VarStore, seed: u64) -> Result<(), LearnError> {
        draw_as(store, seed, |name, shape| match self {
            Self::AdaBins(_) => None,
            Self::NewCrfs(_) => swin::start(name, shape),
            Self::DcDepth(_) => dcdepth::start(name).or_else(|| swin::start(name, shape)),
        })
    }
}

/// Checks the sizes that all networks share: picture sides in multiples of 32, and a depth range.
pub(crate) fn check_picture(width: usize, height: usize, range: DepthRange) -> Result<(), LearnError> {
    for (name, n) in [("width", width), ("height", height)] {
        if n == 0 || !n.is_multiple_of(32) {
            return Err(LearnError::Network {
                what: format!("{name} is {n} but must be a positive multiple of 32"),
            });
        }
    }
    DepthRange::new(range.min_m, range.cap_m)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::torch::store::Store;

    const RANGE: DepthRange = DepthRange {
        min_m: 0.2,
        cap_m: 80.0,
    };
    const KINDS: [NetworkKind; 3] = [NetworkKind::AdaBins, NetworkKind::NewCrfs, NetworkKind::DcDepth];

    /// Mean of a map, for tests that want a gradient everywhere.
    fn any_loss(prediction: &Prediction) -> Tensor {
        let steps = prediction.steps();
        let first = prediction.depth().log().square().mean(Kind::Float);
        steps.iter().fold(first, |sum, step| {
            sum + (&step.log_depth - 1.0).square().mean(Kind::Float)
        })
    }

    #[test]
    fn names_are_known_or_refused_with_the_choice() {
        for (name, kind) in [
            ("adabins", KINDS[0]),
            ("newcrfs", KINDS[1]),
            ("dcdepth", KINDS[2]),
        ] {
            assert_eq!(name.parse::<NetworkKind>().unwrap(), kind);
        }
        assert_eq!(
            "published".parse::<NetworkSize>().unwrap(),
            NetworkSize::Published
        );
        let error = "newcrf".parse::<NetworkKind>().unwrap_err().to_string();
        assert!(error.contains("'newcrf'") && error.contains("newcrfs"), "{error}");
        let error = "huge".parse::<NetworkSize>().unwrap_err().to_string();
        assert!(
            error.contains("'huge'") && error.contains("tiny, published"),
            "{error}"
        );
    }

    #[test]
    fn every_network_shares_all_its_tensors_and_trains_them() {
        for kind in KINDS {
            let config = NetworkConfig::new(kind, NetworkSize::Tiny, RANGE);
            let vars = VarStore::new(Device::Cpu);
            let network = config.build(&vars.root()).unwrap();
            config.draw(&vars, 1).unwrap();
            let pictures = Tensor::arange(2 * 3 * 96 * 128, (Kind::Float, Device::Cpu))
                .view([2, 3, 96, 128])
                .sin();
            let prediction = network.forward(&pictures, &mut Pass::train(1));
            assert_eq!(prediction.depth().size(), [2, 1, 96, 128]);
            let features = network.features(&pictures).unwrap();
            assert_eq!((features.size()[2], features.size()[3]), (3, 4));
            let mut loss = any_loss(&prediction);
            if let Some(centres) = prediction.centres() {
                loss += centres.square().mean(Kind::Float);
            }
            loss.backward();
            for (name, tensor) in vars.variables() {
                assert!(
                    !tensor.requires_grad() || tensor.grad().defined(),
                    "{kind:?}: {name} has no gradient"
                );
            }
            let store = Store::new(vars, &SHARED, &[]).unwrap();
            assert_eq!(store.layout().private().count(), 0, "{kind:?}");
            let len = store.layout().upload_len();
            assert!((100_000..600_000).contains(&len), "{kind:?}: {len}");
        }
    }

    #[test]
    fn predictions_are_positive_and_below_the_cap() {
        for kind in KINDS {
            let config = NetworkConfig::new(kind, NetworkSize::Tiny, RANGE);
            let vars = VarStore::new(Device::Cpu);
            let network = config.build(&vars.root()).unwrap();
            config.draw(&vars, 1).unwrap();
            for scale in [0.0, 1.0, 1e4] {
                let pictures = Tensor::arange(3 * 96 * 128, (Kind::Float, Device::Cpu))
                    .view([1, 3, 96, 128])
                    .sin()
                    * scale;
                let depth = tch::no_grad(|| network.forward(&pictures, &mut Pass::evaluate()));
                let (low, high) = (
                    depth.depth().min().double_value(&[]),
                    depth.depth().max().double_value(&[]),
                );
                assert!(low >= 0.0 && high <= 80.001, "{kind:?} {low} to {high}");
            }
        }
    }

    #[test]
    fn sizes_of_pictures_are_checked() {
        for kind in KINDS {
            let config = NetworkConfig::new(kind, NetworkSize::Tiny, RANGE);
            assert!(config.check().is_ok());
            let error = config.clone().with_picture(100, 96).check().unwrap_err();
            assert!(error.to_string().contains("width is 100"), "{kind:?} {error}");
            assert!(
                NetworkConfig::new(kind, NetworkSize::Published, RANGE)
                    .check()
                    .is_ok()
            );
        }
    }
}
