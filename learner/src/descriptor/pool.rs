//! Generalised-mean pooling: one number per channel from a feature map.

use super::DescriptorError;

/// An encoder's output for one image, position by position: channel `d` at row `h`, column `w` is number
/// `(h · width + w) · channels + d`.
#[derive(Clone, Copy)]
pub struct FeatureMap<'a> {
    height: usize,
    width: usize,
    channels: usize,
    values: &'a [f32],
}

impl<'a> FeatureMap<'a> {
    /// Takes the numbers of a map of shape `[height, width, channels]`.
    ///
    /// # Errors
    /// [`DescriptorError::Shape`] if they do not fill it, or it is empty.
    pub fn new(
        height: usize,
        width: usize,
        channels: usize,
        values: &'a [f32],
    ) -> Result<Self, DescriptorError> {
        let size = height
            .checked_mul(width)
            .and_then(|size| size.checked_mul(channels));
        if size != Some(values.len()) || values.is_empty() {
            return Err(DescriptorError::Shape {
                height,
                width,
                channels,
                found: values.len(),
            });
        }
        Ok(Self {
            height,
            width,
            channels,
            values,
        })
    }
}

/// How a map becomes one number per channel: `(mean max(z, least)^power)^(1/power)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pooling {
    /// 1 is the mean, infinity would be the maximum.
    pub power: f64,
    /// Values below are raised to it: features are often negative, and a negative base has no such power.
    pub least: f64,
    /// Neighbouring channels are averaged down to this many. Fewer channels need less noise.
    pub channels: Option<usize>,
}

impl Default for Pooling {
    /// Power 3, values at least 10⁻⁶, all channels.
    fn default() -> Self {
        Self {
            power: 3.0,
            least: 1e-6,
            channels: None,
        }
    }
}

impl Pooling {
    pub(super) fn check(self) -> Result<(), DescriptorError> {
        let wrong = |what| Err(DescriptorError::Setting { what });
        if !(self.power.is_finite() && self.power >= 1.0) {
            return wrong("the pooling power must be a number from 1 up");
        }
        if !(self.least.is_finite() && self.least > 0.0) {
            return wrong("the least feature must be a positive number");
        }
        if self.channels == Some(0) {
            return wrong("at least one channel must be left");
        }
        Ok(())
    }

    /// One positive number per channel.
    pub(super) fn pool(self, map: &FeatureMap<'_>, image: u32) -> Result<Vec<f64>, DescriptorError> {
        if let Some(position) = map.values.iter().position(|value| !value.is_finite()) {
            return Err(DescriptorError::NotFinite {
                image,
                position,
                value: map.values.get(position).copied().unwrap_or(f32::NAN),
            });
        }
        let mut pooled = vec![0.0_f64; map.channels];
        for place in map.values.chunks_exact(map.channels) {
            for (sum, value) in pooled.iter_mut().zip(place) {
                *sum += f64::from(*value).max(self.least).powf(self.power);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "positions are far below 2^52")]
        let places = (map.height * map.width) as f64;
        for value in &mut pooled {
            *value = (*value / places).powf(self.power.recip());
        }
        Ok(match self.channels {
            Some(fewer) if fewer < pooled.len() => average(&pooled, fewer),
            _ => pooled,
        })
    }
}

/// Means over `groups` runs of neighbours, as even as can be.
fn average(values: &[f64], groups: usize) -> Vec<f64> {
    (0..groups)
        .map(|group| {
            let (from, to) = (group * values.len() / groups, (group + 1) * values.len() / groups);
            #[expect(clippy::cast_precision_loss, reason = "channels are far below 2^52")]
            let count = (to - from) as f64;
            values.iter().take(to).skip(from).sum::<f64>() / count
        })
        .collect()
}
