//! The discrete Gaussian in one dimension, by summing its probabilities.

use super::{PrivacyError, check_epsilon, check_multiplier};

/// The exact delta at `epsilon` of adding a discrete Gaussian of `sigma` to an integer that changes by `step`:
/// `Σ max(0, p(x) − e^ε p(x − step))`. Slow for a `sigma` beyond thousands, where [`super::gaussian::delta`] is as good.
///
/// # Errors
/// [`PrivacyError`] for a sigma or epsilon that is not positive.
pub fn delta(sigma: f64, step: u32, epsilon: f64) -> Result<f64, PrivacyError> {
    check_multiplier(sigma)?;
    check_epsilon(epsilon)?;
    let weight = |x: f64| (-x * x / (2.0 * sigma * sigma)).exp();
    let step = f64::from(step);
    // 40 standard deviations: what is left out is below exp(-800).
    let reach = (40.0 * sigma).ceil() + step;
    let (mut total, mut excess, mut x) = (0.0, 0.0, -reach);
    while x <= reach {
        total += weight(x);
        excess += (weight(x) - epsilon.exp() * weight(x - step)).max(0.0);
        x += 1.0;
    }
    Ok(excess / total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::gaussian;

    #[test]
    fn deltas_are_the_published_ones() {
        for (sigma, step, epsilon, expected) in [
            (1.0, 1, 1.0, 0.141_351_339_4),
            (2.0, 1, 0.5, 0.054_007_223_69),
            (4.0, 2, 0.5, 0.051_656_174_64),
            (10.0, 3, 0.3, 0.028_867_837_08),
        ] {
            let found = delta(sigma, step, epsilon).unwrap();
            assert!((found - expected).abs() < 1e-10, "{sigma}: {found}");
        }
    }

    #[test]
    fn a_fine_grid_is_as_good_as_none() {
        let (fine, smooth) = (
            delta(1000.0, 500, 1.0).unwrap(),
            gaussian::delta(2.0, 1.0).unwrap(),
        );
        assert!((fine / smooth - 1.0).abs() < 1e-3, "{fine} {smooth}");
        assert!(delta(1.0, 0, 1.0).unwrap() <= 0.0);
        assert!(matches!(delta(0.0, 1, 1.0), Err(PrivacyError::Multiplier(_))));
    }
}
