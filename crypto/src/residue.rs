//! Vectors in `Z_2^m`: `u32` lanes in memory, m bits an entry on the wire.
//!
//! Arithmetic in memory is modulo 2^32; because 2^m divides 2^32 the reduction can wait until the entries are packed.
//! Packing writes entry after entry, low bit first, into a little-endian bit string; unused bits at the end are zero and
//! anything else is refused, so a vector has one encoding.

use serde::{Deserialize, Serialize};

/// The modulus 2^m of a round, `1 <= m <= 32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Modulus(u8);

impl Modulus {
    /// The modulus 2^`bits`.
    ///
    /// # Errors
    /// [`ResidueError::Bits`] unless `1 <= bits <= 32`.
    pub fn new(bits: u8) -> Result<Self, ResidueError> {
        if (1..=32).contains(&bits) {
            Ok(Self(bits))
        } else {
            Err(ResidueError::Bits(bits))
        }
    }

    /// m.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// `word` modulo 2^m.
    #[must_use]
    pub fn reduce(self, word: u32) -> u32 {
        word & (u32::MAX >> (32 - u32::from(self.0)))
    }

    /// `word` read as a signed residue in `[-2^(m-1), 2^(m-1))`.
    #[must_use]
    pub fn signed(self, word: u32) -> i32 {
        let shift = 32 - u32::from(self.0);
        (word << shift).cast_signed() >> shift
    }

    /// Bytes that `entries` entries take packed; `None` when that exceeds the address space.
    #[must_use]
    pub fn packed_len(self, entries: usize) -> Option<usize> {
        entries
            .checked_mul(usize::from(self.0))
            .map(|bits| bits.div_ceil(8))
    }
}

impl<'de> Deserialize<'de> for Modulus {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u8::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Packs the entries modulo 2^m.
#[must_use]
pub fn pack(modulus: Modulus, words: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(modulus.packed_len(words.len()).unwrap_or(0));
    let (mut held, mut count) = (0u64, 0u32);
    for word in words {
        held |= u64::from(modulus.reduce(*word)) << count;
        count += u32::from(modulus.0);
        // Four bytes at a time: what is held and the next entry are below 64 bits.
        if count >= 32 {
            out.extend_from_slice(&low_word(held).to_le_bytes());
            held >>= 32;
            count -= 32;
        }
    }
    let left = count.div_ceil(8) as usize;
    out.extend(held.to_le_bytes().into_iter().take(left));
    out
}

/// Whether bytes are so many packed entries: any bits are, but for those beyond the last.
///
/// # Errors
/// [`ResidueError::Length`] when the byte count is not that of so many entries, [`ResidueError::Padding`] when an unused
/// bit is set.
pub fn check_packed(modulus: Modulus, bytes: &[u8], entries: usize) -> Result<(), ResidueError> {
    let want = modulus.packed_len(entries).unwrap_or(usize::MAX);
    if bytes.len() != want {
        return Err(ResidueError::Length {
            got: bytes.len(),
            want,
        });
    }
    // `packed_len` is some number, so this many bits do not overflow either.
    let used = entries * usize::from(modulus.0) % 8;
    if used != 0 && bytes.last().is_some_and(|last| last >> used != 0) {
        return Err(ResidueError::Padding);
    }
    Ok(())
}

/// Reads exactly `words.len()` entries and adds each to its lane, modulo 2^32.
///
/// # Errors
/// [`ResidueError::Length`] when the byte count is not that of so many entries, [`ResidueError::Padding`] when an unused
/// bit is set. `words` is untouched then.
pub fn add_packed(modulus: Modulus, bytes: &[u8], words: &mut [u32]) -> Result<(), ResidueError> {
    check_packed(modulus, bytes, words.len())?;
    let mut bit = 0;
    for word in words {
        // An entry and the bits before it in its first byte fit eight bytes; the last entries have fewer bytes left.
        let rest = bytes.get(bit / 8..).unwrap_or_default();
        let held = match rest.first_chunk() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => rest
                .iter()
                .rev()
                .fold(0, |held, byte| held << 8 | u64::from(*byte)),
        };
        *word = word.wrapping_add(modulus.reduce(low_word(held >> (bit % 8))));
        bit += usize::from(modulus.0);
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low word is what is asked for"
)]
fn low_word(held: u64) -> u32 {
    held as u32
}

/// Reads exactly `entries` entries.
///
/// # Errors
/// As [`add_packed`].
pub fn unpack(modulus: Modulus, bytes: &[u8], entries: usize) -> Result<Vec<u32>, ResidueError> {
    // The length is checked before allocating, so a hostile count costs nothing.
    check_packed(modulus, bytes, entries)?;
    let mut words = vec![0; entries];
    add_packed(modulus, bytes, &mut words)?;
    Ok(words)
}

/// Why bytes are not a packed vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResidueError {
    /// A modulus of no or more than 32 bits.
    #[error("a modulus of {0} bits is not between 1 and 32; correct the policy")]
    Bits(u8),
    /// Too many or too few bytes.
    #[error("a packed vector has {got} bytes instead of {want}; its sender is at fault")]
    Length {
        /// Bytes given.
        got: usize,
        /// Bytes expected.
        want: usize,
    },
    /// A bit beyond the last entry is set.
    #[error("a packed vector has bits set beyond its last entry; its sender is at fault")]
    Padding,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn twenty_bits_by_hand() {
        let modulus = Modulus::new(20).unwrap();
        let bytes = pack(modulus, &[0xa_bcde, 0xf_12345 & 0xf_ffff, 0x1]);
        assert_eq!(bytes, [0xde, 0xbc, 0x5a, 0x34, 0x12, 0x01, 0x00, 0x00]);
        assert_eq!(unpack(modulus, &bytes, 3).unwrap(), [0xa_bcde, 0x1_2345, 1]);
    }

    #[test]
    fn wrong_lengths_and_padding_are_named() {
        let modulus = Modulus::new(20).unwrap();
        assert_eq!(
            unpack(modulus, &[0; 7], 3),
            Err(ResidueError::Length { got: 7, want: 8 })
        );
        assert_eq!(
            unpack(modulus, &[0, 0, 0, 0, 0, 0, 0, 0x10], 3),
            Err(ResidueError::Padding)
        );
        assert_eq!(
            unpack(modulus, &[0; 8], usize::MAX),
            Err(ResidueError::Length {
                got: 8,
                want: usize::MAX
            })
        );
        assert_eq!(Modulus::new(0), Err(ResidueError::Bits(0)));
        assert_eq!(Modulus::new(33), Err(ResidueError::Bits(33)));
    }

    #[test]
    fn signed_reading() {
        let modulus = Modulus::new(4).unwrap();
        let signed: Vec<i32> = (0..16).map(|word| modulus.signed(word)).collect();
        assert_eq!(signed, [0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1]);
        assert_eq!(Modulus::new(32).unwrap().signed(u32::MAX), -1);
    }

    proptest! {
        #[test]
        fn packing_round_trips_and_is_canonical(bits in 1u8..=32, words in prop::collection::vec(any::<u32>(), 0..70)) {
            let modulus = Modulus::new(bits).unwrap();
            let bytes = pack(modulus, &words);
            prop_assert_eq!(Some(bytes.len()), modulus.packed_len(words.len()));
            let reduced: Vec<u32> = words.iter().map(|word| u32::try_from(u64::from(*word) % (1u64 << bits)).unwrap()).collect();
            prop_assert_eq!(unpack(modulus, &bytes, words.len()).unwrap(), reduced);
        }

        #[test]
        fn whatever_unpacks_packs_to_itself(bits in 1u8..=32, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let modulus = Modulus::new(bits).unwrap();
            let entries = bytes.len() * 8 / usize::from(bits);
            if let Ok(words) = unpack(modulus, &bytes, entries) {
                prop_assert_eq!(pack(modulus, &words), bytes);
            }
        }
    }
}
