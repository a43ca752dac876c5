//! A small HTTP/1.1 server for metrics and the dashboard. Everything that a client can make grow is bounded: connections,
//! the size of a head and of a body, the time for both, and the time that an answer may lie unread.
//!
//! | file | |
//! | --- | --- |
//! | `connections` | who is connected, and who loses its place when all are taken |
//! | `stream` | the bytes of one connection, and the end of one that does not read |
//! | `host` | under which names this may be reached |

mod connections;
pub(in crate::app) mod host;
mod stream;

use std::convert::Infallible;
use std::future::Future;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
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
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::node::shutdown::Shutdown;
use connections::{Connections, Place};
use stream::Watched;

/// An error in it cuts the connection, so that the client does not take a part for the whole.
pub(crate) type Body = BoxBody<Bytes, std::io::Error>;

/// A request's head, with all its headers.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// From the first byte to the end of the head; also how long an idle connection is kept.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long answers that are on their way may take when the server stops.
const STOP_TIME: Duration = Duration::from_secs(1);
/// After a connection could not be accepted: out of file descriptors, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// In the extensions of an answer: whoever asked has shown that it may.
#[derive(Debug, Clone)]
pub(crate) struct Admitted;

/// Answers a request. It is dropped when the one who asked hangs up.
pub(crate) trait Handler: Send + Sync + 'static {
    fn answer(&self, from: SocketAddr, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// Why one cannot listen at an address, and what to do.
fn why_not(address: &str, error: &std::io::Error) -> String {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "; something listens there already: stop it, or choose another port",
        ErrorKind::AddrNotAvailable => "; this machine has no such address",
        ErrorKind::PermissionDenied => "; ports below 1024 need rights of their own: choose a larger one",
        _ => "",
    };
    format!("cannot listen at {address}: {error}{hint}")
}

/// Listens at `host:port`; why not, in words.
pub(crate) fn bind(address: &str) -> Result<(TcpListener, SocketAddr), String> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    listen().map_err(|error| why_not(address, &error))
}

/// Answers until told to stop; then finishes what is on its way.
pub(crate) async fn serve<H: Handler>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    handler: Arc<H>,
    mut shutdown: Shutdown,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let (places, mut tasks) = (Arc::new(Connections::default()), JoinSet::new());
    loop {
        while tasks.try_join_next().is_some() {}
        let accepted = tokio::select! {
            biased;
            () = shutdown.stopping() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let place = places.admit(from.ip());
        tasks.spawn(keep(
            stream,
            from,
            place,
            tls.clone(),
            handler.clone(),
            shutdown.clone(),
        ));
    }
    drop(listener);
    let finish = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_TIME, finish).await;
}

/// One connection, for as long as it has its place.
async fn keep<H: Handler>(
    stream: TcpStream,
    from: SocketAddr,
    place: Place,
    tls: Option<TlsAcceptor>,
    handler: Arc<H>,
    shutdown: Shutdown,
) {
    let _ = stream.set_nodelay(true);
    let stream = Watched::new(stream, place.connection.clone());
    let (handler, connection) = (&*handler, &*place.connection);
    let ask = move |request| async move {
        let answer = handler.answer(from, request).await;
        if answer.extensions().get::<Admitted>().is_some() {
            connection.admit();
        }
        Ok::<_, Infallible>(answer)
    };
    let talk = async {
        let Some(tls) = tls else {
            return converse(stream, ask, shutdown).await;
        };
        if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await {
            converse(stream, ask, shutdown).await;
        }
    };
    tokio::select! {
        () = talk => {}
        () = connection.lost_place() => {}
    }
}

/// One connection, from its first request to its last.
async fn converse<S, F>(stream: S, ask: impl Fn(Request<Incoming>) -> F, mut shutdown: Shutdown)
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service_fn(ask));
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
