//! The normal distribution's tail, to about 14 digits also where it is tiny: the privacy figures are differences of tails.

/// The probability that a standard normal number is below `x`.
pub(super) fn below(x: f64) -> f64 {
    0.5 * erfc(-x / std::f64::consts::SQRT_2)
}

/// `2/√π ∫_x^∞ exp(-t²) dt`: Abramowitz and Stegun, 7.1.6 and 7.1.14.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        2.0 - erfc(-x)
    } else if x < 1.0 {
        // erf as a series of positive terms.
        let (mut term, mut sum, mut n) = (x, x, 1.0);
        while term > sum * f64::EPSILON / 8.0 {
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        1.0 - std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
    } else {
        // A continued fraction, from the far end.
        let fraction = (1..=200).rev().fold(x, |tail, k| x + f64::from(k) / 2.0 / tail);
        (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI / 2.0 / fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Python's `math.erfc` (the C library's).
    #[test]
    fn tails_are_those_of_the_c_library() {
        for (x, value) in REFERENCE {
            let ours = erfc(x);
            assert!((ours / value - 1.0).abs() < 3e-14, "{x}: {ours} for {value}");
        }
        assert!((below(0.0) - 0.5).abs() < 1e-16 && below(40.0) >= 1.0 && below(-40.0) <= 0.0);
    }

    const REFERENCE: [(f64, f64); 9] = [
        (-3.0, 1.999_977_909_503_001_5),
        (-0.5, 1.520_499_877_813_046_5),
        (0.0, 1.0),
        (0.1, 0.887_537_083_981_715_2),
        (1.0, 0.157_299_207_050_285_13),
        (1.9, 0.007_209_570_764_742_532_5),
        (2.0, 0.004_677_734_981_047_265),
        (5.0, 1.537_459_794_428_035_1e-12),
        (20.0, 5.395_865_611_607_900_5e-176),
    ];
}
