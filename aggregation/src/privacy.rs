//! What noise is worth: differential privacy of the Gaussian mechanism, and a ledger of what was spent.
//!
//! [`gaussian`] answers exactly for one mechanism and for several of equal kind; [`zcdp`] adds up different ones, a little
//! above the truth; [`discrete`] is the exact figure for integer noise in one dimension. Who counts as a neighbour is part
//! of every claim: a descriptor's noise hides one record of a client, a sum's hides a whole client ([`ledger::Unit`]).
//! There is no amplification by sampling here: the clients of a round are known.

pub mod discrete;
pub mod gaussian;
pub mod ledger;
mod normal;
pub mod zcdp;

/// A question that has no answer. The caller's setting is at fault.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrivacyError {
    /// Epsilon must be positive.
    #[error("epsilon {0} is not a positive number")]
    Epsilon(f64),
    /// Delta is a probability.
    #[error("delta {0} is not between 0 and 1")]
    Delta(f64),
    /// Noise of no size.
    #[error("a noise multiplier of {0} is not a positive number")]
    Multiplier(f64),
    /// No zero-concentrated privacy.
    #[error("rho {0} is not a number from 0 up")]
    Rho(f64),
}

fn check_epsilon(epsilon: f64) -> Result<(), PrivacyError> {
    (epsilon.is_finite() && epsilon > 0.0)
        .then_some(())
        .ok_or(PrivacyError::Epsilon(epsilon))
}

fn check_delta(delta: f64) -> Result<(), PrivacyError> {
    (delta > 0.0 && delta < 1.0)
        .then_some(())
        .ok_or(PrivacyError::Delta(delta))
}

fn check_multiplier(multiplier: f64) -> Result<(), PrivacyError> {
    (multiplier.is_normal() && multiplier > 0.0)
        .then_some(())
        .ok_or(PrivacyError::Multiplier(multiplier))
}

fn check_rho(rho: f64) -> Result<(), PrivacyError> {
    (rho.is_finite() && rho >= 0.0)
        .then_some(())
        .ok_or(PrivacyError::Rho(rho))
}
