//! Publishes that are not told yet: not answered, or, with `--replicas`, not known to be there to stay.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::course::Course;
use super::id;

/// So many publishes may be untold, in all shards together; each record tells of all of them.
const UNTOLD_MAX: usize = 96;

/// How many of them each of so many shards may have.
pub(super) fn most_of(shards: usize) -> usize {
    (UNTOLD_MAX / shards).max(1)
}

#[derive(Default)]
pub(super) struct Untold(Vec<One>);

struct One {
    shard: usize,
    /// The serial number of its record.
    serial: u64,
    /// Grows when it is told.
    told: Arc<AtomicU64>,
    sent: Instant,
}

impl Untold {
    /// A publish is sent. What is returned is to grow when it is told.
    pub(super) fn add(&mut self, shard: usize, serial: u64) -> Arc<AtomicU64> {
        let told = Arc::new(AtomicU64::new(0));
        self.0.push(One {
            shard,
            serial,
            told: told.clone(),
            sent: Instant::now(),
        });
        told
    }

    /// Notes what was told. A shard other than the home shard in which that takes longer than this is closed, so that the next generator need not wait for
    /// it either.
    pub(super) fn look(&mut self, course: &mut Course, patience: Duration) {
        let now = Instant::now();
        self.0.retain(|one| {
            let (shard, told) = (id(one.shard), one.told.load(Ordering::Relaxed) > 0);
            if told {
                course.kept(shard, one.serial);
            } else if shard > 0 && now > one.sent + patience && course.has_room() {
                course.overtake(shard);
            }
            !told
        });
    }

    /// What was last sent to this shard is not waited for any more.
    pub(super) fn forget_last(&mut self, shard: usize) {
        if let Some(at) = self.0.iter().rposition(|one| one.shard == shard) {
            self.0.remove(at);
        }
    }

    /// Nor is anything else that was.
    pub(super) fn forget_all(&mut self, shard: usize) {
        self.0.retain(|one| one.shard != shard);
    }
}
