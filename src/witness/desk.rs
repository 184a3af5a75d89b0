//! The witness's side: one address, one request kind.

use super::store::DeskStore;
use crate::http;
use crate::store::StoreError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, Response, StatusCode};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use veilsum_attestation::note::NoteKey;
use veilsum_attestation::tlog::{Answer, Witness};
use veilsum_crypto::Identity;

/// A witness at work.
pub struct Desk {
    inner: Arc<Inner>,
}

struct Inner {
    /// Checking, storing and answering are one step: nobody else is looked at meanwhile.
    witness: Mutex<Witness>,
    logs: Vec<NoteKey>,
    store: DeskStore,
    identity: Identity,
    events: mpsc::UnboundedSender<DeskEvent>,
}

/// What a witness did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeskEvent {
    /// It cosigned a head.
    Cosigned {
        /// The log.
        origin: String,
        /// Entries.
        size: u64,
    },
    /// It refused.
    Refused {
        /// Status answered.
        status: u16,
        /// Where the head is kept, if the log had signed one that does not fit.
        evidence: Option<PathBuf>,
    },
    /// It could not store a head, and so did not cosign.
    NotStored(String),
}

/// Why a witness stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeskError {
    /// The address.
    #[error("cannot listen on {addr}: {error}")]
    Listen {
        /// Where.
        addr: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
}

impl Desk {
    /// A witness with its store and key. What it does goes to `events`.
    #[must_use]
    pub fn new(
        witness: Witness,
        logs: Vec<NoteKey>,
        store: DeskStore,
        identity: Identity,
        events: mpsc::UnboundedSender<DeskEvent>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                witness: Mutex::new(witness),
                logs,
                store,
                identity,
                events,
            }),
        }
    }

    /// Binds an address.
    ///
    /// # Errors
    /// [`DeskError::Listen`].
    pub async fn bind(addr: SocketAddr) -> Result<TcpListener, DeskError> {
        TcpListener::bind(addr)
            .await
            .map_err(|error| DeskError::Listen { addr, error })
    }

    /// Answers until `stop` is done.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let inner = self.inner;
        http::serve(listener, stop, move |request| answer(Arc::clone(&inner), request)).await;
    }
}

async fn answer(inner: Arc<Inner>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.uri().path() != "/add-checkpoint" {
        return plain(StatusCode::NOT_FOUND, "the only path is /add-checkpoint\n");
    }
    if request.method() != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "the request must be a POST\n");
    }
    let body = Limited::new(request.into_body(), MAX_BODY).collect();
    let Ok(Ok(body)) = tokio::time::timeout(http::IDLE, body).await else {
        return plain(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is too large or too slow\n",
        );
    };
    write(inner.decide(&body.to_bytes()).await)
}

impl Inner {
    async fn decide(&self, body: &[u8]) -> Answer {
        let mut witness = self.witness.lock().await;
        let pending = match witness.consider(body, &super::verifies) {
            Ok(pending) => pending,
            Err(refused) => {
                let evidence = refused.evidence.and_then(|pair| {
                    let kept = self.store.evidence(&self.logs, &pair.0, &pair.1);
                    kept.unwrap_or_default()
                });
                self.say(DeskEvent::Refused {
                    status: refused.answer.status,
                    evidence,
                });
                return refused.answer;
            }
        };
        let (origin, size) = {
            let head = pending.state().checkpoint();
            (head.origin().to_owned(), head.size())
        };
        match pending.store(|state| self.store.keep(state)) {
            Ok(stored) => {
                let now = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |since| since.as_secs());
                let answer = stored.cosign(now, &|text| self.identity.sign_raw(text).0);
                self.say(DeskEvent::Cosigned { origin, size });
                answer
            }
            Err(error) => self.not_stored(&error),
        }
    }

    fn not_stored(&self, error: &StoreError) -> Answer {
        self.say(DeskEvent::NotStored(error.to_string()));
        Answer {
            status: 500,
            content_type: "text/plain; charset=utf-8",
            body: "the witness cannot store the head\n".to_owned(),
        }
    }

    fn say(&self, event: DeskEvent) {
        // Nobody listening is no reason not to witness.
        let _ = self.events.send(event);
    }
}

fn plain(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    response
}

fn write(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static(answer.content_type),
    );
    response
}

/// A head with its signatures and a proof of 63 hashes takes 4 KiB, with post-quantum signatures some 20.
const MAX_BODY: usize = 64 << 10;
