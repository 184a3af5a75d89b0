//! Numbers at random and from positions.

use chacha20::ChaCha20Rng;
use rand_core::Rng;

/// A number in `low..high`.
pub(crate) fn range(rng: &mut ChaCha20Rng, low: f32, high: f32) -> f32 {
    low + (high - low) * unit(rng.next_u32())
}

/// A well-mixed word from a grid position (after the finaliser of `MurmurHash3`).
pub(crate) fn hash(x: i32, y: i32, seed: u32) -> u32 {
    let mut h =
        x.cast_unsigned().wrapping_mul(0x9e37_79b1) ^ y.cast_unsigned().wrapping_mul(0x85eb_ca77) ^ seed;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// The word's top 24 bits as a number in 0..1.
#[expect(clippy::cast_precision_loss, reason = "24 bits fit an f32")]
pub(crate) fn unit(word: u32) -> f32 {
    (word >> 8) as f32 / (1 << 24) as f32
}
