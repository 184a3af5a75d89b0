//! One level of cross-view attention: the BEV map asks all cameras' feature maps.
//!
//! After Xu and others, "`CoBEVT`" (`CoRL` 2022), section 3.1, as `FedBEVT` uses it.

use tch::Tensor;
use tch::nn::{self, Module};

use crate::bev::personal::Part;
use crate::torch::bevt::BevtConfig;
use crate::torch::bevt::attention::{
    Perceptron, Window, WindowAttention, blocks, combs, dim, join, norm, pad,
};
use crate::torch::bevt::parts::Parts;
use crate::torch::block::{Norm, NormLayer, size};

/// The level.
#[derive(Debug)]
pub(crate) struct CrossView {
    /// The camera's place, 4 → D, and its rays, 4 → D. Linear, without bias: what `FedCaP` keeps at the client.
    centre_embed: nn::Conv2D,
    ray_embed: nn::Conv2D,
    /// The queries' places, 2 → D; at the first level only.
    place_embed: Option<nn::Conv2D>,
    key: Projection,
    value: Projection,
    attend: [WindowAttention; 2],
    perceptrons: [Perceptron; 2],
    last: nn::LayerNorm,
    query_window: Window,
    key_window: Window,
    side: i64,
    width: i64,
}

/// Norm, `ReLU` and a 1 × 1 convolution.
#[derive(Debug)]
struct Projection {
    norm: NormLayer,
    conv: nn::Conv2D,
}

impl Projection {
    fn new(path: &nn::Path, from: usize, to: i64, kind: Norm) -> Self {
        Self {
            norm: NormLayer::new(&(path / "norm"), size(from), kind),
            conv: point(&(path / "conv"), size(from), to, false),
        }
    }

    fn forward(&self, map: &Tensor, train: bool) -> Tensor {
        self.conv.forward(&self.norm.forward(map, train).relu())
    }
}

impl CrossView {
    /// Level `level` over feature maps of `channels`, with a query map of `side`.
    pub(crate) fn new(
        path: &nn::Path,
        parts: &mut Parts<'_>,
        config: &BevtConfig,
        level: usize,
        channels: usize,
        side: usize,
    ) -> Self {
        let width = size(config.dim);
        let windows = config.levels.get(level).copied().unwrap_or_default();
        let window = |(rows, columns): (usize, usize)| (size(rows), size(columns));
        let attention =
            |name: &str| WindowAttention::new(&(path / name), config.dim, config.heads, config.per_head);
        Self {
            centre_embed: parts.claim(Part::CameraEmbedding, || {
                point(&(path / "cam_embed"), 4, width, false)
            }),
            ray_embed: parts.claim(Part::CameraEmbedding, || {
                point(&(path / "img_embed"), 4, width, false)
            }),
            place_embed: (level == 0)
                .then(|| parts.claim(Part::Fusion, || point(&(path / "bev_embed"), 2, width, true))),
            key: parts.claim(Part::Fusion, || {
                Projection::new(&(path / "key"), channels, width, config.norm)
            }),
            value: parts.claim(Part::Fusion, || {
                Projection::new(&(path / "value"), channels, width, config.norm)
            }),
            attend: parts.claim(Part::Attention, || [attention("attend1"), attention("attend2")]),
            perceptrons: parts.claim(Part::Fusion, || {
                ["mlp1", "mlp2"].map(|name| Perceptron::new(&(path / name), config.dim))
            }),
            last: parts.claim(Part::Fusion, || norm(&(path / "last"), width)),
            query_window: (size(windows.query), size(windows.query)),
            key_window: window(windows.key),
            side: size(side),
            width,
        }
    }

    /// `map` `[B, D, S, S]`, `features` `[B · M, C, h, w]`, `rays` `[M, 4, h, w]`, `centres` `[M, 4, 1, 1]`, `places`
    /// `[1, 2, S₀, S₀]`, `seen` `[S · S]`. Unseen queries attend to nothing.
    pub(crate) fn forward(&self, map: &Tensor, features: &Tensor, view: &View<'_>, train: bool) -> Tensor {
        let cameras = dim(&view.rays.size(), 0);
        let (batch, sizes) = (dim(&map.size(), 0), features.size());
        let (rows, columns) = (dim(&sizes, 2), dim(&sizes, 3));
        let centre = self.centre_embed.forward(view.centres);
        let code = unit(&(self.ray_embed.forward(view.rays) - &centre));
        let per_camera = |map: Tensor| map.view([batch, cameras, self.width, rows, columns]);
        let key = per_camera(self.key.forward(features, train)) + code;
        let value = per_camera(self.value.forward(features, train));
        let (key, value) = (pad(&key, self.key_window), pad(&value, self.key_window));

        let once = map.unsqueeze(1);
        let query = match &self.place_embed {
            Some(embed) => once + unit(&(embed.forward(view.places) - &centre)),
            None => once,
        };
        let seen = view
            .seen
            .map(|seen| seen.to_kind(tch::Kind::Float).view([1, self.side, self.side, 1]));
        let masked = |update: Tensor| match &seen {
            // An unseen query's logits are all minus infinity: it attends to nothing and learns nothing.
            Some(seen) => update * seen,
            None => update,
        };
        let back = map.permute([0, 2, 3, 1]);
        let [first, second] = &self.attend;
        let [mlp1, mlp2] = &self.perceptrons;
        let update = first.forward(
            &blocks(&query, self.query_window),
            &blocks(&key, self.key_window),
            &blocks(&value, self.key_window),
        );
        let x = &back + masked(join(&update, self.side, self.query_window));
        let x = mlp1.forward(&x);
        // The published network attends with one copy of the query for each camera here; all copies are equal.
        let query = x.permute([0, 3, 1, 2]).unsqueeze(1);
        let update = second.forward(
            &blocks(&query, self.query_window),
            &combs(&key, self.key_window),
            &combs(&value, self.key_window),
        );
        let x = x + masked(join(&update, self.side, self.query_window));
        let x = mlp2.forward(&x);
        self.last.forward(&x).permute([0, 3, 1, 2]).contiguous()
    }
}

/// What one level is told of the cameras.
pub(crate) struct View<'a> {
    pub(crate) rays: &'a Tensor,
    pub(crate) centres: &'a Tensor,
    pub(crate) places: &'a Tensor,
    pub(crate) seen: Option<&'a Tensor>,
}

/// Divides by the length over channels.
fn unit(code: &Tensor) -> Tensor {
    // Unlike the root of a sum of squares, this has a gradient at zero.
    let length = code.norm_scalaropt_dim(2, [1_i64], true);
    code / (length + 1e-7)
}

pub(crate) fn point(path: &nn::Path, from: i64, to: i64, bias: bool) -> nn::Conv2D {
    let config = nn::ConvConfig {
        bias,
        ..nn::ConvConfig::default()
    };
    nn::conv2d(path, from, to, 1, config)
}
