//! What an audit costs beside what it cannot do without: hashing the same bytes and expanding the same masks, in one run.
//!
//! `cargo bench -p veilsum-aggregation --bench audit`. One round of 100 clients in 4 overlapping clusters, 30 of them gone
//! after they dealt their shares, updates of a million entries. The bundle is made once a build and kept in the temporary folder
//! (`VEILSUM_AUDIT_BENCH=n,k,d` for another size). Times are CPU times of one thread; the median of five.

#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    dead_code,
    reason = "a bench: a panic is the report, and the world is shared with the tests, which use the rest"
)]

#[path = "../tests/rounds/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use veilsum_attestation::audit::{Sample, Share};
use veilsum_attestation::bundle::{BundleReader, BundleWriter, Due, Part, sign_head};
use veilsum_attestation::{Auditor, Trust, model_digest};
use veilsum_crypto::chunk;
use veilsum_crypto::stream::{AesCtr, Sign, StreamSeed, apply_all};
use veilsum_crypto::{ClientId, Digest};
use world::{Death, Setup, World, identity};

fn main() {
    let size: Vec<usize> = std::env::var("VEILSUM_AUDIT_BENCH")
        .unwrap_or_else(|_| "100,4,1000000".to_owned())
        .split(',')
        .map(|number| number.parse().unwrap())
        .collect();
    let (n, k, d) = (size[0], size[1], size[2]);
    let path = std::env::temp_dir().join(format!("veilsum-audit-bench-{n}-{k}-{d}.veil"));
    let setup = setup(n as u32, k as u32, d);
    if std::env::args().any(|word| word == "make") {
        return make(setup, &path);
    }
    let age = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    // One that another build made may be of another form.
    if age(&path) < age(&std::env::current_exe().unwrap()) {
        // In a process of its own, so that the peak below is the audit's.
        let made = std::process::Command::new(std::env::current_exe().unwrap())
            .arg("make")
            .status()
            .unwrap();
        assert!(made.success());
    }
    measure(&setup, &path, d);
}

fn setup(n: u32, k: u32, entries: usize) -> Setup {
    let clusters = (0..k)
        .map(|cluster| {
            (0..n)
                .filter(|client| client % k == cluster || (client % 5 == 0 && (client + 1) % k == cluster))
                .collect()
        })
        .collect();
    Setup {
        clients: n,
        threshold: n / 2 + 1,
        clusters,
        entries,
        crowd: 3,
        orgs: 4,
    }
}

/// Every tenth client's three predecessors are gone: 30 of 100.
fn gone(client: u32) -> bool {
    client % 10 >= 7
}

fn make(setup: Setup, path: &Path) {
    let start = Instant::now();
    let n = setup.clients;
    let mut world = World::new(setup, 1);
    for client in (0..n).filter(|client| gone(*client)) {
        let death = Death {
            after_sends: 2,
            noticed: true,
            in_flight_lost: false,
        };
        world.deaths.insert(ClientId(client), death);
    }
    let mut models: BTreeMap<Digest, Arc<[f32]>> = BTreeMap::new();
    for model in &world.models {
        models.insert(model_digest(model), Arc::clone(model));
    }
    let log = world.genesis_log();
    world.start(log, 1).unwrap();
    world.run();
    for opened in &world.outcome.as_ref().unwrap().opened {
        models.insert(model_digest(&opened.model), Arc::clone(&opened.model));
    }
    let log = world.log();
    let federation = *world.federation.book.federation();
    let head = sign_head(&log.head(), &federation, &identity(2, 0)).unwrap();
    let beside = path.with_extension("part");
    let sink = BufWriter::new(File::create(&beside).unwrap());
    let entries = log.entries().iter().map(Vec::as_slice);
    let mut writer = BundleWriter::new(sink, &federation, &head, entries).unwrap();
    while let Some(due) = writer.due() {
        match due {
            Due::Model(digest) => writer.model(&models[&digest]).unwrap(),
            Due::Vector(name) => writer
                .vector(name, &world.stored[&(name.client, name.cluster)])
                .unwrap(),
        }
    }
    writer.finish().unwrap();
    std::fs::rename(&beside, path).unwrap();
    println!("made {} in {:?}", path.display(), start.elapsed());
}

fn auditor() -> Auditor {
    Auditor::new(Trust {
        name: "test federation".to_owned(),
        authority: identity(1, 0).public(),
    })
    .unwrap()
}

fn measure(setup: &Setup, path: &PathBuf, d: usize) {
    let bytes = std::fs::metadata(path).unwrap().len();
    let open = || BufReader::new(File::open(path).unwrap());
    // The masks the audit must take off: one for each contributor, one for each pair of a dropped and a contributor.
    let masks: usize = setup
        .clusters
        .iter()
        .map(|members| {
            let dropped = members.iter().filter(|client| gone(**client)).count();
            (members.len() - dropped) * (1 + dropped)
        })
        .sum();
    let (mut hash, mut expand, mut all, mut spot) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut wall = Vec::new();
    for _ in 0..5 {
        let start = cpu();
        let verdict = auditor().audit(open(), &mut |_| {}).unwrap();
        all.push(cpu() - start);
        assert!(verdict.is_verified(), "{verdict}");
    }
    let peak = memory();
    for _ in 0..5 {
        hash.push(hashing(open(), d));
        expand.push(expanding(masks, d));
        let sample = Sample {
            share: Share::Fraction(0.05),
            seed: b"dice".to_vec(),
        };
        let start = cpu();
        let verdict = auditor().spot_check(open(), &sample, &mut |_| {}).unwrap();
        spot.push(cpu() - start);
        assert!(verdict.is_verified(), "{verdict}");
        let start = Instant::now();
        auditor().on_threads(2).audit(open(), &mut |_| {}).unwrap();
        wall.push(start.elapsed().as_secs_f64());
    }
    let [hash, expand, all, spot, wall] = [hash, expand, all, spot, wall].map(median);
    println!(
        "n {} K {} d {d}: bundle {:.1} MB, {masks} masks of {:.1} MB",
        setup.clients,
        setup.clusters.len(),
        bytes as f64 / 1e6,
        d as f64 * 4e-6
    );
    println!(
        "hashing {hash:.3} s + masks {expand:.3} s = {:.3} s",
        hash + expand
    );
    println!(
        "audit   {all:.3} s, {:.2} times; peak memory {peak} MiB",
        all / (hash + expand)
    );
    println!("on two threads {wall:.3} s of wall time");
    println!("spot check of 5 % {spot:.3} s, {:.3} of the audit", spot / all);
}

/// The time to hash every vector's chunks and every model of a bundle, without reading them.
fn hashing(source: BufReader<File>, d: usize) -> f64 {
    let mut reader = BundleReader::new(source).unwrap();
    let mut spent = 0.0;
    let mut buffer = Vec::new();
    loop {
        match reader.part().unwrap() {
            Part::Vector { bytes, .. } => {
                buffer.resize(bytes as usize, 0);
                reader.read(&mut buffer).unwrap();
                let start = cpu();
                let chunks = buffer.chunks(chunk::CHUNK_BYTES).enumerate();
                let leaves: Vec<_> = chunks.map(|(index, bytes)| chunk::leaf(index, bytes)).collect();
                std::hint::black_box(chunk::root(&leaves));
                spent += cpu() - start;
            }
            Part::Model { bytes, .. } => {
                buffer.resize(bytes as usize, 0);
                reader.read(&mut buffer).unwrap();
                let model: Vec<f32> = vec![0.5; d];
                let start = cpu();
                std::hint::black_box(model_digest(&model));
                spent += cpu() - start;
            }
            Part::End => return spent,
            _ => {}
        }
    }
}

fn expanding(masks: usize, d: usize) -> f64 {
    let mut words = vec![0u32; d + 1];
    let seeds: Vec<StreamSeed> = (0..masks)
        .map(|mask| StreamSeed::for_test([mask as u8; 32]))
        .collect();
    let start = cpu();
    let masks: Vec<(Sign, AesCtr)> = seeds.iter().map(|seed| (Sign::Plus, AesCtr::new(seed))).collect();
    apply_all(&masks, 0, &mut words);
    let spent = cpu() - start;
    std::hint::black_box(&words);
    spent
}

/// CPU time of this thread, in seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// The most memory this process had so far, in MiB.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
