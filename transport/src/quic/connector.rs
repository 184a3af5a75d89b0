//! The client's side.

use super::half::LaneStreams;
use super::listener::peer_of;
use super::wire::{self, Wire};
use super::{HELLO, QuicLink, broken_config, require_runtime, transport_config};
use crate::error::{TransportError, clean};
use crate::frame::Lane;
use crate::limits::Limits;
use crate::link::{Connector, PeerId};
use crate::tls::{self, TlsIdentity, TrustRoots, Verdict};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectError, ConnectionError, Endpoint, ReadError, ReadExactError};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Connects to one server over QUIC, as often as needed.
pub struct QuicConnector {
    endpoint: Endpoint,
    addr: SocketAddr,
    server_name: String,
    identity: TlsIdentity,
    roots: TrustRoots,
    pinned: Option<PeerId>,
    transport: Arc<quinn::TransportConfig>,
    limits: Limits,
}

impl QuicConnector {
    /// Opens a UDP socket; nothing is sent before [`connect`](Connector::connect).
    ///
    /// `server_name` must be one of the names (or addresses) in the server's certificate. With `pinned`, the server must also hold
    /// exactly this key: then not even the consortium's authority can put another server in its place.
    ///
    /// # Errors
    /// [`TransportError::Io`] if no socket can be opened or there is no tokio runtime; [`TransportError::BadSetting`].
    pub fn new(
        addr: SocketAddr,
        server_name: impl Into<String>,
        identity: TlsIdentity,
        roots: TrustRoots,
        pinned: Option<PeerId>,
        limits: Limits,
    ) -> Result<Self, TransportError> {
        require_runtime()?;
        let transport = transport_config(&limits)?;
        let any: SocketAddr = match addr {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let endpoint = Endpoint::client(any)
            .map_err(|error| TransportError::io("opening the client's UDP socket", &error))?;
        Ok(Self {
            endpoint,
            addr,
            server_name: server_name.into(),
            identity,
            roots,
            pinned,
            transport,
            limits,
        })
    }

    /// Waits until every link made here has told its peer how it ended. Call before the program exits.
    pub async fn wait_closed(&self) {
        self.endpoint.wait_idle().await;
    }

    async fn handshake(&self, answered: &mut bool) -> Result<QuicLink, TransportError> {
        let verdict = Verdict::default();
        let crypto = tls::client_config(&self.identity, &self.roots, self.pinned, verdict.clone())?;
        let mut config = ClientConfig::new(Arc::new(
            QuicClientConfig::try_from(crypto).map_err(broken_config)?,
        ));
        config.transport_config(Arc::clone(&self.transport));
        let mut connecting = self
            .endpoint
            .connect_with(config, self.addr, &self.server_name)
            .map_err(|error| self.explain_setting(error))?;
        let refused = |error: ConnectionError| verdict.take().unwrap_or_else(|| self.explain(error, None));
        connecting.handshake_data().await.map_err(&refused)?;
        *answered = true;
        let connection = connecting.await.map_err(&refused)?;
        let peer = peer_of(&connection)?;
        let wire = Arc::new(Wire::new(connection, peer, None));
        let streams = self
            .open_lanes(&wire)
            .await
            .map_err(|error| self.explain(error, Some(&wire)))?;
        QuicLink::new(&wire, streams, &self.limits)
    }

    /// Opens both lanes and waits for the server's hello: only then are we accepted.
    async fn open_lanes(&self, wire: &Wire) -> Result<[LaneStreams; 2], ConnectionError> {
        let mut control = wire.connection().open_bi().await?;
        let mut bulk = wire.connection().open_bi().await?;
        for (lane, stream) in [(Lane::Control, &mut control), (Lane::Bulk, &mut bulk)] {
            match stream.0.write_all(&[lane.tag()]).await {
                Err(quinn::WriteError::ConnectionLost(error)) => return Err(error),
                Err(_) => return Err(self.stray(wire)),
                Ok(()) => {}
            }
        }
        let mut hello = [0];
        match control.1.read_exact(&mut hello).await {
            Ok(()) if hello == [HELLO] => Ok([control, bulk]),
            Err(ReadExactError::ReadError(ReadError::ConnectionLost(error))) => Err(error),
            _ => Err(self.stray(wire)),
        }
    }

    /// The server did something no server of this protocol does.
    #[expect(clippy::unused_self, reason = "reads as one of the connector's verdicts")]
    fn stray(&self, wire: &Wire) -> ConnectionError {
        wire.fail(TransportError::Malformed {
            what: "no hello from the server",
            peer: wire.peer(),
        });
        ConnectionError::LocallyClosed
    }

    fn explain(&self, error: ConnectionError, wire: Option<&Arc<Wire>>) -> TransportError {
        let addr = self.addr.to_string();
        if wire::is_busy(&error) {
            return TransportError::Busy { addr };
        }
        match (error, wire) {
            // Without an answer, quinn's idle timeout may come before ours.
            (ConnectionError::TimedOut, None) => TransportError::Unreachable { addr },
            (ConnectionError::TimedOut, Some(_)) => TransportError::HandshakeTimeout { addr },
            (error, Some(wire)) => wire.lost(&error),
            (error, None) => wire::refusal(&error).unwrap_or_else(|| TransportError::Protocol {
                addr,
                what: clean(error.to_string().as_bytes()),
            }),
        }
    }

    fn explain_setting(&self, error: ConnectError) -> TransportError {
        match error {
            ConnectError::InvalidServerName(name) => TransportError::BadSetting {
                setting: "server_name",
                value: clean(name.as_bytes()),
            },
            ConnectError::InvalidRemoteAddress(addr) => TransportError::BadSetting {
                setting: "server address",
                value: addr.to_string(),
            },
            other => TransportError::Io {
                doing: "connecting",
                kind: std::io::ErrorKind::Other,
                detail: format!("{other} ({})", self.addr),
            },
        }
    }
}

impl Connector for QuicConnector {
    type Link = QuicLink;

    async fn connect(&self) -> Result<QuicLink, TransportError> {
        let mut answered = false;
        let done = tokio::time::timeout(self.limits.handshake_timeout, self.handshake(&mut answered)).await;
        let addr = self.addr.to_string();
        match done {
            Ok(Err(TransportError::Unreachable { .. })) | Err(_) if answered => {
                Err(TransportError::HandshakeTimeout { addr })
            }
            Ok(result) => result,
            Err(_) => Err(TransportError::Unreachable { addr }),
        }
    }
}
