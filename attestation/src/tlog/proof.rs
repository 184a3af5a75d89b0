//! Offline proofs (C2SP tlog-proof): one entry's place in a log whose head is signed, in one text file.

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::merkle::{Hash, MerkleError, verify_inclusion};
use crate::note::{Note, NoteError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::str::FromStr;

/// An entry's index, its inclusion proof and the signed head. Reading one proves nothing: call [`LogProof::check`], and
/// check the signatures on [`LogProof::note`] against a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogProof {
    extra: Option<Vec<u8>>,
    index: u64,
    hashes: Vec<Hash>,
    note: Note,
    checkpoint: Checkpoint,
}

/// What is wrong with a proof file. The fault of whoever made or sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// Not a proof of version 1.
    #[error("the first line is not '{HEADER}': this is no proof file, or one of another version")]
    Header,
    /// Extra data that is not base64.
    #[error("the extra data is not standard base64 with padding")]
    Extra,
    /// No index line, or a malformed number.
    #[error("the line after the header must read 'index N', N a decimal without leading zeros")]
    Index,
    /// A hash line that is none.
    #[error("hash line {0} is not 32 bytes in standard base64 with padding")]
    HashLine(usize),
    /// More hashes than any tree calls for.
    #[error("more than {MAX_HASHES} hashes: no tree is that high")]
    TooManyHashes,
    /// The text ends before the checkpoint.
    #[error("an empty line and a checkpoint must follow the hashes")]
    NoCheckpoint,
    /// The checkpoint is no signed note.
    #[error("the checkpoint: {0}")]
    Note(#[from] NoteError),
    /// The checkpoint is malformed.
    #[error("the checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The proof does not lead to the head.
    #[error("the entry is not in the log at this place: {0}")]
    Merkle(#[from] MerkleError),
}

impl LogProof {
    /// Puts a proof together.
    ///
    /// # Errors
    /// [`ProofError::Checkpoint`] when the note is no checkpoint, [`ProofError::TooManyHashes`].
    pub fn new(
        index: u64,
        hashes: Vec<Hash>,
        note: Note,
        extra: Option<Vec<u8>>,
    ) -> Result<Self, ProofError> {
        let checkpoint = note.text().parse()?;
        if hashes.len() > MAX_HASHES {
            return Err(ProofError::TooManyHashes);
        }
        Ok(Self {
            extra,
            index,
            hashes,
            note,
            checkpoint,
        })
    }

    /// Whether the entry with this leaf hash is in the log at the proof's index. Says nothing of signatures.
    ///
    /// # Errors
    /// [`ProofError::Merkle`].
    pub fn check(&self, leaf: &Hash) -> Result<(), ProofError> {
        let head = &self.checkpoint;
        Ok(verify_inclusion(
            leaf,
            self.index,
            head.size(),
            &self.hashes,
            head.root(),
        )?)
    }

    /// The entry's index.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The signed head.
    #[must_use]
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// The head's numbers.
    #[must_use]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Data nobody has authenticated.
    #[must_use]
    pub fn extra(&self) -> Option<&[u8]> {
        self.extra.as_deref()
    }
}

impl fmt::Display for LogProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        if let Some(extra) = &self.extra {
            writeln!(f, "extra {}", STANDARD.encode(extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        for hash in &self.hashes {
            writeln!(f, "{}", STANDARD.encode(hash))?;
        }
        write!(f, "\n{}", self.note)
    }
}

impl FromStr for LogProof {
    type Err = ProofError;

    /// Reads exactly what is written.
    fn from_str(text: &str) -> Result<Self, ProofError> {
        let rest = text
            .strip_prefix(HEADER)
            .and_then(|rest| rest.strip_prefix('\n'))
            .ok_or(ProofError::Header)?;
        let (head, note) = rest.split_once("\n\n").ok_or(ProofError::NoCheckpoint)?;
        let mut lines = head.split('\n').peekable();
        let extra = match lines.peek().and_then(|line| line.strip_prefix("extra ")) {
            Some(encoded) => {
                lines.next();
                Some(STANDARD.decode(encoded).map_err(|_| ProofError::Extra)?)
            }
            None => None,
        };
        let index = lines
            .next()
            .and_then(|line| decimal(line.strip_prefix("index ")?))
            .ok_or(ProofError::Index)?;
        let mut hashes = Vec::new();
        for (number, line) in lines.enumerate() {
            if number == MAX_HASHES {
                return Err(ProofError::TooManyHashes);
            }
            hashes.push(hash(line).ok_or(ProofError::HashLine(number + 1))?);
        }
        Self::new(index, hashes, Note::parse(note.as_bytes())?, extra)
    }
}

/// A decimal without sign or leading zero.
pub(super) fn decimal(text: &str) -> Option<u64> {
    text.parse::<u64>()
        .ok()
        .filter(|number| number.to_string() == text)
}

/// 32 bytes in base64.
pub(super) fn hash(text: &str) -> Option<Hash> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// A tree of 2^64 leaves is 64 high.
const MAX_HASHES: usize = 64;
