//! The back ends of x86-64: AES-NI, one block an instruction, and VAES with AVX-512, four.
//!
//! Key stream never reaches memory: eight vectors of counters go through the rounds together, which hides the latency of
//! one, and are added to the words in registers.
//!
//! Two of the ten rounds are mostly saved. Blocks whose counters differ in the lowest byte alone differ, after the first
//! round, in one column only, and in that column each byte of the other counter bytes' making is the same while counter
//! byte 5 is. So after the second round, up to which everything but the byte-wise S-box is linear, the state of block
//! `c + i`, `i < 256`, is that of block `a + i` plus a constant: the difference of the states of `c` and `a`. The states of
//! `a + i` are kept in a table (Bernstein and Schwabe 2008, "New AES software speed records", section 3, go as far with
//! table look-ups). The table is read from front to back: no address depends on a key. That the first block in line with
//! the table comes sooner or later shows the lowest byte of the starting block, of which counter mode asks no secrecy.

#![allow(
    unsafe_code,
    reason = "vector loads and stores, and calls that need a processor feature; docs/adr/0010-kernel.md"
)]
#![deny(unsafe_op_in_unsafe_fn)]

use super::schedule::Schedule;
use super::{Counter, GROUP_BLOCKS, GROUP_WORDS, Sign, Table};

/// Proof that the processor has AES-NI.
#[derive(Clone, Copy)]
pub(super) struct AesNi(());

impl AesNi {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("aes") && is_x86_feature_detected!("sse2")).then_some(Self(()))
    }

    #[expect(clippy::unused_self, reason = "having one is the proof")]
    pub(super) fn apply(
        self,
        schedule: &Schedule,
        from: Counter,
        sign: Sign,
        words: &mut [u32],
        table: &mut Table,
    ) {
        // SAFETY: `self` is made by `detect` alone, which found the features the function is compiled for.
        unsafe { aes_ni::apply(schedule, from, sign, words, table) }
    }
}

/// Proof that the processor has VAES and AVX-512F.
#[derive(Clone, Copy)]
pub(super) struct Vaes512(());

impl Vaes512 {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx512f")).then_some(Self(()))
    }

    #[expect(clippy::unused_self, reason = "having one is the proof")]
    pub(super) fn apply(
        self,
        schedule: &Schedule,
        from: Counter,
        sign: Sign,
        words: &mut [u32],
        table: &mut Table,
    ) {
        // SAFETY: `self` is made by `detect` alone, which found the features the function is compiled for.
        unsafe { vaes_512::apply(schedule, from, sign, words, table) }
    }
}

/// One width's kernel, from its vector type and instructions.
macro_rules! kernel {
    (
        $name:ident, $features:literal, $vector:ident, $blocks:literal blocks,
        load $load:ident, store $store:ident, broadcast $broadcast:path, counters $counters:path,
        xor $xor:ident, round $round:ident, last $last:ident,
        add words $add:ident, subtract words $subtract:ident, add counters $advance:ident
    ) => {
        mod $name {
            use super::{Counter, GROUP_BLOCKS, GROUP_WORDS, Schedule, Sign, Table};
            use core::arch::x86_64::{
                $add, $advance, $last, $load, $round, $store, $subtract, $vector, $xor,
            };
            use zeroize::Zeroize;

            /// Blocks a vector holds.
            const BLOCKS: usize = $blocks;
            /// Words a vector holds.
            const WORDS: usize = BLOCKS * 4;
            /// Vectors on their way together.
            const FLIGHT: usize = 8;

            #[target_feature(enable = $features)]
            pub(super) fn apply(
                schedule: &Schedule,
                from: Counter,
                sign: Sign,
                words: &mut [u32],
                table: &mut Table,
            ) {
                let mut keys = [$broadcast(&[0; 16]); 11];
                for (key, bytes) in keys.iter_mut().zip(schedule.keys()) {
                    *key = $broadcast(bytes);
                }
                match sign {
                    Sign::Plus => run::<true>(&keys, from, words, table),
                    Sign::Minus => run::<false>(&keys, from, words, table),
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn run<const PLUS: bool>(
                keys: &[$vector; 11],
                mut from: Counter,
                words: &mut [u32],
                table: &mut Table,
            ) {
                let ahead = from.blocks_to_group() * 4;
                // Filling the table costs what using it once saves.
                if words.len() < ahead + 2 * GROUP_WORDS {
                    return plain::<PLUS>(keys, from, words);
                }
                let (head, words) = words.split_at_mut(ahead);
                plain::<PLUS>(keys, from, head);
                from = from.plus(ahead as u64 / 4);
                let (groups, tail) = words.as_chunks_mut::<GROUP_WORDS>();
                let mut anchor = from;
                fill(keys, anchor, table);
                for group in groups {
                    if !from.shares_table(anchor) {
                        anchor = from;
                        fill(keys, anchor, table);
                    }
                    tabled::<PLUS>(keys, from, anchor, group, table);
                    from = from.plus(GROUP_BLOCKS as u64);
                }
                plain::<PLUS>(keys, from, tail);
            }

            /// Ten rounds for every block.
            #[inline]
            #[target_feature(enable = $features)]
            fn plain<const PLUS: bool>(keys: &[$vector; 11], from: Counter, words: &mut [u32]) {
                let [first, middle @ .., last] = keys;
                let (mut counters, step) = $counters(from);
                let (flights, rest) = words.as_chunks_mut::<{ WORDS * FLIGHT }>();
                for flight in flights {
                    let mut states = [*first; FLIGHT];
                    for state in &mut states {
                        *state = $xor(*state, counters);
                        counters = $advance(counters, step);
                    }
                    for key in middle {
                        for state in &mut states {
                            *state = $round(*state, *key);
                        }
                    }
                    let (vectors, _) = flight.as_chunks_mut::<WORDS>();
                    for (vector, state) in vectors.iter_mut().zip(states) {
                        put::<PLUS>(vector, $last(state, *last));
                    }
                }
                let mut one = |vector: &mut [u32; WORDS]| {
                    let mut state = $xor(*first, counters);
                    counters = $advance(counters, step);
                    for key in middle {
                        state = $round(state, *key);
                    }
                    put::<PLUS>(vector, $last(state, *last));
                };
                let (vectors, rest) = rest.as_chunks_mut::<WORDS>();
                for vector in vectors {
                    one(vector);
                }
                if !rest.is_empty() {
                    let mut vector = [0; WORDS];
                    for (lane, word) in vector.iter_mut().zip(&*rest) {
                        *lane = *word;
                    }
                    one(&mut vector);
                    for (word, lane) in rest.iter_mut().zip(&vector) {
                        *word = *lane;
                    }
                    vector.zeroize();
                }
            }

            /// Eight rounds for every block of a group: the first two are in the table.
            #[inline]
            #[target_feature(enable = $features)]
            fn tabled<const PLUS: bool>(
                keys: &[$vector; 11],
                from: Counter,
                anchor: Counter,
                group: &mut [u32; GROUP_WORDS],
                table: &Table,
            ) {
                let [first, second, third, middle @ .., last] = keys;
                let two_rounds = |counter: Counter| {
                    let state = $xor(*first, $broadcast(&counter.block()));
                    $round($round(state, *second), *third)
                };
                let shift = $xor(two_rounds(from), two_rounds(anchor));
                let (flights, _) = group.as_chunks_mut::<{ WORDS * FLIGHT }>();
                let (states_of, _) = table.0.as_chunks::<{ WORDS * FLIGHT }>();
                for (flight, from) in flights.iter_mut().zip(states_of) {
                    let (from, _) = from.as_chunks::<WORDS>();
                    let mut states = [shift; FLIGHT];
                    for (state, known) in states.iter_mut().zip(from) {
                        *state = $xor(*state, get(known));
                    }
                    for key in middle {
                        for state in &mut states {
                            *state = $round(*state, *key);
                        }
                    }
                    let (vectors, _) = flight.as_chunks_mut::<WORDS>();
                    for (vector, state) in vectors.iter_mut().zip(states) {
                        put::<PLUS>(vector, $last(state, *last));
                    }
                }
            }

            /// The states of `anchor` and the 255 blocks after it once two rounds are done.
            #[target_feature(enable = $features)]
            fn fill(keys: &[$vector; 11], anchor: Counter, table: &mut Table) {
                let [first, second, third, ..] = keys;
                let (mut counters, step) = $counters(anchor);
                let (vectors, _) = table.0.as_chunks_mut::<WORDS>();
                for vector in vectors {
                    let state = $round($round($xor(*first, counters), *second), *third);
                    counters = $advance(counters, step);
                    set(vector, state);
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn put<const PLUS: bool>(words: &mut [u32; WORDS], stream: $vector) {
                let old = get(words);
                set(
                    words,
                    if PLUS {
                        $add(old, stream)
                    } else {
                        $subtract(old, stream)
                    },
                );
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn get(words: &[u32; WORDS]) -> $vector {
                // SAFETY: the array is as long as the vector, and the load asks for no alignment.
                unsafe { $load(words.as_ptr().cast()) }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn set(words: &mut [u32; WORDS], vector: $vector) {
                // SAFETY: the array is as long as the vector, and the store asks for no alignment.
                unsafe { $store(words.as_mut_ptr().cast(), vector) }
            }
        }
    };
}

kernel!(
    aes_ni, "sse2,aes", __m128i, 1 blocks,
    load _mm_loadu_si128, store _mm_storeu_si128, broadcast super::narrow::block, counters super::narrow::counters,
    xor _mm_xor_si128, round _mm_aesenc_si128, last _mm_aesenclast_si128,
    add words _mm_add_epi32, subtract words _mm_sub_epi32, add counters _mm_add_epi64
);

kernel!(
    vaes_512, "avx512f,vaes", __m512i, 4 blocks,
    load _mm512_loadu_si512, store _mm512_storeu_si512, broadcast super::wide::block, counters super::wide::counters,
    xor _mm512_xor_si512, round _mm512_aesenc_epi128, last _mm512_aesenclast_epi128,
    add words _mm512_add_epi32, subtract words _mm512_sub_epi32, add counters _mm512_add_epi64
);

/// Blocks and counters in vectors of one block.
mod narrow {
    use super::Counter;
    use crate::stream::halves;
    use core::arch::x86_64::{__m128i, _mm_set_epi64x};

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn block(bytes: &[u8; 16]) -> __m128i {
        let [low, high] = halves(bytes);
        _mm_set_epi64x(high.cast_signed(), low.cast_signed())
    }

    /// The first counters, and what leads to the next.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn counters(from: Counter) -> (__m128i, __m128i) {
        (block(&from.block()), _mm_set_epi64x(0, 1))
    }
}

/// Blocks and counters in vectors of four blocks.
mod wide {
    use super::Counter;
    use core::arch::x86_64::{__m512i, _mm512_add_epi64, _mm512_broadcast_i32x4, _mm512_set_epi64};

    /// The same block four times.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn block(bytes: &[u8; 16]) -> __m512i {
        _mm512_broadcast_i32x4(super::narrow::block(bytes))
    }

    /// The first counters, and what leads to the next.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn counters(from: Counter) -> (__m512i, __m512i) {
        let places = _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0);
        let step = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
        (_mm512_add_epi64(block(&from.block()), places), step)
    }
}
