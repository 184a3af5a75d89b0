//! Collecting descriptors for one clustering, between two rounds, on the server.
//!
//! Each client answers once; its statement goes to the log and the descriptor beside it. What the descriptor says is for
//! the caller to read: nothing in here knows a feature.

use crate::message::{Describe, Described, ToClient};
use crate::refusal::Refusal;
use crate::server::ServerSetup;
use std::collections::BTreeMap;
use std::sync::Arc;
use veilsum_attestation::Log;
use veilsum_attestation::statement::{Descriptor, Entry, Kind, Party, descriptor_digest};
use veilsum_crypto::{ClientId, Digest, wire};

/// The descriptors of one clustering, as far as they have come.
pub struct Gathering {
    setup: Arc<ServerSetup>,
    log: Log,
    clustering: u64,
    have: BTreeMap<ClientId, Digest>,
}

impl Gathering {
    /// Goes on from what the log has of this clustering.
    #[must_use]
    pub fn new(setup: Arc<ServerSetup>, log: Log, clustering: u64) -> Self {
        let have = log
            .entries()
            .iter()
            .filter_map(|bytes| {
                let entry: Entry = wire::decode(bytes).ok()?;
                let (Kind::Descriptor, Party::Client(client)) = (entry.kind, entry.signer) else {
                    return None;
                };
                let body: Descriptor = wire::decode(&entry.body).ok()?;
                (body.clustering == clustering).then_some((client, body.digest))
            })
            .collect();
        Self {
            setup,
            log,
            clustering,
            have,
        }
    }

    /// What to ask clients.
    #[must_use]
    pub fn request(&self) -> ToClient {
        ToClient::Describe(Describe {
            clustering: self.clustering,
        })
    }

    /// The number of the clustering.
    #[must_use]
    pub fn clustering(&self) -> u64 {
        self.clustering
    }

    /// The digest of each client's descriptor.
    #[must_use]
    pub fn have(&self) -> &BTreeMap<ClientId, Digest> {
        &self.have
    }

    /// Whether an answer holds: signed by its sender, for this clustering, and of this descriptor. `None` for one that is in
    /// the log already. Nothing changes before [`Gathering::record`].
    ///
    /// # Errors
    /// [`Refusal`], naming what is wrong with it.
    pub fn check(&self, from: ClientId, described: &Described) -> Result<Option<Digest>, Refusal> {
        let signed = self
            .setup
            .book
            .read::<Descriptor>(&described.entry, Party::Client(from))?
            .into_inner();
        let body = signed.body();
        if body.policy != self.setup.policy_leaf {
            return Err(Refusal::WrongPolicy);
        }
        if body.clustering != self.clustering {
            return Err(Refusal::WrongContext);
        }
        if descriptor_digest(&described.descriptor) != body.digest {
            return Err(Refusal::BadDescriptor("it is not the one its statement names"));
        }
        match self.have.get(&from) {
            None => Ok(Some(body.digest)),
            Some(digest) if *digest == body.digest => Ok(None),
            Some(_) => Err(Refusal::Conflict("descriptor")),
        }
    }

    /// Takes an answer that was checked and whose descriptor is kept. Returns the entry to append to the log on disk.
    pub fn record(&mut self, from: ClientId, digest: Digest, described: &Described) -> Vec<u8> {
        self.have.insert(from, digest);
        let entry = described.entry.to_vec();
        self.log.append(entry.clone());
        entry
    }

    /// The log, for the next round.
    #[must_use]
    pub fn into_log(self) -> Log {
        self.log
    }
}
