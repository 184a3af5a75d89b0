//! A bundle in the hands of whoever holds all signing keys but not the clients' secrets: parts in and out, statements
//! edited and signed anew.

use crate::run::Run;
use crate::world::identity;
use veilsum_attestation::bundle::sign_head;
use veilsum_attestation::statement::*;
use veilsum_attestation::{Head, Log};
use veilsum_crypto::testing::rng;
use veilsum_crypto::*;

pub(crate) const MAGIC: &[u8] = b"veilsum-bundle/1\n";

/// A bundle taken apart.
#[derive(Clone)]
pub(crate) struct Forge {
    pub(crate) federation: Digest,
    pub(crate) entries: Vec<Vec<u8>>,
    /// Models and vectors: tag and payload, header included.
    pub(crate) parts: Vec<(u8, Vec<u8>)>,
    /// The cosigned head, if there is to be one.
    pub(crate) cosigned: Option<String>,
    /// Signs the head.
    pub(crate) server: u32,
    /// The head to sign, where it is not that of the entries.
    pub(crate) other_head: Option<Head>,
    seed: u64,
}

impl Forge {
    pub(crate) fn of(run: &Run) -> Self {
        let parts = parts(&run.bundle());
        Self {
            federation: *run.federation().book.federation(),
            entries: parts
                .iter()
                .filter(|part| part.0 == b'E')
                .map(|part| part.1.clone())
                .collect(),
            parts: parts
                .into_iter()
                .filter(|part| [b'M', b'V'].contains(&part.0))
                .collect(),
            cosigned: None,
            server: 0,
            other_head: None,
            seed: 0,
        }
    }

    pub(crate) fn head(&self) -> Head {
        Log::from_entries(self.entries.iter().cloned()).head()
    }

    /// The bundle with a head signed over what the entries are now.
    pub(crate) fn bundle(&self) -> Vec<u8> {
        let head = sign_head(
            &self.other_head.unwrap_or_else(|| self.head()),
            &self.federation,
            &identity(2, self.server),
        )
        .unwrap();
        let mut out = MAGIC.to_vec();
        put(&mut out, b'C', head.as_bytes());
        if let Some(cosigned) = &self.cosigned {
            put(&mut out, b'W', cosigned.as_bytes());
        }
        self.entries.iter().for_each(|entry| put(&mut out, b'E', entry));
        self.parts
            .iter()
            .for_each(|(tag, payload)| put(&mut out, *tag, payload));
        put(&mut out, b'Z', &[]);
        out
    }

    /// Numbers of the entries of a kind.
    pub(crate) fn all(&self, kind: Kind) -> Vec<usize> {
        (0..self.entries.len())
            .filter(|index| self.entry(*index).kind == kind)
            .collect()
    }

    pub(crate) fn entry(&self, index: usize) -> Entry {
        wire::decode(&self.entries[index]).unwrap()
    }

    pub(crate) fn body<S: Statement>(&self, index: usize) -> S {
        wire::decode(&self.entry(index).body).unwrap()
    }

    /// Changes a statement and signs it anew with its signer's key.
    pub(crate) fn edit<S: Statement>(&mut self, index: usize, change: impl FnOnce(&mut S)) {
        let mut body = self.body::<S>(index);
        change(&mut body);
        let signer = self.entry(index).signer;
        self.entries[index] = self.sign(body, signer);
    }

    /// A statement signed by anybody.
    pub(crate) fn sign<S: Statement>(&mut self, body: S, signer: Party) -> Vec<u8> {
        self.seed += 1;
        let key = match signer {
            Party::Authority => identity(1, 0),
            Party::Server => identity(2, 0),
            Party::Client(client) => identity(3, client.0),
        };
        let signed = Signed::make(body, signer, &key, &self.federation, &mut rng(self.seed)).unwrap();
        signed.bytes().unwrap()
    }

    /// Makes every agreement, reveal and sum of the log follow one changed agreement, which the server proposes.
    pub(crate) fn reagree(&mut self, change: impl Fn(&mut Agree)) {
        let federation = self.federation;
        for index in self.all(Kind::Agree) {
            self.edit::<Agree>(index, |agree| {
                change(agree);
                *agree = agree.clone().propose(&identity(2, 0), &federation).unwrap();
            });
        }
        let digest = self.body::<Agree>(self.all(Kind::Agree)[0]).digest().unwrap();
        for index in self.all(Kind::Reveal) {
            self.edit::<Reveal>(index, |reveal| reveal.agreement = digest);
        }
        for index in self.all(Kind::Sums) {
            self.edit::<Sums>(index, |sums| sums.agreement = digest);
        }
    }
}

/// The parts of a bundle, tag and payload.
pub(crate) fn parts(bundle: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut rest = &bundle[MAGIC.len()..];
    let mut parts = Vec::new();
    while let Some((tag, after)) = rest.split_first() {
        let (length, after) = after.split_first_chunk::<8>().unwrap();
        let (payload, after) = after.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
        parts.push((*tag, payload.to_vec()));
        rest = after;
    }
    parts
}

pub(crate) fn put(out: &mut Vec<u8>, tag: u8, payload: &[u8]) {
    out.push(tag);
    out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    out.extend_from_slice(payload);
}
