//! Writing the auditor's bundle from the server's log and store.

use crate::store::{ServerStore, StoreError};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use veilsum_aggregation::server::ServerSetup;
use veilsum_attestation::Log;
use veilsum_attestation::bundle::{BundleError, BundleWriter, Due, HeadError, sign_head};

/// Writes the bundle beside its place and renames it, so that nobody audits half of one.
///
/// # Errors
/// [`ExportError`].
pub fn export(path: &Path, log: &Log, store: &ServerStore, setup: &ServerSetup) -> Result<(), ExportError> {
    let fault = |error| ExportError::Store(StoreError::new("write", path, error));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fault)?;
    }
    let beside = path.with_extension("part");
    let sink = BufWriter::new(File::create(&beside).map_err(fault)?);
    let head = sign_head(&log.head(), setup.book.federation(), &setup.identity)?;
    let entries = log.entries().iter().map(Vec::as_slice);
    let mut writer = BundleWriter::new(sink, setup.book.federation(), &head, entries)?;
    while let Some(due) = writer.due() {
        match due {
            // Without the old model nobody could check the new one: a bundle that lacks it is none.
            Due::Model(digest) => writer.model(&store.model(&digest)?)?,
            Due::Vector(name) => {
                let bytes = store.vector(name.round, name.attempt, name.client, name.cluster)?;
                writer.vector(name, &bytes)?;
            }
        }
    }
    let sink = writer.finish()?;
    let file = sink.into_inner().map_err(|error| fault(error.into_error()))?;
    file.sync_all().map_err(fault)?;
    std::fs::rename(&beside, path).map_err(fault)?;
    Ok(())
}

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log and the vectors do not make a bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The head cannot be signed.
    #[error(transparent)]
    Head(#[from] HeadError),
}
