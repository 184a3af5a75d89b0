//! Where tensors live.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where tensors live: `auto`, `cpu` or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The first CUDA device if there is one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The CUDA device with this number.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let number = |digits: &str| {
            // `parse` alone would take "+1".
            digits
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| digits.parse().ok())
                .flatten()
        };
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            _ => text
                .strip_prefix("cuda:")
                .and_then(number)
                .map(Self::Cuda)
                .ok_or_else(|| DeviceError::Unknown {
                    text: text.chars().take(40).collect(),
                }),
        }
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = DeviceError;

    fn try_from(text: String) -> Result<Self, DeviceError> {
        text.parse()
    }
}

impl From<DeviceChoice> for String {
    fn from(device: DeviceChoice) -> Self {
        device.to_string()
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(n) => write!(f, "cuda:{n}"),
        }
    }
}

/// A device that is misspelt or absent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Not a device name.
    #[error(
        "'{text}' is no device: write device = \"auto\", \"cpu\" or \"cuda:N\" with a number such as \"cuda:0\""
    )]
    Unknown {
        /// The text, cut to 40 characters.
        text: String,
    },
    /// The machine has fewer CUDA devices.
    #[error(
        "device \"cuda:{wanted}\" was asked for but libtorch sees {found} CUDA device(s): use \"auto\" or \"cpu\", or install a CUDA build of libtorch"
    )]
    Absent {
        /// Number asked for.
        wanted: usize,
        /// Devices seen.
        found: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for text in ["auto", "cpu", "cuda:0", "cuda:12"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
            let json = format!("\"{text}\"");
            assert_eq!(
                serde_json::to_string(&serde_json::from_str::<DeviceChoice>(&json).unwrap()).unwrap(),
                json
            );
        }
    }

    #[test]
    fn other_names_are_refused_with_the_right_ones() {
        for text in [
            "",
            "gpu",
            "cuda",
            "cuda:",
            "cuda:x",
            "cuda:-1",
            "cuda:+1",
            "CPU",
            " cpu",
            "cuda:99999999999999999999",
        ] {
            let error = text.parse::<DeviceChoice>().unwrap_err();
            assert!(matches!(error, DeviceError::Unknown { .. }));
            assert!(error.to_string().contains("cuda:N"), "{error}");
        }
    }
}
