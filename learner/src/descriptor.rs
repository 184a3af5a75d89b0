//! What a client says about its data so that it can be clustered: mean and variance of pooled features.
//!
//! ```text
//! image ──frozen encoder──> FeatureMap ──GeM──> one number a channel ──over n images──> Summary ──> Descriptor
//!                            H' x W' x D                                                  mean, variance   bytes
//! ```
//!
//! The descriptor is the only thing derived from images that leaves the machine besides masked updates, and it leaves
//! unmasked. [`Summary::descriptor`] is exact and protects nothing; [`Summary::noised`] adds noise for a stated
//! differential privacy of single images. FeDepth, section 3; pooling after Radenović, Tolias and Chum.

mod bytes;
mod draw;
mod gauss;
mod noise;
mod pool;

pub use bytes::MAX_CHANNELS;
pub use draw::{Draw, Features};
pub use noise::{MAX_LOG_VARIANCE_SD, Noise, NoiseSizes};
pub use pool::{FeatureMap, Pooling};

/// Mean and variance of every channel over a client's images, as they travel.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    source: [u8; 32],
    images: u32,
    mean: Vec<f32>,
    variance: Vec<f32>,
    noise: Option<NoiseSizes>,
}

impl Descriptor {
    /// Digest of whatever made the features: encoder weights and pooling. Others do not compare.
    #[must_use]
    pub fn source(&self) -> &[u8; 32] {
        &self.source
    }

    /// Images it was made from.
    #[must_use]
    pub fn images(&self) -> u32 {
        self.images
    }

    /// Means, one a channel.
    #[must_use]
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// Variances, one a channel, floored and positive; with noise, the exponentials of the noised log variances.
    #[must_use]
    pub fn variance(&self) -> &[f32] {
        &self.variance
    }

    /// The noise in it, if any.
    #[must_use]
    pub fn noise(&self) -> Option<NoiseSizes> {
        self.noise
    }
}

/// Mean and variance of a client's pooled features. Stays on the machine.
pub struct Summary {
    pooling: Pooling,
    clip: Option<f64>,
    images: u32,
    mean: Vec<f64>,
    /// Sum of squared deviations.
    spread: Vec<f64>,
}

impl std::fmt::Debug for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Summary({} images, values withheld)", self.images)
    }
}

impl Summary {
    /// Nothing yet. With `clip`, every image's pooled features are scaled down to at most this Euclidean length, which
    /// [`Summary::noised`] needs.
    ///
    /// # Errors
    /// [`DescriptorError::Setting`] for a pooling or clip that is no use.
    pub fn new(pooling: Pooling, clip: Option<f64>) -> Result<Self, DescriptorError> {
        pooling.check()?;
        if clip.is_some_and(|clip| !(clip.is_finite() && clip > 0.0)) {
            return Err(DescriptorError::Setting {
                what: "the clip must be a positive number",
            });
        }
        Ok(Self {
            pooling,
            clip,
            images: 0,
            mean: Vec::new(),
            spread: Vec::new(),
        })
    }

    /// Takes one image's features. On an error nothing changes.
    ///
    /// # Errors
    /// [`DescriptorError`]: values that are not finite, or another number of channels than before.
    pub fn add(&mut self, map: &FeatureMap<'_>) -> Result<(), DescriptorError> {
        let mut pooled = self.pooling.pool(map, self.images)?;
        if self.images == 0 {
            self.mean = vec![0.0; pooled.len()];
            self.spread = vec![0.0; pooled.len()];
        } else if pooled.len() != self.mean.len() {
            return Err(DescriptorError::Channels {
                image: self.images,
                got: pooled.len(),
                expected: self.mean.len(),
            });
        }
        if let Some(clip) = self.clip {
            let length = pooled.iter().map(|value| value * value).sum::<f64>().sqrt();
            if length > clip {
                for value in &mut pooled {
                    *value *= clip / length;
                }
            }
        }
        self.images = self.images.saturating_add(1);
        // Welford: no large squares to subtract.
        let count = f64::from(self.images);
        for ((value, mean), spread) in pooled.iter().zip(&mut self.mean).zip(&mut self.spread) {
            let before = value - *mean;
            *mean += before / count;
            *spread += before * (value - *mean);
        }
        Ok(())
    }

    /// Images taken so far.
    #[must_use]
    pub fn images(&self) -> u32 {
        self.images
    }

    /// The exact descriptor: means, and population variances raised by a twentieth of their average and 10⁻⁸, so that no
    /// nearly dead channel decides every divergence.
    ///
    /// # Errors
    /// [`DescriptorError`]: fewer than [`MIN_IMAGES`] images, no spread at all, or numbers beyond `f32`.
    pub fn descriptor(&self, source: [u8; 32]) -> Result<Descriptor, DescriptorError> {
        let variance = self.variance()?;
        #[expect(clippy::cast_precision_loss, reason = "channels are far below 2^52")]
        let average = variance.iter().sum::<f64>() / variance.len() as f64;
        if average <= 0.0 {
            return Err(DescriptorError::NoSpread { images: self.images });
        }
        let floored = variance
            .iter()
            .map(|value| value + VARIANCE_SHARE * average + VARIANCE_LEAST);
        self.finish(source, self.mean.clone(), floored.collect(), None)
    }

    /// Population variances.
    fn variance(&self) -> Result<Vec<f64>, DescriptorError> {
        if self.images < MIN_IMAGES {
            return Err(DescriptorError::TooFewImages {
                images: self.images,
                required: MIN_IMAGES,
            });
        }
        let count = f64::from(self.images);
        Ok(self.spread.iter().map(|spread| spread / count).collect())
    }

    fn finish(
        &self,
        source: [u8; 32],
        mean: Vec<f64>,
        variance: Vec<f64>,
        noise: Option<NoiseSizes>,
    ) -> Result<Descriptor, DescriptorError> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked to be finite and normal below"
        )]
        let narrow = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
        let descriptor = Descriptor {
            source,
            images: self.images,
            mean: narrow(mean),
            variance: narrow(variance),
            noise,
        };
        descriptor.check()?;
        Ok(descriptor)
    }
}

impl Descriptor {
    /// What holds of every descriptor, made here or received.
    fn check(&self) -> Result<(), DescriptorError> {
        let channels = self.mean.len();
        if channels == 0 || channels > MAX_CHANNELS || channels != self.variance.len() {
            return Err(DescriptorError::Size { channels });
        }
        if self.images < MIN_IMAGES {
            return Err(DescriptorError::TooFewImages {
                images: self.images,
                required: MIN_IMAGES,
            });
        }
        if let Some(channel) = self.mean.iter().position(|value| !value.is_finite()) {
            return Err(DescriptorError::Mean { channel });
        }
        let sound = |value: &f32| value.is_normal() && *value > 0.0;
        if let Some(channel) = self.variance.iter().position(|value| !sound(value)) {
            return Err(DescriptorError::Variance { channel });
        }
        Ok(())
    }
}

/// Why there is no descriptor. The client's data or settings, except for those of [`Descriptor::decode`], which are the
/// sender's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// A setting that is no use.
    #[error("descriptor setting: {what}")]
    Setting {
        /// What it must be.
        what: &'static str,
    },
    /// A feature map whose numbers do not fill its shape, or an empty one.
    #[error(
        "a feature map of {height} x {width} positions and {channels} channels was given {found} numbers: they must fill it"
    )]
    Shape {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// Channels.
        channels: usize,
        /// Numbers given.
        found: usize,
    },
    /// NaN or infinity among the features.
    #[error("image {image}: feature {position} is {value}: check the encoder and the image")]
    NotFinite {
        /// The image, from 0.
        image: u32,
        /// Flat position in the map.
        position: usize,
        /// The number found.
        value: f32,
    },
    /// Images of different encoders.
    #[error(
        "image {image} has {got} channels where the first has {expected}: use one encoder for all images"
    )]
    Channels {
        /// The image, from 0.
        image: u32,
        /// Its channels.
        got: usize,
        /// The first image's.
        expected: usize,
    },
    /// Not enough to speak of a spread.
    #[error("{images} image(s) are too few for a descriptor: at least {required} are needed")]
    TooFewImages {
        /// Images there are.
        images: u32,
        /// Images needed.
        required: u32,
    },
    /// All images give the same features.
    #[error(
        "all {images} images give the same features, so there is no variance: are they copies of one, or is the encoder dead?"
    )]
    NoSpread {
        /// Images there are.
        images: u32,
    },
    /// A mean that is NaN or infinite.
    #[error("the mean of channel {channel} is not a finite number")]
    Mean {
        /// The channel, from 0.
        channel: usize,
    },
    /// A variance that is zero, negative, NaN, infinite or too small to divide by.
    #[error("the variance of channel {channel} is not a positive number")]
    Variance {
        /// The channel, from 0.
        channel: usize,
    },
    /// No channels, or too many.
    #[error("{channels} channels: a descriptor has 1 to {MAX_CHANNELS}")]
    Size {
        /// Channels there are.
        channels: usize,
    },
    /// The privacy asked for leaves nothing to cluster by.
    #[error(
        "noise of standard deviation {log_variance_sd:.3} on log variances would drown the clusters (at most {MAX_LOG_VARIANCE_SD}): use more images, fewer channels, a smaller clip, a higher variance floor or a weaker privacy"
    )]
    TooNoisy {
        /// What would be added.
        log_variance_sd: f64,
    },
    /// Clipped at another length than the noise was sized for.
    #[error("the features were not clipped at {expected}, for which the noise is sized")]
    Clip {
        /// The clip of the noise.
        expected: f64,
    },
    /// Another version of the bytes.
    #[error("descriptor bytes of version {version}: this program reads version 1")]
    Version {
        /// The version found.
        version: u8,
    },
    /// Cut, or with something behind it.
    #[error("a descriptor has {got} bytes where {expected} are due: it was cut or is none")]
    Length {
        /// Bytes there are.
        got: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// Neither plain nor noised, or noise of no size.
    #[error("the descriptor's noise field is not one a client writes")]
    NoiseField,
}

/// Fewest images of a descriptor.
pub const MIN_IMAGES: u32 = 8;
/// Share of the average variance that is added to each.
const VARIANCE_SHARE: f64 = 0.05;
/// Added to each variance on top.
const VARIANCE_LEAST: f64 = 1e-8;

#[cfg(test)]
mod tests;
