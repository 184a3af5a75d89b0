//! The digest that names a model: what a plan says a cluster starts from, and what a round ends with.

use sha2::{Digest as _, Sha256};
use veilsum_crypto::Digest;
use veilsum_crypto::label::Label;

/// The digest of a model's shared entries: `label ‖ count ‖ little-endian f32 bytes`.
#[must_use]
pub fn model_digest(entries: &[f32]) -> Digest {
    let mut hasher = ModelHasher::new(entries.len());
    hasher.entries(entries);
    hasher.finish()
}

/// [`model_digest`] of a model that comes piece by piece.
pub(crate) struct ModelHasher(Sha256);

impl ModelHasher {
    /// Begins a model of so many entries.
    pub(crate) fn new(entries: usize) -> Self {
        // The parts of a labelled hash: each after its length.
        let count = (entries as u64).to_le_bytes();
        let mut inner = Sha256::new();
        inner.update(MODEL.prefix());
        inner.update((count.len() as u64).to_le_bytes());
        inner.update(count);
        inner.update((entries as u64).saturating_mul(4).to_le_bytes());
        Self(inner)
    }

    /// Adds entries by their little-endian bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds entries.
    pub(crate) fn entries(&mut self, entries: &[f32]) {
        let mut bytes = [0; 4 * PIECE];
        for piece in entries.chunks(PIECE) {
            let slots = bytes.as_chunks_mut::<4>().0.iter_mut();
            for (slot, entry) in slots.zip(piece) {
                *slot = entry.to_le_bytes();
            }
            self.0.update(bytes.get(..4 * piece.len()).unwrap_or_default());
        }
    }

    /// The digest; of another number of entries than announced it is none of any model.
    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// Entries hashed at a time: what stays in the nearest cache.
const PIECE: usize = 2048;

const MODEL: Label = Label::new("model");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_labelled_hash_of_the_whole() {
        for count in [0usize, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let model: Vec<f32> = (0u16..).take(count).map(f32::from).collect();
            let bytes: Vec<u8> = model.iter().flat_map(|entry| entry.to_le_bytes()).collect();
            let whole = MODEL.hash(&[&(count as u64).to_le_bytes(), &bytes]);
            assert_eq!(model_digest(&model), whole);
            let mut hasher = ModelHasher::new(count);
            for piece in bytes.chunks(1000) {
                hasher.bytes(piece);
            }
            assert_eq!(hasher.finish(), whole);
        }
    }

    #[test]
    fn bits_count_not_values() {
        assert_ne!(model_digest(&[0.0]), model_digest(&[-0.0]));
        assert_ne!(model_digest(&[]), model_digest(&[0.0]));
        assert_eq!(model_digest(&[1.5, 2.0]), model_digest(&[1.5, 2.0]));
    }
}
