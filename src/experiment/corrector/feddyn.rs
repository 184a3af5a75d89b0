//! `FedDyn` (Acar et al. 2021, algorithm 1).
//!
//! A client minimises `f_k(w) − ⟨g_k, w⟩ + α/2 ‖w − w_global‖²` and then sets `g_k ← g_k − α (w_k − w_global)`, which it
//! keeps. The server sets `h ← h − α/m Σ (w_k − w_global)` and starts the next round from `mean w_k − h/α`.

use super::narrow;

pub(in crate::experiment) struct FedDyn {
    alpha: f64,
    /// Which entries are trained.
    trained: Vec<bool>,
    /// Each client's gradient at its last optimum. Never leaves it.
    gradients: Vec<Vec<f64>>,
    server: Vec<f64>,
}

impl FedDyn {
    pub(super) fn new(alpha: f64, clients: usize, trained: Vec<bool>) -> Self {
        let zero = vec![0.0; trained.len()];
        Self {
            alpha,
            gradients: vec![zero.clone(); clients],
            server: zero,
            trained,
        }
    }

    pub(super) fn alpha(&self) -> f64 {
        self.alpha
    }

    pub(super) fn linear(&self, client: usize) -> Vec<f32> {
        let own = self.gradients.get(client).map_or(&[][..], Vec::as_slice);
        own.iter().map(|g| narrow(-g)).collect()
    }

    pub(super) fn trained(&mut self, client: usize, start: &[f32], trained: &[f32]) {
        let Some(own) = self.gradients.get_mut(client) else {
            return;
        };
        let ways = trained.iter().zip(start).zip(&self.trained);
        for (g, ((new, old), counts)) in own.iter_mut().zip(ways) {
            if *counts {
                *g -= self.alpha * (f64::from(*new) - f64::from(*old));
            }
        }
    }

    pub(super) fn fold(&mut self, start: &[f32], mean: &[f32], present: usize) -> Vec<f32> {
        #[expect(clippy::cast_precision_loss, reason = "numbers of clients are far below 2^52")]
        let share = present as f64 / self.gradients.len().max(1) as f64;
        let ways = mean.iter().zip(start).zip(&self.trained);
        self.server
            .iter_mut()
            .zip(ways)
            .map(|(h, ((mean, old), counts))| {
                if !counts {
                    return *mean;
                }
                *h -= self.alpha * share * (f64::from(*mean) - f64::from(*old));
                narrow(f64::from(*mean) - *h / self.alpha)
            })
            .collect()
    }
}
