//! A picture and a depth map of nearly one moment, brought into one view.

use std::path::PathBuf;

use super::View;
use super::sequence::Sequence;
use crate::data::split::FrameFile;
use crate::data::{DataError, DepthScale, Frame};

/// Two numbers of frames.
pub(super) struct Pair<'a> {
    pub(super) sequence: &'a Sequence,
    pub(super) split: &'static str,
    pub(super) image: usize,
    pub(super) depth: usize,
}

impl FrameFile for Pair<'_> {
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("{}#{}", self.sequence.path.display(), self.depth))
    }

    fn read(&self, _: DepthScale, width: usize, height: usize) -> Result<Frame, DataError> {
        let sequence = self.sequence;
        let picture = colours(sequence.images.bytes(self.image)?, sequence.channels);
        let depth = sequence.depths.floats(self.depth)?;
        let name = format!("{}/{}/{:06}", self.split, sequence.name, self.depth);
        let frame = match sequence.view {
            View::Camera => {
                let (width, height) = (sequence.lens.width, sequence.lens.height);
                Frame::new(name, width, height, picture, sequence.moved(&depth))?
            }
            View::Depth => {
                let (width, height) = sequence.size;
                Frame::new(name, width, height, sequence.turned(&picture), depth)?
            }
        };
        frame.resized(width, height)
    }
}

impl Sequence {
    /// The depth points in the camera's view: of those in one pixel the nearest.
    pub(super) fn moved(&self, depth: &[f32]) -> Vec<f32> {
        let mut seen = vec![0.0_f32; self.lens.width * self.lens.height];
        for (&z, ray) in depth.iter().zip(&self.rays) {
            if !(z.is_finite() && z > 0.0) {
                continue;
            }
            let [x, y] = ray.map(|side| f64::from(side) * f64::from(z));
            let [x, y, z] = self.lens.of_event([x, y, f64::from(z)]);
            if z <= 0.0 {
                continue;
            }
            let place = self
                .lens
                .project([x / z, y / z])
                .and_then(|pixel| self.place(pixel));
            #[expect(clippy::cast_possible_truncation, reason = "metres, as the file has them")]
            let z = z as f32;
            if let Some(slot) = place.and_then(|at| seen.get_mut(at))
                && (*slot == 0.0 || z < *slot)
            {
                *slot = z;
            }
        }
        seen
    }

    /// The picture in the event camera's view, three bytes a pixel; black where the camera does not look.
    pub(super) fn turned(&self, picture: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(3 * self.rays.len());
        for ray in &self.rays {
            let [x, y, z] = self.lens.turned([f64::from(ray[0]), f64::from(ray[1]), 1.0]);
            let pixel = (z > 0.0).then(|| self.lens.project([x / z, y / z])).flatten();
            let colour = pixel.and_then(|pixel| self.sample(picture, pixel));
            out.extend(colour.unwrap_or([0; 3]));
        }
        out
    }

    /// The number of the pixel around a place.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "inside a picture, as checked"
    )]
    fn place(&self, [u, v]: [f64; 2]) -> Option<usize> {
        let (u, v) = (u.round(), v.round());
        let inside = u >= 0.0 && v >= 0.0 && u < self.lens.width as f64 && v < self.lens.height as f64;
        inside.then(|| v as usize * self.lens.width + u as usize)
    }

    /// The colour at a place between four pixels.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "inside a picture, as checked; a mean of bytes is a byte"
    )]
    fn sample(&self, picture: &[u8], [u, v]: [f64; 2]) -> Option<[u8; 3]> {
        let (right, bottom) = ((self.lens.width - 1) as f64, (self.lens.height - 1) as f64);
        // A pixel reaches half a pixel around its middle.
        if !((-0.5..=right + 0.5).contains(&u) && (-0.5..=bottom + 0.5).contains(&v)) {
            return None;
        }
        let (u, v) = (u.clamp(0.0, right), v.clamp(0.0, bottom));
        let (left, top) = (u.floor(), v.floor());
        let (a, b) = (u - left, v - top);
        let at = |du: f64, dv: f64, channel: usize| {
            let (u, v) = ((left + du).min(right) as usize, (top + dv).min(bottom) as usize);
            f64::from(
                picture
                    .get(3 * (v * self.lens.width + u) + channel)
                    .copied()
                    .unwrap_or(0),
            )
        };
        Some([0, 1, 2].map(|channel| {
            let upper = (1.0 - a) * at(0.0, 0.0, channel) + a * at(1.0, 0.0, channel);
            let lower = (1.0 - a) * at(0.0, 1.0, channel) + a * at(1.0, 1.0, channel);
            ((1.0 - b) * upper + b * lower).round() as u8
        }))
    }
}

/// Red, green and blue of each pixel. M3ED keeps colours as OpenCV decodes them, blue first; gray becomes three equal bytes.
fn colours(mut bytes: Vec<u8>, channels: usize) -> Vec<u8> {
    if channels == 3 {
        for pixel in bytes.chunks_exact_mut(3) {
            pixel.reverse();
        }
        return bytes;
    }
    bytes.into_iter().flat_map(|gray| [gray; 3]).collect()
}
