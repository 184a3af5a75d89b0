//! Key agreement on ristretto255 (RFC 9496): two clients with fresh keys arrive at one seed per cluster.
//!
//! Mask keys and box keys are different types, so that a key made for one purpose cannot serve the other. A mask secret
//! is a scalar because it is shared with Shamir over the scalar field; its public key is the commitment to it.

use crate::context::RoundContext;
use crate::id::{ClientId, ClusterId};
use crate::label::{Digest, Label};
use crate::seal::SealKey;
use crate::secret::{hkdf32, redacted};
use crate::stream::StreamSeed;
use curve25519_dalek::constants::RISTRETTO_BASEPOINT_TABLE;
use curve25519_dalek::ristretto::CompressedRistretto;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

macro_rules! key_pair {
    ($secret:ident, $public:ident, $purpose:literal) => {
        #[doc = concat!("A client's fresh secret for ", $purpose, " in one round.")]
        ///
        /// # Security
        /// Must not be sent. Fresh for every attempt of every round.
        #[derive(Zeroize, ZeroizeOnDrop)]
        pub struct $secret(Scalar);
        redacted!($secret);

        impl $secret {
            /// A fresh secret.
            pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
                Self(random_scalar(rng))
            }

            /// The public half, which may be sent.
            #[must_use]
            pub fn public(&self) -> $public {
                $public((&self.0 * RISTRETTO_BASEPOINT_TABLE).compress().0)
            }

            pub(crate) fn agree(&self, peer: &$public) -> Result<Zeroizing<[u8; 32]>, AgreeError> {
                let point = CompressedRistretto(peer.0)
                    .decompress()
                    .ok_or(AgreeError::BadPublicKey)?;
                let shared = self.0 * point;
                if shared.is_identity() {
                    return Err(AgreeError::BadPublicKey);
                }
                Ok(Zeroizing::new(shared.compress().0))
            }
        }

        #[doc = concat!("The public half of a key for ", $purpose, ": a ristretto255 encoding, 32 bytes.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $public(pub [u8; 32]);

        impl $public {
            /// Refuses what is no canonical encoding of a group element, or the identity.
            ///
            /// # Errors
            /// [`AgreeError::BadPublicKey`].
            pub fn check(&self) -> Result<(), AgreeError> {
                match CompressedRistretto(self.0).decompress() {
                    Some(point) if !point.is_identity() => Ok(()),
                    _ => Err(AgreeError::BadPublicKey),
                }
            }
        }
    };
}

key_pair!(MaskSecret, MaskPublic, "pairwise masks");
key_pair!(BoxSecret, BoxPublic, "sealed boxes");

impl MaskSecret {
    /// What this client and `peer` have in common in this round: one multiplication, for as many clusters as they share.
    ///
    /// # Errors
    /// [`AgreeError::BadPublicKey`] when `peer`'s key is no valid key; [`AgreeError::OwnId`] for a pair with itself.
    pub fn pair(
        &self,
        me: ClientId,
        peer: ClientId,
        peer_key: &MaskPublic,
    ) -> Result<PairSecret, AgreeError> {
        if me == peer {
            return Err(AgreeError::OwnId);
        }
        let shared = self.agree(peer_key)?;
        let (low, high) = if me < peer { (me, peer) } else { (peer, me) };
        Ok(PairSecret { shared, low, high })
    }

    /// The seed that this client and `peer` share for one cluster: [`Self::pair`], then [`PairSecret::seed`].
    ///
    /// # Errors
    /// As [`Self::pair`].
    pub fn pair_seed(
        &self,
        me: ClientId,
        peer: ClientId,
        peer_key: &MaskPublic,
        cluster: ClusterId,
        model: &Digest,
        context: &RoundContext,
    ) -> Result<StreamSeed, AgreeError> {
        Ok(self.pair(me, peer, peer_key)?.seed(cluster, model, context))
    }

    /// Whether this secret belongs to `public`: how a reconstructed secret is checked.
    #[must_use]
    pub fn matches(&self, public: &MaskPublic) -> bool {
        self.public().0.ct_eq(&public.0).into()
    }

    pub(crate) fn scalar(&self) -> &Scalar {
        &self.0
    }

    pub(crate) fn from_scalar(scalar: Scalar) -> Self {
        Self(scalar)
    }
}

/// The point two clients share: what the seeds of all their common clusters come from.
///
/// # Security
/// Must not be sent. Gone when the masks are on or off.
pub struct PairSecret {
    shared: Zeroizing<[u8; 32]>,
    low: ClientId,
    high: ClientId,
}
redacted!(PairSecret);

impl PairSecret {
    /// The lower-numbered client, which adds the mask that a seed expands to.
    #[must_use]
    pub fn low(&self) -> ClientId {
        self.low
    }

    /// The seed of one cluster: the lower-numbered client adds the mask it expands to, the other subtracts it.
    ///
    /// `HKDF-SHA256(salt = round context, ikm = shared point, info = label ‖ cluster ‖ model ‖ low ‖ high)`.
    #[must_use]
    pub fn seed(&self, cluster: ClusterId, model: &Digest, context: &RoundContext) -> StreamSeed {
        let info = PAIR_SEED.hash(&[
            &cluster.0.to_le_bytes(),
            &model.0,
            &self.low.0.to_le_bytes(),
            &self.high.0.to_le_bytes(),
        ]);
        StreamSeed::new(hkdf32(&context.digest().0, &*self.shared, &info.0))
    }
}

impl BoxSecret {
    /// The key of the one box `sender` seals for `receiver` in this round. Each direction has its own.
    ///
    /// # Errors
    /// [`AgreeError::BadPublicKey`] when the peer's key is no valid key; [`AgreeError::OwnId`] for a box to itself.
    pub fn seal_key(
        &self,
        peer_key: &BoxPublic,
        sender: ClientId,
        receiver: ClientId,
        context: &RoundContext,
    ) -> Result<SealKey, AgreeError> {
        if sender == receiver {
            return Err(AgreeError::OwnId);
        }
        let shared = self.agree(peer_key)?;
        Ok(box_key(&shared, sender, receiver, context))
    }

    pub(crate) fn scalar(&self) -> &Scalar {
        &self.0
    }
}

/// The key of the box from `sender` to `receiver`, from the point they share.
pub(crate) fn box_key(
    shared: &[u8; 32],
    sender: ClientId,
    receiver: ClientId,
    context: &RoundContext,
) -> SealKey {
    let info = BOX_KEY.hash(&[&sender.0.to_le_bytes(), &receiver.0.to_le_bytes()]);
    SealKey::new(hkdf32(&context.digest().0, shared, &info.0))
}

/// A uniformly random scalar from 64 bytes of `rng` (bias below 2^-250).
pub(crate) fn random_scalar<R: CryptoRng + ?Sized>(rng: &mut R) -> Scalar {
    let mut wide = Zeroizing::new([0; 64]);
    rng.fill_bytes(&mut *wide);
    Scalar::from_bytes_mod_order_wide(&wide)
}

/// Why two keys do not agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgreeError {
    /// The peer's bytes are not the canonical encoding of a non-identity group element.
    #[error(
        "a peer's round key is not a valid ristretto255 element; its owner, or the server relaying it, is at fault"
    )]
    BadPublicKey,
    /// A box was opened to everybody with a proof that does not hold.
    #[error("the proof that opens a box does not hold; the client that complains is at fault")]
    BadOpening,
    /// A client was paired with itself.
    #[error("a client was paired with itself; the roster is wrong")]
    OwnId,
}

const PAIR_SEED: Label = Label::new("pair-seed");
const BOX_KEY: Label = Label::new("box-key");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, rng};

    #[test]
    fn rfc_9496_generator_and_bad_encodings() {
        // RFC 9496 A.1: small multiples of the generator; A.2: invalid encodings.
        let multiples = [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
            "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
        ];
        for (i, expected) in multiples.iter().enumerate() {
            let secret = MaskSecret::from_scalar(Scalar::from(i as u64));
            assert_eq!(hex::encode(secret.public().0), *expected);
        }
        for bad in [
            "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
            "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "0000000000000000000000000000000000000000000000000000000000000000",
        ] {
            let key = MaskPublic(hex::decode(bad).unwrap().try_into().unwrap());
            assert_eq!(key.check(), Err(AgreeError::BadPublicKey), "{bad}");
        }
    }

    #[test]
    fn both_sides_arrive_at_one_seed_and_the_context_moves_it() {
        let mut rng = rng(1);
        let (a, b) = (MaskSecret::generate(&mut rng), MaskSecret::generate(&mut rng));
        let (low, high) = (ClientId(3), ClientId(8));
        let (cluster, model) = (ClusterId(1), Digest([5; 32]));
        let ctx = context(0);
        let one = a
            .pair_seed(low, high, &b.public(), cluster, &model, &ctx)
            .unwrap();
        let two = b
            .pair_seed(high, low, &a.public(), cluster, &model, &ctx)
            .unwrap();
        assert_eq!(one.expose(), two.expose());
        let others = [
            a.pair_seed(low, high, &b.public(), ClusterId(2), &model, &ctx)
                .unwrap(),
            a.pair_seed(low, high, &b.public(), cluster, &Digest([6; 32]), &ctx)
                .unwrap(),
            a.pair_seed(low, high, &b.public(), cluster, &model, &context(1))
                .unwrap(),
            a.pair_seed(low, ClientId(9), &b.public(), cluster, &model, &ctx)
                .unwrap(),
        ];
        for other in others {
            assert_ne!(one.expose(), other.expose());
        }
        assert_eq!(
            a.pair_seed(low, low, &b.public(), cluster, &model, &ctx).err(),
            Some(AgreeError::OwnId)
        );
    }

    #[test]
    fn box_keys_differ_by_direction() {
        let mut rng = rng(2);
        let (a, b) = (BoxSecret::generate(&mut rng), BoxSecret::generate(&mut rng));
        let (u, v) = (ClientId(0), ClientId(1));
        let ctx = context(0);
        let there = a
            .seal_key(&b.public(), u, v, &ctx)
            .unwrap()
            .seal(b"aad", b"text".to_vec())
            .unwrap();
        assert_eq!(
            b.seal_key(&a.public(), u, v, &ctx)
                .unwrap()
                .open(b"aad", there.clone())
                .unwrap(),
            b"text"
        );
        assert!(
            b.seal_key(&a.public(), v, u, &ctx)
                .unwrap()
                .open(b"aad", there)
                .is_err()
        );
    }
}
