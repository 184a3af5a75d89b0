//! A camera that turns pixels into rays.

use crate::data::scene::Scene;
use crate::data::scene::ray::{Ray, Vec3};

/// A pinhole camera: x right, y down, z forward.
pub(crate) struct Camera {
    origin: Vec3,
    right: Vec3,
    down: Vec3,
    forward: Vec3,
    focal: f32,
    centre: [f32; 2],
}

impl Camera {
    /// Angles in radians: yaw to the left, pitch below the horizon, roll to the right.
    pub(crate) fn new(origin: Vec3, yaw: f32, pitch: f32, roll: f32, focal: f32, centre: [f32; 2]) -> Self {
        let (sy, cy) = yaw.sin_cos();
        let (sp, cp) = pitch.sin_cos();
        let (sr, cr) = roll.sin_cos();
        let forward = [cy * cp, sy * cp, -sp];
        let level = [sy, -cy, 0.0];
        let below = cross(forward, level);
        let mix = |a: f32, b: f32| {
            let mut out = [0.0; 3];
            for (o, (l, d)) in out.iter_mut().zip(level.iter().zip(below)) {
                *o = a * l + b * d;
            }
            out
        };
        Self {
            origin,
            right: mix(cr, sr),
            down: mix(-sr, cr),
            forward,
            focal,
            centre,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "picture sizes are far below 2^24")]
    pub(crate) fn ray(&self, x: usize, y: usize) -> Ray {
        self.ray_through(x as f32 + 0.5, y as f32 + 0.5)
    }

    /// Nobody steers a robot's nose into a wall: something of the middle must be some way off.
    pub(crate) fn view_is_open(&self, scene: &Scene) -> bool {
        let [cx, cy] = self.centre;
        let is_far = |part: &&f32| scene.distance(&self.ray_through(cx * **part, cy)) > OPEN_M;
        [0.6, 1.0, 1.4].iter().filter(is_far).count() >= 2
    }

    /// False if the camera certainly sees nothing of the hull of some points, thickened by `radius`: all of it lies
    /// outside one side of the picture, or behind.
    pub(crate) fn may_see(&self, points: &[Vec3], radius: f32) -> bool {
        let [across, along] = self.centre.map(|half| half / self.focal);
        let sides = [
            (self.right, 1.0, across),
            (self.right, -1.0, across),
            (self.down, 1.0, along),
            (self.down, -1.0, along),
            (self.forward, 0.0, 1.0),
        ];
        sides.iter().all(|(axis, sign, slope)| {
            let reach = radius * (sign * sign + slope * slope).sqrt();
            points.iter().any(|point| {
                let [x, y, z] = self.origin;
                let gap = [point[0] - x, point[1] - y, point[2] - z];
                sign * dot(*axis, gap) + slope * dot(self.forward, gap) + reach >= 0.0
            })
        })
    }

    fn ray_through(&self, x: f32, y: f32) -> Ray {
        let [cx, cy] = self.centre;
        let (a, b) = ((x - cx) / self.focal, (y - cy) / self.focal);
        let mut direction = self.forward;
        for (d, (r, w)) in direction.iter_mut().zip(self.right.iter().zip(self.down)) {
            *d += a * r + b * w;
        }
        Ray {
            origin: self.origin,
            direction,
        }
    }
}

fn dot([ax, ay, az]: Vec3, [bx, by, bz]: Vec3) -> f32 {
    ax * bx + ay * by + az * bz
}

fn cross([ax, ay, az]: Vec3, [bx, by, bz]: Vec3) -> Vec3 {
    [ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx]
}

/// A view whose middle ends nearer than this is not worth recording.
const OPEN_M: f32 = 1.8;

#[cfg(test)]
mod tests {
    use super::*;

    /// The camera's axes against a ground plane whose depth is known in closed form.
    #[test]
    fn depth_is_planar() {
        let camera = Camera::new([0.0, 0.0, 2.0], 0.4, 0.1, 0.0, 50.0, [32.0, 24.0]);
        for (x, y) in [(0, 40), (31, 40), (63, 40)] {
            let ray = camera.ray(x, y);
            let along: f32 = ray.direction.iter().zip(camera.forward).map(|(d, f)| d * f).sum();
            assert!((along - 1.0).abs() < 1e-5);
            // Without roll a picture row meets the ground at one planar depth.
            let depth = -2.0 / ray.direction[2];
            let slope = 0.1_f32.sin() + 0.1_f32.cos() * 16.5 / 50.0;
            assert!((depth - 2.0 / slope).abs() < 1e-3);
        }
    }
}
