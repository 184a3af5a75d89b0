//! Canonical bytes of a descriptor: one way to write each, and nothing else is read.
//!
//! ```text
//! u8    version, 1
//! u8    0 plain, 1 noised
//! [32]  source
//! u32   images            little-endian, as all numbers
//! u32   channels, 1 to 65,536
//! f64   standard deviation of the noise on a mean             only if noised
//! f64   standard deviation of the noise on a log variance     only if noised
//! f32   means, one a channel
//! f32   variances, one a channel
//! ```

use super::{Descriptor, DescriptorError, NoiseSizes};

/// Most channels: 32 times those of the largest encoder planned.
pub const MAX_CHANNELS: usize = 1 << 16;

impl Descriptor {
    /// Most bytes a descriptor can have.
    pub const MAX_LEN: usize = HEAD + 16 + 8 * MAX_CHANNELS;

    /// The bytes, 42 plus 8 a channel, and 16 more with noise.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, u8::from(self.noise.is_some())];
        bytes.extend(self.source);
        bytes.extend(self.images.to_le_bytes());
        bytes.extend(u32::try_from(self.mean.len()).unwrap_or(u32::MAX).to_le_bytes());
        for size in self
            .noise
            .iter()
            .flat_map(|noise| [noise.mean_sd, noise.log_variance_sd])
        {
            bytes.extend(size.to_le_bytes());
        }
        for value in self.mean.iter().chain(&self.variance) {
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Descriptor::encode`] wrote, all of it and nothing more.
    ///
    /// # Errors
    /// [`DescriptorError`] for whatever it could not have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, DescriptorError> {
        let mut rest = Cursor {
            bytes,
            total: bytes.len(),
        };
        let [version, noised] = rest.take()?;
        if version != VERSION {
            return Err(DescriptorError::Version { version });
        }
        let source = rest.take()?;
        let images = u32::from_le_bytes(rest.take()?);
        let channels = usize::try_from(u32::from_le_bytes(rest.take()?)).unwrap_or(usize::MAX);
        if channels == 0 || channels > MAX_CHANNELS {
            return Err(DescriptorError::Size { channels });
        }
        let noise = match noised {
            0 => None,
            1 => Some(NoiseSizes {
                mean_sd: f64::from_le_bytes(rest.take()?),
                log_variance_sd: f64::from_le_bytes(rest.take()?),
            }),
            _ => return Err(DescriptorError::NoiseField),
        };
        let sound = |size: f64| size.is_normal() && size > 0.0;
        if noise.is_some_and(|noise| !sound(noise.mean_sd) || !sound(noise.log_variance_sd)) {
            return Err(DescriptorError::NoiseField);
        }
        if rest.bytes.len() != 8 * channels {
            let head = bytes.len() - rest.bytes.len();
            return Err(DescriptorError::Length {
                got: bytes.len(),
                expected: head + 8 * channels,
            });
        }
        let mut values = Vec::with_capacity(2 * channels);
        while let Ok(value) = rest.take() {
            values.push(f32::from_le_bytes(value));
        }
        let variance = values.split_off(channels);
        let descriptor = Self {
            source,
            images,
            mean: values,
            variance,
            noise,
        };
        descriptor.check()?;
        Ok(descriptor)
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    total: usize,
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DescriptorError> {
        let Some((first, rest)) = self.bytes.split_first_chunk() else {
            return Err(DescriptorError::Length {
                got: self.total,
                expected: HEAD.max(self.total + N - self.bytes.len()),
            });
        };
        self.bytes = rest;
        Ok(*first)
    }
}

const VERSION: u8 = 1;
/// Bytes before the noise.
const HEAD: usize = 42;
