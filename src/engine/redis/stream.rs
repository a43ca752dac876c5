//! What is under a connection: TCP, TLS or a unix socket, with a count of the bytes that move.
//!
//! The client of the redis crate knows only how long an answer took. Over a slow link that says nothing: a megabyte that
//! still flows is not lost. So the streams are made here, and [`Flow`] tells whether anything moves.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, PushInfo, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::{JoinHandle, JoinSet};

use super::bounds::Bounded;
use super::place::Tls;

/// How much the kernel takes in that it cannot send yet. Without it, it would be megabytes: a whole body would seem to be
/// sent at once, and then nothing would move while it is.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT_MAX: u32 = 16 * 1024;

/// How many bytes have moved over one connection, or over all of a link, without those that open a connection.
#[derive(Debug, Default)]
pub(super) struct Flow(AtomicU64);

impl Flow {
    pub(super) fn moved(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection; the task that drives it ends with its last copy.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) redis: MultiplexedConnection,
    pub(super) flow: Arc<Flow>,
    /// The server may speak on it unasked. Where it may not, a subscription would leave room for nothing else.
    pub(super) hears: bool,
    _driver: Option<Arc<Driver>>,
}

struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Takes what the server says unasked, where that is wanted. What comes faster than it is read is dropped.
pub(super) type Pushes = mpsc::Sender<PushInfo>;

/// Connects, and counts nothing.
pub(super) async fn connect(info: &ConnectionInfo, tls: &Tls, pushes: Option<Pushes>) -> RedisResult<Connection> {
    connect_counted(info, tls, pushes, &Arc::default(), Duration::MAX).await
}

/// Connects; what moves is counted, for the link as well, once the connection is open. Each step may take so long: a server that is far away needs
/// several round trips.
pub(super) async fn connect_counted(
    info: &ConnectionInfo,
    tls: &Tls,
    pushes: Option<Pushes>,
    flow: &Arc<Flow>,
    patience: Duration,
) -> RedisResult<Connection> {
    let counted = Counter::new(flow);
    #[cfg(not(feature = "tls"))]
    let _ = tls;
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = counted.stream(within(patience, tcp(host, *port, info)).await?);
            within(patience, speak(info, stream, pushes, &counted)).await
        }
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        } => {
            let (name, connector) = super::tls::connector(host, tls)?;
            let stream = counted.stream(within(patience, tcp(host, *port, info)).await?);
            let stream = within(patience, connector.connect(name, stream)).await?;
            within(patience, speak(info, stream, pushes, &counted)).await
        }
        ConnectionAddr::Unix(path) => {
            let stream = counted.stream(within(patience, UnixStream::connect(path)).await?);
            within(patience, speak(info, stream, pushes, &counted)).await
        }
        // What only the client knows how to do, or to refuse: nothing is counted or bounded there.
        _ => {
            let client = Client::open(info.clone())?;
            let (hears, config) = (pushes.is_some(), config(pushes));
            let redis = within(patience, client.get_multiplexed_async_connection_with_config(&config)).await?;
            let flow = counted.own;
            Ok(Connection {
                redis,
                flow,
                hears,
                _driver: None,
            })
        }
    }
}

/// One step of connecting.
async fn within<T, F: From<io::Error>>(patience: Duration, step: impl Future<Output = Result<T, F>>) -> Result<T, F> {
    let taken = tokio::time::timeout(patience, step).await;
    taken.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// Answers are waited for elsewhere, and for as long as bytes move.
fn config(pushes: Option<Pushes>) -> AsyncConnectionConfig {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    match pushes {
        Some(pushes) => config.set_push_sender(move |push| match pushes.try_send(push) {
            Err(TrySendError::Closed(_)) => Err(()),
            _ => Ok(()),
        }),
        None => config,
    }
}

/// Opens the protocol on a stream: user, password, database. What the server sends is bounded from its first byte on.
async fn speak<S>(
    info: &ConnectionInfo,
    stream: S,
    pushes: Option<Pushes>,
    counter: &Counter,
) -> RedisResult<Connection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (hears, stream) = (pushes.is_some(), Bounded::new(stream));
    let (redis, driver) = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config(pushes)).await?;
    counter.counts.store(true, Ordering::Relaxed);
    let driver = Some(Arc::new(Driver(tokio::spawn(driver))));
    let flow = counter.own.clone();
    Ok(Connection {
        redis,
        flow,
        hears,
        _driver: driver,
    })
}

/// The first address of this name that answers.
async fn tcp(host: &str, port: u16, info: &ConnectionInfo) -> io::Result<TcpStream> {
    let mut tries = JoinSet::new();
    for address in tokio::net::lookup_host((host, port)).await? {
        tries.spawn(TcpStream::connect(address));
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address found for host");
    while let Some(tried) = tries.join_next().await {
        match tried.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(stream) => {
                stream.set_nodelay(info.tcp_settings().nodelay())?;
                #[cfg(any(target_os = "linux", target_os = "android"))]
                // A kernel that does not know it only tells less.
                let _ = redis::io::tcp::socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_MAX);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Counts into the flow of a connection and of its link, once the connection is open.
#[derive(Clone)]
struct Counter {
    own: Arc<Flow>,
    of_link: Arc<Flow>,
    counts: Arc<AtomicBool>,
}

impl Counter {
    fn new(flow: &Arc<Flow>) -> Self {
        Self {
            own: Arc::default(),
            of_link: flow.clone(),
            counts: Arc::default(),
        }
    }

    fn stream<S>(&self, stream: S) -> Counted<S> {
        Counted {
            stream,
            counter: self.clone(),
            is_full: false,
        }
    }

    fn count(&self, bytes: usize) {
        if self.counts.load(Ordering::Relaxed) {
            for flow in [&self.own, &self.of_link] {
                flow.0.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
    }
}

/// A stream whose bytes are counted.
struct Counted<S> {
    stream: S,
    counter: Counter,
    /// The kernel would take in nothing more.
    is_full: bool,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.counter.count(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    /// What the kernel takes in at once tells nothing: it may lie there for ever. What it takes in after it was full has
    /// driven other bytes out.
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            Poll::Ready(Ok(written)) => {
                if std::mem::take(&mut self.is_full) {
                    self.counter.count(written);
                }
                Poll::Ready(Ok(written))
            }
            Poll::Pending => {
                self.is_full = true;
                Poll::Pending
            }
            failed @ Poll::Ready(_) => failed,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
