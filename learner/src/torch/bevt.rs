//! The bird's-eye-view transformer of `FedBEVT`: pictures of any number of cameras to vehicles on a grid.
//!
//! ```text
//! pictures ──encoder──> maps ──┐
//! learned queries ──> [ cross-view attention → 2 bottlenecks → half the size ] a level ──> self-attention ──> decoder ──> head
//! cameras' rays and centres ───┘
//! ```
//!
//! After Song, Xu, Ma and others, "FedBEVT" (2023), on the attention of Xu and others, "`CoBEVT`" (`CoRL` 2022). The
//! published network counts 25,956,208 parameters, of which 513,000 are an image classifier and 578 a second head, both
//! never used; without them 25,442,630, which is what [`BevtConfig::published`] has.
//!
//! * [`views`]: what the network knows of a vehicle's cameras
//! * [`learner`]: [`BevLearner`], which trains one client
//! * [`loss`]: weighted cross entropy

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tch::nn::{self, Module, VarStore};
use tch::{Kind, Tensor};

use crate::bev::personal::Part;
use crate::bev::{Grid, PersonalPart};
use crate::error::LearnError;
use crate::torch::bevt::attention::{SelfAttention, dim};
use crate::torch::bevt::cross_view::{CrossView, View};
use crate::torch::bevt::level::{Bottleneck, Decoder, Downsample};
use crate::torch::bevt::parts::Parts;
use crate::torch::block::{Norm, size};
use crate::torch::initial::draw_as;
pub use crate::torch::resnet::BevEncoder;
use crate::torch::resnet::PictureEncoder;
use crate::torch::store::Store;

mod attention;
mod cross_view;
pub mod learner;
mod level;
pub mod loss;
mod parts;
pub mod views;

pub use learner::{BevLearner, BevLearnerConfig};
pub use views::Views;

/// How rays are computed from K and extrinsics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RayGeometry {
    /// K scaled with the pictures, camera axes turned into ego axes.
    #[default]
    Correct,
    /// As the published code does: K stays that of the recorded pictures, whose size is given, while pixels are those
    /// of the resized ones; and picture axes are multiplied with a matrix for Unreal axes. The embeddings are linear,
    /// so this is a fixed scrambling of each camera, not a failure.
    Legacy {
        /// Width of the recorded pictures (published: 800).
        width: usize,
        /// Height of the recorded pictures (published: 600).
        height: usize,
    },
}

/// Windows of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelConfig {
    /// Side of a query window.
    pub query: usize,
    /// Rows and columns of a key window.
    pub key: (usize, usize),
}

/// All sizes of a network. Every client of a federation uses the same; the number of cameras is no part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BevtConfig {
    /// Width of a picture in pixels.
    pub width: usize,
    /// Height of a picture in pixels.
    pub height: usize,
    /// The grid of labels and scores. The decoder's map is stretched to it if it is another size.
    pub grid: Grid,
    /// Image encoder; its last maps feed the levels.
    pub encoder: BevEncoder,
    /// Normalisation. [`BevEncoder::Resnet34`] always has batch norm.
    pub norm: Norm,
    /// Width of the BEV map (published: 128).
    pub dim: usize,
    /// Attention heads (published: 4).
    pub heads: usize,
    /// Width of a head (published: 32).
    pub per_head: usize,
    /// Side of the query map of the first level (published: 128). Halves from level to level.
    pub query: usize,
    /// Levels (published: three).
    pub levels: Vec<LevelConfig>,
    /// Channels after each doubling of the decoder (published: 128, 64, 32).
    pub decoder: Vec<usize>,
    /// Share of the last attention's weights and outputs set to zero in training (published: 0.1).
    pub dropout: f64,
    /// Start the last attention at each query's neighbourhood instead of at random biases of position.
    ///
    /// That attention has no skip around it: until its biases are learned it blends the whole map into one, and a short
    /// training spends most of its steps on unlearning that. Published: false.
    pub local_start: bool,
    /// How rays are computed.
    pub geometry: RayGeometry,
}

impl BevtConfig {
    /// The published network.
    #[must_use]
    pub fn published() -> Self {
        let level = |query, key| LevelConfig {
            query,
            key: (key, key),
        };
        Self {
            width: 512,
            height: 512,
            grid: Grid::OPV2V,
            encoder: BevEncoder::Resnet34,
            norm: Norm::Batch,
            dim: 128,
            heads: 4,
            per_head: 32,
            query: 128,
            levels: vec![level(16, 8), level(16, 8), level(32, 16)],
            decoder: vec![128, 64, 32],
            dropout: 0.1,
            local_start: false,
            geometry: RayGeometry::Correct,
        }
    }

    /// One level, about 49,000 parameters, 48 × 32 pictures, a map of 20 × 20 cells: trains on one CPU core.
    ///
    /// It normalises over channel groups, because a client with a handful of frames has no batch statistics worth
    /// averaging.
    #[must_use]
    pub fn tiny(grid: Grid) -> Self {
        Self {
            width: 48,
            height: 32,
            grid,
            encoder: BevEncoder::Plain { widths: vec![16, 24] },
            norm: Norm::Group(8),
            dim: 32,
            heads: 2,
            per_head: 16,
            query: 10,
            levels: vec![LevelConfig {
                query: 10,
                key: (8, 12),
            }],
            decoder: vec![16],
            dropout: 0.0,
            local_start: true,
            geometry: RayGeometry::Correct,
        }
    }

    /// Refuses configurations that cannot be built.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] naming the setting, [`LearnError::Geometry`] for the grid.
    pub fn check(&self) -> Result<(), LearnError> {
        let wrong = |what: String| Err(LearnError::Network { what });
        Grid::new(self.grid.cells, self.grid.metres)?;
        let maps = self.encoder.maps();
        if self.levels.is_empty() || self.levels.len() > maps.len() {
            return wrong(format!(
                "bevt.levels lists {} levels but the encoder has {} maps: give 1 to {}",
                self.levels.len(),
                maps.len(),
                maps.len()
            ));
        }
        let last_stride = maps.last().map_or(1, |&(_, stride)| stride);
        for (name, n, of) in [
            ("width", self.width, last_stride),
            ("height", self.height, last_stride),
            ("query", self.query, 1 << (self.levels.len() - 1)),
        ] {
            if n == 0 || !n.is_multiple_of(of) {
                return wrong(format!(
                    "bevt.{name} is {n} but must be a positive multiple of {of}"
                ));
            }
        }
        if self.heads == 0 || self.per_head == 0 || self.decoder.is_empty() {
            return wrong(
                "bevt.heads and bevt.per_head must be at least 1, and bevt.decoder list a width".to_owned(),
            );
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return wrong(format!("bevt.dropout is {} but must lie in 0..1", self.dropout));
        }
        if self.dim == 0 || !self.dim.is_multiple_of(4) {
            return wrong(format!("bevt.dim is {} but must be a multiple of 4", self.dim));
        }
        let widths = maps
            .iter()
            .map(|&(width, _)| width)
            .chain(self.decoder.iter().copied());
        for width in widths.chain([self.dim, self.dim / 4]) {
            if width == 0 {
                return wrong("bevt widths must be at least 1".to_owned());
            }
            if let Norm::Group(channels) = self.norm
                && (channels == 0 || !width.is_multiple_of(channels))
            {
                return wrong(format!(
                    "bevt: width {width} is no multiple of the {channels} channels of a norm's group"
                ));
            }
        }
        let sides = self.query_sides();
        for (i, ((level, &side), (_, rows, columns))) in
            self.levels.iter().zip(&sides).zip(self.level_maps()).enumerate()
        {
            let (key_rows, key_columns) = level.key;
            if level.query == 0 || key_rows == 0 || key_columns == 0 || !side.is_multiple_of(level.query) {
                return wrong(format!(
                    "bevt.levels[{i}]: a query window of {} does not divide the query map of {side}",
                    level.query
                ));
            }
            let queries = (side / level.query).pow(2);
            let keys = rows.div_ceil(key_rows) * columns.div_ceil(key_columns);
            if queries != keys {
                return wrong(format!(
                    "bevt.levels[{i}] has {queries} query windows but {keys} key windows over a {rows}x{columns} map: the counts must agree"
                ));
            }
        }
        Ok(())
    }

    /// Sides of the query maps of all levels.
    #[must_use]
    pub fn query_sides(&self) -> Vec<usize> {
        (0..self.levels.len()).map(|i| self.query >> i).collect()
    }

    /// Channels, rows and columns of the feature map of every level.
    #[must_use]
    pub fn level_maps(&self) -> Vec<(usize, usize, usize)> {
        let maps = self.encoder.maps();
        let skip = maps.len().saturating_sub(self.levels.len());
        maps.iter()
            .skip(skip)
            .map(|&(channels, stride)| (channels, self.height / stride, self.width / stride))
            .collect()
    }
}

/// The network. Its tensors live in the store that it was built in.
#[derive(Debug)]
pub struct Bevt {
    config: BevtConfig,
    encoder: PictureEncoder,
    query: Tensor,
    levels: Vec<Level>,
    last: SelfAttention,
    decoder: Decoder,
    head: nn::Conv2D,
    owners: BTreeMap<String, Part>,
}

#[derive(Debug)]
struct Level {
    cross: CrossView,
    bottlenecks: [Bottleneck; 2],
    down: Option<Downsample>,
}

impl Bevt {
    /// Adds the network's tensors to a store, at any path of it.
    ///
    /// # Errors
    ///
    /// As [`BevtConfig::check`].
    pub fn new(vars: &VarStore, path: &nn::Path, config: &BevtConfig) -> Result<Self, LearnError> {
        config.check()?;
        let mut parts = Parts::new(vars);
        let (width, sides) = (size(config.dim), config.query_sides());
        let encoder = parts.claim(Part::Encoder, || {
            PictureEncoder::new(&(path / "encoder"), &config.encoder, config.norm)
        });
        let first = size(config.query);
        let query = parts.claim(Part::Query, || path.zeros("query", &[width, first, first]));
        let mut levels = Vec::new();
        for (i, (&(channels, ..), &side)) in config.level_maps().iter().zip(&sides).enumerate() {
            let own = path / format!("level{}", i + 1);
            levels.push(Level {
                cross: CrossView::new(&(&own / "cross"), &mut parts, config, i, channels, side),
                bottlenecks: parts.claim(Part::Fusion, || {
                    ["bottleneck1", "bottleneck2"]
                        .map(|name| Bottleneck::new(&(&own / name), width, config.norm))
                }),
                down: (i + 1 < sides.len()).then(|| {
                    parts.claim(Part::Fusion, || {
                        Downsample::new(&(&own / "down"), width, config.norm)
                    })
                }),
            });
        }
        let side = sides.last().copied().unwrap_or(config.query);
        let last = parts.claim(Part::Attention, || {
            let own = path / "self";
            SelfAttention::new(
                &own,
                config.dim,
                config.heads,
                config.per_head,
                side,
                config.dropout,
            )
        });
        let decoder = parts.claim(Part::Decoder, || {
            Decoder::new(&(path / "decoder"), config.dim, &config.decoder, config.norm)
        });
        let head = parts.claim(Part::Head, || {
            let from = size(config.decoder.last().copied().unwrap_or(1));
            let same = nn::ConvConfig {
                padding: 1,
                ..nn::ConvConfig::default()
            };
            nn::conv2d(path / "head" / "out", from, 2, 3, same)
        });
        Ok(Self {
            config: config.clone(),
            encoder,
            query,
            levels,
            last,
            decoder,
            head,
            owners: parts.finish(),
        })
    }

    /// Logits `[B, 2, cells, cells]`, background and vehicle, from pictures `[B, M, 3, H, W]`, normalised.
    pub fn forward(&self, pictures: &Tensor, views: &Views, train: bool) -> Tensor {
        let sizes = pictures.size();
        let (batch, cameras) = (dim(&sizes, 0), dim(&sizes, 1));
        let maps = self.encoder.forward(&pictures.flatten(0, 1), train);
        let skip = maps.len().saturating_sub(self.levels.len());
        debug_assert_eq!(cameras, views.cameras());
        let (width, side) = (size(self.config.dim), size(self.config.query));
        let mut map = self.query.unsqueeze(0).expand([batch, width, side, side], false);
        for (i, (level, features)) in self.levels.iter().zip(maps.iter().skip(skip)).enumerate() {
            let Some(rays) = views.rays.get(i) else { break };
            let view = View {
                rays,
                centres: &views.centres,
                places: &views.places,
                seen: views.seen.get(i).and_then(Option::as_ref),
            };
            map = level.cross.forward(&map, features, &view, train);
            for bottleneck in &level.bottlenecks {
                map = bottleneck.forward(&map, train);
            }
            if let Some(down) = &level.down {
                map = down.forward(&map, train);
            }
        }
        let seen = views.seen.last().and_then(Option::as_ref);
        let map = self.last.forward(&map, seen, train);
        let logits = self.head.forward(&self.decoder.forward(&map, train));
        let cells = size(self.config.grid.cells);
        if dim(&logits.size(), 2) == cells {
            return logits;
        }
        logits.upsample_bilinear2d([cells, cells], false, None, None)
    }

    /// Which part each tensor belongs to, by its name in the store.
    #[must_use]
    pub fn parts(&self) -> &BTreeMap<String, Part> {
        &self.owners
    }
}

/// A network with its tensors sorted into what travels and what stays.
pub(crate) struct Built {
    pub(crate) network: Bevt,
    pub(crate) store: Store,
}

/// Builds the network at its common start: every tensor drawn from `seed`, whoever keeps it. With `own_seed` the tensors
/// that stay are drawn from that one instead.
pub(crate) fn build(
    config: &BevtConfig,
    personal: PersonalPart,
    device: tch::Device,
    seed: u64,
    own_seed: Option<u64>,
) -> Result<Built, LearnError> {
    let (vars, network) = drawn(config, device, seed)?;
    let stays = |name: &str| network.owners.get(name).is_none_or(|part| personal.keeps(*part));
    if let Some(own) = own_seed {
        let (other, _) = drawn(config, device, own)?;
        let source = other.variables();
        for (name, tensor) in vars.variables() {
            if let Some(own) = source.get(&name).filter(|_| stays(&name)) {
                tch::no_grad(|| tensor.shallow_clone().f_copy_(own))?;
            }
        }
    }
    // A client that keeps everything still has to send something.
    let before: BTreeSet<String> = vars.variables().into_keys().collect();
    if personal == PersonalPart::Everything {
        let _ = vars.root().zeros_no_train("alone", &[1]);
    }
    let store = Store::classified(vars, |name| before.contains(name) && stays(name))?;
    Ok(Built { network, store })
}

fn drawn(config: &BevtConfig, device: tch::Device, seed: u64) -> Result<(VarStore, Bevt), LearnError> {
    let vars = VarStore::new(device);
    let network = Bevt::new(&vars, &vars.root(), config)?;
    let queries: BTreeSet<&String> = network
        .owners
        .iter()
        .filter(|(_, part)| **part == Part::Query)
        .map(|(name, _)| name)
        .collect();
    // Published: queries and biases of relative positions from normal distributions of deviation 1.
    let wide = |name: &str| queries.iter().any(|query| *query == name) || name.ends_with("relative");
    draw_as(&vars, seed, |name, _| wide(name).then_some(1.0))?;
    if config.local_start {
        network.last.start_local()?;
    }
    Ok((vars, network))
}

/// Bytes `[B, M, H, W, 3]` to what the network takes: `[B, M, 3, H, W]`, scaled to 0..1, mean and deviation of natural
/// pictures removed.
pub fn normalise(bytes: &Tensor) -> Tensor {
    let device = bytes.device();
    let channel = |values: [f32; 3]| {
        Tensor::from_slice(&values)
            .to_device(device)
            .view([1, 1, 3, 1, 1])
    };
    let scaled = bytes.permute([0, 1, 4, 2, 3]).to_kind(Kind::Float) / 255.0;
    ((scaled - channel([0.485, 0.456, 0.406])) / channel([0.229, 0.224, 0.225])).contiguous()
}

#[cfg(test)]
mod tests;
