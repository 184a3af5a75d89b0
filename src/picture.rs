//! Example pictures: camera, true depth and predicted depth side by side, as one PNG.

use veilsum_learner::{BevExample, DepthExample};

/// The three pictures of an example in one row. Depth runs from dark (near) to light (far) on a logarithmic scale up to the
/// example's cap; unknown depth is black.
///
/// # Errors
/// The encoder's, for a picture of no pixels.
pub fn triptych(example: &DepthExample) -> Result<Vec<u8>, png::EncodingError> {
    let (width, height) = (example.width, example.height);
    let mut pixels = Vec::with_capacity(width * height * 9 + height * GAP * 6);
    for row in 0..height {
        let range = row * width..(row + 1) * width;
        pixels.extend_from_slice(
            example
                .rgb
                .get(range.start * 3..range.end * 3)
                .unwrap_or_default(),
        );
        for depths in [&example.truth, &example.prediction] {
            pixels.extend_from_slice(&[128; GAP * 3]);
            let near = example.cap_m / 80.0;
            pixels.extend(
                depths
                    .get(range.clone())
                    .unwrap_or_default()
                    .iter()
                    .flat_map(|depth| colour(*depth, near, example.cap_m)),
            );
        }
    }
    let mut bytes = Vec::new();
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    let mut encoder = png::Encoder::new(&mut bytes, side(width * 3 + GAP * 2), side(height));
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(bytes)
}

/// Where vehicles are and where the network says they are, seen from above, in one row: yellow on violet; cells that no camera
/// sees are grey.
///
/// # Errors
/// The encoder's, for a grid of no cells.
pub fn views(example: &BevExample) -> Result<Vec<u8>, png::EncodingError> {
    let cells = example.cells;
    let width = (2 * cells * CELL) + GAP;
    let mut pixels = Vec::with_capacity(3 * width * cells * CELL);
    for row in 0..cells * CELL {
        for (place, grid) in [&example.truth, &example.prediction].into_iter().enumerate() {
            if place > 0 {
                pixels.extend_from_slice(&[128; GAP * 3]);
            }
            for column in 0..cells * CELL {
                let cell = (row / CELL) * cells + column / CELL;
                let is = |grid: &[bool]| grid.get(cell).copied().unwrap_or(false);
                pixels.extend_from_slice(match (is(&example.counts), is(grid)) {
                    (_, true) => &[0xfd, 0xe7, 0x25],
                    (true, false) => &[0x44, 0x01, 0x54],
                    (false, false) => &[96, 96, 96],
                });
            }
        }
    }
    let mut bytes = Vec::new();
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    let mut encoder = png::Encoder::new(&mut bytes, side(width), side(cells * CELL));
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(bytes)
}

/// Pixels a side of a cell.
const CELL: usize = 6;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "small non-negative numbers: a place among seven stops, a channel below 256"
)]
/// Violet through teal to yellow, in equal steps of the logarithm between `near` and `far` metres.
fn colour(depth: f32, near: f32, far: f32) -> [u8; 3] {
    if depth <= 0.0 || !depth.is_finite() {
        return [0, 0, 0];
    }
    let place = ((depth / near).ln() / (far / near).ln()).clamp(0.0, 1.0) * (STOPS.len() - 1) as f32;
    let below = (place.floor().max(0.0) as usize).min(STOPS.len() - 2);
    let share = place - below as f32;
    let (Some(low), Some(high)) = (STOPS.get(below), STOPS.get(below + 1)) else {
        return [0, 0, 0];
    };
    let mut out = [0; 3];
    for (slot, (low, high)) in out.iter_mut().zip(low.iter().zip(high)) {
        *slot = (f32::from(*low) + (f32::from(*high) - f32::from(*low)) * share).round() as u8;
    }
    out
}

/// Seven stops, light to the eye in even steps.
const STOPS: [[u8; 3]; 7] = [
    [68, 1, 84],
    [68, 58, 131],
    [49, 104, 142],
    [33, 145, 140],
    [53, 183, 121],
    [144, 215, 67],
    [253, 231, 37],
];
const GAP: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_holds_three_pictures() {
        let example = DepthExample {
            name: "one".into(),
            width: 4,
            height: 2,
            rgb: vec![9; 24],
            truth: vec![0.0, 1.0, 10.0, 80.0, 200.0, f32::NAN, -1.0, 2.0],
            prediction: vec![1.0; 8],
            cap_m: 80.0,
        };
        let png = triptych(&example).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (4 * 3 + 2 * 4, 2));
        let at = |x: usize, y: usize| &pixels[(y * 20 + x) * 3..][..3];
        assert_eq!(at(0, 0), [9, 9, 9]);
        assert_eq!(at(4, 0), [128, 128, 128]);
        assert_eq!(at(8, 0), [0, 0, 0], "unknown is black");
        assert_eq!(at(9, 0), STOPS[0]);
        assert_eq!(at(11, 0), STOPS[6]);
        assert_eq!(at(8, 1), STOPS[6], "beyond the cap is the cap");
    }
}
