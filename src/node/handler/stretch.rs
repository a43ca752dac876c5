//! The messages that a slot works through between two visits to the pool, and how it claims them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::message::{Message, Outcome, PACK_MESSAGES_MAX, Pack};

/// The most messages of a stretch.
const STRETCH_MESSAGES_MAX: u64 = 64;

/// How long a slot goes on before it tells the pool, and before it lets other tasks run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// How long a stretch is to take, about.
    pub stretch: Duration,
    /// After this time the slot yields, so that other tasks on this thread have their turn.
    pub turn: Duration,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            // Surely less than the first class of times that is measured.
            stretch: Duration::from_nanos(2500),
            turn: Duration::from_micros(100),
        }
    }
}

/// A run of messages that ended alike.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    pub first: u64,
    pub count: u32,
    /// The size of the payloads, which a script has to move.
    pub bytes: usize,
    pub outcome: Outcome,
}

impl Finished {
    /// Lengthens the last of these runs, or becomes one more.
    pub(super) fn add_to(self, runs: &mut Vec<Self>) {
        match runs.last_mut() {
            Some(last)
                if last.first + u64::from(last.count) == self.first
                    && (last.count + self.count) as usize <= PACK_MESSAGES_MAX
                    && last.outcome.is_plain()
                    && self.outcome.is_plain() =>
            {
                last.count += self.count;
                last.bytes += self.bytes;
            }
            _ => runs.push(self),
        }
    }
}

/// A pack whose messages are being started. Slots claim one at a time, and need no lock for it.
#[derive(Debug)]
pub(super) struct Open {
    pack: Pack,
    /// What all its messages have in common.
    sample: Message,
    count: usize,
    next: AtomicUsize,
}

impl Open {
    pub(super) fn new(pack: Pack) -> Self {
        let (sample, count) = (pack.message(0), pack.count());
        let next = AtomicUsize::new(0);
        Self {
            pack,
            sample,
            count,
            next,
        }
    }

    /// Whether its message is to be handled no more at this time of day.
    pub(super) fn has_expired(&self, time_ms: impl FnOnce() -> u64) -> Option<u64> {
        let expires_ms = self.sample.envelope.open()?.expires_ms?;
        (time_ms() >= self.sample.published_ms.saturating_add(expires_ms)).then_some(expires_ms)
    }

    /// Its first message, without the payload.
    pub(super) fn sample(&self) -> &Message {
        &self.sample
    }

    pub(super) fn pack(&self) -> &Pack {
        &self.pack
    }

    /// The index of the next message, which no other slot gets.
    #[inline]
    pub(super) fn claim(&self) -> Option<usize> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < self.count).then_some(index)
    }

    #[inline]
    pub(super) fn message(&self, index: usize) -> Message {
        Message {
            number: self.sample.number + index as u64,
            envelope: self.sample.envelope.clone(),
            // The last: what is called behind it would keep the compiler from writing it where it belongs.
            payload: self.pack.payload(index),
            ..self.sample
        }
    }

    /// The number of a message, and how many bytes its payload has.
    #[inline]
    pub(super) fn number_and_bytes(&self, index: usize) -> (u64, usize) {
        (self.sample.number + index as u64, self.pack.payload_bytes(index))
    }

    /// How many messages no slot has claimed.
    pub(super) fn left(&self) -> usize {
        self.count.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// From now on no slot can claim a message. Returns the index of the first that none has claimed.
    pub(super) fn close(&self) -> usize {
        self.next.swap(self.count, Ordering::Relaxed).min(self.count)
    }
}

/// The messages that are told to the pool together: several if they take next to no time, else one.
#[derive(Debug)]
pub(super) struct Stretch {
    pub began: Instant,
    pace_ns: u64,
    /// How many messages a stretch has at the speed of now.
    most: u64,
    /// How many may still be started in this one.
    room: u64,
    /// How many were started, and not told yet.
    pub started: u64,
    /// How many ended, and were not told yet.
    pub ended: u32,
    /// The same as runs.
    pub finished: Vec<Finished>,
    /// The number that would lengthen the last run.
    next_done: u64,
    /// When its messages were published. None if they were delivered or failed before.
    pub published_ms: Option<u64>,
}

impl Stretch {
    pub(super) fn new(pace: Turn, now: Instant) -> Self {
        Self {
            began: now,
            pace_ns: nanos(pace.stretch),
            most: 1,
            room: 0,
            started: 0,
            ended: 0,
            finished: Vec::new(),
            next_done: u64::MAX,
            published_ms: None,
        }
    }

    /// Whether there is nothing to tell the pool.
    pub(super) fn is_empty(&self) -> bool {
        self.started == 0 && self.ended == 0
    }

    pub(super) fn has_room(&self) -> bool {
        self.room > 0
    }

    pub(super) fn starts(&mut self) {
        self.started += 1;
        self.room -= 1;
    }

    /// A message is done without effects: it lengthens the last run if it has the next number.
    #[inline]
    pub(super) fn done(&mut self, number: u64, bytes: usize) {
        match self.finished.last_mut() {
            Some(run) if number == self.next_done => {
                self.next_done += 1;
                self.ended += 1;
                run.count += 1;
                run.bytes += bytes;
            }
            _ => self.ends(number, bytes, Outcome::Done(Vec::new())),
        }
    }

    pub(super) fn ends(&mut self, number: u64, bytes: usize, outcome: Outcome) {
        self.ended += 1;
        self.next_done = if outcome.is_plain() { number + 1 } else { u64::MAX };
        let run = Finished {
            first: number,
            count: 1,
            // Effects count, too: many messages with large ones must not make one call that holds everybody up.
            bytes: bytes + outcome.bytes(),
            outcome,
        };
        self.finished.push(run);
    }

    /// Starts nothing else before the message in work has ended.
    pub(super) fn rest(&mut self) {
        self.room = 0;
    }

    /// The messages that have ended are told, and took `took`. One may still be in work: nothing else is started before it
    /// has ended.
    pub(super) fn close(&mut self, took: Duration) {
        if self.ended > 0 {
            let most = self.pace_ns.saturating_mul(self.ended.into()) / nanos(took).max(1);
            self.most = most.clamp(1, STRETCH_MESSAGES_MAX.min(2 * self.most));
            self.began += took;
        }
        (self.started, self.ended, self.room) = (0, 0, 0);
    }

    /// Begins the next stretch, in this pack.
    pub(super) fn open(&mut self, pack: &Pack) {
        let first = pack.deliveries() == 1 && pack.failures() == 0;
        self.published_ms = first.then(|| pack.published_ms());
        self.room = self.most;
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    time.as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(time.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::PackBuilder;

    fn handle(stretch: &mut Stretch, number: u64) {
        stretch.starts();
        stretch.done(number, 1);
    }

    fn fill(stretch: &mut Stretch, pack: &Pack) {
        stretch.open(pack);
        for number in 0.. {
            if !stretch.has_room() {
                break;
            }
            handle(stretch, number);
        }
    }

    fn pack(count: u8) -> Pack {
        let mut builder = PackBuilder::new();
        for i in 0..count {
            builder.push(&[i]);
        }
        builder.build(100, 1, 7)
    }

    #[test]
    fn every_message_is_claimed_once_or_given_back() {
        let open = Open::new(pack(200));
        let claimed: Vec<u64> = std::thread::scope(|scope| {
            let claim = || {
                let claimed = std::iter::from_fn(|| open.claim());
                let numbers = claimed.map(|index| open.message(index).number);
                numbers.take(60).collect::<Vec<_>>()
            };
            let slots: Vec<_> = (0..3).map(|_| scope.spawn(claim)).collect();
            slots.into_iter().flat_map(|slot| slot.join().unwrap()).collect()
        });
        assert_eq!(open.left(), 20);
        let mut all: Vec<u64> = claimed;
        all.extend(100 + open.close() as u64..300);
        all.sort_unstable();
        assert_eq!(all, (100..300).collect::<Vec<_>>());
        assert!(open.claim().is_none());
        assert_eq!((open.left(), open.close()), (0, 200));
    }

    #[test]
    fn a_stretch_grows_while_messages_take_no_time_and_is_one_message_at_once_when_they_do() {
        let (now, pack) = (Instant::now(), pack(1));
        let mut stretch = Stretch::new(Turn::default(), now);
        let mut lengths = Vec::new();
        for _ in 0..8 {
            fill(&mut stretch, &pack);
            lengths.push(stretch.ended);
            stretch.close(Duration::from_nanos(20) * stretch.ended);
        }
        assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 64, 64]);
        fill(&mut stretch, &pack);
        stretch.close(Duration::from_millis(1));
        stretch.open(&pack);
        handle(&mut stretch, 1);
        assert!(!stretch.has_room(), "one message, to be on the safe side");
        // A microsecond each: two at a time are told.
        for _ in 0..5 {
            stretch.close(Duration::from_micros(1) * stretch.ended);
            fill(&mut stretch, &pack);
        }
        assert_eq!(stretch.ended, 2);
    }

    #[test]
    fn a_message_that_is_waited_for_begins_where_the_others_ended_and_is_the_last_of_its_stretch() {
        let (now, pack) = (Instant::now(), pack(1));
        let mut stretch = Stretch::new(Turn::default(), now);
        stretch.most = 64;
        stretch.open(&pack);
        for number in 0..3 {
            handle(&mut stretch, number);
        }
        stretch.starts();
        stretch.close(Duration::from_micros(1));
        assert!(stretch.is_empty() && !stretch.has_room());
        assert_eq!(stretch.began, now + Duration::from_micros(1));
        stretch.close(Duration::from_secs(1));
        assert_eq!(stretch.began, now + Duration::from_micros(1), "it goes on");
    }
}
