//! What one unit of a depth file means.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::data::DataError;

/// What one unit of a depth PNG means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DepthScale {
    /// 256 units a metre (KITTI depth annotations).
    Kitti,
    /// 1000 units a metre (NYU Depth v2 "sync" folders).
    Nyu,
    /// So many units a metre.
    PerMetre(f64),
}

impl DepthScale {
    /// Units a metre.
    #[must_use]
    pub fn units_per_metre(self) -> f64 {
        match self {
            Self::Kitti => 256.0,
            Self::Nyu => 1000.0,
            Self::PerMetre(units) => units,
        }
    }

    pub(crate) fn from_units(units: f64) -> Option<Self> {
        let named = [Self::Kitti, Self::Nyu]
            .into_iter()
            .find(|scale| scale.has(units));
        named.or_else(|| (units.is_finite() && units > 0.0).then_some(Self::PerMetre(units)))
    }

    #[expect(clippy::float_cmp, reason = "the same number written twice, not a result")]
    pub(crate) fn has(self, units: f64) -> bool {
        self.units_per_metre() == units
    }

    pub(crate) fn alternative(self) -> &'static str {
        match self {
            Self::Kitti => "nyu",
            Self::Nyu => "kitti",
            Self::PerMetre(_) => "kitti or nyu",
        }
    }
}

impl FromStr for DepthScale {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "kitti" => Ok(Self::Kitti),
            "nyu" => Ok(Self::Nyu),
            _ => text
                .parse()
                .ok()
                .and_then(Self::from_units)
                .ok_or_else(|| DataError::UnknownScale {
                    text: text.chars().take(40).collect(),
                }),
        }
    }
}

impl TryFrom<String> for DepthScale {
    type Error = DataError;

    fn try_from(text: String) -> Result<Self, DataError> {
        text.parse()
    }
}

impl From<DepthScale> for String {
    fn from(scale: DepthScale) -> Self {
        match scale {
            DepthScale::Kitti => "kitti".to_owned(),
            DepthScale::Nyu => "nyu".to_owned(),
            DepthScale::PerMetre(units) => units.to_string(),
        }
    }
}

impl fmt::Display for DepthScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kitti => f.write_str("kitti (value / 256 m)"),
            Self::Nyu => f.write_str("nyu (millimetres)"),
            Self::PerMetre(units) => write!(f, "value / {units} m"),
        }
    }
}
