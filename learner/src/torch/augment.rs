//! Random changes to training pictures, and mirrored scoring.

use chacha20::ChaCha20Rng;
use rand_core::Rng;
use tch::{Kind, Tensor};

/// Which random changes a training picture gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Augment {
    /// Mirror half of the frames.
    pub mirror: bool,
    /// Turn by up to so many degrees either way (published for AdaBins: 2.5 for NYU, 1 for KITTI). Depth that turns in
    /// from outside is unknown.
    pub rotate_deg: f64,
    /// Change the colours of half of the frames; `None` leaves them.
    pub colours: Option<Colours>,
    /// True depth outside this part of the picture is unknown in training.
    pub known: Option<Part>,
}

/// How far colours are changed, each as a factor from `1 − x` to `1 + x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Colours {
    /// Exponent of the brightness.
    pub gamma: f64,
    /// Brightness.
    pub brightness: f64,
    /// Each of red, green and blue by itself.
    pub channel: f64,
}

/// A part of a picture, in shares of its height and width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// First row and the row after the last.
    pub rows: [f64; 2],
    /// First column and the column after the last.
    pub columns: [f64; 2],
}

impl Part {
    /// Where NYU's depth, projected into the colour picture, is complete: rows 45 to 471 and columns 43 to 607 of
    /// 480 × 640.
    pub const NYU: Self = Self {
        rows: [45.0 / 480.0, 472.0 / 480.0],
        columns: [43.0 / 640.0, 608.0 / 640.0],
    };

    /// Whether the pixel of this row and column, of a picture of this height and width, lies inside.
    #[must_use]
    pub fn holds(&self, row: usize, column: usize, height: usize, width: usize) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "sides of pictures are small")]
        let inside = |at: usize, side: usize, [from, to]: [f64; 2]| {
            let at = at as f64;
            // A border that falls on a pixel must not move with rounding.
            at + 1e-9 >= from * side as f64 && at + 1e-9 < to * side as f64
        };
        inside(row, height, self.rows) && inside(column, width, self.columns)
    }
}

impl Augment {
    /// Mirroring alone.
    pub const MIRROR: Self = Self {
        mirror: true,
        rotate_deg: 0.0,
        colours: None,
        known: None,
    };

    /// `pictures` `[B, 3, H, W]` from 0 to 255 and depths `[B, 1, H, W]`, both as floats. Mirroring is not done here.
    pub fn apply(&self, pictures: Tensor, depth: Tensor, rng: &mut ChaCha20Rng) -> (Tensor, Tensor) {
        let (mut pictures, mut depth) = (pictures, depth);
        let (batch, _, height, width) = pictures.size4().unwrap_or_default();
        let count = usize::try_from(batch).unwrap_or(0);
        if let Some(part) = &self.known {
            let (high, wide) = (
                usize::try_from(height).unwrap_or(0),
                usize::try_from(width).unwrap_or(0),
            );
            let mask: Vec<u8> = (0..high)
                .flat_map(|y| (0..wide).map(move |x| (y, x)))
                .map(|(y, x)| u8::from(part.holds(y, x, high, wide)))
                .collect();
            let mask = Tensor::from_slice(&mask).view([1, 1, height, width]);
            depth *= mask.to_device(depth.device()).to_kind(Kind::Float);
        }
        if self.rotate_deg > 0.0 {
            let angles: Vec<f64> = (0..count).map(|_| self.rotate_deg * signed(rng)).collect();
            (pictures, depth) = (
                turn(&pictures, &angles, Filter::Mean),
                turn(&depth, &angles, Filter::Nearest),
            );
        }
        if let Some(colours) = &self.colours {
            let changed: Vec<Tensor> = (0..batch)
                .map(|i| {
                    let picture = pictures.select(0, i) / 255.0;
                    let picture = if rng.next_u32() & 1 == 1 {
                        colours.apply(&picture, rng)
                    } else {
                        picture
                    };
                    picture * 255.0
                })
                .collect();
            pictures = Tensor::stack(&changed, 0);
        }
        (pictures, depth)
    }
}

impl Colours {
    /// As BTS and AdaBins change NYU's.
    pub const NYU: Self = Self {
        gamma: 0.1,
        brightness: 0.25,
        channel: 0.1,
    };
    /// As they change KITTI's.
    pub const KITTI: Self = Self {
        gamma: 0.1,
        brightness: 0.1,
        channel: 0.1,
    };

    fn apply(&self, picture: &Tensor, rng: &mut ChaCha20Rng) -> Tensor {
        let mut factor = |reach: f64| 1.0 + reach * signed(rng);
        let (gamma, brightness) = (factor(self.gamma), factor(self.brightness));
        let channels: Vec<f64> = (0..3).map(|_| factor(self.channel)).collect();
        let channels = Tensor::from_slice(&channels)
            .to_kind(Kind::Float)
            .to_device(picture.device())
            .view([3, 1, 1]);
        (picture.pow_tensor_scalar(gamma) * brightness * channels).clamp(0.0, 1.0)
    }
}

#[derive(Clone, Copy)]
enum Filter {
    Mean,
    Nearest,
}

/// Turns each map about its centre; zeros come in from outside. The mean of a near and a far depth is the depth of
/// nothing, so depth takes the nearest pixel.
fn turn(maps: &Tensor, degrees: &[f64], filter: Filter) -> Tensor {
    let (batch, channels, height, width) = maps.size4().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "sides of pictures are small")]
    let (high, wide) = (height as f64, width as f64);
    let rows: Vec<f64> = degrees
        .iter()
        .flat_map(|d| {
            let (sin, cos) = d.to_radians().sin_cos();
            // Coordinates run from −1 to 1 along both sides, whatever their lengths.
            [cos, -sin * high / wide, 0.0, sin * wide / high, cos, 0.0]
        })
        .collect();
    let theta = Tensor::from_slice(&rows)
        .view([batch, 2, 3])
        .to_kind(Kind::Float)
        .to_device(maps.device());
    let grid = Tensor::affine_grid_generator(&theta, [batch, channels, height, width], false);
    let mode = match filter {
        Filter::Mean => 0,
        Filter::Nearest => 1,
    };
    maps.grid_sampler_2d(&grid, mode, 0, false)
}

/// Uniform in −1..1.
fn signed(rng: &mut ChaCha20Rng) -> f64 {
    f64::from(rng.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0
}

/// Whether a prediction is averaged with that of the mirrored picture in scoring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlipTest {
    /// No.
    Off,
    /// Yes, everywhere alike (published for AdaBins).
    Mean,
    /// Yes, but at the left and right border, where one of the two saw less, over 5 % of the width from one prediction to
    /// the mean (published for NeWCRFs and DCDepth).
    Ramps,
}

impl FlipTest {
    /// One depth map from those of a picture and of the mirrored picture, both `[B, 1, H, W]`, the second still mirrored.
    pub fn join(self, straight: &Tensor, mirrored: &Tensor) -> Tensor {
        let back = mirrored.flip([3]);
        let mean = (straight + &back) * 0.5;
        match self {
            Self::Off => straight.shallow_clone(),
            Self::Mean => mean,
            Self::Ramps => {
                let width = straight.size().last().copied().unwrap_or(1);
                let across = Tensor::linspace(0.0, 1.0, width, (Kind::Float, straight.device()));
                let left: Tensor = 1.0_f64 - ((across - 0.05_f64) * 20.0_f64).clamp(0.0, 1.0);
                let right: Tensor = left.flip([0]);
                &right * straight + &left * back + (1.0_f64 - &left - &right) * mean
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use rand_core::SeedableRng;
    use tch::Device;

    use super::*;

    fn values(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(tensor.flatten(0, -1)).unwrap()
    }

    /// 21 columns: ramps reach over the first and last column fully, over the second (0.05) still, and end at 0.1.
    #[test]
    fn ramps_take_each_border_from_the_side_that_saw_it() {
        let straight = Tensor::full([1, 1, 1, 21], 2.0, (Kind::Float, Device::Cpu));
        let mirrored = Tensor::full([1, 1, 1, 21], 4.0, (Kind::Float, Device::Cpu));
        let joined = values(&FlipTest::Ramps.join(&straight, &mirrored));
        for (at, expected) in [
            (0, 4.0),
            (1, 4.0),
            (2, 3.0),
            (10, 3.0),
            (18, 3.0),
            (19, 2.0),
            (20, 2.0),
        ] {
            assert!((joined[at] - expected).abs() < 1e-5, "{at}: {joined:?}");
        }
        assert_eq!(values(&FlipTest::Mean.join(&straight, &mirrored)), [3.0; 21]);
        assert_eq!(values(&FlipTest::Off.join(&straight, &mirrored)), [2.0; 21]);
    }

    #[test]
    fn the_mirrored_prediction_is_turned_back() {
        let straight = Tensor::from_slice(&[1.0_f32, 2.0, 3.0]).view([1, 1, 1, 3]);
        let joined = FlipTest::Mean.join(&straight, &straight.flip([3]));
        assert_eq!(values(&joined), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn turning_keeps_the_centre_and_invents_no_depth() {
        let depth = Tensor::arange(31 * 41, (Kind::Float, Device::Cpu)).view([1, 1, 31, 41]) + 1.0;
        let turned = turn(&depth, &[2.5], Filter::Nearest);
        assert_eq!(
            turned.double_value(&[0, 0, 15, 20]),
            depth.double_value(&[0, 0, 15, 20])
        );
        let known: std::collections::BTreeSet<u32> = values(&depth).iter().map(|v| v.to_bits()).collect();
        let mut outside = 0;
        for value in values(&turned) {
            if value == 0.0 {
                outside += 1;
            } else {
                assert!(known.contains(&value.to_bits()), "{value}");
            }
        }
        assert!(outside > 0 && outside < 200, "{outside}");
        // Upright pixels: the point 20 right of the centre moves by 20 · sin 2.5° = 0.87 rows.
        let wide = turn(&depth, &[90.0], Filter::Nearest);
        assert_eq!(
            wide.double_value(&[0, 0, 5, 20]),
            depth.double_value(&[0, 0, 15, 30]),
            "a quarter turn brings 10 right to 10 up"
        );
    }

    #[test]
    fn known_part_is_the_published_one() {
        let part = Part::NYU;
        for (row, column, inside) in [
            (45, 43, true),
            (44, 43, false),
            (45, 42, false),
            (471, 607, true),
            (472, 607, false),
            (471, 608, false),
        ] {
            assert_eq!(part.holds(row, column, 480, 640), inside, "{row} {column}");
        }
        let augment = Augment {
            known: Some(part),
            mirror: false,
            ..Augment::MIRROR
        };
        let ones = |c| Tensor::ones([1, c, 48, 64], (Kind::Float, Device::Cpu));
        let (pictures, depth) = augment.apply(ones(3), ones(1), &mut ChaCha20Rng::seed_from_u64(1));
        assert!(pictures.equal(&ones(3)));
        // Rows 4.5 to 47.2 are 5 to 47, columns 4.3 to 60.8 are 5 to 60.
        assert_eq!(depth.sum(Kind::Double).double_value(&[]), 43.0 * 56.0);
    }

    #[test]
    fn colours_change_half_of_the_pictures_and_stay_in_range() {
        let augment = Augment {
            colours: Some(Colours::NYU),
            ..Augment::MIRROR
        };
        let pictures = Tensor::full([200, 3, 2, 2], 250.0, (Kind::Float, Device::Cpu));
        let depth = Tensor::ones([200, 1, 2, 2], (Kind::Float, Device::Cpu));
        let run = |seed| {
            augment
                .apply(
                    pictures.copy(),
                    depth.copy(),
                    &mut ChaCha20Rng::seed_from_u64(seed),
                )
                .0
        };
        let changed = run(1);
        assert!(changed.max().double_value(&[]) <= 255.001 && changed.min().double_value(&[]) > 100.0);
        let same = values(&changed)
            .chunks(12)
            .filter(|p| p.iter().all(|v| (v - 250.0).abs() < 1e-3))
            .count();
        assert!((60..140).contains(&same), "{same} of 200 left alone");
        assert!(run(1).equal(&changed) && !run(2).equal(&changed));
    }
}
