//! Answering HTTP/1.1 on a socket: bounds on connections, buffers and time, for whoever answers.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Answers every request with `answer` until `stop` is done.
pub(crate) async fn serve<A, F>(listener: TcpListener, stop: impl Future<Output = ()>, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send,
{
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, mostly; those in use are given back in a moment.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            continue;
        };
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(IDLE)
                .max_buf_size(MAX_BUFFER)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(LIFETIME, connection).await;
            drop(permit);
        });
    }
}

/// The longest wait for a request on an open connection, and for its body.
pub(crate) const IDLE: Duration = Duration::from_secs(20);

const MAX_BUFFER: usize = 64 << 10;
const MAX_CONNECTIONS: usize = 64;
/// The longest life of a connection.
const LIFETIME: Duration = Duration::from_mins(10);
