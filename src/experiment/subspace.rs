//! The subspace a client's pictures span, and the principal angles between two (`PACFL`, Vahidian et al. 2023).
//!
//! The authors take one basis a class; depth has no classes, so here it is one over all pictures. Angles are the true
//! principal ones, from the singular values of `Uᵀ V`: the sign of a basis vector says nothing.

use veilsum_learner::Frame;

/// Orthonormal vectors of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Subspace(Vec<Vec<f64>>);

impl Subspace {
    /// The `count` leading left singular vectors of the pictures, each reduced to 16 × 12 cells of mean colour. Fewer where
    /// the pictures span less.
    #[must_use]
    pub fn of_frames(frames: &[Frame], count: usize) -> Self {
        Self::of_columns(&frames.iter().map(reduced).collect::<Vec<_>>(), count)
    }

    /// The `count` leading left singular vectors of a matrix given by its columns.
    #[must_use]
    pub fn of_columns(columns: &[Vec<f64>], count: usize) -> Self {
        let gram = columns
            .iter()
            .map(|a| columns.iter().map(|b| dot(a, b)).collect())
            .collect();
        let mut pairs = eigen(gram);
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
        let most = pairs.first().map_or(0.0, |pair| pair.0);
        let basis = pairs
            .into_iter()
            .take(count)
            .filter(|(value, _)| *value > 1e-12 * most)
            .map(|(value, vector)| {
                let length = columns.first().map_or(0, Vec::len);
                let mut sum = vec![0.0; length];
                for (column, share) in columns.iter().zip(&vector) {
                    for (sum, entry) in sum.iter_mut().zip(column) {
                        *sum += share * entry / value.sqrt();
                    }
                }
                sum
            });
        Self(basis.collect())
    }

    /// Principal angles in degrees, ascending; as many as the smaller one has vectors.
    #[must_use]
    pub fn angles(&self, other: &Self) -> Vec<f64> {
        let (few, many) = if self.0.len() <= other.0.len() {
            (&self.0, &other.0)
        } else {
            (&other.0, &self.0)
        };
        let cross: Vec<Vec<f64>> = few
            .iter()
            .map(|u| many.iter().map(|v| dot(u, v)).collect())
            .collect();
        let square = cross
            .iter()
            .map(|a| cross.iter().map(|b| dot(a, b)).collect())
            .collect();
        let mut angles: Vec<f64> = eigen(square)
            .into_iter()
            .map(|(value, _)| value.clamp(0.0, 1.0).sqrt().acos().to_degrees())
            .collect();
        angles.sort_by(f64::total_cmp);
        angles
    }

    /// The sum of the principal angles: the second of the two measures in the paper. The smallest angle alone says little
    /// of pictures, which all have a bright common part.
    #[must_use]
    pub fn distance(&self, other: &Self) -> f64 {
        self.angles(other).iter().sum()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn reduced(frame: &Frame) -> Vec<f64> {
    let (width, height) = (frame.width(), frame.height());
    let mut sums = vec![[0.0; 4]; COLUMNS * ROWS];
    for (at, pixel) in frame.rgb().as_chunks::<3>().0.iter().enumerate() {
        let (x, y) = (at % width.max(1), at / width.max(1));
        let cell = (y * ROWS / height.max(1)) * COLUMNS + x * COLUMNS / width.max(1);
        if let Some([r, g, b, n]) = sums.get_mut(cell) {
            let [red, green, blue] = pixel.map(|value| f64::from(value) / 255.0);
            *r += red;
            *g += green;
            *b += blue;
            *n += 1.0;
        }
    }
    let mean = |[r, g, b, n]: [f64; 4]| [r, g, b].map(|sum| if n > 0.0 { sum / n } else { 0.0 });
    sums.into_iter().flat_map(mean).collect()
}

/// Eigenvalues and unit eigenvectors of a small symmetric matrix, by Jacobi's rotations.
#[expect(clippy::many_single_char_names, reason = "the textbook's names")]
fn eigen(mut a: Vec<Vec<f64>>) -> Vec<(f64, Vec<f64>)> {
    let n = a.len();
    let at = |a: &[Vec<f64>], i: usize, j: usize| a.get(i).and_then(|row| row.get(j)).copied().unwrap_or(0.0);
    let mut vectors: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect())
        .collect();
    for _ in 0..SWEEPS {
        let off: f64 = (0..n)
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| at(&a, i, j).powi(2))
            .sum();
        let whole: f64 = a.iter().flatten().map(|entry| entry * entry).sum();
        if off <= 1e-30 * whole {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let apq = at(&a, p, q);
                if apq == 0.0 {
                    continue;
                }
                let theta: f64 = (at(&a, q, q) - at(&a, p, p)) / (2.0 * apq);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let c = t.hypot(1.0).recip();
                let s = t * c;
                for row in &mut a {
                    turn(row, p, q, c, s);
                }
                turn_rows(&mut a, p, q, c, s);
                for row in &mut vectors {
                    turn(row, p, q, c, s);
                }
            }
        }
    }
    (0..n)
        .map(|i| {
            (
                at(&a, i, i),
                vectors.iter().filter_map(|row| row.get(i)).copied().collect(),
            )
        })
        .collect()
}

fn turn(row: &mut [f64], p: usize, q: usize, c: f64, s: f64) {
    if let Ok([first, second]) = row.get_disjoint_mut([p, q]) {
        (*first, *second) = (c * *first - s * *second, s * *first + c * *second);
    }
}

#[expect(clippy::many_single_char_names, reason = "the textbook's names")]
fn turn_rows(a: &mut [Vec<f64>], p: usize, q: usize, c: f64, s: f64) {
    if let Ok([first, second]) = a.get_disjoint_mut([p, q]) {
        for (x, y) in first.iter_mut().zip(second) {
            (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
        }
    }
}

const COLUMNS: usize = 16;
const ROWS: usize = 12;
const SWEEPS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn degrees(angle: f64) -> Vec<f64> {
        let (sin, cos) = angle.to_radians().sin_cos();
        vec![cos, sin, 0.0, 0.0]
    }

    #[test]
    fn planes_meet_at_their_angles() {
        let e = |i: usize| -> Vec<f64> { (0..4).map(|j| f64::from(u8::from(i == j))).collect() };
        let plane = Subspace::of_columns(&[e(0), e(2)], 2);
        assert!(plane.distance(&plane) < 1e-5);
        let turned = Subspace::of_columns(&[degrees(30.0), e(2)], 2);
        let angles = plane.angles(&turned);
        assert!(angles[0] < 1e-5 && (angles[1] - 30.0).abs() < 1e-6, "{angles:?}");
        let far = Subspace::of_columns(&[e(1), e(3)], 2);
        assert!((plane.distance(&far) - 180.0).abs() < 1e-6);
        // Another basis of the same plane, signs turned, lengths changed.
        let mixed = Subspace::of_columns(&[vec![-2.0, 0.0, 3.0, 0.0], vec![-1.0, 0.0, -1.0, 0.0]], 2);
        assert!(plane.distance(&mixed) < 1e-5);
        assert_eq!(plane.angles(&Subspace::of_columns(&[e(1)], 2)).len(), 1);
    }

    /// Against numpy: `U, s, _ = svd([[3, 1], [1, 2], [0, 1], [2, 0]])`, first column of U up to sign.
    #[test]
    fn leading_vectors_are_the_singular_ones() {
        let columns = [vec![3.0, 1.0, 0.0, 2.0], vec![1.0, 2.0, 1.0, 0.0]];
        let Subspace(basis) = Subspace::of_columns(&columns, 1);
        let wanted: [f64; 4] = [
            0.774_577_468_177_674_6,
            0.436_456_064_575_167_67,
            0.106_958_145_109_565_49,
            0.445_079_548_712_072_6,
        ];
        let sign = basis[0][0].signum() * wanted[0].signum();
        for (got, want) in basis[0].iter().zip(wanted) {
            assert!((got * sign - want).abs() < 1e-9, "{basis:?}");
        }
        // Two equal pictures span a line.
        let Subspace(line) = Subspace::of_columns(&[columns[0].clone(), columns[0].clone()], 3);
        assert_eq!(line.len(), 1);
    }
}
