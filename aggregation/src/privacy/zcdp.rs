//! Zero-concentrated differential privacy: one number, rho, that adds up over releases (Bun and Steinke).

use super::{PrivacyError, check_delta, check_multiplier, check_rho};

/// What a Gaussian release costs, continuous or discrete: `1/(2z²)` for noise of `z` sensitivities.
///
/// # Errors
/// [`PrivacyError::Multiplier`] if it is not positive.
pub fn rho(multiplier: f64) -> Result<f64, PrivacyError> {
    check_multiplier(multiplier)?;
    Ok(0.5 / multiplier / multiplier)
}

/// The epsilon at `delta` of whatever costs `rho` in total: the least over `α > 1` of
/// `ρα + log(1/(αδ))/(α − 1) + log(1 − 1/α)`, Canonne, Kamath and Steinke, proposition 12. Never below the truth, 7 to 9 %
/// above a single Gaussian's.
///
/// # Errors
/// [`PrivacyError`] for a negative rho or a delta outside 0 to 1.
pub fn epsilon(rho: f64, delta: f64) -> Result<f64, PrivacyError> {
    check_rho(rho)?;
    check_delta(delta)?;
    if rho <= 0.0 {
        return Ok(0.0);
    }
    let bound = |u: f64| {
        let over = u.exp();
        let alpha = 1.0 + over;
        rho * alpha - (alpha * delta).ln() / over + (over / alpha).ln()
    };
    // Falls, then rises: golden section in log(α − 1).
    let ratio = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut low, mut high) = (-25.0, 40.0);
    for _ in 0..120 {
        let (left, right) = (high - ratio * (high - low), low + ratio * (high - low));
        if bound(left) < bound(right) {
            high = right;
        } else {
            low = left;
        }
    }
    Ok(bound(0.5 * (low + high)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::gaussian;

    #[test]
    fn epsilons_are_the_published_ones_and_above_the_exact_gaussian() {
        for (rho, expected) in [
            (0.001, 0.182_895_377),
            (0.01, 0.621_692_655),
            (0.1, 2.141_938_928),
            (0.5, 5.221_534_445),
            (1.0, 7.766_216_625),
        ] {
            let found = epsilon(rho, 1e-6).unwrap();
            assert!((found - expected).abs() < 2e-8, "{rho}: {found}");
            let exact = gaussian::epsilon((0.5 / rho).sqrt(), 1e-6).unwrap();
            assert!(exact < found && found < 1.1 * exact, "{rho}: {exact}");
        }
        let exact = |rho: f64| gaussian::epsilon((0.5 / rho).sqrt(), 1e-6).unwrap();
        assert!((exact(0.001) - 0.167_943_594).abs() < 1e-8);
        assert!((exact(1.0) - 7.286_080_966).abs() < 1e-7);
    }

    #[test]
    fn costs_and_refusals() {
        assert!((rho(0.5).unwrap() - 2.0).abs() < 1e-15);
        assert!(epsilon(0.0, 1e-6).unwrap() <= 0.0);
        assert_eq!(rho(0.0), Err(PrivacyError::Multiplier(0.0)));
        assert_eq!(epsilon(-1.0, 1e-6), Err(PrivacyError::Rho(-1.0)));
        assert_eq!(epsilon(1.0, 2.0), Err(PrivacyError::Delta(2.0)));
        let mut last = 0.0;
        for step in 1..50 {
            let now = epsilon(0.05 * f64::from(step), 1e-6).unwrap();
            assert!(now > last);
            last = now;
        }
    }
}
