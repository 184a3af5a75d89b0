//! Back ends of the mask stream: whatever the key, place, length and cuts, each gives what the portable one gives.

use veilsum_crypto::StreamSeed;
use veilsum_crypto::stream::{AesCtr, Backend, MaskStream, Sign, apply_all};

/// Up to 15 masks of 32 bytes and a sign; before them eight bytes of place, two of length and two of where to cut.
///
/// # Panics
/// When two back ends differ.
pub fn run(data: &[u8]) {
    let Some((head, seeds)) = data.split_first_chunk::<12>() else {
        return;
    };
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *head;
    let length = usize::from(u16::from_le_bytes([i, j])) % 12_000;
    let start = u64::from_le_bytes([a, b, c, d, e, f, g, h]).min(u64::MAX - length as u64);
    let cut = usize::from(u16::from_le_bytes([k, l])) % (length + 1);
    let masks = |backend| -> Vec<(Sign, AesCtr)> {
        let seed = |bytes: &[u8; 33]| {
            let [sign, seed @ ..] = *bytes;
            let sign = if sign % 2 == 0 { Sign::Plus } else { Sign::Minus };
            Some((sign, AesCtr::on(backend, &StreamSeed::for_test(seed))?))
        };
        seeds.as_chunks().0.iter().take(15).filter_map(seed).collect()
    };
    let before: Vec<u32> = (0u32..).step_by(0x0101_0101).take(length.min(255)).collect();
    let before = [before, vec![7; length.saturating_sub(255)]].concat();

    let mut expected = before.clone();
    for (sign, mask) in masks(Backend::Portable) {
        mask.apply(sign, start, &mut expected);
    }
    for backend in Backend::ALL.into_iter().filter(|backend| backend.is_here()) {
        let mut words = before.clone();
        let (left, right) = words.split_at_mut(cut);
        let masks = masks(backend);
        apply_all(&masks, start, left);
        apply_all(&masks, start + cut as u64, right);
        assert!(
            words == expected,
            "{backend:?}, start {start}, length {length}, cut {cut}"
        );
    }
}

/// One for each kind of start: small, before the counter's carries, and at the end of what can be addressed.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let starts = [0, 3, (1 << 10) - 1, (1 << 34) - 700, 1 << 42, u64::MAX];
    let counters = [0, u64::MAX - 600, (1 << 40) - 300, (1 << 32) - 256];
    let mut seeds = Vec::new();
    for start in starts {
        for counter in counters {
            let mut seed = start.to_le_bytes().to_vec();
            seed.extend_from_slice(&5_000u16.to_le_bytes());
            seed.extend_from_slice(&1_234u16.to_le_bytes());
            for sign in [0u8, 1] {
                seed.push(sign);
                seed.extend_from_slice(&[sign + 3; 16]);
                seed.extend_from_slice(&counter.to_le_bytes());
                seed.extend_from_slice(&[9; 8]);
            }
            seeds.push(seed);
        }
    }
    seeds
}
