//! Frames between two machines, and nothing about what is in them.
//!
//! This crate moves [`Frame`]s: a lane, a kind byte, and opaque bytes. It knows addresses, certificates, back-pressure and lost
//! peers; it does not know rounds, masks or statements. Two networks stand behind the same four traits:
//!
//! | network | server | client | for |
//! | --- | --- | --- | --- |
//! | QUIC with mutual TLS 1.3 | [`QuicListener`] | [`QuicConnector`] | the real thing |
//! | simulated, seeded | [`SimListener`] | [`SimConnector`] | simulation and tests, on tokio's paused clock |
//!
//! Reading order: [`frame`] (what travels), [`link`] (the traits a driver sees), [`limits`], [`error`](TransportError) (whose
//! fault, what next), then [`quic`] with [`tls`] and [`pki`], and [`sim`].
//!
//! ```text
//!   driver ── FrameSender ──> [control lane] ──> FrameReceiver ── driver
//!                        └──> [ bulk  lane ] ──┘
//! ```
//!
//! Order holds inside a lane, never between lanes: a short control frame may overtake a long upload.
//!
//! What this crate promises to a driver:
//! - a frame arrives whole, once, and in order within its lane, or not at all;
//! - a length the peer claims allocates nothing before bytes arrive, and a frame above the cap is refused by name on both sides;
//! - `recv` returns `Ok(None)` only if the peer called [`FrameSender::finish`]; a peer that vanished is [`TransportError::PeerGone`];
//! - a peer that is refused, slow or hostile never stops the listener, and never touches another peer's link.

mod alert;
mod error;
pub mod frame;
pub mod limits;
pub mod link;
pub mod meter;
pub mod pki;
pub mod quic;
pub mod sim;
pub mod tls;

pub use error::{Blame, CloseCode, Side, TransportError};
pub use frame::{Frame, FrameDecoder, FrameError, Lane};
pub use limits::Limits;
pub use link::{Connector, FrameReceiver, FrameSender, Link, Listener, PeerId};
pub use meter::{LinkStats, Meter};
pub use pki::{CertificateFacts, ConsortiumCa, IssueKind, Issued, KeyRequest, PkiError};
pub use quic::{QuicConnector, QuicLink, QuicListener, QuicReceiver, QuicSender, Refused};
pub use sim::{
    Delivery, Fault, SimConfig, SimConnector, SimLink, SimListener, SimNet, SimReceiver, SimSender,
};
pub use tls::{RevocationList, TlsIdentity, TrustRoots};
