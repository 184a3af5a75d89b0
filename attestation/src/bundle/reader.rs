//! Takes a bundle apart, part by part. Lengths are capped before anything is allocated; what the parts mean is the
//! auditor's business.

use super::due::VectorName;
use super::{
    BundleError, MAGIC, MAX_HEAD, MAX_LOG_BYTES, MODEL_HEADER, TAG_END, TAG_ENTRY, TAG_HEAD, TAG_MODEL,
    TAG_VECTOR, VECTOR_HEADER,
};
use crate::statement::Entry;
use std::io::{ErrorKind, Read};
use veilsum_crypto::wire::Wire;
use veilsum_crypto::{Attempt, ClientId, ClusterId, Digest, RoundId};

/// One part of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The signed head.
    Head(Vec<u8>),
    /// A log entry.
    Entry(Vec<u8>),
    /// A model; its payload follows through [`BundleReader::read`].
    Model {
        /// The digest it is given under.
        digest: Digest,
        /// Bytes of the payload.
        bytes: u64,
    },
    /// A masked vector; its payload follows through [`BundleReader::read`].
    Vector {
        /// Which one.
        name: VectorName,
        /// Bytes of the payload.
        bytes: u64,
    },
    /// The end: nothing follows.
    End,
}

/// Reads a bundle from front to back, holding one entry or a caller's buffer at a time.
pub struct BundleReader<R> {
    source: R,
    section: Section,
    /// Bytes of the current payload not yet read.
    left: u64,
    log_bytes: u64,
    /// Tag and length of the next part, where they were read to see what it is.
    ahead: Option<(u8, u64)>,
}

/// Where in the bundle the next part stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Head,
    Entries,
    Vectors,
    Over,
}

impl<R: Read> BundleReader<R> {
    /// Starts reading.
    ///
    /// # Errors
    /// [`BundleError::Magic`] when it is no bundle, [`BundleError::Io`].
    pub fn new(mut source: R) -> Result<Self, BundleError> {
        let mut magic = [0; MAGIC.len()];
        fill(&mut source, &mut magic, "its first line").map_err(|error| match error {
            BundleError::Truncated(_) => BundleError::Magic,
            other => other,
        })?;
        if magic != *MAGIC {
            return Err(BundleError::Magic);
        }
        Ok(Self {
            source,
            section: Section::Head,
            left: 0,
            log_bytes: 0,
            ahead: None,
        })
    }

    /// The next part.
    ///
    /// # Errors
    /// [`BundleError`]; the bundle cannot be read on after one.
    pub fn part(&mut self) -> Result<Part, BundleError> {
        if self.left > 0 {
            return Err(BundleError::Unread(self.left));
        }
        let (tag, length) = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.opening()?,
        };
        match tag {
            TAG_HEAD => {
                self.enter("a signed head", &[Section::Head], Section::Entries)?;
                Ok(Part::Head(self.whole("a signed head", length, MAX_HEAD)?))
            }
            TAG_ENTRY => {
                self.enter("a log entry", &[Section::Entries], Section::Entries)?;
                self.log_bytes = self.log_bytes.saturating_add(length);
                if self.log_bytes > MAX_LOG_BYTES {
                    return Err(too_long("a log", self.log_bytes, MAX_LOG_BYTES));
                }
                Ok(Part::Entry(self.whole("a log entry", length, Entry::MAX_LEN)?))
            }
            TAG_MODEL => {
                self.enter("a model", &[Section::Entries, Section::Vectors], Section::Vectors)?;
                let header: [u8; MODEL_HEADER] = self.header("a model", length)?;
                Ok(Part::Model {
                    digest: Digest(header),
                    bytes: self.left,
                })
            }
            TAG_VECTOR => {
                self.enter(
                    "a masked vector",
                    &[Section::Entries, Section::Vectors],
                    Section::Vectors,
                )?;
                let header: [u8; VECTOR_HEADER] = self.header("a masked vector", length)?;
                Ok(Part::Vector {
                    name: vector_name(header),
                    bytes: self.left,
                })
            }
            TAG_END => {
                self.enter("the end", &[Section::Entries, Section::Vectors], Section::Over)?;
                if length != 0 {
                    return Err(too_long("an end", length, 0));
                }
                match fill(&mut self.source, &mut [0; 1], "nothing") {
                    Err(BundleError::Truncated(_)) => Ok(Part::End),
                    Err(other) => Err(other),
                    Ok(()) => Err(BundleError::Trailing),
                }
            }
            tag => Err(BundleError::UnknownPart(tag)),
        }
    }

    /// The next log entry; `None` once the entries are over, and the part that follows is still to come.
    ///
    /// # Errors
    /// As [`BundleReader::part`].
    pub fn entry(&mut self) -> Result<Option<Vec<u8>>, BundleError> {
        if self.left > 0 {
            return Err(BundleError::Unread(self.left));
        }
        let ahead = match self.ahead {
            Some(ahead) => ahead,
            None => self.opening()?,
        };
        self.ahead = Some(ahead);
        if ahead.0 != TAG_ENTRY {
            return Ok(None);
        }
        match self.part()? {
            Part::Entry(bytes) => Ok(Some(bytes)),
            _ => Err(BundleError::OutOfPlace("something else than a log entry")),
        }
    }

    fn opening(&mut self) -> Result<(u8, u64), BundleError> {
        let (mut tag, mut length) = ([0; 1], [0; 8]);
        fill(&mut self.source, &mut tag, "a part's tag")?;
        fill(&mut self.source, &mut length, "a part's length")?;
        let [tag] = tag;
        Ok((tag, u64::from_le_bytes(length)))
    }

    /// Reads the next `buffer.len()` bytes of the current model or vector.
    ///
    /// # Errors
    /// [`BundleError::Length`] when it has fewer left, [`BundleError::Truncated`], [`BundleError::Io`].
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<(), BundleError> {
        let want = buffer.len() as u64;
        self.left = self
            .left
            .checked_sub(want)
            .ok_or_else(|| too_long("a payload", want, self.left))?;
        fill(&mut self.source, buffer, "a payload")
    }

    fn enter(&mut self, part: &'static str, allowed: &[Section], next: Section) -> Result<(), BundleError> {
        if !allowed.contains(&self.section) {
            return Err(BundleError::OutOfPlace(part));
        }
        self.section = next;
        Ok(())
    }

    fn whole(&mut self, part: &'static str, length: u64, max: usize) -> Result<Vec<u8>, BundleError> {
        let size = usize::try_from(length).ok().filter(|size| *size <= max);
        let mut bytes = vec![0; size.ok_or_else(|| too_long(part, length, max as u64))?];
        fill(&mut self.source, &mut bytes, part)?;
        Ok(bytes)
    }

    fn header<const N: usize>(&mut self, part: &'static str, length: u64) -> Result<[u8; N], BundleError> {
        self.left = length
            .checked_sub(N as u64)
            .ok_or_else(|| too_long(part, length, N as u64))?;
        let mut header = [0; N];
        fill(&mut self.source, &mut header, part)?;
        Ok(header)
    }
}

/// The bytes that name a vector.
pub(super) fn vector_header(name: VectorName) -> [u8; VECTOR_HEADER] {
    let mut header = [0; VECTOR_HEADER];
    let fields = name
        .round
        .0
        .to_le_bytes()
        .into_iter()
        .chain(name.attempt.0.to_le_bytes())
        .chain(name.client.0.to_le_bytes())
        .chain(name.cluster.0.to_le_bytes());
    for (slot, byte) in header.iter_mut().zip(fields) {
        *slot = byte;
    }
    header
}

fn vector_name(header: [u8; VECTOR_HEADER]) -> VectorName {
    let [
        r0,
        r1,
        r2,
        r3,
        r4,
        r5,
        r6,
        r7,
        a0,
        a1,
        a2,
        a3,
        c0,
        c1,
        c2,
        c3,
        k0,
        k1,
    ] = header;
    VectorName {
        round: RoundId(u64::from_le_bytes([r0, r1, r2, r3, r4, r5, r6, r7])),
        attempt: Attempt(u32::from_le_bytes([a0, a1, a2, a3])),
        client: ClientId(u32::from_le_bytes([c0, c1, c2, c3])),
        cluster: ClusterId(u16::from_le_bytes([k0, k1])),
    }
}

fn too_long(part: &'static str, got: u64, want: u64) -> BundleError {
    BundleError::Length { part, got, want }
}

fn fill(source: &mut impl Read, buffer: &mut [u8], part: &'static str) -> Result<(), BundleError> {
    source.read_exact(buffer).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => BundleError::Truncated(part),
        _ => BundleError::Io(error),
    })
}
