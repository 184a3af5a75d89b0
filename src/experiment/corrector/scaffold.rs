//! SCAFFOLD (Karimireddy et al. 2020, algorithm 1, option II).
//!
//! Steps go along `g + c − c_k`; afterwards `c_k⁺ = c_k − c − (w_k − w)/(K η)` with the K steps really taken, and what is
//! sent is the difference `c_k⁺ − c_k` beside the model. The server adds the mean differences.

use super::narrow;

pub(in crate::experiment) struct Scaffold {
    server_rate: f64,
    trained: Vec<bool>,
    controls: Vec<Vec<f64>>,
    server: Vec<f64>,
}

impl Scaffold {
    pub(super) fn new(server_rate: f64, clients: usize, trained: Vec<bool>) -> Self {
        let zero = vec![0.0; trained.len()];
        Self {
            server_rate,
            controls: vec![zero.clone(); clients],
            server: zero,
            trained,
        }
    }

    /// The server's control variate, as it is told to clients.
    pub(super) fn control(&self) -> impl Iterator<Item = f32> {
        self.server.iter().copied().map(narrow)
    }

    pub(super) fn linear(&self, client: usize) -> Vec<f32> {
        let own = self.controls.get(client).map_or(&[][..], Vec::as_slice);
        self.server
            .iter()
            .zip(own)
            .map(|(c, own)| narrow(c - own))
            .collect()
    }

    /// The trained weights, then the server's control variate plus the change of the client's.
    pub(super) fn trained(
        &mut self,
        client: usize,
        start: &[f32],
        trained: &[f32],
        travelled: f64,
    ) -> Vec<f32> {
        let mut upload = trained.to_vec();
        let Some(own) = self.controls.get_mut(client) else {
            return upload;
        };
        let ways = trained.iter().zip(start).zip(&self.trained);
        for ((own, c), ((new, old), counts)) in own.iter_mut().zip(&self.server).zip(ways) {
            let change = if *counts && travelled > 0.0 {
                -c - (f64::from(*new) - f64::from(*old)) / travelled
            } else {
                0.0
            };
            *own += change;
            upload.push(narrow(c + change));
        }
        upload
    }

    pub(super) fn fold(&mut self, start: &[f32], mean: &[f32], present: usize) -> Vec<f32> {
        let (model, control) = mean.split_at_checked(start.len()).unwrap_or((mean, &[]));
        // The mean is over those who are there, the variate's over all: c += 1/m Σ (c_k⁺ − c_k).
        #[expect(clippy::cast_precision_loss, reason = "numbers of clients are far below 2^52")]
        let share = present as f64 / self.controls.len().max(1) as f64;
        for (c, new) in self.server.iter_mut().zip(control) {
            *c += share * (f64::from(*new) - *c);
        }
        let ways = model.iter().zip(start).zip(&self.trained);
        ways.map(|((mean, old), counts)| {
            // The whole way is the mean itself, without a rounding.
            if *counts && (self.server_rate - 1.0).abs() > f64::EPSILON {
                narrow(f64::from(*old) + self.server_rate * (f64::from(*mean) - f64::from(*old)))
            } else {
                *mean
            }
        })
        .collect()
    }

    #[cfg(test)]
    pub(super) fn imbalance(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a handful of clients")]
        let count = self.controls.len() as f64;
        let mean = |at: usize| self.controls.iter().map(|own| own[at]).sum::<f64>() / count;
        let gaps = self.server.iter().enumerate().map(|(at, c)| (c - mean(at)).abs());
        gaps.fold(0.0, f64::max)
    }
}
