//! Putting masks on and taking them off. What a client adds in `mask` is what the server removes in `unmask`; the auditor
//! removes it with code of its own.

use std::collections::BTreeMap;
use veilsum_attestation::statement::ClientSet;
use veilsum_crypto::share::SelfSeed;
use veilsum_crypto::stream::{AesCtr, Sign, apply_all};
use veilsum_crypto::{
    AgreeError, ClientId, ClusterId, Digest, MaskPublic, MaskSecret, PairSecret, RoundContext,
};

/// Which cluster of which round masks are for.
#[derive(Clone, Copy, Debug)]
pub struct MaskScope<'a> {
    /// The round.
    pub context: &'a RoundContext,
    /// The cluster.
    pub cluster: ClusterId,
    /// The model the cluster starts from.
    pub model: Digest,
}

impl<'a> MaskScope<'a> {
    /// Adds to `words` the pairwise masks `me` owes to those it is paired with, and its self-mask.
    pub fn put_on<'p>(
        &self,
        words: &mut [u32],
        me: ClientId,
        self_seed: &SelfSeed,
        pairs: impl Iterator<Item = &'p PairSecret>,
    ) {
        let mut masks = Masks::new(*self);
        for pair in pairs {
            masks.pair(me, pair);
        }
        masks.own(Sign::Plus, me, self_seed);
        masks.apply(words);
    }

    /// Removes a survivor's self-mask from a sum.
    pub fn take_off_self(&self, sum: &mut [u32], owner: ClientId, seed: &SelfSeed) {
        let mut masks = Masks::new(*self);
        masks.survivor(owner, seed);
        masks.apply(sum);
    }

    /// Removes what the survivors added for a client that dropped: their side of each pair is the negative of its own.
    ///
    /// # Errors
    /// [`AgreeError`] for a survivor's key that is no key.
    pub fn take_off_dropped(
        &self,
        sum: &mut [u32],
        dropped: ClientId,
        secret: &MaskSecret,
        survivors: &ClientSet,
        keys: &BTreeMap<ClientId, MaskPublic>,
    ) -> Result<(), AgreeError> {
        let mut masks = Masks::new(*self);
        masks.dropped(dropped, secret, survivors, keys)?;
        masks.apply(sum);
        Ok(())
    }

    /// Masks to be taken off a sum together.
    #[must_use]
    pub fn masks(&self) -> Masks<'a> {
        Masks::new(*self)
    }
}

/// Masks that go on or come off one vector in one pass.
pub struct Masks<'a> {
    scope: MaskScope<'a>,
    streams: Vec<(Sign, AesCtr)>,
}

impl<'a> Masks<'a> {
    fn new(scope: MaskScope<'a>) -> Self {
        Self {
            scope,
            streams: Vec::new(),
        }
    }

    /// A survivor's self-mask, to be removed.
    pub fn survivor(&mut self, owner: ClientId, seed: &SelfSeed) {
        self.own(Sign::Minus, owner, seed);
    }

    /// What the survivors added for a client that dropped, to be removed.
    ///
    /// # Errors
    /// [`AgreeError`] for a survivor's key that is no key.
    pub fn dropped(
        &mut self,
        dropped: ClientId,
        secret: &MaskSecret,
        survivors: &ClientSet,
        keys: &BTreeMap<ClientId, MaskPublic>,
    ) -> Result<(), AgreeError> {
        for (survivor, key) in keys.iter().filter(|(client, _)| survivors.contains(client)) {
            // Adding the dropped client's own side cancels the survivor's.
            self.pair(dropped, &secret.pair(dropped, *survivor, key)?);
        }
        Ok(())
    }

    /// Adds and subtracts them all.
    pub fn apply(&self, words: &mut [u32]) {
        apply_all(&self.streams, 0, words);
    }

    /// `me`'s side of a pair.
    fn pair(&mut self, me: ClientId, pair: &PairSecret) {
        let seed = pair.seed(self.scope.cluster, &self.scope.model, self.scope.context);
        let sign = if me == pair.low() { Sign::Plus } else { Sign::Minus };
        self.streams.push((sign, AesCtr::new(&seed)));
    }

    fn own(&mut self, sign: Sign, owner: ClientId, seed: &SelfSeed) {
        let seed = seed.stream_seed(owner, self.scope.cluster, &self.scope.model, self.scope.context);
        self.streams.push((sign, AesCtr::new(&seed)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use veilsum_crypto::testing::{context, rng};

    #[test]
    fn masks_cancel_whoever_drops() {
        let mut rng = rng(11);
        let ids: Vec<ClientId> = [0, 2, 5, 9].map(ClientId).to_vec();
        let secrets: Vec<MaskSecret> = ids.iter().map(|_| MaskSecret::generate(&mut rng)).collect();
        let seeds: Vec<SelfSeed> = ids.iter().map(|_| SelfSeed::generate(&mut rng)).collect();
        let keys: BTreeMap<_, _> = ids
            .iter()
            .copied()
            .zip(secrets.iter().map(MaskSecret::public))
            .collect();
        let context = context(3);
        let scope = MaskScope {
            context: &context,
            cluster: ClusterId(1),
            model: Digest([7; 32]),
        };
        let plain = |i: usize| vec![1u32 << i; 50];
        let masked: Vec<Vec<u32>> = (0..4)
            .map(|i| {
                let mut words = plain(i);
                let pairs: Vec<PairSecret> = keys
                    .iter()
                    .filter(|(peer, _)| **peer != ids[i])
                    .map(|(peer, key)| secrets[i].pair(ids[i], *peer, key).unwrap())
                    .collect();
                scope.put_on(&mut words, ids[i], &seeds[i], pairs.iter());
                assert!(
                    words.iter().zip(plain(i)).filter(|(a, b)| **a == *b).count() < 3,
                    "a mask is missing"
                );
                words
            })
            .collect();
        for alive in 1u32..16 {
            let here = |i: &usize| alive >> *i & 1 == 1;
            let survivors: ClientSet = (0..4).filter(here).map(|i| ids[i]).collect();
            let mut sum = vec![0u32; 50];
            for i in (0..4).filter(here) {
                for (total, word) in sum.iter_mut().zip(&masked[i]) {
                    *total = total.wrapping_add(*word);
                }
                scope.take_off_self(&mut sum, ids[i], &seeds[i]);
            }
            for i in (0..4).filter(|i| !here(i)) {
                scope
                    .take_off_dropped(&mut sum, ids[i], &secrets[i], &survivors, &keys)
                    .unwrap();
            }
            assert_eq!(sum, vec![alive; 50]);

            // All in one pass gives what one after the other gives.
            let mut together = vec![0u32; 50];
            let mut masks = scope.masks();
            for i in 0..4 {
                if here(&i) {
                    for (total, word) in together.iter_mut().zip(&masked[i]) {
                        *total = total.wrapping_add(*word);
                    }
                    masks.survivor(ids[i], &seeds[i]);
                } else {
                    masks.dropped(ids[i], &secrets[i], &survivors, &keys).unwrap();
                }
            }
            masks.apply(&mut together);
            assert_eq!(together, sum);
        }
    }
}
