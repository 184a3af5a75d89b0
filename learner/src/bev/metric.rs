//! Intersection over union of the vehicle class.

use serde::{Deserialize, Serialize};

use crate::bev::GeometryError;

/// One frame's cells: where prediction and truth say "vehicle".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// Both.
    pub both: u64,
    /// The prediction.
    pub predicted: u64,
    /// The truth.
    pub truth: u64,
}

impl FrameCounts {
    /// Counts over the cells where `counts` is true, or over all.
    ///
    /// # Errors
    ///
    /// [`GeometryError::Cells`] if lengths differ.
    pub fn of(prediction: &[bool], truth: &[bool], counts: Option<&[bool]>) -> Result<Self, GeometryError> {
        let lengths = [Some(prediction.len()), counts.map(<[bool]>::len)];
        if let Some(found) = lengths.into_iter().flatten().find(|&n| n != truth.len()) {
            return Err(GeometryError::Cells {
                found,
                expected: truth.len(),
            });
        }
        let mut sum = Self::default();
        for (i, (&p, &t)) in prediction.iter().zip(truth).enumerate() {
            if counts.is_some_and(|mask| mask.get(i) == Some(&false)) {
                continue;
            }
            sum.both += u64::from(p && t);
            sum.predicted += u64::from(p);
            sum.truth += u64::from(t);
        }
        Ok(sum)
    }

    /// Intersection over union; 0 when either side is empty, as the published code scores.
    #[must_use]
    pub fn iou(&self) -> f64 {
        let union = self.predicted + self.truth - self.both;
        if union == 0 { 0.0 } else { ratio(self.both, union) }
    }
}

/// Scores of a client's test frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BevMetrics {
    /// Mean over frames of each frame's `IoU`; the paper's mIoU. A frame that is rightly empty scores 0.
    pub miou: f64,
    /// Intersections summed over frames, divided by unions summed over frames.
    pub pooled_iou: f64,
    /// [`BevMetrics::miou`] with the cells that no camera sees counted too.
    pub miou_unmasked: f64,
    /// [`BevMetrics::pooled_iou`] with the cells that no camera sees counted too.
    pub pooled_iou_unmasked: f64,
    /// Cells predicted "vehicle", all frames, unmasked.
    pub predicted_cells: u64,
    /// Cells truly "vehicle", all frames, unmasked.
    pub true_cells: u64,
}

impl BevMetrics {
    /// From each frame's counts: masked and over all cells.
    ///
    /// # Errors
    ///
    /// [`GeometryError::NoFrames`] for an empty list.
    pub fn of(frames: &[(FrameCounts, FrameCounts)]) -> Result<Self, GeometryError> {
        if frames.is_empty() {
            return Err(GeometryError::NoFrames);
        }
        let mut total = (FrameCounts::default(), FrameCounts::default());
        let (mut masked, mut whole) = (0.0, 0.0);
        for (inside, all) in frames {
            masked += inside.iou();
            whole += all.iou();
            for (sum, one) in [(&mut total.0, inside), (&mut total.1, all)] {
                sum.both += one.both;
                sum.predicted += one.predicted;
                sum.truth += one.truth;
            }
        }
        let count = ratio(frames.len() as u64, 1);
        Ok(Self {
            miou: masked / count,
            pooled_iou: total.0.iou(),
            miou_unmasked: whole / count,
            pooled_iou_unmasked: total.1.iou(),
            predicted_cells: total.1.predicted,
            true_cells: total.1.truth,
        })
    }

    /// Whether not one cell of a whole evaluation was predicted although there was something to find: the sign of a
    /// training that settled on "background everywhere".
    #[must_use]
    pub fn is_all_background(&self) -> bool {
        self.predicted_cells == 0 && self.true_cells > 0
    }

    /// A sentence for the alarm of [`BevMetrics::is_all_background`].
    #[must_use]
    pub fn alarm(&self) -> Option<&'static str> {
        self.is_all_background().then_some(
            "every cell of every test frame was predicted background: raise the vehicle class's weight, train longer, or check that labels are not empty",
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of cells are far below 2^52")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use super::*;

    const T: bool = true;
    const F: bool = false;

    fn whole(prediction: &[bool], truth: &[bool]) -> FrameCounts {
        FrameCounts::of(prediction, truth, None).unwrap()
    }

    #[test]
    fn iou_by_hand() {
        assert_eq!(whole(&[T, T, F, F], &[T, F, T, F]).iou(), 1.0 / 3.0);
        assert_eq!(whole(&[F, F], &[T, F]).iou(), 0.0);
        assert_eq!(whole(&[T, F], &[F, F]).iou(), 0.0);
        assert_eq!(
            whole(&[F, F], &[F, F]).iou(),
            0.0,
            "neither predicted nor true: no error, no NaN"
        );
    }

    #[test]
    fn masked_cells_count_on_neither_side() {
        let counts = FrameCounts::of(&[T, T, T], &[T, F, T], Some(&[T, F, F])).unwrap();
        assert_eq!(
            counts,
            FrameCounts {
                both: 1,
                predicted: 1,
                truth: 1
            }
        );
        assert!(matches!(
            FrameCounts::of(&[T], &[T, F], None),
            Err(GeometryError::Cells {
                found: 1,
                expected: 2
            })
        ));
        assert!(FrameCounts::of(&[T], &[T], Some(&[T, T])).is_err());
    }

    /// Two frames: 1/3 and 1/1. Mean 2/3; pooled (1 + 1) / (3 + 1).
    #[test]
    fn mean_and_pooled_differ() {
        let frames = [whole(&[T, T, F], &[T, F, T]), whole(&[T, F, F], &[T, F, F])];
        let m = BevMetrics::of(&frames.map(|f| (f, f))).unwrap();
        assert!((m.miou - 2.0 / 3.0).abs() < 1e-15);
        assert_eq!(m.pooled_iou, 0.5);
        assert_eq!((m.predicted_cells, m.true_cells), (3, 3));
        // An empty frame, rightly predicted empty, lowers the mean but not the pooled score.
        let empty = whole(&[F, F, F], &[F, F, F]);
        let m = BevMetrics::of(&[(frames[1], frames[1]), (empty, empty)]).unwrap();
        assert_eq!((m.miou, m.pooled_iou), (0.5, 1.0));
        assert_eq!(BevMetrics::of(&[]), Err(GeometryError::NoFrames));
    }

    #[test]
    fn all_background_raises_the_alarm() {
        let frame = whole(&[F, F], &[T, F]);
        assert!(BevMetrics::of(&[(frame, frame)]).unwrap().alarm().is_some());
        let right = whole(&[F, F], &[F, F]);
        assert!(
            BevMetrics::of(&[(right, right)]).unwrap().alarm().is_none(),
            "there was nothing to find"
        );
        let some = whole(&[F, T], &[T, F]);
        assert!(
            BevMetrics::of(&[(frame, frame), (some, some)])
                .unwrap()
                .alarm()
                .is_none()
        );
    }
}
