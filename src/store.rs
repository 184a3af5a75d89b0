//! What a party keeps on disk. Files are written beside their place and renamed, so a crash leaves the old or the new.

mod client;
mod server;

pub use client::ClientStore;
pub use server::{Resume, ServerStore};

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes a file whole or not at all, and makes it durable.
///
/// # Errors
/// [`StoreError`] naming the file.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let fault = |doing| {
        move |error| StoreError {
            doing,
            path: path.to_path_buf(),
            error,
        }
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fault("make the folder of"))?;
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    let beside = path.with_file_name(name);
    let mut file = File::create(&beside).map_err(fault("write"))?;
    file.write_all(bytes).map_err(fault("write"))?;
    file.sync_all().map_err(fault("make durable"))?;
    fs::rename(&beside, path).map_err(fault("put in place"))?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(fault("make durable"))?;
    }
    Ok(())
}

/// One process per state folder.
#[derive(Debug)]
struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

impl Lock {
    fn take(folder: &Path) -> Result<Self, StoreError> {
        // What a party keeps is nobody else's to read.
        fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .map_err(|error| StoreError::new("close to others", folder, error))?;
        let path = folder.join("lock");
        let file = File::create(&path).map_err(|error| StoreError::new("open", &path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(fs::TryLockError::WouldBlock) => Err(StoreError::new(
                "use",
                folder,
                std::io::Error::new(
                    std::io::ErrorKind::ResourceBusy,
                    "another process runs on this state folder",
                ),
            )),
            Err(fs::TryLockError::Error(error)) => Err(StoreError::new("lock", &path, error)),
        }
    }
}

/// The little-endian bytes of a model.
#[must_use]
pub fn model_bytes(entries: &[f32]) -> Vec<u8> {
    entries.iter().flat_map(|entry| entry.to_le_bytes()).collect()
}

/// A model from its little-endian bytes; `None` when they are no whole number of entries.
#[must_use]
pub fn model_from_bytes(bytes: &[u8]) -> Option<Vec<f32>> {
    let (entries, rest) = bytes.as_chunks::<4>();
    rest.is_empty()
        .then(|| entries.iter().map(|entry| f32::from_le_bytes(*entry)).collect())
}

/// A disk that does not do what it must. Nothing is acknowledged that is not stored.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {error}; check free space and permissions", path.display())]
pub struct StoreError {
    doing: &'static str,
    path: PathBuf,
    error: std::io::Error,
}

impl StoreError {
    pub(crate) fn new(doing: &'static str, path: &Path, error: std::io::Error) -> Self {
        Self {
            doing,
            path: path.to_path_buf(),
            error,
        }
    }

    pub(crate) fn damaged(path: &Path, what: &str) -> Self {
        Self::new(
            "use",
            path,
            std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned()),
        )
    }
}
