//! Domain separation: every hash, key and signature names its purpose, and every part carries its length, so that no
//! two different lists of parts ever hash the same bytes.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// The purpose of a hash, key or signature. Written into the bytes as `veilsum/v1/<name>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(&'static str);

impl Label {
    /// Names a purpose. `name` is lower case with `-` and `/`.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The label as it stands in hashed and signed bytes: one length byte, then `veilsum/v1/<name>`.
    #[must_use]
    pub fn prefix(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PREFIX.len() + self.0.len() + 1);
        // Labels are compile-time names far below 256 bytes; saturating keeps this total.
        out.push(u8::try_from(PREFIX.len() + self.0.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(PREFIX.as_bytes());
        out.extend_from_slice(self.0.as_bytes());
        out
    }

    /// `SHA-256(prefix ‖ for each part: u64 LE length ‖ part)`.
    #[must_use]
    pub fn hash(self, parts: &[&[u8]]) -> Digest {
        let mut hasher = self.hasher();
        for part in parts {
            hasher.part(part);
        }
        hasher.finish()
    }

    /// The streaming form of [`Label::hash`].
    #[must_use]
    pub fn hasher(self) -> Hasher {
        let mut inner = Sha256::new();
        inner.update(self.prefix());
        Hasher(inner)
    }
}

/// A labelled SHA-256 in progress.
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds one part with its length.
    pub fn part(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// The digest of all parts.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// A SHA-256 value. Compared in constant time: digests of secrets are compared with it too.
#[derive(Clone, Copy, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Lower-case hexadecimal, 64 characters.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut out, byte| {
            use fmt::Write as _;
            let _ = write!(out, "{byte:02x}");
            out
        })
    }

    /// Reads 64 hexadecimal characters; `None` for anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 64 {
            return None;
        }
        let mut out = [0; 32];
        for (slot, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            if pair.starts_with('+') {
                return None;
            }
            *slot = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(out))
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.to_hex();
        write!(f, "{}…", short.get(..12).unwrap_or(&short))
    }
}

const PREFIX: &str = "veilsum/v1/";

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Label = Label::new("test");

    #[test]
    fn parts_cannot_slide_into_each_other() {
        assert_ne!(TEST.hash(&[b"ab", b"c"]), TEST.hash(&[b"a", b"bc"]));
        assert_ne!(TEST.hash(&[b"ab"]), TEST.hash(&[b"ab", b""]));
        assert_ne!(TEST.hash(&[b"x"]), Label::new("test2").hash(&[b"x"]));
    }

    #[test]
    fn matches_an_independent_computation() {
        // python3: hashlib.sha256(b"\x0fveilsum/v1/test" + (3).to_bytes(8,"little") + b"abc").hexdigest()
        assert_eq!(
            TEST.hash(&[b"abc"]).to_hex(),
            "be53828d1c418bce059b4016421bf792fb1a7cd4b47cabd5f5629e3c8ff8b679"
        );
    }

    #[test]
    fn hex_round_trips_and_refuses_the_rest() {
        let digest = TEST.hash(&[b"abc"]);
        assert_eq!(Digest::from_hex(&digest.to_hex()), Some(digest));
        assert_eq!(Digest::from_hex("00"), None);
        assert_eq!(Digest::from_hex(&"zz".repeat(32)), None);
        assert_eq!(Digest::from_hex(&"+1".repeat(32)), None);
    }
}
