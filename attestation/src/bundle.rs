//! What an auditor is handed: one file, read once from front to back.
//!
//! ```text
//! veilsum-bundle/1\n
//! C  length  the log's final head: a C2SP signed note by the server
//! W  length  the last head that witnesses cosigned, a C2SP signed note           at most one
//! E  length  a log entry                                      every entry, in log order
//!            for every published attempt at a round, in log order:
//! M  length  digest (32) ‖ f32 little-endian                  the model a released cluster starts from, the first time
//!                                                             it is named, if the exporter has it
//! H  length  round ‖ attempt ‖ client ‖ cluster as in V ‖ the 32-byte hashes of its chunks; right before its V, if at all
//! V  length  round (8) ‖ attempt (4) ‖ client (4) ‖ cluster (2) ‖ packed masked vector
//!                                                             every survivor, each of its released clusters
//! G  12      round (8) ‖ attempt (4)                          instead of all vectors of an attempt: gone by retention
//! M                                                           after all attempts: each model a sum led to that no later
//!                                                             one starts from, if the exporter has it
//! Z  0       the end; nothing follows
//! ```
//!
//! A part is a tag byte, a `u64` length and that many bytes, numbers little-endian. The log itself says which vectors are
//! due and in which order, so a bundle has one form and no byte without a meaning: vectors of dropped or late clients, of
//! withheld clusters and of aborted attempts are never due, and both ends refuse them. A round's models come before its
//! vectors, so that an auditor can finish one round before it reads the next. Masked vectors are incompressible; nothing
//! is compressed.
//!
//! Who may see less than the log is handed a [`subset`]: single statements with proofs that they are in it. [`tier`] says who
//! may be handed what.
//!
//! [`BundleWriter`] makes a bundle, [`BundleReader`] takes it apart without believing anything in it.

mod attempt;
mod due;
mod head;
mod reader;
mod record;
pub mod subset;
pub mod tier;
mod writer;

pub(crate) use attempt::{Attempt, End, Said, Stray, Transcript, Why};
pub(crate) use due::DueList;
pub use due::{Due, Forbidden, VectorName};
pub use head::{HeadError, log_name, sign_head};
pub(crate) use head::{parse_cosigned, parse_head, verify_head};
pub use reader::{BundleReader, Part};
pub(crate) use record::{Body, Record};
pub use writer::BundleWriter;

use crate::statement::StatementError;
use tier::Refusal;
use veilsum_crypto::{Attempt as AttemptId, Digest, ResidueError, RoundId};

/// Why a bundle cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The file or connection failed.
    #[error("the bundle cannot be read or written: {0}")]
    Io(#[from] std::io::Error),
    /// Another kind of file, or another version.
    #[error("this is no veilsum bundle of version 1; check the file, or export it again")]
    Magic,
    /// The input ends too early.
    #[error("the bundle ends in the middle of {0}; it was cut off, fetch or export it again")]
    Truncated(&'static str),
    /// An unknown tag.
    #[error(
        "the bundle holds a part with the unknown tag {0:#04x}; it was changed, or made by another version"
    )]
    UnknownPart(u8),
    /// A part where its kind must not stand.
    #[error("the bundle holds {0} where none may stand; it was changed or made wrongly")]
    OutOfPlace(&'static str),
    /// A part longer than its kind allows, or not as long as it must be.
    #[error(
        "the bundle holds {part} of {got} bytes where {want} are allowed; it was changed or made wrongly"
    )]
    Length {
        /// The part.
        part: &'static str,
        /// Its length.
        got: u64,
        /// The most, or the exact, length.
        want: u64,
    },
    /// Bytes after the end mark.
    #[error("bytes follow the end of the bundle; it was changed or made wrongly")]
    Trailing,
    /// A vector the log calls for is not there.
    #[error("the bundle lacks the masked vector of {0}; export it again from a complete store")]
    Missing(VectorName),
    /// A vector that must not be in a bundle, here or at all.
    #[error("the masked vector of {name} must not be exported: {why}")]
    ExportForbidden {
        /// Which vector.
        name: VectorName,
        /// Why not.
        why: Forbidden,
    },
    /// Something the tier must not hold.
    #[error(transparent)]
    Tier(#[from] Refusal),
    /// An attempt said to be gone whose vectors are not due here.
    #[error("the vectors of {0}, {1} are said to be gone, and they are not due here")]
    NotGone(RoundId, AttemptId),
    /// A model no released cluster starts from, or one given before.
    #[error("model {0:?} is not one a released cluster of this round starts from, or was given before")]
    SurplusModel(Digest),
    /// A vector that is not the one its statement commits to.
    #[error("the masked vector of {0} is not the one its statement commits to; the store is damaged")]
    Mismatch(VectorName),
    /// A log entry that is none.
    #[error("log entry {index} cannot be read: {source}")]
    Entry {
        /// Its number.
        index: u64,
        /// What is wrong.
        source: StatementError,
    },
    /// A log without a policy cannot be exported.
    #[error("the log holds no policy; it is damaged, or not the log of a federation")]
    NoPolicy,
    /// The head is no signed note over this log.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A packed vector of the wrong length or with stray bits.
    #[error(transparent)]
    Residue(#[from] ResidueError),
    /// A part was asked for before the last one was read.
    #[error(
        "the next part was asked for before {0} bytes of the last one were read; a mistake of the caller"
    )]
    Unread(u64),
}

impl BundleError {
    /// The error's name, for reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Io(_) => "Io",
            Self::Magic => "Magic",
            Self::Truncated(_) => "Truncated",
            Self::UnknownPart(_) => "UnknownPart",
            Self::OutOfPlace(_) => "OutOfPlace",
            Self::Length { .. } => "Length",
            Self::Trailing => "Trailing",
            Self::Missing(_) => "Missing",
            Self::ExportForbidden { .. } => "ExportForbidden",
            Self::Tier(refusal) => refusal.name(),
            Self::NotGone(..) => "NotGone",
            Self::SurplusModel(_) => "SurplusModel",
            Self::Mismatch(_) => "Mismatch",
            Self::Entry { .. } => "Entry",
            Self::NoPolicy => "NoPolicy",
            Self::Head(_) => "Head",
            Self::Residue(_) => "Residue",
            Self::Unread(_) => "Unread",
        }
    }
}

/// The first line.
const MAGIC: &[u8] = b"veilsum-bundle/1\n";

/// Tags of the parts.
const TAG_HEAD: u8 = b'C';
const TAG_COSIGNED: u8 = b'W';
const TAG_ENTRY: u8 = b'E';
const TAG_MODEL: u8 = b'M';
const TAG_CHUNKS: u8 = b'H';
const TAG_VECTOR: u8 = b'V';
const TAG_GONE: u8 = b'G';
const TAG_END: u8 = b'Z';

/// The longest signed head, in bytes: a name, a number, a root and one signature take some 300.
const MAX_HEAD: usize = 4096;

/// The longest cosigned head, in bytes: some 150 for each of dozens of witnesses.
const MAX_COSIGNED: usize = 16_384;

/// Bytes before the payload of a model and of a vector.
const MODEL_HEADER: usize = 32;
const VECTOR_HEADER: usize = 18;

/// The longest list of chunk hashes, in bytes: 2^31 entries of 32 bits are 131,073 chunks.
const MAX_CHUNKS: u64 = 32 * 131_073;

/// Bytes that name an attempt.
const GONE: usize = 12;

/// All entries of one log together, in bytes: beyond it an auditor stops reading rather than run out of memory.
const MAX_LOG_BYTES: u64 = 8 << 30;
