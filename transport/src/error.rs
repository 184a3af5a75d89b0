//! Everything that can go wrong on the way, with whose fault it is and what to do next.

use crate::frame::{FrameError, Lane};
use crate::link::PeerId;
use std::fmt;
use std::io;

/// Why a link could not be made, broke, or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The certificate chain does not lead to the consortium's authority.
    #[error("{refused_by} refused the certificate: it is of another authority. {}", .refused_by.advice("use a certificate issued by this consortium's authority, or check that `trust` names the right one"))]
    UnknownAuthority {
        /// Who refused.
        refused_by: Side,
    },
    /// The certificate is past its end, or before its beginning.
    #[error("{refused_by} refused the certificate: it is expired or not yet valid. {}", .refused_by.advice("check both clocks, then have the certificate renewed"))]
    CertificateExpired {
        /// Who refused.
        refused_by: Side,
    },
    /// The key of the certificate is on the refuser's revocation list.
    #[error("{refused_by} refused the certificate: its key is revoked. {}", .refused_by.advice("enrol again with a new key"))]
    CertificateRevoked {
        /// Who refused.
        refused_by: Side,
    },
    /// A client connected without a certificate.
    #[error("{refused_by} refused the client: it showed no certificate. {}", .refused_by.advice("give the client the certificate and key it got at enrolment"))]
    NoClientCertificate {
        /// Who refused.
        refused_by: Side,
    },
    /// The server's certificate is not for the name that was asked for.
    #[error(
        "the server's certificate is not for `{asked}`: connect by a name in the certificate, or have one issued for that name"
    )]
    WrongServerName {
        /// The name the client asked for.
        asked: String,
    },
    /// The server's certificate is good, but its key is not the pinned one.
    #[error(
        "the server's key is {got}, not the pinned {pinned}: somebody else answers at this address, or the server changed its key; compare with the operator before changing the pin"
    )]
    WrongServerKey {
        /// The key the configuration pins.
        pinned: PeerId,
        /// The key the server showed.
        got: PeerId,
    },
    /// The certificate was refused for another reason.
    #[error("{refused_by} refused the certificate: {why}. {}", .refused_by.advice("have a new certificate issued"))]
    CertificateRefused {
        /// Who refused.
        refused_by: Side,
        /// The reason, in the TLS library's words or the alert's name.
        why: String,
    },
    /// The other end speaks QUIC and TLS, but not this protocol or not this version of it.
    #[error(
        "the peer does not speak {}: one of the two runs another version, or another service answers at this address",
        crate::quic::ALPN_NAME
    )]
    AlpnMismatch,
    /// A frame above the cap of its lane.
    #[error(
        "a frame of {got} bytes on the {lane} lane is above its cap of {max} (peer {peer}): send smaller chunks, or raise the cap on both sides"
    )]
    FrameTooLarge {
        /// The lane.
        lane: Lane,
        /// Body length in bytes: the one we were asked to send, or the one the peer claims.
        got: u64,
        /// The cap in bytes.
        max: u32,
        /// The other end of the link.
        peer: PeerId,
    },
    /// A lane ended inside a frame: the peer closed in order, but not after a whole frame.
    #[error(
        "peer {peer} ended the {lane} lane inside a frame, at least {missing} bytes short: its program is broken; nothing of the frame was used"
    )]
    Truncated {
        /// The lane.
        lane: Lane,
        /// Bytes still owed.
        missing: u64,
        /// The other end of the link.
        peer: PeerId,
    },
    /// Bytes that are no frame, or lanes opened in a wrong way.
    #[error("peer {peer} sent bytes that are not this protocol: {what}")]
    Malformed {
        /// What was wrong.
        what: &'static str,
        /// The other end of the link.
        peer: PeerId,
    },
    /// The peer vanished: killed, cut off, or its program dropped the link without closing.
    #[error("peer {peer} is gone: {how}; connect again to go on")]
    PeerGone {
        /// The other end of the link.
        peer: PeerId,
        /// How it was noticed.
        how: &'static str,
    },
    /// The link was closed for a reason that was said.
    #[error("the link with peer {peer} was closed: {code}{}", quoted(.reason))]
    Closed {
        /// The reason as a code.
        code: CloseCode,
        /// The closer's words, cleaned of control characters; empty if it said none.
        reason: String,
        /// The other end of the link.
        peer: PeerId,
    },
    /// Our own program sent a frame after `finish`.
    #[error("a frame was sent after `finish` on the link with peer {peer}: a fault in this program")]
    SendAfterFinish {
        /// The other end of the link.
        peer: PeerId,
    },
    /// Nobody answers at the address.
    #[error("nobody answers at {addr}: check the address, that the server runs, and that UDP passes")]
    Unreachable {
        /// Where we tried.
        addr: String,
    },
    /// Somebody answers, but the handshake did not end in time.
    #[error(
        "{addr} answers, but the handshake was not done in time: the server is overloaded or the network very slow; try again"
    )]
    HandshakeTimeout {
        /// The other end.
        addr: String,
    },
    /// The server has as many connections as it allows.
    #[error(
        "{addr} has no room for another connection: try again later, or raise the server's `max_connections`"
    )]
    Busy {
        /// The other end.
        addr: String,
    },
    /// The QUIC handshake or the packets were wrong in a way no honest peer produces.
    #[error("the connection with {addr} broke: {what}")]
    Protocol {
        /// The other end.
        addr: String,
        /// What the QUIC library says.
        what: String,
    },
    /// The operating system refused.
    #[error("{doing} failed: {detail}")]
    Io {
        /// What we were doing.
        doing: &'static str,
        /// The kind of refusal.
        kind: io::ErrorKind,
        /// The system's words.
        detail: String,
    },
    /// Certificate, key or authority files that cannot be used.
    #[error("{what}: {detail}")]
    BadIdentity {
        /// Which file, and what is wrong with it.
        what: &'static str,
        /// More, never key material.
        detail: String,
    },
    /// A setting that cannot work.
    #[error("the setting `{setting}` cannot be {value}")]
    BadSetting {
        /// The field of [`Limits`](crate::Limits) or the argument.
        setting: &'static str,
        /// Its value.
        value: String,
    },
    /// The listener was closed, or the simulated network is gone.
    #[error("the listener is closed")]
    ListenerClosed,
}

impl TransportError {
    /// Whose fault it is.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::UnknownAuthority { refused_by }
            | Self::CertificateExpired { refused_by }
            | Self::CertificateRevoked { refused_by }
            | Self::NoClientCertificate { refused_by }
            | Self::CertificateRefused { refused_by, .. } => match refused_by {
                Side::We => Blame::Peer,
                Side::Peer => Blame::Us,
            },
            Self::WrongServerKey { .. }
            | Self::WrongServerName { .. }
            | Self::Truncated { .. }
            | Self::Malformed { .. }
            | Self::Protocol { .. }
            | Self::AlpnMismatch => Blame::Peer,
            Self::FrameTooLarge { .. } => Blame::Sender,
            Self::SendAfterFinish { .. }
            | Self::Io { .. }
            | Self::BadIdentity { .. }
            | Self::BadSetting { .. }
            | Self::ListenerClosed => Blame::Us,
            Self::Closed { code, .. } => match code {
                CloseCode::FrameTooLarge | CloseCode::Malformed | CloseCode::Superseded => Blame::Us,
                _ => Blame::Peer,
            },
            Self::PeerGone { .. }
            | Self::Unreachable { .. }
            | Self::HandshakeTimeout { .. }
            | Self::Busy { .. } => Blame::Network,
        }
    }

    /// Whether connecting again, unchanged, may help.
    #[must_use]
    pub fn retry(&self) -> bool {
        match self {
            Self::PeerGone { .. }
            | Self::Unreachable { .. }
            | Self::HandshakeTimeout { .. }
            | Self::Busy { .. }
            | Self::Protocol { .. } => true,
            Self::Closed { code, .. } => matches!(code, CloseCode::Dropped | CloseCode::Shutdown),
            _ => false,
        }
    }

    pub(crate) fn from_frame(error: FrameError, peer: PeerId) -> Self {
        match error {
            FrameError::TooLarge { lane, got, max } => Self::FrameTooLarge { lane, got, max, peer },
            FrameError::Truncated { lane, missing } => Self::Truncated { lane, missing, peer },
            FrameError::Empty { .. } => Self::Malformed {
                what: "a frame of length 0",
                peer,
            },
        }
    }

    pub(crate) fn io(doing: &'static str, error: &io::Error) -> Self {
        Self::Io {
            doing,
            kind: error.kind(),
            detail: error.to_string(),
        }
    }

    /// The code that tells the peer why we close.
    pub(crate) fn close_code(&self) -> CloseCode {
        match self {
            Self::FrameTooLarge { .. } => CloseCode::FrameTooLarge,
            Self::Truncated { .. } | Self::Malformed { .. } => CloseCode::Malformed,
            Self::Closed { code, .. } => *code,
            _ => CloseCode::Dropped,
        }
    }
}

/// Which side of a link did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This side.
    We,
    /// The other side.
    Peer,
}

impl Side {
    /// What to do about a refusal: the one whose certificate was refused must act.
    fn advice(self, what: &'static str) -> String {
        match self {
            Self::We => format!("The peer must act: {what}"),
            Self::Peer => format!("Next: {what}"),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::We => "this side",
            Self::Peer => "the peer",
        })
    }
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// This program or its configuration.
    Us,
    /// The other end.
    Peer,
    /// Whoever sent the frame: us if `send` failed, the peer if `recv` did.
    Sender,
    /// Nobody in particular: a cable, a crash, a crowd.
    Network,
}

/// Why a link is closed, as a number on the wire (QUIC application error code).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CloseCode {
    /// 0: everything was received, both directions ended in order.
    Done,
    /// 1: the program let go of the link without closing in order.
    Dropped,
    /// 2: a frame above its lane's cap.
    FrameTooLarge,
    /// 3: bytes that are no frame, or lanes opened in a wrong way.
    Malformed,
    /// 4: the same key connected again; the newer link lives.
    Superseded,
    /// 5: the endpoint shuts down.
    Shutdown,
    /// A code this version does not know.
    Other(u64),
}

impl CloseCode {
    pub(crate) fn to_wire(self) -> u32 {
        match self {
            Self::Done => 0,
            Self::Dropped => 1,
            Self::FrameTooLarge => 2,
            Self::Malformed => 3,
            Self::Superseded => 4,
            Self::Shutdown => 5,
            Self::Other(code) => u32::try_from(code).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn from_wire(code: u64) -> Self {
        match code {
            0 => Self::Done,
            1 => Self::Dropped,
            2 => Self::FrameTooLarge,
            3 => Self::Malformed,
            4 => Self::Superseded,
            5 => Self::Shutdown,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("the peer has everything and is done"),
            Self::Dropped => f.write_str("the peer's program let go of it"),
            Self::FrameTooLarge => f.write_str("a frame was above the cap"),
            Self::Malformed => f.write_str("the bytes were not this protocol"),
            Self::Superseded => f.write_str("the same key connected again, the newer link lives"),
            Self::Shutdown => f.write_str("the endpoint shuts down"),
            Self::Other(code) => write!(f, "code {code}, unknown to this version"),
        }
    }
}

/// A peer's words, fit for a log line: printable ASCII only, and short.
pub(crate) fn clean(reason: &[u8]) -> String {
    let printable = |byte: &u8| {
        if (0x20..0x7f).contains(byte) {
            char::from(*byte)
        } else {
            '?'
        }
    };
    reason.iter().take(MAX_REASON).map(printable).collect()
}

fn quoted(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" (\"{reason}\")")
    }
}

const MAX_REASON: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_wire() {
        for code in 0..10 {
            assert_eq!(u64::from(CloseCode::from_wire(code).to_wire()), code);
        }
    }

    #[test]
    fn a_peers_words_cannot_forge_a_log_line() {
        assert_eq!(clean(b"ok\n\x1b[31mERROR \xff"), "ok??[31mERROR ?");
        assert_eq!(clean(&[b'a'; 1000]).len(), MAX_REASON);
    }

    #[test]
    fn a_refusal_says_who_and_what_next() {
        let ours = TransportError::UnknownAuthority { refused_by: Side::We };
        assert!(
            ours.to_string().starts_with(
                "this side refused the certificate: it is of another authority. The peer must act"
            )
        );
        assert_eq!(ours.blame(), Blame::Peer);
        let theirs = TransportError::UnknownAuthority {
            refused_by: Side::Peer,
        };
        assert!(theirs.to_string().contains("the peer refused"));
        assert!(
            theirs
                .to_string()
                .contains("Next: use a certificate issued by this consortium")
        );
        assert_eq!(theirs.blame(), Blame::Us);
        assert!(!theirs.retry());
    }
}
