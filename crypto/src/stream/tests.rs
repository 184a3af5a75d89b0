use super::*;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use chacha20::ChaCha20Rng;
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};

fn here() -> impl Iterator<Item = Backend> {
    Backend::ALL.into_iter().filter(|backend| backend.is_here())
}

fn stream(backend: Backend, bytes: [u8; 32]) -> AesCtr {
    AesCtr::on(backend, &StreamSeed::for_test(bytes)).unwrap()
}

/// A seed whose first counter is `low`.
fn seed_from(key: u8, low: u64) -> [u8; 32] {
    let mut seed = [key; 32];
    seed[16..24].copy_from_slice(&low.to_le_bytes());
    seed
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

#[test]
fn nist_sp_800_38a_f_5_1_block_by_block() {
    // Output blocks of CTR-AES128.Encrypt; each is the stream's first block when started at that counter block.
    let key = hex::decode("2b7e151628aed2a6abf7158809cf4f3c").unwrap();
    for backend in here() {
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
            stream(backend, seed).apply(Sign::Plus, 0, &mut words);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(hex::encode(bytes), output, "{backend:?}");
            // The same block in every place of vectors and tables: it comes out wherever the counter reaches it.
            for before in [1, 2, 3, 4, 31, 32, 33, 255, 256, 511, 600, 1000] {
                let low = u64::from_le_bytes(seed[16..24].try_into().unwrap());
                let mut earlier = seed;
                earlier[16..24].copy_from_slice(&low.wrapping_sub(before).to_le_bytes());
                let mut words = vec![0; 4 * 1100];
                stream(backend, earlier).apply(Sign::Plus, 0, &mut words);
                let at = usize::try_from(before).unwrap() * 4;
                let bytes: Vec<u8> = words[at..at + 4]
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .collect();
                assert_eq!(hex::encode(bytes), output, "{backend:?} {before}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_stretch_equals_the_definition(seed: [u8; 32], start in 0u64..1 << 40, length in 0usize..40) {
        for backend in here() {
            let mut words = vec![0; length];
            stream(backend, seed).apply(Sign::Plus, start, &mut words);
            for (i, word) in words.iter().enumerate() {
                prop_assert_eq!(*word, by_definition(seed, start + i as u64));
            }
        }
    }
}

#[test]
fn counters_carry_through_every_byte_and_wrap_inside_their_half() {
    const LENGTH: usize = 4 * 256 * 6 + 5;
    for backend in here() {
        // The carry comes before the first group, at its start, inside the table's run and behind it.
        for carry in (8..=64).step_by(4) {
            for before in [0, 1, 256, 300, 512, 600, 1024, 1279] {
                let low = 1u64.checked_shl(carry).unwrap_or(0).wrapping_sub(before);
                let seed = seed_from(0xa5, low);
                let mut words = vec![7; LENGTH];
                stream(backend, seed).apply(Sign::Plus, 3, &mut words);
                for (i, word) in words.iter().enumerate() {
                    let want = by_definition(seed, 3 + i as u64).wrapping_add(7);
                    assert_eq!(*word, want, "{backend:?}, 2^{carry} - {before}, word {i}");
                }
                stream(backend, seed).apply(Sign::Minus, 3, &mut words);
                assert!(words.iter().all(|word| *word == 7));
            }
        }
    }
}

#[test]
fn every_short_length_offset_and_alignment() {
    #[repr(align(64))]
    struct Aligned([u32; 400]);

    let seed = seed_from(0x3c, u64::MAX - 40);
    let expected: Vec<u32> = (0..380).map(|word| by_definition(seed, word)).collect();
    for backend in here() {
        let stream = stream(backend, seed);
        for length in 0..=300 {
            for offset in 0..=70 {
                for align in 0..16 {
                    let mut words = Aligned([9; 400]);
                    let (before, rest) = words.0.split_at_mut(align);
                    let (middle, after) = rest.split_at_mut(length);
                    stream.apply(Sign::Plus, offset as u64, middle);
                    let case = || format!("{backend:?}, length {length}, offset {offset}, alignment {align}");
                    for (word, mask) in middle.iter().zip(&expected[offset..]) {
                        assert_eq!(*word, mask.wrapping_add(9), "{}", case());
                    }
                    assert!(before.iter().chain(&*after).all(|word| *word == 9), "{}", case());
                }
            }
        }
    }
}

/// One random case: several masks at a random place of a vector, by every back end and by the portable one mask by mask.
fn random_case(rng: &mut ChaCha20Rng) {
    let seeds: Vec<([u8; 32], Sign)> = (0..=rng.next_u32() % 4)
        .map(|_| {
            let mut seed = [0; 32];
            rng.fill_bytes(&mut seed);
            // A third start shortly before a carry.
            if rng.next_u32().is_multiple_of(3) {
                let carry = 1u64.checked_shl(8 + rng.next_u32() % 57).unwrap_or(0);
                let low = carry.wrapping_sub(u64::from(rng.next_u32() % 1500));
                seed[16..24].copy_from_slice(&low.to_le_bytes());
            }
            let sign = [Sign::Plus, Sign::Minus][(rng.next_u32() % 2) as usize];
            (seed, sign)
        })
        .collect();
    let most = [16, 300, 3_000, 7_000][(rng.next_u32() % 4) as usize];
    let mut length = (rng.next_u32() % most) as usize;
    if rng.next_u32().is_multiple_of(500) {
        length += STRETCH;
    }
    let start = rng.next_u64() >> (rng.next_u32() % 64);
    let last = u64::MAX - length as u64;
    let start = if rng.next_u32().is_multiple_of(50) {
        last
    } else {
        start.min(last)
    };
    let align = (rng.next_u32() % 16) as usize;
    let before: Vec<u32> = (0..align + length).map(|_| rng.next_u32()).collect();

    let mut expected = before.clone();
    for (seed, sign) in &seeds {
        stream(Backend::Portable, *seed).apply(*sign, start, &mut expected[align..]);
    }
    for backend in here() {
        let masks: Vec<(Sign, AesCtr)> = seeds
            .iter()
            .map(|(seed, sign)| (*sign, stream(backend, *seed)))
            .collect();
        let mut words = before.clone();
        apply_all(&masks, start, &mut words[align..]);
        assert!(
            words == expected,
            "{backend:?}, start {start}, length {length}, alignment {align}, {seeds:?}"
        );
    }
}

#[test]
fn random_cases_equal_the_portable_back_end() {
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    for _ in 0..20_000 {
        random_case(&mut rng);
    }
}

/// `cargo test --release -p veilsum-crypto --lib stream -- --ignored`
#[test]
#[ignore = "a million cases: a minute"]
fn a_million_random_cases_equal_the_portable_back_end() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    for _ in 0..1_000_000 {
        random_case(&mut rng);
    }
}

#[test]
fn a_mask_goes_on_past_four_gibibytes() {
    let seed = seed_from(0x11, 77);
    let start = (1 << 30) - 5_000;
    for backend in here() {
        let stream = stream(backend, seed);
        let mut words = vec![0; 10_000];
        stream.apply(Sign::Plus, start, &mut words);
        // Cut at the boundary, and anywhere else, the stretches are the same.
        for cut in [5_000, 4_999, 1, 7_777] {
            let mut again = vec![0; 10_000];
            let (left, right) = again.split_at_mut(cut);
            stream.apply(Sign::Plus, start, left);
            stream.apply(Sign::Plus, start + cut as u64, right);
            assert!(again == words, "{backend:?} cut at {cut}");
        }
        for i in (0..10_000).step_by(37).chain(4_990..5_010) {
            assert_eq!(words[i], by_definition(seed, start + i as u64), "{backend:?}");
        }
    }
}

/// `cargo test --release -p veilsum-crypto --lib stream -- --ignored`
#[test]
#[ignore = "a vector of 4 GiB"]
fn one_vector_longer_than_four_gibibytes() {
    let seed = seed_from(0x12, u64::MAX - (1 << 27));
    let length = (1usize << 30) + 12_345;
    let mut words = vec![0u32; length];
    let mut tile = vec![0u32; 1 << 16];
    for backend in here() {
        let masks = [(Sign::Plus, stream(backend, seed))];
        apply_all(&masks, 1, &mut words);
        let portable = stream(Backend::Portable, seed);
        for (index, stretch) in words.chunks(1 << 16).enumerate() {
            let tile = &mut tile[..stretch.len()];
            tile.fill(0);
            portable.apply(Sign::Plus, 1 + (index << 16) as u64, tile);
            assert!(*stretch == *tile, "{backend:?}, tile {index}");
        }
        words.fill(0);
    }
}

#[test]
fn a_back_end_that_is_not_here_gives_no_stream() {
    for backend in Backend::ALL {
        let stream = AesCtr::on(backend, &StreamSeed::for_test([1; 32]));
        assert_eq!(stream.is_some(), backend.is_here());
    }
    assert!(Backend::Portable.is_here());
    assert!(!(Backend::Neon.is_here() && Backend::AesNi.is_here()));
    assert!(Backend::fastest().is_here());
}
