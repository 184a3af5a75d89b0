//! Which part of a picture counts: the crops and evaluation masks of the depth benchmarks.

use crate::data::Frame;

/// A rectangle of whole pixels: rows `top .. top + height`, columns `left .. left + width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First row.
    pub top: usize,
    /// First column.
    pub left: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

/// Size of a picture after [`kb`], rows and columns.
pub const KB_SIZE: (usize, usize) = (352, 1216);

/// Size of a picture of NYU Depth v2, rows and columns.
pub const NYU_SIZE: (usize, usize) = (480, 640);

/// The crop of the KITTI depth benchmark: 352 rows at the bottom, 1216 columns in the middle. `None` for a smaller picture.
#[must_use]
pub fn kb(width: usize, height: usize) -> Option<Window> {
    Some(Window {
        top: height.checked_sub(KB_SIZE.0)?,
        left: width.checked_sub(KB_SIZE.1)? / 2,
        height: KB_SIZE.0,
        width: KB_SIZE.1,
    })
}

/// The evaluation mask of Garg et al. (ECCV 2016), in shares of the picture.
#[must_use]
pub fn garg(width: usize, height: usize) -> Window {
    shares(
        width,
        height,
        [0.408_108_11, 0.991_891_89, 0.035_947_71, 0.964_052_29],
    )
}

/// The evaluation mask of Eigen et al. (NIPS 2014) for KITTI, in shares of the picture.
#[must_use]
pub fn eigen_kitti(width: usize, height: usize) -> Window {
    shares(
        width,
        height,
        [0.332_432_4, 0.913_513_51, 0.035_947_71, 0.964_052_29],
    )
}

/// The evaluation mask of Eigen et al. for NYU Depth v2: rows 45 to 470, columns 41 to 600, both ends counted, of 480 x 640.
pub const EIGEN_NYU: Window = Window {
    top: 45,
    left: 41,
    height: 426,
    width: 560,
};

/// What is cut out of a training picture of NYU Depth v2, whose border is white: 565 x 427.
pub const NYU_TRAINING: Window = Window {
    top: 45,
    left: 43,
    height: 427,
    width: 565,
};

/// What the benchmark's programs show of a labelled picture of NYU Depth v2; the white border around it is made black.
pub const NYU_SEEN: Window = Window {
    top: 7,
    left: 7,
    height: 467,
    width: 625,
};

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "shares of a picture's side, floored as the benchmark floors them"
)]
fn shares(width: usize, height: usize, [top, bottom, left, right]: [f64; 4]) -> Window {
    let at = |share: f64, side: usize| (share * side as f64) as usize;
    let (top, left) = (at(top, height), at(left, width));
    Window {
        top,
        left,
        height: at(bottom, height).saturating_sub(top),
        width: at(right, width).saturating_sub(left),
    }
}

impl Window {
    /// Whether it lies within a picture of this size.
    #[must_use]
    pub fn fits(&self, width: usize, height: usize) -> bool {
        self.left.saturating_add(self.width) <= width && self.top.saturating_add(self.height) <= height
    }

    /// Whether a pixel lies within it.
    #[must_use]
    pub fn holds(&self, row: usize, column: usize) -> bool {
        (self.top..self.top + self.height).contains(&row)
            && (self.left..self.left + self.width).contains(&column)
    }
}

/// What is done to a frame before it is brought to the network's size, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Depths outside are forgotten, pictures stay whole.
    pub(super) mask_whole: Option<Window>,
    /// Picture and depth are cut.
    pub(super) cut: Option<Window>,
    /// Depths outside are forgotten, counted in the cut picture.
    pub(super) mask_cut: Option<Window>,
}

impl Steps {
    /// Does them. Windows that do not fit leave nothing, so the caller looks at [`Window::fits`] first.
    pub(super) fn apply(&self, mut frame: Frame) -> Result<Frame, crate::data::DataError> {
        if let Some(window) = self.mask_whole {
            frame.mask(window);
        }
        if let Some(window) = self.cut {
            frame = frame.cut(window)?;
        }
        if let Some(window) = self.mask_cut {
            frame.mask(window);
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_and_columns(window: Window) -> [usize; 4] {
        [
            window.top,
            window.top + window.height,
            window.left,
            window.left + window.width,
        ]
    }

    /// The half-open bounds that the benchmark's own programs come to.
    #[test]
    fn the_masks_of_kitti_are_the_published_ones() {
        assert_eq!(rows_and_columns(garg(1216, 352)), [143, 349, 43, 1172]);
        assert_eq!(rows_and_columns(garg(1242, 375)), [153, 371, 44, 1197]);
        assert_eq!(rows_and_columns(eigen_kitti(1216, 352))[..2], [117, 321]);
    }

    #[test]
    fn the_crop_of_kitti_stands_at_the_bottom_and_in_the_middle() {
        let sizes = [(1242, 375), (1226, 370), (1241, 376), (1238, 374), (1216, 352)];
        let crops = sizes.map(|(width, height)| kb(width, height).map(|w| (w.top, w.left)));
        assert_eq!(
            crops,
            [
                Some((23, 13)),
                Some((18, 5)),
                Some((24, 12)),
                Some((22, 11)),
                Some((0, 0))
            ]
        );
        assert_eq!((kb(1215, 352), kb(1216, 351)), (None, None));
    }

    #[test]
    fn the_windows_of_nyu_lie_in_its_pictures() {
        assert_eq!(rows_and_columns(EIGEN_NYU), [45, 471, 41, 601]);
        assert_eq!(rows_and_columns(NYU_TRAINING), [45, 472, 43, 608]);
        // Rows 7 to 473 and columns 7 to 631, both counted.
        assert_eq!(rows_and_columns(NYU_SEEN), [7, 474, 7, 632]);
        for window in [EIGEN_NYU, NYU_TRAINING, NYU_SEEN] {
            assert!(window.fits(640, 480) && !window.fits(600, 480));
        }
    }

    #[test]
    fn a_cut_frame_shows_what_the_window_held() {
        let depth: Vec<f32> = (1_u8..=12).map(f32::from).collect();
        let rgb: Vec<u8> = (1_u8..=12).flat_map(|v| [v, v, v]).collect();
        let frame = Frame::new("f", 4, 3, rgb, depth).unwrap();
        let window = Window {
            top: 1,
            left: 2,
            height: 2,
            width: 1,
        };
        let steps = Steps {
            cut: Some(window),
            ..Steps::default()
        };
        let cut = steps.apply(frame.clone()).unwrap();
        assert_eq!((cut.width(), cut.height()), (1, 2));
        assert_eq!(
            (cut.depth(), cut.rgb()),
            (&[7.0, 11.0][..], &[7, 7, 7, 11, 11, 11][..])
        );
        let mut masked = frame.clone();
        masked.mask(window);
        assert_eq!(masked.rgb(), frame.rgb());
        assert_eq!(masked.known_pixels(), 2);
        assert_eq!(masked.depth()[6..=10], [7.0, 0.0, 0.0, 0.0, 11.0]);
        let outside = Window { left: 4, ..window };
        assert!(frame.cut(outside).is_err());
    }
}
