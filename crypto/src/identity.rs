//! Ed25519 identities (RFC 8032, by ring) and the types that keep checked and unchecked messages apart.

use crate::label::Label;
use crate::seal::SealKey;
use crate::secret::{Secret32, hkdf32, redacted};
use curve25519_dalek::edwards::CompressedEdwardsY;
use rand_core::CryptoRng;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use zeroize::Zeroize;

/// A party's long-term signing key.
///
/// # Security
/// Must not be sent. Its seed leaves this type only through [`Identity::expose_seed`], for the key file.
pub struct Identity {
    seed: Secret32,
    pair: Ed25519KeyPair,
    public: PublicIdentity,
}
redacted!(Identity);

impl Identity {
    /// A fresh identity.
    ///
    /// # Errors
    /// [`IdentityError::Seed`] if the library refuses the seed, which it does for no 32-byte value.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Result<Self, IdentityError> {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let identity = Self::from_seed(&seed);
        seed.zeroize();
        identity
    }

    /// The identity of a 32-byte RFC 8032 seed, as read from a key file.
    ///
    /// # Errors
    /// [`IdentityError::Seed`] if the library refuses the seed.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, IdentityError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| IdentityError::Seed)?;
        let public = pair
            .public_key()
            .as_ref()
            .try_into()
            .map_err(|_| IdentityError::Seed)?;
        Ok(Self {
            seed: Secret32::new(*seed),
            pair,
            public: PublicIdentity(public),
        })
    }

    /// The public half, which may be sent.
    #[must_use]
    pub fn public(&self) -> PublicIdentity {
        self.public
    }

    /// Signs `label ‖ body`.
    #[must_use]
    pub fn sign(&self, label: Label, body: &[u8]) -> Signature {
        let mut message = label.prefix();
        message.extend_from_slice(body);
        self.sign_raw(&message)
    }

    /// Signs bytes that carry their own domain separation, such as a C2SP note.
    #[must_use]
    pub fn sign_raw(&self, message: &[u8]) -> Signature {
        let mut bytes = [0; 64];
        for (slot, byte) in bytes.iter_mut().zip(self.pair.sign(message).as_ref()) {
            *slot = *byte;
        }
        Signature(bytes)
    }

    /// The key that seals one record for this party's own disk, so that the record without the key file says nothing.
    /// `HKDF-SHA256(salt, ikm = seed, info = label ‖ purpose)`.
    ///
    /// # Security
    /// `salt` must be fresh for every record: a key seals one message.
    #[must_use]
    pub fn storage_key(&self, salt: &[u8; 32], purpose: &[&[u8]]) -> SealKey {
        SealKey::new(hkdf32(salt, self.seed.expose(), &STORAGE.hash(purpose).0))
    }

    /// The secret seed, for writing a key file with owner-only permissions and for nothing else.
    #[must_use]
    pub fn expose_seed(&self) -> &[u8; 32] {
        self.seed.expose()
    }
}

/// A party's public signing key: 32 bytes, checked when it enters through [`PublicIdentity::checked`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PublicIdentity(pub [u8; 32]);

impl PublicIdentity {
    /// Refuses keys under which one signature could fit many messages: not on the curve, of small order, or not in
    /// canonical form (RFC 8032 5.1.3).
    ///
    /// # Errors
    /// [`IdentityError::WeakKey`].
    pub fn checked(bytes: [u8; 32]) -> Result<Self, IdentityError> {
        let point = CompressedEdwardsY(bytes)
            .decompress()
            .ok_or(IdentityError::WeakKey)?;
        if point.is_small_order() || point.compress().0 != bytes {
            return Err(IdentityError::WeakKey);
        }
        Ok(Self(bytes))
    }

    /// Whether `signature` is this party's over `label ‖ body`.
    #[must_use]
    pub fn verifies(&self, label: Label, body: &[u8], signature: &Signature) -> bool {
        let mut message = label.prefix();
        message.extend_from_slice(body);
        self.verifies_raw(&message, signature)
    }

    /// Whether `signature` is this party's over bytes that carry their own domain separation.
    #[must_use]
    pub fn verifies_raw(&self, message: &[u8], signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(message, &signature.0)
            .is_ok()
    }
}

impl fmt::Debug for PublicIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicIdentity({:?})", crate::label::Digest(self.0))
    }
}

/// An Ed25519 signature, 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(..)")
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // serde knows arrays up to 32; two halves are the same 64 bytes on the wire.
        let (low, high) = self.0.split_at(32);
        let halves: ([u8; 32], [u8; 32]) = (
            low.try_into().map_err(serde::ser::Error::custom)?,
            high.try_into().map_err(serde::ser::Error::custom)?,
        );
        halves.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (low, high) = <([u8; 32], [u8; 32])>::deserialize(deserializer)?;
        let mut bytes = [0; 64];
        for (slot, byte) in bytes.iter_mut().zip(low.iter().chain(&high)) {
            *slot = *byte;
        }
        Ok(Self(bytes))
    }
}

/// A parsed message nobody has checked yet. Its body can be looked at only to find the key to check it with.
#[derive(Debug, Clone)]
pub struct Unverified<T> {
    body: T,
}

impl<T> Unverified<T> {
    /// Wraps a parsed message.
    pub fn new(body: T) -> Self {
        Self { body }
    }

    /// The unchecked body, for choosing the key.
    pub fn peek(&self) -> &T {
        &self.body
    }

    /// Consumes the unchecked message.
    ///
    /// # Errors
    /// Hands it back untouched when `check` says no.
    pub fn verify(self, check: impl FnOnce(&T) -> bool) -> Result<Verified<T>, Self> {
        if check(&self.body) {
            Ok(Verified(self.body))
        } else {
            Err(self)
        }
    }
}

/// A message whose signature held. There is no other way to make one than [`Unverified::verify`]:
///
/// ```compile_fail
/// let forged = veilsum_crypto::Verified(7u32);
/// ```
#[derive(Debug, Clone)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// The checked body.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// The checked body, owned.
    pub fn into_inner(self) -> T {
        self.0
    }
}

/// Why a key is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The library refused a secret seed.
    #[error("the signing seed was refused; make a new key with `veilsum keygen`")]
    Seed,
    /// Not on the curve, of small order, or not canonical.
    #[error(
        "the public signing key is weak (not on the curve, of small order, or not canonical); its owner must make a new one"
    )]
    WeakKey,
}

const STORAGE: Label = Label::new("storage");

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(text: &str) -> [u8; 32] {
        hex::decode(text).unwrap().try_into().unwrap()
    }

    #[test]
    fn rfc_8032_tests_1_to_3() {
        for (secret, public, message, signature) in [
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                "",
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                "72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            ),
            (
                "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
                "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
                "af82",
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
            ),
        ] {
            let identity = Identity::from_seed(&seed(secret)).unwrap();
            assert_eq!(identity.public().0, seed(public));
            let message = hex::decode(message).unwrap();
            let made = identity.sign_raw(&message);
            assert_eq!(hex::encode(made.0), signature);
            assert!(identity.public().verifies_raw(&message, &made));
            let mut bent = made;
            bent.0[63] ^= 1;
            assert!(!identity.public().verifies_raw(&message, &bent));
        }
    }

    #[test]
    fn a_signature_under_one_label_is_none_under_another() {
        let identity = Identity::from_seed(&[7; 32]).unwrap();
        let signature = identity.sign(Label::new("one"), b"body");
        assert!(identity.public().verifies(Label::new("one"), b"body", &signature));
        assert!(!identity.public().verifies(Label::new("two"), b"body", &signature));
    }

    #[test]
    fn weak_public_keys_are_refused() {
        let mut one = [0; 32];
        one[0] = 1;
        // The identity, the point of order 2, a non-canonical y = p + 1, and a y off the curve.
        let order_two = seed("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f");
        let non_canonical = seed("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f");
        let off_curve = seed("0200000000000000000000000000000000000000000000000000000000000000");
        for bytes in [one, order_two, non_canonical, off_curve] {
            assert_eq!(PublicIdentity::checked(bytes), Err(IdentityError::WeakKey));
        }
        let good = Identity::from_seed(&[7; 32]).unwrap().public();
        assert_eq!(PublicIdentity::checked(good.0), Ok(good));
    }

    #[test]
    fn a_debug_print_holds_no_key() {
        let identity = Identity::from_seed(&[0x41; 32]).unwrap();
        assert_eq!(format!("{identity:?}"), "Identity(redacted)");
    }
}
