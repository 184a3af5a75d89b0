//! A picture cut into cells, with what the toy model looks at in each.

use crate::data::Frame;
use crate::toy::ToyDepth;

/// A frame's cells: features, and mean ln depth where any pixel has one.
pub(crate) struct Cells {
    pub(crate) features: Vec<[f32; FEATURES]>,
    /// Mean ln depth, where any pixel has one.
    pub(crate) logs: Vec<Option<f32>>,
}

impl Cells {
    pub(crate) fn of(frame: &Frame) -> Self {
        let mut sums = vec![CellSums::default(); CELLS];
        let pixels = frame.rgb().as_chunks::<3>().0.iter().zip(frame.depth());
        for ((&rgb, &depth), cell) in pixels.zip(cell_of_pixels(frame)) {
            if let Some(sum) = sums.get_mut(cell) {
                sum.add(rgb, depth);
            }
        }
        Self {
            features: sums
                .iter()
                .enumerate()
                .map(|(cell, sum)| sum.features(cell / ToyDepth::COLUMNS))
                .collect(),
            logs: sums
                .iter()
                .map(|s| (s.known > 0.0).then(|| s.log / s.known))
                .collect(),
        }
    }

    pub(crate) fn has_depth(&self) -> bool {
        self.logs.iter().any(Option::is_some)
    }

    /// Mean squared error of predicted ln depths over the cells that have depth.
    pub(crate) fn mean_square(&self, predicted: &[f32]) -> f64 {
        let known = self
            .logs
            .iter()
            .zip(predicted)
            .filter_map(|(truth, p)| truth.map(|t| f64::from(p - t)));
        let (sum, count) = known.fold((0.0, 0.0), |(sum, n), error| (sum + error * error, n + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }
}

#[derive(Clone, Default)]
struct CellSums {
    pixels: f32,
    light: f32,
    light_square: f32,
    red: f32,
    blue: f32,
    known: f32,
    log: f32,
}

impl CellSums {
    fn add(&mut self, [r, g, b]: [u8; 3], depth: f32) {
        let [r, g, b] = [r, g, b].map(|v| f32::from(v) / 255.0);
        let light = 0.3 * r + 0.6 * g + 0.1 * b;
        self.pixels += 1.0;
        self.light += light;
        self.light_square += light * light;
        self.red += r - light;
        self.blue += b - light;
        if depth > 0.0 {
            self.known += 1.0;
            self.log += depth.ln();
        }
    }

    /// Brightness, contrast and two colour differences, and the first two again weighted by height in the picture. All
    /// about unit size.
    #[expect(clippy::cast_precision_loss, reason = "a dozen rows")]
    fn features(&self, row: usize) -> [f32; FEATURES] {
        let n = self.pixels.max(1.0);
        let light = self.light / n;
        let contrast = (self.light_square / n - light * light).max(0.0).sqrt();
        let height = 1.0 - 2.0 * row as f32 / (ToyDepth::ROWS - 1) as f32;
        let (bright, busy) = (2.0 * light - 1.0, 5.0 * contrast);
        [
            bright,
            busy,
            4.0 * self.red / n,
            4.0 * self.blue / n,
            bright * height,
            busy * height,
        ]
    }
}

/// The cell of each pixel, row by row.
pub(crate) fn cell_of_pixels(frame: &Frame) -> impl Iterator<Item = usize> {
    let (width, height) = (frame.width(), frame.height());
    (0..width * height).map(move |i| {
        let (x, y) = (i % width, i / width);
        (y * ToyDepth::ROWS / height) * ToyDepth::COLUMNS + x * ToyDepth::COLUMNS / width
    })
}

/// Cells of a picture.
pub(crate) const CELLS: usize = ToyDepth::ROWS * ToyDepth::COLUMNS;
/// Features of a cell.
pub(crate) const FEATURES: usize = 6;
