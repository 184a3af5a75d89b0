use super::*;
use crate::bev::{Grid, Side};
use crate::data::bev::{Fleet, LabelKind, VehicleKind};
use crate::learner::TrainLength;

const GRID: Grid = Grid {
    cells: 20,
    metres: 20.0,
};

fn fleet(cameras: &[Side]) -> Fleet {
    Fleet {
        kind: VehicleKind::Car,
        cameras: cameras.to_vec(),
        width: 48,
        height: 32,
        grid: GRID,
        train: 6,
        test: 2,
        seed: 1,
    }
}

fn config(personal: PersonalPart) -> BevLearnerConfig {
    BevLearnerConfig::tiny(BevtConfig::tiny(GRID), personal)
}

fn learner(config: BevLearnerConfig) -> BevLearner {
    BevLearner::new(
        config,
        7,
        fleet(&[Side::Front, Side::Left])
            .dataset(LabelKind::Visible)
            .unwrap(),
    )
    .unwrap()
}

fn plan(steps: u32) -> TrainPlan {
    TrainPlan {
        round: 1,
        length: TrainLength::Steps(steps),
        learning_rate: 3e-3,
        batch: 2,
        seed: 1,
    }
}

fn private(learner: &BevLearner) -> Vec<f32> {
    let tensors = learner.private().unwrap();
    tensors.iter().flat_map(|t| t.values().to_vec()).collect()
}

/// After training, not one number that stays is found in the bytes that leave, whatever the strategy; and a download
/// changes none.
#[test]
fn what_stays_is_neither_sent_nor_overwritten() {
    for personal in PersonalPart::ALL {
        let mut learner = learner(config(personal));
        learner.train(&plan(1)).unwrap();
        let (kept, weights) = (private(&learner), learner.weights().unwrap());
        assert_eq!(kept.is_empty(), personal == PersonalPart::Nothing);
        let bytes = weights.to_bytes();
        let sent: std::collections::BTreeSet<&[u8]> = bytes.windows(8).collect();
        // Neighbours, so that nothing matches by chance; of tensors that started from random numbers, because Adam's
        // first step gives all norms the same few values.
        let tensors = learner.private().unwrap();
        let drawn = tensors.iter().filter(|t| t.spec().shape.len() > 1);
        let marks: Vec<Vec<u8>> = drawn
            .flat_map(|t| t.values().windows(2))
            .map(|p| [p[0].to_le_bytes(), p[1].to_le_bytes()].concat())
            .collect();
        assert!(
            marks.iter().all(|mark| !sent.contains(mark.as_slice())),
            "{personal:?}"
        );
        assert_eq!(marks.is_empty(), personal == PersonalPart::Nothing);
        let names: Vec<&str> = learner.layout().uploaded().map(|s| s.name.as_str()).collect();
        if personal == PersonalPart::CameraEmbeddings {
            assert_eq!(kept.len(), 2 * 4 * 32);
            assert!(
                names
                    .iter()
                    .all(|n| !n.contains("cam_embed") && !n.contains("img_embed"))
            );
        }
        if personal == PersonalPart::Everything {
            assert_eq!((weights.values(), names.len()), ([0.0].as_slice(), 1));
        }
        let other = Weights::new(learner.layout(), vec![0.25; weights.values().len()]).unwrap();
        learner.load(&other).unwrap();
        assert_eq!(learner.weights().unwrap(), other);
        assert_eq!(private(&learner), kept);
    }
}

#[test]
fn private_tensors_start_alike_unless_asked_otherwise() {
    let common = private(&learner(config(PersonalPart::CameraEmbeddings)));
    assert_eq!(private(&learner(config(PersonalPart::CameraEmbeddings))), common);
    let separate = |own| BevLearnerConfig {
        private_start: PrivateStart::Separate(own),
        ..config(PersonalPart::CameraEmbeddings)
    };
    let (a, b) = (learner(separate(1)), learner(separate(2)));
    assert_ne!(private(&a), private(&b));
    assert_ne!(private(&a), common);
    // What travels starts alike all the same, and is what the server publishes.
    let start = BevLearner::initial_weights(&config(PersonalPart::CameraEmbeddings), 7).unwrap();
    assert_eq!(a.weights().unwrap(), start);
    assert_eq!(b.weights().unwrap(), start);
    // Who keeps what does not change where anything starts.
    let all = BevLearner::initial_weights(&config(PersonalPart::Nothing), 7).unwrap();
    let of = |weights: &Weights, name: &str| {
        let found = weights.tensors().find(|(spec, _)| spec.name == name);
        found.map(|(_, values)| values.to_vec())
    };
    assert_eq!(of(&all, "query"), of(&start, "query"));
    assert_eq!(
        of(&all, "level1.cross.cam_embed.weight").unwrap(),
        common[..4 * 32]
    );
}

#[test]
fn alternating_steps_change_one_side_at_a_time() {
    let alternating = BevLearnerConfig {
        local: LocalTraining::Alternating,
        ..config(PersonalPart::CameraEmbeddings)
    };
    let mut learner = learner(alternating);
    let (weights, kept) = (learner.weights().unwrap(), private(&learner));
    learner.train(&plan(1)).unwrap();
    assert_eq!(learner.weights().unwrap(), weights, "step 0 is the private one");
    let after = private(&learner);
    assert_ne!(after, kept);
    // The moments of the private tensors must not push them while the others are trained.
    let mut second = super::tests::learner(BevLearnerConfig {
        local: LocalTraining::Alternating,
        ..config(PersonalPart::CameraEmbeddings)
    });
    second.train(&plan(2)).unwrap();
    assert_ne!(second.weights().unwrap(), weights);
    let moved: f32 = private(&second)
        .iter()
        .zip(&kept)
        .map(|(a, b)| (a - b).abs())
        .sum();
    let once: f32 = after.iter().zip(&kept).map(|(a, b)| (a - b).abs()).sum();
    // Step 0 of two steps runs at a higher rate than step 0 of one only through the cosine's shape; Adam's first step
    // is the rate itself, so the private tensors moved exactly one step.
    let rate = |steps| crate::schedule::Schedule::Round.rate(0, steps);
    let ratio = rate(2) / rate(1);
    assert!(
        (f64::from(moved / once) - ratio).abs() < 0.02,
        "{moved} {once} {ratio}"
    );
}

#[test]
fn moments_last_over_rounds_if_kept() {
    let run = |keep_moments: bool| {
        let mut learner = learner(BevLearnerConfig {
            keep_moments,
            ..config(PersonalPart::CameraEmbeddings)
        });
        learner.train(&plan(2)).unwrap();
        let start = learner.weights().unwrap();
        learner.train(&TrainPlan { round: 2, ..plan(1) }).unwrap();
        learner.weights().unwrap().minus(&start).unwrap().norm()
    };
    // A fresh optimiser's first step moves every number by the full rate; a kept one's does not.
    let (kept, fresh) = (run(true), run(false));
    assert!(kept < 0.9 * fresh, "{kept} against {fresh}");
}

#[test]
fn equal_plans_give_equal_weights_and_training_helps() {
    let train = || {
        let mut learner = learner(config(PersonalPart::CameraEmbeddings));
        let before = learner.evaluate().unwrap();
        let report = learner.train(&plan(25)).unwrap();
        (learner, before, report)
    };
    let (mut a, before, report) = train();
    let (b, ..) = train();
    assert_eq!(a.weights().unwrap(), b.weights().unwrap());
    assert_eq!(private(&a), private(&b));
    assert_eq!((report.steps, report.samples), (25, 50));
    assert!(report.loss_last < report.loss_first, "{report:?}");
    let after = a.evaluate().unwrap();
    assert!(after.loss < before.loss, "{before:?} {after:?}");
    let scores = after.bev().unwrap();
    assert!(after.depth().is_none() && after.images == 2);
    assert!(scores.pooled_iou > 0.0 && scores.pooled_iou.is_finite());
    let Some(Example::Bev(example)) = after.example else {
        panic!("a BEV learner shows a BEV map")
    };
    assert_eq!(
        (example.cells, example.truth.len(), example.name.as_str()),
        (20, 400, "test/0000")
    );
    assert_eq!(a.predict(&a.data().test()[0]).unwrap(), example.prediction);
}

#[test]
fn training_that_breaks_is_undone_private_tensors_too() {
    let mut learner = learner(config(PersonalPart::CameraEmbeddings));
    let (weights, kept) = (learner.weights().unwrap(), private(&learner));
    let wild = TrainPlan {
        learning_rate: 1e30,
        ..plan(6)
    };
    let error = learner.train(&wild).unwrap_err();
    assert!(
        matches!(
            error,
            LearnError::NonFiniteLoss { round: 1, .. } | LearnError::Diverged { round: 1, .. }
        ),
        "{error}"
    );
    assert_eq!(learner.weights().unwrap(), weights);
    assert_eq!(private(&learner), kept);
    learner.train(&plan(1)).unwrap();
}

#[test]
fn saved_private_tensors_come_back() {
    let mut learner = learner(config(PersonalPart::CameraEmbeddings));
    learner.train(&plan(2)).unwrap();
    let (state, kept, weights) = (
        learner.save_private().unwrap(),
        private(&learner),
        learner.weights().unwrap(),
    );
    let mut fresh = super::tests::learner(config(PersonalPart::CameraEmbeddings));
    assert_ne!(private(&fresh), kept);
    fresh.restore_private(&state).unwrap();
    fresh.load(&weights).unwrap();
    assert_eq!(private(&fresh), kept);
    assert_eq!(fresh.evaluate().unwrap(), learner.evaluate().unwrap());
    let mut other = super::tests::learner(config(PersonalPart::Head));
    let before = private(&other);
    assert!(matches!(
        other.restore_private(&state),
        Err(LearnError::PrivateState { .. })
    ));
    assert_eq!(private(&other), before);
}

/// One forward camera: cells behind have no say in loss and score under `fov`, are background in the loss under
/// `triangles`, and whole under `off`.
#[test]
fn each_rule_for_absent_cameras_does_what_it_says() {
    let data = || fleet(&[Side::Front]).dataset(LabelKind::All).unwrap();
    let with = |amcm| {
        let own = BevLearnerConfig {
            amcm,
            ..config(PersonalPart::Nothing)
        };
        BevLearner::new(own, 7, data()).unwrap()
    };
    let logits = Tensor::zeros([1, 2, 20, 20], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let pull = |learner: &BevLearner| {
        let mut logits = logits.copy().detach().set_requires_grad(true);
        let data = data();
        let frame = &data.train()[0];
        learner.loss(&logits, &[frame]).unwrap().backward();
        let gradient: Vec<f32> = Vec::try_from(logits.grad().select(1, 1).flatten(0, -1)).unwrap();
        logits.zero_grad();
        // Rows behind the vehicle that hold vehicles, and their neighbours.
        let behind: Vec<(bool, f32)> = frame.label()[13 * 20..]
            .iter()
            .copied()
            .zip(gradient[13 * 20..].to_vec())
            .collect();
        assert!(behind.iter().any(|(vehicle, _)| *vehicle));
        behind
    };
    let fov = with(Amcm::Fov);
    assert!(pull(&fov).iter().all(|(_, g)| *g == 0.0));
    assert_eq!(fov.views.cameras(), 1);
    let triangles = with(Amcm::Triangles);
    assert!(
        pull(&triangles).iter().all(|(_, g)| *g > 0.0),
        "all pushed to background"
    );
    let off = with(Amcm::Off);
    assert!(pull(&off).iter().all(|(vehicle, g)| (*g < 0.0) == *vehicle));
    assert_eq!(off.views.cameras(), 4, "three black ones");
    assert!((off.masks().share() - 1.0).abs() < 1e-12 && fov.masks().share() < 0.5);
    for mut learner in [fov, triangles, off] {
        let score = *learner.evaluate().unwrap().bev().unwrap();
        assert!(score.true_cells > 0);
    }
}

#[test]
fn the_published_rate_runs_over_rounds() {
    let learner = learner(BevLearnerConfig {
        rate: Rate::Schedule(Schedule::PUBLISHED),
        ..config(PersonalPart::Nothing)
    });
    let at = |round: u32, step: u32| {
        let plan = TrainPlan {
            round,
            learning_rate: 2e-4,
            ..plan(10)
        };
        learner.rate(&plan, step, 10)
    };
    assert!((at(1, 0) - 3.8e-5).abs() < 1e-12, "the first step is number 10");
    assert!((at(10, 0) - 1.998_076e-4).abs() < 1e-10);
    assert!((at(250, 0) - 1.025e-4).abs() < 1e-10);
}

#[test]
fn frames_that_do_not_fit_are_named() {
    let data = || fleet(&[Side::Front]).dataset(LabelKind::All).unwrap();
    let mut wide = config(PersonalPart::Nothing);
    wide.network.width = 96;
    wide.network.levels[0].key = (8, 24);
    let text = BevLearner::new(wide, 1, data()).err().unwrap().to_string();
    assert!(text.contains("48x32") && text.contains("96x32"), "{text}");
    let mut grid = config(PersonalPart::Nothing);
    grid.network.grid = Grid::PLAIN;
    let text = BevLearner::new(grid, 1, data()).err().unwrap().to_string();
    assert!(
        text.contains("20 cells over 20 m") && text.contains("200 over 100 m"),
        "{text}"
    );
    let zero = BevLearnerConfig {
        vehicle_weight: 0.0,
        ..config(PersonalPart::Nothing)
    };
    assert!(BevLearner::new(zero, 1, data()).is_err());
}
