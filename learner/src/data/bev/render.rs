//! A moment of traffic around a vehicle, and how its cameras see it.

use chacha20::ChaCha20Rng;
use rand_core::Rng;

use crate::bev::{Camera, VehicleBox};
use crate::data::scene::noise::{hash, range, unit};
use crate::data::scene::ray::{NEAREST_M, Ray, Vec3, crossing};

/// Vehicles, things that are none, and the road.
pub(crate) struct Traffic {
    pub(crate) vehicles: Vec<VehicleBox>,
    colours: Vec<Vec3>,
    clutter: Vec<(VehicleBox, Vec3)>,
    /// Angle of the road to the vehicle's heading, and the vehicle's place across it.
    road: (f32, f32),
    grain: u32,
}

impl Traffic {
    /// A road with five lanes within `reach` metres around a vehicle of the given length and width.
    pub(crate) fn draw(reach: f64, (length, width): (f64, f64), rng: &mut ChaCha20Rng) -> Self {
        let mut uniform = |low: f64, high: f64| f64::from(range(rng, 0.0, 1.0)) * (high - low) + low;
        let turn = uniform(-0.12, 0.12);
        let shift = uniform(-0.5, 0.5);
        let mut vehicles: Vec<VehicleBox> = Vec::new();
        let own = VehicleBox {
            x: 0.0,
            y: 0.0,
            bottom: 0.0,
            yaw: 0.0,
            length: length + 1.5,
            width: width + 0.8,
            height: 1.0,
        };
        let place = |along: f64, across: f64| {
            let (s, c) = turn.sin_cos();
            let across = across + shift;
            (along * c - across * s, along * s + across * c)
        };
        for lane in -2_i32..=2 {
            let mut along = -reach + uniform(0.0, 14.0);
            while along < reach {
                let kind = uniform(0.0, 1.0);
                let (length, width, height) = if kind < 0.7 {
                    (uniform(3.8, 4.9), uniform(1.7, 2.0), uniform(1.4, 1.7))
                } else if kind < 0.9 {
                    (uniform(5.0, 7.0), uniform(2.0, 2.3), uniform(2.1, 2.8))
                } else {
                    (uniform(9.0, 12.0), 2.5, uniform(3.0, 3.6))
                };
                along += length / 2.0;
                let (x, y) = place(along, f64::from(lane) * LANE_M + uniform(-0.3, 0.3));
                let heading = if lane < 1 { 0.0 } else { std::f64::consts::PI };
                let vehicle = VehicleBox {
                    x,
                    y,
                    bottom: 0.0,
                    yaw: heading + turn + uniform(-0.06, 0.06),
                    length,
                    width,
                    height,
                };
                along += length / 2.0 + uniform(2.5, 26.0);
                if !touches(&own, &vehicle) {
                    vehicles.push(vehicle);
                }
            }
        }
        let mut clutter = Vec::new();
        for side in [-1.0, 1.0] {
            let mut along = -reach - uniform(0.0, 10.0);
            while along < reach {
                let (length, depth, height) = (uniform(1.0, 9.0), uniform(1.0, 5.0), uniform(0.8, 7.0));
                let across = side * (2.5 * LANE_M + 1.5 + depth / 2.0 + uniform(0.0, 3.0));
                let (x, y) = place(along + length / 2.0, across);
                let block = VehicleBox {
                    x,
                    y,
                    bottom: 0.0,
                    yaw: turn,
                    length,
                    width: depth,
                    height,
                };
                let shade = narrow(uniform(0.35, 0.75));
                clutter.push((block, [shade, 0.93 * shade, 0.8 * shade]));
                along += length + uniform(1.0, 12.0);
            }
        }
        let colours = vehicles
            .iter()
            .map(|_| {
                let mut paint = || 0.1 + 0.8 * range(rng, 0.0, 1.0);
                [paint(), paint(), paint()]
            })
            .collect();
        Self {
            vehicles,
            colours,
            clutter,
            road: (narrow(turn), narrow(shift)),
            grain: rng.next_u32(),
        }
    }

    /// One camera's picture, three bytes a pixel, and of how many pixels each vehicle is the first thing seen.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        reason = "clamped to a byte; picture sizes are small"
    )]
    pub(crate) fn picture(&self, camera: &Camera) -> (Vec<u8>, Vec<u64>) {
        let (width, height) = (camera.intrinsics.width, camera.intrinsics.height);
        let mut bytes = Vec::with_capacity(3 * width * height);
        let mut pixels = vec![0; self.vehicles.len()];
        let origin = camera.to_ego.position().map(narrow);
        let solids: Vec<Solid> = self
            .vehicles
            .iter()
            .chain(self.clutter.iter().map(|(block, _)| block))
            .map(|block| Solid::new(block, origin))
            .collect();
        for y in 0..height {
            for x in 0..width {
                let at = |i: usize| narrow_size(i) + 0.5;
                let direction = camera
                    .to_ego
                    .turn(camera.intrinsics.direction(f64::from(at(x)), f64::from(at(y))))
                    .map(narrow);
                let ray = Ray { origin, direction };
                let (colour, vehicle) = self.look(&ray, &solids);
                if let Some(count) = vehicle.and_then(|i| pixels.get_mut(i)) {
                    *count += 1;
                }
                let noise = 0.03 * (unit(hash(x as i32, y as i32, self.grain)) - 0.5);
                bytes.extend(colour.map(|c| (255.0 * (c + noise)).clamp(0.0, 255.0) as u8));
            }
        }
        (bytes, pixels)
    }

    fn look(&self, ray: &Ray, solids: &[Solid]) -> (Vec3, Option<usize>) {
        let mut nearest = f32::INFINITY;
        let mut seen = None;
        for (i, solid) in solids.iter().enumerate() {
            if let Some((depth, normal, up)) = solid.hit(ray)
                && depth < nearest
            {
                nearest = depth;
                seen = Some((i, normal, up));
            }
        }
        let [_, _, oz] = ray.origin;
        let [_, _, dz] = ray.direction;
        let ground = if dz < 0.0 { -oz / dz } else { f32::INFINITY };
        let sky = [
            0.7 - 0.3 * dz.clamp(0.0, 0.6),
            0.8 - 0.2 * dz.clamp(0.0, 0.6),
            0.92,
        ];
        let mut colour = if ground < nearest {
            let [x, y, _] = ray.at(ground);
            nearest = ground;
            seen = None;
            self.ground(x, y, solids)
        } else if let Some((i, normal, up)) = seen {
            let paint = self.colours.get(i).or_else(|| {
                self.clutter
                    .get(i.wrapping_sub(self.vehicles.len()))
                    .map(|(_, c)| c)
            });
            let [nx, ny, nz] = normal;
            let light = 0.62 + 0.35 * nz + 0.12 * ny - 0.08 * nx;
            // Windows: a dark band around the upper half of vehicles, wheels' shade at the foot.
            let shade = if i >= self.vehicles.len() {
                1.0
            } else if nz < 0.5 && up > 0.55 && up < 0.9 {
                0.3
            } else if up < 0.15 {
                0.5
            } else {
                1.0
            };
            paint.map_or([0.5; 3], |c| c.map(|c| c * light * shade))
        } else {
            return (sky, None);
        };
        let haze = 1.0 - (-nearest / HAZE_M).exp();
        for (c, s) in colour.iter_mut().zip(sky) {
            *c += haze * (s - *c);
        }
        (colour, seen.map(|(i, ..)| i).filter(|&i| i < self.vehicles.len()))
    }

    fn ground(&self, x: f32, y: f32, solids: &[Solid]) -> Vec3 {
        let (turn, shift) = self.road;
        let (s, c) = turn.sin_cos();
        let (along, across) = (x * c + y * s, y * c - x * s - shift);
        #[expect(clippy::cast_possible_truncation, reason = "saturates far outside any scene")]
        let cell = |v: f32| (3.0 * v).floor() as i32;
        let rough = 0.06 * (unit(hash(cell(x), cell(y), self.grain)) - 0.5);
        let lanes = across / narrow(LANE_M) + 2.5;
        if !(-0.3..=5.3).contains(&lanes) {
            return [0.38 + rough, 0.44 + rough, 0.28 + rough];
        }
        let to_line = (lanes - lanes.round()).abs() * narrow(LANE_M);
        let edge = lanes.round() < 0.5 || lanes.round() > 4.5;
        if to_line < 0.09 && (edge || along.rem_euclid(6.0) < 3.0) {
            return [0.85; 3];
        }
        let near = solids
            .iter()
            .take(self.vehicles.len())
            .any(|solid| solid.shades(x, y));
        let level = if near { 0.16 } else { 0.38 };
        [level + rough, level + rough, level + 0.02 + rough]
    }
}

/// A box in its own axes, with the camera's place in them.
struct Solid {
    turn: (f32, f32),
    centre: [f32; 2],
    origin: Vec3,
    low: Vec3,
    high: Vec3,
}

impl Solid {
    fn new(block: &VehicleBox, [ox, oy, oz]: Vec3) -> Self {
        let (s, c) = narrow(block.yaw).sin_cos();
        let centre = [narrow(block.x), narrow(block.y)];
        let (dx, dy) = (ox - centre[0], oy - centre[1]);
        let (l, w) = (narrow(block.length / 2.0), narrow(block.width / 2.0));
        let bottom = narrow(block.bottom);
        Self {
            turn: (s, c),
            centre,
            origin: [dx * c + dy * s, dy * c - dx * s, oz],
            low: [-l, -w, bottom],
            high: [l, w, bottom + narrow(block.height)],
        }
    }

    /// Depth, outward normal in ego axes, and height over the foot as a share.
    fn hit(&self, ray: &Ray) -> Option<(f32, Vec3, f32)> {
        let (s, c) = self.turn;
        let [dx, dy, dz] = ray.direction;
        let own = Ray {
            origin: self.origin,
            direction: [dx * c + dy * s, dy * c - dx * s, dz],
        };
        let (enter, _, [nx, ny, nz], _) = crossing(&own, self.low, self.high)?;
        let [_, _, z] = own.at(enter);
        let ([_, _, low], [_, _, high]) = (self.low, self.high);
        (enter > NEAREST_M).then(|| {
            (
                enter,
                [nx * c - ny * s, nx * s + ny * c, nz],
                (z - low) / (high - low),
            )
        })
    }

    /// Whether ground lies under the box or within a hand's breadth of it.
    fn shades(&self, x: f32, y: f32) -> bool {
        let (s, c) = self.turn;
        let (dx, dy) = (x - self.centre[0], y - self.centre[1]);
        let [l, w, _] = self.high;
        (dx * c + dy * s).abs() < l + 0.2 && (dy * c - dx * s).abs() < w + 0.2
    }
}

/// Whether two boxes' surrounding circles of ground touch where it matters: corners and middles of one in the other.
fn touches(a: &VehicleBox, b: &VehicleBox) -> bool {
    let inside = |outer: &VehicleBox, inner: &VehicleBox| {
        inner.covers([outer.x, outer.y]) || inner.corners().iter().any(|[x, y, _]| outer.covers([*x, *y]))
    };
    inside(a, b) || inside(b, a)
}

#[expect(clippy::cast_possible_truncation, reason = "metres and angles of a scene")]
fn narrow(v: f64) -> f32 {
    v as f32
}

#[expect(clippy::cast_precision_loss, reason = "picture sizes are far below 2^24")]
fn narrow_size(v: usize) -> f32 {
    v as f32
}

const LANE_M: f64 = 3.6;
const HAZE_M: f32 = 160.0;
