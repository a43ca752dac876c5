//! How a node behaves: validated settings, and the reasons for their defaults.

mod limit;
mod names;

use std::time::Duration;

use crate::error::{Error, Result};

pub use limit::{Limits, Rate};
pub use names::{Names, Reshard};

/// The settings of one node. All nodes of a queue should have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Settings {
    /// The queue's name. Queues of different names share nothing.
    pub queue: String,
    /// The names of keys that can be chosen.
    pub names: Names,
    /// How many messages a handler works on at once.
    pub concurrency: u32,
    /// Time between messages; zero generates as fast as messages are wanted.
    pub interval: Duration,
    /// Numbers stay below this.
    pub messages: Option<u64>,
    /// How long a node may be silent before it is declared dead. 2 s: twenty times the worst hiccup seen on a loaded
    /// 2-core machine, and short enough that what a frozen or lost handler held moves on within 3 s. A killed one is seen by its
    /// connection, whatever the lease is.
    pub lease: Duration,
    /// Messages per take; `None` follows the measured speed of the handler.
    pub batch: Option<u32>,
    /// How long to finish what is in hand after a signal. 8 s: within the 10 s that container runtimes wait.
    pub grace: Duration,
    /// The generator waits while this many messages are queued. 1,000,000: about 12 MB of counters, 1 GB of 1 KB each.
    pub backlog_max: u64,
    /// A message delivered this often without an outcome becomes an error.
    pub deliveries_max: u16,
    /// How many messages of one group may be handled at once. What the last node that joined has set counts for all.
    pub group_concurrency: u32,
    /// A message that failed and is to be tried again leaves its group, which goes on without it. What the last node that joined has
    /// set counts for all.
    pub group_skip_retries: bool,
    /// How fast the whole fleet may take messages. `None`: as it is. What the last node that started has set counts for all.
    pub limits: Option<Limits>,
    /// How many errors are kept. The generator removes those with the lowest numbers beyond that, counts them and says so;
    /// `None` keeps all.
    pub errors_max: Option<u64>,
    /// A message that failed is tried again this often before it is an error. 0: a failure is final, as in the task.
    pub retries: u16,
    /// How long a message waits after its first failure; each further one doubles it, up to [`Settings::BACKOFF_MAX`].
    /// 1 s: what fails for a passing reason (a restart, a lock, a lost connection) mostly works a second later.
    pub backoff: Duration,
    /// A handler that takes longer than this for a message is dropped, and the message has failed. One that blocks its
    /// thread cannot be dropped.
    pub timeout: Option<Duration>,
    /// The generator handles too: for a fleet of one.
    pub also_handle: bool,
    /// Whether this node would like to be the generator.
    pub prefer: Prefer,
    /// Handle what is there, and end: never generates, and does not wait for what is put off.
    pub burst: bool,
    /// A publish, an outcome and a push count only when this many replicas of the Redis have them. 0: when Redis has.
    pub replicas: u32,
    /// A node that dies is noticed by its connection, which is closed at once, and not only by its lease; where the store tells.
    pub watch: bool,
}

/// Whether a node would like to be the generator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Prefer {
    /// It takes the crown from any node that does not prefer it as well.
    Generator,
    /// Whoever comes first generates.
    #[default]
    Either,
    /// Only while nobody else is there to generate.
    Handler,
    /// Not even then.
    Never,
}

impl Prefer {
    pub(crate) fn rank(self) -> u8 {
        match self {
            Self::Generator => 3,
            Self::Either => 2,
            Self::Handler | Self::Never => 1,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            queue: "queenright".into(),
            names: Names::default(),
            concurrency: 1,
            interval: Duration::from_millis(500),
            messages: None,
            lease: Duration::from_secs(2),
            batch: None,
            grace: Duration::from_secs(8),
            backlog_max: 1_000_000,
            deliveries_max: 5,
            group_concurrency: 1,
            group_skip_retries: false,
            limits: None,
            errors_max: None,
            retries: 0,
            backoff: Duration::from_secs(1),
            timeout: None,
            also_handle: false,
            prefer: Prefer::Either,
            burst: false,
            replicas: 0,
            watch: true,
        }
    }
}

impl Settings {
    /// More slots than this are a mistake.
    pub const CONCURRENCY_MAX: u32 = 100_000;
    /// 10 min: an outage that lasts for hours costs a try every ten minutes, and is noticed ten minutes after its end.
    pub const BACKOFF_MAX: Duration = Duration::from_mins(10);
    /// The most [`retries`](Self::retries).
    pub const RETRIES_MAX: u16 = 1000;
    /// The most [`replicas`](Self::replicas).
    pub const REPLICAS_MAX: u32 = 100;
    /// The shortest [`lease`](Self::lease).
    pub const LEASE_MIN: Duration = Duration::from_millis(200);
    /// The longest [`lease`](Self::lease).
    pub const LEASE_MAX: Duration = Duration::from_hours(1);

    /// Says what is wrong with the first setting that cannot be, by the name of its field.
    pub fn check(&self) -> Result<()> {
        let wrong = |setting, reason: &str| {
            Err(Error::Setting {
                setting,
                reason: reason.into(),
            })
        };
        if self.queue.is_empty()
            || self.queue.len() > 200
            || self.queue.contains(['{', '}'])
            || self.queue.chars().any(char::is_control)
        {
            return wrong(
                "queue",
                "must be 1 to 200 characters without braces or control characters",
            );
        }
        self.names.check()?;
        if self.concurrency == 0 || self.concurrency > Self::CONCURRENCY_MAX {
            return wrong("concurrency", "must be 1 to 100000");
        }
        if self.lease < Self::LEASE_MIN || self.lease > Self::LEASE_MAX {
            return wrong("lease", "must be 200ms to 1h");
        }
        if !self.interval.is_zero() && self.interval < Duration::from_millis(1) {
            return wrong("interval", "must be 0 (flat out) or at least 1ms");
        }
        if self.interval > Duration::from_hours(366 * 24) {
            return wrong("interval", "must be at most a year");
        }
        if self.batch.is_some_and(|batch| batch == 0 || batch > 1000) {
            return wrong("batch", "must be 1 to 1000");
        }
        if self.backlog_max == 0 {
            return wrong("backlog_max", "must be at least 1");
        }
        if self.deliveries_max == 0 || self.deliveries_max > 1000 {
            return wrong("deliveries_max", "must be 1 to 1000");
        }
        if self.group_concurrency == 0 || self.group_concurrency > 10_000 {
            return wrong("group_concurrency", "must be 1 to 10000");
        }
        if let Some(Err(why)) = self.limits.map(|limits| limits.check()) {
            return wrong("limits", &why);
        }
        if self.errors_max == Some(0) {
            return wrong("errors_max", "must be at least 1");
        }
        if self.retries > Self::RETRIES_MAX {
            return wrong("retries", "must be at most 1000");
        }
        if self.backoff > Self::BACKOFF_MAX {
            return wrong("backoff", "must be at most 10m");
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return wrong("timeout", "must be more than 0");
        }
        if self.replicas > Self::REPLICAS_MAX {
            return wrong("replicas", "must be at most 100");
        }
        if self.messages.is_some_and(|messages| messages > 1 << 53) {
            return wrong("messages", "must be at most 2^53");
        }
        Ok(())
    }

    pub(crate) fn may_generate(&self) -> bool {
        self.prefer != Prefer::Never && !self.burst
    }

    /// The lease, as the store takes it.
    #[must_use]
    pub fn lease_ms(&self) -> u64 {
        ms(self.lease)
    }

    /// The crown's lease: a sixth of a node's, so that about half of all takeovers miss no tick where only leases tell of a death: over
    /// 100 kills the median gap was 538 ms then, with a fifth 600 ms.
    #[must_use]
    pub fn crown_ms(&self) -> u64 {
        self.lease_ms() / 6
    }

    /// The furthest one look may move the hive clock while this node has the crown: half the crown's lease, so that no pause or
    /// jump deposes it.
    #[must_use]
    pub fn step_ms(&self) -> u64 {
        self.crown_ms() / 2
    }

    /// A handler's beat.
    #[must_use]
    pub fn beat_ms(&self) -> u64 {
        self.lease_ms() / 4
    }

    /// That of a handler whose death others see at once: fewer calls cost less, and they still move the hive clock, which needs three in a
    /// lease.
    #[must_use]
    pub fn watched_beat_ms(&self) -> u64 {
        self.lease_ms() * 3 / 10
    }

    /// How long a message waits that has failed `failures` times before: doubling, and never all at once, somewhere between
    /// half and the whole of it.
    #[must_use]
    pub fn backoff_after(&self, failures: u16) -> Duration {
        let doubled = self.backoff.saturating_mul(1 << failures.min(30));
        doubled.min(Self::BACKOFF_MAX).mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Time between messages, as the store takes it.
    #[must_use]
    pub fn interval_ms(&self) -> u64 {
        ms(self.interval)
    }
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_ten_minutes_and_differ() {
        let settings = Settings::default();
        for (failures, most) in [(0, 1), (1, 2), (4, 16), (9, 512), (10, 600), (65_535, 600)] {
            let most = Duration::from_secs(most);
            let waits: Vec<Duration> = (0..50).map(|_| settings.backoff_after(failures)).collect();
            assert!(waits.iter().all(|wait| *wait >= most / 2 && *wait <= most), "{waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]), "all at once: {waits:?}");
        }
        let at_once = Settings {
            backoff: Duration::ZERO,
            ..Settings::default()
        };
        assert_eq!(at_once.backoff_after(3), Duration::ZERO);
    }
}
