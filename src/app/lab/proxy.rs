//! A TCP proxy that misbehaves on request, between nodes and a Redis: connections that are cut, late, half-open or
//! swallowed, over a link that carries only so many bytes a second.
//!
//! It runs on a thread of its own, so that it works while its owner blocks.

mod pipe;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Until the next attempt, when a connection could not be accepted: the process has too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// What the kernel takes in for the proxy before its sender has to wait; by itself it would be megabytes, which a slow
/// link would seem to swallow at once.
const RECEIVE_BUFFER_BYTES: u32 = 32 * 1024;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// What a slow link may make up for: timers are a millisecond late, or more on a busy machine.
const MAKE_UP: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Requests,
    Replies,
}

/// Dropping it ends the thread and closes everything.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1.
    pub fn start(upstream: SocketAddr) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            listen()?
        };
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(upstream));
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("proxy".into()).spawn({
            let shared = shared.clone();
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = accept(listener, shared) => {}
                    }
                });
            }
        })?;
        Ok(Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where new connections go from now on.
    pub fn upstream(&self, to: SocketAddr) {
        self.shared.state().upstream = to;
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.state().open.len()
    }

    /// How many bytes have gone through in this direction.
    #[must_use]
    pub fn passed(&self, direction: Direction) -> u64 {
        self.shared.state().passed[direction as usize]
    }

    /// Closes every open connection, with a reset to both ends. New ones are fine.
    pub fn cut(&self) {
        self.shared.state().open.clear();
    }

    /// From now on every chunk, in both directions, arrives so much later, in order. Zero ends it.
    pub fn delay(&self, by: Duration) {
        self.shared.state().delay = by;
    }

    /// From now on all connections together get so many bytes a second through in this direction, as over one link, and
    /// their senders have to wait. Zero ends it.
    pub fn throttle(&self, direction: Direction, bytes_per_s: u64) {
        let mut state = self.shared.state();
        state.bytes_per_s[direction as usize] = bytes_per_s;
        state.free_at[direction as usize] = Instant::now();
    }

    /// Swallows everything in both directions and closes nothing; new connections are accepted and hang. When it ends,
    /// the connections that lost something are cut, and those that were idle go on.
    pub fn black_hole(&self, on: bool) {
        let mut state = self.shared.state();
        state.black_hole = on;
        state.mend();
    }

    /// From now on only small requests and replies arrive, as behind a router that drops large packets in silence: with more
    /// than so many bytes in a row, a connection loses all that follows in this direction. Zero ends it, and the connections
    /// that lost something are cut.
    pub fn swallow_beyond(&self, bytes: u64) {
        let mut state = self.shared.state();
        state.in_a_row_max = bytes;
        state.mend();
    }

    /// Swallows the replies, while the requests arrive. When it ends, the connections that lost something are cut.
    pub fn half_open(&self, on: bool) {
        let mut state = self.shared.state();
        state.half_open = on;
        state.mend();
    }

    /// Lets so many more bytes through in this direction, over all connections together, and cuts all connections at
    /// the last of them: once. With zero, they are cut at the first byte, and it does not arrive.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.shared.state().allowance = Some((direction, bytes, Then::Cut));
    }

    /// The same, but then the black hole begins.
    pub fn black_hole_after(&self, direction: Direction, bytes: u64) {
        self.shared.state().allowance = Some((direction, bytes, Then::BlackHole));
    }

    #[must_use]
    pub fn is_black_hole(&self) -> bool {
        self.shared.state().black_hole
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The other end is gone if the thread has ended already, which is as well.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Shared(Mutex<State>);

struct State {
    upstream: SocketAddr,
    delay: Duration,
    /// By direction; zero is as many as come.
    bytes_per_s: [u64; 2],
    /// By direction: when a slow link will have sent all that it has accepted.
    free_at: [Instant; 2],
    black_hole: bool,
    half_open: bool,
    /// Zero is as many as come.
    in_a_row_max: u64,
    allowance: Option<(Direction, u64, Then)>,
    /// By direction.
    passed: [u64; 2],
    open: HashMap<u64, Open>,
    next_id: u64,
}

/// What happens when what was allowed has gone through.
#[derive(Debug, Clone, Copy)]
enum Then {
    Cut,
    BlackHole,
}

/// An open connection. Dropping this cuts it.
struct Open {
    /// By direction: something that was sent this way has not arrived, so nothing may ever arrive again.
    lost: [bool; 2],
    /// How many bytes went through in one direction since the last ones in the other.
    in_a_row: (Direction, u64),
    _cut: oneshot::Sender<()>,
}

/// What is to become of a chunk.
enum Fate {
    Deliver,
    Swallow,
    /// Deliver so many bytes of it, and swallow the rest.
    Partly(usize),
    /// Deliver so many bytes of it, then drop this, and with it the connection.
    Last(usize, Open),
    /// The connection has been cut.
    Gone,
}

impl Shared {
    fn new(upstream: SocketAddr) -> Self {
        Self(Mutex::new(State {
            upstream,
            delay: Duration::ZERO,
            bytes_per_s: [0; 2],
            free_at: [Instant::now(); 2],
            black_hole: false,
            half_open: false,
            in_a_row_max: 0,
            allowance: None,
            passed: [0; 2],
            open: HashMap::new(),
            next_id: 0,
        }))
    }

    /// No code panics while it holds this.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn open(&mut self) -> (u64, oneshot::Receiver<()>) {
        let id = self.next_id;
        self.next_id += 1;
        let (sender, cut) = oneshot::channel();
        let open = Open {
            lost: [self.black_hole; 2],
            in_a_row: (Direction::Requests, 0),
            _cut: sender,
        };
        self.open.insert(id, open);
        (id, cut)
    }

    /// The most that is accepted at once: what a slow link sends in [`MAKE_UP`], so that its connections take turns.
    fn accepts(&self, direction: Direction) -> usize {
        match self.bytes_per_s[direction as usize] {
            0 => pipe::CHUNK_BYTES,
            rate => usize::try_from(rate / 100).map_or(pipe::CHUNK_BYTES, |bytes| bytes.clamp(1, pipe::CHUNK_BYTES)),
        }
    }

    /// Accepts so many bytes. When a slow link will have sent them.
    fn sent_at(&mut self, direction: Direction, bytes: usize, now: Instant) -> Option<Instant> {
        let rate = self.bytes_per_s[direction as usize];
        if rate == 0 {
            return None;
        }
        let free_at = &mut self.free_at[direction as usize];
        let begin = now.checked_sub(MAKE_UP).map_or(now, |earliest| earliest.max(*free_at));
        *free_at = begin + Duration::from_nanos(bytes as u64 * 1_000_000_000 / rate);
        Some(*free_at)
    }

    fn swallows(&self, direction: Direction) -> bool {
        self.black_hole || (self.half_open && direction == Direction::Replies)
    }

    /// Cuts what lost something, once nothing is swallowed any more.
    fn mend(&mut self) {
        if !self.black_hole && !self.half_open && self.in_a_row_max == 0 {
            self.open.retain(|_, open| open.lost == [false; 2]);
        }
    }

    /// The receiver in this direction is gone. Whether the other end must not hear of it.
    fn hides_loss(&mut self, id: u64, direction: Direction) -> bool {
        let hidden = match direction {
            Direction::Requests => self.swallows(Direction::Replies),
            Direction::Replies => self.swallows(Direction::Requests),
        };
        if let Some(open) = self.open.get_mut(&id) {
            open.lost[direction as usize] |= hidden;
        }
        hidden
    }

    /// Decided for each chunk at the moment of its delivery; an empty one is the end of the stream.
    fn fate(&mut self, id: u64, direction: Direction, bytes: usize) -> Fate {
        let swallows = self.swallows(direction);
        let Some(open) = self.open.get_mut(&id) else {
            return Fate::Gone;
        };
        if open.in_a_row.0 != direction {
            open.in_a_row = (direction, 0);
        }
        open.in_a_row.1 += bytes as u64;
        let large = self.in_a_row_max > 0 && open.in_a_row.1 > self.in_a_row_max;
        open.lost[direction as usize] |= swallows || large;
        if open.lost[direction as usize] {
            return Fate::Swallow;
        }
        let mut ended = None;
        let mut allowed = bytes;
        if let Some((limited, left, then)) = &mut self.allowance
            && *limited == direction
            && bytes > 0
        {
            allowed = usize::try_from(*left).map_or(bytes, |left| bytes.min(left));
            *left -= allowed as u64;
            ended = (*left == 0).then_some(*then);
        }
        self.passed[direction as usize] += allowed as u64;
        match ended {
            None => Fate::Deliver,
            Some(Then::Cut) => {
                self.allowance = None;
                let open = self.open.remove(&id).expect("just seen");
                self.open.clear();
                Fate::Last(allowed, open)
            }
            Some(Then::BlackHole) => {
                self.allowance = None;
                self.black_hole = true;
                open.lost[direction as usize] = true;
                Fate::Partly(allowed)
            }
        }
    }
}

/// Inside a runtime.
fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let (id, cut) = shared.state().open();
        tokio::spawn(pipe::run(shared.clone(), id, cut, client));
    }
}
