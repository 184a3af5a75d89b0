//! A real bundle, and the same taken apart and put together with a head signed anew.

use crate::world::{Death, Federation, Setup, World, identity};
use std::collections::BTreeMap;
use std::sync::Arc;
use veilsum_attestation::bundle::{BundleWriter, Due, VectorName, sign_head};
use veilsum_attestation::{Log, model_digest};
use veilsum_crypto::*;

/// A bundle and the federation it is of.
pub(crate) struct Export {
    pub(crate) federation: Federation,
    pub(crate) bundle: Vec<u8>,
}

/// Two rounds of four clients; one drops out of the first after it has dealt its shares.
pub(crate) fn export() -> Export {
    let setup = Setup {
        clients: 4,
        threshold: 3,
        clusters: vec![vec![0, 1, 2, 3]],
        entries: 5,
        crowd: 2,
        orgs: 2,
    };
    let mut world = World::new(setup, 31);
    let (mut vectors, mut models) = (BTreeMap::new(), BTreeMap::new());
    let mut log = world.genesis_log();
    for round in 1..=2 {
        if round == 1 {
            let death = Death {
                after_sends: 2,
                noticed: true,
                in_flight_lost: false,
            };
            world.deaths.insert(ClientId(2), death);
        }
        for model in &world.models {
            models.insert(model_digest(model), Arc::clone(model));
        }
        world.start(log, round).expect("the plan is good");
        world.run();
        world.assert_exact();
        for ((client, cluster), bytes) in std::mem::take(&mut world.stored) {
            let name = VectorName {
                round: RoundId(round),
                attempt: Attempt(0),
                client,
                cluster,
            };
            vectors.insert(name, bytes);
        }
        for opened in world.outcome.take().expect("sums").opened {
            models.insert(model_digest(&opened.model), Arc::clone(&opened.model));
            world.models[usize::from(opened.cluster.0)] = opened.model;
        }
        log = world.log();
    }
    let federation = *world.federation.book.federation();
    let head = sign_head(&log.head(), &federation, &identity(2, 0)).expect("a name");
    let entries = log.entries().iter().map(Vec::as_slice);
    let mut writer = BundleWriter::new(Vec::new(), &federation, &head, entries).expect("its own log");
    while let Some(due) = writer.due() {
        match due {
            Due::Vector(name) => writer.vector(name, &vectors[&name]).expect("due"),
            Due::Model(digest) => writer.model(&models[&digest]).expect("due"),
        }
    }
    Export {
        bundle: writer.finish().expect("whole"),
        federation: world.federation,
    }
}

/// A bundle taken apart.
#[derive(Clone)]
pub(crate) struct Parts {
    federation: Digest,
    pub(crate) entries: Vec<Vec<u8>>,
    /// Models and vectors: tag and payload, header included.
    pub(crate) payloads: Vec<(u8, Vec<u8>)>,
}

impl Parts {
    pub(crate) fn of(export: &Export) -> Self {
        let (entries, others): (Vec<_>, Vec<_>) =
            split(&export.bundle).into_iter().partition(|part| part.0 == b'E');
        Self {
            federation: *export.federation.book.federation(),
            entries: entries.into_iter().map(|part| part.1).collect(),
            payloads: others
                .into_iter()
                .filter(|part| ![b'C', b'Z'].contains(&part.0))
                .collect(),
        }
    }

    /// The bundle with a head signed over what the entries are now.
    pub(crate) fn bundle(&self) -> Vec<u8> {
        let head = Log::from_entries(self.entries.iter().cloned()).head();
        let head = sign_head(&head, &self.federation, &identity(2, 0)).expect("a name");
        let mut out = MAGIC.to_vec();
        put(&mut out, b'C', head.as_bytes());
        self.entries.iter().for_each(|entry| put(&mut out, b'E', entry));
        for (tag, payload) in &self.payloads {
            put(&mut out, *tag, payload);
        }
        put(&mut out, b'Z', &[]);
        out
    }
}

/// The parts of a bundle that was written here, tag and payload.
pub(crate) fn split(bundle: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut rest = bundle.strip_prefix(MAGIC).expect("a bundle");
    let mut parts = Vec::new();
    while let Some((tag, after)) = rest.split_first() {
        let (length, after) = after.split_first_chunk::<8>().expect("a length");
        let (payload, after) = after.split_at(u64::from_le_bytes(*length) as usize);
        parts.push((*tag, payload.to_vec()));
        rest = after;
    }
    parts
}

fn put(out: &mut Vec<u8>, tag: u8, payload: &[u8]) {
    out.push(tag);
    out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    out.extend_from_slice(payload);
}

pub(crate) const MAGIC: &[u8] = b"veilsum-bundle/1\n";
