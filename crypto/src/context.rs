//! What every derivation of a round is bound to.
//!
//! A server that shows two clients different plans, models or rosters makes them derive masks that do not cancel: its
//! sums are noise, and nothing is opened.

use crate::id::{Attempt, RoundId, SuiteId};
use crate::label::{Digest, Label};

/// Known once the plan is: binds self-mask commitments and box keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanContext {
    /// Cipher suite.
    pub suite: SuiteId,
    /// Digest naming the federation.
    pub federation: Digest,
    /// Round number.
    pub round: RoundId,
    /// Attempt at that round.
    pub attempt: Attempt,
    /// Digest of the signed policy.
    pub policy: Digest,
    /// Leaf hash of the signed plan, which covers membership and the model digest of each cluster.
    pub plan: Digest,
}

impl PlanContext {
    /// The digest that enters derivations.
    #[must_use]
    pub fn digest(&self) -> Digest {
        PLAN_CONTEXT.hash(&[
            &self.suite.0.to_le_bytes(),
            &self.federation.0,
            &self.round.0.to_le_bytes(),
            &self.attempt.0.to_le_bytes(),
            &self.policy.0,
            &self.plan.0,
        ])
    }

    /// The context of the same round once its roster is known.
    #[must_use]
    pub fn with_roster(self, roster: Digest) -> RoundContext {
        RoundContext { plan: self, roster }
    }
}

/// Known once the roster is: binds shares, boxes and masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundContext {
    /// The plan's context.
    pub plan: PlanContext,
    /// Digest over the leaf hashes of all `keys` statements of the round, in client order.
    pub roster: Digest,
}

impl RoundContext {
    /// The digest that enters derivations.
    #[must_use]
    pub fn digest(&self) -> Digest {
        ROUND_CONTEXT.hash(&[&self.plan.digest().0, &self.roster.0])
    }
}

const PLAN_CONTEXT: Label = Label::new("plan-context");
const ROUND_CONTEXT: Label = Label::new("round-context");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_counts() {
        let base = PlanContext {
            suite: SuiteId(1),
            federation: Digest([1; 32]),
            round: RoundId(2),
            attempt: Attempt(3),
            policy: Digest([4; 32]),
            plan: Digest([5; 32]),
        };
        let changed = [
            PlanContext {
                suite: SuiteId(2),
                ..base
            },
            PlanContext {
                federation: Digest([9; 32]),
                ..base
            },
            PlanContext {
                round: RoundId(9),
                ..base
            },
            PlanContext {
                attempt: Attempt(9),
                ..base
            },
            PlanContext {
                policy: Digest([9; 32]),
                ..base
            },
            PlanContext {
                plan: Digest([9; 32]),
                ..base
            },
        ];
        for other in changed {
            assert_ne!(base.digest(), other.digest());
        }
        let round = base.with_roster(Digest([6; 32]));
        assert_ne!(round.digest(), base.with_roster(Digest([7; 32])).digest());
        assert_ne!(round.digest(), changed[0].with_roster(Digest([6; 32])).digest());
    }
}
