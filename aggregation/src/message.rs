//! Every message of a round, in protocol order, with its bytes.
//!
//! A message is a kind byte, a channel and a body. Bodies go through the canonical gate of `veilsum_crypto::wire`, except
//! chunks, which are a fixed header and raw bytes. Statements travel as the exact bytes of their log entries.

use serde::{Deserialize, Serialize};
use veilsum_attestation::Head;
use veilsum_attestation::statement::{ClientSet, Entry};
use veilsum_crypto::chunk::{CHUNK_BYTES, Chunking};
use veilsum_crypto::wire::{self, Wire};
use veilsum_crypto::{Attempt, BoundedVec, ClientId, ClusterId, Digest, RoundId, Signature, WireError};

/// The bytes of one log entry.
pub type EntryBytes = BoundedVec<u8, { Entry::MAX_LEN }>;

/// Order holds inside a channel, not between channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Small messages.
    Control,
    /// Vectors and models.
    Bulk,
}

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToServer {
    /// First words on a connection: the last head the client accepted.
    Hello(Hello),
    /// `keys` entry.
    Keys(EntryBytes),
    /// `shares` entry and the sealed boxes.
    Shares(Dealing),
    /// `complaint` entry: a box that holds no good shares. Comes before `masked`.
    Complaint(EntryBytes),
    /// `masked` entry; its chunks follow on the same channel.
    Masked(EntryBytes),
    /// A chunk of a masked vector.
    Chunk(Chunk),
    /// `agree` entry.
    Agree(EntryBytes),
    /// `reveal` entry.
    Reveal(EntryBytes),
    /// The client leaves the round, with the name of its reason.
    Refuse(Refused),
    /// `descriptor` entry and the descriptor, between rounds.
    Described(Described),
    /// There will be no descriptor, with the name of the reason.
    NotDescribed(NotDescribed),
}

/// What the server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToClient {
    /// A round begins.
    Plan(PlanMessage),
    /// All `keys` entries, in client order.
    Roster(Roster),
    /// All `shares` entries, and the boxes sealed for this client.
    Inbox(Inbox),
    /// What the clients are asked to agree on.
    Proposal(Proposal),
    /// At least t `agree` entries.
    Agreement(Agreement),
    /// `sums` entry.
    Published(EntryBytes),
    /// `aborted` entry.
    Aborted(EntryBytes),
    /// This client is out of the round, with the name of the reason.
    Refused(Refused),
    /// The client came back in the middle of its upload: what the server has of it.
    Continue(Continue),
    /// Between rounds: the server asks what the client's data looks like.
    Describe(Describe),
}

/// See [`ToServer::Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The last head the client accepted; the empty head for a newcomer.
    pub head: Head,
    /// Where it stands in an attempt it can go on with.
    pub at: Option<Standing>,
}

/// Where a client stands in an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The round.
    pub round: RoundId,
    /// The attempt at it.
    pub attempt: Attempt,
    /// What it waits for.
    pub waits: Waits,
}

/// The server's next message to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Waits {
    /// It has sent `keys`.
    Roster,
    /// It has sent `shares`.
    Inbox,
    /// It has sent, or is sending, `masked`.
    Proposal,
    /// It has sent `agree`.
    Agreement,
    /// It has sent `reveal`.
    Sums,
}

/// See [`ToClient::Continue`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continue {
    /// The round.
    pub round: RoundId,
    /// The attempt at it.
    pub attempt: Attempt,
    /// Chunks the server has of each of the client's vectors, from the first on; none of a vector that is not named.
    pub received: BoundedVec<Received, 64>,
}

/// How much of one vector has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Which vector.
    pub cluster: ClusterId,
    /// Chunks of it, without a gap.
    pub chunks: u32,
}

/// See [`ToClient::Describe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Describe {
    /// Number of the clustering, from 1.
    pub clustering: u64,
}

/// See [`ToServer::Described`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// `descriptor` entry.
    pub entry: EntryBytes,
    /// The descriptor's bytes, whose digest the entry names.
    pub descriptor: BoundedVec<u8, { Described::MAX_DESCRIPTOR }>,
}

impl Described {
    /// Most bytes of a descriptor: means and variances of 65,536 channels, and a head.
    pub const MAX_DESCRIPTOR: usize = 8 * 65_536 + 64;
}

/// See [`ToServer::Shares`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dealing {
    /// `shares` entry.
    pub entry: EntryBytes,
    /// One box per other client of the roster, ascending.
    pub boxes: BoundedVec<SealedBox, MAX_CLIENTS>,
}

/// A sealed box on its way up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedBox {
    /// Whom it is for.
    pub receiver: ClientId,
    /// Ciphertext and tag.
    pub sealed: BoundedVec<u8, 4096>,
}

/// A sealed box on its way down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DealtBox {
    /// Who sealed it.
    pub dealer: ClientId,
    /// Ciphertext and tag.
    pub sealed: BoundedVec<u8, 4096>,
    /// Proof that it is the one under the dealer's signature.
    pub proof: BoundedVec<Digest, 16>,
}

/// See [`ToServer::Chunk`]. It names its attempt because chunks travel on a channel of their own: those of an attempt that
/// is over may still be on their way when the next has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The round it belongs to.
    pub round: RoundId,
    /// The attempt at it.
    pub attempt: Attempt,
    /// Which of the client's vectors.
    pub cluster: ClusterId,
    /// Which chunk of it.
    pub index: u32,
    /// Packed entries.
    pub bytes: Vec<u8>,
}

impl Chunk {
    /// Cuts a packed vector into its chunks, from number `first` on.
    pub fn cut(
        standing: (RoundId, Attempt),
        cluster: ClusterId,
        packed: &[u8],
        chunking: Chunking,
        first: u32,
    ) -> impl Iterator<Item = Self> {
        let size = chunking.bytes(0).unwrap_or(CHUNK_BYTES).max(1);
        (0u32..)
            .zip(packed.chunks(size))
            .skip(first as usize)
            .map(move |(index, bytes)| Self {
                round: standing.0,
                attempt: standing.1,
                cluster,
                index,
                bytes: bytes.to_vec(),
            })
    }
}

/// See [`ToServer::Refuse`] and [`ToClient::Refused`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The round it is about.
    pub round: RoundId,
    /// The attempt at it.
    pub attempt: Attempt,
    /// The reason's name, such as `PlanLeaks`.
    pub reason: BoundedVec<u8, 64>,
}

impl Refused {
    /// A refusal of that name.
    #[must_use]
    pub fn named(round: RoundId, attempt: Attempt, reason: &str) -> Self {
        Self {
            round,
            attempt,
            reason: BoundedVec::new(reason.bytes().take(64).collect()).unwrap_or_default(),
        }
    }

    /// The name, with anything but letters and digits removed: it may reach a log.
    #[must_use]
    pub fn name(&self) -> String {
        printable(&self.reason)
    }
}

/// See [`ToServer::NotDescribed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotDescribed {
    /// The clustering that was asked for.
    pub clustering: u64,
    /// The reason's name.
    pub reason: BoundedVec<u8, 64>,
}

impl NotDescribed {
    /// A reason of that name.
    #[must_use]
    pub fn named(clustering: u64, reason: &str) -> Self {
        Self {
            clustering,
            reason: BoundedVec::new(reason.bytes().take(64).collect()).unwrap_or_default(),
        }
    }

    /// The name, with anything but letters and digits removed: it may reach a log.
    #[must_use]
    pub fn name(&self) -> String {
        printable(&self.reason)
    }
}

/// A peer's name for a reason, with anything but letters and digits removed.
#[must_use]
pub fn printable(reason: &[u8]) -> String {
    reason
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(|byte| char::from(*byte))
        .collect()
}

/// See [`ToClient::Plan`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanMessage {
    /// `plan` entry.
    pub entry: EntryBytes,
    /// Proofs that the plan's head extends heads this client may hold: the one it was last heard to hold, and those it was
    /// shown since. Its last word may still be on its way.
    pub consistency: BoundedVec<Extends, 16>,
}

/// A proof that a log extends an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extends {
    /// Size of the earlier log.
    pub from: u64,
    /// RFC 9162 consistency proof; empty from the empty log.
    pub proof: BoundedVec<Digest, 64>,
}

impl PlanMessage {
    /// The proof for a head of that size; empty when there is none.
    #[must_use]
    pub fn proof_from(&self, size: u64) -> &[Digest] {
        self.consistency
            .iter()
            .find(|extends| extends.from == size)
            .map_or(&[], |extends| &extends.proof)
    }
}

/// See [`ToClient::Roster`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// `keys` entries.
    pub keys: BoundedVec<EntryBytes, MAX_CLIENTS>,
}

/// See [`ToClient::Inbox`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbox {
    /// `shares` entries, in client order.
    pub shares: BoundedVec<EntryBytes, MAX_CLIENTS>,
    /// Boxes for this client, ascending by dealer.
    pub boxes: BoundedVec<DealtBox, MAX_CLIENTS>,
}

/// See [`ToClient::Proposal`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Proposed survivors.
    pub survivors: ClientSet,
    /// Proposed release set, ascending.
    pub release: BoundedVec<ClusterId, 64>,
    /// The log after the last masked statement.
    pub head: Head,
    /// Where this client's `masked` statement is.
    pub index: u64,
    /// Proof that it is there.
    pub inclusion: BoundedVec<Digest, 64>,
    /// Proof that the head extends the plan's head.
    pub consistency: BoundedVec<Digest, 64>,
    /// The server's name to it: [`veilsum_attestation::statement::Agree::server`].
    pub server: Signature,
}

/// See [`ToClient::Agreement`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// `agree` entries, in client order.
    pub agrees: BoundedVec<EntryBytes, MAX_CLIENTS>,
}

macro_rules! wire_kinds {
    ($($body:ident $name:literal $max:expr;)*) => {
        $(impl Wire for $body {
            const KIND: &'static str = $name;
            const MAX_LEN: usize = $max;
        })*
    };
}

wire_kinds! {
    Hello "hello" 40 + 1 + 16;
    Dealing "dealing" Entry::MAX_LEN + 8 + 16 + MAX_CLIENTS * 256;
    Refused "refusal" 84;
    NotDescribed "no descriptor" 80;
    Continue "continue" 12 + 8 + 64 * 6;
    PlanMessage "plan message" Entry::MAX_LEN + 16 + 16 * (16 + 64 * 32);
    Roster "roster" MESSAGE_CAP;
    Inbox "inbox" MESSAGE_CAP;
    Proposal "proposal" 8192;
    Agreement "agreement" MESSAGE_CAP;
    Describe "describe" 8;
    Described "described" Entry::MAX_LEN + 8 + 8 + Described::MAX_DESCRIPTOR;
    EntryMessage "entry message" Entry::MAX_LEN + 8;
}

#[derive(Serialize, Deserialize)]
struct EntryMessage(EntryBytes);

impl ToServer {
    /// The kind byte, the channel and the body.
    ///
    /// # Errors
    /// [`WireError::OwnTooLong`] for a message over its bound.
    pub fn encode(&self) -> Result<(u8, Channel, Vec<u8>), WireError> {
        Ok(match self {
            Self::Hello(body) => (1, Channel::Control, wire::encode(body)?),
            Self::Keys(entry) => (2, Channel::Control, encode_entry(entry)?),
            Self::Shares(body) => (3, Channel::Control, wire::encode(body)?),
            Self::Masked(entry) => (4, Channel::Bulk, encode_entry(entry)?),
            Self::Chunk(chunk) => {
                let mut body = Vec::with_capacity(CHUNK_HEADER + chunk.bytes.len());
                body.extend_from_slice(&chunk.round.0.to_le_bytes());
                body.extend_from_slice(&chunk.attempt.0.to_le_bytes());
                body.extend_from_slice(&chunk.cluster.0.to_le_bytes());
                body.extend_from_slice(&chunk.index.to_le_bytes());
                body.extend_from_slice(&chunk.bytes);
                (5, Channel::Bulk, body)
            }
            Self::Agree(entry) => (6, Channel::Control, encode_entry(entry)?),
            Self::Reveal(entry) => (7, Channel::Control, encode_entry(entry)?),
            Self::Refuse(body) => (8, Channel::Control, wire::encode(body)?),
            // On the bulk channel: it must come before the `masked` that follows it.
            Self::Complaint(entry) => (9, Channel::Bulk, encode_entry(entry)?),
            Self::Described(body) => (10, Channel::Control, wire::encode(body)?),
            Self::NotDescribed(body) => (11, Channel::Control, wire::encode(body)?),
        })
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`MessageError`]: an unknown kind, or a body that is not canonical.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, MessageError> {
        Ok(match kind {
            1 => Self::Hello(wire::decode(body)?),
            2 => Self::Keys(decode_entry(body)?),
            3 => Self::Shares(wire::decode(body)?),
            4 => Self::Masked(decode_entry(body)?),
            5 => {
                let (header, bytes) = body
                    .split_first_chunk::<CHUNK_HEADER>()
                    .ok_or(MessageError::Chunk(body.len()))?;
                if bytes.len() > CHUNK_BYTES {
                    return Err(MessageError::Chunk(body.len()));
                }
                let (round, rest) = header
                    .split_first_chunk::<8>()
                    .ok_or(MessageError::Chunk(body.len()))?;
                let (attempt, rest) = rest
                    .split_first_chunk::<4>()
                    .ok_or(MessageError::Chunk(body.len()))?;
                let (cluster, rest) = rest
                    .split_first_chunk::<2>()
                    .ok_or(MessageError::Chunk(body.len()))?;
                let (index, _) = rest
                    .split_first_chunk::<4>()
                    .ok_or(MessageError::Chunk(body.len()))?;
                Self::Chunk(Chunk {
                    round: RoundId(u64::from_le_bytes(*round)),
                    attempt: Attempt(u32::from_le_bytes(*attempt)),
                    cluster: ClusterId(u16::from_le_bytes(*cluster)),
                    index: u32::from_le_bytes(*index),
                    bytes: bytes.to_vec(),
                })
            }
            6 => Self::Agree(decode_entry(body)?),
            7 => Self::Reveal(decode_entry(body)?),
            8 => Self::Refuse(wire::decode(body)?),
            9 => Self::Complaint(decode_entry(body)?),
            10 => Self::Described(wire::decode(body)?),
            11 => Self::NotDescribed(wire::decode(body)?),
            kind => return Err(MessageError::UnknownKind(kind)),
        })
    }
}

impl ToClient {
    /// The kind byte, the channel and the body.
    ///
    /// # Errors
    /// [`WireError::OwnTooLong`] for a message over its bound.
    pub fn encode(&self) -> Result<(u8, Channel, Vec<u8>), WireError> {
        let (kind, body) = match self {
            Self::Plan(body) => (33, wire::encode(body)?),
            Self::Roster(body) => (34, wire::encode(body)?),
            Self::Inbox(body) => (35, wire::encode(body)?),
            Self::Proposal(body) => (36, wire::encode(body)?),
            Self::Agreement(body) => (37, wire::encode(body)?),
            Self::Published(entry) => (38, encode_entry(entry)?),
            Self::Aborted(entry) => (39, encode_entry(entry)?),
            Self::Refused(body) => (40, wire::encode(body)?),
            Self::Continue(body) => (41, wire::encode(body)?),
            Self::Describe(body) => (42, wire::encode(body)?),
        };
        Ok((kind, Channel::Control, body))
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`MessageError`]: an unknown kind, or a body that is not canonical.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, MessageError> {
        Ok(match kind {
            33 => Self::Plan(wire::decode(body)?),
            34 => Self::Roster(wire::decode(body)?),
            35 => Self::Inbox(wire::decode(body)?),
            36 => Self::Proposal(wire::decode(body)?),
            37 => Self::Agreement(wire::decode(body)?),
            38 => Self::Published(decode_entry(body)?),
            39 => Self::Aborted(decode_entry(body)?),
            40 => Self::Refused(wire::decode(body)?),
            41 => Self::Continue(wire::decode(body)?),
            42 => Self::Describe(wire::decode(body)?),
            kind => return Err(MessageError::UnknownKind(kind)),
        })
    }
}

fn encode_entry(entry: &EntryBytes) -> Result<Vec<u8>, WireError> {
    wire::encode(&EntryMessage(entry.clone()))
}

fn decode_entry(body: &[u8]) -> Result<EntryBytes, WireError> {
    Ok(wire::decode::<EntryMessage>(body)?.0)
}

/// Why bytes are no message. Always the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The body is not canonical.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// No message of this protocol has that kind; perhaps the peer runs another version.
    #[error("message kind {0} is unknown; check that both sides run the same version")]
    UnknownKind(u8),
    /// A chunk shorter than its header or longer than 64 KiB.
    #[error("a chunk of {0} bytes is shorter than its header or longer than 64 KiB")]
    Chunk(usize),
}

/// Control messages never exceed this, in bytes; chunks are far below.
pub const MESSAGE_CAP: usize = 16 << 20;

const MAX_CLIENTS: usize = 4096;
const CHUNK_HEADER: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(bytes: &[u8]) -> EntryBytes {
        BoundedVec::new(bytes.to_vec()).unwrap()
    }

    #[test]
    fn every_message_round_trips() {
        let sealed = SealedBox {
            receiver: ClientId(3),
            sealed: BoundedVec::new(vec![1, 2]).unwrap(),
        };
        for message in [
            ToServer::Hello(Hello {
                head: Head::empty(),
                at: Some(Standing {
                    round: RoundId(7),
                    attempt: Attempt(1),
                    waits: Waits::Sums,
                }),
            }),
            ToServer::Complaint(entry(b"c")),
            ToServer::Keys(entry(b"k")),
            ToServer::Shares(Dealing {
                entry: entry(b"s"),
                boxes: BoundedVec::new(vec![sealed]).unwrap(),
            }),
            ToServer::Masked(entry(b"m")),
            ToServer::Chunk(Chunk {
                round: RoundId(7),
                attempt: Attempt(1),
                cluster: ClusterId(2),
                index: 70_000,
                bytes: vec![9; 100],
            }),
            ToServer::Agree(entry(b"a")),
            ToServer::Reveal(entry(b"r")),
            ToServer::Refuse(Refused::named(RoundId(7), Attempt(1), "PlanLeaks")),
            ToServer::NotDescribed(NotDescribed::named(3, &"TooFewImages".repeat(6))),
            ToServer::Described(Described {
                entry: entry(b"d"),
                descriptor: BoundedVec::new(vec![1; 100]).unwrap(),
            }),
        ] {
            let (kind, _, body) = message.encode().unwrap();
            assert_eq!(ToServer::decode(kind, &body).unwrap(), message);
            assert!(
                ToClient::decode(kind, &body).is_err(),
                "kinds of the two directions never meet"
            );
        }
        for message in [
            ToClient::Plan(PlanMessage {
                entry: entry(b"p"),
                consistency: BoundedVec::default(),
            }),
            ToClient::Describe(Describe { clustering: 3 }),
            ToClient::Roster(Roster {
                keys: BoundedVec::new(vec![entry(b"k")]).unwrap(),
            }),
            ToClient::Inbox(Inbox {
                shares: BoundedVec::default(),
                boxes: BoundedVec::new(vec![DealtBox {
                    dealer: ClientId(3),
                    sealed: BoundedVec::new(vec![1, 2]).unwrap(),
                    proof: BoundedVec::default(),
                }])
                .unwrap(),
            }),
            ToClient::Continue(Continue {
                round: RoundId(7),
                attempt: Attempt(1),
                received: BoundedVec::new(vec![Received {
                    cluster: ClusterId(2),
                    chunks: 9,
                }])
                .unwrap(),
            }),
            ToClient::Agreement(Agreement {
                agrees: BoundedVec::default(),
            }),
            ToClient::Published(entry(b"s")),
            ToClient::Aborted(entry(b"a")),
            ToClient::Refused(Refused::named(RoundId(7), Attempt(1), "Late")),
        ] {
            let (kind, _, body) = message.encode().unwrap();
            assert_eq!(ToClient::decode(kind, &body).unwrap(), message);
        }
    }

    #[test]
    fn a_reason_from_a_peer_is_safe_to_print() {
        assert_eq!(
            Refused::named(RoundId(7), Attempt(1), "Late\u{1b}[2J\n").name(),
            "Late2J"
        );
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(kind: u8, body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ToServer::decode(kind, &body);
            let _ = ToClient::decode(kind, &body);
        }
    }
}
