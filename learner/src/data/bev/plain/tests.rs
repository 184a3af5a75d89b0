use std::fs;

use super::*;
use crate::bev::Side;
use crate::data::bev::{Fleet, VehicleKind};

fn fleet() -> Fleet {
    Fleet {
        kind: VehicleKind::Car,
        cameras: vec![Side::Front, Side::Left, Side::Right],
        width: 32,
        height: 24,
        grid: Grid {
            cells: 40,
            metres: 60.0,
        },
        train: 3,
        test: 2,
        seed: 3,
    }
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fleet().write_folder(dir.path()).unwrap();
    dir
}

fn change_meta(dir: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let path = dir.join("meta.json");
    let mut meta: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut meta);
    fs::write(path, meta.to_string()).unwrap();
}

fn fault(dir: &Path, options: &BevOptions) -> String {
    read_client(dir, options).unwrap_err().to_string()
}

#[test]
fn what_the_generator_wrote_is_what_is_read() {
    let dir = folder();
    for label in [LabelKind::Visible, LabelKind::All] {
        let options = BevOptions {
            label,
            ..BevOptions::new(32, 24)
        };
        let (read, report) = read_client(dir.path(), &options).unwrap();
        let made = fleet().dataset(label).unwrap();
        assert_eq!(
            (report.found, report.train, report.test, report.rasterised),
            (5, 3, 2, 0)
        );
        for (a, b) in read
            .train()
            .iter()
            .zip(made.train())
            .chain(read.test().iter().zip(made.test()))
        {
            assert_eq!((a.pictures(), a.label()), (b.pictures(), b.label()));
        }
        assert_eq!(read.grid(), made.grid());
        for (a, b) in read.rig().cameras().iter().zip(made.rig().cameras()) {
            assert_eq!(a.name, b.name);
            assert!((a.intrinsics.fx - b.intrinsics.fx).abs() < 1e-9);
        }
        let text = report.to_string();
        assert!(
            text.contains("front looks front from") && text.contains("3 train, 2 test"),
            "{text}"
        );
    }
}

/// A label that is not there is drawn from the boxes, and is the same picture.
#[test]
fn missing_labels_are_rasterised() {
    let dir = folder();
    for split in ["train", "test"] {
        for kind in ["bev", "bev_visible"] {
            fs::remove_dir_all(dir.path().join(split).join(kind)).unwrap();
        }
    }
    for label in [LabelKind::Visible, LabelKind::All] {
        let options = BevOptions {
            label,
            ..BevOptions::new(32, 24)
        };
        let (read, report) = read_client(dir.path(), &options).unwrap();
        assert_eq!(report.rasterised, 5);
        let made = fleet().dataset(label).unwrap();
        assert_eq!(read.train()[0].label(), made.train()[0].label());
    }
}

#[test]
fn cameras_are_chosen_by_name_and_pictures_follow() {
    let dir = folder();
    let options = BevOptions {
        cameras: Some(vec!["right".to_owned(), "front".to_owned()]),
        ..BevOptions::new(16, 12)
    };
    let (read, _) = read_client(dir.path(), &options).unwrap();
    let names: Vec<&str> = read.rig().cameras().iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["right", "front"]);
    let alone = BevOptions {
        cameras: Some(vec!["front".to_owned()]),
        ..BevOptions::new(16, 12)
    };
    let (front, _) = read_client(dir.path(), &alone).unwrap();
    assert_eq!(
        read.train()[0].pictures()[16 * 12 * 3..],
        *front.train()[0].pictures()
    );
    assert!(
        (front.rig().cameras()[0].intrinsics.cx - 8.0).abs() < 1e-9,
        "K follows the size"
    );
    let absent = BevOptions {
        cameras: Some(vec!["rear".to_owned()]),
        ..BevOptions::new(16, 12)
    };
    let text = fault(dir.path(), &absent);
    assert!(
        text.contains("no camera 'rear'") && text.contains("front, left, right"),
        "{text}"
    );
}

#[test]
fn faults_are_named_or_skipped() {
    let dir = folder();
    let refuse = BevOptions::new(32, 24);
    let skip = BevOptions {
        on_fault: OnFault::Skip,
        ..refuse.clone()
    };
    let lost = dir.path().join("train/left/0001.png");
    fs::remove_file(&lost).unwrap();
    let text = fault(dir.path(), &refuse);
    assert!(
        text.contains("train/0001") && text.contains("left/0001.png is missing"),
        "{text}"
    );
    let (read, report) = read_client(dir.path(), &skip).unwrap();
    assert_eq!((read.train().len(), report.skipped.len()), (2, 1));
    fs::remove_dir_all(dir.path().join("test/left")).unwrap();
    let text = fault(dir.path(), &skip);
    assert!(text.contains("all 2 frames of 'test'"), "{text}");
}

#[test]
fn contradictions_in_meta_are_named() {
    let options = BevOptions::new(32, 24);
    let with = |change: fn(&mut serde_json::Value)| {
        let dir = folder();
        change_meta(dir.path(), change);
        fault(dir.path(), &options)
    };
    let text = with(|m| m["width"] = 64.into());
    assert!(
        text.contains("is 32x24 but its calibration is for 64x24"),
        "{text}"
    );
    let text = with(|m| m["cameras"][0]["camera_to_ego"][0][0] = 3.into());
    assert!(
        text.contains("camera_to_ego of 'front'") && text.contains("no rigid motion"),
        "{text}"
    );
    let text = with(|m| m["cameras"][1]["name"] = "front".into());
    assert!(text.contains("'front' is listed twice"), "{text}");
    let text = with(|m| m["bev"]["cells"] = 41.into());
    assert!(text.contains("is 40x40 but the grid has 41x41"), "{text}");
    let text = with(|m| m["frames"][0]["split"] = "val".into());
    assert!(text.contains("'val'"), "{text}");
    let text = with(|m| m["frames"][0]["id"] = "../0000".into());
    assert!(text.contains("no file's name"), "{text}");
    let text = with(|m| m["cameras"][0]["name"] = "../front".into());
    assert!(text.contains("no folder's name"), "{text}");
    let text = with(|m| m["cameras"] = serde_json::json!([]));
    assert!(text.contains("no camera"), "{text}");
    let text = with(|m| m["frames"] = serde_json::json!([]));
    assert!(text.contains("no frames found"), "{text}");
    let text = with(|m| *m = serde_json::json!({}));
    assert!(text.contains("missing field"), "{text}");
    let dir = folder();
    fs::remove_dir_all(dir.path().join("train/bev_visible")).unwrap();
    change_meta(dir.path(), |m| {
        m["frames"][0]["vehicles"][0]["length"] = (-1).into();
    });
    assert!(fault(dir.path(), &options).contains("vehicle 0 has no usable box"));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(
        read_client(empty.path(), &options),
        Err(BevDataError::Layout { .. })
    ));
    let small = BevOptions {
        memory_limit: 100,
        ..options.clone()
    };
    assert!(matches!(
        read_client(folder().path(), &small),
        Err(BevDataError::Memory { frames: 5, .. })
    ));
}

#[test]
fn thinning_spreads_over_the_whole() {
    assert_eq!(thin((0..10).collect(), Some(3)), [3, 6, 9]);
    assert_eq!(thin((0..3).collect(), Some(5)), [0, 1, 2]);
    assert_eq!(thin((0..3).collect::<Vec<i32>>(), None), [0, 1, 2]);
}
