//! Small recordings in KITTI's layouts, and what users of published readers complain of.

use std::fs;

use super::*;
use crate::data::picture::{write_depth, write_rgb};
use crate::data::{OnFault, ReadOptions, Selection, SkipReason};

const DRIVE: &str = "2011_09_26_drive_0001_sync";
const OTHER: &str = "2011_09_26_drive_0002_sync";

/// Drives of pictures of 1242 x 375 with depth maps of one value.
struct Recording {
    dir: tempfile::TempDir,
}

impl Recording {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn image(drive: &str, frame: u32) -> String {
        format!("{}/{drive}/image_02/data/{frame:010}.png", &drive[..10])
    }

    fn annotation(drive: &str, frame: u32) -> String {
        format!("{drive}/proj_depth/groundtruth/image_02/{frame:010}.png")
    }

    fn put(&self, drive: &str, frame: u32, part: &str, units: Option<u16>) {
        let (width, height) = (1242, 375);
        let image = self.dir.path().join("raw").join(Self::image(drive, frame));
        fs::create_dir_all(image.parent().unwrap()).unwrap();
        // No two frames alike.
        let shade = u8::try_from(frame).unwrap();
        write_rgb(&image, width, height, &vec![shade; width * height * 3]).unwrap();
        if let Some(units) = units {
            let depth = self
                .dir
                .path()
                .join("gt")
                .join(part)
                .join(Self::annotation(drive, frame));
            fs::create_dir_all(depth.parent().unwrap()).unwrap();
            write_depth(&depth, width, height, &vec![units; width * height]).unwrap();
        }
    }

    fn list(&self, name: &str, lines: &[String]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, lines.join("\n")).unwrap();
        path
    }

    fn line(drive: &str, frame: u32) -> String {
        format!(
            "{} {} 721.5377",
            Self::image(drive, frame),
            Self::annotation(drive, frame)
        )
    }

    fn options(&self) -> KittiOptions {
        let nothing = Selection::default();
        KittiOptions {
            path: self.dir.path().join("raw"),
            depth: self.dir.path().join("gt"),
            frames: ListOptions {
                read: ReadOptions::new(1216, 352),
                train: nothing.clone(),
                test: nothing,
            },
            crop: true,
            mask: KittiMask::Garg,
            mask_before_crop: false,
        }
    }
}

fn named(names: &[&str]) -> Selection {
    Selection {
        list: None,
        sequences: names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn listed(list: PathBuf) -> Selection {
    Selection {
        list: Some(list),
        sequences: Vec::new(),
    }
}

#[test]
fn drives_are_read_without_a_list_in_both_layouts() {
    let recording = Recording::new();
    recording.put(DRIVE, 4, "", None);
    recording.put(DRIVE, 5, "", Some(2560));
    recording.put(DRIVE, 6, "train", Some(5120));
    recording.put(OTHER, 7, "val", Some(256));
    let mut options = recording.options();
    options.frames.train = named(&["2011_09_26_drive_0001"]);
    options.frames.test = named(&[OTHER]);
    let (data, report) = read_client(&options).unwrap();
    let depths: Vec<f32> = data.train().iter().map(|frame| frame.depth()[0]).collect();
    assert_eq!(depths, [10.0, 20.0]);
    assert!(
        data.train()[0]
            .name()
            .ends_with("0001_sync/image_02/data/0000000005")
    );
    // A training frame counts everywhere, a test frame in the mask.
    assert_eq!(data.train()[0].known_pixels(), 352 * 1216);
    assert_eq!(data.test()[0].known_pixels(), (349 - 143) * (1172 - 43));
    let text = report.to_string();
    assert!(
        text.contains(
            "3 pictures in folders, 2 of 1 sequences taken, 0 of other sequences, 1 without a depth map"
        ),
        "{text}"
    );
    assert!(text.contains("kb crop to 1216x352, Garg's mask"), "{text}");
}

// shariqfarooq123/AdaBins #10, aliyun/NeWCRFs #7: 652 or 697 pictures, and where the crop stands to the mask.
#[test]
fn lines_that_say_none_are_counted_and_not_scored() {
    let recording = Recording::new();
    for frame in 1..=4 {
        recording.put(DRIVE, frame, "", Some(256));
    }
    let mut lines: Vec<String> = (1..=3).map(|frame| Recording::line(DRIVE, frame)).collect();
    lines.push(format!("{} None 721.5377", Recording::image(DRIVE, 4)));
    let mut options = recording.options();
    options.frames.test = listed(recording.list("test.txt", &lines));
    let (data, report) = read_client(&options).unwrap();
    assert_eq!((data.test().len(), report.found), (3, 3));
    let text = report.to_string();
    assert!(text.contains("test: 4 lines of test.txt, 3 of 1"), "{text}");
    assert!(text.contains("1 without a depth map"), "{text}");
}

// As above: the same mask laid before the crop is another one.
#[test]
fn the_mask_before_the_crop_is_the_mask_of_the_whole_picture() {
    let recording = Recording::new();
    recording.put(DRIVE, 1, "", Some(256));
    let known = |change: fn(&mut KittiOptions)| {
        let mut options = recording.options();
        options.frames.test = named(&[DRIVE]);
        change(&mut options);
        let (data, report) = read_client(&options).unwrap();
        (data.test()[0].known_pixels(), report.to_string())
    };
    // Rows 153 to 371 and columns 44 to 1197 of 1242 x 375 all lie in the crop.
    let (whole, text) = known(|options| options.mask_before_crop = true);
    assert_eq!(whole, (371 - 153) * (1197 - 44));
    assert!(text.contains("laid on the whole depth map"), "{text}");
    let (cut, text) = known(|_| ());
    assert_eq!(cut, (349 - 143) * (1172 - 43));
    assert!(text.contains("laid on the cut depth map"), "{text}");
    assert_eq!(known(|options| options.mask = KittiMask::None).0, 352 * 1216);
    let eigen = known(|options| options.mask = KittiMask::Eigen).0;
    assert_eq!(eigen, (321 - 117) * (1172 - 43));
}

// ashutosh1807/PixelFormer #8: drive_0079 is missing from data_depth_annotated.
#[test]
fn a_drive_missing_from_the_annotations_is_counted_or_named() {
    let recording = Recording::new();
    let missing = "2011_09_26_drive_0079_sync";
    recording.put(DRIVE, 1, "", Some(256));
    recording.put(missing, 2, "", None);
    let lines = [Recording::line(DRIVE, 1), Recording::line(missing, 2)];
    let mut options = recording.options();
    options.frames.train = listed(recording.list("train.txt", &lines));
    let error = read_client(&options).unwrap_err();
    assert!(
        matches!(&error, DataError::NotThere { path, .. } if path.ends_with(Recording::annotation(missing, 2))),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("line 2 of") && text.contains("data.on_fault"),
        "{text}"
    );
    options.frames.read.on_fault = OnFault::Skip;
    let (data, report) = read_client(&options).unwrap();
    assert_eq!((data.train().len(), report.skipped.len()), (1, 1));
    assert!(matches!(
        &report.skipped[0],
        (path, SkipReason::Fault(DataError::NotThere { .. })) if path.ends_with(Recording::image(missing, 2))
    ));
}

// isl-org/ZoeDepth #54: a test depth map without one valid pixel makes the scores NaN.
#[test]
fn a_frame_without_a_depth_that_counts_is_left_out_and_counted() {
    let recording = Recording::new();
    recording.put(DRIVE, 1, "", Some(256));
    recording.put(DRIVE, 2, "", Some(0));
    // Beyond the cap of 80 m, but not so far that the scale is doubted.
    recording.put(DRIVE, 3, "", Some(81 * 256));
    let (width, height) = (1242, 375);
    // Valid in the lowest row alone, where no test depth counts.
    let mut low = vec![0; width * height];
    low[width * (height - 1)..].fill(2560);
    recording.put(DRIVE, 4, "", Some(0));
    let path = recording
        .dir
        .path()
        .join("gt")
        .join(Recording::annotation(DRIVE, 4));
    write_depth(&path, width, height, &low).unwrap();
    let mut options = recording.options();
    options.frames.test = named(&[DRIVE]);
    let (data, report) = read_client(&options).unwrap();
    assert_eq!((data.test().len(), report.found, report.skipped.len()), (1, 4, 3));
    assert!(
        report
            .skipped
            .iter()
            .all(|(_, why)| matches!(why, SkipReason::NoValidDepth)),
        "{report}"
    );
    assert!(
        report
            .to_string()
            .contains("4 frames found, 1 used (0 train, 1 test), 3 skipped"),
        "{report}"
    );
}

/// A list written for the archive of `train/` and `val/`, beside depth maps unpacked without them, and the other way round.
#[test]
fn lists_of_either_layout_find_the_depth_maps_of_the_other() {
    let recording = Recording::new();
    recording.put(DRIVE, 1, "", Some(256));
    recording.put(DRIVE, 2, "val", Some(512));
    let lines = [
        format!(
            "{} train/{} 721.5377",
            Recording::image(DRIVE, 1),
            Recording::annotation(DRIVE, 1)
        ),
        Recording::line(DRIVE, 2),
    ];
    let mut options = recording.options();
    options.frames.train = listed(recording.list("train.txt", &lines));
    let (data, _) = read_client(&options).unwrap();
    let depths: Vec<f32> = data.train().iter().map(|frame| frame.depth()[0]).collect();
    assert_eq!(depths, [1.0, 2.0]);
}

// aliyun/NeWCRFs #19: all scores NaN because only the ground truth was downloaded.
#[test]
fn no_picture_at_all_is_an_error_and_no_score() {
    let recording = Recording::new();
    recording.put(DRIVE, 1, "", Some(256));
    fs::remove_dir_all(recording.dir.path().join("raw/2011_09_26")).unwrap();
    let mut options = recording.options();
    options.frames.test = listed(recording.list("test.txt", &[Recording::line(DRIVE, 1)]));
    assert!(matches!(read_client(&options), Err(DataError::NotThere { .. })));
    options.frames.read.on_fault = OnFault::Skip;
    assert!(matches!(
        read_client(&options),
        Err(DataError::AllSkipped { frames: 1, .. })
    ));
}

// cleinc/bts #59, YvanYin/Metric3D #98: 1000 or 256 units a metre.
#[test]
fn millimetres_among_kittis_depths_are_refused() {
    let recording = Recording::new();
    // 60 m in millimetres is 234 m under KITTI's scale.
    recording.put(DRIVE, 1, "", Some(60_000));
    let mut options = recording.options();
    options.frames.train = named(&[DRIVE]);
    let error = read_client(&options).unwrap_err();
    assert!(matches!(error, DataError::Scale { .. }), "{error}");
    assert!(error.to_string().contains("try nyu"), "{error}");
}

// ultralytics/ultralytics #25650: three test drives sat in the training list, 27.9 % of its pictures.
#[test]
fn a_drive_in_both_lists_is_refused() {
    let recording = Recording::new();
    for frame in 1..=4 {
        recording.put(DRIVE, frame, "", Some(256));
    }
    recording.put(OTHER, 5, "", Some(256));
    let train: Vec<String> = [(DRIVE, 1), (OTHER, 5), (DRIVE, 2), (DRIVE, 3)]
        .map(|(drive, frame)| Recording::line(drive, frame))
        .into();
    let mut options = recording.options();
    options.frames.train = listed(recording.list("train.txt", &train));
    options.frames.test = listed(recording.list("test.txt", &[Recording::line(DRIVE, 4)]));
    match read_client(&options) {
        Err(DataError::SharedSequences { names, share }) => {
            assert_eq!((names.as_str(), format!("{share:.1}").as_str()), (DRIVE, "75.0"));
        }
        other => panic!("{other:?}"),
    }
    let counted = drives(&options).unwrap();
    assert_eq!(counted, [(DRIVE.to_owned(), 3), (OTHER.to_owned(), 1)]);
    // Of the list, only the other drive.
    options.frames.train.sequences = vec![OTHER.to_owned()];
    let (data, report) = read_client(&options).unwrap();
    assert_eq!((data.train().len(), data.test().len()), (1, 1));
    assert!(report.to_string().contains("3 of other sequences"), "{report}");
}

#[test]
fn a_drive_nobody_has_is_named_with_those_there_are() {
    let recording = Recording::new();
    recording.put(DRIVE, 1, "", Some(256));
    let mut options = recording.options();
    options.frames.test = named(&["2011_09_26_drive_0003"]);
    let error = read_client(&options).unwrap_err().to_string();
    assert!(
        error.contains("data.test_sequences") && error.contains("drive_0003'") && error.contains(DRIVE),
        "{error}"
    );
    options.frames.test.list = Some(recording.list("test.txt", &[Recording::line(DRIVE, 1)]));
    let error = read_client(&options).unwrap_err().to_string();
    assert!(error.contains("test.txt") && error.contains(DRIVE), "{error}");
    options.frames.test = Selection::default();
    assert!(matches!(read_client(&options), Err(DataError::Settings { .. })));
}

#[test]
fn a_picture_too_small_for_the_crop_is_named() {
    let recording = Recording::new();
    recording.put(DRIVE, 1, "", Some(256));
    let image = recording.dir.path().join("raw").join(Recording::image(DRIVE, 1));
    let depth = recording
        .dir
        .path()
        .join("gt")
        .join(Recording::annotation(DRIVE, 1));
    let mut options = recording.options();
    options.frames.train = named(&[DRIVE]);
    write_rgb(&image, 4, 2, &[9; 24]).unwrap();
    assert!(matches!(read_client(&options), Err(DataError::Sizes { .. })));
    write_depth(&depth, 4, 2, &[256; 8]).unwrap();
    let error = read_client(&options).unwrap_err().to_string();
    assert!(
        error.contains("4x2") && error.contains("data.crop = false"),
        "{error}"
    );
    options.crop = false;
    options.frames.read = ReadOptions::new(4, 2);
    assert_eq!(read_client(&options).unwrap().0.train().len(), 1);
}
