//! How long an audit takes beside what it cannot do without: hashing the same bytes and expanding the same masks.

use crate::run::{Run, auditor};
use crate::world::{Death, Setup};
use std::time::{Duration, Instant};
use veilsum_attestation::model_digest;
use veilsum_crypto::chunk;
use veilsum_crypto::stream::{AesCtr, MaskStream, Sign, StreamSeed};

/// `cargo test --release -p veilsum-aggregation --test audited pace -- --ignored --nocapture`
#[test]
#[ignore = "a measurement; run it alone and in release"]
fn pace() {
    for entries in [100_000, 1_000_000, 4_000_000] {
        measure(entries);
    }
}

fn measure(entries: usize) {
    let setup = Setup {
        clients: 12,
        threshold: 7,
        clusters: vec![(0..8).collect(), (4..12).collect()],
        entries,
        crowd: 3,
        orgs: 4,
    };
    let mut run = Run::new(setup, 41);
    let gone = Death {
        after_sends: 2,
        noticed: true,
        in_flight_lost: false,
    };
    run.attempt(1, 0, &[(0, gone), (5, gone)]);
    let survivors = run.world.outcome.as_ref().unwrap().survivors.clone();
    assert_eq!(survivors.len(), 10);
    let bundle = run.bundle();

    let vectors: Vec<&Vec<u8>> = run
        .vectors
        .iter()
        .filter(|(name, _)| survivors.contains(&name.client))
        .map(|(_, bytes)| bytes)
        .collect();
    // One self-mask per vector; for each dropped client one pairwise mask per survivor of each of its clusters.
    let clusters = &run.federation().setup.clusters;
    let pairs: usize = [0u32, 5]
        .iter()
        .flat_map(|dropped| clusters.iter().filter(move |members| members.contains(dropped)))
        .map(|members| members.iter().filter(|member| ![0, 5].contains(*member)).count())
        .sum();
    let masks = vectors.len() + pairs;

    // The model both clusters start from is in the bundle too.
    let start_model = vec![0.5f32; entries];

    let (mut hash, mut expand, mut all) = (Duration::MAX, Duration::MAX, Duration::MAX);
    let mut words = vec![0u32; entries + 1];
    for _ in 0..7 {
        let start = Instant::now();
        for vector in &vectors {
            let leaves: Vec<_> = vector
                .chunks(65_536)
                .enumerate()
                .map(|(index, bytes)| chunk::leaf(index, bytes))
                .collect();
            std::hint::black_box(chunk::root(&leaves));
        }
        std::hint::black_box(model_digest(&start_model));
        hash = hash.min(start.elapsed());
        let start = Instant::now();
        for mask in 0..masks {
            let seed = StreamSeed::for_test([mask as u8; 32]);
            AesCtr::new(&seed).apply(Sign::Plus, 0, &mut words);
        }
        std::hint::black_box(&words);
        expand = expand.min(start.elapsed());
        let start = Instant::now();
        let verdict = auditor(run.federation())
            .audit(bundle.as_slice(), &mut |_| {})
            .unwrap();
        all = all.min(start.elapsed());
        assert!(verdict.is_verified());
    }
    let base = hash + expand;
    println!(
        "n=12 K=2 d={entries}: bundle {} bytes, {} vectors, {masks} masks; hashing {hash:?} + masks {expand:?} = {base:?}; \
         audit {all:?}, {:.2} times",
        bundle.len(),
        vectors.len(),
        all.as_secs_f64() / base.as_secs_f64()
    );
}
