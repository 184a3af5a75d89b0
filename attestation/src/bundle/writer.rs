//! Makes a bundle. What is due next comes from the log, not from the caller, so a store with more in it than an auditor may
//! see cannot leak through a loop over its files.

use super::attempt::Transcript;
use super::due::{Due, DueList, VectorName};
use super::head::{parse_cosigned, parse_head, verify_head};
use super::reader::{gone_header, vector_header};
use super::record::Record;
use super::{
    BundleError, HeadError, MAGIC, TAG_CHUNKS, TAG_COSIGNED, TAG_END, TAG_ENTRY, TAG_GONE, TAG_HEAD,
    TAG_MODEL, TAG_VECTOR,
};
use crate::model_digest;
use std::collections::BTreeMap;
use std::io::Write;
use veilsum_crypto::chunk::{self, Chunking};
use veilsum_crypto::residue::unpack;
use veilsum_crypto::{Attempt, Digest, ResidueError, RoundId};

/// Writes one bundle: [`BundleWriter::due`] names the part that comes next until it is `None`, then
/// [`BundleWriter::finish`].
pub struct BundleWriter<W> {
    sink: W,
    due: DueList,
    roots: BTreeMap<VectorName, Digest>,
    chunking: Chunking,
}

impl<W: Write> BundleWriter<W> {
    /// Writes the signed head (of [`super::sign_head`]) and all entries of the log.
    ///
    /// # Errors
    /// [`BundleError::Entry`] or [`BundleError::NoPolicy`] for a log that is none, [`BundleError::Head`] when the head is
    /// not the server's over exactly these entries, [`BundleError::Io`].
    pub fn new<'a>(
        sink: W,
        federation: &Digest,
        head: &str,
        entries: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, BundleError> {
        Self::with_cosigned(sink, federation, head, None, entries)
    }

    /// As [`BundleWriter::new`], with the last head of this log that witnesses cosigned.
    ///
    /// # Errors
    /// As [`BundleWriter::new`], and [`BundleError::Head`] for a cosigned head that is no head of these entries.
    pub fn with_cosigned<'a>(
        mut sink: W,
        federation: &Digest,
        head: &str,
        cosigned: Option<&str>,
        entries: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, BundleError> {
        let (note, checkpoint) = parse_head(head.as_bytes())?;
        sink.write_all(MAGIC)?;
        part(&mut sink, TAG_HEAD, &[head.as_bytes()])?;
        if let Some(cosigned) = cosigned {
            part(&mut sink, TAG_COSIGNED, &[cosigned.as_bytes()])?;
        }
        let mut transcript = Transcript::default();
        let mut tree = crate::merkle::Tree::new();
        for entry in entries {
            let index = tree.append(entry);
            let record =
                Record::parse(index, entry).map_err(|source| BundleError::Entry { index, source })?;
            transcript.take(record);
            part(&mut sink, TAG_ENTRY, &[entry])?;
        }
        let policy = transcript.policy.as_ref().ok_or(BundleError::NoPolicy)?;
        verify_head(&note, &checkpoint, federation, policy.body.server)?;
        if (checkpoint.size(), *checkpoint.root()) != (tree.size(), tree.root()) {
            return Err(HeadError::OtherEntries.into());
        }
        if let Some(cosigned) = cosigned {
            let (_, checkpoint) = parse_cosigned(cosigned.as_bytes())?;
            if tree.root_at(checkpoint.size()) != Ok(*checkpoint.root()) {
                return Err(HeadError::OtherEntries.into());
            }
        }
        let rule = &policy.body.update;
        let entries = usize::try_from(rule.entries)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        Ok(Self {
            sink,
            due: DueList::of(&transcript),
            roots: roots(&transcript),
            chunking: Chunking::new(rule.modulus, entries),
        })
    }

    /// The part that comes next; `None` when only [`BundleWriter::finish`] is left.
    #[must_use]
    pub fn due(&self) -> Option<Due> {
        self.due.next()
    }

    /// Writes a masked vector: the hashes of its chunks, then its packed bytes, all chunks together.
    ///
    /// # Errors
    /// [`BundleError::ExportForbidden`] for a vector that is not the next one due, [`BundleError::Residue`] or
    /// [`BundleError::Mismatch`] for one that is not what its client committed to, [`BundleError::Io`].
    pub fn vector(&mut self, name: VectorName, packed: &[u8]) -> Result<(), BundleError> {
        self.due.take_vector(name)?;
        let leaves = leaves_of_packed(self.chunking, packed)?;
        if self.roots.get(&name) != Some(&chunk::root(&leaves)) {
            return Err(BundleError::Mismatch(name));
        }
        let hashes: Vec<u8> = leaves.iter().flat_map(|leaf| leaf.0).collect();
        part(&mut self.sink, TAG_CHUNKS, &[&vector_header(name), &hashes])?;
        part(&mut self.sink, TAG_VECTOR, &[&vector_header(name), packed])
    }

    /// Writes a model.
    ///
    /// # Errors
    /// [`BundleError::SurplusModel`] for a model that is not due now, [`BundleError::Io`].
    pub fn model(&mut self, entries: &[f32]) -> Result<(), BundleError> {
        let digest = model_digest(entries);
        self.due.take_model(digest)?;
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        part(&mut self.sink, TAG_MODEL, &[&digest.0, &bytes])
    }

    /// Leaves out the model that is due: the auditor will call what depends on it not checkable.
    pub fn skip_model(&mut self) {
        self.due.skip_model();
    }

    /// Says that the vectors of an attempt are gone by retention. Whether they may be is for the auditor to judge.
    ///
    /// # Errors
    /// [`BundleError::NotGone`] for an attempt whose vectors are not the next due, [`BundleError::Io`].
    pub fn gone(&mut self, round: RoundId, attempt: Attempt) -> Result<(), BundleError> {
        self.due.take_gone(round, attempt)?;
        part(&mut self.sink, TAG_GONE, &[&gone_header(round, attempt)])
    }

    /// The last round the log published; `None` before the first.
    #[must_use]
    pub fn last_published(&self) -> Option<RoundId> {
        self.due.last_published()
    }

    /// Writes the end and gives the sink back.
    ///
    /// # Errors
    /// [`BundleError::Missing`] when a vector is still due, [`BundleError::Io`].
    pub fn finish(mut self) -> Result<W, BundleError> {
        self.due.finish()?;
        part(&mut self.sink, TAG_END, &[])?;
        self.sink.flush()?;
        Ok(self.sink)
    }
}

fn roots(transcript: &Transcript) -> BTreeMap<VectorName, Digest> {
    transcript
        .attempts
        .iter()
        .flat_map(|attempt| {
            let plan = &attempt.plan.body;
            attempt.masked.iter().flat_map(|(client, masked)| {
                masked.body.vectors.iter().map(|vector| {
                    let name = VectorName {
                        round: plan.round,
                        attempt: plan.attempt,
                        client: *client,
                        cluster: vector.cluster,
                    };
                    (name, vector.root)
                })
            })
        })
        .collect()
}

fn leaves_of_packed(chunking: Chunking, packed: &[u8]) -> Result<Vec<Digest>, BundleError> {
    let want = chunking.total_bytes().unwrap_or(usize::MAX);
    if packed.len() != want {
        let got = packed.len();
        return Err(ResidueError::Length { got, want }.into());
    }
    let mut leaves = Vec::with_capacity(chunking.count());
    let mut rest = packed;
    for index in 0..chunking.count() {
        let size = chunking.bytes(index).unwrap_or(0);
        let (bytes, after) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        if index + 1 == chunking.count() {
            // Only the last chunk can have unused bits; an auditor takes no others than zeros.
            unpack(
                chunking.modulus(),
                bytes,
                chunking.range(index).map_or(0, |range| range.len()),
            )?;
        }
        leaves.push(chunk::leaf(index, bytes));
        rest = after;
    }
    Ok(leaves)
}

pub(super) fn part(sink: &mut impl Write, tag: u8, pieces: &[&[u8]]) -> Result<(), BundleError> {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    sink.write_all(&[tag])?;
    sink.write_all(&(length as u64).to_le_bytes())?;
    for piece in pieces {
        sink.write_all(piece)?;
    }
    Ok(())
}
