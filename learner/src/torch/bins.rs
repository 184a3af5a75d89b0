//! The adaptive-bins head: per picture a division of the depth range, per pixel a mixture of its bins.
//!
//! After Bhat, Alhashim and Wonka, "AdaBins: Depth Estimation Using Adaptive Bins" (CVPR 2021), section 3.

use serde::{Deserialize, Serialize};
use tch::nn::{self, Module};
use tch::{Kind, Tensor};

use crate::error::LearnError;
use crate::metrics::DepthRange;
use crate::torch::block::size;
use crate::torch::pass::Pass;

/// Sizes of the head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BinsConfig {
    /// Bins (published: 256).
    pub count: usize,
    /// Width of a patch token (published: 128).
    pub embed: usize,
    /// Side of a patch in pixels of the stride-2 map (published: 16).
    pub patch: usize,
    /// Tokens used as 1 × 1 kernels (published: 128).
    pub queries: usize,
    /// Learned patch positions: the most patches a picture may give (published: 500).
    pub positions: usize,
    /// Transformer layers (published: 4).
    pub layers: usize,
    /// Attention heads (published: 4).
    pub heads: usize,
    /// Width of a layer's feed-forward part (published: 1024).
    pub feedforward: usize,
    /// Width of the two hidden layers that predict bin widths (published: 256).
    pub hidden: usize,
    /// Share of a transformer layer's numbers zeroed in training (published: 0.1).
    pub dropout: f64,
    /// On which axis the widths are laid out.
    pub spacing: Spacing,
}

/// On which axis bin widths add up to the whole range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Metres, as published.
    Linear,
    /// ln metres: equal widths mean equal ratios. A network that starts with equal widths then resolves near and far
    /// alike, which a short training needs when one range serves rooms and streets.
    Log,
}

/// The head.
#[derive(Debug)]
pub struct BinsHead {
    patches: nn::Conv2D,
    positions: Tensor,
    layers: Vec<Layer>,
    widths: [nn::Linear; 3],
    features: nn::Conv2D,
    out: nn::Conv2D,
    queries: i64,
    range: DepthRange,
    spacing: Spacing,
}

/// What the head predicts.
#[derive(Debug)]
pub struct Bins {
    /// `[B, count + 1]`, metres, ascending. The first is exactly the range's minimum.
    pub edges: Tensor,
    /// `[B, count]`, metres: the middles of the bins.
    pub centres: Tensor,
    /// `[B, 1, h, w]`, metres, at the head's input size.
    pub depth: Tensor,
}

impl BinsConfig {
    /// The published head.
    #[must_use]
    pub fn published() -> Self {
        Self {
            count: 256,
            embed: 128,
            patch: 16,
            queries: 128,
            positions: 500,
            layers: 4,
            heads: 4,
            feedforward: 1024,
            hidden: 256,
            dropout: 0.1,
            spacing: Spacing::Linear,
        }
    }

    /// Checks that a map of `width` × `height` fits the head.
    ///
    /// # Errors
    ///
    /// [`LearnError::TooManyPatches`] or [`LearnError::TooFewPatches`], speaking of the input picture, which is twice
    /// as large as the map; [`LearnError::Network`] for sizes that do not go together.
    pub fn check(&self, width: usize, height: usize) -> Result<(), LearnError> {
        let wrong = |what: String| Err(LearnError::Network { what });
        let sizes = [
            ("count", self.count),
            ("embed", self.embed),
            ("patch", self.patch),
            ("queries", self.queries),
            ("heads", self.heads),
            ("feedforward", self.feedforward),
            ("hidden", self.hidden),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, n)| *n == 0) {
            return wrong(format!("bins.{name} must be at least 1"));
        }
        if !self.embed.is_multiple_of(self.heads) {
            return wrong(format!(
                "bins.embed {} must be a multiple of bins.heads {}",
                self.embed, self.heads
            ));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return wrong(format!(
                "bins.dropout is {} but must be at least 0 and below 1",
                self.dropout
            ));
        }
        let patches = (width / self.patch) * (height / self.patch);
        let (width, height, needed) = (2 * width, 2 * height, self.queries + 1);
        if patches > self.positions {
            return Err(LearnError::TooManyPatches {
                width,
                height,
                patches,
                limit: self.positions,
            });
        }
        if patches < needed {
            return Err(LearnError::TooFewPatches {
                width,
                height,
                patches,
                needed,
            });
        }
        Ok(())
    }
}

impl BinsHead {
    pub(crate) fn new(path: &nn::Path, config: &BinsConfig, from: usize, range: DepthRange) -> Self {
        let (from, embed, side) = (size(from), size(config.embed), size(config.patch));
        let hidden = size(config.hidden);
        let patch_config = nn::ConvConfig {
            stride: side,
            ..nn::ConvConfig::default()
        };
        let same = nn::ConvConfig {
            padding: 1,
            ..nn::ConvConfig::default()
        };
        let linear = |name: &str, a, b| nn::linear(path / "widths" / name, a, b, nn::LinearConfig::default());
        Self {
            patches: nn::conv2d(path / "patches", from, embed, side, patch_config),
            positions: path.zeros("positions", &[size(config.positions), embed]),
            layers: (0..config.layers)
                .map(|i| Layer::new(&(path / format!("layer{}", i + 1)), config))
                .collect(),
            widths: [
                linear("first", embed, hidden),
                linear("second", hidden, hidden),
                linear("third", hidden, size(config.count)),
            ],
            features: nn::conv2d(path / "features", from, embed, 3, same),
            out: nn::conv2d(
                path / "out",
                size(config.queries),
                size(config.count),
                1,
                nn::ConvConfig::default(),
            ),
            queries: size(config.queries),
            range,
            spacing: config.spacing,
        }
    }

    /// `map` is `[B, C, h, w]`, the decoder's output.
    pub(crate) fn forward(&self, map: &Tensor, pass: &mut Pass) -> Bins {
        // [B, patches, embed]
        let mut tokens = self.patches.forward(map).flatten(2, -1).transpose(1, 2);
        let count = tokens.size().get(1).copied().unwrap_or(0);
        tokens += self.positions.narrow(0, 0, count);
        for layer in &self.layers {
            tokens = layer.forward(&tokens, pass);
        }
        let edges = self.edges(&tokens.select(1, 0));
        let inner = edges.size().get(1).copied().unwrap_or(1) - 1;
        let centres = (edges.narrow(1, 0, inner) + edges.narrow(1, 1, inner)) * 0.5;

        let queries = tokens.narrow(1, 1, self.queries);
        let features = self.features.forward(map);
        let (batch, _, height, width) = features.size4().unwrap_or_default();
        let ranges = queries
            .matmul(&features.flatten(2, -1))
            .view([batch, self.queries, height, width]);
        let shares = self.out.forward(&ranges).softmax(1, Kind::Float);
        let depth = (shares * centres.view([batch, inner, 1, 1])).sum_dim_intlist(1, true, Kind::Float);
        Bins {
            edges,
            centres,
            depth,
        }
    }

    fn edges(&self, token: &Tensor) -> Tensor {
        let [first, second, third] = &self.widths;
        let raw = third.forward(&second.forward(&first.forward(token).leaky_relu()).leaky_relu());
        // No bin may vanish: the constant keeps each at least 0.1 wide before normalisation.
        let widths = raw.relu() + 0.1;
        let shares = &widths / widths.sum_dim_intlist(1, true, Kind::Float);
        let upto = shares.cumsum(1, Kind::Float);
        let (low, high) = (f64::from(self.range.min_m), f64::from(self.range.cap_m));
        let upper = match self.spacing {
            Spacing::Linear => upto * (high - low) + low,
            Spacing::Log => (upto * (high / low).ln() + low.ln()).exp(),
        };
        let batch = token.size().first().copied().unwrap_or(0);
        let lowest = Tensor::full([batch, 1], low, (Kind::Float, token.device()));
        // Rounding may carry the last edge past the range's end.
        Tensor::cat(&[lowest, upper.clamp(low, high)], 1)
    }
}

/// One post-norm transformer encoder layer.
#[derive(Debug)]
struct Layer {
    query_key_value: nn::Linear,
    joined: nn::Linear,
    norm1: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
    norm2: nn::LayerNorm,
    heads: i64,
    dropout: f64,
}

impl Layer {
    fn new(path: &nn::Path, config: &BinsConfig) -> Self {
        let (embed, wide) = (size(config.embed), size(config.feedforward));
        let linear = |name: &str, a, b| nn::linear(path / name, a, b, nn::LinearConfig::default());
        let norm = |name: &str| nn::layer_norm(path / name, vec![embed], nn::LayerNormConfig::default());
        Self {
            query_key_value: linear("qkv", embed, 3 * embed),
            joined: linear("joined", embed, embed),
            norm1: norm("norm1"),
            up: linear("up", embed, wide),
            down: linear("down", wide, embed),
            norm2: norm("norm2"),
            heads: size(config.heads),
            dropout: config.dropout,
        }
    }

    fn forward(&self, tokens: &Tensor, pass: &mut Pass) -> Tensor {
        let (batch, count, embed) = tokens.size3().unwrap_or_default();
        let each = embed / self.heads.max(1);
        // [3, B, heads, tokens, each]
        let parts = self
            .query_key_value
            .forward(tokens)
            .view([batch, count, 3, self.heads, each])
            .permute([2, 0, 3, 1, 4]);
        let (query, key, value) = (parts.select(0, 0), parts.select(0, 1), parts.select(0, 2));
        #[expect(clippy::cast_precision_loss, reason = "a head's width is small")]
        let scale = 1.0 / (each as f64).sqrt();
        let attention = (query.matmul(&key.transpose(-2, -1)) * scale).softmax(-1, Kind::Float);
        let attention = pass.dropout(attention, self.dropout);
        let mixed = attention
            .matmul(&value)
            .transpose(1, 2)
            .reshape([batch, count, embed]);
        let mixed = pass.dropout(self.joined.forward(&mixed), self.dropout);
        let tokens = self.norm1.forward(&(tokens + mixed));
        let wide = pass.dropout(self.up.forward(&tokens).relu(), self.dropout);
        let more = pass.dropout(self.down.forward(&wide), self.dropout);
        self.norm2.forward(&(&tokens + more))
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, nn::VarStore};

    use super::*;
    use crate::torch::initial::draw;

    fn config(spacing: Spacing) -> BinsConfig {
        BinsConfig {
            count: 16,
            embed: 8,
            patch: 4,
            queries: 4,
            positions: 12,
            layers: 1,
            heads: 2,
            feedforward: 16,
            hidden: 16,
            dropout: 0.0,
            spacing,
        }
    }

    fn head(spacing: Spacing, range: DepthRange, seed: u64) -> BinsHead {
        let store = VarStore::new(Device::Cpu);
        let head = BinsHead::new(&(store.root() / "bins"), &config(spacing), 6, range);
        draw(&store, seed).unwrap();
        head
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(tensor.flatten(0, -1)).unwrap()
    }

    #[test]
    fn edges_span_the_range_and_depth_stays_inside() {
        let ramp = Tensor::arange(2 * 6 * 16 * 12, (Kind::Float, Device::Cpu)).view([2, 6, 12, 16]);
        for range in [
            DepthRange {
                min_m: 0.2,
                cap_m: 80.0,
            },
            DepthRange {
                min_m: 1e-3,
                cap_m: 10.0,
            },
        ] {
            for spacing in [Spacing::Linear, Spacing::Log] {
                for scale in [0.0, 0.01, 1.0, 1e4] {
                    let bins =
                        head(spacing, range, 3).forward(&((&ramp - 1000.0) * scale), &mut Pass::evaluate());
                    for edges in values(&bins.edges).chunks(17) {
                        assert_eq!(edges.first(), Some(&range.min_m));
                        assert!((edges[16] - range.cap_m).abs() < 1e-4 * range.cap_m, "{edges:?}");
                        assert!(edges[16] <= range.cap_m);
                        assert!(edges.windows(2).all(|w| w[0] < w[1]), "{edges:?}");
                    }
                    for depth in values(&bins.depth) {
                        assert!(range.holds(depth), "{depth} with {spacing:?} at {scale}");
                    }
                    assert_eq!(bins.depth.size(), [2, 1, 12, 16]);
                    assert_eq!(bins.centres.size(), [2, 16]);
                }
            }
        }
    }

    #[test]
    fn log_spacing_starts_finer_near_the_camera() {
        let range = DepthRange {
            min_m: 0.2,
            cap_m: 80.0,
        };
        let map = Tensor::zeros([1, 6, 12, 16], (Kind::Float, Device::Cpu));
        let near = |spacing| {
            values(
                &head(spacing, range, 1)
                    .forward(&map, &mut Pass::evaluate())
                    .centres,
            )
            .iter()
            .filter(|&&c| c < 4.0)
            .count()
        };
        assert!(near(Spacing::Log) > near(Spacing::Linear));
    }

    #[test]
    fn patch_limits_are_typed() {
        let config = config(Spacing::Linear);
        assert!(config.check(16, 12).is_ok());
        assert!(matches!(
            config.check(20, 12),
            Err(LearnError::TooManyPatches {
                width: 40,
                height: 24,
                patches: 15,
                limit: 12
            })
        ));
        assert!(matches!(
            config.check(8, 8),
            Err(LearnError::TooFewPatches {
                width: 16,
                height: 16,
                patches: 4,
                needed: 5
            })
        ));
        assert!(config.check(20, 4).is_ok(), "exactly the five needed");
    }

    /// The limits of the published head on the inputs that users trip over.
    #[test]
    fn published_limits() {
        let published = BinsConfig::published();
        assert!(published.check(544 / 2, 416 / 2).is_ok());
        assert!(published.check(704 / 2, 352 / 2).is_ok());
        assert!(matches!(
            published.check(1024, 1024),
            Err(LearnError::TooManyPatches { patches: 4096, .. })
        ));
        assert!(matches!(
            published.check(160, 120),
            Err(LearnError::TooFewPatches { needed: 129, .. })
        ));
    }

    #[test]
    fn sizes_must_go_together() {
        let changes: [fn(&mut BinsConfig); 3] = [|c| c.heads = 3, |c| c.count = 0, |c| c.patch = 0];
        for change in changes {
            let mut config = config(Spacing::Linear);
            change(&mut config);
            assert!(matches!(config.check(16, 12), Err(LearnError::Network { .. })));
        }
    }
}
