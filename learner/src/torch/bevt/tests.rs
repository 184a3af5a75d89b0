use tch::Device;

use super::*;
use crate::bev::{Amcm, Camera, Intrinsics, Masks, Pose, Rig};

const GRID: Grid = Grid {
    cells: 20,
    metres: 20.0,
};

fn rig(count: usize, (width, height): (usize, usize)) -> Rig {
    let yaws = [0.0_f64, 100.0, -100.0, 180.0];
    let focal = 0.5 * f64::from(u32::try_from(width).unwrap());
    let cameras = yaws.iter().take(count).map(|yaw| Camera {
        name: format!("at{yaw}"),
        intrinsics: Intrinsics {
            fx: focal,
            fy: focal,
            cx: focal,
            cy: 0.5 * f64::from(u32::try_from(height).unwrap()),
            width,
            height,
        },
        to_ego: Pose::of_camera([0.5, 0.1, 1.6], yaw.to_radians(), 0.1, 0.0),
    });
    Rig::new(cameras.collect()).unwrap()
}

fn views(config: &BevtConfig, rig: &Rig, amcm: Amcm) -> Views {
    let masks = Masks::new(amcm, rig, config.grid, &config.query_sides()).unwrap();
    Views::new(config, rig, &masks, Device::Cpu)
}

fn waves(shape: &[i64], pace: f64) -> Tensor {
    let count: i64 = shape.iter().product();
    (Tensor::arange(count, (Kind::Double, Device::Cpu)) * pace)
        .sin()
        .to_kind(Kind::Float)
        .view(shape)
}

fn count(vars: &VarStore, network: &Bevt, wanted: &[Part]) -> usize {
    let trained = |name: &String| vars.variables()[name].requires_grad();
    network
        .parts()
        .iter()
        .filter(|(name, part)| wanted.contains(part) && trained(name))
        .map(|(name, _)| vars.variables()[name].numel())
        .sum()
}

/// Counts measured on the published code: 25,956,208 in 572 entries, of which 513,000 (2 entries) are a classifier, 578
/// (2) a second head, both unused, and 70 entries integer counters. Queries, cross views, bottlenecks, downsamples and
/// self-attention together 3,722,884; decoder 434,496.
#[test]
fn the_published_network_has_the_published_size() {
    let vars = VarStore::new(Device::Cpu);
    let network = Bevt::new(&vars, &vars.root(), &BevtConfig::published()).unwrap();
    let of = |parts: &[Part]| count(&vars, &network, parts);
    assert_eq!(of(&Part::ALL), 25_956_208 - 513_000 - 578);
    assert_eq!(of(&[Part::Encoder]), 21_797_672 - 513_000);
    let middle = [Part::Query, Part::CameraEmbedding, Part::Attention, Part::Fusion];
    assert_eq!(of(&middle), 3_722_884);
    assert_eq!(of(&[Part::Query]), 2_097_152);
    assert_eq!(of(&[Part::Decoder]), 434_496);
    assert_eq!(of(&[Part::Head]), 578);
    assert_eq!(vars.len(), 572 - 70 - 2 - 2);
    // Six tensors of 4 x 128.
    assert_eq!(of(&[Part::CameraEmbedding]), 3072);
    let kept = network.parts().values().filter(|p| **p == Part::CameraEmbedding);
    assert_eq!(kept.count(), 6);
    for (level, expected) in [(1, 300_928), (2, 333_824), (3, 400_384)] {
        let prefix = format!("level{level}.cross.");
        let trained = vars
            .variables()
            .into_iter()
            .filter(|(name, t)| name.starts_with(&prefix) && t.requires_grad());
        assert_eq!(trained.map(|(_, t)| t.numel()).sum::<usize>(), expected);
    }
}

/// Shapes of the published stages, for one camera and for four with the same weights.
#[test]
#[ignore = "half a minute of one core; run with --ignored"]
fn the_published_network_has_the_published_shapes() {
    let config = BevtConfig::published();
    let vars = VarStore::new(Device::Cpu);
    let network = Bevt::new(&vars, &vars.root(), &config).unwrap();
    assert_eq!(config.level_maps(), [(128, 64, 64), (256, 32, 32), (512, 16, 16)]);
    assert_eq!(config.query_sides(), [128, 64, 32]);
    for cameras in [1, 4] {
        let views = views(&config, &rig(cameras, (512, 512)), Amcm::Fov);
        let pictures = waves(&[1, size(cameras), 3, 512, 512], 0.01);
        let maps = tch::no_grad(|| network.encoder.forward(&pictures.flatten(0, 1), false));
        let shapes: Vec<Vec<i64>> = maps.iter().skip(1).map(|m| m.size()[1..].to_vec()).collect();
        assert_eq!(shapes, [[128, 64, 64], [256, 32, 32], [512, 16, 16]]);
        let logits = tch::no_grad(|| network.forward(&pictures, &views, false));
        assert_eq!(logits.size(), [1, 2, 256, 256]);
        assert!(logits.isfinite().all().int64_value(&[]) == 1);
    }
}

#[test]
fn tiny_has_the_size_it_says_and_takes_any_number_of_cameras() {
    let config = BevtConfig::tiny(GRID);
    let vars = VarStore::new(Device::Cpu);
    let network = Bevt::new(&vars, &vars.root(), &config).unwrap();
    let total = count(&vars, &network, &Part::ALL);
    assert!((45_000..52_000).contains(&total), "{total}");
    for cameras in 1..=4 {
        let views = views(&config, &rig(cameras, (48, 32)), Amcm::Fov);
        let logits = network.forward(&waves(&[2, size(cameras), 3, 32, 48], 0.1), &views, false);
        assert_eq!(logits.size(), [2, 2, 20, 20]);
    }
    // Another grid stretches the decoder's map.
    let config = BevtConfig::tiny(Grid::PLAIN);
    let views = views(&config, &rig(2, (48, 32)), Amcm::Fov);
    let vars = VarStore::new(Device::Cpu);
    let network = Bevt::new(&vars, &vars.root(), &config).unwrap();
    assert_eq!(
        network
            .forward(&waves(&[1, 2, 3, 32, 48], 0.1), &views, false)
            .size(),
        [1, 2, 200, 200]
    );
}

#[test]
fn every_tensor_is_trained() {
    let config = BevtConfig::tiny(GRID);
    let vars = VarStore::new(Device::Cpu);
    let network = Bevt::new(&vars, &vars.root(), &config).unwrap();
    let views = views(&config, &rig(3, (48, 32)), Amcm::Fov);
    let logits = network.forward(&waves(&[1, 3, 3, 32, 48], 0.1), &views, true);
    logits.square().mean(Kind::Float).backward();
    for (name, tensor) in vars.variables() {
        assert!(tensor.grad().defined(), "{name} has no gradient");
    }
}

/// Cameras are a set: their order must not matter, but which picture belongs to which calibration must.
#[test]
fn the_order_of_cameras_is_irrelevant_and_their_calibration_is_not() {
    let config = BevtConfig::tiny(GRID);
    let vars = VarStore::new(Device::Cpu);
    let network = Bevt::new(&vars, &vars.root(), &config).unwrap();
    let straight = rig(3, (48, 32));
    let turned = Rig::new([2, 0, 1].map(|i| straight.cameras()[i].clone()).to_vec()).unwrap();
    let pictures = waves(&[1, 3, 3, 32, 48], 0.013);
    let order = Tensor::from_slice(&[2_i64, 0, 1]);
    let moved = pictures.index_select(1, &order);
    let run = |pictures: &Tensor, rig: &Rig| {
        tch::no_grad(|| network.forward(pictures, &views(&config, rig, Amcm::Fov), false))
    };
    let apart = |a: &Tensor, b: &Tensor| (a - b).abs().max().double_value(&[]);
    let base = run(&pictures, &straight);
    assert!(apart(&base, &run(&moved, &turned)) < 1e-4);
    assert!(apart(&base, &run(&moved, &straight)) > 1e-3);
    let legacy = BevtConfig {
        geometry: RayGeometry::Legacy {
            width: 800,
            height: 600,
        },
        ..config.clone()
    };
    let other = tch::no_grad(|| network.forward(&pictures, &views(&legacy, &straight, Amcm::Fov), false));
    assert!(apart(&base, &other) > 1e-3, "the two geometries differ");
}

/// A query that no camera sees must not change what is predicted far from it, whatever it holds.
#[test]
fn unseen_queries_have_no_say() {
    // Group norms would mix the whole map; in use, batch norms do not.
    let config = BevtConfig {
        norm: Norm::Batch,
        ..BevtConfig::tiny(GRID)
    };
    let vars = VarStore::new(Device::Cpu);
    let network = Bevt::new(&vars, &vars.root(), &config).unwrap();
    draw_as(&vars, 3, |name, _| (name == "query").then_some(1.0)).unwrap();
    let pictures = waves(&[1, 1, 3, 32, 48], 0.1);
    let change = |amcm| {
        let views = views(&config, &rig(1, (48, 32)), amcm);
        // Four rows far ahead, which the one camera sees; the query's last three rows lie behind.
        let ahead = || {
            tch::no_grad(|| network.forward(&pictures, &views, false))
                .narrow(2, 0, 4)
                .copy()
        };
        let before = ahead();
        tch::no_grad(|| {
            let mut behind = network.query.narrow(1, 7, 3);
            let _ = behind.neg_();
        });
        (before - ahead()).abs().max().double_value(&[])
    };
    assert!(change(Amcm::Fov) < 1e-9);
    assert!(change(Amcm::Off) > 1e-6);
}

/// Names without the path that a network was nested in.
fn kept(
    vars: &VarStore,
    network: &Bevt,
    personal: PersonalPart,
    nested: &str,
) -> BTreeSet<(String, Vec<i64>)> {
    let variables = vars.variables();
    network
        .parts()
        .iter()
        .filter(|(_, part)| personal.keeps(**part))
        .map(|(name, _)| (name.trim_start_matches(nested).to_owned(), variables[name].size()))
        .collect()
}

/// What stays is decided by what a tensor does. Nesting the network under names that other parts bear, which would fool
/// any rule on the beginnings of names, moves nothing; and a tensor that nobody claimed stays.
#[test]
fn renaming_or_nesting_the_network_sends_nothing_more() {
    let config = BevtConfig::tiny(GRID);
    for personal in PersonalPart::ALL {
        let plain = VarStore::new(Device::Cpu);
        let network = Bevt::new(&plain, &plain.root(), &config).unwrap();
        let expected = kept(&plain, &network, personal, "");
        for at in ["encoder", "head", "model"] {
            let nested = VarStore::new(Device::Cpu);
            let inner = Bevt::new(&nested, &(nested.root() / at / "level1"), &config).unwrap();
            let _ = nested.root().zeros("stray", &[5]);
            assert_eq!(
                kept(&nested, &inner, personal, &format!("{at}.level1.")),
                expected
            );
            if personal == PersonalPart::Everything {
                continue;
            }
            let owners = inner.parts().clone();
            let store = Store::classified(nested, |name| owners.get(name).is_none_or(|p| personal.keeps(*p)))
                .unwrap();
            let private: Vec<_> = store.layout().private().collect();
            assert_eq!(private.len(), expected.len() + 1, "and the stray one");
            assert!(store.layout().uploaded().all(|spec| spec.name != "stray"));
        }
    }
}

#[test]
fn settings_that_do_not_fit_are_refused_by_name() {
    let base = BevtConfig::tiny(GRID);
    let with = |change: fn(&mut BevtConfig)| {
        let mut config = base.clone();
        change(&mut config);
        config.check().map_err(|e| e.to_string())
    };
    assert!(with(|_| ()).is_ok());
    assert!(BevtConfig::published().check().is_ok());
    for (change, word) in [
        ((|c| c.width = 50) as fn(&mut BevtConfig), "bevt.width"),
        (|c| c.levels.clear(), "bevt.levels"),
        (|c| c.levels[0].query = 4, "does not divide"),
        (|c| c.levels[0].key = (4, 12), "counts must agree"),
        (|c| c.dim = 30, "bevt.dim"),
        (|c| c.norm = Norm::Group(7), "norm's group"),
        (|c| c.heads = 0, "bevt.heads"),
        (|c| c.dropout = 1.0, "bevt.dropout"),
        (|c| c.grid.cells = 0, "BEV grid"),
        (|c| c.decoder.clear(), "bevt.decoder"),
    ] {
        let error = with(change).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}

/// Two levels, two cameras, padded keys, batch norms in use: every step of the network against a numpy program written
/// from the published description, with the camera-wise copies of the second attention and joint softmax spelt out.
/// Tensors are filled by a formula over their names' order.
#[test]
fn the_whole_network_agrees_with_an_independent_program() {
    let config = BevtConfig {
        width: 32,
        height: 16,
        grid: Grid {
            cells: 16,
            metres: 40.0,
        },
        encoder: BevEncoder::Plain { widths: vec![4, 8] },
        norm: Norm::Batch,
        dim: 8,
        heads: 2,
        per_head: 3,
        query: 8,
        levels: vec![
            LevelConfig {
                query: 4,
                key: (5, 9),
            },
            LevelConfig {
                query: 4,
                key: (4, 8),
            },
        ],
        decoder: vec![6, 4],
        dropout: 0.1,
        local_start: false,
        geometry: RayGeometry::Correct,
    };
    let vars = VarStore::new(Device::Cpu);
    let network = Bevt::new(&vars, &vars.root(), &config).unwrap();
    let tensors: BTreeMap<String, Tensor> = vars.variables().into_iter().collect();
    for (k, (name, tensor)) in (0_u32..).zip(tensors) {
        let index = Tensor::arange(size(tensor.numel()), (Kind::Double, Device::Cpu));
        let wave = (index * 2.4 + (0.7 * f64::from(k) + 1.0)).sin() * 0.4;
        let is_scale = name.ends_with("running_var") || (name.ends_with("weight") && tensor.dim() == 1);
        let values = if is_scale { wave + 1.0 } else { wave };
        let source = values.to_kind(Kind::Float).view(tensor.size().as_slice());
        tch::no_grad(|| tensor.shallow_clone().f_copy_(&source)).unwrap();
    }
    let views = views(&config, &rig(2, (32, 16)), Amcm::Off);
    let pictures = waves(&[1, 2, 3, 16, 32], 0.05);
    let logits = tch::no_grad(|| network.forward(&pictures, &views, false)).to_kind(Kind::Double);
    if let Ok(path) = std::env::var("BEVT_LOGITS") {
        let values: Vec<f64> = Vec::try_from(logits.flatten(0, -1)).unwrap();
        let text: Vec<String> = values.iter().map(|v| format!("{v:.9}")).collect();
        std::fs::write(path, text.join("\n")).unwrap();
    }
    let found = [
        logits.sum(Kind::Double).double_value(&[]),
        logits.square().sum(Kind::Double).double_value(&[]),
        logits.double_value(&[0, 0, 0, 0]),
        logits.double_value(&[0, 0, 7, 3]),
        logits.double_value(&[0, 1, 8, 8]),
        logits.double_value(&[0, 1, 15, 0]),
    ];
    let expected = [
        52.7662,
        69.271_67,
        0.117_370_1,
        0.456_801_6,
        -0.235_588_6,
        0.022_182_45,
    ];
    for (f, e) in found.iter().zip(expected) {
        assert!(
            (f - e).abs() < 2e-4 * (1.0 + e.abs()),
            "{found:?} is not {expected:?}"
        );
    }
}
