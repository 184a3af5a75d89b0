//! Frames over QUIC: quinn, TLS 1.3 with certificates on both sides, ALPN `veilsum/1`.
//!
//! ```text
//!   client                                server
//!     ── handshake, both certificates ──>
//!     ── stream 0: 'c'  (control lane) ──>
//!     ── stream 4: 'b'  (bulk lane)    ──>
//!     <─ stream 0: 0x01 (hello)        ──    `connect` returns only now
//!     <═══════════ frames ════════════>
//!     ── FIN on both lanes ──────────>       `finish`: the peer's `recv` gives `None` after the last frame
//! ```
//!
//! Why a hello: in TLS 1.3 the client is done before the server has looked at its certificate, so a refusal would otherwise surface
//! at some later `recv`. Why lane tags: a QUIC stream shows itself to the other side only when bytes are sent on it.
//!
//! One connection per key: when a key connects again (after a crash, or from another address), the older link is closed as
//! [`CloseCode::Superseded`]. Connection migration is on: a client whose address changes keeps its link.

mod connector;
mod half;
mod listener;
mod wire;

pub use connector::QuicConnector;
pub use half::{QuicReceiver, QuicSender};
pub use listener::{QuicListener, Refused};

use crate::error::TransportError;
use crate::frame::Lane;
use crate::limits::Limits;
use crate::link::{Link, PeerId};
use crate::meter::Meter;
use half::LaneStreams;
use std::sync::Arc;
use wire::Wire;

#[cfg(doc)]
use crate::error::CloseCode;

/// The protocol's name in the TLS handshake.
pub const ALPN_NAME: &str = "veilsum/1";

pub(crate) const ALPN: &[u8] = ALPN_NAME.as_bytes();

/// One open QUIC connection with its two lanes.
pub struct QuicLink {
    sender: QuicSender,
    receiver: QuicReceiver,
    channel_binding: [u8; 32],
}

impl QuicLink {
    fn new(wire: &Arc<Wire>, streams: [LaneStreams; 2], limits: &Limits) -> Result<Self, TransportError> {
        let mut channel_binding = [0; 32];
        wire.connection()
            .export_keying_material(&mut channel_binding, EXPORTER_LABEL, b"")
            .map_err(|_| TransportError::Protocol {
                addr: wire.connection().remote_address().to_string(),
                what: "no channel binding".into(),
            })?;

        let [(control_send, control_recv), (bulk_send, bulk_recv)] = streams;
        Ok(Self {
            channel_binding,
            sender: QuicSender::new(Arc::clone(wire), [control_send, bulk_send], limits),
            receiver: QuicReceiver::new(Arc::clone(wire), [control_recv, bulk_recv], limits),
        })
    }

    /// The peer's address at this moment; it may change when the peer moves.
    #[must_use]
    pub fn remote_addr(&self) -> std::net::SocketAddr {
        self.sender.remote_addr()
    }
}

impl Link for QuicLink {
    type Sender = QuicSender;
    type Receiver = QuicReceiver;

    fn peer(&self) -> PeerId {
        self.sender.wire().peer()
    }

    fn channel_binding(&self) -> [u8; 32] {
        self.channel_binding
    }

    fn meter(&self) -> Meter {
        self.sender.wire().meter().clone()
    }

    fn split(self) -> (QuicSender, QuicReceiver) {
        (self.sender, self.receiver)
    }
}

/// Our limits in quinn's terms.
fn transport_config(limits: &Limits) -> Result<Arc<quinn::TransportConfig>, TransportError> {
    limits.validate()?;
    let idle = limits
        .idle_timeout
        .try_into()
        .map_err(|_| TransportError::BadSetting {
            setting: "idle_timeout",
            value: format!("{:?}", limits.idle_timeout),
        })?;
    let lanes = Lane::BOTH.len() as u64;
    let mut config = quinn::TransportConfig::default();
    config
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(limits.keep_alive))
        .max_concurrent_bidi_streams(limits.max_streams.max(2).into())
        .max_concurrent_uni_streams(0u32.into())
        .stream_receive_window(limits.stream_window.into())
        // Room for every lane's window: a bulk lane nobody reads must not use up the control lane's credit.
        .receive_window(
            quinn::VarInt::from_u64(u64::from(limits.stream_window) * lanes).unwrap_or(quinn::VarInt::MAX),
        )
        .send_window(limits.send_window)
        .datagram_receive_buffer_size(None);
    Ok(Arc::new(config))
}

/// quinn needs tokio's reactor; say so instead of panicking.
fn require_runtime() -> Result<(), TransportError> {
    tokio::runtime::Handle::try_current()
        .map(|_| ())
        .map_err(|error| TransportError::Io {
            doing: "opening a UDP socket outside the tokio runtime",
            kind: std::io::ErrorKind::Unsupported,
            detail: error.to_string(),
        })
}

fn broken_config(error: impl std::fmt::Display) -> TransportError {
    TransportError::BadIdentity {
        what: "TLS",
        detail: error.to_string(),
    }
}

/// RFC 9266 section 4.2.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// What the server sends on the control lane once it has accepted the client.
const HELLO: u8 = 1;
