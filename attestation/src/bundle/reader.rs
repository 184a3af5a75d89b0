//! Takes a bundle apart, part by part. Lengths are capped before anything is allocated; what the parts mean is the
//! auditor's business.

use super::due::VectorName;
use super::{
    BundleError, GONE, MAGIC, MAX_CHUNKS, MAX_COSIGNED, MAX_HEAD, MAX_LOG_BYTES, MODEL_HEADER, TAG_CHUNKS,
    TAG_COSIGNED, TAG_END, TAG_ENTRY, TAG_GONE, TAG_HEAD, TAG_MODEL, TAG_VECTOR, VECTOR_HEADER,
};
use crate::statement::Entry;
use std::io::{ErrorKind, Read, Seek};
use veilsum_crypto::wire::Wire;
use veilsum_crypto::{Attempt, ClientId, ClusterId, Digest, RoundId};

/// One part of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The signed head.
    Head(Vec<u8>),
    /// The last head that witnesses cosigned.
    Cosigned(Vec<u8>),
    /// A log entry.
    Entry(Vec<u8>),
    /// A model; its payload follows through [`BundleReader::read`].
    Model {
        /// The digest it is given under.
        digest: Digest,
        /// Bytes of the payload.
        bytes: u64,
    },
    /// The hashes of the chunks of the vector that follows.
    Chunks {
        /// Which vector.
        name: VectorName,
        /// The hashes.
        leaves: Vec<Digest>,
    },
    /// A masked vector; its payload follows through [`BundleReader::read`].
    Vector {
        /// Which one.
        name: VectorName,
        /// Bytes of the payload.
        bytes: u64,
    },
    /// The vectors of an attempt are gone by retention.
    Gone {
        /// The round.
        round: RoundId,
        /// The attempt at it.
        attempt: Attempt,
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
    Cosigned,
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
                self.enter("a signed head", Section::Head, Section::Head, Section::Cosigned)?;
                Ok(Part::Head(self.whole("a signed head", length, MAX_HEAD)?))
            }
            TAG_COSIGNED => {
                self.enter(
                    "a cosigned head",
                    Section::Cosigned,
                    Section::Cosigned,
                    Section::Entries,
                )?;
                Ok(Part::Cosigned(self.whole(
                    "a cosigned head",
                    length,
                    MAX_COSIGNED,
                )?))
            }
            TAG_ENTRY => {
                self.enter(
                    "a log entry",
                    Section::Cosigned,
                    Section::Entries,
                    Section::Entries,
                )?;
                self.log_bytes = self.log_bytes.saturating_add(length);
                if self.log_bytes > MAX_LOG_BYTES {
                    return Err(too_long("a log", self.log_bytes, MAX_LOG_BYTES));
                }
                Ok(Part::Entry(self.whole("a log entry", length, Entry::MAX_LEN)?))
            }
            TAG_MODEL => {
                self.enter("a model", Section::Cosigned, Section::Vectors, Section::Vectors)?;
                let header: [u8; MODEL_HEADER] = self.header("a model", length)?;
                Ok(Part::Model {
                    digest: Digest(header),
                    bytes: self.left,
                })
            }
            TAG_CHUNKS => {
                self.enter(
                    "chunk hashes",
                    Section::Cosigned,
                    Section::Vectors,
                    Section::Vectors,
                )?;
                if length > MAX_CHUNKS {
                    return Err(too_long("chunk hashes", length, MAX_CHUNKS));
                }
                let header: [u8; VECTOR_HEADER] = self.header("chunk hashes", length)?;
                let mut bytes = vec![0; usize::try_from(self.left).unwrap_or_default()];
                self.read(&mut bytes)?;
                let (leaves, rest) = bytes.as_chunks::<32>();
                if !rest.is_empty() {
                    return Err(too_long("chunk hashes", length, length - rest.len() as u64));
                }
                Ok(Part::Chunks {
                    name: vector_name(header),
                    leaves: leaves.iter().copied().map(Digest).collect(),
                })
            }
            TAG_VECTOR => {
                self.enter(
                    "a masked vector",
                    Section::Cosigned,
                    Section::Vectors,
                    Section::Vectors,
                )?;
                let header: [u8; VECTOR_HEADER] = self.header("a masked vector", length)?;
                Ok(Part::Vector {
                    name: vector_name(header),
                    bytes: self.left,
                })
            }
            TAG_GONE => {
                self.enter(
                    "a note of vectors gone",
                    Section::Cosigned,
                    Section::Vectors,
                    Section::Vectors,
                )?;
                let header: [u8; GONE] = self.header("a note of vectors gone", length)?;
                if self.left > 0 {
                    return Err(too_long("a note of vectors gone", length, GONE as u64));
                }
                let (round, attempt) = attempt_name(header);
                Ok(Part::Gone { round, attempt })
            }
            TAG_END => {
                self.enter("the end", Section::Cosigned, Section::Vectors, Section::Over)?;
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

    /// The cosigned head, if one stands next; otherwise the part that follows is still to come.
    ///
    /// # Errors
    /// As [`BundleReader::part`].
    pub fn cosigned(&mut self) -> Result<Option<Vec<u8>>, BundleError> {
        if self.peek()?.0 != TAG_COSIGNED {
            return Ok(None);
        }
        match self.part()? {
            Part::Cosigned(bytes) => Ok(Some(bytes)),
            _ => Err(BundleError::OutOfPlace("something else than a cosigned head")),
        }
    }

    /// The next log entry, past a cosigned head; `None` once the entries are over, and the part that follows is still to
    /// come.
    ///
    /// # Errors
    /// As [`BundleReader::part`].
    pub fn entry(&mut self) -> Result<Option<Vec<u8>>, BundleError> {
        self.cosigned()?;
        if self.peek()?.0 != TAG_ENTRY {
            return Ok(None);
        }
        match self.part()? {
            Part::Entry(bytes) => Ok(Some(bytes)),
            _ => Err(BundleError::OutOfPlace("something else than a log entry")),
        }
    }

    /// Tag and length of the next part, which stays to come.
    fn peek(&mut self) -> Result<(u8, u64), BundleError> {
        if self.left > 0 {
            return Err(BundleError::Unread(self.left));
        }
        let ahead = match self.ahead {
            Some(ahead) => ahead,
            None => self.opening()?,
        };
        self.ahead = Some(ahead);
        Ok(ahead)
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

    /// A part that may stand in the sections `from` to `to` and leads to `next`.
    fn enter(
        &mut self,
        part: &'static str,
        from: Section,
        to: Section,
        next: Section,
    ) -> Result<(), BundleError> {
        if !(from..=to).contains(&self.section) {
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

impl<R: Read + Seek> BundleReader<R> {
    /// Goes past the next bytes of the current model or vector without reading them.
    ///
    /// # Errors
    /// As [`BundleReader::read`]; that the file ends there shows only at the next part.
    pub fn skip(&mut self, bytes: u64) -> Result<(), BundleError> {
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or_else(|| too_long("a payload", bytes, self.left))?;
        let way = i64::try_from(bytes).map_err(|_| too_long("a payload", bytes, i64::MAX as u64))?;
        Ok(self.source.seek_relative(way)?)
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

/// The bytes that name an attempt.
pub(super) fn gone_header(round: RoundId, attempt: Attempt) -> [u8; GONE] {
    let mut header = [0; GONE];
    let fields = round.0.to_le_bytes().into_iter().chain(attempt.0.to_le_bytes());
    for (slot, byte) in header.iter_mut().zip(fields) {
        *slot = byte;
    }
    header
}

fn attempt_name(header: [u8; GONE]) -> (RoundId, Attempt) {
    let [r0, r1, r2, r3, r4, r5, r6, r7, a0, a1, a2, a3] = header;
    (
        RoundId(u64::from_le_bytes([r0, r1, r2, r3, r4, r5, r6, r7])),
        Attempt(u32::from_le_bytes([a0, a1, a2, a3])),
    )
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

pub(super) fn too_long(part: &'static str, got: u64, want: u64) -> BundleError {
    BundleError::Length { part, got, want }
}

pub(super) fn fill(source: &mut impl Read, buffer: &mut [u8], part: &'static str) -> Result<(), BundleError> {
    source.read_exact(buffer).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => BundleError::Truncated(part),
        _ => BundleError::Io(error),
    })
}
