//! Which images a descriptor is made from, and their features.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;

use super::{DescriptorError, FeatureMap, Pooling, Summary};
use crate::error::LearnError;
use crate::learner::Learner;
use crate::shuffle::shuffle;

/// An encoder's output for one image, in the order of [`FeatureMap`].
#[derive(Clone, PartialEq)]
pub struct Features {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Channels.
    pub channels: usize,
    /// The numbers, position by position.
    pub values: Vec<f32>,
}

impl std::fmt::Debug for Features {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Features({} x {} x {})",
            self.height, self.width, self.channels
        )
    }
}

/// What to describe a client's data by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Images; a client with more draws so many of them, without replacement.
    pub images: u32,
    /// Whether fewer will not do: the size of noise follows from the number of images.
    pub exactly: bool,
    /// Seed of the draw.
    pub seed: u64,
    /// Length to which an image's pooled features are clipped, for noise.
    pub clip: Option<f64>,
    /// How a map becomes one number per channel.
    pub pooling: Pooling,
}

impl Summary {
    /// Summarises a learner's training images with the encoder it holds now. Load the weights everybody describes their data
    /// with first: descriptors of different encoders do not compare.
    ///
    /// # Errors
    /// [`LearnError`]: a learner without an encoder, too few images, or features that are not finite.
    pub fn of(learner: &mut dyn Learner, draw: Draw) -> Result<Self, LearnError> {
        let count = learner.sample_count();
        if draw.exactly && count < draw.images {
            return Err(DescriptorError::TooFewImages {
                images: count,
                required: draw.images,
            }
            .into());
        }
        let mut frames: Vec<u32> = (0..count).collect();
        shuffle(&mut frames, &mut ChaCha20Rng::seed_from_u64(draw.seed));
        let mut summary = Self::new(draw.pooling, draw.clip)?;
        for frame in frames.into_iter().take(draw.images as usize) {
            let features = learner.features(frame)?;
            let map = FeatureMap::new(
                features.height,
                features.width,
                features.channels,
                &features.values,
            )?;
            summary.add(&map)?;
        }
        Ok(summary)
    }
}
