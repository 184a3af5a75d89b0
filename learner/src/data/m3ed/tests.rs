//! Sequences of a few frames in M3ED's layout, compressed as M3ED's are.

use std::fs;

use hdf5_pure::{FileBuilder, GroupBuilder};

use super::*;
use crate::data::Frame;

const EVENT: (usize, usize) = (8, 6);
const COLOUR: (usize, usize) = (10, 7);

struct Recording {
    dir: tempfile::TempDir,
}

/// What a test changes of a sequence.
#[derive(Clone)]
struct Made {
    model: &'static str,
    /// Of the colour camera, to the event camera.
    pose: [f64; 16],
    pictures: Vec<i64>,
    /// `f64`, as M3ED's programs write them.
    maps: Vec<f64>,
    depth: Vec<f32>,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            model: "radtan",
            pose: moved(0.0, 0.0, 0.0),
            pictures: vec![0, 40_000, 80_000, 120_000],
            maps: vec![81_938.4],
            depth: vec![4.0; EVENT.0 * EVENT.1],
        }
    }
}

fn moved(x: f64, y: f64, z: f64) -> [f64; 16] {
    [
        1.0, 0.0, 0.0, x, 0.0, 1.0, 0.0, y, 0.0, 0.0, 1.0, z, 0.0, 0.0, 0.0, 1.0,
    ]
}

impl Recording {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn put(&self, folder: &str, name: &str, made: &Made) {
        let dir = self.dir.path().join(folder);
        fs::create_dir_all(&dir).unwrap();
        let mut file = FileBuilder::new();
        let calib = |group: &mut GroupBuilder, size: (usize, usize), centre: [f64; 2], pose: &[f64; 16]| {
            let mut calib = group.create_group("calib");
            calib
                .create_dataset("intrinsics")
                .with_f64_data(&[10.0, 10.0, centre[0], centre[1]]);
            calib.create_dataset("distortion_coeffs").with_f64_data(&[0.0; 4]);
            let sides = [size.0, size.1].map(|side| i64::try_from(side).unwrap());
            calib.create_dataset("resolution").with_i64_data(&sides);
            calib
                .create_dataset("T_to_prophesee_left")
                .with_f64_data(pose)
                .with_shape(&[4, 4]);
            calib
                .create_dataset("distortion_model")
                .with_vlen_strings(&[made.model]);
            group.add_group(calib.finish());
        };
        // Blue tells the column, green the row, red the picture, and gray the column.
        let bytes = |channels: usize| -> Vec<u8> {
            let pixel = |picture: usize, at: usize| {
                [at % COLOUR.0, at / COLOUR.0, picture].into_iter().take(channels)
            };
            (0..made.pictures.len())
                .flat_map(|picture| (0..COLOUR.0 * COLOUR.1).flat_map(move |at| pixel(picture, at)))
                .map(|value| u8::try_from(value).unwrap())
                .collect()
        };
        let mut ovc = file.create_group("ovc");
        for (name, channels) in [("rgb", 3), ("left", 1)] {
            let mut camera = file.create_group(name);
            let frame = [COLOUR.1, COLOUR.0, channels].map(|side| side as u64);
            camera
                .create_dataset("data")
                .with_u8_data(&bytes(channels))
                .with_shape(&[made.pictures.len() as u64, frame[0], frame[1], frame[2]])
                .with_chunks(&[1, frame[0], frame[1], frame[2]])
                .with_lzf();
            calib(&mut camera, COLOUR, [5.0, 3.0], &made.pose);
            ovc.add_group(camera.finish());
        }
        ovc.create_dataset("ts").with_i64_data(&made.pictures);
        file.add_group(ovc.finish());
        let (mut prophesee, mut left) = (file.create_group("prophesee"), file.create_group("left"));
        calib(&mut left, EVENT, [4.5, 2.5], &moved(0.0, 0.0, 0.0));
        prophesee.add_group(left.finish());
        file.add_group(prophesee.finish());
        file.write(dir.join(format!("{name}_data.h5")).to_str().unwrap())
            .unwrap();
        let mut file = FileBuilder::new();
        let frames = made.maps.len();
        let (mut depth, mut prophesee) = (file.create_group("depth"), file.create_group("prophesee"));
        prophesee
            .create_dataset("left")
            .with_f32_data(&made.depth.repeat(frames))
            .with_shape(&[frames as u64, EVENT.1 as u64, EVENT.0 as u64])
            .with_chunks(&[1, EVENT.1 as u64, EVENT.0 as u64])
            .with_lzf();
        depth.add_group(prophesee.finish());
        file.add_group(depth.finish());
        file.create_dataset("ts").with_f64_data(&made.maps);
        file.write(dir.join(format!("{name}_depth_gt.h5")).to_str().unwrap())
            .unwrap();
    }

    fn options(&self, view: View) -> M3edOptions {
        let (width, height) = if view == View::Camera { COLOUR } else { EVENT };
        M3edOptions {
            path: self.dir.path().to_owned(),
            train: vec!["car".to_owned()],
            test: Vec::new(),
            camera: M3edCamera::Rgb,
            view,
            read: ReadOptions::new(width, height),
        }
    }
}

fn frame(made: &Made, view: View) -> Frame {
    let recording = Recording::new();
    recording.put("", "car", made);
    let (data, _) = read_client(&recording.options(view)).unwrap();
    data.train()[0].clone()
}

/// Column and row of every known depth, with it.
fn known(frame: &Frame) -> Vec<(usize, usize, f32)> {
    let depths = frame.depth().iter().enumerate();
    depths
        .filter(|(_, depth)| **depth > 0.0)
        .map(|(at, &depth)| (at % frame.width(), at / frame.width(), depth))
        .collect()
}

/// A map with few depths; everything else is unknown, which is +inf here and neither 0 nor NaN.
fn few_depths(some: &[(usize, usize, f32)]) -> Vec<f32> {
    let mut depth = vec![f32::INFINITY; EVENT.0 * EVENT.1];
    for &(u, v, z) in some {
        depth[v * EVENT.0 + u] = z;
    }
    depth
}

// daniilidis-group/m3ed #1, #17: depth at 10 Hz is not of the pictures' moments; 81,938 and 80,000 us.
#[test]
fn depth_is_paired_with_the_nearest_picture_within_20_ms() {
    assert_eq!(
        frame(&Made::default(), View::Camera).rgb()[0],
        2,
        "the picture of 80,000 us"
    );
    let pictures = [0, 40_000, 80_000];
    let pairs = |maps: &[i64]| sequence::pair(&pictures, maps);
    assert_eq!(pairs(&[81_938]), (vec![(2, 0)], 0));
    assert_eq!(
        pairs(&[60_000, 60_001, 100_000]),
        (vec![(1, 0), (2, 1), (2, 2)], 0)
    );
    assert_eq!(pairs(&[-20_001, -20_000, 100_001]), (vec![(0, 1)], 2));
    assert_eq!(sequence::pair(&[], &[5]), (vec![], 1));
}

#[test]
fn colours_are_blue_first_in_the_file_and_gray_is_all_three() {
    let recording = Recording::new();
    recording.put("", "car", &Made::default());
    let mut options = recording.options(View::Camera);
    // Row 3 and column 8 of the third picture.
    let pixel = |options: &M3edOptions| {
        let (data, _) = read_client(options).unwrap();
        data.train()[0].rgb()[3 * (3 * COLOUR.0 + 8)..][..3].to_vec()
    };
    assert_eq!(pixel(&options), [2, 3, 8]);
    options.camera = M3edCamera::Left;
    assert_eq!(pixel(&options), [8, 8, 8]);
}

/// The colour camera's centre is at (5, 3). The event camera's is at (4.5, 2.5), the middle of pixel (4, 2) of a depth map, whose
/// pixels are cut down and not rounded; the focal length is the same.
#[test]
fn depth_points_move_into_the_cameras_view() {
    let depth = few_depths(&[(4, 2, 2.0), (6, 3, 4.0)]);
    let same = Made {
        depth: depth.clone(),
        ..Made::default()
    };
    assert_eq!(known(&frame(&same, View::Camera)), [(5, 3, 2.0), (7, 4, 4.0)]);
    // The colour camera stands 1 m behind: a point straight ahead is 1 m further, one 0.8 m right at 4 m is at 0.8 / 5.
    let behind = Made {
        depth: depth.clone(),
        pose: moved(0.0, 0.0, -1.0),
        ..Made::default()
    };
    assert_eq!(known(&frame(&behind, View::Camera)), [(5, 3, 3.0), (7, 4, 5.0)]);
    // And 0.4 m left: at 2 m two pixels to the right of where it was, at 4 m one.
    let left = Made {
        depth,
        pose: moved(-0.4, 0.0, 0.0),
        ..Made::default()
    };
    assert_eq!(known(&frame(&left, View::Camera)), [(7, 3, 2.0), (8, 4, 4.0)]);
}

#[test]
fn of_two_points_in_one_pixel_the_nearer_is_seen() {
    // From 0.4 m left, 2 m at column 4 and 4 m at column 5 fall together; from 0.4 m right, 4 m at column 4 and 2 m at column 5.
    for (x, depths, seen) in [
        (-0.4, [(4, 2, 2.0), (5, 2, 4.0)], 7),
        (0.4, [(4, 2, 4.0), (5, 2, 2.0)], 4),
    ] {
        let made = Made {
            depth: few_depths(&depths),
            pose: moved(x, 0.0, 0.0),
            ..Made::default()
        };
        assert_eq!(known(&frame(&made, View::Camera)), [(seen, 3, 2.0)]);
    }
    // A point behind the camera is not seen.
    let made = Made {
        depth: few_depths(&[(4, 2, 2.0)]),
        pose: moved(0.0, 0.0, 3.0),
        ..Made::default()
    };
    let recording = Recording::new();
    recording.put("", "car", &made);
    assert!(matches!(
        read_client(&recording.options(View::Camera)),
        Err(DataError::AllInvalid { .. })
    ));
}

#[test]
fn pictures_turn_into_the_event_cameras_view() {
    let made = Made {
        depth: few_depths(&[(4, 2, 2.0)]),
        ..Made::default()
    };
    let turned = frame(&made, View::Depth);
    assert_eq!((turned.width(), turned.height()), EVENT);
    assert_eq!(known(&turned), [(4, 2, 2.0)]);
    // Column 4 and row 2 there are column 5 and row 3 here.
    let at = |u: usize, v: usize| &turned.rgb()[3 * (v * EVENT.0 + u)..][..3];
    assert_eq!(
        (at(4, 2), at(0, 0), at(7, 5)),
        (&[2, 3, 5][..], &[2, 1, 1][..], &[2, 6, 8][..])
    );
}

#[test]
fn sequences_are_found_by_the_beginnings_of_their_names() {
    let recording = Recording::new();
    recording.put("", "car_urban_day_horse", &Made::default());
    recording.put("car_forest_sand_1", "car_forest_sand_1", &Made::default());
    let other = Made {
        depth: few_depths(&[(4, 2, 2.0)]),
        ..Made::default()
    };
    recording.put("", "cart_1", &other);
    let mut options = recording.options(View::Camera);
    options.train = vec!["car".to_owned()];
    let (data, _) = read_client(&options).unwrap();
    assert_eq!(data.train().len(), 2, "and not cart_1");
    options.test = vec!["car_urban".to_owned()];
    assert!(matches!(
        read_client(&options),
        Err(DataError::SharedSequences { .. })
    ));
    options.test = vec!["spot".to_owned()];
    let error = read_client(&options).unwrap_err().to_string();
    assert!(
        error.contains("data.test_sequences") && error.contains("cart_1"),
        "{error}"
    );
    options.train = vec!["car_forest".to_owned()];
    options.test = vec!["cart_1".to_owned()];
    let (data, report) = read_client(&options).unwrap();
    assert_eq!((data.train().len(), data.test().len()), (1, 1));
    assert!(
        report
            .to_string()
            .contains("1 pairs in 1 sequences, 0 depth maps"),
        "{report}"
    );
}

#[test]
fn files_of_another_kind_are_named() {
    let fault = |made: &Made| {
        let recording = Recording::new();
        recording.put("", "car", made);
        read_client(&recording.options(View::Camera))
            .unwrap_err()
            .to_string()
    };
    let model = fault(&Made {
        model: "equidistant",
        ..Made::default()
    });
    assert!(
        model.contains("distortion_model") && model.contains("equidistant"),
        "{model}"
    );
    let mut pose = moved(0.0, 0.0, 0.0);
    pose[0] = 2.0;
    let text = fault(&Made {
        pose,
        ..Made::default()
    });
    assert!(text.contains("T_to_prophesee_left: is no rotation"), "{text}");
    let text = fault(&Made {
        pictures: vec![5, 4],
        ..Made::default()
    });
    assert!(text.contains("ovc/ts: times run backwards"), "{text}");
    let text = fault(&Made {
        maps: vec![f64::NAN],
        ..Made::default()
    });
    assert!(text.contains("ts: holds what is no time"), "{text}");
    let recording = Recording::new();
    recording.put("", "car", &Made::default());
    let path = recording.dir.path().join("car_data.h5");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = read_client(&recording.options(View::Camera)).unwrap_err();
    assert!(
        matches!(&error, DataError::Hdf { path: p, .. } if *p == path),
        "{error}"
    );
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        read_client(&recording.options(View::Camera)),
        Err(DataError::Io { .. })
    ));
}
