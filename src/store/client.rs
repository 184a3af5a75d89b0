//! A client's state folder: the last log head it accepted, and example pictures for its own reports.

use super::{StoreError, write_atomic};
use std::path::{Path, PathBuf};
use veilsum_attestation::Head;
use veilsum_crypto::Digest;

/// A client's state on disk.
#[derive(Debug, Clone)]
pub struct ClientStore {
    folder: PathBuf,
}

impl ClientStore {
    /// Opens or makes the folder.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder).map_err(|error| StoreError::new("make", folder, error))?;
        Ok(Self {
            folder: folder.to_path_buf(),
        })
    }

    /// The last head, or the empty log's for a newcomer.
    ///
    /// # Errors
    /// [`StoreError`] for a file that is not a head: a client that forgot its head would not notice a rollback.
    pub fn head(&self) -> Result<Head, StoreError> {
        let path = self.head_path();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Head::empty()),
            Err(error) => return Err(StoreError::new("read", &path, error)),
        };
        let parsed = text.trim_end().split_once(' ').and_then(|(size, root)| {
            Some(Head {
                size: size.parse().ok()?,
                root: Digest::from_hex(root)?,
            })
        });
        parsed.ok_or_else(|| StoreError::damaged(&path, "it is not a log head"))
    }

    /// Keeps a head.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep(&self, head: Head) -> Result<(), StoreError> {
        write_atomic(
            &self.head_path(),
            format!("{} {}\n", head.size, head.root).as_bytes(),
        )
    }

    /// Where an example picture of a round and cluster goes.
    #[must_use]
    pub fn example_path(&self, round: u64, cluster: u16) -> PathBuf {
        self.folder
            .join(format!("examples/round-{round:04}-cluster-{cluster}.png"))
    }

    fn head_path(&self) -> PathBuf {
        self.folder.join("head")
    }
}
