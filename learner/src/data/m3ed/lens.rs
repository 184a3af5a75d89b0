//! A camera: the pinhole with radial and tangential distortion (Brown's model, as OpenCV and Kalibr write it).

use crate::data::DataError;
use crate::data::hdf::{Hdf, Table};

/// What a `calib` group says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lens {
    /// Focal lengths and centre, pixels.
    pub(super) fx: f64,
    pub(super) fy: f64,
    pub(super) cx: f64,
    pub(super) cy: f64,
    /// k1, k2, p1, p2, k3.
    pub(super) distortion: [f64; 5],
    pub(super) width: usize,
    pub(super) height: usize,
    /// From this camera to the left event camera: rotation, row by row, and translation, metres.
    pub(super) rotation: [[f64; 3]; 3],
    pub(super) translation: [f64; 3],
    /// Squared length of the longest direction (x, y) that is looked in.
    pub(super) reach: f64,
}

impl Lens {
    /// Reads `<camera>/calib`.
    pub(super) fn read(hdf: &Hdf, camera: &str) -> Result<Self, DataError> {
        let table = |name: &str| hdf.table(&format!("{camera}/calib/{name}"));
        let model = table("distortion_model")?;
        let words = model
            .set
            .read_string()
            .map_err(|error| model.fault(&error.to_string()))?;
        let word = words.first().map_or("", |word| word.trim_matches('\0').trim());
        if word != "radtan" && word != "plumb_bob" {
            return Err(model.fault(&format!("is '{word}'; only radtan is known here")));
        }
        let intrinsics = table("intrinsics")?;
        let [fx, fy, cx, cy] = numbers(&intrinsics)?;
        if !(fx > 0.0 && fy > 0.0) {
            return Err(intrinsics.fault("focal lengths must be above zero"));
        }
        let coefficients = table("distortion_coeffs")?;
        let distortion = match coefficients.all_floats()?.as_slice() {
            &[k1, k2, p1, p2] => [k1, k2, p1, p2, 0.0],
            &[k1, k2, p1, p2, k3] => [k1, k2, p1, p2, k3],
            other => {
                return Err(
                    coefficients.fault(&format!("holds {} numbers and must hold 4 or 5", other.len()))
                );
            }
        };
        let resolution = table("resolution")?;
        let [width, height] = numbers(&resolution)?.map(side);
        let pose = table("T_to_prophesee_left")?;
        let rows: [f64; 16] = numbers(&pose)?;
        let at = |row: usize, column: usize| rows.get(4 * row + column).copied().unwrap_or(f64::NAN);
        let rotation = [0, 1, 2].map(|row| [0, 1, 2].map(|column| at(row, column)));
        let mut lens = Self {
            fx,
            fy,
            cx,
            cy,
            distortion,
            width: width.ok_or_else(|| resolution.fault("is no size of a picture"))?,
            height: height.ok_or_else(|| resolution.fault("is no size of a picture"))?,
            rotation,
            translation: [0, 1, 2].map(|row| at(row, 3)),
            reach: 0.0,
        };
        lens.look();
        let finite = distortion.iter().chain(&rows).all(|number| number.is_finite());
        if !finite || !lens.turns() {
            return Err(pose.fault("is no rotation and translation in metres"));
        }
        Ok(lens)
    }

    /// Finds how far it looks: beyond its corners a distortion's polynomial may lead back into the picture.
    #[expect(clippy::cast_precision_loss, reason = "sides of a picture")]
    fn look(&mut self) {
        let (right, bottom) = (self.width as f64, self.height as f64);
        let corners = [[0.0, 0.0], [right, 0.0], [0.0, bottom], [right, bottom]];
        let longest = corners
            .map(|corner| self.ray(corner))
            .map(|[x, y]| x * x + y * y)
            .into_iter()
            .fold(0.0, f64::max);
        self.reach = longest * MARGIN;
    }

    /// Whether the rotation is one.
    fn turns(&self) -> bool {
        let dot = |a: usize, b: usize| -> f64 {
            let row = |i: usize| self.rotation.get(i).copied().unwrap_or_default();
            row(a).iter().zip(row(b)).map(|(x, y)| x * y).sum()
        };
        (0..3).all(|a| (0..3).all(|b| (dot(a, b) - f64::from(u8::from(a == b))).abs() < 1e-3))
    }

    /// The pixel of a direction (x, y, 1), if the camera looks there; whole numbers are the middles of pixels.
    pub(super) fn project(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        if x * x + y * y > self.reach {
            return None;
        }
        let [dx, dy] = self.bend([x, y]);
        Some([self.fx * dx + self.cx, self.fy * dy + self.cy])
    }

    /// The direction of a pixel. Distortion has no closed inverse: it is taken off in steps that halve the error and more
    /// where a lens is one that calibrations come from.
    pub(super) fn ray(&self, [u, v]: [f64; 2]) -> [f64; 2] {
        let seen = [(u - self.cx) / self.fx, (v - self.cy) / self.fy];
        let mut guess = seen;
        for _ in 0..STEPS {
            let [bx, by] = self.bend(guess);
            guess = [guess[0] + seen[0] - bx, guess[1] + seen[1] - by];
        }
        guess
    }

    fn bend(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let [k1, k2, p1, p2, k3] = self.distortion;
        let r2 = x * x + y * y;
        let radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3));
        [
            x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x),
            y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y,
        ]
    }

    /// A point of the left event camera in this camera's frame.
    pub(super) fn of_event(&self, point: [f64; 3]) -> [f64; 3] {
        let [x, y, z] = self.translation;
        self.turned([point[0] - x, point[1] - y, point[2] - z])
    }

    /// A direction of the left event camera in this camera's frame.
    pub(super) fn turned(&self, direction: [f64; 3]) -> [f64; 3] {
        // The rotation leads the other way; its transpose leads back.
        let mut out = [0.0; 3];
        for (row, along) in self.rotation.iter().zip(direction) {
            for (sum, entry) in out.iter_mut().zip(row) {
                *sum += entry * along;
            }
        }
        out
    }
}

/// Exactly so many numbers, row by row.
fn numbers<const N: usize>(table: &Table) -> Result<[f64; N], DataError> {
    let all = table.all_floats()?;
    let found = all.len();
    <[f64; N]>::try_from(all).map_err(|_| table.fault(&format!("holds {found} numbers and must hold {N}")))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole and small"
)]
fn side(number: f64) -> Option<usize> {
    ((1.0..=16_384.0).contains(&number) && number.fract() == 0.0).then_some(number as usize)
}

const STEPS: usize = 25;
/// So that the corners themselves are within reach.
const MARGIN: f64 = 1.02;

#[cfg(test)]
mod tests {
    use super::*;

    fn lens() -> Lens {
        let mut lens = Lens {
            fx: 1034.0,
            fy: 1033.0,
            cx: 634.0,
            cy: 357.0,
            distortion: [-0.10, 0.08, 0.0005, -0.0003, 0.01],
            width: 1280,
            height: 720,
            rotation: [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
            translation: [1.0, 2.0, 3.0],
            reach: 0.0,
        };
        lens.look();
        lens
    }

    /// `cv2.projectPoints` (OpenCV 4.11) of (0.3, -0.2, 1) with these numbers.
    #[test]
    fn a_point_lands_where_opencv_puts_it() {
        let [u, v] = lens().project([0.3, -0.2]).unwrap();
        assert!(
            (u - EXPECTED[0]).abs() < 1e-6 && (v - EXPECTED[1]).abs() < 1e-6,
            "{u} {v}"
        );
    }

    #[test]
    fn a_pixels_ray_leads_back_to_it() {
        for u in [0.0, 300.0, 634.0, 1279.0] {
            for v in [0.0, 357.0, 719.0] {
                let [a, b] = lens().project(lens().ray([u, v])).unwrap();
                assert!((a - u).abs() < 1e-6 && (b - v).abs() < 1e-6, "{u} {v}: {a} {b}");
            }
        }
    }

    /// With k1 = -1 the polynomial turns back at a distance of 0.58, and a direction of 1.0 would land in the middle.
    #[test]
    fn what_lies_beyond_the_corners_is_not_folded_back() {
        let mut wide = lens();
        wide.distortion = [-1.0, 0.0, 0.0, 0.0, 0.0];
        (wide.fx, wide.fy) = (2000.0, 2000.0);
        wide.look();
        assert!(wide.project([0.3, 0.0]).is_some());
        assert_eq!(wide.project([1.0, 0.0]), None);
    }

    #[test]
    fn the_pose_leads_from_this_camera_to_the_other() {
        // (4, 5, 6) here is (-5, 4, 6) turned and (-4, 6, 9) moved.
        let point = lens().of_event([-4.0, 6.0, 9.0]);
        let far = point
            .iter()
            .zip([4.0, 5.0, 6.0])
            .any(|(a, b)| (a - b).abs() > 1e-12);
        assert!(!far, "{point:?}");
        assert!(lens().turns());
        let mut sheared = lens();
        sheared.rotation[0][0] = 0.5;
        assert!(!sheared.turns());
    }

    const EXPECTED: [f64; 2] = [940.435_403_494, 152.947_590_798];
}
