//! Expanding masks and adding them, beside a kernel that only expands, the crates, memory and SHA-256.
//!
//! `cargo bench -p veilsum-crypto --features testing --bench mask [-- --format json]`. Processor time of one thread; every
//! figure is the median of 15 rounds that take turns, so that a slow moment of the machine meets all of them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    missing_docs,
    unreachable_pub,
    reason = "a bench: a panic is the report, figures are approximate, and parts of it are modules"
)]

#[cfg(target_arch = "x86_64")]
#[path = "measure/bare.rs"]
mod bare;
#[path = "measure/row.rs"]
mod row;

use row::{Row, Target, median, print, seconds};
use sha2::{Digest, Sha256};
use std::hint::black_box;
use veilsum_crypto::stream::{AesCtr, Backend, Sign, apply_all};
use veilsum_crypto::{MaskStream, StreamSeed};

/// A million entries and the weight.
const ENTRIES: usize = 1_000_001;
const MASKS: usize = 10;
const ROUNDS: usize = 15;
/// The stretch a vector is masked by.
const TILE: usize = 65_536;

fn masks(backend: Backend, count: usize) -> Vec<(Sign, AesCtr)> {
    (0..count)
        .map(|number| {
            let seed = StreamSeed::for_test([u8::try_from(number).unwrap(); 32]);
            let sign = if number % 2 == 0 { Sign::Plus } else { Sign::Minus };
            (sign, AesCtr::on(backend, &seed).unwrap())
        })
        .collect()
}

fn main() {
    let bytes = (ENTRIES * 4) as f64;
    let mut words = vec![1u32; ENTRIES];
    let source = vec![3u32; ENTRIES];
    let backends: Vec<Backend> = Backend::ALL
        .into_iter()
        .filter(|backend| backend.is_here())
        .collect();
    let few: Vec<Vec<(Sign, AesCtr)>> = backends.iter().map(|backend| masks(*backend, MASKS)).collect();
    let crates: Vec<AesCtr> = masks(Backend::Portable, MASKS)
        .into_iter()
        .map(|(_, mask)| mask)
        .collect();
    let hundred = masks(Backend::fastest(), 100);

    let mut fused = vec![Vec::new(); backends.len()];
    let (mut bare, mut plain, mut client, mut copy, mut sha) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (times, masks) in fused.iter_mut().zip(&few) {
            times.push(seconds(|| apply_all(masks, 0, &mut words)) / MASKS as f64);
        }
        #[cfg(target_arch = "x86_64")]
        {
            // The same bytes, into a buffer that stays in the cache.
            let time = seconds(|| {
                for _ in 0..MASKS {
                    let mut left = ENTRIES;
                    while left > 0 {
                        let now = left.min(TILE);
                        if bare::fill(black_box(&mut words[..now])).is_none() {
                            return;
                        }
                        left -= now;
                    }
                }
            });
            bare.push(time / MASKS as f64);
        }
        // Mask by mask over the whole vector, as it was.
        plain.push(
            seconds(|| {
                for mask in &crates {
                    mask.apply(Sign::Plus, 0, &mut words);
                }
            }) / MASKS as f64,
        );
        client.push(seconds(|| apply_all(&hundred, 0, &mut words)));
        copy.push(seconds(|| {
            black_box(&mut words).copy_from_slice(black_box(&source));
        }));
        sha.push(seconds(|| {
            let mut hash = Sha256::new();
            for word in source.chunks(16_384) {
                let packed: Vec<u8> = word.iter().flat_map(|word| word.to_le_bytes()).collect();
                hash.update(&packed);
            }
            black_box(hash.finalize());
        }));
    }
    let rate = |times: &[f64]| bytes / median(times.to_vec()) / 1e9;
    let (bare, plain) = (rate(&bare), rate(&plain));
    let mut rows = Vec::new();
    let has_vaes = backends.contains(&Backend::Vaes512);
    for (backend, times) in backends.iter().zip(&fused) {
        let value = rate(times);
        let name = format!("expand and add, {backend:?}");
        if has_vaes {
            rows.push(Row {
                name: format!("{name}, beside VAES without adding"),
                value,
                unit: "GB/s",
                reference: bare,
                target: if *backend == Backend::Vaes512 {
                    Target::AtLeast(0.9)
                } else {
                    Target::None
                },
            });
        }
        rows.push(Row {
            name: format!("{name}, beside aes + ctr then add"),
            value,
            unit: "GB/s",
            reference: plain,
            target: if *backend == Backend::AesNi {
                Target::AtLeast(1.3)
            } else {
                Target::None
            },
        });
    }
    for (name, value) in [("memcpy", rate(&copy)), ("SHA-256", rate(&sha))] {
        rows.push(Row {
            name: name.to_owned(),
            value,
            unit: "GB/s",
            reference: if has_vaes { bare } else { plain },
            target: Target::None,
        });
    }
    rows.push(Row {
        name: "a client's 100 masks, a million entries".to_owned(),
        value: median(client) * 1e3,
        unit: "ms",
        reference: 25.0,
        target: Target::AtMost(1.0),
    });
    print(&rows);
}
