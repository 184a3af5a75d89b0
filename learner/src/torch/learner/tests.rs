use super::*;
use crate::data::generator::{Generator, Light, Place, Platform};
use crate::layout::{TensorClass, TensorSpec};
use crate::learner::TrainLength;
use crate::metrics::MetricsError;

const RANGE: DepthRange = DepthRange {
    min_m: 0.2,
    cap_m: 80.0,
};

/// The tiny network on pictures of 96 x 64.
fn config() -> DepthLearnerConfig {
    let mut config = DepthLearnerConfig::tiny(RANGE);
    config.network = config.network.with_picture(96, 64);
    config
}

fn generator(seed: u64) -> Generator {
    Generator {
        platform: Platform::Ugv,
        place: Place::Indoor,
        light: Light::Day,
        width: 96,
        height: 64,
        train: 6,
        test: 3,
        seed,
    }
}

fn client(config: DepthLearnerConfig) -> DepthLearner {
    DepthLearner::new(config, 7, generator(1).dataset().unwrap()).unwrap()
}

fn plan(steps: u32) -> TrainPlan {
    TrainPlan {
        round: 1,
        length: TrainLength::Steps(steps),
        learning_rate: 3e-3,
        batch: 3,
        seed: 2,
    }
}

fn dataset(train: Vec<Frame>, test: Vec<Frame>) -> DepthDataset {
    DepthDataset::new(
        "c",
        (96, 64),
        DepthRange {
            min_m: 0.2,
            cap_m: 10.0,
        },
        train,
        test,
    )
    .unwrap()
}

fn blank(i: u8) -> Frame {
    Frame::new(
        format!("blank/{i}"),
        96,
        64,
        vec![i; 96 * 64 * 3],
        vec![0.0; 96 * 64],
    )
    .unwrap()
}

#[test]
fn it_learns() {
    let mut client = client(config());
    let before = client.evaluate().unwrap();
    let report = client.train(&plan(24)).unwrap();
    let after = client.evaluate().unwrap();
    assert_eq!((report.steps, report.samples, report.skipped_frames), (24, 72, 0));
    assert!(report.loss_last < 0.6 * report.loss_first, "{report:?}");
    assert!(
        after.depth().unwrap().abs_rel < 0.5 * before.depth().unwrap().abs_rel,
        "{before:?} {after:?}"
    );
    assert_eq!(after.images, 3);
    let Some(Example::Depth(example)) = after.example else {
        panic!("a depth learner shows depth")
    };
    assert_eq!(
        (example.rgb.len(), example.truth.len(), example.prediction.len()),
        (18432, 6144, 6144)
    );
    assert!(example.prediction.iter().all(|&p| (0.2..=10.0).contains(&p)));
}

/// The other two networks, on the same frames.
#[test]
fn every_network_learns() {
    for kind in [NetworkKind::NewCrfs, NetworkKind::DcDepth] {
        let mut config = DepthLearnerConfig::new(kind, NetworkSize::Tiny, RANGE);
        config.network = config.network.with_picture(96, 64);
        let mut client = client(config);
        let before = client.evaluate().unwrap();
        let report = client.train(&plan(24)).unwrap();
        let after = client.evaluate().unwrap();
        assert!(report.loss_last < 0.6 * report.loss_first, "{kind:?} {report:?}");
        assert!(
            after.depth().unwrap().abs_rel < 0.6 * before.depth().unwrap().abs_rel,
            "{kind:?} {before:?} {after:?}"
        );
    }
}

/// Every published setting at once, on a network small enough: omissions, turning, colours, a known part, steps' losses,
/// mirrored scoring, moving momentum.
#[test]
fn published_training_replays_and_differs_by_seed() {
    let published = DepthLearnerConfig::new(NetworkKind::DcDepth, NetworkSize::Published, RANGE);
    let NetworkConfig::DcDepth(mut network) =
        NetworkConfig::new(NetworkKind::DcDepth, NetworkSize::Tiny, RANGE).with_picture(96, 64)
    else {
        unreachable!()
    };
    (network.skip, network.drop_path, network.encoder.drop_path) = (0.3, 0.3, 0.3);
    let config = DepthLearnerConfig {
        network: NetworkConfig::DcDepth(network),
        threads: Some(1),
        augment: Augment {
            rotate_deg: 2.5,
            known: Some(Part::NYU),
            ..published.augment
        },
        objective: Objective {
            smoothness: 0.005,
            ..published.objective
        },
        ..published
    };
    let train = |seed| {
        let mut client = client(config.clone());
        let report = client.train(&TrainPlan { seed, ..plan(3) }).unwrap();
        assert!(report.loss_first.is_finite() && report.steps == 3);
        assert!(client.evaluate().unwrap().depth().unwrap().abs_rel.is_finite());
        client.weights().unwrap()
    };
    let first = train(2);
    assert_eq!(first, train(2));
    assert_ne!(first, train(3));
}

/// A share of the rate for the encoder: with none it stays as it was, while the rest moves.
#[test]
fn the_encoder_has_a_rate_of_its_own() {
    let config = DepthLearnerConfig {
        encoder_rate: 0.0,
        ..config()
    };
    let start = DepthLearner::initial_weights(&config, 7).unwrap();
    let mut client = client(config);
    client.train(&plan(2)).unwrap();
    let trained = client.weights().unwrap();
    for ((spec, before), (_, after)) in start.tensors().zip(trained.tensors()) {
        assert_eq!(
            before == after,
            spec.name.starts_with("encoder."),
            "{}",
            spec.name
        );
    }
}

/// Depth at or below the objective's limit does not make a frame usable.
#[test]
fn frames_with_only_uncounted_depth_are_skipped_and_counted() {
    let good = generator(1).dataset().unwrap();
    let mut depth = vec![0.0; 96 * 64];
    depth[3000] = 0.9;
    let near = Frame::new("near", 96, 64, vec![9; 96 * 64 * 3], depth).unwrap();
    let mut config = config();
    config.objective.above_m = 1.0;
    let frames = vec![good.train()[0].clone(), near.clone()];
    let mut mixed = DepthLearner::new(config.clone(), 7, dataset(frames, vec![])).unwrap();
    let report = mixed.train(&plan(2)).unwrap();
    assert_eq!((report.samples, report.skipped_frames), (2, 2));
    let mut none = DepthLearner::new(config, 7, dataset(vec![near], vec![])).unwrap();
    assert!(matches!(
        none.train(&plan(2)),
        Err(LearnError::NoTrainingData { .. })
    ));
}

#[test]
fn pretrained_weights_are_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("start.safetensors");
    let vars = VarStore::new(Device::Cpu);
    let source = config();
    source.network.build(&vars.root()).unwrap();
    source.network.draw(&vars, 11).unwrap();
    let tensors: Vec<(String, Tensor)> = vars.variables().into_iter().collect();
    Tensor::write_safetensors(&tensors, &path).unwrap();
    let with = DepthLearnerConfig {
        pretrained: Some(Pretrained {
            path,
            names: crate::torch::pretrained::Names::Own,
        }),
        ..config()
    };
    let start = DepthLearner::initial_weights(&with, 7).unwrap();
    assert_eq!(start, DepthLearner::initial_weights(&config(), 11).unwrap());
    assert_eq!(client(with).weights().unwrap(), start);
}

#[test]
fn all_clients_start_alike_and_plans_replay() {
    let (mut a, mut b) = (client(config()), client(config()));
    let start = DepthLearner::initial_weights(&config(), 7).unwrap();
    assert_eq!(a.weights().unwrap(), start);
    assert_ne!(DepthLearner::initial_weights(&config(), 8).unwrap(), start);
    a.train(&plan(3)).unwrap();
    b.train(&plan(3)).unwrap();
    assert_eq!(a.weights().unwrap(), b.weights().unwrap());
    b.load(&start).unwrap();
    assert_eq!(b.weights().unwrap(), start);
    let mut c = client(config());
    c.train(&TrainPlan { seed: 3, ..plan(3) }).unwrap();
    assert_ne!(a.weights().unwrap(), c.weights().unwrap());
}

/// The bytes of every four neighbouring numbers.
fn runs(values: &[f32]) -> Vec<Vec<u8>> {
    values
        .windows(4)
        .map(|run| run.iter().flat_map(|v| v.to_le_bytes()).collect())
        .collect()
}

#[test]
fn private_tensors_train_and_stay() {
    let mut client = client(DepthLearnerConfig {
        private: vec!["bins.widths.".to_owned()],
        ..config()
    });
    let values = |c: &DepthLearner| {
        c.private()
            .unwrap()
            .iter()
            .flat_map(|t| t.values().to_vec())
            .collect::<Vec<f32>>()
    };
    let (start, drawn) = (client.weights().unwrap(), values(&client));
    client.train(&plan(2)).unwrap();
    let trained = values(&client);
    assert_ne!(trained, drawn);
    client.load(&start).unwrap();
    assert_eq!(values(&client), trained);
    // Single numbers may coincide by chance, four in a row do not.
    let sent: std::collections::BTreeSet<Vec<u8>> = [start, client.weights().unwrap()]
        .iter()
        .flat_map(|w| runs(w.values()))
        .collect();
    for mark in runs(&trained)
        .into_iter()
        .chain(runs(&drawn))
        .filter(|run| run.iter().any(|b| *b != 0))
    {
        assert!(!sent.contains(&mark));
    }
    assert!(
        sent.contains(&runs(client.weights().unwrap().values())[77]),
        "the search finds what is there"
    );
    assert_eq!(client.layout().private().count(), 6);
    // The same network without private tensors is another model on the wire.
    let whole = DepthLearner::initial_weights(&config(), 7).unwrap();
    assert!(matches!(
        client.load(&whole),
        Err(LearnError::LayoutMismatch { .. })
    ));
}

#[test]
fn exploding_training_restores_the_start() {
    let mut client = client(config());
    client.train(&plan(2)).unwrap();
    let before = client.weights().unwrap();
    let error = client
        .train(&TrainPlan {
            learning_rate: 1e30,
            round: 9,
            ..plan(4)
        })
        .unwrap_err();
    assert!(
        matches!(
            error,
            LearnError::NonFiniteLoss { round: 9, .. } | LearnError::Diverged { round: 9, .. }
        ),
        "{error}"
    );
    assert_eq!(client.weights().unwrap(), before);
    assert!(client.train(&plan(2)).is_ok(), "and training goes on");
}

#[test]
fn frames_without_depth_are_counted_and_nothing_is_an_error() {
    let good = generator(1).dataset().unwrap();
    let mut frames = good.train()[..3].to_vec();
    frames.push(blank(1));
    let test = vec![blank(2), good.test()[0].clone()];
    let mut mixed = DepthLearner::new(config(), 7, dataset(frames, test)).unwrap();
    // Two passes over three usable frames.
    let report = mixed.train(&plan(2)).unwrap();
    assert_eq!((report.samples, report.skipped_frames), (6, 2));
    assert_eq!(mixed.evaluate().unwrap().images, 1);
    let mut none = DepthLearner::new(config(), 7, dataset(vec![blank(1)], vec![blank(2)])).unwrap();
    assert!(matches!(none.train(&plan(2)), Err(LearnError::NoTrainingData { client }) if client == "c"));
    assert!(matches!(
        none.evaluate(),
        Err(LearnError::Metrics(MetricsError::NoImages))
    ));
}

#[test]
fn one_valid_pixel_is_enough() {
    let mut depth = vec![0.0; 96 * 64];
    depth[4000] = 2.5;
    let frame = Frame::new("speck", 96, 64, vec![90; 96 * 64 * 3], depth).unwrap();
    let mut client = DepthLearner::new(config(), 7, dataset(vec![frame], vec![])).unwrap();
    let report = client.train(&plan(3)).unwrap();
    assert!(report.loss_last.is_finite() && report.loss_first.is_finite());
}

#[test]
fn frames_that_do_not_fit_are_refused() {
    let small = Generator {
        width: 64,
        ..generator(1)
    }
    .dataset()
    .unwrap();
    let error = DepthLearner::new(config(), 7, small).err().unwrap();
    assert!(
        error.to_string().contains("64x64") && error.to_string().contains("96x64"),
        "{error}"
    );
    let mut narrow = config();
    narrow.network = DepthLearnerConfig::tiny(DepthRange {
        min_m: 0.2,
        cap_m: 5.0,
    })
    .network
    .with_picture(96, 64);
    let error = DepthLearner::new(narrow, 7, generator(1).dataset().unwrap())
        .err()
        .unwrap();
    assert!(error.to_string().contains("10 m"), "{error}");
    let absent = DepthLearnerConfig {
        device: DeviceChoice::Cuda(99),
        ..config()
    };
    assert!(matches!(
        DepthLearner::new(absent, 7, generator(1).dataset().unwrap()),
        Err(LearnError::Device(_))
    ));
}

#[test]
fn mirroring_turns_picture_and_depth_together() {
    let client = client(config());
    let frame = &client.data().train()[0];
    let (straight, straight_depth) = client.tensors(&[(frame, false)]);
    let (turned, turned_depth) = client.tensors(&[(frame, true)]);
    let (straight, turned) = (normalise(&straight), normalise(&turned));
    assert!(straight.flip([3]).equal(&turned) && !straight.equal(&turned));
    assert!(straight_depth.flip([3]).equal(&turned_depth));
    // Channels first, scaled and shifted: the first pixel's red.
    let red = (f64::from(frame.rgb()[0]) / 255.0 - 0.485) / 0.229;
    assert!((straight.double_value(&[0, 0, 0, 0]) - red).abs() < 1e-5);
}

#[test]
fn foreign_weights_are_refused() {
    let mut client = client(config());
    let layout = Layout::new(vec![TensorSpec::new("w", [3], TensorClass::Shared)]).unwrap();
    let foreign = Weights::new(&layout, vec![0.0; 3]).unwrap();
    assert!(matches!(
        client.load(&foreign),
        Err(LearnError::LayoutMismatch { .. })
    ));
}

#[test]
fn corrections_reach_the_shared_tensors_and_nothing_else() {
    let config = || DepthLearnerConfig {
        private: vec!["bins.".to_owned()],
        ..config()
    };
    let start = client(config()).weights().unwrap();
    let run = |linear: Option<Vec<f32>>, proximal, optimiser| {
        let mut learner = client(config());
        let correction = Correction::new(start.clone(), linear, proximal, optimiser).unwrap();
        learner.train_corrected(&plan(3), &correction).unwrap();
        learner.weights().unwrap()
    };
    let far = |weights: &Weights| weights.minus(&start).unwrap().norm();
    // Nothing added is plain training.
    let mut plain = client(config());
    plain.train(&plan(3)).unwrap();
    let free = run(None, 0.0, LocalOptimiser::Own);
    assert_eq!(free, plain.weights().unwrap());
    // With plain descent a linear part of g moves every weight that has a gradient by −rate · steps · g more.
    let still = run(None, 0.0, LocalOptimiser::Sgd);
    let pushed = run(Some(vec![0.01; start.values().len()]), 0.0, LocalOptimiser::Sgd);
    let gap = still.minus(&pushed).unwrap();
    let moved = gap
        .values()
        .iter()
        .filter(|gap| (*gap / (3.0 * 3e-3 * 0.01) - 1.0).abs() < 0.3);
    assert!(moved.count() * 10 > gap.values().len() * 8);
    assert!(far(&run(None, 300.0, LocalOptimiser::Sgd)) < far(&still));
}
