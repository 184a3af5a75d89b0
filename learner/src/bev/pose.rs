//! Rigid maps between coordinate axes.

use crate::bev::GeometryError;

/// A point or direction.
pub type Vec3 = [f64; 3];

/// Rotation and translation, metres: the upper three rows of a 4 × 4 matrix. Maps a child's coordinates to its parent's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    rows: [[f64; 4]; 3],
}

impl Pose {
    /// No motion.
    pub const IDENTITY: Self = Self {
        rows: [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
    };

    /// Takes a 4 × 4 matrix; `what` names it in errors.
    ///
    /// # Errors
    ///
    /// [`GeometryError::NotRigid`] unless it is finite, its rotation is orthonormal within 0.001 with determinant +1,
    /// and the last row is 0 0 0 1.
    pub fn new(what: &str, matrix: [[f64; 4]; 4]) -> Result<Self, GeometryError> {
        let wrong = |reason: String| {
            Err(GeometryError::NotRigid {
                what: what.to_owned(),
                reason,
            })
        };
        let [r0, r1, r2, last] = matrix;
        if matrix.iter().flatten().any(|v| !v.is_finite()) {
            return wrong("it holds a number that is not finite".to_owned());
        }
        let off = last
            .iter()
            .zip([0.0, 0.0, 0.0, 1.0])
            .any(|(a, b)| (a - b).abs() > TOLERANCE);
        if off {
            return wrong(format!("its last row is {last:?}"));
        }
        let pose = Self { rows: [r0, r1, r2] };
        let axes = pose.rows.map(|[a, b, c, _]| [a, b, c]);
        for (i, a) in axes.iter().enumerate() {
            for (j, b) in axes.iter().enumerate() {
                let wanted = if i == j { 1.0 } else { 0.0 };
                let found = dot(*a, *b);
                if (found - wanted).abs() > TOLERANCE {
                    return wrong(format!(
                        "rows {i} and {j} have the product {found:.4} instead of {wanted}"
                    ));
                }
            }
        }
        let determinant = dot(axes[0], cross(axes[1], axes[2]));
        if determinant < 0.0 {
            return wrong("its determinant is -1, a mirror image: one axis points the wrong way".to_owned());
        }
        Ok(pose)
    }

    /// The map from an object's to the world's axes in Unreal Engine convention (x ahead, y **right**, z up), as OPV2V
    /// and CARLA store it: metres, then degrees in the order roll, yaw, pitch.
    #[must_use]
    pub fn from_ue4([x, y, z, roll, yaw, pitch]: [f64; 6]) -> Self {
        let (sr, cr) = roll.to_radians().sin_cos();
        let (sy, cy) = yaw.to_radians().sin_cos();
        let (sp, cp) = pitch.to_radians().sin_cos();
        let rotation = |rows: [Vec3; 3]| Self {
            rows: rows.map(|[a, b, c]| [a, b, c, 0.0]),
        };
        let turn = rotation([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]]);
        let nod = rotation([[cp, 0.0, -sp], [0.0, 1.0, 0.0], [sp, 0.0, cp]]);
        let lean = rotation([[1.0, 0.0, 0.0], [0.0, cr, sr], [0.0, -sr, cr]]);
        let mut pose = turn.after(&nod).after(&lean);
        for (row, t) in pose.rows.iter_mut().zip([x, y, z]) {
            row[3] = t;
        }
        pose
    }

    /// A camera's place on a vehicle from where it stands and looks: yaw to the left, pitch below the horizon and roll
    /// to the right, radians. Camera axes in, ego axes out.
    #[must_use]
    pub fn of_camera(position: Vec3, yaw: f64, pitch: f64, roll: f64) -> Self {
        let (sy, cy) = yaw.sin_cos();
        let (sp, cp) = pitch.sin_cos();
        let (sr, cr) = roll.sin_cos();
        let forward = [cy * cp, sy * cp, -sp];
        let level = [sy, -cy, 0.0];
        let below = cross(forward, level);
        let mix = |a: f64, b: f64| {
            let [l0, l1, l2] = level;
            let [d0, d1, d2] = below;
            [a * l0 + b * d0, a * l1 + b * d1, a * l2 + b * d2]
        };
        let (right, down) = (mix(cr, sr), mix(-sr, cr));
        let row = |i: usize, t: f64| {
            let pick = |v: Vec3| v.get(i).copied().unwrap_or(0.0);
            [pick(right), pick(down), pick(forward), t]
        };
        Self {
            rows: [row(0, position[0]), row(1, position[1]), row(2, position[2])],
        }
    }

    /// First `inner`, then `self`: the matrix product.
    #[must_use]
    pub fn after(&self, inner: &Self) -> Self {
        let columns = |j: usize| inner.rows.map(|row| row.get(j).copied().unwrap_or(0.0));
        let rows = self.rows.map(|[a, b, c, t]| {
            let turn = |j: usize| dot([a, b, c], columns(j));
            [turn(0), turn(1), turn(2), turn(3) + t]
        });
        Self { rows }
    }

    /// The map back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let [[a, b, c, x], [d, e, f, y], [g, h, i, z]] = self.rows;
        let back = |column: Vec3| {
            let [p, q, r] = column;
            [p, q, r, -dot(column, [x, y, z])]
        };
        Self {
            rows: [back([a, d, g]), back([b, e, h]), back([c, f, i])],
        }
    }

    /// A point in the parent's coordinates.
    #[must_use]
    pub fn apply(&self, point: Vec3) -> Vec3 {
        self.rows.map(|[a, b, c, t]| dot([a, b, c], point) + t)
    }

    /// A direction in the parent's coordinates.
    #[must_use]
    pub fn turn(&self, direction: Vec3) -> Vec3 {
        self.rows.map(|[a, b, c, _]| dot([a, b, c], direction))
    }

    /// The child's origin in the parent's coordinates.
    #[must_use]
    pub fn position(&self) -> Vec3 {
        self.rows.map(|[_, _, _, t]| t)
    }

    /// The 4 × 4 matrix.
    #[must_use]
    pub fn matrix(&self) -> [[f64; 4]; 4] {
        let [a, b, c] = self.rows;
        [a, b, c, [0.0, 0.0, 0.0, 1.0]]
    }

    /// Camera to ego in the axes of this crate, from a pose in Unreal axes on both sides (camera x forward, y right,
    /// z up; ego y right).
    #[must_use]
    pub fn camera_from_ue4(camera_to_ego: &Self) -> Self {
        let [[a, b, c, x], [d, e, f, y], [g, h, i, z]] = camera_to_ego.rows;
        // Camera: picture (right, down, forward) is Unreal (forward, right, up) = (z, x, -y). Ego: y changes its sign.
        Self {
            rows: [[b, -c, a, x], [-e, f, -d, -y], [h, -i, g, z]],
        }
    }

    /// The inverse of [`Pose::camera_from_ue4`].
    #[must_use]
    pub fn camera_to_ue4(&self) -> Self {
        let [[b, c, a, x], [e, f, d, y], [h, i, g, z]] = self.rows;
        Self {
            rows: [[a, b, -c, x], [-d, -e, f, -y], [g, h, -i, z]],
        }
    }
}

pub(crate) fn dot([ax, ay, az]: Vec3, [bx, by, bz]: Vec3) -> f64 {
    ax * bx + ay * by + az * bz
}

fn cross([ax, ay, az]: Vec3, [bx, by, bz]: Vec3) -> Vec3 {
    [ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx]
}

const TOLERANCE: f64 = 1e-3;

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use super::*;

    fn near(found: [[f64; 4]; 4], expected: [[f64; 4]; 4], tolerance: f64) {
        for (a, b) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((a - b).abs() < tolerance, "{found:?} is not {expected:?}");
        }
    }

    /// Computed by the data set's own published transform.
    #[test]
    fn ue4_pose_golden() {
        let pose = Pose::from_ue4([1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
        let expected = [
            [0.813_798, -0.255_236, -0.522_099, 1.0],
            [0.296_198, 0.955_112, -0.005_236, 2.0],
            [0.5, -0.150_384, 0.852_869, 3.0],
            [0.0, 0.0, 0.0, 1.0],
        ];
        near(pose.matrix(), expected, 1e-6);
        assert!(Pose::new("golden", pose.matrix()).is_ok(), "determinant 1");
    }

    #[test]
    fn inverse_and_product_undo_each_other() {
        let a = Pose::from_ue4([1.0, -2.0, 3.0, 10.0, 120.0, -30.0]);
        let b = Pose::from_ue4([-4.0, 5.0, 0.5, -3.0, 40.0, 7.0]);
        near(a.after(&a.inverse()).matrix(), Pose::IDENTITY.matrix(), 1e-12);
        let point = [0.3, -0.7, 2.0];
        let (once, twice) = (a.after(&b).apply(point), a.apply(b.apply(point)));
        assert!(once.iter().zip(twice).all(|(p, q)| (p - q).abs() < 1e-12));
    }

    /// A camera that looks ahead and level: picture right is the vehicle's right, picture down is down.
    #[test]
    fn axes_change_between_unreal_and_picture() {
        let pose = Pose::camera_from_ue4(&Pose::from_ue4([2.5, 0.4, 1.0, 0.0, 0.0, 0.0]));
        assert_eq!(pose.position(), [2.5, -0.4, 1.0], "y right became y left");
        assert_eq!(pose.turn([0.0, 0.0, 1.0]), [1.0, 0.0, 0.0]);
        assert_eq!(pose.turn([1.0, 0.0, 0.0]), [0.0, -1.0, 0.0]);
        assert_eq!(pose.turn([0.0, 1.0, 0.0]), [0.0, 0.0, -1.0]);
        // Yaw 100 in Unreal turns to the right.
        let right = Pose::camera_from_ue4(&Pose::from_ue4([0.0, 0.3, 1.8, 0.0, 100.0, 0.0]));
        let forward = right.turn([0.0, 0.0, 1.0]);
        assert!(forward[1] < -0.98 && right.position()[1] < 0.0, "{forward:?}");
        let any = Pose::from_ue4([1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
        let changed = Pose::camera_from_ue4(&any);
        assert!(
            Pose::new("changed", changed.matrix()).is_ok(),
            "still no mirror image"
        );
        near(changed.camera_to_ue4().matrix(), any.matrix(), 1e-12);
    }

    #[test]
    fn both_ways_to_state_a_camera_agree() {
        // Yaw left 30, pitch down 10, roll right 5; Unreal counts yaw to the right, pitch up and roll to the right.
        let ours = Pose::of_camera(
            [1.0, 0.5, 1.5],
            30_f64.to_radians(),
            10_f64.to_radians(),
            5_f64.to_radians(),
        );
        let theirs = Pose::camera_from_ue4(&Pose::from_ue4([1.0, -0.5, 1.5, 5.0, -30.0, -10.0]));
        near(ours.matrix(), theirs.matrix(), 1e-9);
    }

    #[test]
    fn what_is_no_rigid_motion_is_refused_with_the_reason() {
        let with = |change: fn(&mut [[f64; 4]; 4])| {
            let mut matrix = Pose::IDENTITY.matrix();
            change(&mut matrix);
            Pose::new("camera 'front'", matrix).unwrap_err().to_string()
        };
        assert!(with(|m| m[0][0] = -1.0).contains("mirror image"));
        assert!(with(|m| m[0][0] = 1.1).contains("product"));
        assert!(with(|m| m[1][2] = f64::NAN).contains("not finite"));
        assert!(with(|m| m[3][0] = 1.0).contains("last row"));
        assert!(with(|m| m[0][1] = 0.2).contains("camera 'front'"));
    }
}
