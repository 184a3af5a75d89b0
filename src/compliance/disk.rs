//! What the server keeps: log entries, masked vectors, models. The only thing that survives its crash.

use super::EngineError;
use super::federation::Federation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use veilsum_aggregation::server::Stored;
use veilsum_attestation::bundle::{BundleError, BundleWriter, Due, VectorName, sign_head};
use veilsum_attestation::statement::{Aborted, Entry, Kind, Phase, Plan, leaf_hash};
use veilsum_attestation::{Log, model_digest};
use veilsum_crypto::{Attempt, ClientId, ClusterId, Digest, RoundId, wire};

/// The server's disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    entries: Vec<Vec<u8>>,
    leaves: BTreeSet<Digest>,
    pub(super) vectors: BTreeMap<VectorName, Vec<u8>>,
    pub(super) models: BTreeMap<Digest, Arc<[f32]>>,
    full: bool,
}

impl Disk {
    /// A disk with the genesis entries.
    pub(super) fn new(genesis: &[Vec<u8>]) -> Self {
        let mut disk = Self::default();
        for entry in genesis {
            disk.append(entry.clone());
        }
        disk
    }

    /// Appends an entry; false when the disk is full.
    pub(super) fn append(&mut self, entry: Vec<u8>) -> bool {
        if self.full {
            return false;
        }
        self.leaves.insert(leaf_hash(&entry));
        self.entries.push(entry);
        true
    }

    /// From now on nothing more can be kept.
    pub(super) fn fill(&mut self) {
        self.full = true;
    }

    /// Space was made.
    pub(super) fn empty(&mut self) {
        self.full = false;
    }

    pub(super) fn keep_model(&mut self, model: &Arc<[f32]>) {
        self.models.insert(model_digest(model), Arc::clone(model));
    }

    pub(super) fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// Whether an entry is kept.
    pub(super) fn holds(&self, entry: &[u8]) -> bool {
        self.leaves.contains(&leaf_hash(entry))
    }

    /// The log as the disk has it.
    pub(super) fn log(&self) -> Log {
        Log::from_entries(self.entries.iter().cloned())
    }

    /// The round and attempt that come next, as the server's store works them out when it starts.
    pub(super) fn next(&self) -> (RoundId, Attempt) {
        let mut next = (RoundId(1), Attempt(0));
        for bytes in &self.entries {
            let Ok(entry) = wire::decode::<Entry>(bytes) else {
                continue;
            };
            match entry.kind {
                Kind::Plan => {
                    if let Ok(plan) = wire::decode::<Plan>(&entry.body) {
                        next = (plan.round, Attempt(plan.attempt.0 + 1));
                    }
                }
                // Clients that were asked to reveal may have answered, and answer nothing more of that round.
                Kind::Aborted => {
                    if let Ok(aborted) = wire::decode::<Aborted>(&entry.body)
                        && aborted.phase >= Phase::Unmask
                    {
                        next = (RoundId(aborted.round.0 + 1), Attempt(0));
                    }
                }
                Kind::Sums => next = (RoundId(next.0.0 + 1), Attempt(0)),
                _ => {}
            }
        }
        next
    }

    /// A bundle writer over the log.
    pub(super) fn writer(&self, federation: &Federation) -> Result<BundleWriter<Vec<u8>>, EngineError> {
        let digest = *federation.book.federation();
        let head = sign_head(&self.log().head(), &digest, &federation.server_identity()?)
            .map_err(|_| EngineError::Internal("the head cannot be signed"))?;
        let entries = self.entries.iter().map(Vec::as_slice);
        Ok(BundleWriter::new(Vec::new(), &digest, &head, entries)?)
    }

    /// The bundle an auditor is handed.
    pub(super) fn bundle(&self, federation: &Federation) -> Result<Vec<u8>, EngineError> {
        let mut writer = self.writer(federation)?;
        while let Some(due) = writer.due() {
            match due {
                Due::Model(digest) => match self.models.get(&digest) {
                    Some(model) => writer.model(model)?,
                    None => writer.skip_model(),
                },
                Due::Vector(name) => match self.vectors.get(&name) {
                    Some(bytes) => writer.vector(name, bytes)?,
                    None => return Err(BundleError::Missing(name).into()),
                },
            }
        }
        Ok(writer.finish()?)
    }
}

impl Stored for Disk {
    fn model(&self, digest: &Digest) -> Option<Arc<[f32]>> {
        self.models.get(digest).cloned()
    }

    fn vector(
        &self,
        round: RoundId,
        attempt: Attempt,
        client: ClientId,
        cluster: ClusterId,
    ) -> Option<Vec<u8>> {
        let name = VectorName {
            round,
            attempt,
            client,
            cluster,
        };
        self.vectors.get(&name).cloned()
    }
}
