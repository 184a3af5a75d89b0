//! The head a bundle ends in: a C2SP checkpoint under exactly one signature, the server's. Cosignatures of witnesses are in
//! a part of their own, which may be of an earlier head; a line nobody checks has no place here.

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::log::Head;
use crate::note::{Note, NoteError, NoteKey};
use veilsum_crypto::{Digest, Identity, PublicIdentity, Signature};

/// The name a federation's log is signed under: origin of its checkpoints and name of the server's note key.
#[must_use]
pub fn log_name(federation: &Digest) -> String {
    let hex = federation.to_hex();
    format!("veilsum/{}", hex.get(..16).unwrap_or(&hex))
}

/// Signs the head of a federation's log as a C2SP note.
///
/// # Errors
/// None for the names this makes; [`HeadError`] keeps it total.
pub fn sign_head(head: &Head, federation: &Digest, server: &Identity) -> Result<String, HeadError> {
    let name = log_name(federation);
    let checkpoint = Checkpoint::new(name.as_str(), head.size, head.root.0)?;
    let mut note = Note::new(checkpoint.to_string())?;
    let key = NoteKey::new(&name, server.public().0)?;
    note.sign(&key, &|text| server.sign_raw(text).0)?;
    Ok(note.to_string())
}

/// Reads a signed head without believing it.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<(Note, Checkpoint), HeadError> {
    let note = Note::parse(bytes)?;
    // Two spellings of one note would be a byte without a meaning.
    if note.to_string().as_bytes() != bytes {
        return Err(HeadError::NotCanonical);
    }
    let checkpoint: Checkpoint = note.text().parse()?;
    if note.signatures().len() != 1 || !checkpoint.extensions().is_empty() {
        return Err(HeadError::Surplus);
    }
    Ok((note, checkpoint))
}

/// Reads a cosigned head without believing it: any number of signatures, but one spelling.
pub(crate) fn parse_cosigned(bytes: &[u8]) -> Result<(Note, Checkpoint), HeadError> {
    let note = Note::parse(bytes)?;
    if note.to_string().as_bytes() != bytes {
        return Err(HeadError::NotCanonical);
    }
    let checkpoint: Checkpoint = note.text().parse()?;
    if !checkpoint.extensions().is_empty() {
        return Err(HeadError::Surplus);
    }
    Ok((note, checkpoint))
}

/// Whether a signed head is the server's, for this federation's log.
pub(crate) fn verify_head(
    note: &Note,
    checkpoint: &Checkpoint,
    federation: &Digest,
    server: PublicIdentity,
) -> Result<(), HeadError> {
    let name = log_name(federation);
    if checkpoint.origin() != name {
        return Err(HeadError::Origin {
            got: checkpoint.origin().to_owned(),
            want: name,
        });
    }
    let keys = [NoteKey::new(&name, server.0)?];
    note.verify(&keys, &|public, text, signature| {
        PublicIdentity(*public).verifies_raw(text, &Signature(*signature))
    })?;
    Ok(())
}

/// What is wrong with a signed head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// No signed note, or not signed by the server.
    #[error("the signed head: {0}")]
    Note(#[from] NoteError),
    /// No checkpoint.
    #[error("the signed head: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// Another spelling of a note.
    #[error("the signed head is not written in its one form; it was changed")]
    NotCanonical,
    /// More lines than an origin, a size, a root and one signature.
    #[error("the signed head has more than an origin, a size, a root and one signature")]
    Surplus,
    /// Another log.
    #[error("the signed head is of the log {got:?}; this federation's is {want:?}")]
    Origin {
        /// The origin found.
        got: String,
        /// The origin expected.
        want: String,
    },
    /// Another head of the log, or another log's.
    #[error("the signed head is not the head of the entries given; sign the log's current head")]
    OtherEntries,
}
