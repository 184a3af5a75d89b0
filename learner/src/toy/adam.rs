//! The optimiser of the models in plain Rust.

/// Adam with the usual settings (Kingma and Ba 2015). Its moments outlast a round.
pub(super) struct Adam {
    mean: Vec<f32>,
    square: Vec<f32>,
    steps: i32,
}

impl Adam {
    pub(super) fn new(len: usize) -> Self {
        Self {
            mean: vec![0.0; len],
            square: vec![0.0; len],
            steps: 0,
        }
    }

    pub(super) fn step(&mut self, weights: &mut [f32], gradient: &[f32], rate: f32) {
        self.steps = self.steps.saturating_add(1);
        let (unbias1, unbias2) = (1.0 - B1.powi(self.steps), 1.0 - B2.powi(self.steps));
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((w, g), (m, s)) in weights.iter_mut().zip(gradient).zip(moments) {
            *m = B1 * *m + (1.0 - B1) * g;
            *s = B2 * *s + (1.0 - B2) * g * g;
            *w -= rate * (*m / unbias1) / ((*s / unbias2).sqrt() + 1e-8);
        }
    }
}

const B1: f32 = 0.9;
const B2: f32 = 0.999;
