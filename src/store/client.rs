//! A client's state folder.
//!
//! ```text
//! state/head                  the last log head it accepted
//! state/journal               what it must say again, or never again, after a crash; sealed
//! state/upload/R-A-K.bin      its masked vector of round R, attempt A, cluster K, until the round is over
//! state/descriptors/N         what it said of its data for clustering N, to be said again word by word
//! state/private.sealed        its private tensors, sealed
//! state/ledger.json           what that has cost in privacy
//! state/evidence/             what the server showed when it was caught
//! state/examples/             pictures for its own reports
//! state/lock                  held while a client runs on this folder
//! ```

use super::{Lock, StoreError, write_atomic};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use veilsum_aggregation::privacy::ledger::{Entry as LedgerEntry, Ledger, LedgerError};
use veilsum_attestation::Head;
use veilsum_attestation::evidence::{Evidence, EvidenceFile};
use veilsum_crypto::{Attempt, BoundedVec, ClusterId, Digest, RoundId};

/// A client's state on disk.
#[derive(Debug)]
pub struct ClientStore {
    folder: PathBuf,
    /// Held for as long as this lives: two clients on one journal would answer twice.
    _lock: Lock,
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
            _lock: Lock::take(folder)?,
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

    /// The journal; `None` for a client that never took part.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn journal(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.folder.join("journal");
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::new("read", &path, error)),
        }
    }

    /// Replaces the journal.
    ///
    /// # Errors
    /// [`StoreError`]: what depends on it must not be sent then.
    pub fn write_journal(&self, bytes: &[u8]) -> Result<(), StoreError> {
        write_atomic(&self.folder.join("journal"), bytes)
    }

    /// Keeps a masked vector until the round is over.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_upload(
        &self,
        round: RoundId,
        attempt: Attempt,
        cluster: ClusterId,
        packed: &[u8],
    ) -> Result<(), StoreError> {
        write_atomic(&self.upload_path(round, attempt, cluster), packed)
    }

    /// A masked vector that was kept.
    ///
    /// # Errors
    /// [`StoreError`] when it is not there.
    pub fn upload(
        &self,
        round: RoundId,
        attempt: Attempt,
        cluster: ClusterId,
    ) -> Result<Vec<u8>, StoreError> {
        let path = self.upload_path(round, attempt, cluster);
        std::fs::read(&path).map_err(|error| StoreError::new("read", &path, error))
    }

    /// Keeps the sealed private tensors.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_private(&self, sealed: &[u8]) -> Result<(), StoreError> {
        write_atomic(&self.folder.join("private.sealed"), sealed)
    }

    /// The sealed private tensors, if any were kept.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn private(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.folder.join("private.sealed");
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::new("read", &path, error)),
        }
    }

    /// The answer that was kept for a clustering.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn descriptor(&self, clustering: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.descriptor_path(clustering);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::new("read", &path, error)),
        }
    }

    /// Keeps the answer for a clustering: the same one is sent whenever it is asked for.
    ///
    /// # Errors
    /// [`StoreError`]: it must not be sent then.
    pub fn keep_descriptor(&self, clustering: u64, answer: &[u8]) -> Result<(), StoreError> {
        let path = self.descriptor_path(clustering);
        if path.exists() {
            return Err(StoreError::damaged(
                &path,
                "an answer is kept for this clustering already, and there is only one",
            ));
        }
        write_atomic(&path, answer)
    }

    /// Writes what a release costs into the ledger, before it leaves. One that was charged before a crash is not charged
    /// again: it never left. Returns all that was spent, in zero-concentrated differential privacy.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn charge(&self, entry: LedgerEntry) -> Result<f64, StoreError> {
        let path = self.folder.join("ledger.json");
        let entries: Vec<LedgerEntry> = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| StoreError::damaged(&path, &format!("it is not a ledger ({error})")))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(StoreError::new("read", &path, error)),
        };
        let damaged = |error: LedgerError| StoreError::damaged(&path, &error.to_string());
        let mut ledger = Ledger::replay(BTreeMap::new(), entries).map_err(damaged)?;
        match ledger.charge(entry) {
            Ok(()) => {
                let text = serde_json::to_vec_pretty(ledger.entries())
                    .map_err(|error| StoreError::damaged(&path, &error.to_string()))?;
                write_atomic(&path, &text)?;
            }
            Err(LedgerError::Repeated { .. }) => {}
            Err(error) => return Err(damaged(error)),
        }
        Ok(ledger.rho(entry.client, entry.release.unit()))
    }

    /// Keeps what convicts the server, and says where. Nothing is overwritten.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_evidence(
        &self,
        round: RoundId,
        genesis: &[Vec<u8>],
        evidence: Evidence,
    ) -> Result<PathBuf, StoreError> {
        let folder = self.folder.join("evidence");
        let path = (0u32..MOST_EVIDENCE)
            .map(|number| folder.join(format!("round-{:06}-{number}.veil", round.0)))
            .find(|path| !path.exists())
            .ok_or_else(|| StoreError::damaged(&folder, "it holds a thousand files of this round already"))?;
        let too_long = || StoreError::damaged(&path, "the evidence is too long for one file");
        let genesis = genesis
            .iter()
            .map(|entry| BoundedVec::new(entry.clone()).map_err(|_| too_long()))
            .collect::<Result<_, _>>()?;
        let file = EvidenceFile {
            genesis: BoundedVec::new(genesis).map_err(|_| too_long())?,
            evidence,
        };
        let bytes = file.to_bytes().map_err(|_| too_long())?;
        write_atomic(&path, &bytes)?;
        Ok(path)
    }

    /// Throws the kept vectors away: the round is over.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn forget_uploads(&self) -> Result<(), StoreError> {
        let path = self.folder.join("upload");
        match std::fs::remove_dir_all(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::new("remove", &path, error)),
        }
    }

    /// Where an example picture of a round and cluster goes.
    #[must_use]
    pub fn example_path(&self, round: u64, cluster: u16) -> PathBuf {
        self.folder
            .join(format!("examples/round-{round:04}-cluster-{cluster}.png"))
    }

    fn upload_path(&self, round: RoundId, attempt: Attempt, cluster: ClusterId) -> PathBuf {
        self.folder
            .join(format!("upload/{:06}-{}-{}.bin", round.0, attempt.0, cluster.0))
    }

    fn descriptor_path(&self, clustering: u64) -> PathBuf {
        self.folder.join(format!("descriptors/{clustering:06}.bin"))
    }

    fn head_path(&self) -> PathBuf {
        self.folder.join("head")
    }
}

/// Evidence files of one round. A server caught a thousand times is not caught better.
const MOST_EVIDENCE: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_is_kept_for_each_clustering() {
        let dir = tempfile::tempdir().unwrap();
        let store = ClientStore::open(dir.path()).unwrap();
        assert_eq!(store.descriptor(1).unwrap(), None);
        store.keep_descriptor(1, b"first").unwrap();
        // Asked in whatever order, a second one with new noise never takes its place.
        assert!(store.keep_descriptor(1, b"second").is_err());
        store.keep_descriptor(2, b"next").unwrap();
        assert_eq!(store.descriptor(1).unwrap().as_deref(), Some(b"first".as_slice()));
    }
}
