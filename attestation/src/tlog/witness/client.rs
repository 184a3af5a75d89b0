//! The log's side of `add-checkpoint`: what to send, and what an answer means.

use super::super::cosignature::CosignerKey;
use super::super::proof::decimal;
use super::request::{AddCheckpoint, RequestError};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::merkle::{Hash, MerkleError};
use crate::note::{Note, NoteError, NoteSignature, VerifyEd25519};

/// One witness asked about one head: [`Exchange::request`], send, [`Exchange::answer`], and again while it says so.
#[derive(Debug)]
pub struct Exchange {
    note: Note,
    checkpoint: Checkpoint,
    key: CosignerKey,
    old: u64,
    tries: u8,
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The witness's checked signature line and its time, POSIX seconds.
    Cosigned(NoteSignature, u64),
    /// The witness holds another size: make the request anew.
    Again,
}

/// Why there is no cosignature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessFault {
    /// The witness has cosigned a longer log than this one.
    #[error(
        "the witness has cosigned {witness} entries and the log has {ours}: it was rolled back, or forked"
    )]
    Ahead {
        /// Entries the witness has seen.
        witness: u64,
        /// Entries of the head.
        ours: u64,
    },
    /// 409 without a size, or 422.
    #[error(
        "the witness holds a head this log does not extend (status {status}): the log was forked, or the witness saw \
         another one; compare heads with `veilsum audit fork`"
    )]
    Inconsistent {
        /// Its status.
        status: u16,
    },
    /// 404.
    #[error("the witness does not know this log; its operator must add the log's key")]
    UnknownLog,
    /// 403.
    #[error("the witness knows another key for this log; its operator must add the server's")]
    UnknownKey,
    /// 400, or a status the protocol has not.
    #[error("the witness answered with status {0}")]
    Status(u16),
    /// 409 with a body that is no size.
    #[error("the witness answered 409 with a body that is no size")]
    Size,
    /// 200 without a line of its key.
    #[error("the witness answered without a cosignature of the key it is known by")]
    NoCosignature,
    /// 200 with a line that does not hold.
    #[error("the witness's answer: {0}")]
    Cosignature(NoteError),
    /// The size changed again and again.
    #[error("the witness named another size {MAX_TRIES} times in a row")]
    Unsteady,
    /// No proof from the witness's size.
    #[error("no proof from the witness's size: {0}")]
    Proof(#[from] MerkleError),
    /// The head cannot be sent.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The head is no checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl Exchange {
    /// Asks the witness with `key` about a signed head. `known` is the size it was last seen to hold, 0 if never.
    ///
    /// # Errors
    /// [`WitnessFault::Checkpoint`] when the note is no checkpoint.
    pub fn new(note: Note, key: CosignerKey, known: u64) -> Result<Self, WitnessFault> {
        let checkpoint: Checkpoint = note.text().parse()?;
        let old = if known > checkpoint.size() { 0 } else { known };
        Ok(Self {
            note,
            checkpoint,
            key,
            old,
            tries: 0,
        })
    }

    /// The body to send. `prove` makes the consistency proof from a size above 0 to the head's.
    ///
    /// # Errors
    /// [`WitnessFault::Unsteady`], [`WitnessFault::Proof`].
    pub fn request(
        &mut self,
        prove: &dyn Fn(u64) -> Result<Vec<Hash>, MerkleError>,
    ) -> Result<String, WitnessFault> {
        if self.tries == MAX_TRIES {
            return Err(WitnessFault::Unsteady);
        }
        self.tries += 1;
        let proof = if self.old == 0 {
            Vec::new()
        } else {
            prove(self.old)?
        };
        Ok(AddCheckpoint::new(self.old, proof, self.note.clone())?.to_string())
    }

    /// Takes the answer.
    ///
    /// # Errors
    /// [`WitnessFault`].
    pub fn answer(
        &mut self,
        status: u16,
        content_type: Option<&str>,
        body: &[u8],
        check: &VerifyEd25519<'_>,
    ) -> Result<Asked, WitnessFault> {
        match status {
            200 => self.cosigned(body, check),
            403 => Err(WitnessFault::UnknownKey),
            404 => Err(WitnessFault::UnknownLog),
            409 if content_type == Some("text/x.tlog.size") => {
                let size = std::str::from_utf8(body)
                    .ok()
                    .and_then(|text| decimal(text.strip_suffix('\n')?))
                    .ok_or(WitnessFault::Size)?;
                if size > self.checkpoint.size() {
                    return Err(WitnessFault::Ahead {
                        witness: size,
                        ours: self.checkpoint.size(),
                    });
                }
                self.old = size;
                Ok(Asked::Again)
            }
            409 | 422 => Err(WitnessFault::Inconsistent { status }),
            other => Err(WitnessFault::Status(other)),
        }
    }

    fn cosigned(&self, body: &[u8], check: &VerifyEd25519<'_>) -> Result<Asked, WitnessFault> {
        let text = std::str::from_utf8(body).map_err(|_| WitnessFault::Cosignature(NoteError::NotText))?;
        let note = Note::parse(format!("{}\n{text}", self.note.text()).as_bytes())
            .map_err(WitnessFault::Cosignature)?;
        // Signature lines only: a blank line in the answer would have made its beginning part of the text.
        if note.text() != self.note.text() {
            return Err(WitnessFault::Cosignature(NoteError::NoSignatures));
        }
        let time = self
            .key
            .time_on(&note, check)
            .map_err(WitnessFault::Cosignature)?
            .ok_or(WitnessFault::NoCosignature)?;
        note.signatures()
            .iter()
            .find(|line| line.name == self.key.name() && line.key_id == self.key.id())
            .map(|line| Asked::Cosigned(line.clone(), time))
            .ok_or(WitnessFault::NoCosignature)
    }
}

/// Sizes a witness may name before it is given up: it is asked by others at the same time, but not that often.
const MAX_TRIES: u8 = 4;
