//! A small world of boxes and trunks, and the rays that look into it.
//!
//! World axes: x ahead, y left, z up, metres. A ray's direction has length 1 along the camera's viewing direction, so
//! the distance along the ray *is* the planar depth.

use chacha20::ChaCha20Rng;
use rand_core::Rng;

use crate::data::generator::camera::Camera;
use crate::data::generator::{Light, Place};
use crate::data::scene::noise::{hash, unit};
use crate::data::scene::ray::{NEAREST_M, Ray, Vec3, crossing, trunk_hit};

mod build;
pub(crate) mod noise;
pub(crate) mod ray;

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

    /// Drops what the camera cannot see, which changes no picture and saves most of its time.
    pub(crate) fn keep_visible(&mut self, camera: &Camera) {
        self.solids.retain(|solid| match solid.shape {
            Shape::Block { low, high } => {
                let corner = |i: u8| {
                    let pick = |bit: u8, a: f32, b: f32| if i & bit == 0 { a } else { b };
                    [
                        pick(1, low[0], high[0]),
                        pick(2, low[1], high[1]),
                        pick(4, low[2], high[2]),
                    ]
                };
                let corners: [Vec3; 8] = [0, 1, 2, 3, 4, 5, 6, 7].map(corner);
                camera.may_see(&corners, 0.0)
            }
            Shape::Trunk {
                centre: [x, y],
                radius,
                height,
            } => camera.may_see(&[[x, y, 0.0], [x, y, height]], radius),
        });
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
