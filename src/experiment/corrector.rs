//! Strategies that bend gradients: what a client adds, what it hands in, and what the server makes of the mean.
//!
//! All states are `f64`; clients get and send `f32`. Buffers are no arguments of the functions these methods are about:
//! they are averaged and never corrected. Only sums of what clients hand in are used, so all of them run under masks.

mod feddyn;
mod scaffold;

use super::ExperimentError;
use feddyn::FedDyn;
use scaffold::Scaffold;
use veilsum_learner::{Correction, Layout, LocalOptimiser, TensorClass, Weights};

/// What is added to averaging.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bend {
    /// Nothing: `FedAvg` and whatever only chooses clusters.
    Nothing,
    /// `FedProx` (Li et al. 2020): `μ/2 ‖w − w_global‖²` on every client.
    Prox {
        /// μ.
        mu: f32,
    },
    /// `FedDyn` (Acar et al. 2021), with the same α for every client.
    Dyn {
        /// α.
        alpha: f64,
        /// Rate of the clients' gradient descent.
        rate: f64,
    },
    /// SCAFFOLD (Karimireddy et al. 2020), option II of its algorithm 1.
    Scaffold {
        /// Rate of the clients' gradient descent, `η_l`.
        rate: f64,
        /// The server's step along the mean difference, `η_g`.
        server_rate: f64,
    },
}

impl Bend {
    /// The rate of local gradient descent, where the method insists on it.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Nothing | Self::Prox { .. } => None,
            Self::Dyn { rate, .. } | Self::Scaffold { rate, .. } => Some(rate),
        }
    }

    /// A client's weight in the mean: `FedDyn` and SCAFFOLD count every client once.
    #[must_use]
    pub fn weight(self, samples: u32) -> u32 {
        match self {
            Self::Nothing | Self::Prox { .. } => samples.max(1),
            Self::Dyn { .. } | Self::Scaffold { .. } => 1,
        }
    }
}

/// A method with its state.
pub(super) enum Corrector {
    Nothing,
    Prox(f32),
    Dyn(FedDyn),
    Scaffold(Scaffold),
}

impl Corrector {
    pub(super) fn new(bend: Bend, clients: usize, layout: &Layout) -> Self {
        match bend {
            Bend::Nothing => Self::Nothing,
            Bend::Prox { mu } => Self::Prox(mu),
            Bend::Dyn { alpha, .. } => Self::Dyn(FedDyn::new(alpha, clients, trained(layout))),
            Bend::Scaffold { server_rate, .. } => {
                Self::Scaffold(Scaffold::new(server_rate, clients, trained(layout)))
            }
        }
    }

    /// What `client` adds to its gradients in a round that starts from `start`.
    pub(super) fn correction(
        &self,
        client: usize,
        start: &Weights,
    ) -> Result<Option<Correction>, ExperimentError> {
        let (linear, proximal, optimiser) = match self {
            Self::Nothing => return Ok(None),
            Self::Prox(mu) => (None, *mu, LocalOptimiser::Own),
            Self::Dyn(state) => (
                Some(state.linear(client)),
                narrow(state.alpha()),
                LocalOptimiser::Sgd,
            ),
            Self::Scaffold(state) => (Some(state.linear(client)), 0.0, LocalOptimiser::Sgd),
        };
        Ok(Some(Correction::new(start.clone(), linear, proximal, optimiser)?))
    }

    /// What `client` hands in after training; its own state moves on.
    pub(super) fn upload(
        &mut self,
        client: usize,
        start: &Weights,
        trained: &Weights,
        steps: u32,
        rate: f64,
    ) -> Vec<f32> {
        match self {
            Self::Nothing | Self::Prox(_) => trained.values().to_vec(),
            Self::Dyn(state) => {
                state.trained(client, start.values(), trained.values());
                trained.values().to_vec()
            }
            Self::Scaffold(state) => {
                let travelled = f64::from(steps) * rate;
                state.trained(client, start.values(), trained.values(), travelled)
            }
        }
    }

    /// What the sums of a round start from.
    pub(super) fn base(&self, model: &Weights) -> Vec<f32> {
        let mut base = model.values().to_vec();
        if let Self::Scaffold(state) = self {
            base.extend(state.control());
        }
        base
    }

    /// The next model to start from, and the one to score, from the mean of what `present` clients handed in.
    pub(super) fn fold(
        &mut self,
        model: &Weights,
        mean: &[f32],
        present: usize,
    ) -> Result<(Weights, Weights), ExperimentError> {
        let layout = model.layout();
        let (next, served) = match self {
            Self::Nothing | Self::Prox(_) => (mean.to_vec(), mean.to_vec()),
            // Scored by the mean, as its authors do: the start of the next round is no model to use.
            Self::Dyn(state) => (state.fold(model.values(), mean, present), mean.to_vec()),
            Self::Scaffold(state) => {
                let next = state.fold(model.values(), mean, present);
                (next.clone(), next)
            }
        };
        Ok((Weights::new(layout, next)?, Weights::new(layout, served)?))
    }

    /// Sum of the server's control variate less the mean of the clients', by largest entry; 0 for other methods.
    #[cfg(test)]
    pub(super) fn imbalance(&self) -> f64 {
        match self {
            Self::Scaffold(state) => state.imbalance(),
            _ => 0.0,
        }
    }
}

/// Which uploaded numbers are trained; the others are buffers.
fn trained(layout: &Layout) -> Vec<bool> {
    layout
        .uploaded()
        .flat_map(|spec| std::iter::repeat_n(spec.class == TensorClass::Shared, spec.len()))
        .collect()
}

#[expect(clippy::cast_possible_truncation, reason = "learners work in f32")]
fn narrow(value: f64) -> f32 {
    value as f32
}
