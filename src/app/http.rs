//! A small HTTP/1.1 server for metrics and the dashboard. Everything that a client can make grow is bounded: connections,
//! the size of a head and of a body, and the time for both.

use std::convert::Infallible;
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::node::shutdown::Shutdown;

/// An error in it cuts the connection, so that the client does not take a part for the whole.
pub(crate) type Body = BoxBody<Bytes, std::io::Error>;

/// Connections at once; further clients wait to be accepted.
const CONNECTIONS_MAX: usize = 128;
/// A request's head, with all its headers.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// From the first byte to the end of the head; also how long an idle connection is kept.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long answers that are on their way may take when the server stops.
const STOP_TIME: Duration = Duration::from_secs(1);
/// After a connection could not be accepted: out of file descriptors, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers a request. It is dropped when the one who asked hangs up.
pub(crate) trait Handler: Send + Sync + 'static {
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// Why one cannot listen at an address, and what to do.
pub(crate) fn why_not(address: impl std::fmt::Display, error: &std::io::Error) -> String {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "; something listens there already: stop it, or choose another port",
        ErrorKind::AddrNotAvailable => "; this machine has no such address",
        ErrorKind::PermissionDenied => "; ports below 1024 need rights of their own: choose a larger one",
        _ => "",
    };
    format!("cannot listen at {address}: {error}{hint}")
}

/// Listens at `host:port`; why not, in words.
pub(crate) async fn bind(address: &str) -> Result<(TcpListener, SocketAddr), String> {
    let cannot = |error: std::io::Error| why_not(address, &error);
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    Ok((listener, bound))
}

/// Answers until told to stop; then finishes what is on its way.
pub(crate) async fn serve<H: Handler>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    handler: Arc<H>,
    mut shutdown: Shutdown,
) {
    let (places, mut connections) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), JoinSet::new());
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = shutdown.stopping() => break,
            accepted = accepted => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (tls, handler, shutdown) = (tls.clone(), handler.clone(), shutdown.clone());
        connections.spawn(async move {
            let _place = place;
            let Some(tls) = tls else {
                return converse(stream, handler, shutdown).await;
            };
            if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await {
                converse(stream, handler, shutdown).await;
            }
        });
    }
    drop(listener);
    let finish = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_TIME, finish).await;
}

/// One connection, from its first request to its last.
async fn converse<S, H>(stream: S, handler: Arc<H>, mut shutdown: Shutdown)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
    H: Handler,
{
    let service = service_fn(move |request| {
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = shutdown.stopping() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A whole answer of this type.
pub(crate) fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A line for people.
pub(crate) fn text(status: StatusCode, line: impl Into<Bytes>) -> Response<Body> {
    answer(status, "text/plain; charset=utf-8", line)
}
