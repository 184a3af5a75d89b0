//! What both halves of one connection share: the connection, who is there, and how it ended.

use crate::error::{CloseCode, Side, TransportError, clean};
use crate::link::PeerId;
use crate::meter::Meter;
use crate::tls;
use quinn::{Connection, ConnectionError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::OwnedSemaphorePermit;

/// Closes the connection when the last half is dropped.
pub(super) struct Wire {
    connection: Connection,
    peer: PeerId,
    meter: Meter,
    /// Why *we* closed, so that our own halves say the same.
    cause: Mutex<Option<TransportError>>,
    /// Whether the driver has taken everything up to the peer's end.
    read_all: AtomicBool,
    /// The server's place among `max_connections`.
    _place: Option<OwnedSemaphorePermit>,
}

impl Wire {
    pub(super) fn new(connection: Connection, peer: PeerId, place: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            connection,
            peer,
            meter: Meter::default(),
            cause: Mutex::new(None),
            read_all: AtomicBool::new(false),
            _place: place,
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn peer(&self) -> PeerId {
        self.peer
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(super) fn read_everything(&self) {
        self.read_all.store(true, Ordering::Relaxed);
    }

    /// Closes the connection and tells the peer why. The first cause stays.
    pub(super) fn fail(&self, error: TransportError) -> TransportError {
        let mut cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        let error = cause.get_or_insert(error).clone();
        self.connection
            .close(error.close_code().to_wire().into(), reason(&error).as_bytes());
        error
    }

    pub(super) fn gone(&self, how: &'static str) -> TransportError {
        TransportError::PeerGone { peer: self.peer, how }
    }

    /// Why an open connection ended.
    pub(super) fn lost(&self, error: &ConnectionError) -> TransportError {
        match error {
            ConnectionError::LocallyClosed => {
                let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
                cause
                    .clone()
                    .unwrap_or_else(|| self.closed(CloseCode::Shutdown, ""))
            }
            ConnectionError::TimedOut => self.gone("nothing arrived from it for the idle timeout"),
            ConnectionError::Reset => self.gone("it restarted and knows nothing of this link"),
            ConnectionError::ApplicationClosed(close) => {
                match CloseCode::from_wire(close.error_code.into_inner()) {
                    CloseCode::Done | CloseCode::Dropped => self.gone("its program let go of the link"),
                    code => self.closed(code, &clean(&close.reason)),
                }
            }
            other => refusal(other).unwrap_or_else(|| TransportError::Protocol {
                addr: self.connection.remote_address().to_string(),
                what: clean(other.to_string().as_bytes()),
            }),
        }
    }

    fn closed(&self, code: CloseCode, reason: &str) -> TransportError {
        TransportError::Closed {
            code,
            reason: reason.into(),
            peer: self.peer,
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let code = if self.read_all.load(Ordering::Relaxed) {
            CloseCode::Done
        } else {
            CloseCode::Dropped
        };
        self.connection.close(code.to_wire().into(), b"");
    }
}

/// The name of a refused certificate or protocol inside a QUIC error.
pub(super) fn refusal(error: &ConnectionError) -> Option<TransportError> {
    match error {
        ConnectionError::TransportError(ours) => tls::explain(u64::from(ours.code), Side::We),
        ConnectionError::ConnectionClosed(theirs) => tls::explain(u64::from(theirs.error_code), Side::Peer),
        _ => None,
    }
}

/// Whether the peer's stack turned us away for want of room.
pub(super) fn is_busy(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ConnectionClosed(theirs)
        if theirs.error_code == quinn::TransportErrorCode::CONNECTION_REFUSED)
}

/// What the peer is told. Numbers only; it learns nothing about us that it did not send.
fn reason(error: &TransportError) -> String {
    match error {
        TransportError::FrameTooLarge { lane, got, max, .. } => {
            format!("{lane} frame of {got} bytes, cap {max}")
        }
        TransportError::Truncated { lane, missing, .. } => format!("{lane} lane ended {missing} bytes short"),
        TransportError::Malformed { what, .. } => (*what).to_owned(),
        _ => String::new(),
    }
}
