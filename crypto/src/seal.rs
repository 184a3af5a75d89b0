//! Sealed boxes between clients: ChaCha20-Poly1305 (RFC 8439, by ring) under a key that seals exactly one message.

use crate::secret::{Secret32, redacted};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// The key of one box. Sealing consumes it, so its fixed nonce cannot repeat.
pub struct SealKey(Secret32);
redacted!(SealKey);

/// Bytes a box adds to its contents.
pub const OVERHEAD: usize = 16;

impl SealKey {
    pub(crate) fn new(secret: Secret32) -> Self {
        Self(secret)
    }

    /// Encrypts `plaintext` in place and appends the tag; `aad` is authenticated, not carried.
    ///
    /// # Errors
    /// [`SealError`] if the cipher refuses, which it does only for messages beyond 256 GiB.
    pub fn seal(self, aad: &[u8], mut plaintext: Vec<u8>) -> Result<Vec<u8>, SealError> {
        self.key()?
            .seal_in_place_append_tag(nonce(), Aad::from(aad), &mut plaintext)
            .map_err(|_| SealError)?;
        Ok(plaintext)
    }

    /// Opens a box.
    ///
    /// # Errors
    /// [`SealError`] when the box was changed, is for somebody else, or belongs to another context.
    pub fn open(self, aad: &[u8], mut sealed: Vec<u8>) -> Result<Vec<u8>, SealError> {
        let length = self
            .key()?
            .open_in_place(nonce(), Aad::from(aad), &mut sealed)
            .map_err(|_| SealError)?
            .len();
        sealed.truncate(length);
        Ok(sealed)
    }

    fn key(&self) -> Result<LessSafeKey, SealError> {
        UnboundKey::new(&CHACHA20_POLY1305, self.0.expose())
            .map(LessSafeKey::new)
            .map_err(|_| SealError)
    }
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// A box that does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sealed share does not open: changed on the way, for somebody else, or from another round")]
pub struct SealError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_boxes_do_not_open() {
        let key = || SealKey::new(Secret32::new([7; 32]));
        let sealed = key().seal(b"to 4", b"share".to_vec()).unwrap();
        assert_eq!(sealed.len(), 5 + OVERHEAD);
        assert_eq!(key().open(b"to 4", sealed.clone()).unwrap(), b"share");
        assert_eq!(key().open(b"to 5", sealed.clone()), Err(SealError));
        for bit in 0..sealed.len() * 8 {
            let mut bent = sealed.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key().open(b"to 4", bent), Err(SealError));
        }
        assert_eq!(key().open(b"to 4", vec![1; 3]), Err(SealError));
    }

    #[test]
    fn rfc_8439_section_2_8_2() {
        // The RFC's example has a nonce of its own, so the cipher is driven directly, with the library we rely on.
        let key: Vec<u8> = (0x80..=0x9f).collect();
        let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
        let aad = hex::decode("50515253c0c1c2c3c4c5c6c7").unwrap();
        let mut text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.".to_vec();
        let cipher = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).unwrap());
        cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&aad), &mut text)
            .unwrap();
        assert_eq!(hex::encode(&text[..16]), "d31a8d34648e60db7b86afbc53ef7ec2");
        assert_eq!(
            hex::encode(&text[text.len() - 16..]),
            "1ae10b594f09e26a7e902ecbd0600691"
        );
    }
}
