//! Signed notes (C2SP signed-note): a text, and who signs it.
//!
//! ```text
//! text, one or more lines
//!
//! — name base64(key id, 4 bytes || signature)
//! ```
//!
//! The keys stay with the caller: signing and verifying are closures, so any Ed25519 will do. It should be
//! strict, one rule for all verifiers.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// A text and its signature lines. What [`Note::parse`] returns is well-formed and *not verified*: ignore the
/// text until [`Note::verify`] has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    text: String,
    signatures: Vec<NoteSignature>,
}

/// One signature line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteSignature {
    /// Name of the key.
    pub name: String,
    /// Tells keys of one name apart.
    pub key_id: [u8; 4],
    /// What the key made of the text; 64 bytes for Ed25519, anything for kinds we do not know.
    pub signature: Vec<u8>,
}

/// The public half of an Ed25519 note key, written `name+hex(key id)+base64(01 || public key)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoteKey {
    name: String,
    public: [u8; 32],
}

/// Says whether a signature fits: gets public key, text and signature.
pub type VerifyEd25519<'a> = dyn Fn(&[u8; 32], &[u8], &[u8; 64]) -> bool + 'a;

/// What is wrong with a note or a key. Always the fault of whoever made or sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoteError {
    /// Larger than [`MAX_NOTE`].
    #[error("the note has {0} bytes, at most {MAX_NOTE} are read")]
    TooLong(usize),
    /// Not UTF-8, or a control character other than newline.
    #[error("the note holds bytes that are no text: only UTF-8 without control characters is allowed")]
    NotText,
    /// The text does not end in a newline, or is empty.
    #[error("the text of the note must be one or more whole lines")]
    Text,
    /// No blank line, or nothing after it.
    #[error("the note has no signatures: a blank line and signature lines must follow the text")]
    NoSignatures,
    /// A line after the last blank line is no signature.
    #[error("signature line {0} is malformed: it must read '— name base64' and end the line")]
    SignatureLine(usize),
    /// More than [`MAX_SIGNATURES`].
    #[error("the note has more than {MAX_SIGNATURES} signatures")]
    TooManySignatures,
    /// Key names are not empty and hold neither spaces nor plus signs.
    #[error(
        "'{0}' is no name for a key: it must not be empty nor hold spaces, plus signs or control characters"
    )]
    Name(String),
    /// Not `name+id+base64`, another kind of key, or an id that does not belong to name and key.
    #[error("'{0}' is no Ed25519 verifier key of the form name+id+base64 with a matching id")]
    Key(String),
    /// Two of the given keys have one name and id but differ.
    #[error("two different keys are known as '{0}': the key list is broken")]
    AmbiguousKey(String),
    /// A known key's signature is wrong, so the whole note is refused.
    #[error(
        "the signature of '{0}' does not fit the text: the note was changed, or its signer is not who it says"
    )]
    BadSignature(String),
    /// No known key has signed.
    #[error("no known key has signed the note")]
    NoKnownKey,
}

impl Note {
    /// A note without signatures.
    ///
    /// # Errors
    /// [`NoteError::Text`], [`NoteError::NotText`] or [`NoteError::TooLong`] if the text cannot be signed.
    pub fn new(text: impl Into<String>) -> Result<Self, NoteError> {
        let text = text.into();
        check_size(text.len())?;
        check_characters(&text)?;
        if !text.ends_with('\n') {
            return Err(NoteError::Text);
        }
        Ok(Self {
            text,
            signatures: Vec::new(),
        })
    }

    /// Reads a note: text, the last blank line, signature lines.
    ///
    /// # Errors
    /// [`NoteError`] naming what is malformed. Kinds of signatures that are not known here are no error.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        check_size(bytes.len())?;
        let note = std::str::from_utf8(bytes).map_err(|_| NoteError::NotText)?;
        check_characters(note)?;
        let (text, lines) = note.rsplit_once("\n\n").ok_or(NoteError::NoSignatures)?;
        let lines = lines.strip_suffix('\n').ok_or(NoteError::NoSignatures)?;
        let mut note = Self::new(format!("{text}\n"))?;
        for (number, line) in lines.split('\n').enumerate() {
            if number == MAX_SIGNATURES {
                return Err(NoteError::TooManySignatures);
            }
            note.signatures
                .push(NoteSignature::parse(line).ok_or(NoteError::SignatureLine(number + 1))?);
        }
        Ok(note)
    }

    /// Adds an Ed25519 signature; `sign` gets the text. A line this key already has is replaced.
    ///
    /// # Errors
    /// [`NoteError::TooManySignatures`] if there is no room for one more.
    pub fn sign(&mut self, key: &NoteKey, sign: &dyn Fn(&[u8]) -> [u8; 64]) -> Result<(), NoteError> {
        let line = NoteSignature {
            name: key.name.clone(),
            key_id: key.id(),
            signature: sign(self.text.as_bytes()).to_vec(),
        };
        self.add(line)
    }

    /// Adds a signature line made elsewhere, such as a witness's. A line of the same key is replaced.
    ///
    /// # Errors
    /// [`NoteError::TooManySignatures`], or [`NoteError::Name`] where the name cannot be written.
    pub fn add(&mut self, line: NoteSignature) -> Result<(), NoteError> {
        check_name(&line.name)?;
        self.signatures
            .retain(|old| (&old.name, old.key_id) != (&line.name, line.key_id));
        if self.signatures.len() >= MAX_SIGNATURES {
            return Err(NoteError::TooManySignatures);
        }
        self.signatures.push(line);
        Ok(())
    }

    /// Checks the signature of every known key and returns the keys that have signed, each once, in the order
    /// of their lines. Lines of unknown keys are ignored, whatever they hold.
    ///
    /// # Errors
    /// [`NoteError::BadSignature`] if a known key's line does not verify, [`NoteError::NoKnownKey`] if none
    /// is known, [`NoteError::AmbiguousKey`] for a broken key list.
    pub fn verify<'k>(
        &self,
        keys: &'k [NoteKey],
        check: &VerifyEd25519<'_>,
    ) -> Result<Vec<&'k NoteKey>, NoteError> {
        let mut signers: Vec<&NoteKey> = Vec::new();
        for line in &self.signatures {
            let mut known = keys
                .iter()
                .filter(|key| key.name == line.name && key.id() == line.key_id);
            let Some(key) = known.next() else { continue };
            if known.any(|other| other != key) {
                return Err(NoteError::AmbiguousKey(key.name.clone()));
            }
            let signature = line.signature.as_slice().try_into().ok();
            if !signature.is_some_and(|signature| check(&key.public, self.text.as_bytes(), signature)) {
                return Err(NoteError::BadSignature(key.name.clone()));
            }
            if !signers.contains(&key) {
                signers.push(key);
            }
        }
        if signers.is_empty() {
            Err(NoteError::NoKnownKey)
        } else {
            Ok(signers)
        }
    }

    /// What is signed, with its final newline.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The signature lines in order.
    #[must_use]
    pub fn signatures(&self) -> &[NoteSignature] {
        &self.signatures
    }
}

impl fmt::Display for Note {
    /// The bytes that [`Note::parse`] reads, once there is a signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl fmt::Display for NoteSignature {
    /// The line without its newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.key_id.as_slice(), &self.signature].concat();
        write!(f, "{LINE_START}{} {}", self.name, STANDARD.encode(bytes))
    }
}

impl NoteSignature {
    /// Reads one signature line, without its newline.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (name, encoded) = line.strip_prefix(LINE_START)?.split_once(' ')?;
        check_name(name).ok()?;
        let bytes = STANDARD.decode(encoded).ok()?;
        let (key_id, signature) = bytes.split_first_chunk()?;
        (!signature.is_empty()).then(|| Self {
            name: name.to_owned(),
            key_id: *key_id,
            signature: signature.to_vec(),
        })
    }
}

impl NoteKey {
    /// Names an Ed25519 public key.
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

    /// First four bytes of `H(name || newline || 01 || public key)`.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        key_id(&self.name, ED25519, &self.public)
    }
}

impl fmt::Display for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, &self.name, ED25519, &self.public)
    }
}

impl FromStr for NoteKey {
    type Err = NoteError;

    /// Accepts exactly what is written for an Ed25519 key, id included.
    fn from_str(text: &str) -> Result<Self, NoteError> {
        let malformed = || NoteError::Key(text.chars().take(SHOWN).collect());
        let (name, public) = read_key(text, ED25519).ok_or_else(malformed)?;
        let key = Self::new(name, public).map_err(|_| malformed())?;
        if key.to_string() == text {
            Ok(key)
        } else {
            Err(malformed())
        }
    }
}

/// First four bytes of `H(name || newline || type || public key)`.
pub(crate) fn key_id(name: &str, kind: u8, public: &[u8; 32]) -> [u8; 4] {
    let hash = Sha256::new()
        .chain_update(name)
        .chain_update([b'\n', kind])
        .chain_update(public);
    let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
    [a, b, c, d]
}

/// Writes `name+hex(key id)+base64(type || public key)`.
pub(crate) fn write_key(f: &mut fmt::Formatter<'_>, name: &str, kind: u8, public: &[u8; 32]) -> fmt::Result {
    let id = u32::from_be_bytes(key_id(name, kind, public));
    let key = [[kind].as_slice(), public].concat();
    write!(f, "{name}+{id:08x}+{}", STANDARD.encode(key))
}

/// The name and the 32 bytes of a key of one type; the caller compares what [`write_key`] makes of them.
pub(crate) fn read_key(text: &str, kind: u8) -> Option<(&str, [u8; 32])> {
    let mut parts = text.splitn(3, '+');
    let (name, encoded) = parts.next().zip(parts.nth(1))?;
    let bytes = STANDARD.decode(encoded).ok()?;
    let (first, public) = bytes.split_first()?;
    (*first == kind).then_some((name, public.try_into().ok()?))
}

fn check_size(size: usize) -> Result<(), NoteError> {
    if size > MAX_NOTE {
        Err(NoteError::TooLong(size))
    } else {
        Ok(())
    }
}

fn check_characters(text: &str) -> Result<(), NoteError> {
    if text.bytes().any(|byte| byte < b' ' && byte != b'\n') {
        Err(NoteError::NotText)
    } else {
        Ok(())
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), NoteError> {
    let forbidden = |c: char| c.is_whitespace() || c == '+' || c < ' ';
    if name.is_empty() || name.len() > MAX_NAME || name.contains(forbidden) {
        return Err(NoteError::Name(name.chars().take(SHOWN).collect()));
    }
    Ok(())
}

/// Largest note that is read, in bytes: room for [`MAX_SIGNATURES`] post-quantum signatures.
pub const MAX_NOTE: usize = 1 << 20;

/// Most signatures on a note. The specification asks for at least 16.
pub const MAX_SIGNATURES: usize = 100;

/// Longest name of a key, in bytes.
const MAX_NAME: usize = 256;

/// How much of a malformed key or name an error repeats, in characters.
pub(crate) const SHOWN: usize = 80;

/// Em dash and space.
const LINE_START: &str = "\u{2014} ";

/// The signature type of plain Ed25519.
const ED25519: u8 = 1;

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519 as ALGORITHM, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

    use super::*;

    /// The Go checksum database's library, golang.org/x/mod/sumdb/note.
    const PETER: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    const ENOCH: &str = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop";
    const PETER_SEED: &str = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
    const TEXT: &str = "If you think cryptography is the answer to your problem,\n\
                        then you don't know what your problem is.\n";
    const PETER_LINE: &str = "\u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
    const ENOCH_LINE: &str = "\u{2014} EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n";

    /// The example of C2SP signed-note.
    const FOO: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
    const FOO_NOTE: &str = "This is an example message.\n\n\
        \u{2014} example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

    fn strict(public: &[u8; 32], text: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ALGORITHM, public)
            .verify(text, signature)
            .is_ok()
    }

    fn keys(keys: &[&str]) -> Vec<NoteKey> {
        keys.iter().map(|key| key.parse().unwrap()).collect()
    }

    fn verify(note: &str, known: &[&str]) -> Result<Vec<String>, NoteError> {
        let (note, known) = (Note::parse(note.as_bytes())?, keys(known));
        let signers = note.verify(&known, &strict)?;
        Ok(signers.into_iter().map(|key| key.name().to_owned()).collect())
    }

    #[test]
    fn published_notes_verify_and_are_written_back() {
        let both = format!("{TEXT}\n{PETER_LINE}{ENOCH_LINE}");
        for (note, known, signers) in [
            (FOO_NOTE, vec![FOO], vec!["example.com/foo"]),
            (&both, vec![PETER, ENOCH, FOO], vec!["PeterNeumann", "EnochRoot"]),
            (&both, vec![ENOCH], vec!["EnochRoot"]),
            (
                &format!("{TEXT}\n{PETER_LINE}{PETER_LINE}"),
                vec![PETER, PETER],
                vec!["PeterNeumann"],
            ),
        ] {
            assert_eq!(verify(note, &known).unwrap(), signers);
            assert_eq!(Note::parse(note.as_bytes()).unwrap().to_string(), note);
        }
        for key in [PETER, ENOCH, FOO] {
            assert_eq!(key.parse::<NoteKey>().unwrap().to_string(), key);
        }
    }

    #[test]
    fn signing_gives_the_published_bytes() {
        let seed = STANDARD.decode(PETER_SEED).unwrap();
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed[1..]).unwrap();
        let sign = |text: &[u8]| pair.sign(text).as_ref().try_into().unwrap();
        let public = pair.public_key().as_ref().try_into().unwrap();
        let key = NoteKey::new("PeterNeumann", public).unwrap();
        assert_eq!(key.to_string(), PETER);
        let mut note = Note::new(TEXT).unwrap();
        note.sign(&key, &sign).unwrap();
        assert_eq!(note.to_string(), format!("{TEXT}\n{PETER_LINE}"));
        note.sign(&key, &sign).unwrap();
        assert_eq!(note.signatures().len(), 1);
    }

    #[test]
    fn a_wrong_signature_of_a_known_key_refuses_the_note_and_an_unknown_one_does_not() {
        let changed = format!(
            "{}\n{PETER_LINE}{ENOCH_LINE}",
            TEXT.replace("problem is", "problem Is")
        );
        let bad = |name: &str| Err(NoteError::BadSignature(name.into()));
        assert_eq!(verify(&changed, &[PETER]), bad("PeterNeumann"));
        assert_eq!(verify(&changed, &[]), Err(NoteError::NoKnownKey));
        // Peter's is fine, Enoch's is not: refused as soon as Enoch is known.
        let broken = format!("{TEXT}\n{PETER_LINE}{}", ENOCH_LINE.replace("zmZa0S", "zmZa0T"));
        assert_eq!(verify(&broken, &[PETER]).unwrap(), ["PeterNeumann"]);
        assert_eq!(verify(&broken, &[PETER, ENOCH]), bad("EnochRoot"));
        // Right name and id, but not 64 bytes.
        let cut = format!("{TEXT}\n\u{2014} PeterNeumann x08go/ZJ\n");
        assert_eq!(verify(&cut, &[PETER]), bad("PeterNeumann"));
        // Right name and another id: an unknown key.
        let other = format!("{TEXT}\n\u{2014} PeterNeumann AAAAAPZJ\n{ENOCH_LINE}");
        assert_eq!(verify(&other, &[PETER, ENOCH]).unwrap(), ["EnochRoot"]);
        let mut collision = keys(&[PETER, PETER]);
        collision[1].public[0] ^= 1;
        assert_ne!(collision[0].id(), collision[1].id());
    }

    #[test]
    fn the_last_blank_line_separates() {
        let mut note = Note::new("a\n\n\u{2014} b AAAAAAAA\n\nc\n").unwrap();
        let line = NoteSignature {
            name: "k".into(),
            key_id: [1, 2, 3, 4],
            signature: vec![5],
        };
        note.add(line).unwrap();
        assert_eq!(Note::parse(note.to_string().as_bytes()).unwrap(), note);
        let read = Note::parse("a\n\n\n\n\u{2014} k AQIDBAU=\n".as_bytes()).unwrap();
        assert_eq!(read.text(), "a\n\n\n");
        assert_eq!(
            Note::parse("\n\n\u{2014} k AQIDBAU=\n".as_bytes())
                .unwrap()
                .text(),
            "\n"
        );
    }

    #[test]
    fn malformed_notes_are_named() {
        let refuse = |note: &str| Note::parse(note.as_bytes()).unwrap_err();
        for text in [
            "",
            "text\n",
            "text\n\n",
            "text\n\u{2014} k AQIDBAU=\n",
            "\n\u{2014} k AQIDBAU=\n",
            "t\n\n\u{2014} k AQIDBAU=",
        ] {
            assert_eq!(refuse(text), NoteError::NoSignatures, "{text:?}");
        }
        for line in [
            "k AQIDBAU=",
            "- k AQIDBAU=",
            "\u{2014} k  AQIDBAU=",
            "\u{2014}  AQIDBAU=",
            "\u{2014} AQIDBAU=",
            "\u{2014} k+l AQIDBAU=",
            "\u{2014} k AQIDBA==",
            "\u{2014} k AQIDBAU",
            "\u{2014} k AQIDBAV=",
            "\u{2014} k AQIDB_U=",
            "\u{2014} k AQIDBAU= ",
            "\u{2014} k\u{a0}l AQIDBAU=",
            "\u{2014} k",
        ] {
            assert_eq!(
                refuse(&format!("t\n\n\u{2014} k AQIDBAU=\n{line}\n")),
                NoteError::SignatureLine(2),
                "{line}"
            );
        }
        assert_eq!(refuse("t\n\n\u{2014} k AQIDBAU=\n\n"), NoteError::NoSignatures);
        assert_eq!(refuse("t\n\n\u{2014} k AQIDBAU=\n\n\n"), NoteError::NoSignatures);
        for text in [
            "t\r\n\n\u{2014} k AQIDBAU=\n",
            "t\0\n\n\u{2014} k AQIDBAU=\n",
            "t\n\n\u{2014} k AQIDBAU=\t\n",
        ] {
            assert_eq!(refuse(text), NoteError::NotText);
        }
        assert_eq!(Note::parse(b"t\xff\n\n"), Err(NoteError::NotText));
        assert_eq!(
            Note::parse(&vec![b'a'; MAX_NOTE + 1]),
            Err(NoteError::TooLong(MAX_NOTE + 1))
        );
        assert_eq!(Note::new("no newline"), Err(NoteError::Text));
        assert_eq!(Note::new(""), Err(NoteError::Text));
        assert_eq!(Note::new("a\tb\n"), Err(NoteError::NotText));
    }

    #[test]
    fn many_signatures_are_read_and_too_many_are_not() {
        let lines = |n: usize| {
            (0..n)
                .map(|i| format!("\u{2014} k{i} AQIDBAU=\n"))
                .collect::<Vec<_>>()
                .concat()
        };
        for count in [16, MAX_SIGNATURES] {
            let note = Note::parse(format!("t\n\n{}", lines(count)).as_bytes()).unwrap();
            assert_eq!(note.signatures().len(), count);
        }
        let note = format!("t\n\n{}", lines(MAX_SIGNATURES + 1));
        assert_eq!(Note::parse(note.as_bytes()), Err(NoteError::TooManySignatures));
    }

    #[test]
    fn no_changed_key_is_read() {
        for (start, end) in (0..PETER.len()).flat_map(|a| (a..=PETER.len()).map(move |b| (a, b))) {
            assert_eq!(
                PETER[start..end].parse::<NoteKey>().is_ok(),
                end - start == PETER.len()
            );
        }
        for at in 0..PETER.len() {
            let mut bytes = PETER.as_bytes().to_vec();
            bytes[at] ^= 1;
            assert!(
                String::from_utf8(bytes).unwrap().parse::<NoteKey>().is_err(),
                "byte {at}"
            );
        }
        // Another kind of key: a witness's, from transparency-dev/formats.
        let witness = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";
        assert_eq!(witness.parse::<NoteKey>(), Err(NoteError::Key(witness.into())));
        // A key whose base64 holds a plus sign, from the same place.
        let plus = "TEST+7997405c+AQcC+FTVKf0jlTdHDY3rbevmnKxxPjigCXlVtGe6RIr6";
        assert_eq!(plus.parse::<NoteKey>().unwrap().to_string(), plus);
        for name in ["", "a b", "a+b", "a\u{2003}b", "a\nb", "a\u{1}"] {
            assert_eq!(NoteKey::new(name, [0; 32]), Err(NoteError::Name(name.into())));
        }
    }
}
