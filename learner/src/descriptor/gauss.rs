//! Exact samples of the discrete Gaussian, in integers only: Canonne, Kamath and Steinke, "The Discrete Gaussian for
//! Differential Privacy", algorithms 1 to 3. Floating-point noise has known attacks. Not constant in time.

use rand_core::CryptoRng;

/// An integer `x` with probability proportional to `exp(-x² / 2σ²)`.
///
/// `sigma` from 1 to 2²⁰, which keeps every product below within 128 bits.
pub(super) fn discrete_gaussian<R: CryptoRng + ?Sized>(sigma: u32, rng: &mut R) -> i64 {
    let sigma = u128::from(sigma.clamp(1, 1 << 20));
    let scale = sigma + 1;
    loop {
        let (negative, size) = laplace(scale, rng);
        let distance = (size * scale).abs_diff(sigma * sigma);
        let (over, under) = (distance * distance, 2 * sigma * sigma * scale * scale);
        if decays(over, under, rng) {
            // Sizes beyond 2⁶² come with probability below exp(-2⁴⁰).
            let size = i64::try_from(size).unwrap_or(i64::MAX);
            return if negative { -size } else { size };
        }
    }
}

/// Sign and size of an integer with probability proportional to `exp(-|x| / scale)`.
fn laplace<R: CryptoRng + ?Sized>(scale: u128, rng: &mut R) -> (bool, u128) {
    loop {
        let fine = below(scale, rng);
        if !decays(fine, scale, rng) {
            continue;
        }
        let mut coarse = 0;
        // More than 2²⁰ in a row: probability exp(-2²⁰).
        while coarse < 1 << 20 && decays(1, 1, rng) {
            coarse += 1;
        }
        let size = fine + scale * coarse;
        let negative = rng.next_u32() & 1 == 1;
        if !(negative && size == 0) {
            return (negative, size);
        }
    }
}

/// True with probability `exp(-over / under)`.
fn decays<R: CryptoRng + ?Sized>(over: u128, under: u128, rng: &mut R) -> bool {
    for _ in 0..over / under {
        if !decays_once(1, 1, rng) {
            return false;
        }
    }
    decays_once(over % under, under, rng)
}

/// The same for at most 1.
fn decays_once<R: CryptoRng + ?Sized>(over: u128, under: u128, rng: &mut R) -> bool {
    let mut count: u128 = 1;
    while below(under * count, rng) < over {
        count += 1;
    }
    count % 2 == 1
}

/// Evenly below `bound`, which is at least 1.
fn below<R: CryptoRng + ?Sized>(bound: u128, rng: &mut R) -> u128 {
    let mask = u128::MAX >> (bound - 1).leading_zeros().min(127);
    loop {
        let mut value = u128::from(rng.next_u64());
        if mask > u128::from(u64::MAX) {
            value |= u128::from(rng.next_u64()) << 64;
        }
        if value & mask < bound {
            return value & mask;
        }
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "samples below 2^27")]
mod tests {
    use super::*;
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    /// Against the exact probabilities: chi-square over the cells expected 5 times or more. The 0.9999 quantile of 20
    /// degrees of freedom is 52.4; there are fewer.
    #[test]
    fn frequencies_are_those_of_the_definition() {
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        for sigma in [1_u32, 2, 3] {
            let weight = |x: i64| (-(x * x) as f64 / (2.0 * f64::from(sigma).powi(2))).exp();
            let total: f64 = (-60..=60).map(weight).sum();
            let draws = 100_000;
            let mut counts = std::collections::BTreeMap::new();
            for _ in 0..draws {
                *counts.entry(discrete_gaussian(sigma, &mut rng)).or_insert(0_u32) += 1;
            }
            let mut chi = 0.0;
            for x in -60..=60_i64 {
                let expected = f64::from(draws) * weight(x) / total;
                if expected >= 5.0 {
                    let seen = f64::from(counts.get(&x).copied().unwrap_or(0));
                    chi += (seen - expected).powi(2) / expected;
                }
            }
            assert!(chi < 52.4, "sigma {sigma}: {chi}");
        }
    }

    #[test]
    fn a_wide_one_has_the_moments_of_the_normal_distribution() {
        let mut rng = ChaCha20Rng::seed_from_u64(8);
        let n = 20_000;
        let draws: Vec<f64> = (0..n)
            .map(|_| discrete_gaussian(1 << 20, &mut rng) as f64 / f64::from(1 << 20))
            .collect();
        let moment = |power| draws.iter().map(|x| x.powi(power)).sum::<f64>() / f64::from(n);
        // Standard errors: 1, √2, √96 over √n.
        let unit = f64::from(n).sqrt().recip();
        assert!(moment(1).abs() < 4.0 * unit, "{}", moment(1));
        assert!(
            (moment(2) - 1.0).abs() < 4.0 * 2_f64.sqrt() * unit,
            "{}",
            moment(2)
        );
        assert!(
            (moment(4) - 3.0).abs() < 4.0 * 96_f64.sqrt() * unit,
            "{}",
            moment(4)
        );
    }
}
