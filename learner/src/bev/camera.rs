//! One calibrated camera on a vehicle.

use crate::bev::GeometryError;
use crate::bev::pose::{Pose, Vec3};

/// A pinhole camera's focal lengths and centre, pixels, for pictures of one size.
///
/// Positions are continuous: the picture spans 0..width and 0..height, a pixel's middle lies at half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intrinsics {
    /// Focal length across.
    pub fx: f64,
    /// Focal length down.
    pub fy: f64,
    /// Centre across.
    pub cx: f64,
    /// Centre down.
    pub cy: f64,
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Intrinsics {
    /// Checked intrinsics from K, for the camera named `camera`.
    ///
    /// # Errors
    ///
    /// [`GeometryError::Intrinsics`] for an empty picture, focal lengths that are not positive, skew, or a centre far
    /// outside the picture (which is another picture's K).
    pub fn from_k(
        camera: &str,
        [[fx, skew, cx], [zero, fy, cy], last]: [[f64; 3]; 3],
        (width, height): (usize, usize),
    ) -> Result<Self, GeometryError> {
        let wrong = |reason: String| {
            Err(GeometryError::Intrinsics {
                camera: camera.to_owned(),
                reason,
            })
        };
        if width == 0 || height == 0 {
            return wrong(format!("its picture is {width}x{height}"));
        }
        let positive = |f: f64| f.is_finite() && f > 0.0;
        if !(positive(fx) && positive(fy)) {
            return wrong(format!("focal lengths {fx} and {fy} must be positive"));
        }
        let fits = |v: f64, wanted: f64| (v - wanted).abs() < 1e-6;
        let [a, b, c] = last;
        if !(fits(skew, 0.0) && fits(zero, 0.0) && fits(a, 0.0) && fits(b, 0.0) && fits(c, 1.0)) {
            return wrong("K has skew or another last row".to_owned());
        }
        let own = Self {
            fx,
            fy,
            cx,
            cy,
            width,
            height,
        };
        let [w, h] = own.size();
        let inside = |c: f64, side: f64| c > -0.5 * side && c < 1.5 * side;
        if !(inside(cx, w) && inside(cy, h)) {
            return wrong(format!(
                "its centre ({cx}, {cy}) lies far outside the {width}x{height} picture, so K belongs to another size"
            ));
        }
        Ok(own)
    }

    /// K of the same camera after resizing its pictures.
    #[must_use]
    pub fn scaled(&self, width: usize, height: usize) -> Self {
        let [w, h] = self.size();
        let new = Self {
            width,
            height,
            ..*self
        };
        let [new_w, new_h] = new.size();
        let (sx, sy) = (new_w / w, new_h / h);
        Self {
            fx: sx * self.fx,
            fy: sy * self.fy,
            cx: sx * self.cx,
            cy: sy * self.cy,
            ..new
        }
    }

    /// K⁻¹·(u, v, 1): the direction of a picture position at unit depth, camera axes.
    #[must_use]
    pub fn direction(&self, u: f64, v: f64) -> Vec3 {
        [(u - self.cx) / self.fx, (v - self.cy) / self.fy, 1.0]
    }

    /// Width and height as numbers.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "picture sizes are far below 2^52")]
    pub fn size(&self) -> [f64; 2] {
        [self.width as f64, self.height as f64]
    }
}

/// Where a point appears.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pixel {
    /// Across, pixels.
    pub u: f64,
    /// Down, pixels.
    pub v: f64,
    /// Planar depth, metres. Positive.
    pub depth: f64,
}

/// A calibrated camera.
#[derive(Clone, Debug, PartialEq)]
pub struct Camera {
    /// Pairs the calibration with its pictures.
    pub name: String,
    /// Focal lengths, centre, picture size.
    pub intrinsics: Intrinsics,
    /// Camera axes to ego axes.
    pub to_ego: Pose,
}

impl Camera {
    /// Where a point given in ego axes appears; `None` if it is not in front of the camera. May lie outside the
    /// picture, see [`Camera::shows`].
    #[must_use]
    pub fn project(&self, point: Vec3) -> Option<Pixel> {
        let [x, y, depth] = self.to_ego.inverse().apply(point);
        (depth > NEAREST_M).then(|| Pixel {
            u: self.intrinsics.fx * x / depth + self.intrinsics.cx,
            v: self.intrinsics.fy * y / depth + self.intrinsics.cy,
            depth,
        })
    }

    /// Whether a position lies in the picture.
    #[must_use]
    pub fn shows(&self, pixel: Pixel) -> bool {
        let [width, height] = self.intrinsics.size();
        pixel.u >= 0.0 && pixel.u < width && pixel.v >= 0.0 && pixel.v < height
    }

    /// Direction of view, ego axes, unit length.
    #[must_use]
    pub fn forward(&self) -> Vec3 {
        self.to_ego.turn([0.0, 0.0, 1.0])
    }

    /// The same camera with resized pictures.
    #[must_use]
    pub fn scaled(&self, width: usize, height: usize) -> Self {
        Self {
            intrinsics: self.intrinsics.scaled(width, height),
            ..self.clone()
        }
    }
}

/// Nothing nearer counts as in front.
pub(crate) const NEAREST_M: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    /// OPV2V's camera: 800 × 600, horizontal field of view 100°.
    fn opv2v() -> Intrinsics {
        let k = [
            [335.639_852, 0.0, 400.0],
            [0.0, 335.639_852, 300.0],
            [0.0, 0.0, 1.0],
        ];
        Intrinsics::from_k("camera0", k, (800, 600)).unwrap()
    }

    /// Expected values by hand: 800 → 512 across, 600 → 512 down.
    #[test]
    fn k_follows_the_resize() {
        let k = opv2v().scaled(512, 512);
        for (found, expected) in [(k.fx, 214.8096), (k.fy, 286.4127), (k.cx, 256.0), (k.cy, 256.0)] {
            assert!((found - expected).abs() < 2e-4, "{found} is not {expected}");
        }
        assert_eq!((k.width, k.height), (512, 512));
    }

    #[test]
    fn a_point_appears_where_similar_triangles_say() {
        // 1.5 m above the ground, level, looking ahead: a point 10 m ahead, 2 m left, 1 m high.
        let camera = Camera {
            name: "front".to_owned(),
            intrinsics: opv2v(),
            to_ego: Pose::of_camera([0.0, 0.0, 1.5], 0.0, 0.0, 0.0),
        };
        let pixel = camera.project([10.0, 2.0, 1.0]).unwrap();
        assert!((pixel.u - (400.0 - 335.639_852 * 0.2)).abs() < 1e-9);
        assert!((pixel.v - (300.0 + 335.639_852 * 0.05)).abs() < 1e-9);
        assert!((pixel.depth - 10.0).abs() < 1e-12 && camera.shows(pixel));
        assert!(camera.project([-1.0, 0.0, 1.0]).is_none(), "behind");
        assert!(!camera.shows(camera.project([1.0, 5.0, 1.0]).unwrap()), "beside");
        let back = camera.intrinsics.direction(pixel.u, pixel.v);
        let point = camera.to_ego.apply(back.map(|c| 10.0 * c));
        assert!(
            point
                .iter()
                .zip([10.0, 2.0, 1.0])
                .all(|(p, q)| (p - q).abs() < 1e-9)
        );
    }

    #[test]
    fn another_pictures_k_is_refused() {
        let k = |fx: f64, cx: f64, skew: f64| [[fx, skew, cx], [0.0, 100.0, 48.0], [0.0, 0.0, 1.0]];
        let read = |k| Intrinsics::from_k("left", k, (128, 96)).map_err(|e| e.to_string());
        assert!(read(k(100.0, 64.0, 0.0)).is_ok());
        assert!(read(k(100.0, 400.0, 0.0)).unwrap_err().contains("another size"));
        assert!(read(k(-1.0, 64.0, 0.0)).unwrap_err().contains("positive"));
        assert!(read(k(f64::NAN, 64.0, 0.0)).is_err());
        assert!(read(k(100.0, f64::NAN, 0.0)).is_err());
        let error = read(k(100.0, 64.0, 3.0)).unwrap_err();
        assert!(error.contains("left") && error.contains("skew"), "{error}");
    }
}
