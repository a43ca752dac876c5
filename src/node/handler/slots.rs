//! The slots of a node that works on several shards. Each shard has a lane and a pool of its own, and all of them share as many slots as a
//! node has: whoever has messages and no slot stands in line, and a slot goes to the first of them at the end of its pack.
//!
//! They also share the room for messages that wait for a slot. A call costs the same whatever it brings, so the room is not split into a small
//! part for each lane: one lane asks for all of it, for as long as its turn lasts, and then the next one that waits for room.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a lane may ask for more while others wait for room, if it has made as many calls as in [`TURN_CALLS`] by then.
const TURN: Duration = Duration::from_millis(10);
/// With fewer calls than this a turn goes on: to go on to the next lane costs two, since one lane settles and does not take, and the other takes
/// and does not settle.
const TURN_CALLS: u32 = 64;
/// But not for longer than this.
const TURN_MAX: Duration = Duration::from_millis(100);

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
    /// Lanes that would ask for messages if there were room, or if it were their turn. None of them is in a call.
    waiting: VecDeque<usize>,
    /// Lanes whose shards are empty, and that would wait for the bell if there were room for what it brings.
    starved: Vec<bool>,
    /// The lane that may ask now, and until when: others may not even while it has no call on its way, since its next one both settles and takes.
    turn: Option<Turn>,
    /// How many messages may wait for a slot, as the lane found that looked last.
    ahead: usize,
    /// Lanes whose shard is empty, and that have nothing in hand.
    idle: Vec<bool>,
}

/// A lane's turn to ask for messages.
#[derive(Debug, Clone, Copy)]
struct Turn {
    lane: usize,
    began: Instant,
    calls: u32,
}

impl Turn {
    fn until(&self) -> Instant {
        self.began + if self.calls < TURN_CALLS { TURN_MAX } else { TURN }
    }
}

impl Inner {
    /// Whose turn it is.
    fn turn_at(&self, now: impl FnOnce() -> Instant) -> Option<Turn> {
        self.turn.filter(|turn| now() < turn.until())
    }
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
                waiting: VecDeque::new(),
                starved: vec![false; lanes],
                turn: None,
                ahead: 0,
                idle: vec![false; lanes],
            }),
            woken: (0..lanes).map(|_| Notify::new()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.slots.wake_starved(&mut inner);
        self.slots.wake_waiting(&inner, Instant::now);
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

    /// This lane has so many messages here. Returns how many the others have, or have asked for.
    pub(super) fn others(&self, held: usize) -> usize {
        let mut inner = self.slots.lock();
        let before = std::mem::replace(&mut inner.held[self.lane], held);
        if held < before {
            self.slots.wake_starved(&mut inner);
            self.slots.wake_waiting(&inner, Instant::now);
        }
        let others = |all: &[usize]| all.iter().sum::<usize>() - all[self.lane];
        others(&inner.held) + others(&inner.asked)
    }

    /// How many messages may wait for a slot here: as its own speed says, or, if it has handled nothing yet, as that of another lane did.
    pub(super) fn ahead(&self, own: Option<usize>) -> usize {
        let mut inner = self.slots.lock();
        if let Some(own) = own {
            inner.ahead = own;
        }
        inner.ahead
    }

    /// Whether this lane may ask for messages, if there is room enough. If not, it waits for its turn, and is woken; it looks again at the
    /// time that is told: then the turn of another is over. One that does not ask, but waits for the bell, needs room and no turn.
    pub(super) fn may_ask(&self, has_room: bool, asks: bool, now: Instant) -> (bool, Option<Instant>) {
        let mut inner = self.slots.lock();
        if !asks {
            inner.starved[self.lane] = !has_room;
            self.slots.leave(&mut inner, self.lane, || now);
            return (has_room, None);
        }
        let turn = inner.turn_at(|| now);
        let is_first = inner.waiting.front().is_none_or(|first| *first == self.lane);
        let may = match turn {
            Some(turn) => turn.lane == self.lane,
            None => is_first,
        };
        if has_room && may {
            return (true, None);
        }
        if !inner.waiting.contains(&self.lane) {
            inner.waiting.push_back(self.lane);
        }
        if has_room && turn.is_none() {
            self.slots.wake_waiting(&inner, || now);
        }
        (false, turn.map(|turn| turn.until()))
    }

    /// A call that asks for so many is sent: it is this lane's turn, and until the call is answered it waits for nothing else.
    pub(super) fn asks(&self, count: usize, now: Instant) {
        let mut inner = self.slots.lock();
        match &mut inner.turn {
            Some(turn) if turn.lane == self.lane && now < turn.until() => turn.calls += 1,
            turn if count > 0 => {
                *turn = Some(Turn {
                    lane: self.lane,
                    began: now,
                    calls: 1,
                });
            }
            _ => {}
        }
        inner.asked[self.lane] += count;
        self.slots.leave(&mut inner, self.lane, || now);
    }

    /// The lane is in a call: it leaves its place in the line to the next.
    pub(super) fn steps_back(&self) {
        self.slots.leave(&mut self.slots.lock(), self.lane, Instant::now);
    }

    /// The lane asks for nothing now: if it is its turn, that is over.
    pub(super) fn passes(&self) {
        let mut inner = self.slots.lock();
        let had_turn = inner.turn.is_some_and(|turn| turn.lane == self.lane);
        if had_turn {
            inner.turn = None;
        }
        self.slots.leave(&mut inner, self.lane, Instant::now);
        if had_turn {
            self.slots.wake_waiting(&inner, Instant::now);
        }
    }

    /// A call that asked for so many was answered.
    pub(super) fn answered(&self, count: usize) {
        let mut inner = self.slots.lock();
        let asked = &mut inner.asked[self.lane];
        *asked = asked.saturating_sub(count);
        self.slots.wake_starved(&mut inner);
        self.slots.wake_waiting(&inner, Instant::now);
    }

    /// Notes whether this lane has nothing to do. True: nor has any other, and they are told.
    pub(super) fn all_idle(&self, idle: bool) -> bool {
        let mut inner = self.slots.lock();
        let was_idle = std::mem::replace(&mut inner.idle[self.lane], idle);
        let all = inner.idle.iter().all(|idle| *idle);
        if all && !was_idle {
            self.slots.woken.iter().for_each(Notify::notify_one);
        }
        all
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

    /// Takes a lane out of the line of those that wait for room.
    fn leave(&self, inner: &mut Inner, lane: usize, now: impl FnOnce() -> Instant) {
        let was_first = inner.waiting.front() == Some(&lane);
        inner.waiting.retain(|other| *other != lane);
        if was_first {
            self.wake_waiting(inner, now);
        }
    }

    /// There may be room for what the bell brings.
    fn wake_starved(&self, inner: &mut Inner) {
        for (lane, starved) in inner.starved.iter_mut().enumerate() {
            if std::mem::take(starved) {
                self.woken[lane].notify_one();
            }
        }
    }

    /// There may be room. Who is woken and does not ask passes it on. While it is the turn of another nobody is woken: that one may ask for what each
    /// of its messages leaves, and whoever waits looks again when its turn is over.
    fn wake_waiting(&self, inner: &Inner, now: impl FnOnce() -> Instant) {
        if let Some(lane) = inner.waiting.front()
            && inner.turn_at(now).is_none_or(|turn| turn.lane == *lane)
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
        let (lanes, now) = (shares(4, 2), Instant::now());
        assert_eq!(lanes[0].others(0), 0);
        lanes[0].asks(3, now);
        assert_eq!(lanes[1].others(0), 3);
        lanes[0].asks(2, now);
        assert_eq!(lanes[1].others(0), 5);
        lanes[0].answered(2);
        lanes[0].answered(3);
        assert_eq!(lanes[0].others(2), 0);
        assert_eq!(lanes[1].others(1), 2);
        assert!(!lanes[0].all_idle(true) && !lanes[1].all_idle(false));
        assert!(lanes[1].all_idle(true));
    }

    /// Whether a lane was woken.
    fn is_woken(share: &Share) -> bool {
        use futures_util::FutureExt as _;
        share.woken().now_or_never().is_some()
    }

    #[test]
    fn a_lane_asks_for_all_the_room_until_its_turn_is_over_and_others_wait() {
        let (lanes, now) = (shares(1, 3), Instant::now());
        let may = |lane: usize, has_room, now| lanes[lane].may_ask(has_room, true, now).0;
        assert!(may(0, true, now));
        lanes[0].asks(1, now);
        assert!(!may(1, false, now) && !may(2, false, now));
        lanes[0].answered(1);
        // Its message is done, and its next call is not sent yet.
        assert_eq!(lanes[1].may_ask(true, true, now), (false, Some(now + TURN_MAX)));
        for _ in 1..TURN_CALLS {
            assert!(may(0, true, now + TURN), "its turn lasts");
            lanes[0].asks(1, now + TURN / 2);
            lanes[0].answered(1);
        }
        assert!(
            !is_woken(&lanes[1]),
            "nothing that it does in its turn concerns the others"
        );
        assert!(!may(0, true, now + TURN), "others wait");
        assert!(is_woken(&lanes[1]) && !is_woken(&lanes[2]));
        assert!(!may(2, true, now + TURN), "the other came first");
        assert!(may(1, true, now + TURN));
        lanes[1].asks(1, now + TURN);
        assert!(!is_woken(&lanes[2]), "it is the turn of another again");
        assert!(!may(2, true, now + TURN));
        // One that has nothing to ask for ends its turn.
        lanes[1].passes();
        assert!(is_woken(&lanes[2]) && may(2, true, now + TURN));
    }

    #[test]
    fn a_lane_that_waits_for_the_bell_needs_room_and_no_turn() {
        let (lanes, now) = (shares(1, 3), Instant::now());
        lanes[0].asks(1, now);
        assert!(!lanes[1].may_ask(false, true, now).0 && !lanes[2].may_ask(false, false, now).0);
        assert!(!is_woken(&lanes[1]) && !is_woken(&lanes[2]));
        lanes[0].answered(1);
        assert!(!is_woken(&lanes[1]) && is_woken(&lanes[2]));
        // It is not in the way of others, however often it looks.
        assert!(lanes[2].may_ask(true, false, now).0);
        assert!(!is_woken(&lanes[1]));
    }

    #[test]
    fn a_lane_that_has_handled_nothing_yet_knows_how_fast_the_others_are() {
        let lanes = shares(1, 2);
        assert_eq!((lanes[0].ahead(None), lanes[0].ahead(Some(7))), (0, 7));
        assert_eq!(
            (lanes[1].ahead(None), lanes[1].ahead(Some(3)), lanes[0].ahead(None)),
            (7, 3, 3)
        );
    }
}
