//! A file of a few frames in the labelled set's layout.

use std::fs;

use hdf5_pure::FileBuilder;

use super::*;

struct Labelled {
    dir: tempfile::TempDir,
}

/// A colour and a depth that tell every place of a frame from its mirror images.
fn pixel(frame: usize, x: usize, y: usize) -> ([u8; 3], f32) {
    let byte = |n: usize| u8::try_from(n % 251).unwrap();
    let colour = [byte(x), byte(y), byte(frame)];
    (
        colour,
        1.0 + f32::from(byte(x)) / 256.0 + f32::from(byte(y)) / 128.0,
    )
}

impl Labelled {
    fn new(types: &[&str]) -> Self {
        let made = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let (mut images, mut depths) = (Vec::new(), Vec::new());
        for frame in 0..types.len() {
            for channel in 0..3 {
                for x in 0..WIDTH {
                    images.extend((0..HEIGHT).map(|y| pixel(frame, x, y).0[channel]));
                }
            }
            for x in 0..WIDTH {
                depths.extend((0..HEIGHT).map(|y| pixel(frame, x, y).1));
            }
        }
        let dense: Vec<f32> = depths.iter().map(|depth| depth + 1.0).collect();
        let frames = types.len() as u64;
        let mut file = FileBuilder::new();
        // MATLAB puts its own 512 bytes before HDF5's.
        file.with_userblock(512)
            .with_userblock_content(b"MATLAB 7.3 MAT-file");
        file.create_dataset("images")
            .with_u8_data(&images)
            .with_shape(&[frames, 3, 640, 480])
            .with_chunks(&[1, 3, 640, 480])
            .with_deflate(1);
        for (name, depths) in [("rawDepths", &depths), ("depths", &dense)] {
            file.create_dataset(name)
                .with_f32_data(depths)
                .with_shape(&[frames, 640, 480])
                .with_chunks(&[1, 640, 480]);
        }
        let mut texts = file.create_group("#refs#");
        let mut paths = Vec::new();
        for (i, kind) in types.iter().enumerate() {
            let units: Vec<u16> = kind.encode_utf16().collect();
            texts
                .create_dataset(&i.to_string())
                .with_u16_data(&units)
                .with_shape(&[units.len() as u64, 1]);
            paths.push(format!("#refs#/{i}"));
        }
        file.add_group(texts.finish());
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        file.create_dataset("sceneTypes")
            .with_path_references(&paths)
            .with_shape(&[1, frames]);
        file.write(made.dir.path().join("labelled.mat").to_str().unwrap())
            .unwrap();
        made
    }

    fn splits(&self, train: &[u16], test: &[u16]) {
        let bytes = [header(), variable("trainNdxs", train), variable("testNdxs", test)].concat();
        fs::write(self.dir.path().join("splits.mat"), bytes).unwrap();
    }

    fn options(&self) -> NyuMatOptions {
        NyuMatOptions {
            path: self.dir.path().join("labelled.mat"),
            splits: self.dir.path().join("splits.mat"),
            train: Vec::new(),
            test: Vec::new(),
            crop: false,
            dense: false,
            read: ReadOptions::new(WIDTH, HEIGHT),
        }
    }
}

/// MATLAB's description of the v5 format: 116 bytes of text, 8 of an offset, a version and the order of bytes.
fn header() -> Vec<u8> {
    let mut header = vec![b' '; 124];
    header.extend([0x00, 0x01, b'I', b'M']);
    header
}

/// A column of 16-bit numbers.
fn variable(name: &str, numbers: &[u16]) -> Vec<u8> {
    let element = |kind: u32, bytes: &[u8]| {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    };
    let words = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let values: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    let count = u32::try_from(numbers.len()).unwrap();
    let inside = [
        // miUINT32 flags: class 11 is uint16; miINT32 sides; miINT8 name; miUINT16 values.
        element(6, &words(&[11, 0])),
        element(5, &words(&[count, 1])),
        element(1, name.as_bytes()),
        element(4, &values),
    ]
    .concat();
    element(14, &inside)
}

#[test]
fn frames_stand_upright_and_in_their_splits() {
    let set = Labelled::new(&["kitchen", "office", "kitchen", "bathroom"]);
    set.splits(&[4, 1], &[2, 3]);
    let mut options = set.options();
    let (data, report) = read_client(&options).unwrap();
    let names: Vec<&str> = data.train().iter().map(Frame::name).collect();
    assert_eq!(names, ["train/0004", "train/0001"]);
    for (frame, number) in [(&data.train()[0], 3), (&data.test()[1], 2)] {
        for (x, y) in [(0, 0), (639, 0), (0, 479), (17, 300), (600, 12)] {
            let at = y * WIDTH + x;
            let (colour, depth) = pixel(number, x, y);
            assert_eq!(
                (&frame.rgb()[3 * at..3 * at + 3], &frame.depth()[at..=at]),
                (&colour[..], &[depth][..])
            );
        }
    }
    assert!(
        report.to_string().contains("train: 2 of 2 frames taken"),
        "{report}"
    );
    options.dense = true;
    let (dense, _) = read_client(&options).unwrap();
    assert!((dense.train()[0].depth()[0] - data.train()[0].depth()[0] - 1.0).abs() < 1e-6);
    options.crop = true;
    options.dense = false;
    options.read = ReadOptions::new(565, 427);
    let (cut, _) = read_client(&options).unwrap();
    assert_eq!(cut.train()[0].depth()[..1], [pixel(3, 43, 45).1]);
    options.read = ReadOptions::new(WIDTH, HEIGHT);
    let (data, report) = read_client(&options).unwrap();
    let test = &data.test()[1];
    assert_eq!(test.known_pixels(), 426 * 560);
    assert!(report.to_string().contains("black border"), "{report}");
    // The benchmark's programs keep rows 7 to 473 and columns 7 to 631 of a picture.
    let colour = |x: usize, y: usize| &test.rgb()[3 * (y * WIDTH + x)..][..3];
    for (x, y) in [(6, 200), (632, 200), (200, 6), (200, 474)] {
        assert_eq!(colour(x, y), [0; 3], "{x} {y}");
    }
    for (x, y) in [(7, 200), (631, 200), (200, 7), (200, 473)] {
        assert_eq!(colour(x, y), pixel(2, x, y).0, "{x} {y}");
    }
}

#[test]
fn types_of_scenes_choose_frames() {
    let set = Labelled::new(&["kitchen", "office", "kitchen", "bathroom"]);
    set.splits(&[1, 2, 4], &[3]);
    let mut options = set.options();
    options.train = vec!["kitchen".to_owned(), "bathroom".to_owned()];
    let (data, report) = read_client(&options).unwrap();
    assert_eq!((data.train().len(), data.test().len()), (2, 1));
    assert_eq!(report.client, "kitchen and 1 more");
    options.train = vec!["garage".to_owned()];
    let error = read_client(&options).unwrap_err().to_string();
    assert!(
        error.contains("data.sequences") && error.contains("bathroom, kitchen, office"),
        "{error}"
    );
}

#[test]
fn another_file_is_told_from_this_one() {
    let set = Labelled::new(&["kitchen", "office"]);
    set.splits(&[1], &[2]);
    let options = set.options();
    for (train, test, word) in [
        (&[1][..], &[3][..], "testNdxs must hold numbers from 1 to 2"),
        (&[0], &[1], "trainNdxs must hold"),
        (&[1, 2], &[2], "frame 2 is in trainNdxs and in testNdxs"),
    ] {
        set.splits(train, test);
        let error = read_client(&options).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    fs::write(&options.splits, "no MATLAB").unwrap();
    assert!(matches!(read_client(&options), Err(DataError::Meta { .. })));
    set.splits(&[1], &[2]);
    let whole = fs::read(&options.path).unwrap();
    for len in [0, 8, 100, whole.len() / 2] {
        fs::write(&options.path, &whole[..len]).unwrap();
        let error = read_client(&options).unwrap_err();
        assert!(matches!(error, DataError::Hdf { .. }), "cut to {len}: {error}");
    }
    let mut other = FileBuilder::new();
    other
        .create_dataset("images")
        .with_u8_data(&[0; 12])
        .with_shape(&[1, 3, 2, 2]);
    other.write(options.path.to_str().unwrap()).unwrap();
    let error = read_client(&options).unwrap_err().to_string();
    assert!(
        error.contains("1 x 3 x 2 x 2") && error.contains("N x 3 x 640 x 480"),
        "{error}"
    );
    fs::remove_file(&options.path).unwrap();
    assert!(matches!(read_client(&options), Err(DataError::Io { .. })));
}
