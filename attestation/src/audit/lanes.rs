//! The auditor's own reading and writing of packed vectors: the format of [`veilsum_crypto::residue`], eight entries at a
//! time. Eight entries of m bits are m bytes, so every entry of a group lies at a place known when compiled, one load
//! away. Reading vectors is most of an audit that is neither hashing nor masks, hence this file; that it says what the
//! plain one says is a test below.

use veilsum_crypto::chunk::{self, Chunking};
use veilsum_crypto::residue::{add_packed, pack};
use veilsum_crypto::{Digest, Modulus, ResidueError};

/// Calls a function of a constant width with the width there is.
macro_rules! with_width {
    ($bits:expr, $name:ident($($argument:expr),*)) => {
        with_width!(@ $bits, $name($($argument),*), 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26
            27 28 29 30 31 32)
    };
    (@ $bits:expr, $name:ident $arguments:tt, $($width:literal)*) => {
        match $bits {
            $($width => $name::<$width> $arguments,)*
            // A modulus has 1 to 32 bits.
            _ => {}
        }
    };
}

/// Adds each packed entry to its word, modulo 2^m: bits above the m-th of a word mean nothing until it is reduced, so that
/// no entry need be cut from what stands behind it.
///
/// # Errors
/// As [`add_packed`]: a wrong length, or bits beyond the last entry. Words may have been added to then.
pub(super) fn add(modulus: Modulus, bytes: &[u8], words: &mut [u32]) -> Result<(), ResidueError> {
    let (groups, tail) = words.as_chunks_mut::<8>();
    let (body, rest) = bytes
        .split_at_checked(groups.len() * usize::from(modulus.bits()))
        .unwrap_or((bytes, &[]));
    with_width!(modulus.bits(), add_groups(body, groups));
    add_packed(modulus, rest, tail)
}

/// Hashes the packed chunks from number `first` on and adds their entries to the words, on several threads. Whether all
/// are whole chunks without bits beyond the last entry.
pub(super) fn absorb(
    chunking: Chunking,
    first: usize,
    bytes: &[u8],
    words: &mut [u32],
    leaves: &mut [Digest],
    threads: usize,
) -> bool {
    let each = leaves.len().div_ceil(threads).max(1);
    let (chunk_words, chunk_bytes) = (
        chunking.entries_per_chunk().max(1),
        chunking.bytes(0).unwrap_or(chunk::CHUNK_BYTES).max(1),
    );
    let shares = leaves
        .chunks_mut(each)
        .zip(words.chunks_mut(each * chunk_words))
        .zip(bytes.chunks(each * chunk_bytes));
    let work = |start: usize, ((leaves, words), bytes): ((&mut [Digest], &mut [u32]), &[u8])| {
        let chunks = leaves
            .iter_mut()
            .zip(words.chunks_mut(chunk_words))
            .zip(bytes.chunks(chunk_bytes));
        let mut sound = true;
        for (index, ((leaf, words), bytes)) in (start..).zip(chunks) {
            *leaf = chunk::leaf(index, bytes);
            sound &= add(chunking.modulus(), bytes, words).is_ok();
        }
        sound
    };
    let shares = (first..).step_by(each).zip(shares);
    if threads == 1 {
        return shares.fold(true, |sound, (start, share)| sound & work(start, share));
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = shares
            .map(|(start, share)| scope.spawn(move || work(start, share)))
            .collect();
        // A worker cannot panic; if one did, its chunks would not be sound.
        workers
            .into_iter()
            .fold(true, |sound, worker| sound & worker.join().unwrap_or(false))
    })
}

/// Appends the packed entries to `out`.
pub(super) fn append(modulus: Modulus, words: &[u32], out: &mut Vec<u8>) {
    let (groups, tail) = words.as_chunks::<8>();
    with_width!(modulus.bits(), append_groups(groups, out));
    out.extend_from_slice(&pack(modulus, tail));
}

fn add_groups<const M: usize>(bytes: &[u8], groups: &mut [[u32; 8]]) {
    let mut rest = bytes;
    for group in groups {
        // Near the end there are no 40 bytes left to look at; the last groups are copied before they are read.
        let mut near_end = [0; WINDOW];
        let window = if let Some(window) = rest.first_chunk::<WINDOW>() {
            window
        } else {
            for (slot, byte) in near_end.iter_mut().zip(rest) {
                *slot = *byte;
            }
            &near_end
        };
        for (i, word) in group.iter_mut().enumerate() {
            let (byte, bit) = (i * M / 8, i * M % 8);
            let from = window.get(byte..).unwrap_or_default();
            let entry = if bit + M <= 32 {
                u32::from_le_bytes(from.first_chunk().copied().unwrap_or_default()) >> bit
            } else {
                low(u64::from_le_bytes(from.first_chunk().copied().unwrap_or_default()) >> bit)
            };
            *word = word.wrapping_add(entry);
        }
        rest = rest.get(M..).unwrap_or_default();
    }
}

fn append_groups<const M: usize>(groups: &[[u32; 8]], out: &mut Vec<u8>) {
    out.reserve(groups.len() * M);
    for group in groups {
        // Entries into four 64-bit lanes: 8 · 32 bits at most.
        let mut lanes = [0u64; 4];
        for (i, word) in group.iter().enumerate() {
            let entry = u64::from(*word) & mask::<M>();
            let (lane, bit) = (i * M / 64, i * M % 64);
            if let Some(slot) = lanes.get_mut(lane) {
                *slot |= entry << bit;
            }
            if bit + M > 64
                && let Some(slot) = lanes.get_mut(lane + 1)
            {
                *slot |= entry >> (64 - bit);
            }
        }
        let mut bytes = [0; 32];
        for (slot, lane) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(lanes) {
            *slot = lane.to_le_bytes();
        }
        out.extend_from_slice(bytes.get(..M).unwrap_or_default());
    }
}

const fn mask<const M: usize>() -> u64 {
    (1 << M) - 1
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits of an entry are all in the low word"
)]
fn low(value: u64) -> u32 {
    value as u32
}

/// The last entry of a group starts at byte 28 at most, and eight bytes are read from there.
const WINDOW: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_format_of_residue(bits in 1u8..=32, words in prop::collection::vec(any::<u32>(), 0..90), flip: usize) {
            let modulus = Modulus::new(bits).unwrap();
            let packed = pack(modulus, &words);
            let mut mine = vec![7];
            append(modulus, &words, &mut mine);
            prop_assert_eq!(&mine[1..], &packed[..]);

            let start: Vec<u32> = words.iter().map(|word| word.rotate_left(11)).collect();
            let (mut plain, mut fast) = (start.clone(), start.clone());
            add_packed(modulus, &packed, &mut plain).unwrap();
            prop_assert_eq!(add(modulus, &packed, &mut fast), Ok(()));
            let reduced = |words: Vec<u32>| words.into_iter().map(|word| modulus.reduce(word)).collect::<Vec<_>>();
            prop_assert_eq!(reduced(fast), reduced(plain));

            // Whatever the bytes are, both say the same.
            let mut bent = packed.clone();
            if !bent.is_empty() {
                let at = flip % (bent.len() * 8);
                bent[at / 8] ^= 1 << (at % 8);
            }
            let (mut plain, mut fast) = (start.clone(), start);
            let said = add_packed(modulus, &bent, &mut plain);
            prop_assert_eq!(add(modulus, &bent, &mut fast).is_ok(), said.is_ok());
            if said.is_ok() {
                prop_assert_eq!(reduced(fast), reduced(plain));
            }
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let modulus = Modulus::new(20).unwrap();
        for length in (0..60).filter(|length| *length != 53) {
            assert!(add(modulus, &vec![0; length], &mut [0; 21]).is_err(), "{length}");
        }
        assert_eq!(add(modulus, &[0; 53], &mut [0; 21]), Ok(()));
    }
}
