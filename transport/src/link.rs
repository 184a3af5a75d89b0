//! The traits a driver sees. QUIC and the simulator stand behind them, and the same driver runs over both.

use crate::error::TransportError;
use crate::frame::Frame;
use crate::meter::Meter;
use sha2::{Digest, Sha256};
use std::fmt;
use std::future::Future;
use std::str::FromStr;

/// Who is at the other end: SHA-256 of the DER `SubjectPublicKeyInfo` in the peer's certificate.
///
/// It names the key, not the certificate: a renewed certificate over the same key is the same peer, and a revocation by `PeerId`
/// outlives every certificate made for that key. Same value as RFC 7469's pin before base64, and as
/// `openssl pkey -pubin -outform der | sha256sum`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub [u8; 32]);

impl PeerId {
    /// The id of a DER-encoded `SubjectPublicKeyInfo`.
    #[must_use]
    pub fn of_spki(spki_der: &[u8]) -> Self {
        Self(Sha256::digest(spki_der).into())
    }

    /// All 64 hexadecimal digits, for files and for pinning. [`Display`](fmt::Display) prints the first 12 only.
    #[must_use]
    pub fn to_hex(&self) -> String {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
        self.0
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
            .collect()
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .take(SHORT_BYTES)
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerId({self})")
    }
}

impl FromStr for PeerId {
    type Err = PeerIdError;

    /// Reads the form of [`PeerId::to_hex`]: 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, PeerIdError> {
        let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
        let digits = digits.ok_or(PeerIdError)?;
        let bytes: Vec<u8> = digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0u32, |byte, digit| byte << 4 | digit))
            .filter_map(|byte| u8::try_from(byte).ok())
            .collect();
        if digits.len() != 64 {
            return Err(PeerIdError);
        }
        Ok(Self(bytes.try_into().map_err(|_| PeerIdError)?))
    }
}

/// A peer id that is not 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a peer id is 64 hexadecimal digits: the SHA-256 of the peer's public key, as `keygen` prints it")]
pub struct PeerIdError;

/// One open, authenticated connection to one peer.
pub trait Link: Send + 'static {
    /// The half that sends.
    type Sender: FrameSender;
    /// The half that receives.
    type Receiver: FrameReceiver;

    /// Who is at the other end, proven by the handshake.
    fn peer(&self) -> PeerId;

    /// A value that both ends of this link compute and nobody else can: signed into a statement or an attestation, it ties that to
    /// this very connection. RFC 9266 `tls-exporter` over QUIC; over the simulator, a hash of seed and link.
    fn channel_binding(&self) -> [u8; 32];

    /// This link's counters; keep a clone to read them after [`split`](Self::split).
    fn meter(&self) -> Meter;

    /// Both halves. The link lives until both are dropped.
    fn split(self) -> (Self::Sender, Self::Receiver);
}

/// The half of a link that sends.
///
/// Dropped without [`finish`](Self::finish), it tells the peer that we are gone: what was not delivered yet may be lost.
pub trait FrameSender: Send + 'static {
    /// Sends one frame; waits while the peer is slow to read.
    ///
    /// Success means the frame is on its way, not that it arrived. Dropping the future sends the frame whole or not at all;
    /// a later `send` or `finish` completes what was begun.
    ///
    /// # Errors
    /// [`FrameTooLarge`](TransportError::FrameTooLarge) for a body above the lane's cap, the link stays usable;
    /// [`SendAfterFinish`](TransportError::SendAfterFinish); [`PeerGone`](TransportError::PeerGone) and
    /// [`Closed`](TransportError::Closed) when the link is no more.
    fn send(&mut self, frame: Frame) -> impl Future<Output = Result<(), TransportError>> + Send;

    /// Closes this direction in order: the peer receives everything sent, then the end. Returns when its machine has it all.
    ///
    /// The other direction stays open. Calling it twice is harmless.
    ///
    /// # Errors
    /// [`PeerGone`](TransportError::PeerGone) or [`Closed`](TransportError::Closed) if the link broke before everything arrived.
    fn finish(&mut self) -> impl Future<Output = Result<(), TransportError>> + Send;
}

/// The half of a link that receives.
pub trait FrameReceiver: Send + 'static {
    /// The next frame of either lane, or `None` once the peer has closed in order and everything was taken.
    ///
    /// When both lanes have frames they take turns, so a flood on one does not starve the other. Safe to drop at any time: no frame
    /// is lost, and the call may stand in a `tokio::select!`.
    ///
    /// # Errors
    /// [`FrameTooLarge`](TransportError::FrameTooLarge), [`Truncated`](TransportError::Truncated) and
    /// [`Malformed`](TransportError::Malformed) when the peer breaks the format (the link is closed),
    /// [`PeerGone`](TransportError::PeerGone) and [`Closed`](TransportError::Closed). Further calls return the same error.
    fn recv(&mut self) -> impl Future<Output = Result<Option<Frame>, TransportError>> + Send;
}

/// The side that waits for peers.
pub trait Listener: Send + 'static {
    /// What a peer becomes.
    type Link: Link;

    /// The next peer whose handshake has succeeded. Handshakes run side by side, so a slow one holds nobody up; a bad one is logged
    /// and forgotten. Safe to drop at any time.
    ///
    /// # Errors
    /// Only when the listener itself is finished: [`ListenerClosed`](TransportError::ListenerClosed).
    fn accept(&mut self) -> impl Future<Output = Result<Self::Link, TransportError>> + Send;
}

/// The side that goes to a peer. May be used again after a link was lost.
pub trait Connector: Send + Sync + 'static {
    /// What the peer becomes.
    type Link: Link;

    /// Connects, and returns once the peer has accepted us: a refusal of our certificate surfaces here, by name.
    ///
    /// # Errors
    /// Any [`TransportError`]; [`TransportError::retry`] says whether trying again makes sense.
    fn connect(&self) -> impl Future<Output = Result<Self::Link, TransportError>> + Send;
}

/// Bytes of a peer id shown to people: 48 bits, plenty to tell a consortium's members apart, useless for pinning.
const SHORT_BYTES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "abc", FIPS 180-4 example.
    #[test]
    fn an_id_is_a_plain_sha256() {
        let id = PeerId::of_spki(b"abc");
        assert_eq!(
            id.to_hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(id.to_string(), "ba7816bf8f01");
        assert_eq!(id.to_hex().parse(), Ok(id));
    }

    #[test]
    fn a_wrong_id_is_refused() {
        for text in [
            "",
            "ab",
            &"g".repeat(64),
            &"a".repeat(63),
            &"a".repeat(65),
            &"é".repeat(32),
        ] {
            assert_eq!(text.parse::<PeerId>(), Err(PeerIdError), "{text}");
        }
    }
}
