//! Somebody's model that knows nothing of federations: depth = scale · reading + offset, with one client's readings.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "an example: small numbers"
)]

pub(crate) struct Calibration {
    readings: Vec<f32>,
    depths: Vec<f32>,
}

impl Calibration {
    /// Four readings of a client's own, of a range finder whose scale is 2 and whose offset 0.5 m.
    pub(crate) fn of(client: u32) -> Self {
        let reading = |step: u32| ((client * 5 + step * 7) % 20) as f32 / 10.0 + 0.1;
        let readings: Vec<f32> = (1..5).map(reading).collect();
        let depths = readings.iter().map(|reading| 2.0 * reading + 0.5).collect();
        Self { readings, depths }
    }

    pub(crate) fn depths(&self) -> &[f32] {
        &self.depths
    }

    pub(crate) fn predict(&self, numbers: &[f32]) -> Vec<f32> {
        let [scale, offset] = *numbers else {
            return Vec::new();
        };
        self.readings.iter().map(|x| scale * x + offset).collect()
    }

    fn errors(&self, numbers: &[f32]) -> Vec<f32> {
        let pairs = self.predict(numbers).into_iter().zip(&self.depths);
        pairs.map(|(guess, depth)| guess - depth).collect()
    }

    /// The mean squared error.
    pub(crate) fn loss(&self, numbers: &[f32]) -> f64 {
        let squares = self
            .errors(numbers)
            .into_iter()
            .map(|error| f64::from(error).powi(2));
        squares.sum::<f64>() / self.depths.len() as f64
    }

    /// A step down the gradient of half of it.
    pub(crate) fn step(&self, numbers: &[f32], rate: f64) -> [f32; 2] {
        let each = -rate as f32 / self.depths.len() as f32;
        let errors = self.errors(numbers).into_iter().zip(&self.readings);
        errors.fold([0.0, 0.0], |[scale, offset], (error, x)| {
            [scale + each * error * x, offset + each * error]
        })
    }
}
