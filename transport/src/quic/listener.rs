//! The server's side: accepts, checks, and never lets one peer hold up another.

use super::half::LaneStreams;
use super::wire::{self, Wire};
use super::{HELLO, QuicLink, broken_config, require_runtime, transport_config};
use crate::error::{CloseCode, TransportError};
use crate::frame::Lane;
use crate::limits::Limits;
use crate::link::{Listener, PeerId};
use crate::tls::{self, TlsIdentity, TrustRoots, Verdict};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, ServerConfig};
use rustls_pki_types::CertificateDer;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

/// Accepts clients of one consortium over QUIC.
pub struct QuicListener {
    endpoint: Endpoint,
    local: SocketAddr,
    links: mpsc::Receiver<QuicLink>,
    door: Arc<Door>,
    accepting: JoinHandle<()>,
}

impl QuicListener {
    /// Opens the UDP socket and begins to accept. Port 0 lets the system choose; see [`local_addr`](Self::local_addr).
    ///
    /// # Errors
    /// [`TransportError::Io`] if the socket cannot be opened or there is no tokio runtime; [`TransportError::BadIdentity`] or
    /// [`TransportError::BadSetting`] if the arguments do not make a configuration.
    pub fn bind(
        addr: SocketAddr,
        identity: TlsIdentity,
        roots: TrustRoots,
        limits: Limits,
    ) -> Result<Self, TransportError> {
        require_runtime()?;
        let first = tls::server_config(&identity, &roots, Verdict::default())?;
        let mut config = ServerConfig::with_crypto(Arc::new(
            QuicServerConfig::try_from(first).map_err(broken_config)?,
        ));
        config
            .transport_config(transport_config(&limits)?)
            .migration(true)
            .max_incoming(limits.max_connections)
            .incoming_buffer_size(MAX_INITIAL_BYTES);
        let doing = "opening the server's UDP socket";
        let endpoint =
            Endpoint::server(config.clone(), addr).map_err(|error| TransportError::io(doing, &error))?;
        let local = endpoint
            .local_addr()
            .map_err(|error| TransportError::io(doing, &error))?;
        let (ready, links) = mpsc::channel(ACCEPT_QUEUE);
        let door = Arc::new(Door {
            identity,
            roots,
            config,
            places: Arc::new(Semaphore::new(limits.max_connections.min(Semaphore::MAX_PERMITS))),
            handshakes: Arc::new(()),
            present: Mutex::default(),
            refused: Mutex::default(),
            limits,
        });
        let accepting = tokio::spawn(accept_all(endpoint.clone(), Arc::clone(&door), ready));
        Ok(Self {
            endpoint,
            local,
            links,
            door,
            accepting,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The last refused connections, oldest first, at most 64. For `doctor`, reports and tests; each was also logged.
    #[must_use]
    pub fn refused(&self) -> Vec<Refused> {
        self.door
            .refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    /// Closes every link with [`CloseCode::Shutdown`], and returns once the peers have been told.
    pub async fn close(self) {
        self.endpoint.close(CloseCode::Shutdown.to_wire().into(), b"");
        self.endpoint.wait_idle().await;
    }
}

impl Listener for QuicListener {
    type Link = QuicLink;

    async fn accept(&mut self) -> Result<QuicLink, TransportError> {
        self.links.recv().await.ok_or(TransportError::ListenerClosed)
    }
}

impl Drop for QuicListener {
    /// Stops accepting. Links that were handed out live on.
    fn drop(&mut self) {
        self.accepting.abort();
        self.endpoint.set_server_config(None);
    }
}

/// A connection that did not become a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Where it came from.
    pub addr: SocketAddr,
    /// Why it was refused, or failed.
    pub error: TransportError,
}

/// What every handshake needs.
struct Door {
    identity: TlsIdentity,
    roots: TrustRoots,
    config: ServerConfig,
    limits: Limits,
    places: Arc<Semaphore>,
    /// Its reference count is the number of handshakes under way.
    handshakes: Arc<()>,
    /// The newest link of every key.
    present: Mutex<BTreeMap<PeerId, Weak<Wire>>>,
    refused: Mutex<VecDeque<Refused>>,
}

impl Door {
    /// One peer's way in, from its first packet to an open link.
    async fn admit(
        &self,
        incoming: Incoming,
        place: OwnedSemaphorePermit,
        ready: &mpsc::Sender<QuicLink>,
    ) -> Result<(), TransportError> {
        let addr = incoming.remote_address().to_string();
        // A verifier of its own for each connection: that is how the name of a refusal finds its way here.
        let verdict = Verdict::default();
        let crypto = tls::server_config(&self.identity, &self.roots, verdict.clone())?;
        let mut config = self.config.clone();
        config.crypto = Arc::new(QuicServerConfig::try_from(crypto).map_err(broken_config)?);
        let explain = |error: quinn::ConnectionError| {
            verdict
                .take()
                .or_else(|| wire::refusal(&error))
                .unwrap_or_else(|| TransportError::Protocol {
                    addr: addr.clone(),
                    what: crate::error::clean(error.to_string().as_bytes()),
                })
        };
        let connection = incoming
            .accept_with(Arc::new(config))
            .map_err(explain)?
            .await
            .map_err(explain)?;
        let peer = peer_of(&connection)?;
        let wire = Arc::new(Wire::new(connection, peer, Some(place)));
        let streams = accept_lanes(&wire).await?;
        let Ok(turn) = ready.reserve().await else {
            return Err(wire.fail(TransportError::Closed {
                code: CloseCode::Shutdown,
                reason: String::new(),
                peer,
            }));
        };
        self.supersede(peer, &wire);
        let [mut control, bulk] = streams;
        control
            .0
            .write_all(&[HELLO])
            .await
            .map_err(|_| wire.gone("it left during the handshake"))?;
        tracing::debug!(%peer, %addr, "link open");
        turn.send(QuicLink::new(&wire, [control, bulk], &self.limits)?);
        Ok(())
    }

    /// One link per key: the newest proved that it holds the key now.
    fn supersede(&self, peer: PeerId, wire: &Arc<Wire>) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if present.len() >= self.limits.max_connections {
            present.retain(|_, link| link.strong_count() > 0);
        }
        let older = present
            .insert(peer, Arc::downgrade(wire))
            .and_then(|link| link.upgrade());
        if let Some(older) = older {
            tracing::info!(%peer, "the same key connected again; its older link is closed");
            older.fail(TransportError::Closed {
                code: CloseCode::Superseded,
                reason: String::new(),
                peer,
            });
        }
    }

    fn refuse(&self, addr: SocketAddr, error: TransportError) {
        tracing::warn!(%addr, %error, "connection refused");
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= REFUSED_KEPT {
            refused.pop_front();
        }
        refused.push_back(Refused { addr, error });
    }
}

/// Runs until the endpoint closes or the listener is dropped.
async fn accept_all(endpoint: Endpoint, door: Arc<Door>, ready: mpsc::Sender<QuicLink>) {
    while let Some(incoming) = endpoint.accept().await {
        let addr = incoming.remote_address();
        let crowded = Arc::strong_count(&door.handshakes) > door.limits.max_unproven_handshakes;
        if crowded && incoming.may_retry() {
            // Costs us nothing to forget: only whoever really has this address can come back with the token.
            let _ = incoming.retry();
            continue;
        }
        let Ok(place) = Arc::clone(&door.places).try_acquire_owned() else {
            incoming.refuse();
            door.refuse(
                addr,
                TransportError::Busy {
                    addr: "this server".into(),
                },
            );
            continue;
        };
        let (door, ready, counted) = (Arc::clone(&door), ready.clone(), Arc::clone(&door.handshakes));
        tokio::spawn(async move {
            let admitted =
                tokio::time::timeout(door.limits.handshake_timeout, door.admit(incoming, place, &ready));
            let timeout = |_| {
                Err(TransportError::HandshakeTimeout {
                    addr: addr.to_string(),
                })
            };
            if let Err(error) = admitted.await.unwrap_or_else(timeout) {
                door.refuse(addr, error);
            }
            drop(counted);
        });
    }
}

/// The client opens one stream per lane and tags it.
async fn accept_lanes(wire: &Wire) -> Result<[LaneStreams; 2], TransportError> {
    let left = || wire.gone("it left during the handshake");
    let malformed = || {
        wire.fail(TransportError::Malformed {
            what: "lanes opened in a wrong way",
            peer: wire.peer(),
        })
    };
    let mut control = None;
    let mut bulk = None;
    for _ in Lane::BOTH {
        let (send, mut recv) = wire
            .connection()
            .accept_bi()
            .await
            .map_err(|error| wire.lost(&error))?;
        let mut tag = [0];
        recv.read_exact(&mut tag).await.map_err(|_| left())?;
        let [tag] = tag;
        let slot = match Lane::from_tag(tag) {
            Some(Lane::Control) => &mut control,
            Some(Lane::Bulk) => &mut bulk,
            None => return Err(malformed()),
        };
        if slot.replace((send, recv)).is_some() {
            return Err(malformed());
        }
    }
    control
        .zip(bulk)
        .map(|(control, bulk)| [control, bulk])
        .ok_or_else(malformed)
}

/// The peer's key, from the certificate that the handshake has verified.
pub(super) fn peer_of(connection: &quinn::Connection) -> Result<PeerId, TransportError> {
    let chain = connection
        .peer_identity()
        .and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    let leaf = chain.as_ref().and_then(|chain| chain.first());
    leaf.map_or_else(
        || Err(broken_config("the handshake left no certificate")),
        tls::peer_of,
    )
}

/// Links that wait for `accept`; further handshakes wait, and count against `max_connections`.
const ACCEPT_QUEUE: usize = 64;

/// How many refusals are remembered.
const REFUSED_KEPT: usize = 64;

/// Bytes kept of a client that sends more before it is accepted. A handshake with a certificate chain is well below it.
const MAX_INITIAL_BYTES: u64 = 64 * 1024;
