use std::fmt::Write as _;
use std::fs;

use super::*;
use crate::bev::raster::rasterise;
use crate::data::picture::{write_mask, write_rgb};

/// Vehicle poses of a scene in the world: x, y, yaw in degrees, Unreal axes. Asymmetric, so that mirrors differ.
const VEHICLES: [[f64; 3]; 5] = [
    [112.0, 53.0, 10.0],
    [120.0, 47.5, 190.0],
    [95.0, 60.0, 100.0],
    [130.0, 56.0, 15.0],
    [104.0, 41.0, 10.0],
];
const EGO: [f64; 6] = [100.0, 50.0, 0.0, 0.0, 10.0, 0.0];
/// Right camera first, as one public document has it.
const MOUNTS: [[f64; 4]; 4] = [
    [2.5, 0.0, 1.0, 0.0],
    [0.0, 0.3, 1.8, 100.0],
    [0.0, -0.3, 1.8, -100.0],
    [-2.0, 0.0, 1.5, 180.0],
];

/// A yaml as the simulator's exporter writes them, exponent-only numbers included.
fn yaml(ego: [f64; 6], mounts: &[[f64; 4]]) -> String {
    let mut text = String::new();
    let list = |text: &mut String, indent: &str, numbers: &[f64]| {
        for n in numbers {
            writeln!(text, "{indent}- {n}").unwrap();
        }
    };
    for (i, [x, y, z, yaw]) in mounts.iter().enumerate() {
        let to_world = Pose::from_ue4(ego).after(&Pose::from_ue4([*x, *y, *z, 0.0, *yaw, 0.0]));
        let [wx, wy, wz] = to_world.position();
        writeln!(text, "camera{i}:\n  cords:").unwrap();
        list(&mut text, "  ", &[wx, wy, wz]);
        writeln!(
            text,
            "  - -3.9e-06\n  - {}\n  - 9e-20\n  extrinsic:\n  - - 1.0\n    - 0.0",
            ego[4] + yaw
        )
        .unwrap();
        text.push_str("  intrinsic:\n");
        for row in [
            [335.639_852, 0.0, 400.0],
            [0.0, 335.639_852, 300.0],
            [0.0, 0.0, 1.0],
        ] {
            writeln!(text, "  - - {}\n    - {}\n    - {}", row[0], row[1], row[2]).unwrap();
        }
    }
    text.push_str("ego_speed: 18.1\nlidar_pose:\n- 1.0\n- 2.0\ntrue_ego_pos:\n");
    list(&mut text, "", &ego);
    text.push_str("vehicles:\n");
    for (i, [x, y, yaw]) in VEHICLES.iter().enumerate() {
        writeln!(
            text,
            "  {}:\n    angle: [0.0, {yaw}, 0.0]\n    center:\n    - 0.0\n    - 9e-20\n    - 0.7\n    extent: [2.3, 1.0, 0.7]\n    location: [{x}, {y}, 0.0]\n    speed: 3.0",
            700 + i
        )
        .unwrap();
    }
    text
}

/// The same vehicles in this crate's ego axes, turned by hand: ego's axes are rotated by 10°, y changes its sign.
fn boxes() -> Vec<VehicleBox> {
    let (s, c) = 10_f64.to_radians().sin_cos();
    VEHICLES
        .iter()
        .map(|[x, y, yaw]| {
            let (dx, dy) = (x - 100.0, y - 50.0);
            VehicleBox {
                x: dx * c + dy * s,
                y: -(dy * c - dx * s),
                bottom: 0.0,
                yaw: -(yaw - 10.0).to_radians(),
                length: 4.6,
                width: 2.0,
                height: 1.4,
            }
        })
        .collect()
}

fn scenario(dir: &Path, mirror: Mirror, frames: usize, shade: u8) {
    fs::create_dir_all(dir).unwrap();
    let label = mirror.apply(256, &rasterise(Grid::OPV2V, &boxes()));
    for i in 0..frames {
        let stem = dir.join(format!("{:06}", 68 + 2 * i));
        fs::write(stem.with_extension("yaml"), yaml(EGO, &MOUNTS)).unwrap();
        for kind in ["bev_dynamic", "bev_visibility"] {
            write_mask(&beside(&stem, kind), 256, 256, &label).unwrap();
        }
        for camera in 0_u8..4 {
            let byte = shade + 10 * camera + u8::try_from(i).unwrap();
            write_rgb(
                &beside(&stem, &format!("camera{camera}")),
                800,
                600,
                &vec![byte; 800 * 600 * 3],
            )
            .unwrap();
        }
    }
    fs::write(dir.join("000068_additional.yaml"), "not: [a frame").unwrap();
}

fn options() -> BevOptions {
    BevOptions::new(32, 24)
}

fn recording(mirror: Mirror) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    scenario(
        &dir.path().join("train/client_2/2021_08_18_19_48_05/1045"),
        mirror,
        2,
        1,
    );
    scenario(
        &dir.path().join("test/client_2/2021_08_22_07_52_02/-3"),
        mirror,
        1,
        90,
    );
    scenario(
        &dir.path().join("test/client_2/2021_08_22_07_52_02/2000"),
        mirror,
        1,
        120,
    );
    dir
}

fn fault(dir: &Path) -> String {
    read_client(dir, Some("client_2"), &options())
        .unwrap_err()
        .to_string()
}

fn change_yaml(dir: &Path, change: impl Fn(String) -> String) {
    for path in [
        "train/client_2/2021_08_18_19_48_05/1045/000068.yaml",
        "train/client_2/2021_08_18_19_48_05/1045/000070.yaml",
        "test/client_2/2021_08_22_07_52_02/2000/000068.yaml",
    ] {
        let path = dir.join(path);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, change(text)).unwrap();
    }
}

/// Whatever convention the label files have, the self-check finds it and the labels come out in ours.
#[test]
fn labels_of_all_four_conventions_come_out_alike() {
    let expected = rasterise(Grid::OPV2V, &boxes());
    for mirror in [Mirror::ALL[1], Mirror::ALL[2]] {
        let dir = recording(mirror);
        let (data, report) = read_client(dir.path(), Some("client_2"), &options()).unwrap();
        assert_eq!((data.train().len(), data.test().len(), report.found), (2, 1, 3));
        assert_eq!(data.train()[0].label(), expected);
        let check = report.check.as_ref().unwrap();
        assert_eq!(check.mirror, mirror);
        assert!(check.visible >= 5 && check.inside == check.visible, "{check}");
        assert_eq!(data.test()[0].name(), "test/2021_08_22_07_52_02/2000/000068");
        assert_eq!(
            data.test()[0].pictures()[0],
            120,
            "the road-side unit -3 is no vehicle"
        );
        let text = report.to_string();
        // Yaw 100 in Unreal axes looks to the right, whatever the number of the camera.
        assert!(
            text.contains("camera1 looks right from (0.00, -0.30, 1.80) m, yaw -100.0 deg left"),
            "{text}"
        );
        assert!(
            text.contains("camera2 looks left") && text.contains(mirror.describe()),
            "{text}"
        );
    }
}

#[test]
fn the_plain_layout_and_a_choice_of_cameras_work() {
    let dir = tempfile::tempdir().unwrap();
    scenario(&dir.path().join("train/a/1"), Mirror::ALL[0], 1, 1);
    scenario(
        &dir.path().join("train/2021_09_09_13_20_58/1"),
        Mirror::ALL[0],
        1,
        1,
    );
    scenario(&dir.path().join("test/b/1"), Mirror::ALL[0], 1, 60);
    let chosen = BevOptions {
        cameras: Some(vec!["camera2".to_owned(), "camera0".to_owned()]),
        ..options()
    };
    let (data, report) = read_client(dir.path(), None, &chosen).unwrap();
    // Picture and calibration stay paired by name: camera 2's picture comes first and looks left.
    assert_eq!(data.train()[0].pictures()[0], 21);
    assert_eq!(data.rig().cameras()[0].name, "camera2");
    assert!(data.rig().cameras()[0].forward()[1] > 0.9);
    assert!(
        report
            .skipped
            .iter()
            .any(|(name, _)| name.ends_with("2021_09_09_13_20_58"))
    );
    let absent = BevOptions {
        cameras: Some(vec!["camera7".to_owned()]),
        ..options()
    };
    let text = read_client(dir.path(), None, &absent).unwrap_err().to_string();
    assert!(text.contains("no camera 'camera7'"), "{text}");
}

#[test]
fn geometry_that_contradicts_itself_is_named() {
    // Angles as radians: boxes turn, places stay. Still clear.  Poses in the wrong order: nothing fits.
    let dir = recording(Mirror::ALL[0]);
    change_yaml(dir.path(), |text| text.replace("location: [1", "location: [21"));
    let text = fault(dir.path());
    assert!(text.contains("do not agree under one clear convention"), "{text}");

    // Extrinsics of other cameras: labels fit, pictures do not.
    let dir = recording(Mirror::ALL[0]);
    let wrong = MOUNTS.map(|[x, y, _, yaw]| [x, y, 90.0, yaw]);
    change_yaml(dir.path(), |_| yaml(EGO, &wrong));
    let text = fault(dir.path());
    assert!(text.contains("only 0 have their middle in a picture"), "{text}");

    // One frame of another vehicle type.
    let dir = recording(Mirror::ALL[0]);
    let other = MOUNTS.map(|[x, y, z, yaw]| [x, y, z + 1.0, yaw]);
    let path = dir
        .path()
        .join("train/client_2/2021_08_18_19_48_05/1045/000070.yaml");
    fs::write(path, yaml(EGO, &other)).unwrap();
    let text = fault(dir.path());
    assert!(
        text.contains("000070.yaml") && text.contains("camera0 lies 1.00 m from its place"),
        "{text}"
    );

    // No vehicles at all.
    let dir = recording(Mirror::ALL[0]);
    change_yaml(dir.path(), |text| {
        text.split("vehicles:").next().unwrap().to_owned()
    });
    assert!(fault(dir.path()).contains("nothing to check the geometry on"));
}

#[test]
fn broken_files_are_named() {
    let dir = recording(Mirror::ALL[0]);
    change_yaml(dir.path(), |text| text.replace("true_ego_pos", "ego_pos"));
    let text = fault(dir.path());
    assert!(
        text.contains("000068.yaml") && text.contains("true_ego_pos"),
        "{text}"
    );

    let dir = recording(Mirror::ALL[0]);
    change_yaml(dir.path(), |text| text.replace("extent: [2.3", "extent: [.nan"));
    assert!(fault(dir.path()).contains("vehicle 700 has no usable box"));

    let dir = recording(Mirror::ALL[0]);
    let train = dir.path().join("train/client_2/2021_08_18_19_48_05/1045");
    fs::remove_file(train.join("000068_camera3.png")).unwrap();
    assert!(fault(dir.path()).contains("000068_camera3.png is missing"));

    // A recording without labels is passed over and listed; without any it is an error that names the setting.
    fs::remove_file(train.join("000068_bev_visibility.png")).unwrap();
    let (data, report) = read_client(dir.path(), Some("client_2"), &options()).unwrap();
    assert_eq!(data.train().len(), 1);
    assert!(
        report.skipped[0].1.contains("bev_visibility.png is missing"),
        "{report}"
    );
    fs::remove_file(train.join("000070_bev_visibility.png")).unwrap();
    let text = fault(dir.path());
    assert!(
        text.contains("all 2 frames of 'train'") && text.contains("data.label"),
        "{text}"
    );

    assert!(fault(&dir.path().join("nowhere")).contains("expected <root>/{train,test}"));
}
