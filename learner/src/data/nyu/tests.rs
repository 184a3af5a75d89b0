//! Small scenes in the sync layout, and what users of published readers complain of.

use std::fs;

use jpeg_encoder::{ColorType, Encoder};

use super::*;
use crate::data::picture::write_depth;
use crate::data::{OnFault, ReadOptions, Selection};

struct Scenes {
    dir: tempfile::TempDir,
}

impl Scenes {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn put(&self, scene: &str, frame: u16, millimetres: u16) {
        let folder = self.dir.path().join(scene);
        fs::create_dir_all(&folder).unwrap();
        let shade = u8::try_from(frame).unwrap();
        Encoder::new_file(folder.join(format!("rgb_{frame:05}.jpg")), 90)
            .unwrap()
            .encode(&vec![shade; 640 * 480 * 3], 640, 480, ColorType::Rgb)
            .unwrap();
        self.put_depth(&format!("{scene}/sync_depth_{frame:05}.png"), millimetres);
    }

    fn put_depth(&self, name: &str, millimetres: u16) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_depth(&path, 640, 480, &vec![millimetres; 640 * 480]).unwrap();
    }

    fn list(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn options(&self, train: Selection, test: Selection) -> NyuOptions {
        NyuOptions {
            path: self.dir.path().to_owned(),
            frames: ListOptions {
                read: ReadOptions::new(640, 480),
                train,
                test,
            },
            crop: true,
            dense: false,
        }
    }
}

fn scenes(names: &[&str]) -> Selection {
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
fn a_type_stands_for_all_its_scenes() {
    let folder = Scenes::new();
    folder.put("kitchen_0028b", 1, 2000);
    folder.put("kitchen_0003", 2, 2500);
    folder.put("office_kitchen_0001a", 3, 3000);
    folder.put("office_0001", 4, 3500);
    let all = types(&folder.options(Selection::default(), Selection::default())).unwrap();
    let named = |(name, frames): (&str, usize)| (name.to_owned(), frames);
    assert_eq!(
        all,
        [("kitchen", 2), ("office", 1), ("office_kitchen", 1)].map(named)
    );
    let mut options = folder.options(scenes(&["kitchen"]), scenes(&["office"]));
    options.frames.read = ReadOptions::new(565, 427);
    let (data, report) = read_client(&options).unwrap();
    let first: Vec<f32> = data.train().iter().map(|frame| frame.depth()[0]).collect();
    assert_eq!(first, [2.5, 2.0], "in the order of the scenes' names");
    assert_eq!(data.test().len(), 1);
    assert!(
        report
            .to_string()
            .contains("train: 2 pictures in folders, 2 of 2"),
        "{report}"
    );
    // A training frame is cut to what the network is given here, so every pixel is one of the file.
    assert_eq!(data.train()[0].known_pixels(), 565 * 427);
    options.frames.read = ReadOptions::new(640, 480);
    let (data, _) = read_client(&options).unwrap();
    assert_eq!(data.test()[0].known_pixels(), 426 * 560);
    options.crop = false;
    let (data, report) = read_client(&options).unwrap();
    assert_eq!(data.test()[0].known_pixels(), 640 * 480);
    assert!(report.to_string().contains("no crop, no mask"), "{report}");
}

/// Training paths of the published lists begin with a slash, those of the test list do not; neither ends in a newline.
#[test]
fn the_published_lists_are_read_as_they_are() {
    let folder = Scenes::new();
    for frame in 1..=3 {
        folder.put("bedroom_0010", frame, 2000);
    }
    folder.put("bathroom", 45, 1500);
    let lines: Vec<String> = (1..=3)
        .map(|i| format!("/bedroom_0010/rgb_{i:05}.jpg /bedroom_0010/sync_depth_{i:05}.png 518.8579"))
        .collect();
    let train = folder.list("train.txt", &lines.join("\n"));
    let test = folder.list(
        "test.txt",
        "bathroom/rgb_00045.jpg bathroom/sync_depth_00045.png 518.8579",
    );
    let (data, report) = read_client(&folder.options(listed(train), listed(test))).unwrap();
    assert_eq!((data.train().len(), data.test().len()), (3, 1));
    assert_eq!(data.test()[0].name(), "test/bathroom/rgb_00045");
    assert!(report.to_string().contains("3 lines of train.txt"), "{report}");
}

#[test]
fn in_painted_depth_is_taken_where_it_is_asked_for() {
    let folder = Scenes::new();
    folder.put("study_0001", 1, 2000);
    folder.put_depth("study_0001/dense/sync_depth_dense_00001.png", 4000);
    let line = "study_0001/rgb_00001.jpg study_0001/sync_depth_00001.png";
    let dense = folder.list(
        "dense.txt",
        &format!("{line} study_0001/dense/sync_depth_dense_00001.png"),
    );
    let mut options = folder.options(listed(dense), Selection::default());
    let depth =
        |options: &NyuOptions| read_client(options).map(|(data, _)| data.train()[0].depth()[..1].to_vec());
    assert_eq!(depth(&options).unwrap(), [2.0]);
    options.dense = true;
    assert_eq!(depth(&options).unwrap(), [4.0]);
    options.frames.train = listed(folder.list("sync.txt", &format!("{line} 518.8579")));
    let error = depth(&options).unwrap_err().to_string();
    assert!(
        error.contains("36,253") && error.contains("data.dense = false"),
        "{error}"
    );
}

// aliyun/NeWCRFs #3, ShuweiShao/IEBins #7: the official split was unpacked where the sync folders are meant.
#[test]
fn the_official_split_in_place_of_the_sync_folders_is_explained() {
    let folder = Scenes::new();
    folder.put("train/bathroom", 45, 1500);
    folder.put("test/bathroom", 46, 1500);
    let list = folder.list(
        "train.txt",
        "/bathroom_0001/rgb_00045.jpg /bathroom_0001/sync_depth_00045.png 518.8579",
    );
    let error = read_client(&folder.options(listed(list), Selection::default())).unwrap_err();
    assert!(matches!(error, DataError::NotThere { .. }), "{error}");
    let text = error.to_string();
    for word in ["official split of 795 and 654", "24,231 and 36,253", "line 1 of"] {
        assert!(text.contains(word), "{text}");
    }
}

// cleinc/bts #59: KITTI's units read as millimetres. 60 m are 15.36 m then, beyond NYU's cap of 10 m.
#[test]
fn kittis_units_among_millimetres_are_refused() {
    let folder = Scenes::new();
    folder.put("study_0001", 1, 60 * 256);
    let error = read_client(&folder.options(scenes(&["study"]), Selection::default())).unwrap_err();
    assert!(matches!(error, DataError::Scale { .. }), "{error}");
    assert!(error.to_string().contains("try kitti"), "{error}");
}

#[test]
fn a_broken_picture_and_another_size_are_named() {
    let folder = Scenes::new();
    folder.put("study_0001", 1, 2000);
    folder.put("study_0001", 2, 2000);
    let path = folder.dir.path().join("study_0001/rgb_00002.jpg");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let mut options = folder.options(scenes(&["study_0001"]), Selection::default());
    let error = read_client(&options).unwrap_err();
    assert!(
        matches!(&error, DataError::Jpeg { path: p, .. } if *p == path),
        "{error}"
    );
    options.frames.read.on_fault = OnFault::Skip;
    assert_eq!(read_client(&options).unwrap().0.train().len(), 1);
    Encoder::new_file(&path, 90)
        .unwrap()
        .encode(&[7; 64 * 48 * 3], 64, 48, ColorType::Rgb)
        .unwrap();
    write_depth(
        &folder.dir.path().join("study_0001/sync_depth_00002.png"),
        64,
        48,
        &[2000; 64 * 48],
    )
    .unwrap();
    options.frames.read.on_fault = OnFault::Refuse;
    let error = read_client(&options).unwrap_err().to_string();
    assert!(error.contains("64x48") && error.contains("640x480"), "{error}");
}
