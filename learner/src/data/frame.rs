//! A picture with depth.

use crate::data::DataError;
use crate::data::crop::Window;
use crate::metrics::DepthRange;

/// A picture with the depth of each of its pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    name: String,
    width: usize,
    height: usize,
    rgb: Vec<u8>,
    depth: Vec<f32>,
}

impl Frame {
    /// A frame from row-major pixels: `rgb` three bytes a pixel, `depth` planar z in metres.
    ///
    /// Depths that are NaN, infinite or negative become 0, which means unknown.
    ///
    /// # Errors
    ///
    /// [`DataError::FrameLength`] if the buffers do not hold `width · height` pixels, or if that is none.
    pub fn new(
        name: impl Into<String>,
        width: usize,
        height: usize,
        rgb: Vec<u8>,
        mut depth: Vec<f32>,
    ) -> Result<Self, DataError> {
        let name = name.into();
        let pixels = width.checked_mul(height).filter(|&n| n > 0);
        if pixels != Some(depth.len()) || pixels.and_then(|n| n.checked_mul(3)) != Some(rgb.len()) {
            return Err(DataError::FrameLength {
                frame: name,
                width,
                height,
                rgb: rgb.len(),
                depth: depth.len(),
            });
        }
        for value in &mut depth {
            if !(value.is_finite() && *value > 0.0) {
                *value = 0.0;
            }
        }
        Ok(Self {
            name,
            width,
            height,
            rgb,
            depth,
        })
    }

    /// Name in its data set, such as `train/0007`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Pixels per row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// 8-bit RGB, row-major, three bytes a pixel.
    #[must_use]
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Planar z in metres, row-major; 0 where unknown.
    #[must_use]
    pub fn depth(&self) -> &[f32] {
        &self.depth
    }

    /// Sets depths outside the range to 0.
    pub fn keep(&mut self, range: DepthRange) {
        for depth in &mut self.depth {
            if !range.holds(*depth) {
                *depth = 0.0;
            }
        }
    }

    /// Forgets the depths outside a window; the picture stays whole.
    pub fn mask(&mut self, window: Window) {
        let width = self.width.max(1);
        for (at, depth) in self.depth.iter_mut().enumerate() {
            if !window.holds(at / width, at % width) {
                *depth = 0.0;
            }
        }
    }

    /// The part of the frame inside a window.
    ///
    /// # Errors
    ///
    /// [`DataError::Window`] if the window is empty or reaches beyond the frame.
    pub fn cut(&self, window: Window) -> Result<Self, DataError> {
        if !window.fits(self.width, self.height) || window.width == 0 {
            return Err(DataError::Window {
                frame: self.name.clone(),
                size: (self.width, self.height),
                window,
            });
        }
        let (mut rgb, mut depth) = (Vec::new(), Vec::new());
        for row in window.top..window.top + window.height {
            let from = row * self.width + window.left;
            depth.extend_from_slice(self.depth.get(from..from + window.width).unwrap_or_default());
            rgb.extend_from_slice(
                self.rgb
                    .get(3 * from..3 * (from + window.width))
                    .unwrap_or_default(),
            );
        }
        Self::new(self.name.clone(), window.width, window.height, rgb, depth)
    }

    /// Pixels with a known depth.
    #[must_use]
    pub fn known_pixels(&self) -> usize {
        self.depth.iter().filter(|&&d| d > 0.0).count()
    }

    /// The frame stretched or shrunk to another size.
    ///
    /// Colours are averaged over the area that a new pixel covers. Depth takes the nearest old pixel, because the mean
    /// of a near and a far depth is the depth of nothing. The aspect ratio is not kept.
    ///
    /// # Errors
    ///
    /// [`DataError::FrameLength`] if the new size is empty.
    pub fn resized(&self, width: usize, height: usize) -> Result<Self, DataError> {
        if (width, height) == (self.width, self.height) {
            return Ok(self.clone());
        }
        let columns = spans(self.width, width);
        let rows = spans(self.height, height);
        let mut rgb = Vec::with_capacity(width * height * 3);
        let mut depth = Vec::with_capacity(width * height);
        for (y, row) in rows.iter().enumerate() {
            let nearest_y = nearest(self.height, height, y);
            for (x, column) in columns.iter().enumerate() {
                rgb.extend(self.area_mean(row, column));
                let from = nearest_y * self.width + nearest(self.width, width, x);
                depth.push(self.depth.get(from).copied().unwrap_or(0.0));
            }
        }
        Self::new(self.name.clone(), width, height, rgb, depth)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a weighted mean of bytes rounds to a byte"
    )]
    fn area_mean(&self, rows: &[(usize, f32)], columns: &[(usize, f32)]) -> [u8; 3] {
        let mut sum = [0.0_f32; 3];
        let mut total = 0.0;
        for &(y, height) in rows {
            for &(x, width) in columns {
                let weight = height * width;
                let at = 3 * (y * self.width + x);
                for (channel, &byte) in sum.iter_mut().zip(self.rgb.iter().skip(at).take(3)) {
                    *channel += weight * f32::from(byte);
                }
                total += weight;
            }
        }
        sum.map(|channel| (channel / total).round() as u8)
    }
}

/// For each of `new` cells over `old` cells: the old cells it covers and how much of each.
#[expect(clippy::cast_precision_loss, reason = "picture sizes are far below 2^24")]
fn spans(old: usize, new: usize) -> Vec<Vec<(usize, f32)>> {
    let step = old as f64 / new as f64;
    (0..new)
        .map(|i| {
            let (start, end) = (i as f64 * step, (i + 1) as f64 * step);
            let mut cells: Vec<(usize, f32)> = (0..old)
                .skip(floor(start))
                .take_while(|&cell| (cell as f64) < end)
                .filter_map(|cell| {
                    let covered = end.min((cell + 1) as f64) - start.max(cell as f64);
                    #[expect(clippy::cast_possible_truncation, reason = "a share of one cell")]
                    (covered > 1e-9).then_some((cell, covered as f32))
                })
                .collect();
            if cells.is_empty() {
                cells.push((nearest(old, new, i), 1.0));
            }
            cells
        })
        .collect()
}

/// The old cell under the middle of new cell `i`.
fn nearest(old: usize, new: usize, i: usize) -> usize {
    ((2 * i + 1) * old / (2 * new.max(1))).min(old.saturating_sub(1))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a non-negative cell number"
)]
fn floor(x: f64) -> usize {
    x.floor() as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bad_depths_are_unknown() {
        let depth = vec![f32::NAN, f32::INFINITY, -1.0, 2.0];
        let frame = Frame::new("f", 2, 2, vec![0; 12], depth).unwrap();
        assert_eq!(frame.depth(), [0.0, 0.0, 0.0, 2.0]);
        assert_eq!(frame.known_pixels(), 1);
    }

    #[test]
    fn buffers_must_fill_the_frame() {
        for (w, h, rgb, depth) in [(2, 2, 12, 3), (2, 2, 11, 4), (0, 2, 0, 0), (usize::MAX, 2, 12, 4)] {
            assert!(matches!(
                Frame::new("f", w, h, vec![0; rgb], vec![1.0; depth]),
                Err(DataError::FrameLength { .. })
            ));
        }
    }

    #[test]
    fn halving_averages_colour_and_picks_depth() {
        let rgb: Vec<u8> = [0, 100, 200, 255].iter().flat_map(|&v| [v, v, 7]).collect();
        let frame = Frame::new("f", 4, 1, rgb, vec![1.0, 2.0, 0.0, 9.0]).unwrap();
        let half = frame.resized(2, 1).unwrap();
        assert_eq!(half.rgb(), [50, 50, 7, 228, 228, 7]);
        // The middle of new cell 0 is the border of old cells 0 and 1: the right one is taken.
        assert_eq!(half.depth(), [2.0, 9.0]);
        let same = frame.resized(4, 1).unwrap();
        assert_eq!(same, frame);
    }

    #[test]
    fn uneven_shrinking_weighs_by_area() {
        let rgb: Vec<u8> = [30, 60, 90].iter().flat_map(|&v| [v, v, v]).collect();
        let frame = Frame::new("f", 3, 1, rgb, vec![1.0, 2.0, 3.0]).unwrap();
        // (30 + 60/2) / 1.5 = 40 and (60/2 + 90) / 1.5 = 80.
        assert_eq!(frame.resized(2, 1).unwrap().rgb(), [40, 40, 40, 80, 80, 80]);
    }

    proptest! {
        #[test]
        fn resizing_invents_nothing(w in 1_usize..9, h in 1_usize..9, nw in 1_usize..12, nh in 1_usize..12, seed: u8) {
            let byte = |i: usize| u8::try_from((i * 37 + usize::from(seed)) % 256).unwrap();
            let rgb: Vec<u8> = (0..w * h * 3).map(byte).collect();
            let depth: Vec<f32> = (0..w * h).map(|i| f32::from(byte(i))).collect();
            let frame = Frame::new("f", w, h, rgb.clone(), depth.clone()).unwrap();
            let new = frame.resized(nw, nh).unwrap();
            prop_assert_eq!((new.width(), new.height()), (nw, nh));
            prop_assert!(new.depth().iter().all(|d| depth.contains(d)));
            let (low, high) = (rgb.iter().min().unwrap(), rgb.iter().max().unwrap());
            prop_assert!(new.rgb().iter().all(|b| low <= b && b <= high));
        }
    }
}
