//! A witness's state folder.
//!
//! ```text
//! lock                      held while the witness runs: two on one folder would cosign two histories
//! heads/<origin>.note       the last head cosigned of each log, as the log signed it
//! evidence/<origin>-N.fork  two heads of one size and two roots, for `veilsum audit fork --check`
//! evidence/<origin>-N.note  a signed head that was not shown to extend the one held
//! ```

use crate::store::{StoreError, write_atomic};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use veilsum_attestation::note::{Note, NoteError, NoteKey};
use veilsum_attestation::tlog::{Relation, compare};
use veilsum_attestation::tlog::{RequestError, Witness, WitnessState};
use veilsum_crypto::label::Label;

/// The folder, locked.
#[derive(Debug)]
pub struct DeskStore {
    folder: PathBuf,
    _lock: File,
}

impl DeskStore {
    /// Opens the folder and gives the witness back what it had cosigned.
    ///
    /// # Errors
    /// [`DeskStoreError`], also for a head that is damaged: forgetting it could mean cosigning a fork.
    pub fn open(folder: &Path, witness: &mut Witness) -> Result<Self, DeskStoreError> {
        for sub in ["heads", "evidence"] {
            let path = folder.join(sub);
            fs::create_dir_all(&path).map_err(|error| StoreError::new("make", &path, error))?;
        }
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(|error| StoreError::new("make", &path, error))?;
        if lock.try_lock().is_err() {
            return Err(DeskStoreError::Locked(folder.to_path_buf()));
        }
        let heads = folder.join("heads");
        let fault = |error| StoreError::new("read", &heads, error);
        for file in fs::read_dir(&heads).map_err(fault)? {
            let path = file.map_err(fault)?.path();
            if path.extension().is_none_or(|end| end != "note") {
                continue;
            }
            let damaged = |error: RequestError| DeskStoreError::Damaged {
                path: path.clone(),
                error,
            };
            let bytes = fs::read(&path).map_err(|error| StoreError::new("read", &path, error))?;
            let note = Note::parse(&bytes).map_err(|error| damaged(error.into()))?;
            witness.restore(note, &super::verifies).map_err(damaged)?;
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            _lock: lock,
        })
    }

    /// Stores the head that is about to be cosigned.
    ///
    /// # Errors
    /// [`StoreError`]: it must not be cosigned then.
    pub fn keep(&self, state: &WitnessState) -> Result<(), StoreError> {
        let name = file_name(state.checkpoint().origin());
        let path = self.folder.join("heads").join(format!("{name}.note"));
        write_atomic(&path, state.note().to_string().as_bytes())
    }

    /// Keeps a head that was not shown to extend the one held; where the two alone prove a fork, as such a proof. The
    /// file, unless it or enough others are there.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn evidence(
        &self,
        keys: &[NoteKey],
        held: &Note,
        sent: &Note,
    ) -> Result<Option<PathBuf>, StoreError> {
        let folder = self.folder.join("evidence");
        let count = fs::read_dir(&folder)
            .map_err(|error| StoreError::new("read", &folder, error))?
            .count();
        let origin = sent.text().lines().next().unwrap_or_default();
        let size = sent.text().lines().nth(1).unwrap_or_default();
        let fork =
            keys.iter().find_map(
                |key| match compare(key, (held, None), (sent, None), &super::verifies) {
                    Ok(Relation::Forked(fork)) => Some(fork.to_string()),
                    _ => None,
                },
            );
        let (end, text) = match fork {
            Some(fork) => ("fork", fork),
            None => ("note", sent.to_string()),
        };
        let path = folder.join(format!("{}-{size}.{end}", file_name(origin)));
        if count >= MAX_EVIDENCE || path.exists() {
            return Ok(None);
        }
        write_atomic(&path, text.as_bytes())?;
        Ok(Some(path))
    }
}

/// Origins hold slashes and worse; their digest does not.
fn file_name(origin: &str) -> String {
    let mut name = Label::new("witness-origin").hash(&[origin.as_bytes()]).to_hex();
    name.truncate(16);
    name
}

/// Why a witness cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeskStoreError {
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process.
    #[error("{} is in use by another witness; two on one folder would cosign two histories", .0.display())]
    Locked(PathBuf),
    /// A stored head that is none.
    #[error(
        "{}: {error}. The witness does not know what it has cosigned; restore the file, or retire the key", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: RequestError,
    },
    /// The witness's own name.
    #[error(transparent)]
    Name(#[from] NoteError),
}

/// Only the log can make evidence, but it could make much.
const MAX_EVIDENCE: usize = 64;
