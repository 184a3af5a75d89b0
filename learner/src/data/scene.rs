//! A small world of boxes and trunks, and the rays that look into it.
//!
//! World axes: x ahead, y left, z up, metres. A ray's direction has length 1 along the camera's viewing direction, so
//! the distance along the ray *is* the planar depth.

use chacha20::ChaCha20Rng;
use rand_core::Rng;

use crate::data::generator::{Light, Place};

pub(crate) type Vec3 = [f32; 3];

/// Where a ray starts and goes.
#[derive(Clone, Copy)]
pub(crate) struct Ray {
    pub(crate) origin: Vec3,
    pub(crate) direction: Vec3,
}

impl Ray {
    fn at(&self, t: f32) -> Vec3 {
        let [ox, oy, oz] = self.origin;
        let [dx, dy, dz] = self.direction;
        [ox + t * dx, oy + t * dy, oz + t * dz]
    }
}

/// What a ray found.
struct Hit {
    depth: f32,
    normal: Vec3,
    surface: Surface,
}

/// How a surface looks.
#[derive(Clone, Copy)]
struct Surface {
    colour: Vec3,
    pattern: Pattern,
}

#[derive(Clone, Copy)]
enum Pattern {
    /// Fine grain only.
    Plain,
    /// Square tiles of this size.
    Tiles(f32),
    /// Windows on a 3 m grid.
    Windows,
    /// Rough patches of this size.
    Patches(f32),
    /// Asphalt with a dashed line in the middle.
    Road,
    /// Vertical stripes.
    Bark,
}

enum Shape {
    Block {
        low: Vec3,
        high: Vec3,
    },
    Trunk {
        centre: [f32; 2],
        radius: f32,
        height: f32,
    },
}

struct Solid {
    shape: Shape,
    surface: Surface,
}

/// Things to look at, with the light on them.
pub(crate) struct Scene {
    solids: Vec<Solid>,
    /// Seen from inside: low and high corner. Indoors only.
    room: Option<(Vec3, Vec3)>,
    ground: Surface,
    light: Light,
    grain: u32,
    reach: f32,
}

impl Scene {
    /// A random scene of a kind.
    pub(crate) fn new(place: Place, light: Light, rng: &mut ChaCha20Rng) -> Self {
        let grain = rng.next_u32();
        let mut scene = Self {
            solids: Vec::new(),
            room: None,
            ground: Surface {
                colour: [0.4; 3],
                pattern: Pattern::Plain,
            },
            light,
            grain,
            reach: place.cap_m(),
        };
        match place {
            Place::Indoor => scene.furnish(rng),
            Place::Street => scene.build_street(rng),
            Place::Forest => scene.plant(rng),
        }
        scene
    }

    /// Whether a camera can stand here: nothing within `margin` metres.
    pub(crate) fn is_free(&self, [x, y, z]: Vec3, margin: f32) -> bool {
        let in_room = self.room.is_none_or(|(low, high)| {
            x > low[0] + margin && x < high[0] - margin && y > low[1] + margin && y < high[1] - margin
        });
        in_room
            && self.solids.iter().all(|solid| match solid.shape {
                Shape::Block { low, high } => {
                    x < low[0] - margin
                        || x > high[0] + margin
                        || y < low[1] - margin
                        || y > high[1] + margin
                        || z > high[2] + margin
                        || z < low[2] - margin
                }
                Shape::Trunk {
                    centre: [cx, cy],
                    radius,
                    ..
                } => (x - cx).hypot(y - cy) > radius + margin,
            })
    }

    /// Where a camera may start: x and y bounds.
    pub(crate) fn floor(&self) -> ([f32; 2], [f32; 2]) {
        match self.room {
            Some((low, high)) => ([low[0], high[0]], [low[1], high[1]]),
            None => ([-4.0, 8.0], [-4.0, 4.0]),
        }
    }

    /// Colour in 0..1 and planar depth in metres, 0 for the sky or beyond reach.
    pub(crate) fn look(&self, ray: &Ray) -> (Vec3, f32) {
        let Some(hit) = self.first_hit(ray) else {
            return (self.sky(ray), 0.0);
        };
        let point = ray.at(hit.depth);
        let texture = self.texture(&hit, point);
        let light = self.light_at(&hit);
        let mut colour = hit.surface.colour;
        for (c, l) in colour.iter_mut().zip(light) {
            *c *= l * texture;
        }
        let haze = if self.room.is_some() {
            0.0
        } else {
            1.0 - (-hit.depth / HAZE_M).exp()
        };
        let sky = self.sky(ray);
        for (c, s) in colour.iter_mut().zip(sky) {
            *c += haze * (s - *c);
        }
        (colour, if hit.depth <= self.reach { hit.depth } else { 0.0 })
    }

    /// Planar depth of whatever a ray meets, infinite if nothing.
    pub(crate) fn distance(&self, ray: &Ray) -> f32 {
        self.first_hit(ray).map_or(f32::INFINITY, |hit| hit.depth)
    }

    fn first_hit(&self, ray: &Ray) -> Option<Hit> {
        let mut best: Option<Hit> = None;
        let mut nearest = f32::INFINITY;
        let [_, _, oz] = ray.origin;
        let [_, _, dz] = ray.direction;
        if dz < 0.0 {
            nearest = -oz / dz;
            best = Some(Hit {
                depth: nearest,
                normal: [0.0, 0.0, 1.0],
                surface: self.ground,
            });
        }
        if let Some((low, high)) = self.room
            && let Some((_, leave, _, normal)) = crossing(ray, low, high)
            // Floor and room share a plane: the floor wins.
            && leave < 0.999 * nearest
        {
            nearest = leave;
            let surface = Surface {
                colour: [0.72, 0.7, 0.64],
                pattern: Pattern::Tiles(1.2),
            };
            best = Some(Hit {
                depth: leave,
                normal,
                surface,
            });
        }
        for solid in &self.solids {
            let found = match solid.shape {
                Shape::Block { low, high } => crossing(ray, low, high)
                    .filter(|&(enter, ..)| enter > NEAREST_M)
                    .map(|(enter, _, normal, _)| (enter, normal)),
                Shape::Trunk {
                    centre,
                    radius,
                    height,
                } => trunk_hit(ray, centre, radius, height),
            };
            if let Some((depth, normal)) = found
                && depth < nearest
            {
                nearest = depth;
                best = Some(Hit {
                    depth,
                    normal,
                    surface: solid.surface,
                });
            }
        }
        best.filter(|hit| hit.depth < FARTHEST_M)
    }

    fn sky(&self, ray: &Ray) -> Vec3 {
        let up = ray.direction[2].clamp(0.0, 0.6);
        match self.light {
            Light::Day => [0.72 - 0.4 * up, 0.8 - 0.25 * up, 0.92],
            Light::Night => [0.03, 0.035, 0.06 + 0.05 * up],
        }
    }

    /// Day: sun from the front left above. Night: the robot's own lamp, weaker with distance.
    fn light_at(&self, hit: &Hit) -> Vec3 {
        let [nx, ny, nz] = hit.normal;
        let side = 0.5 + 0.28 * nz + 0.14 * ny - 0.1 * nx;
        match (self.light, self.room.is_some()) {
            (Light::Day, _) => [0.35 + side, 0.35 + side, 0.33 + side],
            (Light::Night, indoor) => {
                let reach = if indoor { 4.0 } else { 12.0 };
                let lamp = 1.0 / (1.0 + (hit.depth / reach).powi(2));
                let level = 0.06 + lamp * (0.45 + 0.5 * side);
                [level, 0.95 * level, 0.8 * level]
            }
        }
    }

    fn texture(&self, hit: &Hit, point: Vec3) -> f32 {
        let (u, v) = surface_coordinates(hit.normal, point);
        // Grain finer than a pixel would only be noise.
        let grain = 0.18 / (1.0 + hit.depth / 12.0);
        let rough = grain * (self.noise(8.0 * u, 8.0 * v) - 0.5);
        let pattern = match hit.surface.pattern {
            Pattern::Plain => 0.0,
            Pattern::Tiles(size) => {
                let parity = (u / size).floor() + (v / size).floor();
                if parity.rem_euclid(2.0) < 1.0 { 0.1 } else { -0.1 }
            }
            Pattern::Windows => {
                let in_window = (u / 3.0).rem_euclid(1.0) > 0.55 && (v / 3.0).rem_euclid(1.0) > 0.5;
                if in_window { -0.45 } else { 0.0 }
            }
            Pattern::Patches(size) => 0.45 * (self.noise(u / size, v / size) - 0.5),
            Pattern::Road => {
                let dash = point[1].abs() < 0.12 && point[0].rem_euclid(4.0) < 2.0;
                if dash {
                    0.9
                } else {
                    0.15 * (self.noise(u, v) - 0.5)
                }
            }
            Pattern::Bark => 0.35 * (self.noise(14.0 * u, 0.8 * v) - 0.5),
        };
        (1.0 + rough + pattern).max(0.05)
    }

    /// Value noise in 0..1 with unit cells.
    fn noise(&self, u: f32, v: f32) -> f32 {
        let (fu, fv) = (u.floor(), v.floor());
        let (tu, tv) = (u - fu, v - fv);
        #[expect(clippy::cast_possible_truncation, reason = "saturates far outside any scene")]
        let (cu, cv) = (fu as i32, fv as i32);
        let at = |du, dv| unit(hash(cu.wrapping_add(du), cv.wrapping_add(dv), self.grain));
        let low = at(0, 0) + tu * (at(1, 0) - at(0, 0));
        let high = at(0, 1) + tu * (at(1, 1) - at(0, 1));
        low + tv * (high - low)
    }

    fn furnish(&mut self, rng: &mut ChaCha20Rng) {
        let (length, width, height) = (range(rng, 4.5, 10.0), range(rng, 4.0, 8.0), range(rng, 2.4, 3.4));
        self.room = Some(([0.0, 0.0, 0.0], [length, width, height]));
        self.ground = Surface {
            colour: wood(rng),
            pattern: Pattern::Tiles(0.5),
        };
        for _ in 0..6 + rng.next_u32() % 5 {
            let tall = rng.next_u32().is_multiple_of(3);
            let size = [
                range(rng, 0.4, 1.4),
                range(rng, 0.4, 1.4),
                if tall { 1.9 } else { range(rng, 0.4, 0.9) },
            ];
            let x = range(rng, 0.0, length - size[0]);
            // Along the walls, so that the middle stays walkable.
            let y = if rng.next_u32().is_multiple_of(2) {
                0.0
            } else {
                width - size[1]
            };
            self.block(
                [x, y, 0.0],
                size,
                Surface {
                    colour: wood(rng),
                    pattern: Pattern::Plain,
                },
            );
        }
        for _ in 0..2 + rng.next_u32() % 2 {
            let at = [range(rng, 0.0, length), range(rng, 0.3 * width, 0.6 * width), 0.0];
            let size = [range(rng, 0.3, 0.8), range(rng, 0.3, 0.8), range(rng, 0.4, 0.8)];
            self.block(
                at,
                size,
                Surface {
                    colour: bright(rng),
                    pattern: Pattern::Plain,
                },
            );
        }
    }

    fn build_street(&mut self, rng: &mut ChaCha20Rng) {
        self.ground = Surface {
            colour: [0.36, 0.36, 0.38],
            pattern: Pattern::Road,
        };
        let half = range(rng, 6.0, 9.0);
        for side in [-1.0_f32, 1.0] {
            let mut x = -25.0;
            while x < 110.0 {
                let (length, depth, height) = (range(rng, 7.0, 16.0), 8.0, range(rng, 4.0, 14.0));
                let front = half + range(rng, 0.0, 2.0);
                let y = if side > 0.0 { front } else { -front - depth };
                let surface = Surface {
                    colour: plaster(rng),
                    pattern: Pattern::Windows,
                };
                self.block([x, y, 0.0], [length, depth, height], surface);
                x += length + range(rng, 0.0, 5.0);
            }
            for _ in 0..3 + rng.next_u32() % 3 {
                let y = side * range(rng, 2.6, half - 2.5) - 0.9;
                let car = Surface {
                    colour: bright(rng),
                    pattern: Pattern::Plain,
                };
                self.block([range(rng, -8.0, 60.0), y, 0.0], [4.2, 1.8, 1.5], car);
            }
            for i in 0_u8..5 {
                let x = 14.0 * f32::from(i) + range(rng, -4.0, 4.0);
                let pole = Surface {
                    colour: [0.3, 0.3, 0.3],
                    pattern: Pattern::Plain,
                };
                self.trunk([x, side * (half - 1.0)], 0.12, 6.0, pole);
            }
        }
    }

    fn plant(&mut self, rng: &mut ChaCha20Rng) {
        self.ground = Surface {
            colour: [0.34, 0.4, 0.2],
            pattern: Pattern::Patches(0.7),
        };
        for _ in 0..46 {
            let bark = Surface {
                colour: [0.36, 0.27, 0.19],
                pattern: Pattern::Bark,
            };
            let at = [range(rng, -10.0, 55.0), range(rng, -24.0, 24.0)];
            self.trunk(at, range(rng, 0.12, 0.4), range(rng, 8.0, 16.0), bark);
        }
        for _ in 0..14 {
            let bush = Surface {
                colour: [0.2, 0.33, 0.14],
                pattern: Pattern::Patches(0.25),
            };
            let at = [range(rng, -6.0, 40.0), range(rng, -18.0, 18.0), 0.0];
            let size = [range(rng, 0.8, 3.0), range(rng, 0.8, 3.0), range(rng, 0.5, 2.4)];
            self.block(at, size, bush);
        }
        for _ in 0..10 {
            let size = range(rng, 0.3, 1.3);
            let rock = Surface {
                colour: [0.45, 0.45, 0.43],
                pattern: Pattern::Patches(0.3),
            };
            let at = [range(rng, -5.0, 35.0), range(rng, -14.0, 14.0), 0.0];
            self.block(at, [size, 0.9 * size, 0.7 * size], rock);
        }
    }

    fn block(&mut self, low: Vec3, size: Vec3, surface: Surface) {
        let high = [low[0] + size[0], low[1] + size[1], low[2] + size[2]];
        self.solids.push(Solid {
            shape: Shape::Block { low, high },
            surface,
        });
    }

    fn trunk(&mut self, centre: [f32; 2], radius: f32, height: f32, surface: Surface) {
        self.solids.push(Solid {
            shape: Shape::Trunk {
                centre,
                radius,
                height,
            },
            surface,
        });
    }
}

/// Where a ray enters and leaves a block, with the outward normal of the face it enters by and the inward normal of the
/// face it leaves by. `None` if it misses or the block lies behind.
fn crossing(ray: &Ray, low: Vec3, high: Vec3) -> Option<(f32, f32, Vec3, Vec3)> {
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

fn trunk_hit(ray: &Ray, centre: [f32; 2], radius: f32, height: f32) -> Option<(f32, Vec3)> {
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

/// Two coordinates along the surface, the second upwards on walls.
fn surface_coordinates([nx, _, nz]: Vec3, [x, y, z]: Vec3) -> (f32, f32) {
    if nz.abs() > 0.5 {
        (x, y)
    } else if nx.abs() > 0.7 {
        (y, z)
    } else {
        (x, z)
    }
}

/// A number in `low..high`.
pub(crate) fn range(rng: &mut ChaCha20Rng, low: f32, high: f32) -> f32 {
    low + (high - low) * unit(rng.next_u32())
}

/// A well-mixed word from a grid position (after the finaliser of `MurmurHash3`).
pub(crate) fn hash(x: i32, y: i32, seed: u32) -> u32 {
    let mut h =
        x.cast_unsigned().wrapping_mul(0x9e37_79b1) ^ y.cast_unsigned().wrapping_mul(0x85eb_ca77) ^ seed;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// The word's top 24 bits as a number in 0..1.
#[expect(clippy::cast_precision_loss, reason = "24 bits fit an f32")]
pub(crate) fn unit(word: u32) -> f32 {
    (word >> 8) as f32 / (1 << 24) as f32
}

fn wood(rng: &mut ChaCha20Rng) -> Vec3 {
    let base = range(rng, 0.3, 0.6);
    [base, 0.72 * base, 0.48 * base]
}

fn plaster(rng: &mut ChaCha20Rng) -> Vec3 {
    let base = range(rng, 0.45, 0.75);
    [base, base * range(rng, 0.8, 1.0), base * range(rng, 0.65, 0.95)]
}

fn bright(rng: &mut ChaCha20Rng) -> Vec3 {
    [range(rng, 0.1, 0.8), range(rng, 0.1, 0.8), range(rng, 0.1, 0.8)]
}

const NEAREST_M: f32 = 0.05;
const FARTHEST_M: f32 = 300.0;
const HAZE_M: f32 = 90.0;

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact values are expected")]
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

    #[test]
    fn ground_depth_is_height_over_slope() {
        let scene = Scene {
            solids: Vec::new(),
            room: None,
            ground: Surface {
                colour: [0.5; 3],
                pattern: Pattern::Plain,
            },
            light: Light::Day,
            grain: 1,
            reach: 80.0,
        };
        let (_, depth) = scene.look(&ray([0.0, 0.0, 1.5], [1.0, 0.3, -0.1]));
        assert!((depth - 15.0).abs() < 1e-4);
        let sky = scene.look(&ray([0.0, 0.0, 1.5], [1.0, 0.0, 0.1])).1;
        let beyond_reach = scene.look(&ray([0.0, 0.0, 1.5], [1.0, 0.0, -0.015])).1;
        assert_eq!([sky, beyond_reach], [0.0, 0.0]);
    }
}
