//! From a seed to mask words: AES-128-CTR with a 64-bit little-endian block counter (suite 1).
//!
//! Word `i` of a mask is the little-endian `u32` at byte `4 i` of the key stream, so any stretch of a mask can be made
//! alone: an auditor checks single chunks, and a vector is masked tile by tile.

use crate::secret::{Secret32, redacted};
use aes::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use zeroize::Zeroize;

/// Key and starting block of a mask: 16 + 16 bytes from HKDF.
///
/// # Security
/// Must not be sent.
pub struct StreamSeed(Secret32);
redacted!(StreamSeed);

impl StreamSeed {
    pub(crate) fn new(secret: Secret32) -> Self {
        Self(secret)
    }

    #[cfg(test)]
    pub(crate) fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// A seed for tests and benchmarks, where the mask itself is the subject.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn for_test(bytes: [u8; 32]) -> Self {
        Self(Secret32::new(bytes))
    }
}

/// Whether a mask is added or taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Add.
    Plus,
    /// Subtract.
    Minus,
}

impl Sign {
    /// The other sign.
    #[must_use]
    pub fn flip(self) -> Self {
        match self {
            Self::Plus => Self::Minus,
            Self::Minus => Self::Plus,
        }
    }
}

/// A seekable source of mask words.
pub trait MaskStream {
    /// Adds (or subtracts) mask words `start .. start + words.len()` to `words`, modulo 2^32.
    fn apply(&mut self, sign: Sign, start: u64, words: &mut [u32]);
}

/// The mask stream of suite 1.
pub struct AesCtr(ctr::Ctr64LE<aes::Aes128>);

impl AesCtr {
    /// Starts the stream of `seed`.
    #[must_use]
    pub fn new(seed: &StreamSeed) -> Self {
        let (key, block) = seed.0.expose().split_at(16);
        let mut key_bytes = [0; 16];
        key_bytes.copy_from_slice(key);
        let mut block_bytes = [0; 16];
        block_bytes.copy_from_slice(block);
        let stream = Self(ctr::Ctr64LE::<aes::Aes128>::new(
            &key_bytes.into(),
            &block_bytes.into(),
        ));
        key_bytes.zeroize();
        block_bytes.zeroize();
        stream
    }
}

impl MaskStream for AesCtr {
    fn apply(&mut self, sign: Sign, start: u64, words: &mut [u32]) {
        let mut tile = [0u8; TILE_WORDS * 4];
        self.0.seek(u128::from(start) * 4);
        for stretch in words.chunks_mut(TILE_WORDS) {
            let bytes = tile.get_mut(..stretch.len() * 4).unwrap_or_default();
            bytes.fill(0);
            self.0.apply_keystream(bytes);
            let (quads, _) = bytes.as_chunks::<4>();
            match sign {
                Sign::Plus => {
                    for (word, quad) in stretch.iter_mut().zip(quads) {
                        *word = word.wrapping_add(u32::from_le_bytes(*quad));
                    }
                }
                Sign::Minus => {
                    for (word, quad) in stretch.iter_mut().zip(quads) {
                        *word = word.wrapping_sub(u32::from_le_bytes(*quad));
                    }
                }
            }
        }
        tile.zeroize();
    }
}

/// 16 KiB of key stream: half a first-level data cache.
const TILE_WORDS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::{BlockCipherEncrypt, KeyInit};
    use proptest::prelude::*;

    fn stream(bytes: [u8; 32]) -> AesCtr {
        AesCtr::new(&StreamSeed::for_test(bytes))
    }

    #[test]
    fn nist_sp_800_38a_f_5_1_block_by_block() {
        // Output blocks of CTR-AES128.Encrypt; each is the stream's first block when started at that counter block.
        let key = hex::decode("2b7e151628aed2a6abf7158809cf4f3c").unwrap();
        for (counter, output) in [
            (
                "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
                "ec8cdf7398607cb0f2d21675ea9ea1e4",
            ),
            (
                "f0f1f2f3f4f5f6f7f8f9fafbfcfdff00",
                "362b7c3c6773516318a077d7fc5073ae",
            ),
            (
                "f0f1f2f3f4f5f6f7f8f9fafbfcfdff01",
                "6a2cc3787889374fbeb4c81b17ba6c44",
            ),
            (
                "f0f1f2f3f4f5f6f7f8f9fafbfcfdff02",
                "e89c399ff0f198c6d40a31db156cabfe",
            ),
        ] {
            let mut seed = [0; 32];
            seed[..16].copy_from_slice(&key);
            seed[16..].copy_from_slice(&hex::decode(counter).unwrap());
            let mut words = [0; 4];
            stream(seed).apply(Sign::Plus, 0, &mut words);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(hex::encode(bytes), output);
        }
    }

    /// The definition, written out: block j is AES(key, start block with its first 8 bytes, little-endian, plus j).
    fn by_definition(seed: [u8; 32], word: u64) -> u32 {
        let cipher = aes::Aes128::new_from_slice(&seed[..16]).unwrap();
        let low = u64::from_le_bytes(seed[16..24].try_into().unwrap()).wrapping_add(word / 4);
        let mut block = [0; 16];
        block[..8].copy_from_slice(&low.to_le_bytes());
        block[8..].copy_from_slice(&seed[24..]);
        let mut block = block.into();
        cipher.encrypt_block(&mut block);
        let at = usize::try_from(word % 4).unwrap() * 4;
        u32::from_le_bytes(block[at..at + 4].try_into().unwrap())
    }

    proptest! {
        #[test]
        fn any_stretch_equals_the_definition(seed: [u8; 32], start in 0u64..1 << 40, length in 0usize..40) {
            let mut words = vec![0; length];
            stream(seed).apply(Sign::Plus, start, &mut words);
            for (i, word) in words.iter().enumerate() {
                prop_assert_eq!(*word, by_definition(seed, start + i as u64));
            }
        }
    }

    #[test]
    fn the_counter_wraps_inside_its_half_and_tiles_join() {
        let mut seed = [0xff; 32];
        seed[24..].fill(1);
        let mut words = vec![7; 3 * TILE_WORDS + 5];
        stream(seed).apply(Sign::Plus, 3, &mut words);
        for (i, word) in words.iter().enumerate() {
            assert_eq!(*word, by_definition(seed, 3 + i as u64).wrapping_add(7));
        }
        stream(seed).apply(Sign::Minus, 3, &mut words);
        assert!(words.iter().all(|word| *word == 7));
    }
}
