//! Writing what readers are handed from the server's log and store: the auditor's bundle, and the subsets of other tiers.

use crate::store::{ServerStore, StoreError, write_atomic};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use veilsum_aggregation::server::ServerSetup;
use veilsum_attestation::Log;
use veilsum_attestation::bundle::subset::{NoisedDescriptor, SubsetWriter};
use veilsum_attestation::bundle::tier::Tier;
use veilsum_attestation::bundle::{BundleError, BundleWriter, Due, HeadError, sign_head};

/// Writes the bundle beside its place and renames it, so that nobody audits half of one.
///
/// # Errors
/// [`ExportError`].
pub fn export(path: &Path, log: &Log, store: &ServerStore, setup: &ServerSetup) -> Result<(), ExportError> {
    bundle(path, log, store, setup, None).map(|_| ())
}

/// As [`export`]. First throws the masked vectors of rounds away after which as many more were published as the policy
/// says or, where it sets no window, `keep_rounds`. The number of attempts whose vectors are gone, now or before.
///
/// # Errors
/// [`ExportError`].
pub fn bundle(
    path: &Path,
    log: &Log,
    store: &ServerStore,
    setup: &ServerSetup,
    keep_rounds: Option<u64>,
) -> Result<usize, ExportError> {
    let window = match (setup.policy.window(), keep_rounds) {
        (Some(agreed), Some(asked)) if agreed != asked => return Err(ExportError::Window { agreed, asked }),
        (agreed, asked) => agreed.or(asked),
    };
    let fault = |error| ExportError::Store(StoreError::new("write", path, error));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fault)?;
    }
    let beside = path.with_extension("part");
    let sink = BufWriter::new(File::create(&beside).map_err(fault)?);
    let head = sign_head(&log.head(), setup.book.federation(), &setup.identity)?;
    let cosigned = cosigned(log, store)?;
    let entries = log.entries().iter().map(Vec::as_slice);
    let federation = setup.book.federation();
    let mut writer = BundleWriter::with_cosigned(sink, federation, &head, cosigned.as_deref(), entries)?;
    if let (Some(keep), Some(last)) = (window, writer.last_published()) {
        store.expire_vectors(last, keep)?;
    }
    let mut gone = 0;
    while let Some(due) = writer.due() {
        match due {
            // Without the old model nobody could check the new one: a bundle that lacks it is none.
            Due::Model(digest) => writer.model(&store.model(&digest)?)?,
            Due::Vector(name) if !store.has_vectors(name.round, name.attempt) => {
                writer.gone(name.round, name.attempt)?;
                gone += 1;
            }
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
    Ok(gone)
}

/// A client's descriptor under its salted number.
#[derive(Debug)]
pub struct Numbered<'a> {
    /// What the plan tier calls the client.
    pub number: [u8; 16],
    /// The descriptor.
    pub descriptor: NoisedDescriptor<'a>,
}

/// Writes another tier's file.
///
/// # Errors
/// [`ExportError`], with the name of what the tier must not hold.
pub fn subset(
    path: &Path,
    tier: Tier,
    log: &Log,
    store: &ServerStore,
    setup: &ServerSetup,
    descriptors: &[Numbered<'_>],
) -> Result<(), ExportError> {
    let head = sign_head(&log.head(), setup.book.federation(), &setup.identity)?;
    let cosigned = cosigned(log, store)?;
    let federation = setup.book.federation();
    let mut writer = SubsetWriter::new(Vec::new(), tier, federation, &head, cosigned.as_deref(), log)?;
    writer.statements()?;
    for one in descriptors {
        writer.descriptor(one.number, &one.descriptor)?;
    }
    Ok(write_atomic(path, &writer.finish()?)?)
}

/// The last cosigned head, where there is one. One of another log is no reason to hide the log: it is left out, and an
/// auditor who asks for witnesses finds it missing.
fn cosigned(log: &Log, store: &ServerStore) -> Result<Option<String>, ExportError> {
    let Some(note) = store.cosigned_head()? else {
        return Ok(None);
    };
    let size = note.lines().nth(1).and_then(|size| size.parse().ok());
    Ok(size.and_then(|size| log.head_at(size)).map(|_| note))
}

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A window was asked for that is not the policy's.
    #[error(
        "the policy keeps masked vectors for {agreed} published rounds, and {asked} were asked for: leave --keep-rounds out"
    )]
    Window {
        /// The policy's.
        agreed: u64,
        /// The one asked for.
        asked: u64,
    },
    /// The log and the vectors do not make a bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The head cannot be signed.
    #[error(transparent)]
    Head(#[from] HeadError),
}
