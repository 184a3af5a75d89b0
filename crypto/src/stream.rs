//! From a seed to mask words: AES-128-CTR with a 64-bit little-endian block counter (suite 1).
//!
//! Word `i` of a mask is the little-endian `u32` at byte `4 i` of the key stream, so any stretch of a mask can be made
//! alone: an auditor checks single chunks, and a vector is masked stretch by stretch.
//!
//! Expanding and adding is one pass over the words, by the fastest [`Backend`] the processor has.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod arm;
mod backend;
mod portable;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little")
))]
mod schedule;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use backend::Backend;

use crate::secret::{Secret32, redacted};
use backend::Engine;
use zeroize::{Zeroize, ZeroizeOnDrop};

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
    fn apply(&self, sign: Sign, start: u64, words: &mut [u32]);
}

/// The mask stream of suite 1.
pub struct AesCtr {
    engine: Engine,
    first: Counter,
}

impl Drop for AesCtr {
    fn drop(&mut self) {
        self.first.zeroize();
    }
}

impl AesCtr {
    /// Starts the stream of `seed` on the fastest back end of this processor.
    #[must_use]
    pub fn new(seed: &StreamSeed) -> Self {
        let (mut key, first) = split(seed);
        let engine = Engine::fastest(&key);
        key.zeroize();
        Self { engine, first }
    }

    /// Starts the stream of `seed` on one back end: for comparing them. `None` where the processor does not have it.
    #[must_use]
    pub fn on(backend: Backend, seed: &StreamSeed) -> Option<Self> {
        let (mut key, first) = split(seed);
        let engine = Engine::new(backend, &key);
        key.zeroize();
        engine.map(|engine| Self { engine, first })
    }

    /// Mask words from `start` on, whatever their place within a block.
    fn stretch(&self, sign: Sign, start: u64, words: &mut [u32], table: &mut Table) {
        let (mut from, skip) = (self.first.plus(start / 4), (start % 4) as usize);
        let ahead = words.len().min((4 - skip) % 4);
        let (head, rest) = words.split_at_mut(ahead);
        if !head.is_empty() {
            self.part(sign, from, skip, head, table);
            from = from.plus(1);
        }
        let (blocks, tail) = rest.split_at_mut(rest.len() / 4 * 4);
        self.engine.apply(from, sign, blocks, table);
        if !tail.is_empty() {
            self.part(sign, from.plus(blocks.len() as u64 / 4), 0, tail, table);
        }
    }

    /// Words of one block from word `skip` of it on.
    fn part(&self, sign: Sign, block: Counter, skip: usize, words: &mut [u32], table: &mut Table) {
        let mut whole = [0; 4];
        for (lane, word) in whole.iter_mut().skip(skip).zip(&*words) {
            *lane = *word;
        }
        self.engine.apply(block, sign, &mut whole, table);
        for (word, lane) in words.iter_mut().zip(whole.iter().skip(skip)) {
            *word = *lane;
        }
        whole.zeroize();
    }
}

impl MaskStream for AesCtr {
    fn apply(&self, sign: Sign, start: u64, words: &mut [u32]) {
        self.stretch(sign, start, words, &mut Table::default());
    }
}

/// Adds (or subtracts) the words `start .. start + words.len()` of every mask to `words`, modulo 2^32: as
/// [`MaskStream::apply`] for each, but stretch by stretch, so that `words` pass through memory once.
pub fn apply_all(masks: &[(Sign, AesCtr)], start: u64, words: &mut [u32]) {
    let mut table = Table::default();
    let mut at = start;
    for stretch in words.chunks_mut(STRETCH) {
        for (sign, mask) in masks {
            mask.stretch(*sign, at, stretch, &mut table);
        }
        // Behind the last stretch there may be no place any more.
        at = at.wrapping_add(stretch.len() as u64);
    }
}

/// A seed's key and starting block.
fn split(seed: &StreamSeed) -> ([u8; 16], Counter) {
    let (halves, _) = seed.0.expose().as_chunks::<16>();
    let mut parts = halves.iter().copied();
    let key = parts.next().unwrap_or_default();
    let block = parts.next().unwrap_or_default();
    (key, Counter::new(block))
}

/// The block that is encrypted: a little-endian counter that wraps within the first eight bytes, and eight fixed bytes.
#[derive(Clone, Copy, Zeroize)]
struct Counter {
    low: u64,
    high: u64,
}

impl Counter {
    fn new(block: [u8; 16]) -> Self {
        let [low, high] = halves(&block);
        Self { low, high }
    }

    fn plus(self, blocks: u64) -> Self {
        let low = self.low.wrapping_add(blocks);
        Self { low, ..self }
    }

    fn block(self) -> [u8; 16] {
        (u128::from(self.high) << 64 | u128::from(self.low)).to_le_bytes()
    }

    /// Blocks before the next whose lowest byte is zero.
    fn blocks_to_group(self) -> usize {
        let [byte, ..] = self.low.wrapping_neg().to_le_bytes();
        usize::from(byte)
    }

    /// Whether the table made for `anchor` serves this counter: byte 5 of the two is the same. In the first round it meets
    /// byte 0, which the table counts through; no other byte of the counter does.
    fn shares_table(self, anchor: Self) -> bool {
        (self.low ^ anchor.low) >> 40 == 0
    }
}

/// A block's two halves, little-endian.
fn halves(block: &[u8; 16]) -> [u64; 2] {
    let (halves, _) = block.as_chunks::<8>();
    let mut out = [0; 2];
    for (half, bytes) in out.iter_mut().zip(halves) {
        *half = u64::from_le_bytes(*bytes);
    }
    out
}

/// What blocks of a group have in common: see the back ends of x86.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(align(64))]
struct Table([u32; GROUP_WORDS]);

impl Default for Table {
    fn default() -> Self {
        Self([0; GROUP_WORDS])
    }
}

/// Blocks whose counters differ in the lowest byte only: as many as a byte has values.
const GROUP_BLOCKS: usize = 256;
const GROUP_WORDS: usize = GROUP_BLOCKS * 4;

/// Words masked at a time: 256 KiB, a quarter of a second-level cache.
const STRETCH: usize = 65_536;

#[cfg(test)]
mod tests;
