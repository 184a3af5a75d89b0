//! The eleven round keys of AES-128 (FIPS 197, 5.2), as bytes that every back end loads its own way.

use aes::hazmat::{cipher_round, inv_mix_columns};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Round keys 0 to 10.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct Schedule([[u8; 16]; 11]);

impl Schedule {
    /// In a box, so that moving it leaves no copies behind.
    pub(super) fn new(key: &[u8; 16]) -> Box<Self> {
        let mut schedule = Box::new(Self([[0; 16]; 11]));
        if let Some(first) = schedule.0.first_mut() {
            *first = *key;
        }
        let mut last = *key;
        for (next, constant) in schedule.0.iter_mut().skip(1).zip(ROUND_CONSTANTS) {
            let [.., a, b, c, d] = last;
            let mut word = sub_word([b, c, d, a]);
            word[0] ^= constant;
            let (columns, _) = last.as_chunks_mut::<4>();
            for column in columns {
                for (byte, old) in word.iter_mut().zip(column) {
                    *byte ^= *old;
                    *old = *byte;
                }
            }
            *next = last;
            word.zeroize();
        }
        last.zeroize();
        schedule
    }

    pub(super) fn keys(&self) -> &[[u8; 16]; 11] {
        &self.0
    }
}

/// The S-box on four bytes, in constant time. A round of AES on four equal columns without its key is S-box and
/// `MixColumns` alone: moving rows about changes nothing there.
fn sub_word(word: [u8; 4]) -> [u8; 4] {
    let mut block: aes::Block =
        std::array::from_fn(|i| word.as_slice().get(i % 4).copied().unwrap_or_default()).into();
    cipher_round(&mut block, &aes::Block::default());
    inv_mix_columns(&mut block);
    let [a, b, c, d, ..] = block.0;
    block.zeroize();
    [a, b, c, d]
}

const ROUND_CONSTANTS: [u8; 10] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fips_197_appendix_a_1() {
        let key = hex::decode("2b7e151628aed2a6abf7158809cf4f3c").unwrap();
        let schedule = Schedule::new(&key.try_into().unwrap());
        // w[0..4], w[4..8], w[20..24] and w[40..44] of the printed expansion.
        for (round, expected) in [
            (0, "2b7e151628aed2a6abf7158809cf4f3c"),
            (1, "a0fafe1788542cb123a339392a6c7605"),
            (5, "d4d1c6f87c839d87caf2b8bc11f915bc"),
            (10, "d014f9a8c9ee2589e13f0cc8b6630ca6"),
        ] {
            assert_eq!(hex::encode(schedule.keys()[round]), expected);
        }
    }
}
