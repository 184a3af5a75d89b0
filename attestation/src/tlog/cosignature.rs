//! Cosignatures of witnesses (C2SP tlog-cosignature), the Ed25519 form.
//!
//! A cosignature says: as of this time, the largest consistent head I have seen of this log is this one. The signed
//! message is `cosignature/v1`, a time line, and the checkpoint; the signature line holds the time and 64 bytes. The
//! ML-DSA-44 form is not known here; its lines are ignored like those of any unknown key.

use crate::note::{
    Note, NoteError, NoteSignature, SHOWN, VerifyEd25519, check_name, key_id, read_key, write_key,
};
use std::fmt;
use std::str::FromStr;

/// The public half of an Ed25519 cosigner, written `name+hex(key id)+base64(04 || public key)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CosignerKey {
    name: String,
    public: [u8; 32],
}

/// Who cosigned, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cosigner<'k> {
    /// The key.
    pub key: &'k CosignerKey,
    /// POSIX time in seconds, as the cosigner states it.
    pub time: u64,
}

impl CosignerKey {
    /// Names a public key.
    ///
    /// # Errors
    /// [`NoteError::Name`] if the name is empty or holds spaces, plus signs or control characters.
    pub fn new(name: &str, public: [u8; 32]) -> Result<Self, NoteError> {
        check_name(name)?;
        Ok(Self {
            name: name.to_owned(),
            public,
        })
    }

    /// The name on the signature line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Ed25519 public key.
    #[must_use]
    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// First four bytes of `H(name || newline || 04 || public key)`.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        key_id(&self.name, COSIGNATURE, &self.public)
    }

    /// The signature line over a checkpoint's text at `time`, POSIX seconds.
    pub fn cosign(&self, text: &str, time: u64, sign: &dyn Fn(&[u8]) -> [u8; 64]) -> NoteSignature {
        let signature = sign(&message(text, time));
        NoteSignature {
            name: self.name.clone(),
            key_id: self.id(),
            signature: [time.to_be_bytes().as_slice(), &signature].concat(),
        }
    }

    /// The time of this key's line on a note; `None` where it has none.
    ///
    /// # Errors
    /// [`NoteError::BadSignature`] when it has one that does not hold.
    pub fn time_on(&self, note: &Note, check: &VerifyEd25519<'_>) -> Result<Option<u64>, NoteError> {
        let mut time = None;
        let own = |line: &&NoteSignature| line.name == self.name && line.key_id == self.id();
        for line in note.signatures().iter().filter(own) {
            let stated = self
                .time_of(line, note.text(), check)
                .ok_or_else(|| NoteError::BadSignature(self.name.clone()))?;
            time = time.max(Some(stated));
        }
        Ok(time)
    }

    fn time_of(&self, line: &NoteSignature, text: &str, check: &VerifyEd25519<'_>) -> Option<u64> {
        let (time, signature) = line.signature.split_first_chunk::<8>()?;
        let time = u64::from_be_bytes(*time);
        let signature: &[u8; 64] = signature.try_into().ok()?;
        (time <= MAX_TIME && check(&self.public, &message(text, time), signature)).then_some(time)
    }
}

impl fmt::Display for CosignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, &self.name, COSIGNATURE, &self.public)
    }
}

impl FromStr for CosignerKey {
    type Err = NoteError;

    /// Accepts exactly what is written for an Ed25519 cosigner, id included.
    fn from_str(text: &str) -> Result<Self, NoteError> {
        let malformed = || NoteError::Key(text.chars().take(SHOWN).collect());
        let (name, public) = read_key(text, COSIGNATURE).ok_or_else(malformed)?;
        let key = Self::new(name, public).map_err(|_| malformed())?;
        if key.to_string() == text {
            Ok(key)
        } else {
            Err(malformed())
        }
    }
}

/// What a cosigner signs.
fn message(text: &str, time: u64) -> Vec<u8> {
    format!("cosignature/v1\ntime {time}\n{text}").into_bytes()
}

/// The signature type of Ed25519 cosignatures.
const COSIGNATURE: u8 = 4;

/// The text allows times below 2^63.
const MAX_TIME: u64 = i64::MAX as u64;
