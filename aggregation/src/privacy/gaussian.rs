//! The Gaussian mechanism, exactly: Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy", theorem 8.
//!
//! `multiplier` is the noise's standard deviation over the L2 sensitivity. `T` releases with multiplier `z` are one with
//! `z / √T`, adaptively chosen or not (Dong, Roth and Su, corollary 3.3).

use super::normal::below;
use super::{PrivacyError, check_delta, check_epsilon, check_multiplier};

/// The delta at which the mechanism is `epsilon`-private.
///
/// # Errors
/// [`PrivacyError`] for a multiplier or epsilon that is not positive.
pub fn delta(multiplier: f64, epsilon: f64) -> Result<f64, PrivacyError> {
    check_multiplier(multiplier)?;
    check_epsilon(epsilon)?;
    Ok(profile(multiplier, epsilon))
}

/// The least multiplier that gives (`epsilon`, `delta`), to 12 digits and never below.
///
/// # Errors
/// [`PrivacyError`] for an epsilon that is not positive or a delta outside 0 to 1.
pub fn multiplier(epsilon: f64, delta: f64) -> Result<f64, PrivacyError> {
    check_epsilon(epsilon)?;
    check_delta(delta)?;
    Ok(least(|multiplier| profile(multiplier, epsilon) <= delta))
}

/// The least epsilon that holds at `delta`, to 12 digits and never below; 0 where noise makes up for everything.
///
/// # Errors
/// [`PrivacyError`] for a multiplier that is not positive or a delta outside 0 to 1.
pub fn epsilon(multiplier: f64, delta: f64) -> Result<f64, PrivacyError> {
    check_multiplier(multiplier)?;
    check_delta(delta)?;
    if profile(multiplier, 0.0) <= delta {
        return Ok(0.0);
    }
    Ok(least(|epsilon| profile(multiplier, epsilon) <= delta))
}

/// What `rounds` releases with one multiplier amount to.
#[must_use]
pub fn compose(multiplier: f64, rounds: u32) -> f64 {
    multiplier / f64::from(rounds.max(1)).sqrt()
}

/// `Φ(1/2z − εz) − e^ε Φ(−1/2z − εz)`.
fn profile(multiplier: f64, epsilon: f64) -> f64 {
    let (half, shift) = (0.5 / multiplier, epsilon * multiplier);
    let tail = below(-half - shift);
    // Beyond exp(709) the product is the tail of a tail: below what a double holds unless the tail is 0.
    let tail = if tail > 0.0 {
        (epsilon + tail.ln()).exp()
    } else {
        0.0
    };
    (below(half - shift) - tail).max(0.0)
}

/// The least positive number from which `holds` is true, from above.
fn least(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1e-9_f64, 1e-9_f64);
    while !holds(high) && high < 1e12 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three other programs agree on these.
    #[test]
    fn multipliers_are_the_published_ones() {
        for (epsilon, delta, expected) in [
            (0.1, 1e-5, 30.749_566_132),
            (0.5, 1e-5, 7.031_826_676),
            (1.0, 1e-5, 3.730_631_635),
            (1.0, 1e-6, 4.224_678_889),
            (2.0, 1e-6, 2.230_476_271),
            (8.0, 1e-6, 0.652_935_384),
        ] {
            let found = multiplier(epsilon, delta).unwrap();
            assert!((found - expected).abs() < 1e-8, "({epsilon}, {delta}): {found}");
            assert!(super::delta(found, epsilon).unwrap() <= delta);
            assert!((super::epsilon(found, delta).unwrap() - epsilon).abs() < 1e-9);
        }
    }

    #[test]
    fn rounds_add_up_as_published() {
        for (rounds, expected) in [(1, 3.097_640_259), (10, 11.722_283_142), (100, 53.158_514_183)] {
            let found = epsilon(compose(1.5, rounds), 1e-6).unwrap();
            assert!((found - expected).abs() < 2e-7, "{rounds}: {found}");
        }
    }

    #[test]
    fn more_noise_is_never_worse_and_nonsense_is_refused() {
        let mut last = f64::INFINITY;
        for step in 1..60 {
            let now = epsilon(0.1 * f64::from(step), 1e-6).unwrap();
            assert!(now < last, "{step}");
            last = now;
        }
        assert!(epsilon(1e9, 1e-6).unwrap() <= 0.0);
        assert_eq!(multiplier(0.0, 0.1), Err(PrivacyError::Epsilon(0.0)));
        assert_eq!(multiplier(1.0, 0.0), Err(PrivacyError::Delta(0.0)));
        assert_eq!(multiplier(1.0, 1.0), Err(PrivacyError::Delta(1.0)));
        assert!(matches!(epsilon(f64::NAN, 0.1), Err(PrivacyError::Multiplier(_))));
        assert!(matches!(delta(1.0, f64::INFINITY), Err(PrivacyError::Epsilon(_))));
    }
}
