//! Spot checks and threads: a sample finds what is in the chunks it draws and is never taken for the whole, and how the work
//! is split changes nothing.

use crate::cheats::{edit_result, names};
use crate::forge::Forge;
use crate::run::{Run, auditor};
use crate::world::{Death, Setup};
use std::io::Cursor;
use veilsum_attestation::audit::{CheckName, Sample, Share, Status, Verdict, detection};
use veilsum_attestation::model_digest;
use veilsum_attestation::statement::{Kind, Sums};
use veilsum_crypto::chunk::Chunking;

/// Five chunks a vector; a dropped client; two rounds, so that the first new models are given again.
fn run() -> Run {
    let setup = Setup {
        clients: 4,
        threshold: 3,
        clusters: vec![(0..4).collect()],
        entries: 130_000,
        crowd: 2,
        orgs: 2,
    };
    let mut run = Run::new(setup, 71);
    let gone = Death {
        after_sends: 2,
        noticed: true,
        in_flight_lost: false,
    };
    run.attempt(1, 0, &[(2, gone)]);
    run.attempt(2, 0, &[]);
    run
}

fn spot(run: &Run, bundle: &[u8], chunks: usize, seed: u64) -> Verdict {
    let sample = Sample {
        share: Share::Count(chunks),
        seed: seed.to_le_bytes().to_vec(),
    };
    auditor(run.federation())
        .spot_check(Cursor::new(bundle), &sample, &mut |_| {})
        .unwrap()
}

/// The bundle with a byte of every vector part's payload changed is found or not with the chunks drawn.
#[test]
fn a_sample_finds_what_it_draws_and_says_what_it_is_worth() {
    let run = run();
    let update = &run.federation().policy.update;
    let chunking = Chunking::new(update.modulus, 130_001);
    assert_eq!(chunking.count(), 5);
    let bundle = run.bundle();
    for chunks in [1, 3, 5] {
        let verdict = spot(&run, &bundle, chunks, 1);
        assert!(verdict.is_verified(), "{verdict}");
        for check in [CheckName::Vectors, CheckName::Sums, CheckName::Models] {
            let words: Vec<_> = verdict
                .findings
                .iter()
                .filter(|finding| finding.check == check)
                .filter_map(|finding| finding.status.reason())
                .collect();
            assert!(
                words
                    .iter()
                    .any(|word| word.contains(&format!("{chunks} of 5 chunks"))),
                "{words:?}"
            );
        }
        assert!(verdict.to_string().contains("not every sum was recomputed"));
    }

    // The server publishes another model: one entry of the third chunk is not what the sum makes of it.
    let mut forge = Forge::of(&run);
    let last = forge.parts.iter().rposition(|part| part.0 == b'M').unwrap();
    let mut model: Vec<f32> = forge.parts[last].1[32..]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|quad| f32::from_le_bytes(*quad))
        .collect();
    model[chunking.range(2).unwrap().start + 5] += 0.5;
    let digest = model_digest(&model);
    let sums = forge.all(Kind::Sums)[1];
    forge.edit::<Sums>(sums, |sums| edit_result(sums, 0, |result| result.model = digest));
    let payload: Vec<u8> = model.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    forge.parts[last].1 = [digest.0.as_slice(), &payload].concat();
    let cheated = with_hashes(&forge.bundle(), &bundle);
    let whole = auditor(run.federation())
        .audit(cheated.as_slice(), &mut |_| {})
        .unwrap();
    assert_eq!(names(&whole), [CheckName::Models]);
    let found = (0..40u64)
        .filter(|seed| {
            let verdict = spot(&run, &cheated, 3, *seed);
            assert!(names(&verdict).iter().all(|name| *name == CheckName::Models));
            !verdict.is_verified()
        })
        .count();
    // Two of five free chunks: 40 %. 16 expected with a standard deviation of 3.1, four of them either way.
    let share = detection(6, 3, 1);
    assert!(
        (share - 0.4).abs() < 1e-12 && (4..=28).contains(&found),
        "{found}"
    );
    println!(
        "{found} of 40 samples of 3 of 5 chunks found it, {:.0} % expected",
        100.0 * share
    );
    assert!((0..5).all(|seed| !spot(&run, &cheated, 5, seed).is_verified()));

    // A changed vector under its old chunk hashes: found by the chunk; one that says so in its hashes: always, by its root.
    let mut at = crate::forge::MAGIC.len();
    for (tag, payload) in crate::forge::parts(&bundle) {
        at += 9 + payload.len();
        if tag == b'V' {
            break;
        }
    }
    // In the last chunk of the first vector.
    at -= 100;
    let mut bent = bundle.clone();
    bent[at] ^= 1;
    assert!(names(&spot(&run, &bent, 5, 0)).contains(&CheckName::Vectors));
    // A bundle without the hashes cannot be sampled.
    let bare = Forge::of(&run).bundle();
    let sample = Sample {
        share: Share::Fraction(0.5),
        seed: Vec::new(),
    };
    let error = auditor(run.federation())
        .spot_check(Cursor::new(&bare), &sample, &mut |_| {})
        .unwrap_err();
    assert!(error.to_string().contains("chunk hashes"), "{error}");
}

/// A forged bundle with the chunk hashes of the one it was made from.
fn with_hashes(forged: &[u8], from: &[u8]) -> Vec<u8> {
    let hashes: Vec<(u8, Vec<u8>)> = crate::forge::parts(from)
        .into_iter()
        .filter(|part| part.0 == b'H')
        .collect();
    let mut out = crate::forge::MAGIC.to_vec();
    for (tag, payload) in crate::forge::parts(forged) {
        if tag == b'V'
            && let Some(own) = hashes.iter().find(|own| own.1[..18] == payload[..18])
        {
            crate::forge::put(&mut out, b'H', &own.1);
        }
        crate::forge::put(&mut out, tag, &payload);
    }
    out
}

#[test]
fn threads_change_nothing() {
    let run = run();
    let bundle = run.bundle();
    let mut bent = bundle.clone();
    let at = bundle.len() / 3;
    bent[at] ^= 8;
    let mut forge = Forge::of(&run);
    let sums = forge.all(Kind::Sums)[1];
    forge.edit::<Sums>(sums, |sums| edit_result(sums, 0, |result| result.sum.0[0] ^= 1));
    for bundle in [bundle, bent, forge.bundle()] {
        let verdicts: Vec<_> = [1, 2, 3, 16]
            .into_iter()
            .map(|threads| {
                auditor(run.federation())
                    .on_threads(threads)
                    .audit(bundle.as_slice(), &mut |_| {})
                    .map_err(|error| error.to_string())
            })
            .collect();
        assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]));
    }
    let honest = auditor(run.federation())
        .on_threads(16)
        .audit(run.bundle().as_slice(), &mut |_| {})
        .unwrap();
    assert!(honest.is_verified());
    assert!(
        honest
            .findings
            .iter()
            .filter(|finding| finding.check == CheckName::Sums)
            .all(|finding| finding.status == Status::Verified)
    );
}
