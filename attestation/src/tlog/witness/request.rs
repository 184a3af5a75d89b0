//! The body of `add-checkpoint`: the old size, the consistency proof, an empty line, the signed head.

use super::super::proof::{decimal, hash};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::merkle::Hash;
use crate::note::{Note, NoteError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// A request for a cosignature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddCheckpoint {
    old: u64,
    proof: Vec<Hash>,
    note: Note,
    checkpoint: Checkpoint,
}

/// What is wrong with a request, or with a stored head. The fault of whoever sent or kept it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Not UTF-8.
    #[error("the request is not text")]
    NotText,
    /// No old size.
    #[error("the first line must read 'old N', N a decimal without leading zeros")]
    Old,
    /// A proof line that is no hash.
    #[error("proof line {0} is not 32 bytes in standard base64 with padding")]
    ProofLine(usize),
    /// Too many hashes.
    #[error("more than {MAX_HASHES} proof lines")]
    TooManyHashes,
    /// No empty line.
    #[error("an empty line and a signed checkpoint must follow the proof")]
    NoCheckpoint,
    /// The head is no signed note.
    #[error("the checkpoint: {0}")]
    Note(#[from] NoteError),
    /// The head is no checkpoint.
    #[error("the checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// A stored head of a log that is not known any more.
    #[error("the log '{0}' is not known; add its key again, or remove its state deliberately")]
    Origin(String),
}

impl AddCheckpoint {
    /// Asks for a cosignature on `note`, showing with `proof` that it extends the head of `old` entries.
    ///
    /// # Errors
    /// [`RequestError::Checkpoint`] when the note is no checkpoint, [`RequestError::TooManyHashes`].
    pub fn new(old: u64, proof: Vec<Hash>, note: Note) -> Result<Self, RequestError> {
        if proof.len() > MAX_HASHES {
            return Err(RequestError::TooManyHashes);
        }
        let checkpoint = note.text().parse()?;
        Ok(Self {
            old,
            proof,
            note,
            checkpoint,
        })
    }

    /// Reads a request body. Nothing in it is believed yet.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn parse(body: &[u8]) -> Result<Self, RequestError> {
        let text = std::str::from_utf8(body).map_err(|_| RequestError::NotText)?;
        let (head, note) = text.split_once("\n\n").ok_or(RequestError::NoCheckpoint)?;
        let mut lines = head.split('\n');
        let old = lines
            .next()
            .and_then(|line| decimal(line.strip_prefix("old ")?))
            .ok_or(RequestError::Old)?;
        let mut proof = Vec::new();
        for (number, line) in lines.enumerate() {
            if number == MAX_HASHES {
                return Err(RequestError::TooManyHashes);
            }
            proof.push(hash(line).ok_or(RequestError::ProofLine(number + 1))?);
        }
        Self::new(old, proof, Note::parse(note.as_bytes())?)
    }

    pub(super) fn into_parts(self) -> (u64, Vec<Hash>, Note, Checkpoint) {
        (self.old, self.proof, self.note, self.checkpoint)
    }
}

impl fmt::Display for AddCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        for hash in &self.proof {
            writeln!(f, "{}", STANDARD.encode(hash))?;
        }
        write!(f, "\n{}", self.note)
    }
}

/// The text's limit.
const MAX_HASHES: usize = 63;
