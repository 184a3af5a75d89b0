//! Under which names other people's files hold the tensors of our networks.

use std::str::FromStr;

use crate::error::LearnError;
use crate::torch::network::NetworkKind;

/// Who wrote a file, and so what its tensors are called. `docs/networks.md` has the maps as tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// This crate: a whole network.
    Own,
    /// The network's published code: a whole network.
    Official,
    /// timm 0.9 or newer: an image classifier, of which the encoder is used (`tf_efficientnet_b5…`, `swin_…`).
    Timm,
    /// torchvision: an image classifier, of which the encoder is used (`swin_t`, `swin_b`).
    Torchvision,
    /// The Swin transformer's own release: an image classifier, of which the encoder is used.
    Swin,
}

impl FromStr for Names {
    type Err = LearnError;

    fn from_str(name: &str) -> Result<Self, LearnError> {
        match name {
            "own" => Ok(Self::Own),
            "official" => Ok(Self::Official),
            "timm" => Ok(Self::Timm),
            "torchvision" => Ok(Self::Torchvision),
            "swin" => Ok(Self::Swin),
            _ => Err(LearnError::Network {
                what: format!(
                    "there is no map for tensor names '{name}': choose one of own, official, timm, torchvision, swin"
                ),
            }),
        }
    }
}

/// What a tensor of a file is to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The network's tensor of this name.
    Tensor(String),
    /// Known, and of no use here: a classifier's head, a counter, a constant.
    Unused,
    /// Not known.
    Unknown,
}

impl Names {
    /// Whether such files hold only an encoder.
    pub(crate) fn encoder_only(self) -> bool {
        match self {
            Self::Own | Self::Official => false,
            Self::Timm | Self::Torchvision | Self::Swin => true,
        }
    }

    /// What a file's tensor is to a network.
    ///
    /// # Errors
    ///
    /// [`LearnError::Network`] if there is no map for this network.
    pub(crate) fn meaning(self, kind: NetworkKind, name: &str) -> Result<Meaning, LearnError> {
        let constant = [
            "num_batches_tracked",
            "relative_position_index",
            "attn_mask",
            "_dct_mtx",
        ];
        if constant.iter().any(|end| name.ends_with(end)) {
            return Ok(Meaning::Unused);
        }
        // What wrappers for several devices put before every name.
        let name = name.strip_prefix("module.").unwrap_or(name);
        let swin = kind != NetworkKind::AdaBins;
        let found = match (self, swin) {
            (Self::Own, _) => Some(name.to_owned()),
            (Self::Official, _) => match kind {
                NetworkKind::AdaBins => adabins(name),
                NetworkKind::NewCrfs => newcrfs(name),
                NetworkKind::DcDepth => dcdepth(name.strip_prefix("model.").unwrap_or(name)),
            },
            (Self::Timm, false) => efficientnet(name),
            (Self::Timm, true) => timm_swin(name),
            (Self::Torchvision, true) => torchvision_swin(name),
            (Self::Swin, true) => released_swin(name),
            (Self::Torchvision | Self::Swin, false) => {
                return Err(LearnError::Network {
                    what: "AdaBins' encoder is an EfficientNet-B5 with TensorFlow's padding, which only timm (tf_efficientnet_b5) and the official code have: choose timm or official"
                        .to_owned(),
                });
            }
        };
        Ok(match found {
            Some(name) if name.is_empty() => Meaning::Unused,
            Some(name) => Meaning::Tensor(name),
            None => Meaning::Unknown,
        })
    }
}

/// An empty name stands for a tensor of no use.
const UNUSED: fn() -> Option<String> = || Some(String::new());

/// The name with one of several beginnings exchanged.
fn exchanged(name: &str, beginnings: &[(&str, &str)]) -> Option<String> {
    beginnings
        .iter()
        .find_map(|(theirs, ours)| name.strip_prefix(theirs).map(|rest| format!("{ours}{rest}")))
}

fn starts(name: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|b| name.starts_with(b))
}

fn efficientnet(name: &str) -> Option<String> {
    if starts(name, &["bn2.", "classifier.", "global_pool."]) {
        return UNUSED();
    }
    starts(name, &["conv_stem.", "bn1.", "blocks.", "conv_head."]).then(|| format!("encoder.{name}"))
}

fn adabins(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("encoder.original_model.") {
        return efficientnet(rest);
    }
    if let Some(rest) = name.strip_prefix("decoder.up") {
        let (block, rest) = rest.split_once("._net.")?;
        let (layer, rest) = rest.split_once('.')?;
        let layer = match layer {
            "0" => "conv1.conv",
            "1" => "conv1.norm",
            "3" => "conv2.conv",
            "4" => "conv2.norm",
            _ => return None,
        };
        return Some(format!("decoder.up{block}.{layer}.{rest}"));
    }
    let head = "adaptive_bins_layer.patch_transformer.";
    if let Some(rest) = name.strip_prefix(head) {
        if rest == "positional_encodings" {
            return Some("bins.positions".to_owned());
        }
        if let Some(rest) = rest.strip_prefix("embedding_convPxP.") {
            return Some(format!("bins.patches.{rest}"));
        }
        let (layer, rest) = rest
            .strip_prefix("transformer_encoder.layers.")?
            .split_once('.')?;
        let layer: usize = layer.parse().ok()?;
        let rest = exchanged(
            rest,
            &[
                ("self_attn.in_proj_", "qkv."),
                ("self_attn.out_proj.", "joined."),
                ("linear1.", "up."),
                ("linear2.", "down."),
                ("norm1.", "norm1."),
                ("norm2.", "norm2."),
            ],
        )?;
        return Some(format!("bins.layer{}.{rest}", layer.checked_add(1)?));
    }
    exchanged(
        name,
        &[
            ("decoder.conv2.", "decoder.bottleneck."),
            ("decoder.conv3.", "decoder.last."),
            ("adaptive_bins_layer.conv3x3.", "bins.features."),
            ("adaptive_bins_layer.regressor.0.", "bins.widths.first."),
            ("adaptive_bins_layer.regressor.2.", "bins.widths.second."),
            ("adaptive_bins_layer.regressor.4.", "bins.widths.third."),
            ("conv_out.0.", "bins.out."),
        ],
    )
}

fn newcrfs(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("decoder.psp_modules.") {
        let (pool, rest) = rest.split_once(".1.")?;
        let rest = exchanged(rest, &[("conv.", "conv."), ("gn.", "norm.")])?;
        return Some(format!("pyramid.pools.{pool}.{rest}"));
    }
    exchanged(
        name,
        &[
            ("backbone.", "encoder."),
            ("decoder.bottleneck.conv.", "pyramid.join.conv."),
            ("decoder.bottleneck.bn.", "pyramid.join.norm."),
            ("disp_head1.conv1.", "head.out."),
            ("crf", "crf"),
        ],
    )
}

fn dcdepth(name: &str) -> Option<String> {
    let constants = [
        "update._indices_",
        "update._cum_indices_",
        "update.freq_reg.",
        "si_log.",
    ];
    if starts(name, &constants) {
        return UNUSED();
    }
    exchanged(
        name,
        &[
            ("backbone.", "encoder."),
            ("project_", "update.project_"),
            ("decoder.", "decoder."),
            ("update.", "update."),
            ("crf", "crf"),
        ],
    )
}

fn released_swin(name: &str) -> Option<String> {
    if starts(name, &["norm.", "head."]) {
        return UNUSED();
    }
    starts(name, &["patch_embed.", "layers."]).then(|| format!("encoder.{name}"))
}

/// timm counts a stage's merging to the stage after it.
fn timm_swin(name: &str) -> Option<String> {
    let Some((stage, rest)) = name
        .strip_prefix("layers.")
        .and_then(|rest| rest.split_once(".downsample."))
    else {
        return released_swin(name);
    };
    let stage = stage.parse::<usize>().ok()?.checked_sub(1)?;
    Some(format!("encoder.layers.{stage}.downsample.{rest}"))
}

/// torchvision numbers the first layer, stages and mergings in one row.
fn torchvision_swin(name: &str) -> Option<String> {
    if starts(name, &["norm.", "head."]) {
        return UNUSED();
    }
    let (number, rest) = name.strip_prefix("features.")?.split_once('.')?;
    match number.parse::<usize>().ok()? {
        0 => exchanged(
            rest,
            &[
                ("0.", "encoder.patch_embed.proj."),
                ("2.", "encoder.patch_embed.norm."),
            ],
        ),
        number if number % 2 == 1 => {
            let rest = rest
                .replace(".mlp.0.", ".mlp.fc1.")
                .replace(".mlp.3.", ".mlp.fc2.");
            Some(format!("encoder.layers.{}.blocks.{rest}", number / 2))
        }
        number => Some(format!("encoder.layers.{}.downsample.{rest}", number / 2 - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: Names, kind: NetworkKind, name: &str) -> Option<String> {
        match names.meaning(kind, name).unwrap() {
            Meaning::Tensor(name) => Some(name),
            Meaning::Unused => Some(String::new()),
            Meaning::Unknown => None,
        }
    }

    #[test]
    fn each_map_by_example() {
        use NetworkKind::{AdaBins, DcDepth, NewCrfs};
        let cases = [
            (
                Names::Official,
                AdaBins,
                "module.decoder.up3._net.4.running_mean",
                "decoder.up3.conv2.norm.running_mean",
            ),
            (
                Names::Official,
                AdaBins,
                "adaptive_bins_layer.patch_transformer.transformer_encoder.layers.3.self_attn.in_proj_bias",
                "bins.layer4.qkv.bias",
            ),
            (
                Names::Official,
                AdaBins,
                "encoder.original_model.blocks.2.1.se.conv_reduce.bias",
                "encoder.blocks.2.1.se.conv_reduce.bias",
            ),
            (Names::Official, AdaBins, "encoder.original_model.bn2.weight", ""),
            (
                Names::Official,
                NewCrfs,
                "decoder.psp_modules.2.1.gn.weight",
                "pyramid.pools.2.norm.weight",
            ),
            (
                Names::Official,
                NewCrfs,
                "backbone.norm3.weight",
                "encoder.norm3.weight",
            ),
            (
                Names::Official,
                DcDepth,
                "model.project_context.conv2.1.weight",
                "update.project_context.conv2.1.weight",
            ),
            (Names::Official, DcDepth, "update._indices_3", ""),
            (
                Names::Timm,
                NewCrfs,
                "layers.1.downsample.reduction.weight",
                "encoder.layers.0.downsample.reduction.weight",
            ),
            (Names::Timm, AdaBins, "classifier.weight", ""),
            (
                Names::Torchvision,
                DcDepth,
                "features.5.3.mlp.3.weight",
                "encoder.layers.2.blocks.3.mlp.fc2.weight",
            ),
            (
                Names::Torchvision,
                DcDepth,
                "features.6.norm.bias",
                "encoder.layers.2.downsample.norm.bias",
            ),
            (Names::Swin, NewCrfs, "layers.0.blocks.1.attn_mask", ""),
            (
                Names::Swin,
                NewCrfs,
                "layers.0.downsample.norm.bias",
                "encoder.layers.0.downsample.norm.bias",
            ),
        ];
        for (names, kind, theirs, ours) in cases {
            assert_eq!(of(names, kind, theirs).as_deref(), Some(ours), "{theirs}");
        }
    }

    #[test]
    fn strange_names_are_unknown_and_never_panic() {
        for kind in [NetworkKind::AdaBins, NetworkKind::NewCrfs, NetworkKind::DcDepth] {
            for names in [Names::Official, Names::Timm] {
                for name in [
                    "",
                    ".",
                    "layers.0.downsample.x",
                    "layers.x.downsample.y",
                    "features.",
                    "decoder.up",
                    "module.",
                    "decoder.psp_modules.",
                    "adaptive_bins_layer.patch_transformer.transformer_encoder.layers.99999999999999999999.norm1.weight",
                ] {
                    let _ = names.meaning(kind, name).unwrap();
                }
            }
        }
        assert_eq!(
            of(Names::Timm, NetworkKind::NewCrfs, "layers.0.downsample.x"),
            None
        );
        assert_eq!(
            of(Names::Official, NetworkKind::AdaBins, "decoder.up1._net.7.weight"),
            None
        );
        let error = Names::Torchvision
            .meaning(NetworkKind::AdaBins, "features.0.0.0.weight")
            .unwrap_err();
        assert!(error.to_string().contains("timm"), "{error}");
        assert!(
            "keras"
                .parse::<Names>()
                .unwrap_err()
                .to_string()
                .contains("'keras'")
        );
    }
}
