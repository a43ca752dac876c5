//! One connection through the proxy: two pumps, of which each reads as fast as the link sends, and delivers when the time
//! has come.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{Direction, Fate, RECEIVE_BUFFER_BYTES, Shared};

pub(super) const CHUNK_BYTES: usize = 16 * 1024;

/// How much waits in one direction: 4 MB. The sender of more has to wait.
const CHUNKS_MAX: usize = 256;

/// Why a connection ends in the middle.
enum Break {
    Cut,
    /// What was allowed in this direction has been delivered, and its receiver shall be able to read it.
    Last(Direction),
}

impl From<io::Error> for Break {
    fn from(_: io::Error) -> Self {
        Self::Cut
    }
}

pub(super) async fn run(shared: Arc<Shared>, id: u64, cut: oneshot::Receiver<()>, mut client: TcpStream) {
    let (black_hole, to) = {
        let state = shared.state();
        (state.black_hole, state.upstream)
    };
    if black_hole {
        let _ = cut.await;
        let _ = client.set_zero_linger();
        return;
    }
    let Ok(mut server) = connect(to).await else {
        shared.state().open.remove(&id);
        let _ = client.set_zero_linger();
        return;
    };
    let ending = tokio::select! {
        biased;
        _ = cut => Err(Break::Cut),
        ending = pump_both(&shared, id, &mut client, &mut server) => ending,
    };
    shared.state().open.remove(&id);
    let (reset_client, reset_server) = match ending {
        Ok(()) => (false, false),
        Err(Break::Cut) => (true, true),
        Err(Break::Last(direction)) => (direction == Direction::Requests, direction == Direction::Replies),
    };
    if reset_client {
        let _ = client.set_zero_linger();
    }
    if reset_server {
        let _ = server.set_zero_linger();
    }
}

async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    socket.connect(to).await
}

async fn pump_both(shared: &Shared, id: u64, client: &mut TcpStream, server: &mut TcpStream) -> Result<(), Break> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(
        pump(shared, id, Direction::Requests, from_client, to_server),
        pump(shared, id, Direction::Replies, from_server, to_client),
    )?;
    Ok(())
}

async fn pump(
    shared: &Shared,
    id: u64,
    direction: Direction,
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
) -> Result<(), Break> {
    let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
    tokio::try_join!(
        read(shared, direction, from, sender),
        deliver(shared, id, direction, to, receiver)
    )?;
    Ok(())
}

/// A chunk and when it is due; the empty one ends the stream.
type Chunk = (Instant, Vec<u8>);

async fn read(
    shared: &Shared,
    direction: Direction,
    mut from: ReadHalf<'_>,
    to: mpsc::Sender<Chunk>,
) -> Result<(), Break> {
    loop {
        let mut chunk = Vec::with_capacity(shared.state().accepts(direction));
        // A reset is passed on as the end of the stream, or swallowed like it.
        let ended = from.read_buf(&mut chunk).await.unwrap_or(0) == 0;
        let sent_at = shared.state().sent_at(direction, chunk.len(), Instant::now());
        if let Some(at) = sent_at {
            tokio::time::sleep_until(at).await;
        }
        let due = Instant::now() + shared.state().delay;
        if to.send((due, chunk)).await.is_err() || ended {
            return Ok(());
        }
    }
}

async fn deliver(
    shared: &Shared,
    id: u64,
    direction: Direction,
    mut to: WriteHalf<'_>,
    mut from: mpsc::Receiver<Chunk>,
) -> Result<(), Break> {
    while let Some((due, chunk)) = from.recv().await {
        if due > Instant::now() {
            tokio::time::sleep_until(due).await;
        }
        let fate = shared.state().fate(id, direction, chunk.len());
        match fate {
            // Not ended from here: the other direction may be delivering its last bytes.
            Fate::Gone => std::future::pending().await,
            Fate::Swallow => {}
            Fate::Partly(bytes) => to.write_all(&chunk[..bytes]).await?,
            Fate::Deliver => {
                let delivered = if chunk.is_empty() {
                    to.shutdown().await
                } else {
                    to.write_all(&chunk).await
                };
                if delivered.is_err() && !shared.state().hides_loss(id, direction) {
                    return Err(Break::Cut);
                }
            }
            Fate::Last(bytes, open) => {
                to.write_all(&chunk[..bytes]).await?;
                to.shutdown().await?;
                drop(open);
                return Err(Break::Last(direction));
            }
        }
    }
    Ok(())
}
