//! The back end of 64-bit Arm with the AES extension, one block an instruction.

#![allow(
    unsafe_code,
    reason = "vector loads and stores, and a call that needs a processor feature; docs/adr/0010-kernel.md"
)]
#![deny(unsafe_op_in_unsafe_fn)]

use super::schedule::Schedule;
use super::{Counter, Sign};
use core::arch::aarch64::{
    uint8x16_t, vaddq_u32, vaddq_u64, vaeseq_u8, vaesmcq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vld1q_u32,
    vreinterpretq_u8_u64, vreinterpretq_u32_u8, vreinterpretq_u64_u8, vst1q_u32, vsubq_u32,
};

/// Proof that the processor has NEON and the AES extension.
#[derive(Clone, Copy)]
pub(super) struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Self> {
        (std::arch::is_aarch64_feature_detected!("neon") && std::arch::is_aarch64_feature_detected!("aes"))
            .then_some(Self(()))
    }

    #[expect(clippy::unused_self, reason = "having one is the proof")]
    pub(super) fn apply(self, schedule: &Schedule, from: Counter, sign: Sign, words: &mut [u32]) {
        // SAFETY: `self` is made by `detect` alone, which found the features the function is compiled for.
        unsafe {
            match sign {
                Sign::Plus => run::<true>(schedule, from, words),
                Sign::Minus => run::<false>(schedule, from, words),
            }
        }
    }
}

/// Blocks on their way together.
const FLIGHT: usize = 8;

#[target_feature(enable = "neon,aes")]
fn run<const PLUS: bool>(schedule: &Schedule, from: Counter, words: &mut [u32]) {
    let mut keys = [vdupq_n_u8(0); 11];
    for (key, bytes) in keys.iter_mut().zip(schedule.keys()) {
        *key = block(bytes);
    }
    let mut counter = block(&from.block());
    let step = vreinterpretq_u64_u8(block(&1u128.to_le_bytes()));
    let (flights, rest) = words.as_chunks_mut::<{ 4 * FLIGHT }>();
    for flight in flights {
        let mut states = [counter; FLIGHT];
        for state in &mut states {
            *state = counter;
            counter = vreinterpretq_u8_u64(vaddq_u64(vreinterpretq_u64_u8(counter), step));
        }
        rounds(&keys, &mut states);
        let (quads, _) = flight.as_chunks_mut::<4>();
        for (quad, state) in quads.iter_mut().zip(states) {
            put::<PLUS>(quad, state);
        }
    }
    let (quads, _) = rest.as_chunks_mut::<4>();
    for quad in quads {
        let mut state = [counter];
        counter = vreinterpretq_u8_u64(vaddq_u64(vreinterpretq_u64_u8(counter), step));
        rounds(&keys, &mut state);
        let [state] = state;
        put::<PLUS>(quad, state);
    }
}

/// AES-128 of each state. The instruction adds its key first, so nine rounds are followed by one without `MixColumns`.
#[inline]
#[target_feature(enable = "neon,aes")]
fn rounds<const N: usize>(keys: &[uint8x16_t; 11], states: &mut [uint8x16_t; N]) {
    let [middle @ .., before, last] = keys;
    for key in middle {
        for state in states.iter_mut() {
            *state = vaesmcq_u8(vaeseq_u8(*state, *key));
        }
    }
    for state in states.iter_mut() {
        *state = veorq_u8(vaeseq_u8(*state, *before), *last);
    }
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn put<const PLUS: bool>(words: &mut [u32; 4], stream: uint8x16_t) {
    let stream = vreinterpretq_u32_u8(stream);
    // SAFETY: the array is as long as the vector, and load and store ask for no more alignment than a word's.
    unsafe {
        let old = vld1q_u32(words.as_ptr());
        let new = if PLUS {
            vaddq_u32(old, stream)
        } else {
            vsubq_u32(old, stream)
        };
        vst1q_u32(words.as_mut_ptr(), new);
    }
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn block(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the array is as long as the vector, and the load asks for no alignment.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}
