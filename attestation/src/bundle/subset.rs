//! Single statements of a log with proofs that they are in it, for those who must not see all of it.
//!
//! ```text
//! veilsum-subset/1\n
//! T  5       tier (1): 0 public, 1 member, 3 plan ‖ the member's number (4), else 0
//! C  length  the log's head: a C2SP signed note by the server
//! W  length  the last head that witnesses cosigned                            at most one, and with it
//! K  n · 32  the RFC 9162 proof that the log's head extends it
//! P  length  index (8) ‖ n (1) ‖ n · 32 bytes of inclusion proof ‖ entry       ascending by index
//! L  length  index (8) ‖ leaf (32) ‖ n · 32 bytes of inclusion proof           ascending by index; of entries not shown
//! N  length  number (16) ‖ source (32) ‖ f64 ‖ f64 ‖ channels (4) ‖ f32 means ‖ f32 variances
//!                                                                             a descriptor and its declared noise
//! Z  0       the end; nothing follows
//! ```
//!
//! The descriptors are in the order of their clients; what stands before each is [`super::tier::salted_client`]. Numbers of
//! images, which the learner's own file has, are left out.

mod reader;
mod writer;

pub(crate) use reader::{Proven, SubsetParts};
pub use writer::{NoisedDescriptor, SubsetWriter};

use super::record::{Body, Record};
use super::tier::Item;
use crate::statement::Party;

/// The first line.
pub(crate) const MAGIC: &[u8; 17] = b"veilsum-subset/1\n";

const TAG_TIER: u8 = b'T';
const TAG_EXTENDS: u8 = b'K';
const TAG_PROVEN: u8 = b'P';
const TAG_LEAF: u8 = b'L';
const TAG_DESCRIPTOR: u8 = b'N';

/// Hashes of a proof in a tree of at most 2^64 leaves; two sides of one for consistency.
const MAX_PROOF: usize = 64;

/// Channels of a descriptor, as the learner's.
const MAX_CHANNELS: usize = 1 << 16;

/// Bytes before the means of a descriptor.
const DESCRIPTOR_HEADER: usize = 16 + 32 + 8 + 8 + 4;

/// What a tier is asked about a record.
pub(crate) fn item(record: &Record) -> Item {
    let signer = record.entry.signer;
    let about = match (&record.body, signer) {
        (Body::Member(member), _) => Some(member.client),
        (Body::Late(late), _) => Some(late.client),
        (_, Party::Client(client)) => Some(client),
        _ => None,
    };
    Item::Statement {
        kind: record.entry.kind,
        signer,
        about,
    }
}
