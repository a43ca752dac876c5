//! The slots of a node that works on several shards. Each shard has a lane and a pool of its own, and all of them share as many slots as a
//! node has: whoever has messages and no slot stands in line, and a slot goes to the first of them at the end of its pack.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Slots {
    limit: usize,
    inner: Mutex<Inner>,
    /// Wakes a lane: a slot is free for it, or there is room for more messages.
    woken: Vec<Notify>,
}

#[derive(Debug)]
struct Inner {
    busy: usize,
    /// Lanes with messages that wait for a slot.
    line: VecDeque<usize>,
    /// How many messages each lane has in the node, and has asked for.
    held: Vec<usize>,
    asked: Vec<usize>,
    /// Lanes that would ask for messages if the others had fewer.
    starved: Vec<bool>,
    /// Lanes whose shard is empty, and that have nothing in hand.
    idle: Vec<bool>,
}

/// The slots of all lanes, and which lane this is.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub slots: std::sync::Arc<Slots>,
    pub lane: usize,
}

impl Slots {
    /// For this many lanes.
    pub(crate) fn new(limit: usize, lanes: usize) -> Self {
        Self {
            limit,
            inner: Mutex::new(Inner {
                busy: 0,
                line: VecDeque::new(),
                held: vec![0; lanes],
                asked: vec![0; lanes],
                starved: vec![false; lanes],
                idle: vec![false; lanes],
            }),
            woken: (0..lanes).map(|_| Notify::new()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lanes(&self) -> usize {
        self.woken.len()
    }
}

impl Share {
    /// How many slots may be started for so many messages that wait. If there is none, the lane stands in line.
    pub(super) fn start(&self, ready: usize) -> usize {
        let Self { slots, lane } = self;
        let mut inner = slots.lock();
        let is_next = inner.line.front().is_none_or(|first| first == lane);
        let count = if is_next {
            ready.min(slots.limit.saturating_sub(inner.busy))
        } else {
            0
        };
        inner.busy += count;
        if ready == 0 || count > 0 {
            inner.line.retain(|other| other != lane);
        } else if !inner.line.contains(lane) {
            inner.line.push_back(*lane);
        }
        slots.wake_next(&inner);
        count
    }

    /// So many slots have ended.
    pub(super) fn end(&self, count: usize) {
        let mut inner = self.slots.lock();
        inner.busy = inner.busy.saturating_sub(count);
        self.slots.wake_next(&inner);
        for (lane, starved) in inner.starved.iter_mut().enumerate() {
            if std::mem::take(starved) {
                self.slots.woken[lane].notify_one();
            }
        }
    }

    /// Whether a slot is to end at the end of its pack, since other lanes wait for one.
    pub(super) fn gives_way(&self) -> bool {
        self.slots.lock().line.iter().any(|lane| *lane != self.lane)
    }

    /// Whether every slot is busy.
    pub(super) fn are_busy(&self) -> bool {
        let inner = self.slots.lock();
        inner.busy >= self.slots.limit
    }

    /// How many messages the other lanes have, or have asked for, while this one has so many. If there is no room beside them, the lane is woken
    /// when there is.
    pub(super) fn others(&self, held: usize) -> usize {
        let mut inner = self.slots.lock();
        inner.held[self.lane] = held;
        let others = |all: &[usize]| all.iter().sum::<usize>() - all[self.lane];
        let others = others(&inner.held) + others(&inner.asked);
        inner.starved[self.lane] = others + held >= self.slots.limit;
        others
    }

    /// A call asks for so many.
    pub(super) fn asks(&self, count: usize) {
        self.slots.lock().asked[self.lane] += count;
    }

    /// One that asked for so many was answered.
    pub(super) fn answered(&self, count: usize) {
        let mut inner = self.slots.lock();
        let asked = &mut inner.asked[self.lane];
        *asked = asked.saturating_sub(count);
        for (lane, starved) in inner.starved.iter_mut().enumerate() {
            if lane != self.lane && std::mem::take(starved) {
                self.slots.woken[lane].notify_one();
            }
        }
    }

    /// Notes whether this lane has nothing to do. True: nor has any other.
    pub(super) fn all_idle(&self, idle: bool) -> bool {
        let mut inner = self.slots.lock();
        inner.idle[self.lane] = idle;
        inner.idle.iter().all(|idle| *idle)
    }

    /// Returns when this lane may get a slot, or may ask for messages.
    pub(super) async fn woken(&self) {
        self.slots.woken[self.lane].notified().await;
    }
}

impl Slots {
    fn wake_next(&self, inner: &Inner) {
        if let Some(lane) = inner.line.front()
            && inner.busy < self.limit
        {
            self.woken[*lane].notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn shares(limit: usize, lanes: usize) -> Vec<Share> {
        let slots = Arc::new(Slots::new(limit, lanes));
        let share = |lane| Share {
            slots: slots.clone(),
            lane,
        };
        (0..lanes).map(share).collect()
    }

    #[test]
    fn lanes_that_wait_get_their_slots_in_turn() {
        let lanes = shares(2, 3);
        assert_eq!(lanes[0].start(5), 2);
        assert_eq!((lanes[1].start(1), lanes[2].start(4)), (0, 0));
        assert!(lanes[0].gives_way() && lanes[0].are_busy());
        lanes[0].end(1);
        assert_eq!(lanes[0].start(3), 0, "others came first");
        assert_eq!((lanes[2].start(4), lanes[1].start(1)), (0, 1));
        lanes[0].end(1);
        assert_eq!((lanes[2].start(4), lanes[0].start(3)), (1, 0));
        lanes[1].end(1);
        assert_eq!((lanes[0].start(3), lanes[2].gives_way()), (1, false));
    }

    #[test]
    fn what_one_lane_has_or_asks_for_leaves_no_room_to_the_others() {
        let lanes = shares(4, 2);
        assert_eq!(lanes[0].others(0), 0);
        lanes[0].asks(3);
        assert_eq!(lanes[1].others(0), 3);
        lanes[0].asks(2);
        assert_eq!(lanes[1].others(0), 5);
        lanes[0].answered(2);
        lanes[0].answered(3);
        assert_eq!(lanes[0].others(2), 0);
        assert_eq!(lanes[1].others(1), 2);
        assert!(!lanes[0].all_idle(true) && !lanes[1].all_idle(false));
        assert!(lanes[1].all_idle(true));
    }
}
