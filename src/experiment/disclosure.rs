//! What a strategy's set-up shows of single clients, and who may.

use super::ExperimentError;
use serde::{Deserialize, Serialize};

/// Something derived from one client's data that leaves it unmasked, before the first round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disclosure {
    /// `FeDepth`: mean and variance of pooled features.
    Descriptors,
    /// `FedClust`: the last layer after a few steps of local training, a plain update in small.
    FinalLayerWeights,
    /// `PACFL`: an orthonormal basis of the client's pictures. The first vector is close to the mean picture and can be
    /// looked at.
    DataSubspaces,
}

impl Disclosure {
    /// The name in a configuration's `leave`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::FinalLayerWeights => "final-layer-weights",
            Self::DataSubspaces => "data-subspaces",
        }
    }

    /// What it is, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Descriptors => "mean and variance of each client's pooled features",
            Self::FinalLayerWeights => "each client's last layer after a few steps of local training",
            Self::DataSubspaces => "a basis of each client's pictures, of which the first can be looked at",
        }
    }

    /// Refuses unless there is leave.
    ///
    /// # Errors
    /// [`ExperimentError::Disclosure`].
    pub fn allowed(self, leave: &[Self], strategy: &str) -> Result<(), ExperimentError> {
        if leave.contains(&self) {
            return Ok(());
        }
        Err(ExperimentError::Disclosure {
            strategy: strategy.to_owned(),
            name: self.name(),
            words: self.words(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leave_is_by_name() {
        let leave = [Disclosure::Descriptors];
        assert!(Disclosure::Descriptors.allowed(&leave, "fedepth").is_ok());
        let error = Disclosure::DataSubspaces
            .allowed(&leave, "pacfl")
            .unwrap_err()
            .to_string();
        for part in ["pacfl", "data-subspaces", "leave"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
