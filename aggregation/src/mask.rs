//! Putting masks on and taking them off. What a client adds in `mask` is what the server removes in `unmask`; the auditor
//! removes it with code of its own.

use std::collections::BTreeMap;
use veilsum_attestation::statement::ClientSet;
use veilsum_crypto::share::SelfSeed;
use veilsum_crypto::stream::{AesCtr, MaskStream, Sign};
use veilsum_crypto::{AgreeError, ClientId, ClusterId, Digest, MaskPublic, MaskSecret, RoundContext};

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

impl MaskScope<'_> {
    /// Adds to `words` the pairwise masks `me` owes to `peers`, and its self-mask.
    ///
    /// # Errors
    /// [`AgreeError`] for a peer's key that is no key.
    pub fn put_on(
        &self,
        words: &mut [u32],
        me: ClientId,
        secret: &MaskSecret,
        self_seed: &SelfSeed,
        peers: &BTreeMap<ClientId, MaskPublic>,
    ) -> Result<(), AgreeError> {
        for (peer, key) in peers.iter().filter(|(peer, _)| **peer != me) {
            self.pair(words, me, secret, *peer, key, Sign::Plus)?;
        }
        let seed = self_seed.stream_seed(me, self.cluster, &self.model, self.context);
        AesCtr::new(&seed).apply(Sign::Plus, 0, words);
        Ok(())
    }

    /// Removes a survivor's self-mask from a sum.
    pub fn take_off_self(&self, sum: &mut [u32], owner: ClientId, seed: &SelfSeed) {
        let seed = seed.stream_seed(owner, self.cluster, &self.model, self.context);
        AesCtr::new(&seed).apply(Sign::Minus, 0, sum);
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
        for (survivor, key) in keys.iter().filter(|(client, _)| survivors.contains(client)) {
            // Adding the dropped client's own side cancels the survivor's.
            self.pair(sum, dropped, secret, *survivor, key, Sign::Plus)?;
        }
        Ok(())
    }

    fn pair(
        &self,
        words: &mut [u32],
        me: ClientId,
        secret: &MaskSecret,
        peer: ClientId,
        key: &MaskPublic,
        sign: Sign,
    ) -> Result<(), AgreeError> {
        let seed = secret.pair_seed(me, peer, key, self.cluster, &self.model, self.context)?;
        let sign = if me < peer { sign } else { sign.flip() };
        AesCtr::new(&seed).apply(sign, 0, words);
        Ok(())
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
                scope
                    .put_on(&mut words, ids[i], &secrets[i], &seeds[i], &keys)
                    .unwrap();
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
        }
    }
}
