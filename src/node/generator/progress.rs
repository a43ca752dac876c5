//! The account of a reign: what was published, and what an answer of the store changes about what comes next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::batch::{Batch, PUBLISH_MESSAGES_MAX, Start};
use super::send::Sent;
use crate::engine::Publish;
use crate::message::Pack;
use crate::mutants::guard;
use crate::node::membership::Reign;
use crate::settings::Settings;

/// How many messages a publish carries after others took its numbers: the fewer, the sooner it is sent, before they push
/// again.
pub(super) const MOVED_MESSAGES_MAX: usize = 16;

/// Ticks that come faster than this are kept on a grid of the generator's own: the store counts whole milliseconds, and timers wake
/// up to two late. What is missed by less is made up for.
const CATCH_UP: Duration = Duration::from_millis(20);

/// How far a reign has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    /// The number of the next message.
    pub seq: u64,
    /// How many messages were generated and published, in all reigns.
    pub made: u64,
    /// How many messages a pack has at most.
    pub grain: u64,
    /// When the next tick is due.
    pub due: Instant,
    /// What the last message that was published left for the next one.
    pub cursor: Bytes,
    /// How many messages the next publish carries at most.
    pub most: usize,
}

/// What is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sending {
    /// The number behind its last message.
    pub next: u64,
    /// How many messages have been made with it, in all reigns.
    pub made: u64,
    /// The cursor behind its last message.
    pub cursor: Bytes,
}

/// What a reign does after a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Goes on; what was made ahead has the right numbers or not.
    GoOn { keeps_ready: bool },
    /// Makes nothing more, and waits for its end.
    AwaitEnd,
    /// Is over.
    End,
}

impl Then {
    /// As it was.
    pub(super) const ON: Self = Self::GoOn { keeps_ready: true };
}

impl Progress {
    pub(super) fn of(reign: &Reign) -> Self {
        Self {
            seq: reign.seq,
            made: reign.made,
            grain: reign.grain,
            due: reign.due,
            cursor: reign.cursor.clone(),
            most: PUBLISH_MESSAGES_MAX,
        }
    }

    /// Where the next batch begins.
    pub(super) fn start(&self, confirmed: &AtomicU64) -> Start {
        Start {
            at: self.clone(),
            confirmed: confirmed.load(Ordering::Relaxed),
        }
    }

    /// Where the batch behind this one begins.
    pub(super) fn behind(&self, sending: &Sending) -> Self {
        Self {
            seq: sending.next,
            made: sending.made,
            cursor: sending.cursor.clone(),
            ..self.clone()
        }
    }

    /// The call that publishes a batch, and what is known when it has.
    pub(super) fn publish(&self, settings: &Settings, node: &str, epoch: u64, batch: Batch) -> (Publish, Sending) {
        let sending = Sending {
            next: self.seq + batch.count(),
            made: self.made + batch.count(),
            cursor: batch.cursor.clone(),
        };
        let publish = Publish {
            node: node.to_string(),
            epoch,
            made: self.made,
            first: self.seq,
            messages: settings.messages,
            backlog_max: settings.backlog_max,
            interval_ms: settings.interval_ms(),
            cursor: (batch.cursor != self.cursor).then_some(batch.cursor),
            server: String::new(),
            again: false,
            packs: batch.packs,
        };
        (publish, sending)
    }

    /// Takes in what came of a publish.
    pub(super) fn advance(&mut self, sent: Sent, sending: Sending, interval: Duration) -> Then {
        match sent {
            Sent::Published(now) => {
                // If those behind it were applied as well, this is an answer to a repeat: they are answered next.
                let is_last = now.made <= sending.made;
                let keeps_ready = now.seq + sending.made == sending.next + now.made;
                *self = Self {
                    seq: if is_last { now.seq } else { sending.next }.max(self.seq),
                    made: now.made.min(sending.made),
                    grain: now.grain,
                    due: next_tick(self.due, now.due, interval),
                    cursor: sending.cursor,
                    most: (self.most * 2).min(PUBLISH_MESSAGES_MAX),
                };
                Then::GoOn { keeps_ready }
            }
            Sent::Moved { seq } => {
                self.seq = seq;
                self.most = MOVED_MESSAGES_MAX;
                let keeps_ready = !guard("numbered-anew");
                Then::GoOn { keeps_ready }
            }
            Sent::Finished => Then::AwaitEnd,
            Sent::Over => Then::End,
        }
    }
}

/// The tick behind one that was due at `due`; `told` is the store's word for it.
fn next_tick(due: Instant, told: Instant, interval: Duration) -> Instant {
    let next = due + interval;
    let apart = told.max(next) - told.min(next);
    if interval <= CATCH_UP && apart <= CATCH_UP {
        next
    } else {
        told
    }
}

impl Batch {
    fn count(&self) -> u64 {
        self.packs.iter().map(|pack| Pack::count(pack) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::send::Now;
    use super::*;

    /// What a reign knows after an answer: seq, made, grain, cursor, most.
    type Known = (u64, u64, u64, &'static str, usize);

    #[test]
    fn an_answer_to_a_publish_of_ten_messages_decides_what_comes_next() {
        let due = Instant::now();
        let published = |seq| {
            Sent::Published(Now {
                seq,
                made: 60,
                grain: 5,
                due,
            })
        };
        let go_on = |keeps_ready| Then::GoOn { keeps_ready };
        let before: Known = (100, 50, 1000, "old", 32);
        let cases: [(&str, Sent, Then, Known); 6] = [
            ("alone", published(110), go_on(true), (110, 60, 5, "new", 64)),
            (
                "others pushed behind it",
                published(112),
                go_on(false),
                (112, 60, 5, "new", 64),
            ),
            (
                "a repeat, after others pushed",
                published(90),
                go_on(false),
                (100, 60, 5, "new", 64),
            ),
            (
                "others pushed before it",
                Sent::Moved { seq: 103 },
                go_on(false),
                (103, 50, 1000, "old", 16),
            ),
            ("all that are wanted", Sent::Finished, Then::AwaitEnd, before),
            ("deposed", Sent::Over, Then::End, before),
        ];
        for (case, sent, then, known) in cases {
            let mut progress = Progress {
                seq: before.0,
                made: before.1,
                grain: before.2,
                due,
                cursor: before.3.into(),
                most: before.4,
            };
            let sending = Sending {
                next: 110,
                made: 60,
                cursor: "new".into(),
            };
            assert_eq!(progress.advance(sent, sending, Duration::ZERO), then, "{case}");
            let after = (
                progress.seq,
                progress.made,
                progress.grain,
                &progress.cursor[..],
                progress.most,
            );
            assert_eq!(
                after,
                (known.0, known.1, known.2, known.3.as_bytes(), known.4),
                "{case}"
            );
        }
    }

    #[test]
    fn after_others_pushed_a_publish_grows_again_to_its_full_size() {
        let due = Instant::now();
        let mut progress = Progress {
            seq: 0,
            made: 0,
            grain: 1000,
            due,
            cursor: Bytes::new(),
            most: MOVED_MESSAGES_MAX,
        };
        for _ in 0..20 {
            let now = Now {
                seq: 0,
                made: 0,
                grain: 1000,
                due,
            };
            let sending = Sending {
                next: 0,
                made: 0,
                cursor: Bytes::new(),
            };
            progress.advance(Sent::Published(now), sending, Duration::ZERO);
        }
        assert_eq!(progress.most, PUBLISH_MESSAGES_MAX);
    }

    #[test]
    fn fast_ticks_keep_their_own_grid_and_make_up_for_what_is_missed_by_little() {
        let start = Instant::now() + Duration::from_secs(1);
        let ms = Duration::from_millis;
        let cases = [
            ("the store's milliseconds are whole", ms(1), ms(2), ms(1)),
            (
                "it was woken late, and the store has passed over three",
                ms(2),
                ms(9),
                ms(2),
            ),
            ("it was away for long", ms(2), ms(300), ms(300)),
            ("slow ticks are the store's", ms(500), ms(503), ms(503)),
        ];
        for (case, interval, told, next) in cases {
            assert_eq!(next_tick(start, start + told, interval), start + next, "{case}");
        }
    }
}
