//! Rays, and where they meet blocks and trunks.

/// A point or direction: x ahead, y left, z up.
pub(crate) type Vec3 = [f32; 3];

/// Where a ray starts and goes.
#[derive(Clone, Copy)]
pub(crate) struct Ray {
    pub(crate) origin: Vec3,
    pub(crate) direction: Vec3,
}

impl Ray {
    pub(crate) fn at(&self, t: f32) -> Vec3 {
        let [ox, oy, oz] = self.origin;
        let [dx, dy, dz] = self.direction;
        [ox + t * dx, oy + t * dy, oz + t * dz]
    }
}

/// Where a ray enters and leaves a block, with the outward normal of the face it enters by and the inward normal of the
/// face it leaves by. `None` if it misses or the block lies behind.
pub(crate) fn crossing(ray: &Ray, low: Vec3, high: Vec3) -> Option<(f32, f32, Vec3, Vec3)> {
    let (mut enter, mut leave) = (f32::NEG_INFINITY, f32::INFINITY);
    let (mut enter_axis, mut leave_axis) = (0_usize, 0_usize);
    let axes = ray
        .origin
        .iter()
        .zip(ray.direction)
        .zip(low.iter().zip(high))
        .enumerate();
    for (axis, ((&origin, direction), (&low, high))) in axes {
        let inverse = 1.0 / direction;
        let (a, b) = ((low - origin) * inverse, (high - origin) * inverse);
        let (near, far) = (a.min(b), a.max(b));
        if near > enter {
            (enter, enter_axis) = (near, axis);
        }
        if far < leave {
            (leave, leave_axis) = (far, axis);
        }
    }
    if enter > leave || leave <= 0.0 {
        return None;
    }
    let against = |wanted: usize| {
        let mut normal = [0.0; 3];
        for (axis, (n, d)) in normal.iter_mut().zip(ray.direction).enumerate() {
            if axis == wanted {
                *n = -d.signum();
            }
        }
        normal
    };
    Some((enter, leave, against(enter_axis), against(leave_axis)))
}

/// Where a ray meets an upright trunk standing on the ground, with the outward normal there.
pub(crate) fn trunk_hit(ray: &Ray, centre: [f32; 2], radius: f32, height: f32) -> Option<(f32, Vec3)> {
    let [ox, oy, _] = ray.origin;
    let [dx, dy, _] = ray.direction;
    let (px, py) = (ox - centre[0], oy - centre[1]);
    // |p + t·d|² = radius², in the ground plane.
    let square = dx * dx + dy * dy;
    let half = px * dx + py * dy;
    let discriminant = half * half - square * (px * px + py * py - radius * radius);
    if discriminant < 0.0 || square < 1e-9 {
        return None;
    }
    let t = (-half - discriminant.sqrt()) / square;
    let [hx, hy, hz] = ray.at(t);
    let normal = [(hx - centre[0]) / radius, (hy - centre[1]) / radius, 0.0];
    (t > NEAREST_M && hz >= 0.0 && hz <= height).then_some((t, normal))
}

/// Nothing nearer than this is seen, so that a camera does not see what it sits on.
pub(crate) const NEAREST_M: f32 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn ray(origin: Vec3, direction: Vec3) -> Ray {
        Ray { origin, direction }
    }

    #[test]
    fn a_block_is_entered_and_left_where_it_stands() {
        let (enter, leave, front, back) = crossing(
            &ray([0.0, 0.0, 1.0], [1.0, 0.0, 0.0]),
            [3.0, -1.0, 0.0],
            [5.0, 1.0, 2.0],
        )
        .unwrap();
        assert_eq!((enter, leave), (3.0, 5.0));
        assert_eq!((front, back), ([-1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]));
        assert!(
            crossing(
                &ray([0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]),
                [3.0, -1.0, 0.0],
                [5.0, 1.0, 2.0]
            )
            .is_none()
        );
        assert!(
            crossing(
                &ray([0.0, 5.0, 1.0], [1.0, 0.0, 0.0]),
                [3.0, -1.0, 0.0],
                [5.0, 1.0, 2.0]
            )
            .is_none()
        );
    }

    #[test]
    fn a_trunk_is_hit_on_its_near_side() {
        let (t, normal) = trunk_hit(&ray([0.0, 0.0, 1.0], [1.0, 0.0, 0.0]), [4.0, 0.0], 0.5, 2.0).unwrap();
        assert!((t - 3.5).abs() < 1e-5);
        assert!((normal[0] + 1.0).abs() < 1e-5);
        assert!(
            trunk_hit(&ray([0.0, 0.0, 3.0], [1.0, 0.0, 0.0]), [4.0, 0.0], 0.5, 2.0).is_none(),
            "over its top"
        );
        assert!(trunk_hit(&ray([0.0, 0.6, 1.0], [1.0, 0.0, 0.0]), [4.0, 0.0], 0.5, 2.0).is_none());
    }
}
