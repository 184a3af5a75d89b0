//! The server's state folder.
//!
//! ```text
//! state/log.veil                 entries: u32 LE length, bytes; appended and made durable one by one
//! state/head.note               the last head with its witnesses' cosignatures
//! state/lock                     held while a server runs on this folder
//! state/models/<digest>.f32      every model a plan or a sum names
//! state/vectors/R-A/U-K.bin      masked vectors of round R, attempt A: client U, cluster K; gone when no longer kept
//! state/salt.<tier>              32 random bytes: what clients are called in that tier's files
//! ```

use super::{Lock, StoreError, model_bytes, model_from_bytes, write_atomic};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use veilsum_aggregation::Stored;
use veilsum_attestation::statement::{Aborted, ClientSet, Entry, Kind, Phase, Plan, Sums, descriptor_digest};
use veilsum_attestation::{Log, model_digest};
use veilsum_crypto::{Attempt, ClientId, ClusterId, Digest, RoundId, wire};

/// The server's state on disk.
#[derive(Debug)]
pub struct ServerStore {
    folder: PathBuf,
    log: File,
    /// Bytes of whole entries in the log.
    length: u64,
    _lock: Lock,
}

/// Where a server stands when it starts.
#[derive(Debug)]
pub struct Resume {
    /// The log so far.
    pub log: Log,
    /// The next round.
    pub round: RoundId,
    /// The next attempt at it.
    pub attempt: Attempt,
    /// The round planned last.
    pub planned: Option<RoundId>,
    /// The clusters of that plan.
    pub clusters: Vec<ClientSet>,
    /// The current model of each of them.
    pub models: BTreeMap<ClusterId, Arc<[f32]>>,
}

impl ServerStore {
    /// Opens the folder: a new one begins with the genesis entries; an old one must begin with the same.
    ///
    /// # Errors
    /// [`StoreError`], also for a log of another federation or a damaged one.
    pub fn open(folder: &Path, genesis: &[Vec<u8>]) -> Result<(Self, Resume), StoreError> {
        for sub in ["models", "vectors", "descriptors"] {
            let path = folder.join(sub);
            fs::create_dir_all(&path).map_err(|error| StoreError::new("make", &path, error))?;
        }
        let lock = Lock::take(folder)?;
        let path = folder.join("log.veil");
        let mut whole = 0;
        let mut entries = match fs::read(&path) {
            Ok(bytes) => {
                let (entries, length) = read_entries(&bytes);
                whole = length;
                entries
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(StoreError::new("read", &path, error)),
        };
        let fault = |doing| {
            let path = path.clone();
            move |error| StoreError::new(doing, &path, error)
        };
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(fault("open"))?;
        // What was appended when the machine stopped was never acted on.
        log.set_len(whole)
            .and_then(|()| log.sync_all())
            .map_err(fault("cut the unfinished end off"))?;
        let mut store = Self {
            folder: folder.to_path_buf(),
            log,
            length: whole,
            _lock: lock,
        };
        if genesis.starts_with(&entries) {
            // A new log, or one whose beginning was cut short by a crash.
            for entry in genesis.iter().skip(entries.len()) {
                store.append(entry)?;
            }
            entries = genesis.to_vec();
        } else if entries.get(..genesis.len()) != Some(genesis) {
            return Err(StoreError::damaged(
                &path,
                "it belongs to another policy; use another state folder",
            ));
        }
        let resume = store.resume(Log::from_entries(entries), &path)?;
        Ok((store, resume))
    }

    /// The log as it is on disk.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn reload(&self, genesis: &[Vec<u8>]) -> Result<Log, StoreError> {
        let path = self.folder.join("log.veil");
        let bytes = fs::read(&path).map_err(|error| StoreError::new("read", &path, error))?;
        let (entries, _) = read_entries(&bytes);
        if entries.starts_with(genesis) {
            Ok(Log::from_entries(entries))
        } else {
            Err(StoreError::damaged(
                &path,
                "it belongs to another policy; use another state folder",
            ))
        }
    }

    /// Appends an entry and makes it durable before returning.
    ///
    /// # Errors
    /// [`StoreError`]: the entry must not be acted on then.
    pub fn append(&mut self, entry: &[u8]) -> Result<(), StoreError> {
        let path = self.folder.join("log.veil");
        let mut bytes = u32::try_from(entry.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes()
            .to_vec();
        bytes.extend_from_slice(entry);
        let before = self.length;
        let written = self.log.write_all(&bytes).and_then(|()| self.log.sync_data());
        if let Err(error) = written {
            // Half an entry must not stand before the next one.
            let _ = self.log.set_len(before);
            return Err(StoreError::new("append to", &path, error));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Keeps the last head with its witnesses' cosignatures: what members and auditors are shown.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_head(&self, note: &[u8]) -> Result<(), StoreError> {
        write_atomic(&self.folder.join("head.note"), note)
    }

    /// Keeps a model under its digest.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_model(&self, model: &[f32]) -> Result<Digest, StoreError> {
        let digest = model_digest(model);
        let path = self.model_path(&digest);
        if !path.exists() {
            write_atomic(&path, &model_bytes(model))?;
        }
        Ok(digest)
    }

    /// The model of that digest.
    ///
    /// # Errors
    /// [`StoreError`] when it is not there or damaged.
    pub fn model(&self, digest: &Digest) -> Result<Arc<[f32]>, StoreError> {
        let path = self.model_path(digest);
        let bytes = fs::read(&path).map_err(|error| StoreError::new("read", &path, error))?;
        match model_from_bytes(&bytes) {
            Some(model) if model_digest(&model) == *digest => Ok(Arc::from(model)),
            _ => Err(StoreError::damaged(&path, "it is not the model of its name")),
        }
    }

    /// Keeps a descriptor under its digest.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_descriptor(&self, bytes: &[u8]) -> Result<(), StoreError> {
        write_atomic(&self.descriptor_path(&descriptor_digest(bytes)), bytes)
    }

    /// The descriptor of that digest, if it is here and whole.
    #[must_use]
    pub fn descriptor(&self, digest: &Digest) -> Option<Vec<u8>> {
        let bytes = fs::read(self.descriptor_path(digest)).ok()?;
        (descriptor_digest(&bytes) == *digest).then_some(bytes)
    }

    fn descriptor_path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("descriptors/{digest}.desc"))
    }

    /// Keeps a masked vector for the audit.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_vector(
        &self,
        round: RoundId,
        attempt: Attempt,
        client: ClientId,
        cluster: ClusterId,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        write_atomic(&self.vector_path(round, attempt, client, cluster), bytes)
    }

    /// A masked vector.
    ///
    /// # Errors
    /// [`StoreError`] when it is not there.
    pub fn vector(
        &self,
        round: RoundId,
        attempt: Attempt,
        client: ClientId,
        cluster: ClusterId,
    ) -> Result<Vec<u8>, StoreError> {
        let path = self.vector_path(round, attempt, client, cluster);
        fs::read(&path).map_err(|error| StoreError::new("read", &path, error))
    }

    /// Throws the masked vectors of an aborted attempt away: nothing of it may be exported.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn forget_vectors(&self, round: RoundId, attempt: Attempt) -> Result<(), StoreError> {
        let path = self.vector_folder(round, attempt);
        match fs::remove_dir_all(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::new("remove", &path, error)),
        }
    }

    /// Whether the masked vectors of an attempt are here: all of them, or none after they were thrown away.
    #[must_use]
    pub fn has_vectors(&self, round: RoundId, attempt: Attempt) -> bool {
        self.vector_folder(round, attempt).exists()
    }

    /// Throws away the masked vectors of every round after which `keep` more were published; `last` is the last of them.
    /// Their roots stay in the log.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn expire_vectors(&self, last: RoundId, keep: u64) -> Result<(), StoreError> {
        let folder = self.folder.join("vectors");
        let fault = |error| StoreError::new("read", &folder, error);
        for file in fs::read_dir(&folder).map_err(fault)? {
            let path = file.map_err(fault)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let round = name
                .and_then(|name| name.split_once('-'))
                .and_then(|(round, _)| round.parse::<u64>().ok());
            if round.is_some_and(|round| round.saturating_add(keep) <= last.0) {
                fs::remove_dir_all(&path).map_err(|error| StoreError::new("remove", &path, error))?;
            }
        }
        Ok(())
    }

    /// The last head that witnesses cosigned, if they ever did.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn cosigned_head(&self) -> Result<Option<String>, StoreError> {
        let path = self.folder.join("head.note");
        match fs::read_to_string(&path) {
            Ok(note) => Ok(Some(note)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::new("read", &path, error)),
        }
    }

    /// A tier's salt; `fresh` becomes it where there is none yet.
    ///
    /// # Errors
    /// [`StoreError`], also for one that is damaged.
    pub fn salt(&self, tier: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        let path = self.folder.join(format!("salt.{tier}"));
        match fs::read(&path) {
            Ok(bytes) => bytes
                .try_into()
                .map_err(|_| StoreError::damaged(&path, "it is no salt of 32 bytes")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                write_atomic(&path, &fresh)?;
                Ok(fresh)
            }
            Err(error) => Err(StoreError::new("read", &path, error)),
        }
    }

    fn model_path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("models/{digest}.f32"))
    }

    fn vector_folder(&self, round: RoundId, attempt: Attempt) -> PathBuf {
        self.folder.join(format!("vectors/{:06}-{}", round.0, attempt.0))
    }

    fn vector_path(&self, round: RoundId, attempt: Attempt, client: ClientId, cluster: ClusterId) -> PathBuf {
        self.vector_folder(round, attempt)
            .join(format!("{:04}-{}.bin", client.0, cluster.0))
    }

    /// Replays the log: the next round is the one after the last that was published.
    fn resume(&self, log: Log, path: &Path) -> Result<Resume, StoreError> {
        let damaged = || StoreError::damaged(path, "it holds an entry that cannot be read");
        let mut planned: Option<(RoundId, Attempt)> = None;
        let mut next = (RoundId(1), Attempt(0));
        let (mut clusters, mut models) = (Vec::new(), BTreeMap::new());
        for bytes in log.entries() {
            let entry: Entry = wire::decode(bytes).map_err(|_| damaged())?;
            match entry.kind {
                Kind::Plan => {
                    let plan: Plan = wire::decode(&entry.body).map_err(|_| damaged())?;
                    planned = Some((plan.round, plan.attempt));
                    next = (plan.round, Attempt(plan.attempt.0.saturating_add(1)));
                    // The plan names every cluster's model; those of an earlier clustering are of no use.
                    clusters = plan
                        .clusters
                        .iter()
                        .map(|cluster| cluster.members.clone())
                        .collect();
                    models = plan.numbered().map(|(id, cluster)| (id, cluster.model)).collect();
                }
                // Clients that were asked to reveal may have answered, and answer nothing more of that round.
                Kind::Aborted => {
                    let aborted: Aborted = wire::decode(&entry.body).map_err(|_| damaged())?;
                    if aborted.phase >= Phase::Unmask {
                        next = (RoundId(aborted.round.0.saturating_add(1)), Attempt(0));
                    }
                }
                Kind::Sums => {
                    let sums: Sums = wire::decode(&entry.body).map_err(|_| damaged())?;
                    let (round, _) = planned.ok_or_else(damaged)?;
                    next = (RoundId(round.0.saturating_add(1)), Attempt(0));
                    models.extend(sums.results.iter().map(|result| (result.cluster, result.model)));
                }
                _ => {}
            }
        }
        let models = models
            .into_iter()
            .map(|(cluster, digest)| Ok((cluster, self.model(&digest)?)))
            .collect::<Result<_, StoreError>>()?;
        Ok(Resume {
            log,
            round: next.0,
            attempt: next.1,
            planned: planned.map(|(round, _)| round),
            clusters,
            models,
        })
    }
}

impl Stored for ServerStore {
    fn model(&self, digest: &Digest) -> Option<Arc<[f32]>> {
        Self::model(self, digest).ok()
    }

    fn vector(
        &self,
        round: RoundId,
        attempt: Attempt,
        client: ClientId,
        cluster: ClusterId,
    ) -> Option<Vec<u8>> {
        Self::vector(self, round, attempt, client, cluster).ok()
    }
}

/// The whole entries, and their length in the file.
fn read_entries(bytes: &[u8]) -> (Vec<Vec<u8>>, u64) {
    let mut entries = Vec::new();
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first_chunk::<4>()
        && let Some((entry, after)) = after.split_at_checked(u32::from_le_bytes(*length) as usize)
    {
        entries.push(entry.to_vec());
        rest = after;
    }
    (entries, (bytes.len() - rest.len()) as u64)
}
