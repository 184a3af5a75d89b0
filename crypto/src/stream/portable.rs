//! The back end for every machine: the `aes` and `ctr` crates fill a tile of key stream, which is then added.

use super::{Counter, Sign};
use aes::Aes128;
use aes::cipher::{InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper};
use zeroize::Zeroize;

/// A key in the form the `aes` crate keeps it.
pub(super) struct Portable(Aes128);

impl Portable {
    pub(super) fn new(key: &[u8; 16]) -> Box<Self> {
        Box::new(Self(Aes128::new(key.into())))
    }

    /// Adds or subtracts the key stream from block `from` on; word `i` of it is the `u32` at byte `4 i`.
    pub(super) fn apply(&self, from: Counter, sign: Sign, words: &mut [u32]) {
        let mut block = from.block();
        let core = ctr::CtrCore::<&Aes128, ctr::flavors::Ctr64LE>::inner_iv_init(&self.0, (&block).into());
        block.zeroize();
        let mut stream = StreamCipherCoreWrapper::from_core(core);
        let mut tile = [0u8; TILE_WORDS * 4];
        for stretch in words.chunks_mut(TILE_WORDS) {
            let bytes = tile.get_mut(..stretch.len() * 4).unwrap_or_default();
            bytes.fill(0);
            stream.apply_keystream(bytes);
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
        let used = words.len().min(TILE_WORDS) * 4;
        tile.get_mut(..used).unwrap_or_default().zeroize();
    }
}

/// 16 KiB of key stream: half a first-level data cache.
const TILE_WORDS: usize = 4096;
