//! Commitments an auditor checks: each client commits to its self-mask seeds before it knows who else takes part.

use crate::context::PlanContext;
use crate::id::{ClientId, ClusterId};
use crate::label::{Digest, Label};
use crate::share::SelfSeed;

/// The commitment to `b[u,k]`. A seed has 252 bits of entropy, so the hash hides it.
#[must_use]
pub fn commit(seed: &SelfSeed, owner: ClientId, cluster: ClusterId, context: &PlanContext) -> Digest {
    let bytes = seed.to_bytes();
    SELF_COMMITMENT.hash(&[
        &context.digest().0,
        &owner.0.to_le_bytes(),
        &cluster.0.to_le_bytes(),
        &*bytes,
    ])
}

const SELF_COMMITMENT: Label = Label::new("self-commitment");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, rng};

    #[test]
    fn a_commitment_binds_owner_cluster_round_and_seed() {
        let mut rng = rng(5);
        let (seed, other) = (SelfSeed::generate(&mut rng), SelfSeed::generate(&mut rng));
        let (u, k, ctx) = (ClientId(1), ClusterId(2), context(0).plan);
        let base = commit(&seed, u, k, &ctx);
        assert_eq!(base, commit(&seed, u, k, &ctx));
        assert_ne!(base, commit(&other, u, k, &ctx));
        assert_ne!(base, commit(&seed, ClientId(2), k, &ctx));
        assert_ne!(base, commit(&seed, u, ClusterId(1), &ctx));
        assert_ne!(base, commit(&seed, u, k, &context(1).plan));
    }
}
