//! What systemd is told of a service of `Type=notify`: that it is ready, alive (`WatchdogSec=`) and stopping, and what it does.
//! sd_notify(3) is a few words in a datagram, so this needs no library.
//!
//! | told | when |
//! | --- | --- |
//! | `READY=1` | the node has joined |
//! | `EXTEND_TIMEOUT_USEC=` | while there is no store yet, and while the node stops: both may take longer than systemd waits |
//! | `WATCHDOG=1` | the runtime that generates and handles runs, and the beat goes round, whether the store answers or not |
//! | `STOPPING=1` | it was told to stop |
//! | `STATUS=` | what it does is not what was told last |
//!
//! So a process that hangs is restarted, and one whose store is away is not: a restart would not help.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::node::event::{Entry, Event, Observer, escape};
use crate::node::meter::Meter;
use crate::node::shutdown::Shutdown;

/// Meant for this process alone: a child that inherited them could speak in its name.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// How long a start or a stop may take from now on, told again long before it is over.
const EXTENSION: Duration = Duration::from_secs(30);
const TELL_AT_LEAST_EVERY: Duration = Duration::from_secs(5);
/// A beat that waits for an answer gives up after half a lease; what is longer than this is no waiting.
const BEAT_EXTRA: Duration = Duration::from_secs(5);

const HANDLES: &str = "handling";
const STOPS: &str = "finishing what is in hand";

/// The service that this process is.
pub struct Service {
    socket: UnixDatagram,
    to: SocketAddr,
    /// Systemd ends a process that is not heard of for so long.
    watchdog: Option<Duration>,
    has_joined: AtomicBool,
    /// Systemd was told that it is ready.
    is_ready: AtomicBool,
    heard: Mutex<Heard>,
    /// Something was heard that changes what is told.
    changed: Notify,
}

/// What only the events say.
#[derive(Default)]
struct Heard {
    /// Of the crown that it was given.
    epoch: Option<u64>,
    /// When the store was said to be away, and why.
    away: Option<(Instant, String)>,
}

impl Service {
    /// None: nobody waits to be told.
    pub fn of_environment() -> io::Result<Option<Self>> {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> io::Result<Option<Self>> {
        let Some(to) = variable("NOTIFY_SOCKET").filter(|to| !to.is_empty()) else {
            return Ok(None);
        };
        let socket = UnixDatagram::unbound()?;
        // The work does not wait for systemd: what it has no room for is told again.
        socket.set_nonblocking(true)?;
        let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let micros = variable("WATCHDOG_USEC").and_then(|micros| micros.parse().ok());
        Ok(Some(Self {
            socket,
            to: address(&to)?,
            watchdog: micros
                .filter(|micros| is_ours && *micros > 0)
                .map(Duration::from_micros),
            has_joined: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
            heard: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    fn tell(&self, words: &str) -> bool {
        self.socket.send_to_addr(words.as_bytes(), &self.to).is_ok()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hears(&self, event: &Event) {
        match event {
            Event::Joined => {
                self.has_joined.store(true, Ordering::Relaxed);
                self.tell_ready();
            }
            Event::Elected { epoch, .. } => self.heard().epoch = Some(*epoch),
            Event::Deposed { .. } => self.heard().epoch = None,
            Event::Away { reason } => self.heard().away = Some((Instant::now(), reason.clone())),
            Event::Reconnected => self.heard().away = None,
            _ => return,
        }
        self.changed.notify_one();
    }

    /// What `systemctl status` shows. A lane tells only that the store is away: that it is back is seen by its answers.
    fn status(&self, meter: &Meter, is_stopping: bool) -> String {
        let heard = self.heard();
        let is_silent = |since: &Instant| meter.silence().is_none_or(|silence| silence >= since.elapsed());
        match (&heard.away, heard.epoch) {
            _ if is_stopping => STOPS.into(),
            (Some((since, reason)), _) if is_silent(since) => format!("waiting for the store: {reason}"),
            _ if !self.has_joined.load(Ordering::Relaxed) => "looking for the store".into(),
            (_, Some(epoch)) if meter.generates.load(Ordering::Relaxed) => format!("generating, epoch {epoch}"),
            _ => HANDLES.into(),
        }
    }

    /// Once, as soon as it is so and systemd has room for it. Two threads come here: the one that claims it first tells it.
    fn tell_ready(&self) -> bool {
        let is_new = self.has_joined.load(Ordering::Relaxed) && !self.is_ready.swap(true, Ordering::Relaxed);
        if is_new && !self.tell(&format!("READY=1\nSTATUS={HANDLES}")) {
            self.is_ready.store(false, Ordering::Relaxed);
        }
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Tells what has to be told again and again. On the runtime that generates and handles: if that stands still, so does this.
    pub(crate) async fn keep(self: Arc<Self>, meter: Arc<Meter>, lease: Duration, mut shutdown: Shutdown) {
        let extend = format!("EXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros());
        let every = self
            .watchdog
            .map_or(TELL_AT_LEAST_EVERY, |watchdog| (watchdog / 4).min(TELL_AT_LEAST_EVERY));
        let (mut is_stopping, mut told_of_stop, mut told) = (false, false, String::new());
        loop {
            if is_stopping && !told_of_stop {
                told_of_stop = self.tell(&format!("STOPPING=1\nSTATUS={STOPS}"));
            }
            if !self.tell_ready() || is_stopping {
                self.tell(&extend);
            }
            let status = self.status(&meter, is_stopping);
            if status != told && self.tell(&format!("STATUS={}", escape(status.as_bytes()))) {
                told = status;
            }
            if self.watchdog.is_some() && meter.beat_stands_for() < 2 * lease + BEAT_EXTRA {
                self.tell("WATCHDOG=1");
            }
            tokio::select! {
                () = shutdown.stopping(), if !is_stopping => is_stopping = true,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(every) => {}
            }
        }
    }
}

/// A path, or behind `@` a name in the abstract namespace of Linux.
fn address(text: &str) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = text.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt;
        return SocketAddr::from_abstract_name(name);
    }
    if !text.starts_with('/') {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "neither a path nor an abstract name",
        ));
    }
    SocketAddr::from_pathname(text)
}

/// Tells systemd of what is observed, and everything to the next observer.
pub struct Telling {
    pub service: Arc<Service>,
    pub next: Arc<dyn Observer>,
}

impl Observer for Telling {
    fn wants_messages(&self) -> bool {
        self.next.wants_messages()
    }

    fn wants_starts(&self) -> bool {
        self.next.wants_starts()
    }

    fn observe(&self, node: &str, events: &[Event]) {
        self.next.observe(node, events);
        for event in events.iter().filter(|event| !event.is_per_message()) {
            self.service.hears(event);
        }
    }

    fn keeps_ledger(&self) -> bool {
        self.next.keeps_ledger()
    }

    fn intends(&self, node: &str, entries: &[Entry]) {
        self.next.intends(node, entries);
    }

    fn refuses(&self, node: &str) {
        self.next.refuses(node);
    }

    fn confirms(&self, node: &str, entries: &[Entry]) {
        self.next.confirms(node, entries);
    }
}

#[cfg(test)]
mod tests;
