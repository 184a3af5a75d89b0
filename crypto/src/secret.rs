//! The pattern of a secret: no `Clone`, no `Serialize`, a `Debug` that says nothing, wiped on drop, compared in constant
//! time if at all.

use zeroize::{Zeroize, ZeroizeOnDrop};

/// 32 secret bytes.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Secret32([u8; 32]);

impl Secret32 {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Gives a secret type a `Debug` that prints its name only.
macro_rules! redacted {
    ($name:ident) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(redacted)"))
            }
        }
    };
}
pub(crate) use redacted;

/// HKDF-SHA256 (RFC 5869): 32 bytes from `ikm`, salted with `salt`, for `info`.
pub(crate) fn hkdf32(salt: &[u8], ikm: &[u8], info: &[u8]) -> Secret32 {
    struct Len32;
    impl ring::hkdf::KeyType for Len32 {
        fn len(&self) -> usize {
            32
        }
    }
    let mut out = [0; 32];
    let filled = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, salt)
        .extract(ikm)
        .expand(&[info], Len32)
        .and_then(|okm| okm.fill(&mut out));
    // RFC 5869 fails only beyond 255 blocks of output; one block is asked for. A zero key must not leave this function.
    assert!(filled.is_ok(), "HKDF-SHA256 refused one block of output");
    let secret = Secret32::new(out);
    out.zeroize();
    secret
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hkdf_matches_rfc_5869_case_1_and_3() {
        // RFC 5869 A.1, first 32 of 42 bytes; A.3 with empty salt and info.
        let okm = hkdf32(
            &hex::decode("000102030405060708090a0b0c").unwrap(),
            &[0x0b; 22],
            &hex::decode("f0f1f2f3f4f5f6f7f8f9").unwrap(),
        );
        assert_eq!(
            hex::encode(okm.expose()),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
        );
        let okm = hkdf32(&[], &[0x0b; 22], &[]);
        assert_eq!(
            hex::encode(okm.expose()),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
        );
    }
}
