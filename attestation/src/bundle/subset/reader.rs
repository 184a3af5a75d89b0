//! Takes a subset apart. Lengths are capped before anything is allocated, and the tier is asked about every statement.

use super::{
    DESCRIPTOR_HEADER, MAX_CHANNELS, MAX_PROOF, TAG_DESCRIPTOR, TAG_EXTENDS, TAG_LEAF, TAG_PROVEN, TAG_TIER,
    item,
};
use crate::bundle::reader::{fill, too_long};
use crate::bundle::record::Record;
use crate::bundle::tier::{Item, Tier};
use crate::bundle::{BundleError, MAX_COSIGNED, MAX_HEAD, MAX_LOG_BYTES, TAG_COSIGNED, TAG_END, TAG_HEAD};
use crate::merkle::Hash;
use crate::statement::{Entry, StatementError};
use std::io::Read;
use veilsum_crypto::wire::Wire;

/// A subset in memory. Nothing in it is believed yet.
#[derive(Debug)]
pub(crate) struct SubsetParts {
    pub(crate) tier: Tier,
    pub(crate) head: Vec<u8>,
    /// A cosigned head and the proof that the head extends it.
    pub(crate) cosigned: Option<(Vec<u8>, Vec<Hash>)>,
    pub(crate) statements: Vec<Proven>,
    /// Entries that are not shown: number, hash, proof.
    pub(crate) leaves: Vec<(u64, Hash, Vec<Hash>)>,
    pub(crate) descriptors: Vec<Descriptor>,
}

/// An entry with its proof.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) index: u64,
    pub(crate) leaf: Hash,
    pub(crate) proof: Vec<Hash>,
    pub(crate) record: Result<Record, StatementError>,
}

/// A descriptor, as far as it is judged.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) number: [u8; 16],
    pub(crate) source: [u8; 32],
    /// The standard deviations of its noise.
    pub(crate) noise: [f64; 2],
    pub(crate) values: Vec<f32>,
}

/// How far a file has come: its parts stand in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Tier,
    Head,
    Cosigned,
    Extends,
    Statements,
    Leaves,
    Descriptors,
}

impl SubsetParts {
    /// Reads what follows the first line.
    ///
    /// # Errors
    /// [`BundleError`].
    pub(crate) fn read(mut source: impl Read) -> Result<Self, BundleError> {
        let mut parts = Self {
            tier: Tier::Public,
            head: Vec::new(),
            cosigned: None,
            statements: Vec::new(),
            leaves: Vec::new(),
            descriptors: Vec::new(),
        };
        let (mut stage, mut total) = (Stage::Tier, 0u64);
        loop {
            let (mut tag, mut length) = ([0; 1], [0; 8]);
            fill(&mut source, &mut tag, "a part's tag")?;
            fill(&mut source, &mut length, "a part's length")?;
            let ([tag], length) = (tag, u64::from_le_bytes(length));
            let (name, max) = cap(tag).ok_or(BundleError::UnknownPart(tag))?;
            let size = usize::try_from(length).ok().filter(|size| *size <= max);
            total = total.saturating_add(length);
            if total > MAX_LOG_BYTES {
                return Err(too_long("a subset", total, MAX_LOG_BYTES));
            }
            let mut bytes = vec![0; size.ok_or_else(|| too_long(name, length, max as u64))?];
            fill(&mut source, &mut bytes, name)?;
            // A cosigned head comes with its proof or not at all.
            stage = match (stage, tag) {
                (Stage::Tier, TAG_TIER) => Stage::Head,
                (Stage::Head, TAG_HEAD) => Stage::Cosigned,
                (Stage::Cosigned, TAG_COSIGNED) => Stage::Extends,
                (Stage::Extends, TAG_EXTENDS) | (Stage::Cosigned | Stage::Statements, TAG_PROVEN) => {
                    Stage::Statements
                }
                (Stage::Cosigned | Stage::Statements | Stage::Leaves, TAG_LEAF) => Stage::Leaves,
                (
                    Stage::Cosigned | Stage::Statements | Stage::Leaves | Stage::Descriptors,
                    TAG_DESCRIPTOR | TAG_END,
                ) => Stage::Descriptors,
                _ => return Err(BundleError::OutOfPlace(name)),
            };
            match tag {
                TAG_TIER => parts.tier = tier(&bytes)?,
                TAG_HEAD => parts.head = bytes,
                TAG_COSIGNED => parts.cosigned = Some((bytes, Vec::new())),
                TAG_EXTENDS => {
                    if let Some((_, proof)) = &mut parts.cosigned {
                        *proof = hashes(&bytes, name)?;
                    }
                }
                TAG_PROVEN => parts.proven(&bytes)?,
                TAG_LEAF => parts.leaf(&bytes)?,
                TAG_DESCRIPTOR => parts.descriptor(&bytes)?,
                _ => {
                    return match fill(&mut source, &mut [0; 1], "nothing") {
                        Err(BundleError::Truncated(_)) => Ok(parts),
                        Err(other) => Err(other),
                        Ok(()) => Err(BundleError::Trailing),
                    };
                }
            }
        }
    }

    fn proven(&mut self, bytes: &[u8]) -> Result<(), BundleError> {
        let name = "a proven statement";
        let short = || too_long(name, bytes.len() as u64, 9);
        let (index, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let (count, rest) = rest.split_first().ok_or_else(short)?;
        let (proof, entry) = rest
            .split_at_checked(usize::from(*count) * 32)
            .ok_or_else(short)?;
        let index = u64::from_le_bytes(*index);
        if self.statements.last().is_some_and(|last| last.index >= index) || entry.len() > Entry::MAX_LEN {
            return Err(BundleError::OutOfPlace(name));
        }
        let record = Record::parse(index, entry);
        if let Ok(record) = &record {
            self.tier.admits(item(record))?;
        }
        self.statements.push(Proven {
            index,
            leaf: crate::merkle::leaf_hash(entry),
            proof: hashes(proof, name)?,
            record,
        });
        Ok(())
    }

    fn leaf(&mut self, bytes: &[u8]) -> Result<(), BundleError> {
        let name = "a proven leaf";
        let short = || too_long(name, bytes.len() as u64, 40);
        let (index, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let (leaf, proof) = rest.split_first_chunk::<32>().ok_or_else(short)?;
        let index = u64::from_le_bytes(*index);
        if self.leaves.last().is_some_and(|(last, ..)| *last >= index) {
            return Err(BundleError::OutOfPlace(name));
        }
        self.leaves.push((index, *leaf, hashes(proof, name)?));
        Ok(())
    }

    fn descriptor(&mut self, bytes: &[u8]) -> Result<(), BundleError> {
        let name = "a descriptor";
        let wrong = |want: usize| too_long(name, bytes.len() as u64, want as u64);
        let head = || wrong(DESCRIPTOR_HEADER);
        let (number, rest) = bytes.split_first_chunk::<16>().ok_or_else(head)?;
        let (source, rest) = rest.split_first_chunk::<32>().ok_or_else(head)?;
        let (mean, rest) = rest.split_first_chunk::<8>().ok_or_else(head)?;
        let (variance, rest) = rest.split_first_chunk::<8>().ok_or_else(head)?;
        let (channels, rest) = rest.split_first_chunk::<4>().ok_or_else(head)?;
        let channels = u32::from_le_bytes(*channels) as usize;
        let noise = [f64::from_le_bytes(*mean), f64::from_le_bytes(*variance)];
        let noised = noise.iter().all(|size| size.is_normal() && *size > 0.0);
        self.tier.admits(if noised {
            Item::NoisedDescriptor
        } else {
            Item::RawDescriptor
        })?;
        if channels == 0 || rest.len() != channels.saturating_mul(8) {
            return Err(wrong(
                DESCRIPTOR_HEADER.saturating_add(channels.saturating_mul(8)),
            ));
        }
        let values = rest.as_chunks::<4>().0.iter();
        self.descriptors.push(Descriptor {
            number: *number,
            source: *source,
            noise,
            values: values.map(|quad| f32::from_le_bytes(*quad)).collect(),
        });
        Ok(())
    }
}

/// The name and the most bytes of a part.
fn cap(tag: u8) -> Option<(&'static str, usize)> {
    Some(match tag {
        TAG_TIER => ("a tier", 5),
        TAG_HEAD => ("a signed head", MAX_HEAD),
        TAG_COSIGNED => ("a cosigned head", MAX_COSIGNED),
        TAG_EXTENDS => ("a consistency proof", 2 * MAX_PROOF * 32),
        TAG_PROVEN => ("a proven statement", 9 + MAX_PROOF * 32 + Entry::MAX_LEN),
        TAG_LEAF => ("a proven leaf", 40 + MAX_PROOF * 32),
        TAG_DESCRIPTOR => ("a descriptor", DESCRIPTOR_HEADER + 8 * MAX_CHANNELS),
        TAG_END => ("the end", 0),
        _ => return None,
    })
}

fn tier(bytes: &[u8]) -> Result<Tier, BundleError> {
    let [number, client @ ..] = bytes else {
        return Err(too_long("a tier", 0, 5));
    };
    let client: [u8; 4] = client
        .try_into()
        .map_err(|_| too_long("a tier", bytes.len() as u64, 5))?;
    Tier::of_number(*number, u32::from_le_bytes(client)).ok_or(BundleError::OutOfPlace("an unknown tier"))
}

fn hashes(bytes: &[u8], name: &'static str) -> Result<Vec<Hash>, BundleError> {
    let (hashes, rest) = bytes.as_chunks::<32>();
    if rest.is_empty() {
        Ok(hashes.to_vec())
    } else {
        Err(too_long(
            name,
            bytes.len() as u64,
            (bytes.len() - rest.len()) as u64,
        ))
    }
}
