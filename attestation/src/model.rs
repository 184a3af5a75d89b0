//! The digest that names a model: what a plan says a cluster starts from, and what a round ends with.

use veilsum_crypto::Digest;
use veilsum_crypto::label::Label;

/// The digest of a model's shared entries: `label ‖ count ‖ little-endian f32 bytes`.
#[must_use]
pub fn model_digest(entries: &[f32]) -> Digest {
    let mut bytes = vec![0; 4 * entries.len()];
    for (slot, entry) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(entries) {
        *slot = entry.to_le_bytes();
    }
    MODEL.hash(&[&(entries.len() as u64).to_le_bytes(), &bytes])
}

const MODEL: Label = Label::new("model");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_count_not_values() {
        assert_ne!(model_digest(&[0.0]), model_digest(&[-0.0]));
        assert_ne!(model_digest(&[]), model_digest(&[0.0]));
        assert_eq!(model_digest(&[1.5, 2.0]), model_digest(&[1.5, 2.0]));
    }
}
