//! Fixed contexts and a seeded generator for tests. Never in a release build.

use crate::context::{PlanContext, RoundContext};
use crate::id::{Attempt, RoundId, SuiteId};
use crate::label::Digest;
use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;

/// A named generator: the same seed gives the same bytes in every version.
#[must_use]
pub fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// The context of a made-up round.
#[must_use]
pub fn context(round: u64) -> RoundContext {
    PlanContext {
        suite: SuiteId::SUITE_1,
        federation: Digest([1; 32]),
        round: RoundId(round),
        attempt: Attempt(0),
        policy: Digest([2; 32]),
        plan: Digest([3; 32]),
    }
    .with_roster(Digest([4; 32]))
}
