use std::fs;
use std::path::PathBuf;

use super::*;
use crate::data::picture::{write_depth, write_rgb};
use crate::data::{Frame, OnFault, SkipReason};
use crate::metrics::DepthRange;

/// A client's folder with 4x2 frames: training depths 512, 513, …, test depths 600, 601, ….
struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for (split, base, frames) in [("train", 512, 3), ("test", 600, 2)] {
            for i in 0..frames {
                fixture.put(split, i, base + i);
            }
        }
        fixture
    }

    fn put(&self, split: &str, i: u16, depth: u16) {
        let rgb = self.path(split, "rgb", i);
        fs::create_dir_all(rgb.parent().unwrap()).unwrap();
        fs::create_dir_all(self.path(split, "depth", i).parent().unwrap()).unwrap();
        write_rgb(&rgb, 4, 2, &[u8::try_from(i).unwrap(); 24]).unwrap();
        write_depth(&self.path(split, "depth", i), 4, 2, &[depth; 8]).unwrap();
    }

    fn path(&self, split: &str, kind: &str, i: u16) -> PathBuf {
        self.dir.path().join(split).join(kind).join(format!("{i:04}.png"))
    }

    fn meta(&self, text: &str) {
        fs::write(self.dir.path().join("meta.json"), text).unwrap();
    }

    fn read(&self, change: impl Fn(&mut FolderOptions)) -> Result<(DepthDataset, ReadReport), DataError> {
        let mut options = FolderOptions::new(4, 2);
        options.scale = Some(DepthScale::Kitti);
        change(&mut options);
        read_client(self.dir.path(), &options)
    }

    fn error(&self) -> DataError {
        self.read(|_| ()).unwrap_err()
    }

    fn skipped(&self) -> ReadReport {
        self.read(|o| o.read.on_fault = OnFault::Skip).unwrap().1
    }
}

#[test]
fn reads_pairs_in_name_order_and_reports() {
    let fixture = Fixture::new();
    let (data, report) = fixture.read(|_| ()).unwrap();
    assert_eq!(
        data.train().iter().map(Frame::name).collect::<Vec<_>>(),
        ["train/0000", "train/0001", "train/0002"]
    );
    assert_eq!(data.train()[1].depth(), [513.0 / 256.0; 8]);
    assert_eq!(data.test()[1].rgb(), [1; 24]);
    assert_eq!(
        (report.found, report.used(), report.train, report.test),
        (5, 5, 3, 2)
    );
    let text = report.to_string();
    assert!(
        text.contains("5 frames found, 5 used (3 train, 2 test), 0 skipped"),
        "{text}"
    );
    assert!(text.contains("kitti"), "{text}");
}

#[test]
fn scale_and_range_come_from_meta_or_configuration() {
    let fixture = Fixture::new();
    assert!(matches!(
        fixture.read(|o| o.scale = None),
        Err(DataError::NoScale { .. })
    ));
    fixture.meta(
        r#"{"name": "robot", "depth_scale": 1000, "depth_min_m": 0.2, "depth_max_m": 10.0, "frames": []}"#,
    );
    let (data, report) = fixture.read(|o| o.scale = None).unwrap();
    assert_eq!((data.name(), report.scale), ("robot", DepthScale::Nyu));
    assert_eq!(
        data.range(),
        DepthRange {
            min_m: 0.2,
            cap_m: 10.0
        }
    );
    assert_eq!(data.train()[0].depth(), [0.512; 8]);
    let error = fixture.error();
    assert!(matches!(error, DataError::ScaleConflict { .. }));
    assert!(
        error.to_string().contains("1000") && error.to_string().contains("kitti"),
        "{error}"
    );
    let (data, _) = fixture.read(|o| (o.scale, o.cap_m) = (None, Some(5.0))).unwrap();
    assert_eq!([data.range().cap_m], [5.0]);
    assert!(matches!(
        fixture.read(|o| (o.scale, o.cap_m) = (None, Some(0.1))),
        Err(DataError::Settings { .. })
    ));
}

#[test]
fn a_broken_meta_file_is_named() {
    let fixture = Fixture::new();
    for text in [
        "{",
        r#"{"depth_scale": 0}"#,
        r#"{"depth_scale": -256}"#,
        r#"{"depth_scale": "kitti"}"#,
    ] {
        fixture.meta(text);
        let error = fixture.read(|o| o.scale = None).unwrap_err();
        assert!(
            matches!(&error, DataError::Meta { path, .. } if path.ends_with("meta.json")),
            "{error}"
        );
    }
}

#[test]
fn an_empty_or_foreign_folder_is_explained() {
    let fixture = Fixture::new();
    for i in 0..2 {
        fs::remove_file(fixture.path("test", "rgb", i)).unwrap();
        fs::remove_file(fixture.path("test", "depth", i)).unwrap();
    }
    assert!(matches!(fixture.error(), DataError::Empty { path } if path.ends_with("test")));
    fs::remove_dir_all(fixture.dir.path().join("train/depth")).unwrap();
    let error = fixture.error();
    assert!(
        matches!(&error, DataError::Layout { path, .. } if path.ends_with("train/depth")),
        "{error}"
    );
    assert!(error.to_string().contains("found test, train"), "{error}");
}

#[test]
fn a_test_only_client_needs_no_train_split() {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.dir.path().join("train")).unwrap();
    assert!(matches!(fixture.error(), DataError::Layout { .. }));
    let (data, report) = fixture.read(|o| o.splits = Splits::Test).unwrap();
    assert_eq!((data.train().len(), data.test().len(), report.found), (0, 2, 2));
}

#[test]
fn a_missing_partner_is_named_or_counted() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path("train", "depth", 1)).unwrap();
    let error = fixture.error();
    assert!(
        matches!(&error, DataError::Partner { missing, .. } if missing.ends_with("train/depth/0001.png")),
        "{error}"
    );
    fs::remove_file(fixture.path("test", "rgb", 0)).unwrap();
    let report = fixture.skipped();
    assert_eq!(
        (report.found, report.train, report.test, report.skipped.len()),
        (5, 2, 1, 2)
    );
    assert!(report.to_string().contains("skipped"), "{report}");
}

#[test]
fn a_truncated_file_is_named_or_counted() {
    let fixture = Fixture::new();
    let path = fixture.path("train", "rgb", 2);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(fixture.error(), DataError::Png { path: p, .. } if p == path));
    assert_eq!(fixture.skipped().train, 2);
    fs::write(&path, b"GIF89a").unwrap();
    assert!(matches!(fixture.error(), DataError::Png { .. }));
}

#[test]
fn wrong_kinds_of_png_are_named() {
    let fixture = Fixture::new();
    write_rgb(&fixture.path("train", "depth", 0), 4, 2, &[9; 24]).unwrap();
    let error = fixture.error();
    assert!(
        matches!(
            &error,
            DataError::Format {
                expected: "16-bit gray",
                ..
            }
        ),
        "{error}"
    );
    let fixture = Fixture::new();
    write_depth(&fixture.path("train", "rgb", 0), 4, 2, &[9; 8]).unwrap();
    assert!(matches!(
        fixture.error(),
        DataError::Format {
            expected: "8-bit RGB",
            ..
        }
    ));
}

#[test]
fn different_sizes_are_named() {
    let fixture = Fixture::new();
    write_depth(&fixture.path("test", "depth", 1), 2, 4, &[600; 8]).unwrap();
    assert!(matches!(
        fixture.error(),
        DataError::Sizes {
            rgb: (4, 2),
            depth: (2, 4),
            ..
        }
    ));
}

#[test]
fn a_wrong_scale_is_recognised() {
    let fixture = Fixture::new();
    // 45 m to 60 m in millimetres, read as 1/256 m: 176 m to 234 m under a cap of 10 m.
    for i in 0..3 {
        fixture.put("train", i, 45_000 + 5_000 * i);
    }
    let error = fixture.read(|o| o.cap_m = Some(10.0)).unwrap_err();
    assert!(matches!(error, DataError::Scale { hint: "nyu", .. }));
    let text = error.to_string();
    assert!(
        text.contains("the scale is probably wrong: declared kitti (value / 256 m), try nyu"),
        "{text}"
    );
    // A typical room in millimetres read as 1/256 m: 13.7 m under a cap of 10 m.
    for i in 0..3 {
        fixture.put("train", i, 3_500 + i);
    }
    assert!(matches!(
        fixture.read(|o| o.cap_m = Some(10.0)),
        Err(DataError::Scale { .. })
    ));
    // The remedy works.
    for i in 0..2 {
        fixture.put("test", i, 3_600 + i);
    }
    assert!(
        fixture
            .read(|o| (o.scale, o.cap_m) = (Some(DepthScale::Nyu), Some(10.0)))
            .is_ok()
    );
}

#[test]
fn a_few_impossible_pixels_are_a_wrong_scale() {
    let fixture = Fixture::new();
    let mut depth = [512; 8];
    depth[0] = 11_000; // 43 m under a cap of 10 m, in one of 24 pixels
    write_depth(&fixture.path("train", "depth", 0), 4, 2, &depth).unwrap();
    assert!(matches!(
        fixture.read(|o| o.cap_m = Some(10.0)),
        Err(DataError::Scale { .. })
    ));
    assert!(
        fixture.read(|o| o.cap_m = Some(11.0)).is_ok(),
        "43 m is below four times 11 m"
    );
}

#[test]
fn a_few_far_pixels_are_no_wrong_scale() {
    let fixture = Fixture::new();
    let mut depth = [512; 8];
    depth[0] = 65_000; // 254 m: a third of one eighth of the pixels, beyond the cap but not beyond four times 80 m
    write_depth(&fixture.path("train", "depth", 0), 4, 2, &depth).unwrap();
    let (data, _) = fixture.read(|_| ()).unwrap();
    assert_eq!(data.train()[0].depth()[..2], [0.0, 2.0]);
}

#[test]
fn frames_without_depth_are_skipped_unless_all_are() {
    let fixture = Fixture::new();
    fixture.put("train", 0, 0);
    let (data, report) = fixture.read(|_| ()).unwrap();
    assert_eq!((data.train().len(), report.found, report.used()), (2, 5, 4));
    assert!(
        matches!(&report.skipped[..], [(path, SkipReason::NoValidDepth)] if path.ends_with("train/rgb/0000.png"))
    );
    for i in 0..3 {
        fixture.put("train", i, 0);
    }
    assert!(matches!(fixture.error(), DataError::AllInvalid { frames: 3, .. }));
}

#[test]
fn all_frames_faulty_is_an_error_even_when_skipping() {
    let fixture = Fixture::new();
    for i in 0..3 {
        fs::remove_file(fixture.path("train", "depth", i)).unwrap();
    }
    let error = fixture.read(|o| o.read.on_fault = OnFault::Skip).unwrap_err();
    assert!(
        matches!(&error, DataError::AllSkipped { frames: 3, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("0000.png"), "{error}");
}

#[test]
fn a_test_frame_that_was_trained_on_is_refused() {
    let fixture = Fixture::new();
    fs::copy(fixture.path("train", "rgb", 1), fixture.path("test", "rgb", 0)).unwrap();
    assert!(
        fixture.read(|_| ()).is_ok(),
        "the same picture with another depth is another frame"
    );
    fs::copy(
        fixture.path("train", "depth", 1),
        fixture.path("test", "depth", 0),
    )
    .unwrap();
    let error = fixture.error();
    assert!(
        matches!(&error, DataError::Overlap { train, test, .. } if train == "train/0001" && test == "test/0000"),
        "{error}"
    );
}

#[test]
fn memory_is_bounded_before_anything_is_decoded() {
    let fixture = Fixture::new();
    fs::write(fixture.path("train", "rgb", 0), b"not read").unwrap();
    // 5 frames of 4x2 pixels at 7 bytes.
    let error = fixture.read(|o| o.read.memory_limit = 279).unwrap_err();
    assert!(matches!(error, DataError::Memory { frames: 5, .. }));
    fixture.put("train", 0, 512);
    assert!(fixture.read(|o| o.read.memory_limit = 280).is_ok());
}

#[test]
fn thinning_is_even_and_reported() {
    let fixture = Fixture::new();
    for i in 3..10 {
        fixture.put("train", i, 512 + i);
    }
    for (max, expected) in [
        (1, vec![0]),
        (2, vec![0, 5]),
        (3, vec![0, 4, 7]),
        (5, vec![0, 2, 4, 6, 8]),
        (9, vec![0, 2, 3, 4, 5, 6, 7, 8, 9]),
        (10, (0..10).collect()),
    ] {
        let (data, report) = fixture.read(|o| o.read.max_frames = Some(max)).unwrap();
        let names: Vec<String> = expected.iter().map(|i| format!("train/{i:04}")).collect();
        assert_eq!(
            data.train()
                .iter()
                .map(|f| f.name().to_owned())
                .collect::<Vec<_>>(),
            names,
            "max {max}"
        );
        assert_eq!(report.thinned + report.used(), 12);
    }
}

#[test]
fn frames_are_brought_to_the_network_size() {
    let (data, _) = Fixture::new()
        .read(|o| (o.read.width, o.read.height) = (2, 2))
        .unwrap();
    assert_eq!((data.train()[0].width(), data.train()[0].depth().len()), (2, 4));
    assert!(matches!(
        Fixture::new().read(|o| o.read.width = 0),
        Err(DataError::Settings { .. })
    ));
}

#[test]
fn scales_parse_and_print() {
    for (text, units) in [("kitti", 256.0), ("nyu", 1000.0), ("500", 500.0), ("256", 256.0)] {
        assert_eq!([text.parse::<DepthScale>().unwrap().units_per_metre()], [units]);
    }
    for text in ["", "KITTI", "0", "-1", "inf", "NaN", "m"] {
        assert!(
            matches!(text.parse::<DepthScale>(), Err(DataError::UnknownScale { .. })),
            "{text}"
        );
    }
}
