//! An AdaBins network: convolutional encoder, U-shaped decoder, adaptive-bins head.
//!
//! After Bhat, Alhashim and Wonka, "AdaBins: Depth Estimation Using Adaptive Bins" (CVPR 2021).

use serde::{Deserialize, Serialize};
use tch::{Tensor, nn};

use crate::error::LearnError;
use crate::metrics::DepthRange;
use crate::torch::bins::{Bins, BinsConfig, BinsHead, Spacing};
pub use crate::torch::block::Norm;
use crate::torch::decoder::{Decoder, DecoderConfig, DecoderForm};
use crate::torch::encoder::{Encoder, EncoderConfig};
use crate::torch::network::{DepthNetwork, Prediction, encoder_path};
use crate::torch::pass::Pass;

/// All sizes of a network. Every client of a federation uses the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdaBinsConfig {
    /// Input width in pixels, a multiple of 32.
    pub width: usize,
    /// Input height in pixels, a multiple of 32.
    pub height: usize,
    /// Depths that the network can say.
    pub range: DepthRange,
    /// Normalisation in encoder and decoder.
    pub norm: Norm,
    /// Encoder.
    pub encoder: EncoderConfig,
    /// Decoder.
    pub decoder: DecoderConfig,
    /// Head.
    pub bins: BinsConfig,
}

impl AdaBinsConfig {
    /// The smallest useful network: about 170,000 parameters, 128 × 96 input, trains on one CPU core.
    ///
    /// Unlike the published network it normalises over channel groups, because a client that trains on a handful of
    /// frames has no batch statistics worth averaging, and lays bin widths out over ln metres.
    #[must_use]
    pub fn tiny(range: DepthRange) -> Self {
        Self {
            width: 128,
            height: 96,
            range,
            norm: Norm::Group(8),
            encoder: EncoderConfig::Plain {
                widths: [8, 16, 24, 32, 48],
            },
            decoder: DecoderConfig {
                bottleneck: 32,
                widths: [32, 24, 16, 16],
                convolutions: 1,
                form: DecoderForm::Lean,
            },
            bins: BinsConfig {
                count: 32,
                embed: 32,
                patch: 8,
                queries: 16,
                positions: 64,
                layers: 2,
                heads: 4,
                feedforward: 64,
                hidden: 64,
                dropout: 0.0,
                spacing: Spacing::Log,
            },
        }
    }

    /// The published network: 78 million parameters. Published inputs are 544 × 416 (NYU) and 704 × 352 (KITTI).
    #[must_use]
    pub fn published(range: DepthRange) -> Self {
        Self {
            width: 544,
            height: 416,
            range,
            norm: Norm::Batch,
            encoder: EncoderConfig::EfficientNetB5,
            decoder: DecoderConfig {
                bottleneck: 2048,
                widths: [1024, 512, 256, 128],
                convolutions: 2,
                form: DecoderForm::Published,
            },
            bins: BinsConfig::published(),
        }
    }

    /// Refuses configurations that cannot be built.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`], [`LearnError::TooManyPatches`] or [`LearnError::TooFewPatches`].
    pub fn check(&self) -> Result<(), LearnError> {
        let wrong = |what: String| Err(LearnError::Network { what });
        for (name, n) in [("width", self.width), ("height", self.height)] {
            if n == 0 || !n.is_multiple_of(32) {
                return wrong(format!("{name} is {n} but must be a positive multiple of 32"));
            }
        }
        DepthRange::new(self.range.min_m, self.range.cap_m)?;
        let widths = self.encoder.channels().into_iter().chain(self.decoder.widths);
        for width in widths.chain([self.decoder.bottleneck]) {
            if width == 0 {
                return wrong("encoder and decoder widths must be at least 1".to_owned());
            }
            if let Norm::Group(channels) = self.norm
                && (channels == 0 || !width.is_multiple_of(channels))
            {
                return wrong(format!(
                    "width {width} is no multiple of the {channels} channels of a norm's group"
                ));
            }
        }
        self.bins.check(self.width / 2, self.height / 2)
    }
}

/// The network. Its tensors live in the store whose path it was built with.
#[derive(Debug)]
pub struct AdaBins {
    encoder: Box<dyn Encoder>,
    decoder: Decoder,
    head: BinsHead,
}

impl AdaBins {
    /// Adds the network's tensors to a store.
    ///
    /// # Errors
    ///
    /// As [`AdaBinsConfig::check`].
    pub fn new(path: &nn::Path, config: &AdaBinsConfig) -> Result<Self, LearnError> {
        config.check()?;
        let [_, _, _, last] = config.decoder.widths;
        Ok(Self {
            encoder: config.encoder.build(&encoder_path(path), config.norm),
            decoder: Decoder::new(
                &(path / "decoder"),
                &config.decoder,
                config.encoder.channels(),
                config.norm,
            ),
            head: BinsHead::new(&(path / "bins"), &config.bins, last, config.range),
        })
    }

    /// Predicts at half the input's size. `pictures` is `[B, 3, H, W]`, as [`normalise`] gives them.
    #[must_use]
    pub fn bins(&self, pictures: &Tensor, pass: &mut Pass) -> Bins {
        let maps = self.encoder.forward(pictures, pass.is_train());
        let map = self.decoder.forward(&maps, pass.is_train());
        self.head.forward(&map, pass)
    }
}

impl DepthNetwork for AdaBins {
    fn features(&self, pictures: &Tensor) -> Option<Tensor> {
        self.encoder.forward(pictures, false).pop()
    }

    fn forward(&self, pictures: &Tensor, pass: &mut Pass) -> Prediction {
        let bins = self.bins(pictures, pass);
        let (_, _, height, width) = pictures.size4().unwrap_or_default();
        Prediction::of_depth(bins.depth.upsample_bilinear2d([height, width], true, None, None))
            .with_centres(bins.centres)
    }
}

/// Bytes `[B, H, W, 3]` to what the encoders expect: `[B, 3, H, W]`, scaled to 0..1, mean and deviation of natural pictures removed.
pub fn normalise(bytes: &Tensor) -> Tensor {
    let device = bytes.device();
    let channel = |values: [f32; 3]| Tensor::from_slice(&values).to_device(device).view([1, 3, 1, 1]);
    let scaled = bytes.permute([0, 3, 1, 2]).to_kind(tch::Kind::Float) / 255.0;
    ((scaled - channel([0.485, 0.456, 0.406])) / channel([0.229, 0.224, 0.225])).contiguous()
}

#[cfg(test)]
mod tests {
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    use super::*;
    use crate::torch::initial::draw;
    use crate::torch::network::SHARED;
    use crate::torch::store::Store;

    const RANGE: DepthRange = DepthRange {
        min_m: 0.2,
        cap_m: 80.0,
    };

    fn network(config: &AdaBinsConfig) -> (VarStore, AdaBins) {
        let store = VarStore::new(Device::Cpu);
        let network = AdaBins::new(&store.root(), config).unwrap();
        draw(&store, 1).unwrap();
        (store, network)
    }

    #[test]
    fn tiny_has_the_size_it_says() {
        let (vars, _) = network(&AdaBinsConfig::tiny(RANGE));
        let store = Store::new(vars, &SHARED, &[]).unwrap();
        let len = store.layout().upload_len();
        assert!((150_000..190_000).contains(&len), "{len}");
        assert_eq!(store.layout().private().count(), 0);
    }

    fn count(vars: &VarStore, part: &str) -> usize {
        vars.variables()
            .iter()
            .filter(|(name, tensor)| name.starts_with(part) && tensor.requires_grad())
            .map(|(_, tensor)| tensor.numel())
            .sum()
    }

    /// Numbers counted in the published network; 2 x 2048 of its encoder are a norm that nothing reads.
    #[test]
    fn published_has_the_published_sizes() {
        let store = VarStore::new(Device::Cpu);
        AdaBins::new(&store.root(), &AdaBinsConfig::published(RANGE)).unwrap();
        let output = count(&store, "bins.out.");
        assert_eq!(output, 33_024);
        assert_eq!(count(&store, "bins.") - output, 5_890_048);
        assert_eq!(count(&store, "decoder."), 43_993_472);
        assert_eq!(count(&store, "encoder.") + 4096, 28_340_784);
        assert_eq!(count(&store, "") + 4096, 78_257_328);
    }

    #[test]
    #[ignore = "half a minute"]
    fn published_forward_at_full_size() {
        let config = AdaBinsConfig::published(RANGE);
        let (_, network) = network(&config);
        let bytes = Tensor::arange(416 * 544 * 3, (Kind::Int64, Device::Cpu))
            .remainder(251)
            .to_kind(Kind::Uint8)
            .view([1, 416, 544, 3]);
        let bins = tch::no_grad(|| network.bins(&normalise(&bytes), &mut Pass::evaluate()));
        assert_eq!(bins.depth.size(), [1, 1, 208, 272]);
        assert_eq!(bins.edges.size(), [1, 257]);
        let (low, high) = (
            bins.depth.min().double_value(&[]),
            bins.depth.max().double_value(&[]),
        );
        assert!(low >= 0.2 && high <= 80.0, "{low} to {high}");
    }

    #[test]
    fn output_has_the_input_size_and_stays_in_range() {
        let config = AdaBinsConfig::tiny(RANGE);
        let (_, network) = network(&config);
        let noise = Tensor::arange(2 * 96 * 128 * 3, (Kind::Int64, Device::Cpu))
            .remainder(251)
            .to_kind(Kind::Uint8);
        for bytes in [
            noise.view([2, 96, 128, 3]),
            Tensor::full([2, 96, 128, 3], 255, (Kind::Uint8, Device::Cpu)),
        ] {
            let prediction = network.forward(&normalise(&bytes), &mut Pass::evaluate());
            let depth = prediction.depth();
            assert_eq!(depth.size(), [2, 1, 96, 128]);
            assert_eq!(prediction.centres().map(Tensor::size), Some(vec![2, 32]));
            let (low, high) = (depth.min().double_value(&[]), depth.max().double_value(&[]));
            assert!(low >= 0.2 && high <= 80.0, "{low} to {high}");
        }
    }

    #[test]
    fn every_tensor_is_trained() {
        let (vars, network) = network(&AdaBinsConfig::tiny(RANGE));
        let bytes = Tensor::arange(96 * 128 * 3, (Kind::Int64, Device::Cpu))
            .remainder(241)
            .to_kind(Kind::Uint8);
        let bins = network.bins(&normalise(&bytes.view([1, 96, 128, 3])), &mut Pass::train(1));
        (bins.depth.mean(Kind::Float) + bins.centres.square().mean(Kind::Float)).backward();
        for (name, tensor) in vars.variables() {
            assert!(tensor.grad().defined(), "{name} has no gradient");
        }
    }

    #[test]
    fn batch_norm_statistics_are_buffers() {
        let config = AdaBinsConfig {
            norm: Norm::Batch,
            ..AdaBinsConfig::tiny(RANGE)
        };
        let (vars, network) = network(&config);
        let store = Store::new(vars, &SHARED, &[]).unwrap();
        let buffers: Vec<_> = store
            .layout()
            .uploaded()
            .filter(|s| s.class == crate::TensorClass::Buffer)
            .collect();
        // Two per norm: 10 in the encoder, 4 in the decoder.
        assert_eq!(buffers.len(), 28);
        let before = store.weights().unwrap();
        let _ = network.bins(
            &Tensor::ones([2, 3, 96, 128], (Kind::Float, Device::Cpu)),
            &mut Pass::train(1),
        );
        assert_ne!(
            store.weights().unwrap(),
            before,
            "a training pass moves the running statistics"
        );
    }

    #[test]
    fn inputs_that_do_not_fit_are_refused() {
        let base = AdaBinsConfig::tiny(RANGE);
        let with = |change: fn(&mut AdaBinsConfig)| {
            let mut config = base.clone();
            change(&mut config);
            config.check()
        };
        assert!(with(|_| ()).is_ok());
        assert!(matches!(with(|c| c.width = 130), Err(LearnError::Network { .. })));
        assert!(matches!(with(|c| c.height = 0), Err(LearnError::Network { .. })));
        assert!(matches!(
            with(|c| c.width = 320),
            Err(LearnError::TooManyPatches { limit: 64, .. })
        ));
        assert!(matches!(
            with(|c| (c.width, c.height) = (32, 96)),
            Err(LearnError::TooFewPatches { needed: 17, .. })
        ));
        assert!(matches!(
            with(|c| c.range.min_m = 0.0),
            Err(LearnError::Metrics(_))
        ));
        assert!(matches!(
            with(|c| c.norm = Norm::Group(7)),
            Err(LearnError::Network { .. })
        ));
        assert!(matches!(
            with(|c| c.decoder.widths[0] = 0),
            Err(LearnError::Network { .. })
        ));
    }
}
