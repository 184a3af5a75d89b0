//! Shamir's secret sharing over the scalar field of ristretto255 (A. Shamir, "How to share a secret", CACM 1979).
//!
//! Two kinds of secret are shared: a client's mask secret, and one self-mask seed per client and cluster. Both are
//! scalars, so a share is 32 canonical bytes. A holder's abscissa is its client number plus one.

use crate::agree::{MaskSecret, random_scalar};
use crate::context::RoundContext;
use crate::id::{ClientId, ClusterId};
use crate::label::{Digest, Label};
use crate::secret::{hkdf32, redacted};
use crate::stream::StreamSeed;
use curve25519_dalek::scalar::Scalar;
use rand_core::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A client's self-mask seed for one cluster, `b[u,k]`: the second lock on its vector.
///
/// # Security
/// Must not be sent whole; its shares go to the other clients, sealed.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct SelfSeed(Scalar);
redacted!(SelfSeed);

impl SelfSeed {
    /// A fresh seed.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        Self(random_scalar(rng))
    }

    /// The mask stream this seed expands to.
    #[must_use]
    pub fn stream_seed(
        &self,
        owner: ClientId,
        cluster: ClusterId,
        model: &Digest,
        context: &RoundContext,
    ) -> StreamSeed {
        let info = SELF_SEED.hash(&[&owner.0.to_le_bytes(), &cluster.0.to_le_bytes(), &model.0]);
        let bytes = Zeroizing::new(self.0.to_bytes());
        StreamSeed::new(hkdf32(&context.digest().0, &*bytes, &info.0))
    }

    pub(crate) fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }
}

/// A secret that can be dealt in shares and put together again.
pub trait Shared: Sized {
    #[doc(hidden)]
    fn to_scalar(&self) -> &Scalar;
    #[doc(hidden)]
    fn of_scalar(scalar: Scalar) -> Self;
}

impl Shared for SelfSeed {
    fn to_scalar(&self) -> &Scalar {
        &self.0
    }
    fn of_scalar(scalar: Scalar) -> Self {
        Self(scalar)
    }
}

impl Shared for MaskSecret {
    fn to_scalar(&self) -> &Scalar {
        self.scalar()
    }
    fn of_scalar(scalar: Scalar) -> Self {
        Self::from_scalar(scalar)
    }
}

/// One holder's share: 32 canonical bytes.
///
/// # Security
/// May be sent only sealed to its holder, or revealed by its holder in the unmask phase.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Share(Scalar);
redacted!(Share);

impl Share {
    /// Reads 32 bytes.
    ///
    /// # Errors
    /// [`ShareError::NonCanonical`] when they are not the reduced form of a scalar.
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, ShareError> {
        Option::from(Scalar::from_canonical_bytes(bytes))
            .map(Self)
            .ok_or(ShareError::NonCanonical)
    }

    /// The share's bytes, wiped when dropped.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }
}

/// Deals `secret` so that any `threshold` of `holders` give it back and fewer learn nothing. Shares come in the order
/// of `holders`.
///
/// # Errors
/// [`ShareError::Threshold`] unless `1 <= threshold <= holders`; [`ShareError::Duplicate`] for a holder named twice.
pub fn split<S: Shared, R: CryptoRng + ?Sized>(
    secret: &S,
    threshold: usize,
    holders: &[ClientId],
    rng: &mut R,
) -> Result<Vec<Share>, ShareError> {
    if threshold == 0 || threshold > holders.len() {
        return Err(ShareError::Threshold {
            threshold,
            holders: holders.len(),
        });
    }
    refuse_duplicates(holders)?;
    // Coefficients from the constant term up; Horner runs from the top.
    let mut polynomial = Zeroizing::new(Vec::with_capacity(threshold));
    polynomial.push(*secret.to_scalar());
    polynomial.extend((1..threshold).map(|_| random_scalar(rng)));
    Ok(holders
        .iter()
        .map(|holder| {
            let x = Scalar::from(holder.abscissa());
            Share(
                polynomial
                    .iter()
                    .rev()
                    .fold(Scalar::ZERO, |sum, coefficient| sum * x + coefficient),
            )
        })
        .collect())
}

/// Puts secrets together from the shares of one fixed set of holders. The Lagrange coefficients are computed once and
/// serve every secret those holders answer for.
pub struct Reconstructor {
    holders: Vec<ClientId>,
    coefficients: Vec<Scalar>,
}

impl Reconstructor {
    /// Prepares for the given holders; their number is the threshold.
    ///
    /// # Errors
    /// [`ShareError::Duplicate`] for a holder named twice, [`ShareError::Threshold`] for none.
    pub fn new(holders: &[ClientId]) -> Result<Self, ShareError> {
        if holders.is_empty() {
            return Err(ShareError::Threshold {
                threshold: 0,
                holders: 0,
            });
        }
        refuse_duplicates(holders)?;
        let xs: Vec<Scalar> = holders
            .iter()
            .map(|holder| Scalar::from(holder.abscissa()))
            .collect();
        let mut denominators: Vec<Scalar> = xs
            .iter()
            .enumerate()
            .map(|(i, xi)| {
                xs.iter()
                    .enumerate()
                    .filter(|(j, _)| *j != i)
                    .fold(Scalar::ONE, |product, (_, xj)| product * (xj - xi))
            })
            .collect();
        // One inversion for all (Montgomery's trick); no denominator is zero because holders are distinct.
        Scalar::invert_batch_alloc(&mut denominators);
        let all: Scalar = xs.iter().product();
        let mut inverse_xs = xs;
        Scalar::invert_batch_alloc(&mut inverse_xs);
        let coefficients = denominators
            .iter()
            .zip(&inverse_xs)
            .map(|(inverse, inverse_x)| all * inverse_x * inverse)
            .collect();
        Ok(Self {
            holders: holders.to_vec(),
            coefficients,
        })
    }

    /// The holders whose shares are expected, in order.
    #[must_use]
    pub fn holders(&self) -> &[ClientId] {
        &self.holders
    }

    /// The secret the shares stand for, in the order of the holders. Wrong shares give a wrong secret: the caller
    /// checks it against its public key or commitment.
    ///
    /// # Errors
    /// [`ShareError::Count`] when there are more or fewer shares than holders.
    pub fn reconstruct<'a, S: Shared>(
        &self,
        shares: impl ExactSizeIterator<Item = &'a Share>,
    ) -> Result<S, ShareError> {
        if shares.len() != self.coefficients.len() {
            return Err(ShareError::Count {
                got: shares.len(),
                want: self.coefficients.len(),
            });
        }
        Ok(S::of_scalar(
            self.coefficients
                .iter()
                .zip(shares)
                .map(|(coefficient, share)| coefficient * share.0)
                .sum(),
        ))
    }
}

/// Which of a client's secrets a share belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Secret {
    /// The mask secret, opened only for a client that dropped.
    MaskKey,
    /// The self-mask seed of one cluster, opened only for a survivor of a released cluster.
    SelfMask(ClusterId),
}

/// Binds a dealer to one share. Its holder checks it on receipt and everybody checks it when the share is revealed, so
/// a wrong share names its revealer and a wrong dealing names its dealer. A share has 252 bits of entropy, so its digest
/// hides it.
#[must_use]
pub fn share_digest(
    share: &Share,
    dealer: ClientId,
    holder: ClientId,
    secret: Secret,
    context: &RoundContext,
) -> Digest {
    let (kind, cluster) = match secret {
        Secret::MaskKey => (0u8, 0u16),
        Secret::SelfMask(cluster) => (1, cluster.0),
    };
    let bytes = share.to_bytes();
    SHARE_DIGEST.hash(&[
        &context.digest().0,
        &dealer.0.to_le_bytes(),
        &holder.0.to_le_bytes(),
        &[kind],
        &cluster.to_le_bytes(),
        &*bytes,
    ])
}

fn refuse_duplicates(holders: &[ClientId]) -> Result<(), ShareError> {
    let mut sorted = holders.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    }) {
        Some(client) => Err(ShareError::Duplicate(client)),
        None => Ok(()),
    }
}

/// Why shares cannot be dealt or put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The threshold is zero or exceeds the number of holders.
    #[error("threshold {threshold} of {holders} holders is impossible; correct the policy")]
    Threshold {
        /// Shares needed.
        threshold: usize,
        /// Holders there are.
        holders: usize,
    },
    /// A holder is named twice.
    #[error("{0} is named twice among the holders of shares; the roster is wrong")]
    Duplicate(ClientId),
    /// The number of shares is not the number of holders.
    #[error("{got} shares for {want} holders")]
    Count {
        /// Shares given.
        got: usize,
        /// Shares expected.
        want: usize,
    },
    /// The bytes are not the reduced form of a scalar.
    #[error("a share is not the canonical form of a scalar; whoever sent it is at fault")]
    NonCanonical,
}

const SELF_SEED: Label = Label::new("self-seed");
const SHARE_DIGEST: Label = Label::new("share-digest");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, rng};
    use proptest::prelude::*;

    fn ids(list: &[u32]) -> Vec<ClientId> {
        list.iter().copied().map(ClientId).collect()
    }

    #[test]
    fn a_hand_computed_line() {
        // f(x) = 5 + r x with t = 2: whatever r is, 2 f(1) - f(2) = 5.
        let secret = SelfSeed(Scalar::from(5u64));
        let shares = split(&secret, 2, &ids(&[0, 1]), &mut rng(3)).unwrap();
        assert_eq!(shares[0].0 + shares[0].0 - shares[1].0, Scalar::from(5u64));
    }

    proptest! {
        #[test]
        fn any_t_holders_restore_and_fewer_do_not(n in 2usize..12, t_pick in 0usize..12, seed: u64, rotate in 0usize..12) {
            let t = 1 + t_pick % n;
            let mut rng = rng(seed);
            let holders: Vec<ClientId> = (0..n).map(|i| ClientId(u32::try_from(i * 3).unwrap())).collect();
            let secret = SelfSeed::generate(&mut rng);
            let shares = split(&secret, t, &holders, &mut rng).unwrap();
            let pick: Vec<usize> = (0..t).map(|i| (i + rotate) % n).collect();
            let chosen: Vec<ClientId> = pick.iter().map(|i| holders[*i]).collect();
            let whole = Reconstructor::new(&chosen).unwrap();
            let back: SelfSeed = whole.reconstruct(pick.iter().map(|i| &shares[*i])).unwrap();
            prop_assert_eq!(back.0, secret.0);
            if t > 1 {
                let few = Reconstructor::new(&chosen[1..]).unwrap();
                let wrong: SelfSeed = few.reconstruct(pick[1..].iter().map(|i| &shares[*i])).unwrap();
                prop_assert_ne!(wrong.0, secret.0);
            }
        }
    }

    #[test]
    fn fewer_than_t_shares_fit_every_secret() {
        // For t = 3 and two shares, each candidate secret has a polynomial through it: the shares say nothing.
        let mut rng = rng(9);
        let holders = ids(&[0, 1, 2]);
        let shares = split(&SelfSeed::generate(&mut rng), 3, &holders, &mut rng).unwrap();
        let whole = Reconstructor::new(&holders).unwrap();
        for candidate in 0u64..4 {
            let rest = Scalar::from(candidate)
                - whole.coefficients[0] * shares[0].0
                - whole.coefficients[1] * shares[1].0;
            let third = Share(rest * whole.coefficients[2].invert());
            let fitted: SelfSeed = whole
                .reconstruct([&shares[0], &shares[1], &third].into_iter())
                .unwrap();
            assert_eq!(fitted.0, Scalar::from(candidate));
        }
    }

    #[test]
    fn bad_parameters_are_named() {
        let mut rng = rng(1);
        let secret = SelfSeed::generate(&mut rng);
        assert!(matches!(
            split(&secret, 0, &ids(&[1]), &mut rng),
            Err(ShareError::Threshold { .. })
        ));
        assert!(matches!(
            split(&secret, 3, &ids(&[1, 2]), &mut rng),
            Err(ShareError::Threshold { .. })
        ));
        assert!(matches!(
            split(&secret, 1, &ids(&[1, 1]), &mut rng),
            Err(ShareError::Duplicate(ClientId(1)))
        ));
        assert!(matches!(
            Share::from_bytes([0xff; 32]),
            Err(ShareError::NonCanonical)
        ));
        let whole = Reconstructor::new(&ids(&[1, 2])).unwrap();
        assert!(matches!(
            whole.reconstruct::<SelfSeed>([].into_iter()),
            Err(ShareError::Count { .. })
        ));
    }

    #[test]
    fn share_digests_bind_everything() {
        let mut rng = rng(4);
        let share = &split(&SelfSeed::generate(&mut rng), 1, &ids(&[0]), &mut rng).unwrap()[0];
        let other = &split(&SelfSeed::generate(&mut rng), 1, &ids(&[0]), &mut rng).unwrap()[0];
        let (d, h, s, ctx) = (
            ClientId(1),
            ClientId(2),
            Secret::SelfMask(ClusterId(0)),
            context(0),
        );
        let base = share_digest(share, d, h, s, &ctx);
        for changed in [
            share_digest(other, d, h, s, &ctx),
            share_digest(share, ClientId(3), h, s, &ctx),
            share_digest(share, d, ClientId(3), s, &ctx),
            share_digest(share, d, h, Secret::SelfMask(ClusterId(1)), &ctx),
            share_digest(share, d, h, Secret::MaskKey, &ctx),
            share_digest(share, d, h, s, &context(1)),
        ] {
            assert_ne!(base, changed);
        }
    }
}
