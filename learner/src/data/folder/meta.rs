//! `meta.json`.

use std::path::Path;

use serde::Deserialize;

use crate::data::DataError;
use crate::data::folder::{DepthScale, FolderOptions};
use crate::metrics::DepthRange;

/// The keys of `meta.json` that the reader uses; all may be missing.
#[derive(Default, Deserialize)]
pub(crate) struct Meta {
    pub(crate) name: Option<String>,
    depth_scale: Option<f64>,
    depth_min_m: Option<f32>,
    depth_max_m: Option<f32>,
}

impl Meta {
    pub(crate) fn read(dir: &Path) -> Result<Self, DataError> {
        let path = dir.join("meta.json");
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| DataError::Meta {
                path,
                reason: e.to_string(),
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(DataError::Io { path, source }),
        }
    }

    pub(crate) fn scale(&self, dir: &Path, config: Option<DepthScale>) -> Result<DepthScale, DataError> {
        let meta = match self.depth_scale {
            None => None,
            Some(units) => Some(DepthScale::from_units(units).ok_or_else(|| DataError::Meta {
                path: dir.join("meta.json"),
                reason: format!("depth_scale is {units} but must be a positive number of units a metre"),
            })?),
        };
        match (config, meta) {
            (Some(config), Some(meta)) if !config.has(meta.units_per_metre()) => {
                Err(DataError::ScaleConflict {
                    path: dir.to_owned(),
                    meta: meta.units_per_metre(),
                    config,
                })
            }
            (Some(scale), _) | (None, Some(scale)) => Ok(scale),
            (None, None) => Err(DataError::NoScale { path: dir.to_owned() }),
        }
    }

    pub(crate) fn range(&self, options: &FolderOptions, scale: DepthScale) -> Result<DepthRange, DataError> {
        let usual = if scale == DepthScale::Nyu {
            DepthRange::NYU
        } else {
            DepthRange::KITTI
        };
        let min_m = options.min_m.or(self.depth_min_m).unwrap_or(usual.min_m);
        let cap_m = options.cap_m.or(self.depth_max_m).unwrap_or(usual.cap_m);
        DepthRange::new(min_m, cap_m).map_err(|e| DataError::Settings { what: e.to_string() })
    }
}
