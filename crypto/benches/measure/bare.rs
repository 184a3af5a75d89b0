//! The reference: AES-128-CTR by VAES and AVX-512 into a buffer, ten rounds a block, nothing added.

#![allow(
    unsafe_code,
    reason = "vector stores, and a call that needs a processor feature"
)]
#![deny(unsafe_op_in_unsafe_fn)]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_aesenc_epi128, _mm512_aesenclast_epi128, _mm512_set_epi64,
    _mm512_set1_epi64, _mm512_storeu_si512, _mm512_xor_si512,
};

/// Fills `buffer` with key stream; `None` where the processor has no VAES.
pub fn fill(buffer: &mut [u32]) -> Option<()> {
    let here = is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx512f");
    // SAFETY: the features the function is compiled for were just found.
    here.then(|| unsafe { run(buffer) })
}

#[target_feature(enable = "avx512f,vaes")]
fn run(buffer: &mut [u32]) {
    // Any round keys will do for a time.
    let mut keys = [_mm512_set1_epi64(0); 11];
    for (number, key) in (1i64..).zip(&mut keys) {
        *key = _mm512_set1_epi64(number.wrapping_mul(0x0123_4567_89ab_cdef));
    }
    let [first, middle @ .., last] = keys;
    let mut counters = _mm512_set_epi64(9, 3, 9, 2, 9, 1, 9, 0);
    let step = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    for flight in buffer.as_chunks_mut::<128>().0 {
        let mut states = [first; 8];
        for state in &mut states {
            *state = _mm512_xor_si512(*state, counters);
            counters = _mm512_add_epi64(counters, step);
        }
        for key in middle {
            for state in &mut states {
                *state = _mm512_aesenc_epi128(*state, key);
            }
        }
        for (vector, state) in flight.as_chunks_mut::<16>().0.iter_mut().zip(states) {
            set(vector, _mm512_aesenclast_epi128(state, last));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn set(words: &mut [u32; 16], vector: __m512i) {
    // SAFETY: the array is as long as the vector, and the store asks for no alignment.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) }
}
