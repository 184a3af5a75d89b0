//! Descriptors against figures from other programs, their bytes, and every refusal.

#![expect(clippy::cast_possible_truncation, reason = "random bits")]

use chacha20::ChaCha20Rng;
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};

use super::*;

fn summary(pooling: Pooling, clip: Option<f64>, images: &[Vec<f32>]) -> Summary {
    let mut summary = Summary::new(pooling, clip).unwrap();
    for image in images {
        summary.add(&FeatureMap::new(1, 2, 2, image).unwrap()).unwrap();
    }
    summary
}

/// Eight images of 1 x 2 positions and 2 channels, some negative.
fn images() -> Vec<Vec<f32>> {
    (0..8_u8)
        .map(|k| {
            let k = f32::from(k);
            vec![k, -1.0, 2.0 * k, 1.0 + k]
        })
        .collect()
}

/// From Python: `g = (sum(max(z, 1e-6)**3)/2)**(1/3)` per channel, `statistics.fmean`, `statistics.pvariance`, and the
/// floor `v + 0.05*mean(v) + 1e-8`.
#[test]
fn means_and_variances_are_those_of_another_program() {
    let exact = summary(Pooling::default(), None, &images())
        .descriptor([7; 32])
        .unwrap();
    let close = |a: &[f32], b: [f64; 2]| {
        a.iter()
            .zip(b)
            .all(|(a, b)| (f64::from(*a) - b).abs() < 1e-6 * b.abs())
    };
    assert!(close(exact.mean(), MEAN), "{:?}", exact.mean());
    assert!(close(exact.variance(), VARIANCE), "{:?}", exact.variance());
    assert_eq!(
        (exact.images(), exact.source(), exact.noise()),
        (8, &[7; 32], None)
    );
}

const MEAN: [f64; 2] = [5.778_372_810_566, 3.571_652_366_928];
const VARIANCE: [f64; 2] = [14.750_251_133_458, 3.747_720_665_472];

#[test]
fn negative_features_do_not_become_nan() {
    // Half of the mass is negative; power 3 alone would flip its sign.
    let mut summary = Summary::new(Pooling::default(), None).unwrap();
    for k in 0..8_u8 {
        let values = [-5.0, -5.0, -5.0, f32::from(k)];
        summary.add(&FeatureMap::new(2, 1, 2, &values).unwrap()).unwrap();
    }
    let descriptor = summary.descriptor([0; 32]).unwrap();
    assert!((descriptor.mean()[0] - 1e-6).abs() < 1e-9);
    assert!(descriptor.mean()[1] > 1.0);
    // A dead channel keeps a twentieth of the average spread.
    let [dead, live] = [descriptor.variance()[0], descriptor.variance()[1]];
    assert!((live / dead - 41.0).abs() < 0.01, "{}", live / dead);
}

#[test]
fn power_one_is_the_mean_and_channels_average() {
    let pooling = Pooling {
        power: 1.0,
        channels: Some(2),
        ..Pooling::default()
    };
    let map = FeatureMap::new(1, 2, 5, &[1.0, 3.0, 5.0, 7.0, 9.0, 3.0, 5.0, 7.0, 9.0, 11.0]).unwrap();
    // Means 2, 4, 6, 8, 10; two neighbours, then three.
    assert_eq!(pooling.pool(&map, 0).unwrap(), [3.0, 8.0]);
}

#[test]
fn every_refusal_has_its_name() {
    let make = |images: &[Vec<f32>]| summary(Pooling::default(), None, images).descriptor([0; 32]);
    assert_eq!(
        make(&images()[..7]),
        Err(DescriptorError::TooFewImages {
            images: 7,
            required: 8
        })
    );
    assert_eq!(
        make(&[]),
        Err(DescriptorError::TooFewImages {
            images: 0,
            required: 8
        })
    );
    let same = vec![vec![1.0, 2.0, 3.0, 4.0]; 9];
    assert_eq!(make(&same), Err(DescriptorError::NoSpread { images: 9 }));
    let mut summary = summary(Pooling::default(), None, &images());
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let map = [0.0, value, 0.0, 0.0];
        let refused = summary.add(&FeatureMap::new(1, 2, 2, &map).unwrap()).unwrap_err();
        assert!(matches!(
            refused,
            DescriptorError::NotFinite {
                image: 8,
                position: 1,
                ..
            }
        ));
    }
    let other = FeatureMap::new(1, 1, 3, &[1.0; 3]).unwrap();
    assert_eq!(
        summary.add(&other),
        Err(DescriptorError::Channels {
            image: 8,
            got: 3,
            expected: 2
        })
    );
    // Nothing of that was taken.
    assert_eq!(summary.images(), 8);
    assert_eq!(
        summary.descriptor([7; 32]).unwrap(),
        self::summary(Pooling::default(), None, &images())
            .descriptor([7; 32])
            .unwrap()
    );
    for (height, width, channels) in [(0, 1, 1), (1, 1, 2), (usize::MAX, 2, 1)] {
        assert!(matches!(
            FeatureMap::new(height, width, channels, &[1.0]),
            Err(DescriptorError::Shape { .. })
        ));
    }
    assert!(FeatureMap::new(0, 3, 3, &[]).is_err());
    let huge = [vec![f32::MAX, 1.0, 1.0, 1.0], vec![1.0; 4]];
    let huge: Vec<Vec<f32>> = huge.into_iter().cycle().take(8).collect();
    assert_eq!(make(&huge), Err(DescriptorError::Variance { channel: 0 }));
    for (power, least, channels) in [
        (0.5, 1e-6, None),
        (f64::NAN, 1e-6, None),
        (3.0, 0.0, None),
        (3.0, 1e-6, Some(0)),
    ] {
        let pooling = Pooling {
            power,
            least,
            channels,
        };
        assert!(matches!(
            Summary::new(pooling, None),
            Err(DescriptorError::Setting { .. })
        ));
    }
    assert!(Summary::new(Pooling::default(), Some(0.0)).is_err());
    assert!(!format!("{summary:?}").contains('.'));
}

#[test]
fn bytes_are_the_documented_ones() {
    let descriptor = Descriptor {
        source: [9; 32],
        images: 258,
        mean: vec![1.0, -2.0],
        variance: vec![0.5, 4.0],
        noise: None,
    };
    let hex: String = descriptor.encode().iter().fold(String::new(), |text, byte| {
        use std::fmt::Write as _;
        let mut text = text;
        let _ = write!(text, "{byte:02x}");
        text
    });
    let source = "09".repeat(32);
    assert_eq!(
        hex,
        format!("0100{source}02010000020000000000803f000000c00000003f00008040")
    );
    let noised = Descriptor {
        noise: Some(NoiseSizes {
            mean_sd: 0.5,
            log_variance_sd: 2.0,
        }),
        ..descriptor.clone()
    };
    assert_eq!(noised.encode().len(), 74);
    assert_eq!(&noised.encode()[42..50], 0.5_f64.to_le_bytes());
    for good in [descriptor, noised] {
        assert_eq!(Descriptor::decode(&good.encode()), Ok(good));
    }
}

#[test]
fn bytes_nobody_writes_are_refused_by_name() {
    let good = summary(Pooling::default(), None, &images())
        .descriptor([7; 32])
        .unwrap()
        .encode();
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        Descriptor::decode(&changed).unwrap_err()
    };
    for cut in 0..good.len() {
        assert!(
            matches!(Descriptor::decode(&good[..cut]), Err(DescriptorError::Length { got, expected }) if got == cut && expected > got),
            "{cut}"
        );
    }
    let longer = [good.as_slice(), &[0]].concat();
    assert_eq!(
        Descriptor::decode(&longer),
        Err(DescriptorError::Length {
            got: 59,
            expected: 58
        })
    );
    assert_eq!(with(0, &[2]), DescriptorError::Version { version: 2 });
    assert_eq!(with(1, &[2]), DescriptorError::NoiseField);
    assert!(matches!(
        with(34, &[7]),
        DescriptorError::TooFewImages { images: 7, .. }
    ));
    assert_eq!(with(38, &[0; 4]), DescriptorError::Size { channels: 0 });
    assert_eq!(
        with(38, &65_537_u32.to_le_bytes()),
        DescriptorError::Size { channels: 65_537 }
    );
    assert_eq!(
        with(46, &f32::NAN.to_le_bytes()),
        DescriptorError::Mean { channel: 1 }
    );
    for value in [0.0_f32, -1.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE / 2.0] {
        assert_eq!(
            with(50, &value.to_le_bytes()),
            DescriptorError::Variance { channel: 0 }
        );
    }
    let mut noised = vec![1, 1];
    noised.extend(&good[2..42]);
    noised.extend(1.0_f64.to_le_bytes());
    noised.extend(0.0_f64.to_le_bytes());
    noised.extend(&good[42..]);
    assert_eq!(Descriptor::decode(&noised), Err(DescriptorError::NoiseField));
}

proptest! {
    #[test]
    fn whatever_is_read_is_written_the_same(mut bytes in prop::collection::vec(any::<u8>(), 42..90), channels in 1_u8..4) {
        bytes[0] = 1;
        bytes[1] &= 1;
        bytes[38..42].copy_from_slice(&[channels, 0, 0, 0]);
        bytes.resize(42 + 16 * usize::from(bytes[1]) + 8 * usize::from(channels), 0x3f);
        if let Ok(descriptor) = Descriptor::decode(&bytes) {
            prop_assert_eq!(descriptor.encode(), bytes);
        }
    }
}

#[test]
fn replacing_an_image_moves_no_more_than_the_noise_is_sized_for() {
    // Corners of the positive ball, where the bounds are nearly reached, and points inside.
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (clip, n) = (2.0_f64, 8_u32);
    let vector = |rng: &mut ChaCha20Rng| -> Vec<f32> {
        let corner = rng.next_u32() % 3;
        let mut values: Vec<f32> = (0..2)
            .map(|_| f32::from(rng.next_u32() as u16) / f32::from(u16::MAX) * 3.0)
            .collect();
        if corner < 2 {
            values = vec![0.0; 2];
            values[corner as usize] = 9.0;
        }
        values
    };
    let noise = Noise {
        clip,
        variance_floor: 0.5,
        multiplier: 0.01,
    };
    let sizes = noise.sizes(n, 2).unwrap();
    let unit = 0.01 * 2_f64.sqrt();
    let (bound_mean, bound_log) = (sizes.mean_sd / unit, sizes.log_variance_sd / unit);
    let (mut most_mean, mut most_log) = (0.0_f64, 0.0_f64);
    for _ in 0..3_000 {
        let one = vector(&mut rng);
        // Mostly copies of one image, the worst case for the variance.
        let mut images: Vec<Vec<f32>> = (0..n)
            .map(|_| {
                if rng.next_u32().is_multiple_of(4) {
                    vector(&mut rng)
                } else {
                    one.clone()
                }
            })
            .collect();
        let make = |images: &[Vec<f32>]| {
            let mut summary = Summary::new(Pooling::default(), Some(clip)).unwrap();
            for image in images {
                summary.add(&FeatureMap::new(1, 1, 2, image).unwrap()).unwrap();
            }
            let logs = summary.variance().unwrap();
            let logs: Vec<f64> = logs.iter().map(|value| value.max(0.5).ln()).collect();
            (summary.mean.clone(), logs)
        };
        let before = make(&images);
        images[0] = vector(&mut rng);
        let after = make(&images);
        let length = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        most_mean = most_mean.max(length(&before.0, &after.0));
        most_log = most_log.max(length(&before.1, &after.1));
    }
    assert!(
        most_mean <= bound_mean && most_log <= bound_log,
        "{most_mean} {most_log}"
    );
    // The mean's bound is reached, so it is not merely large.
    assert!(most_mean > 0.99 * bound_mean, "{most_mean} of {bound_mean}");
    assert!(most_log > 0.2 * bound_log, "{most_log} of {bound_log}");
}

#[test]
fn noise_has_the_size_it_says_and_hides_nothing_else() {
    let noise = Noise {
        clip: 10.0,
        variance_floor: 0.5,
        multiplier: 0.005,
    };
    let images = images();
    let plain = summary(Pooling::default(), Some(10.0), &images);
    let sizes = noise.sizes(8, 2).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let (mut means, mut logs) = (Vec::new(), Vec::new());
    for _ in 0..2_000 {
        let noised = plain.noised([1; 32], &noise, &mut rng).unwrap();
        assert_eq!(noised.noise(), Some(sizes));
        for channel in 0..2 {
            means.push((f64::from(noised.mean()[channel]) - plain.mean[channel]) / sizes.mean_sd);
            let log = plain.variance().unwrap()[channel].max(0.5).ln();
            logs.push((f64::from(noised.variance()[channel]).ln() - log) / sizes.log_variance_sd);
        }
    }
    for draws in [means, logs] {
        let n = f64::from(u32::try_from(draws.len()).unwrap());
        let mean = draws.iter().sum::<f64>() / n;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / n;
        assert!(mean.abs() < 4.0 / n.sqrt(), "{mean}");
        assert!((square - 1.0).abs() < 4.0 * (2.0 / n).sqrt(), "{square}");
    }
    // A seed replays.
    let again = |seed| {
        plain
            .noised([1; 32], &noise, &mut ChaCha20Rng::seed_from_u64(seed))
            .unwrap()
    };
    assert_eq!(again(5), again(5));
    assert_ne!(again(5), again(6));
}

#[test]
fn noise_that_cannot_be_is_refused() {
    let noise = Noise {
        clip: 1.0,
        variance_floor: 0.01,
        multiplier: 2.23,
    };
    // √2 · 2.23 · √3 · 1 / 256 / 0.01 = 2.13.
    let refused = noise.sizes(256, 16).unwrap_err();
    assert!(
        matches!(refused, DescriptorError::TooNoisy { log_variance_sd } if (log_variance_sd - 2.126).abs() < 0.01),
        "{refused}"
    );
    assert!(noise.sizes(4_000, 16).is_ok());
    assert!(matches!(
        noise.sizes(0, 16),
        Err(DescriptorError::TooFewImages { .. })
    ));
    for (clip, variance_floor, multiplier) in [
        (0.0, 1.0, 1.0),
        (1.0, f64::NAN, 1.0),
        (1.0, 1.0, -1.0),
        (1.0, 1.0, f64::INFINITY),
        (1.0, 1.0, 1e6),
    ] {
        let noise = Noise {
            clip,
            variance_floor,
            multiplier,
        };
        assert!(
            matches!(noise.sizes(100, 16), Err(DescriptorError::Setting { .. })),
            "{noise:?}"
        );
    }
    let unclipped = summary(Pooling::default(), None, &images());
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    assert_eq!(
        unclipped.noised([0; 32], &noise, &mut rng),
        Err(DescriptorError::Clip { expected: 1.0 })
    );
}
