//! What a node counts of itself. No message touches this by itself: the pool counts under the lock that it holds anyway, and
//! the lane adds that up here with each call to the store.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::engine::history::Figures;
use crate::settings::ms;

/// Longer waits count as this long. A clock that is wrong by years must not spoil the sums.
const WAIT_MAX: Duration = Duration::from_hours(7 * 24);

#[derive(Debug)]
pub(crate) struct Meter {
    /// When the process started, by its own clock.
    pub started_ms: u64,
    born: Instant,
    totals: Mutex<Figures>,
    /// Messages that were taken and are not settled.
    pub in_hand: AtomicU64,
    /// Messages and outcomes that are written, and wait for replicas.
    pub untold: AtomicU64,
    /// The store's time of day when this node was born, in milliseconds; this machine's, until the store has told its own.
    clock: AtomicI64,
    /// When the store last answered a beat, in milliseconds after birth; 0: never.
    heard: AtomicU64,
    /// When the beat last went round, answered or not, in milliseconds after birth.
    turned: AtomicU64,
    pub generates: AtomicBool,
    pub elections: AtomicU64,
    pub redelivered: AtomicU64,
}

impl Default for Meter {
    fn default() -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            started_ms: ms(started),
            born: Instant::now(),
            totals: Mutex::default(),
            in_hand: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            clock: AtomicI64::new(ms(started).cast_signed()),
            heard: AtomicU64::new(0),
            turned: AtomicU64::new(0),
            generates: AtomicBool::new(false),
            elections: AtomicU64::new(0),
            redelivered: AtomicU64::new(0),
        }
    }
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.lock());
    }

    /// Everything since the process started.
    pub fn totals(&self) -> Figures {
        self.lock().clone()
    }

    /// The store has answered, and told its time of day.
    pub fn hears(&self, wall_ms: u64) {
        let age = ms(self.born.elapsed());
        self.heard.store(age.max(1), Ordering::Relaxed);
        self.clock
            .store(wall_ms.cast_signed() - age.cast_signed(), Ordering::Relaxed);
    }

    /// The beat goes on, whether the store answers or not.
    pub fn beat_turns(&self) {
        self.turned.store(ms(self.born.elapsed()), Ordering::Relaxed);
    }

    /// How long the beat has not gone on: a process whose beat hangs is of no use to anybody.
    #[cfg(feature = "cli")]
    pub fn beat_stands_for(&self) -> Duration {
        let turned = Duration::from_millis(self.turned.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(turned)
    }

    /// How long the store has been silent. None: it never answered.
    pub fn silence(&self) -> Option<Duration> {
        let heard = self.heard.load(Ordering::Relaxed);
        (heard > 0).then(|| self.born.elapsed().saturating_sub(Duration::from_millis(heard)))
    }

    /// The store's time of day at this moment.
    pub fn time_ms(&self, now: Instant) -> u64 {
        let clock = self.clock.load(Ordering::Relaxed);
        let now_ms = clock.saturating_add(ms(now.saturating_duration_since(self.born)).cast_signed());
        u64::try_from(now_ms).unwrap_or(0)
    }

    /// How long `wall_ms`, a time of day of the store, lies before `now`.
    pub fn since(&self, wall_ms: u64, now: Instant) -> Duration {
        Duration::from_millis(self.time_ms(now).saturating_sub(wall_ms)).min(WAIT_MAX)
    }
}
