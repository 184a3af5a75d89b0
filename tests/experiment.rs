//! Experiments end to end, at a size for tests: what the ends of the overlap must equal, that masks change nothing beyond
//! the grid, and what people are told.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a panic is the failure report"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use veilsum::config::Located;
use veilsum::experiment::config::ExperimentConfig;
use veilsum::experiment::results::{ArmResult, Results, SCHEMA, SeedResult};
use veilsum::experiment::run::run_seed;
use veilsum::experiment::scenario::ScenarioKind;
use veilsum::experiment::{Aggregation, ExperimentError};

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("configs/experiments")
        .join(name)
}

fn read(name: &str) -> ExperimentConfig {
    Located::<ExperimentConfig>::read(&shipped(name))
        .unwrap()
        .settings
}

/// A shipped file at a size for tests.
fn small(name: &str) -> ExperimentConfig {
    let mut config = read(name);
    config.seeds = vec![1];
    config.scenario.train = 8;
    config.scenario.test = 2;
    config.scenario.share = 0.25;
    config.warm_start.steps = 60;
    config.training.rounds = 3;
    config.training.steps = 4;
    config
}

fn run(config: &ExperimentConfig) -> SeedResult {
    let arms = config.arms().unwrap();
    run_seed(config, &arms, config.seeds[0], &mut |_| ()).unwrap()
}

fn arm<'a>(seed: &'a SeedResult, label: &str) -> &'a ArmResult {
    seed.arms.iter().find(|arm| arm.label == label).unwrap()
}

#[test]
fn shipped_files_can_be_run() {
    for (name, seeds) in [
        ("hpe-mini.toml", 6),
        ("bmr-mini.toml", 6),
        ("hpe-mini-crowd.toml", 2),
    ] {
        let config = read(name);
        assert!(config.arms().unwrap().len() > 3, "{name}");
        assert_eq!(config.seeds.len(), seeds, "{name}");
    }
    assert_eq!(read("hpe-mini.toml").scenario.kind, ScenarioKind::Hpe);
    // Those on recorded data are read and checked; the data is their reader's.
    for name in ["hpe.toml", "bmr.toml"] {
        let config = read(name);
        assert!(config.arms().unwrap().len() > 2, "{name}");
        assert!(config.routes(), "{name}");
    }
}

#[test]
fn the_ends_of_the_overlap_are_fedavg_and_local_training() {
    let seed = run(&small("hpe-mini.toml"));
    assert_eq!(seed.arms.len(), 22);
    // The very same models, so the very same scores; routes differ only in name.
    let metrics = |label: &str| {
        arm(&seed, label)
            .scores
            .iter()
            .map(|s| s.metrics)
            .collect::<Vec<_>>()
    };
    assert_eq!(metrics("soft-100"), metrics("fedavg"));
    assert_ne!(metrics("soft-20"), metrics("fedavg"));
    assert_ne!(metrics("soft-20"), metrics("local"));
    let ends = [arm(&seed, "soft-0"), arm(&seed, "soft-100")].map(|arm| arm.clusters.len());
    assert_eq!(ends, [seed.clients.len(), 1]);
    // At no overlap an unseen sequence may be within the threshold of several; alone, the nearest serves it.
    let (ends, alone) = (arm(&seed, "soft-0"), arm(&seed, "local"));
    let mut same = 0;
    for (end, alone) in ends.scores.iter().zip(&alone.scores) {
        if end.clusters == alone.clusters {
            assert_eq!(end.metrics, alone.metrics);
            same += 1;
        } else {
            assert!(end.clusters.len() > 1 && end.clusters.contains(&alone.clusters[0]));
        }
    }
    assert!(same > 5, "{same}");
    // Sharing grows with overlap, and so do donors.
    let donors: Vec<f64> = ["soft-0", "soft-10", "soft-30", "soft-100"]
        .iter()
        .map(|label| arm(&seed, label).donors)
        .collect();
    assert!(donors.is_sorted() && donors[0] == 1.0, "{donors:?}");
    // Everybody unseen was served by somebody, and the file says by whom.
    for arm in &seed.arms {
        assert_eq!(arm.scores.len(), 11);
        assert!(arm.scores.iter().all(|score| !score.clusters.is_empty()));
    }
    // A second run is the same to the last bit, times aside.
    let again = run(&small("hpe-mini.toml"));
    for (one, two) in seed.arms.iter().zip(&again.arms) {
        assert_eq!(one.scores, two.scores, "{}", one.label);
    }
}

#[test]
fn two_kinds_of_places_are_two_clusters_without_being_told() {
    let mut config = small("bmr-mini.toml");
    config.warm_start.steps = 300;
    config.scenario.share = 1.0;
    config.training.rounds = 1;
    let seed = run(&config);
    let clusters = &arm(&seed, "soft-gap").clusters;
    let domains = |cluster: &Vec<usize>| {
        let mut of: Vec<&str> = cluster
            .iter()
            .map(|client| seed.clients[*client].as_str())
            .collect();
        of.dedup();
        (of.len(), cluster.len())
    };
    assert_eq!(
        clusters.iter().map(domains).collect::<Vec<_>>(),
        [(1, 15), (1, 17)]
    );
    let table = Results::new(&config, vec![seed]).table();
    assert!(
        table.contains("2 clusters: 15 humanoid-indoor-day | 17 ugv-street-day"),
        "{table}"
    );
}

#[test]
fn masks_move_the_score_by_no_more_than_their_grid() {
    let mut config = small("hpe-mini-crowd.toml");
    config.training.rounds = 2;
    let masked = run(&config);
    config.aggregation = Aggregation::Plain;
    let plain = run(&config);
    let mut moved = 0;
    for (hidden, open) in masked.arms.iter().zip(&plain.arms) {
        assert_eq!((&hidden.label, &hidden.clusters), (&open.label, &open.clusters));
        assert!(hidden.masked && !open.masked);
        for (a, b) in hidden.scores.iter().zip(&open.scores) {
            let gap = (a.metrics.abs_rel - b.metrics.abs_rel).abs() / b.metrics.abs_rel;
            // Steps of 4.8e-7 on weights of size one, over two rounds.
            assert!(gap < 1e-4, "{} {}: {gap}", hidden.label, a.sequence);
            moved += usize::from(gap > 0.0);
        }
    }
    assert!(moved > 20, "nothing was quantised");
    // Two clients in any combination: nobody is alone.
    for arm in &masked.arms {
        assert!(
            arm.clusters.iter().all(|cluster| cluster.len() >= 2),
            "{}",
            arm.label
        );
    }
}

#[test]
fn what_shows_single_clients_needs_leave() {
    let mut config = small("hpe-mini.toml");
    config.leave.retain(|leave| leave.name() != "data-subspaces");
    let error = config.arms().unwrap_err();
    assert!(
        matches!(&error, ExperimentError::Disclosure { strategy, name: "data-subspaces", .. } if strategy == "pacfl-10"),
        "{error}"
    );
    config.leave.clear();
    // Training alone needs descriptors too, to say whose model serves an unseen sequence.
    assert!(config.arms().unwrap_err().to_string().contains("`local`"));
}

fn veilsum(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_veilsum"))
        .current_dir(folder)
        .args(["experiment", "run"])
        .args(args)
        .output()
        .unwrap()
}

/// Scenes of NYU's layout, with frames of the generator.
fn scenes(root: &Path) {
    use veilsum_learner::data::generator::{Generator, Light, Place, Platform};
    use veilsum_learner::data::picture::{write_depth, write_rgb};
    for (number, (scene, frames)) in [
        ("bedroom_0001", 2),
        ("kitchen_0001a", 5),
        ("kitchen_0002", 4),
        ("office_0001", 9),
        ("study_0001", 9),
    ]
    .into_iter()
    .enumerate()
    {
        let made = Generator {
            platform: Platform::Humanoid,
            place: Place::Indoor,
            light: Light::Day,
            width: 64,
            height: 48,
            train: frames,
            test: 1,
            seed: number as u64,
        };
        let folder = root.join(scene);
        std::fs::create_dir_all(&folder).unwrap();
        for (i, frame) in made.dataset().unwrap().train().iter().enumerate() {
            write_rgb(&folder.join(format!("rgb_{i:05}.jpg")), 64, 48, frame.rgb()).unwrap();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "millimetres of a room"
            )]
            let depth: Vec<u16> = frame.depth().iter().map(|d| (d * 1000.0) as u16).collect();
            write_depth(&folder.join(format!("sync_depth_{i:05}.png")), 64, 48, &depth).unwrap();
        }
    }
}

#[test]
fn clients_are_dealt_out_of_recorded_frames() {
    let dir = tempfile::tempdir().unwrap();
    scenes(&dir.path().join("nyu"));
    let text = r#"
version = 1
name = "rooms"
seeds = [1]
leave = ["descriptors"]

[scenario]
kind = "recorded"

[[scenario.each]]
domain = "room"
at_least = 5
hold_out_last = true
data = { kind = "nyu", path = "nyu", crop = false }

[[scenario.public]]
name = "corridor"
data = { kind = "generated", platform = "ugv", place = "indoor", night = false, seed = 9, train = 8, test = 1 }

[learner]
kind = "perceptron"

[warm_start]
steps = 20
batch = 4
learning_rate = 3e-3

[training]
rounds = 1
steps = 2
batch = 4
learning_rate = 3e-3
decay = 1.0

[[strategy]]
kind = "fedavg"

[[strategy]]
kind = "fedepth"
clusters = "soft"
overlap = [1.0]
"#;
    std::fs::write(dir.path().join("rooms.toml"), text).unwrap();
    let ran = veilsum(dir.path(), &["rooms.toml", "--out", "out", "--format", "json"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    let results: Results = serde_json::from_slice(&ran.stdout).unwrap();
    // Kitchens are one client of nine frames in two scenes; the bedroom has too few, the study is nobody's.
    assert_eq!(results.seeds[0].clients, ["room", "room"]);
    assert!(said.contains("9 of 2 sequences taken"), "{said}");
    for arm in &results.seeds[0].arms {
        let scored: Vec<&str> = arm.scores.iter().map(|score| score.sequence.as_str()).collect();
        assert_eq!(scored, ["study"]);
    }

    let refused = |from: &str, to: &str, words: &str| {
        assert!(text.contains(from));
        std::fs::write(dir.path().join("wrong.toml"), text.replace(from, to)).unwrap();
        let ran = veilsum(dir.path(), &["wrong.toml"]);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(3), "{said}");
        assert!(said.contains(words), "{words}: {said}");
    };
    refused(
        "at_least = 5",
        "at_least = 10",
        "fewer than two clients come of it",
    );
    refused("path = \"nyu\"", "path = \"nowhere\"", "nowhere");
    refused(
        "kind = \"recorded\"",
        "kind = \"recorded\"\ntrain = 8",
        "`train`, `test` and `share`",
    );
    refused(
        "kind = \"recorded\"",
        "kind = \"hpe\"\ntrain = 8\ntest = 1",
        "scenario.kind",
    );
    refused("[[scenario.public]]", "[[scenario.unseen]]", "scenario.public");
    refused(
        "kind = \"nyu\", path",
        "kind = \"folder\", path",
        "unknown field `crop`",
    );
}

#[test]
fn the_command_writes_goes_on_and_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = small("bmr-mini.toml");
    config.seeds = vec![1, 2];
    config.scenario.share = 0.1;
    config.compare.clear();
    config.strategy.truncate(3);
    let write = |config: &ExperimentConfig, name: &str| {
        std::fs::write(dir.path().join(name), toml::to_string(config).unwrap()).unwrap();
    };
    write(&config, "small.toml");
    let first = veilsum(dir.path(), &["small.toml", "--out", "out", "--seeds", "1"]);
    assert!(
        first.status.success(),
        "{}",
        String::from_utf8_lossy(&first.stderr)
    );
    let kept = std::fs::read(dir.path().join("out/seed-1.json")).unwrap();
    // The second seed is added; the first is not run again.
    let both = veilsum(dir.path(), &["small.toml", "--out", "out", "--format", "json"]);
    assert!(String::from_utf8_lossy(&both.stderr).contains("seed 1: done before"));
    assert_eq!(std::fs::read(dir.path().join("out/seed-1.json")).unwrap(), kept);
    let printed: Results = serde_json::from_slice(&both.stdout).unwrap();
    let file = std::fs::read(dir.path().join("out/results.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Results>(&file).unwrap(), printed);
    assert_eq!((printed.schema.as_str(), printed.seeds.len()), (SCHEMA, 2));
    let csv = std::fs::read_to_string(dir.path().join("out/scores.csv")).unwrap();
    let mut lines = csv.split_terminator("\r\n");
    let columns = lines.next().unwrap().split(',').count();
    let mut scores = Vec::new();
    for seed in &printed.seeds {
        for arm in &seed.arms {
            scores.extend(arm.scores.iter().map(|score| (seed.seed, score)));
        }
    }
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), scores.len());
    for (line, (seed, score)) in lines.iter().zip(scores) {
        assert_eq!((line.len(), line[0]), (columns, seed.to_string().as_str()));
        assert_eq!(line[3], format!("\"{}\"", score.sequence));
        // A number reads back to the last bit.
        assert_eq!(
            line[7].parse::<f64>().unwrap().to_bits(),
            score.metrics.abs_rel.to_bits()
        );
    }
    // Other settings are another experiment.
    config.training.steps += 1;
    write(&config, "small.toml");
    let other = veilsum(dir.path(), &["small.toml", "--out", "out", "--seeds", "1"]);
    assert!(!String::from_utf8_lossy(&other.stderr).contains("done before"));

    let refused = |change: &dyn Fn(&mut ExperimentConfig), code: i32, words: &str| {
        let mut wrong = read("hpe-mini.toml");
        change(&mut wrong);
        write(&wrong, "wrong.toml");
        let output = veilsum(dir.path(), &["wrong.toml"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{words}: {said}");
    };
    refused(&|c| c.leave.clear(), 4, "`leave`");
    refused(&|c| c.aggregation = Aggregation::Masked, 3, "crowd");
    refused(&|c| c.compare[0].first = "soft-7".to_owned(), 3, "soft-7");
    refused(&|c| c.version = 2, 3, "version");
    refused(&|c| c.seeds = vec![1, 1], 3, "seeds");
    refused(&|c| c.scenario.train = 7, 3, "scenario.train");
    let many = veilsum(dir.path(), &["small.toml", "--seeds", "9"]);
    assert_eq!(many.status.code(), Some(2));
    assert!(
        !dir.path().join("target").exists(),
        "nothing is written on the way out"
    );
}
