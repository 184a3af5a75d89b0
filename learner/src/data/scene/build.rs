//! Random rooms, streets and forests.

use chacha20::ChaCha20Rng;
use rand_core::Rng;

use crate::data::scene::noise::range;
use crate::data::scene::ray::Vec3;
use crate::data::scene::{Pattern, Scene, Shape, Solid, Surface};

impl Scene {
    pub(crate) fn furnish(&mut self, rng: &mut ChaCha20Rng) {
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

    pub(crate) fn build_street(&mut self, rng: &mut ChaCha20Rng) {
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

    pub(crate) fn plant(&mut self, rng: &mut ChaCha20Rng) {
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
