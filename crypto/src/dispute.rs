//! How a receiver shows everybody what is in one box, so that a bad one convicts its dealer and a false complaint its
//! maker.
//!
//! The receiver publishes the point it shares with the dealer and proves, without showing its secret, that it is the right
//! one: a proof that two discrete logarithms are equal (Chaum and Pedersen, CRYPTO 1992, made non-interactive with the
//! challenge over the whole statement). The point opens the box sealed for the receiver and the one the receiver sealed for
//! the dealer in the same round, nothing else.

use crate::agree::{AgreeError, BoxPublic, BoxSecret, box_key, random_scalar};
use crate::context::RoundContext;
use crate::id::ClientId;
use crate::label::Label;
use crate::seal::SealKey;
use curve25519_dalek::constants::RISTRETTO_BASEPOINT_TABLE;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use rand_core::CryptoRng;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// The two ends of a box.
#[derive(Clone, Copy, Debug)]
pub struct BoxEnds {
    /// Who sealed it.
    pub dealer: ClientId,
    /// The dealer's box key.
    pub dealer_key: BoxPublic,
    /// Who it is for.
    pub receiver: ClientId,
    /// The receiver's box key.
    pub receiver_key: BoxPublic,
}

/// A receiver's opening of one box to everybody: 96 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxOpening {
    /// The shared point, a ristretto255 encoding.
    shared: [u8; 32],
    /// The proof's challenge, a canonical scalar.
    challenge: [u8; 32],
    /// The proof's response, a canonical scalar.
    response: [u8; 32],
}

impl BoxSecret {
    /// Opens the box of `ends` to everybody. Only for a box that convicts its dealer: its contents are public from now on.
    ///
    /// # Errors
    /// [`AgreeError::BadPublicKey`] when the dealer's key is no valid key, [`AgreeError::OwnId`] for a box to itself.
    pub fn open_to_all<R: CryptoRng + ?Sized>(
        &self,
        ends: &BoxEnds,
        context: &RoundContext,
        rng: &mut R,
    ) -> Result<BoxOpening, AgreeError> {
        if ends.dealer == ends.receiver {
            return Err(AgreeError::OwnId);
        }
        let dealer = point(&ends.dealer_key.0)?;
        let shared = *self.agree(&ends.dealer_key)?;
        let mut nonce = random_scalar(rng);
        let by_base = &nonce * RISTRETTO_BASEPOINT_TABLE;
        let by_dealer = nonce * dealer;
        let challenge = challenge(ends, context, &shared, &by_base, &by_dealer);
        let response = nonce + challenge * self.scalar();
        nonce.zeroize();
        Ok(BoxOpening {
            shared,
            challenge: challenge.to_bytes(),
            response: response.to_bytes(),
        })
    }
}

impl BoxOpening {
    /// The key of the box, once the proof holds.
    ///
    /// # Errors
    /// [`AgreeError`] for ends that are none, [`AgreeError::BadOpening`] when the proof does not hold: the receiver is at
    /// fault.
    pub fn seal_key(&self, ends: &BoxEnds, context: &RoundContext) -> Result<SealKey, AgreeError> {
        if ends.dealer == ends.receiver {
            return Err(AgreeError::OwnId);
        }
        let scalar = |bytes: [u8; 32]| {
            Option::<Scalar>::from(Scalar::from_canonical_bytes(bytes)).ok_or(AgreeError::BadOpening)
        };
        let (stated, response) = (scalar(self.challenge)?, scalar(self.response)?);
        let dealer = point(&ends.dealer_key.0)?;
        let receiver = point(&ends.receiver_key.0)?;
        let shared = point(&self.shared).map_err(|_| AgreeError::BadOpening)?;
        let by_base = &response * RISTRETTO_BASEPOINT_TABLE - stated * receiver;
        let by_dealer = response * dealer - stated * shared;
        if challenge(ends, context, &self.shared, &by_base, &by_dealer) != stated {
            return Err(AgreeError::BadOpening);
        }
        Ok(box_key(&self.shared, ends.dealer, ends.receiver, context))
    }
}

/// The challenge binds the round, both ends, the shared point and the commitments.
fn challenge(
    ends: &BoxEnds,
    context: &RoundContext,
    shared: &[u8; 32],
    by_base: &RistrettoPoint,
    by_dealer: &RistrettoPoint,
) -> Scalar {
    let digest = OPENING.hash(&[
        &context.digest().0,
        &ends.dealer.0.to_le_bytes(),
        &ends.dealer_key.0,
        &ends.receiver.0.to_le_bytes(),
        &ends.receiver_key.0,
        shared,
        &by_base.compress().0,
        &by_dealer.compress().0,
    ]);
    Scalar::from_bytes_mod_order(digest.0)
}

fn point(bytes: &[u8; 32]) -> Result<RistrettoPoint, AgreeError> {
    use curve25519_dalek::traits::IsIdentity;
    CompressedRistretto(*bytes)
        .decompress()
        .filter(|point| !point.is_identity())
        .ok_or(AgreeError::BadPublicKey)
}

const OPENING: Label = Label::new("box-opening");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, rng};

    #[test]
    fn an_opening_opens_its_box_and_no_changed_one_is_believed() {
        let mut rng = rng(5);
        let (dealer, receiver) = (BoxSecret::generate(&mut rng), BoxSecret::generate(&mut rng));
        let ends = BoxEnds {
            dealer: ClientId(4),
            dealer_key: dealer.public(),
            receiver: ClientId(2),
            receiver_key: receiver.public(),
        };
        let ctx = context(0);
        let sealed = dealer
            .seal_key(&receiver.public(), ends.dealer, ends.receiver, &ctx)
            .unwrap()
            .seal(b"aad", b"share".to_vec())
            .unwrap();
        let opening = receiver.open_to_all(&ends, &ctx, &mut rng).unwrap();
        let opened = opening
            .seal_key(&ends, &ctx)
            .unwrap()
            .open(b"aad", sealed)
            .unwrap();
        assert_eq!(opened, b"share");

        for bit in 0..96 * 8 {
            let mut bent = opening;
            let part = match bit / 256 {
                0 => &mut bent.shared,
                1 => &mut bent.challenge,
                _ => &mut bent.response,
            };
            part[bit % 256 / 8] ^= 1 << (bit % 8);
            assert_eq!(bent.seal_key(&ends, &ctx).err(), Some(AgreeError::BadOpening));
        }
        let others = [
            BoxEnds {
                dealer: ClientId(5),
                ..ends
            },
            BoxEnds {
                receiver: ClientId(3),
                ..ends
            },
            BoxEnds {
                dealer_key: receiver.public(),
                ..ends
            },
            BoxEnds {
                receiver_key: dealer.public(),
                ..ends
            },
        ];
        for other in others {
            assert_eq!(opening.seal_key(&other, &ctx).err(), Some(AgreeError::BadOpening));
        }
        assert_eq!(
            opening.seal_key(&ends, &context(1)).err(),
            Some(AgreeError::BadOpening)
        );
    }

    #[test]
    fn a_made_up_point_is_not_provable() {
        // A receiver that wants to blame an honest dealer would have to prove a point that is not theirs.
        let mut rng = rng(6);
        let (dealer, receiver, other) = (
            BoxSecret::generate(&mut rng),
            BoxSecret::generate(&mut rng),
            BoxSecret::generate(&mut rng),
        );
        let ends = BoxEnds {
            dealer: ClientId(4),
            dealer_key: dealer.public(),
            receiver: ClientId(2),
            receiver_key: receiver.public(),
        };
        let ctx = context(0);
        let forged = other.open_to_all(&ends, &ctx, &mut rng).unwrap();
        assert_eq!(forged.seal_key(&ends, &ctx).err(), Some(AgreeError::BadOpening));
    }
}
