//! The log's side: a head goes to every witness of a policy at once, and comes back with their cosignatures.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use veilsum_attestation::merkle::{Hash, MerkleError};
use veilsum_attestation::note::{Note, NoteError, NoteSignature};
use veilsum_attestation::tlog::{Asked, CosignerKey, Exchange, QuorumError, TrustPolicy, WitnessFault};

/// The witnesses of a policy file, and what each was last seen to hold.
#[derive(Debug)]
pub struct Quorum {
    policy: TrustPolicy,
    witnesses: Vec<Known>,
    timeout: Duration,
    sizes: Mutex<BTreeMap<CosignerKey, u64>>,
}

#[derive(Clone, Debug)]
struct Known {
    name: String,
    key: CosignerKey,
    uri: Uri,
}

/// A head after all witnesses were asked.
#[derive(Debug)]
pub struct Collected {
    /// The head with every cosignature that came and holds.
    pub note: Note,
    /// What each witness answered, in the policy's order.
    pub answers: Vec<WitnessAnswer>,
    /// Whether the policy's quorum is reached; if not, why not.
    pub quorum: Result<(), QuorumError>,
}

/// One witness's answer.
#[derive(Debug)]
pub struct WitnessAnswer {
    /// Its name in the policy.
    pub name: String,
    /// The time it cosigned at, POSIX seconds, or why it did not.
    pub result: Result<u64, AskError>,
}

/// Why a witness gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It cannot be reached.
    #[error("cannot be reached: {0}")]
    Connect(std::io::Error),
    /// It speaks no HTTP, or broke off.
    #[error("the connection failed: {0}")]
    Http(#[from] hyper::Error),
    /// It took too long.
    #[error("no answer in time")]
    Timeout,
    /// Its answer is too long.
    #[error("the answer is too long")]
    TooLong,
    /// It answered, and not with a cosignature.
    #[error(transparent)]
    Fault(#[from] WitnessFault),
    /// The head has too many signatures already.
    #[error(transparent)]
    Note(#[from] NoteError),
}

/// Why a policy cannot be used for asking.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuorumSetupError {
    /// A witness without an address.
    #[error(
        "the policy gives no address for witness '{0}'; add its submission prefix, such as http://host:port"
    )]
    NoUrl(String),
    /// An address that cannot be used.
    #[error("the address of witness '{name}' must read http://HOST:PORT[/PREFIX], it is '{url}'")]
    Url {
        /// Its name.
        name: String,
        /// Its address.
        url: String,
    },
}

impl Quorum {
    /// The witnesses of a policy; each is given `timeout` to answer.
    ///
    /// # Errors
    /// [`QuorumSetupError`] for a witness without a usable address.
    pub fn new(policy: TrustPolicy, timeout: Duration) -> Result<Self, QuorumSetupError> {
        let witnesses = policy
            .witnesses()
            .iter()
            .map(|line| {
                let name = String::from_utf8_lossy(&line.name).into_owned();
                let Some(url) = &line.url else {
                    return Err(QuorumSetupError::NoUrl(name));
                };
                let joined = format!("{}/add-checkpoint", url.trim_end_matches('/'));
                match joined.parse::<Uri>() {
                    Ok(uri) if uri.scheme_str() == Some("http") && uri.host().is_some() => Ok(Known {
                        name,
                        key: line.key.clone(),
                        uri,
                    }),
                    _ => Err(QuorumSetupError::Url {
                        name,
                        url: url.clone(),
                    }),
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            policy,
            witnesses,
            timeout,
            sizes: Mutex::new(BTreeMap::new()),
        })
    }

    /// The witnesses' names, in the policy's order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.witnesses.iter().map(|known| known.name.clone()).collect()
    }

    /// Asks every witness about a signed head, all at once. `prove` makes the consistency proof from an earlier size of
    /// the log to the head's; it is called with the sizes the witnesses hold.
    ///
    /// # Errors
    /// None for a note that is a checkpoint; what a witness does wrong is in its answer.
    pub async fn collect(
        &self,
        head: &Note,
        prove: Arc<dyn Fn(u64) -> Result<Vec<Hash>, MerkleError> + Send + Sync>,
    ) -> Result<Collected, WitnessFault> {
        let mut tasks = JoinSet::new();
        for (place, known) in self.witnesses.iter().enumerate() {
            let size = self.sizes().get(&known.key).copied().unwrap_or(0);
            let exchange = Exchange::new(head.clone(), known.key.clone(), size)?;
            let (known, prove, timeout) = (known.clone(), Arc::clone(&prove), self.timeout);
            tasks.spawn(async move {
                let asked = tokio::time::timeout(timeout, ask(&known, exchange, prove.as_ref())).await;
                (place, asked.unwrap_or(Err(AskError::Timeout)))
            });
        }
        let mut results: BTreeMap<usize, Result<(NoteSignature, u64), AskError>> = BTreeMap::new();
        while let Some(done) = tasks.join_next().await {
            if let Ok((place, result)) = done {
                results.insert(place, result);
            }
        }
        let size = veilsum_attestation::checkpoint::Checkpoint::size(&head.text().parse()?);
        let mut note = head.clone();
        let mut answers = Vec::new();
        for (place, known) in self.witnesses.iter().enumerate() {
            let result = results.remove(&place).unwrap_or(Err(AskError::Timeout));
            let result = result.and_then(|(line, time)| {
                note.add(line)?;
                self.sizes().insert(known.key.clone(), size);
                Ok(time)
            });
            if let Err(AskError::Fault(WitnessFault::Ahead { witness, .. })) = &result {
                self.sizes().insert(known.key.clone(), *witness);
            }
            answers.push(WitnessAnswer {
                name: known.name.clone(),
                result,
            });
        }
        let quorum = self.policy.accept(&note, &super::verifies).map(|_| ());
        Ok(Collected {
            note,
            answers,
            quorum,
        })
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &TrustPolicy {
        &self.policy
    }

    fn sizes(&self) -> std::sync::MutexGuard<'_, BTreeMap<CosignerKey, u64>> {
        // Sizes are hints; a panic elsewhere does not spoil them.
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collected {
    /// The witnesses that hold a head this log does not extend: each is a reason to stop and compare heads.
    pub fn contradictions(&self) -> impl Iterator<Item = &WitnessAnswer> {
        self.answers.iter().filter(|answer| {
            matches!(
                answer.result,
                Err(AskError::Fault(
                    WitnessFault::Inconsistent { .. } | WitnessFault::Ahead { .. }
                ))
            )
        })
    }
}

async fn ask(
    known: &Known,
    mut exchange: Exchange,
    prove: &(dyn Fn(u64) -> Result<Vec<Hash>, MerkleError> + Send + Sync),
) -> Result<(NoteSignature, u64), AskError> {
    let host = known.uri.host().unwrap_or_default();
    // An IPv6 address stands in brackets in an address, and without them for the resolver.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let port = known.uri.port_u16().unwrap_or(80);
    let stream = TcpStream::connect((bare, port))
        .await
        .map_err(AskError::Connect)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let result = async {
        loop {
            let body = exchange.request(&|old| prove(old))?;
            let mut request = Request::new(Full::new(Bytes::from(body)));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = known
                .uri
                .path_and_query()
                .map_or_else(Uri::default, |path| Uri::from(path.clone()));
            if let Some(Ok(host)) = known.uri.authority().map(|authority| authority.as_str().parse()) {
                request.headers_mut().insert(HOST, host);
            }
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let status = response.status().as_u16();
            let kind = response
                .headers()
                .get(CONTENT_TYPE)
                .and_then(|kind| kind.to_str().ok())
                .map(str::to_owned);
            let body = Limited::new(response.into_body(), MAX_ANSWER)
                .collect()
                .await
                .map_err(|_| AskError::TooLong)?
                .to_bytes();
            match exchange.answer(status, kind.as_deref(), &body, &super::verifies)? {
                Asked::Cosigned(line, time) => return Ok((line, time)),
                Asked::Again => {}
            }
        }
    }
    .await;
    driver.abort();
    result
}

/// A signature line takes some 200 bytes, a post-quantum one 4 KiB; a witness may have several keys.
const MAX_ANSWER: usize = 64 << 10;
