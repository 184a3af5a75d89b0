//! The address at which a party can be looked at: `/`, `/state.json`, `/metrics`, `/healthz`, `/readyz`. Reading only.
//!
//! A page of a stranger that runs in an operator's browser could reach a loopback address by giving its own name that
//! address (DNS rebinding). So a request must call the server by an IP address, `localhost`, or a name from the
//! configuration, and no answer may be read from, or shown inside, a page of another origin.

use super::OPENMETRICS;
use super::page::Page;
use super::ready::LogProbe;
use crate::config::WatchConfig;
use crate::http;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;

/// What is looked at.
pub trait Subject: fmt::Debug + Send + Sync {
    /// The metrics as `OpenMetrics` text.
    fn openmetrics(&self) -> String;
    /// A JSON document; `disk` says whether what must be kept could be.
    ///
    /// # Errors
    /// It cannot be written as JSON; none of ours does that.
    fn state(&self, disk: Result<(), String>) -> serde_json::Result<Vec<u8>>;
    /// Why it is not ready; empty when it is.
    fn not_ready(&self, disk: Result<(), String>) -> Vec<String>;
    /// Why it should be started again; nothing when it is well.
    fn stuck(&self) -> Option<String>;
    /// A page for people, where there is one.
    fn page(&self) -> Option<&'static Page>;
}

/// A bound address.
#[derive(Debug)]
pub struct Site {
    listener: TcpListener,
    addr: SocketAddr,
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Desk {
    subject: Arc<dyn Subject>,
    disk: LogProbe,
    hosts: Vec<String>,
}

/// Why a party cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The address.
    #[error(
        "cannot listen on {addr} (setting `watch.listen`): {error}; take another port, or stop what has it"
    )]
    Listen {
        /// Where.
        addr: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
}

impl Site {
    /// Binds the address of a configuration.
    ///
    /// # Errors
    /// [`SiteError::Listen`].
    pub async fn bind(
        config: &WatchConfig,
        subject: Arc<dyn Subject>,
        disk: LogProbe,
    ) -> Result<Self, SiteError> {
        let fault = |error| SiteError::Listen {
            addr: config.listen,
            error,
        };
        let listener = TcpListener::bind(config.listen).await.map_err(fault)?;
        let addr = listener.local_addr().map_err(fault)?;
        let hosts = config
            .hosts
            .iter()
            .map(|host| host.to_ascii_lowercase())
            .collect();
        Ok(Self {
            listener,
            addr,
            desk: Arc::new(Desk { subject, disk, hosts }),
        })
    }

    /// Where it answers.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until `stop` is done.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let desk = self.desk;
        http::serve(self.listener, stop, move |request| {
            let desk = Arc::clone(&desk);
            async move { desk.answer(&request).await }
        })
        .await;
    }
}

impl Desk {
    async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let mut response = match self.checked(request) {
            Ok(path) => self.page(path).await,
            Err(refusal) => *refusal,
        };
        let headers = response.headers_mut();
        for (name, value) in ALWAYS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers
            .entry(header::CONTENT_SECURITY_POLICY)
            .or_insert(HeaderValue::from_static(
                "default-src 'none'; frame-ancestors 'none'",
            ));
        response
    }

    /// The path of a request that may be answered.
    fn checked<'r, B>(&self, request: &'r Request<B>) -> Result<&'r str, Box<Response<Full<Bytes>>>> {
        let named = name(request.uri().authority(), request.headers());
        if !named.is_some_and(|host| self.knows(&host)) {
            return Err(Box::new(text(
                StatusCode::MISDIRECTED_REQUEST,
                "ask by IP address, by localhost, or by a name in `watch.hosts` of its configuration\n",
            )));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal = text(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD: nothing can be changed here\n",
            );
            refusal
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Err(Box::new(refusal));
        }
        Ok(request.uri().path())
    }

    /// An address cannot be rebound; a name can.
    fn knows(&self, host: &str) -> bool {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        let lower = bare.to_ascii_lowercase();
        bare.parse::<IpAddr>().is_ok() || lower == "localhost" || self.hosts.contains(&lower)
    }

    async fn page(&self, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/" => {
                let Some(shown) = self.subject.page() else {
                    return self.nothing();
                };
                let mut page = answer(StatusCode::OK, "text/html; charset=utf-8", shown.html);
                if let Ok(policy) = HeaderValue::from_str(&shown.policy) {
                    page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
                }
                page
            }
            "/state.json" => match self.subject.state(self.disk.try_it().await) {
                Ok(state) => answer(StatusCode::OK, "application/json", state),
                Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the state cannot be written\n"),
            },
            "/metrics" => answer(StatusCode::OK, OPENMETRICS, self.subject.openmetrics()),
            "/healthz" => match self.subject.stuck() {
                None => text(StatusCode::OK, "ok\n"),
                Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
            },
            "/readyz" => {
                let why = self.subject.not_ready(self.disk.try_it().await);
                if why.is_empty() {
                    text(StatusCode::OK, "ready\n")
                } else {
                    text(StatusCode::SERVICE_UNAVAILABLE, why.join("\n") + "\n")
                }
            }
            _ => self.nothing(),
        }
    }

    fn nothing(&self) -> Response<Full<Bytes>> {
        let page = if self.subject.page().is_some() { "/, " } else { "" };
        text(
            StatusCode::NOT_FOUND,
            format!("there are {page}/state.json, /metrics, /healthz and /readyz\n"),
        )
    }
}

/// The host a request is for: in its address, or in its one `Host` line.
fn name(authority: Option<&Authority>, headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(header::HOST).iter();
    let line = match (lines.next(), lines.next()) {
        (Some(line), None) => Some(line.to_str().ok()?.parse::<Authority>().ok()?),
        (None, None) => None,
        _ => return None,
    };
    let host = authority.or(line.as_ref())?;
    (!host.as_str().contains('@')).then(|| host.host().to_owned())
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    answer(status, "text/plain; charset=utf-8", body)
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Said with every answer.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

#[cfg(test)]
mod tests;
