//! The tables of cases: what a lane sees, and what it does.

use super::*;

const LEASE: Duration = Duration::from_secs(2);

/// An idle handler: an empty queue, nothing in hand, room for one message, a tenth of a second after its last call.
fn idle(called: Instant) -> Seen {
    Seen {
        accepts: true,
        stopping: false,
        burst: false,
        holds: false,
        flies: false,
        dry: true,
        held_until: None,
        rung: false,
        heeded: false,
        pool: PoolSeen {
            want: 1,
            settles: false,
            ready: false,
            stuck: false,
            wake: None,
        },
        lease: LEASE,
        called,
        now: called + Duration::from_millis(100),
    }
}

/// One message in work, and no room for another.
fn busy(called: Instant) -> Seen {
    let mut seen = idle(called);
    seen.holds = true;
    seen.pool.want = 0;
    seen
}

const CALL: Next = Next::Call {
    gives_back: false,
    listens: false,
};
const GIVE_BACK: Next = Next::Call {
    gives_back: true,
    listens: false,
};

/// Nothing to say, and nothing to listen for: until the lane has been silent for long.
const SILENT: Wait = Wait(4 * 2000, false);
/// Not yet worth listening.
const SOON: Wait = Wait(1, false);

/// A pause until so many milliseconds after the last call, and whether the lane listens.
#[derive(Clone, Copy)]
struct Wait(u64, bool);

trait Expected {
    fn after(&self, called: Instant) -> Next;
}

impl Expected for Next {
    fn after(&self, _: Instant) -> Next {
        *self
    }
}

impl Expected for Wait {
    fn after(&self, called: Instant) -> Next {
        Next::Pause {
            until: called + Duration::from_millis(self.0),
            listens: self.1,
        }
    }
}

/// What it is about; the lane before; what is different; what it does.
type Case<'a> = (&'static str, fn(Instant) -> Seen, fn(&mut Seen), &'a dyn Expected);

fn holds(cases: &[Case]) {
    let called = Instant::now();
    for (case, seen, change, expected) in cases {
        let mut seen = seen(called);
        change(&mut seen);
        assert_eq!(next(&seen), expected.after(called), "{case}: {seen:?}");
    }
}

#[test]
#[rustfmt::skip]
fn with_nothing_in_hand_a_lane_waits_for_the_bell_or_takes() {
    holds(&[
        ("the queue is empty: the bell makes the call", idle, |_| {}, &Next::AwaitWork),
        ("the bell rang", idle, |seen| seen.rung = true, &CALL),
        ("the listener would answer the bell: wait until it is gone", idle, |seen| seen.heeded = true, &SILENT),
        ("the same right after a call", idle, |seen| (seen.heeded, seen.now) = (true, seen.called), &SOON),
        ("the last take left messages", idle, |seen| seen.dry = false, &CALL),
        ("this node generates", idle, |seen| (seen.accepts, seen.pool.want) = (false, 0), &SILENT),
        ("silent for four leases", idle, |seen| seen.now = seen.called + 4 * LEASE, &CALL),
    ]);
}

#[test]
#[rustfmt::skip]
fn with_room_for_more_a_lane_takes_or_listens() {
    holds(&[
        ("the last take left messages", busy, |seen| (seen.dry, seen.pool.want) = (false, 1), &CALL),
        ("the same without room", busy, |seen| seen.dry = false, &SILENT),
        ("just called: most are done before it is worth listening", busy,
            |seen| (seen.pool.want, seen.now) = (1, seen.called), &SOON),
        ("a while later: listen", busy, |seen| seen.pool.want = 1, &Wait(8000, true)),
        ("the bell rang: take, and go on listening", busy, |seen| (seen.pool.want, seen.rung) = (1, true),
            &Next::Call { gives_back: false, listens: true }),
    ]);
}

#[test]
#[rustfmt::skip]
fn while_calls_are_on_their_way_more_follow_and_nobody_waits_at_the_bell() {
    holds(&[
        ("the last take left messages", busy, |seen| (seen.flies, seen.dry, seen.pool.want) = (true, false, 1), &CALL),
        ("the last take emptied the queue", idle, |seen| seen.flies = true, &SILENT),
        ("the same with one in work", busy, |seen| (seen.flies, seen.pool.want) = (true, 1), &SILENT),
        ("to stop", idle, |seen| (seen.flies, seen.stopping, seen.accepts, seen.pool.want) = (true, true, false, 0), &SILENT),
        ("a burst, the queue is empty", idle, |seen| (seen.flies, seen.burst) = (true, true), &SILENT),
    ]);
}

#[test]
#[rustfmt::skip]
fn outcomes_are_settled_when_they_are_due() {
    holds(&[
        ("now", busy, |seen| seen.pool.settles = true, &CALL),
        ("in 3 ms", busy, |seen| seen.pool.wake = Some(seen.now + Duration::from_millis(3)), &Wait(103, false)),
        ("later than a lane may be silent", busy, |seen| seen.pool.wake = Some(seen.called + 5 * LEASE), &SILENT),
        ("never, and the lane was silent for four leases", busy, |seen| seen.now = seen.called + 4 * LEASE, &CALL),
    ]);
}

#[test]
#[rustfmt::skip]
fn messages_that_wait_in_vain_are_given_back() {
    holds(&[
        ("every slot is stuck", busy, |seen| (seen.pool.stuck, seen.pool.ready) = (true, true), &GIVE_BACK),
        ("stuck, and none waits", busy, |seen| seen.pool.stuck = true, &SILENT),
        ("this node generates now", busy, |seen| (seen.accepts, seen.pool.ready) = (false, true), &GIVE_BACK),
        ("it generates, and none waits", busy, |seen| seen.accepts = false, &SILENT),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_lane_ends_with_empty_hands() {
    holds(&[
        ("to stop", idle, |seen| (seen.stopping, seen.accepts, seen.pool.want) = (true, false, 0), &Next::Stop),
        ("to stop, one in work", busy, |seen| (seen.stopping, seen.accepts) = (true, false), &SILENT),
        ("to stop, and it is done", busy,
            |seen| (seen.stopping, seen.accepts, seen.pool.settles) = (true, false, true), &GIVE_BACK),
        ("a burst, the queue is empty", idle, |seen| seen.burst = true, &Next::Stop),
        ("a burst, one in work", busy, |seen| seen.burst = true, &SILENT),
        ("a burst, the queue is not empty", idle, |seen| (seen.burst, seen.dry) = (true, false), &CALL),
    ]);
}

#[test]
fn a_lane_that_a_limit_holds_back_waits_for_its_time_or_the_bell() {
    let called = Instant::now();
    let mut seen = idle(called);
    (seen.dry, seen.held_until) = (false, Some(called + Duration::from_millis(300)));
    assert_eq!(next(&seen), Next::AwaitWork);
    seen.burst = true;
    assert_eq!(next(&seen), Next::AwaitWork, "there is more");
    seen.holds = true;
    let until = called + Duration::from_millis(300);
    assert_eq!(next(&seen), Next::Pause { until, listens: true });
    let at_bell = Next::Call {
        gives_back: false,
        listens: true,
    };
    seen.rung = true;
    assert_eq!(next(&seen), at_bell);
    seen.rung = false;
    seen.now = until;
    assert_eq!(next(&seen), CALL, "its time has come");
}

/// Every combination: a lane never waits while there is something to do, and never for longer than it may be silent.
#[test]
fn whatever_a_lane_sees_it_neither_sleeps_over_work_nor_turns_in_circles() {
    let called = Instant::now();
    for bits in 0..1u32 << 12 {
        let bit = |at: u32| bits >> at & 1 == 1;
        let now = called + if bit(10) { LEASE } else { Duration::ZERO };
        let seen = Seen {
            accepts: bit(0),
            stopping: bit(1),
            burst: bit(2),
            holds: bit(3),
            flies: bit(11),
            dry: bit(4),
            held_until: None,
            rung: bit(5),
            heeded: bit(6),
            pool: PoolSeen {
                want: u32::from(bit(0) && bit(7)),
                settles: bit(8),
                ready: bit(9),
                stuck: bit(9) && bit(7),
                wake: None,
            },
            lease: LEASE,
            called,
            now,
        };
        match next(&seen) {
            Next::Stop => assert!(!seen.holds && !seen.flies, "{seen:?}"),
            Next::Call { gives_back, listens } => {
                assert!(!gives_back || !seen.accepts || seen.pool.stuck, "{seen:?}");
                assert!(!listens || seen.holds && seen.dry && !seen.flies, "{seen:?}");
            }
            Next::AwaitWork => {
                assert!(
                    !seen.holds && !seen.flies && seen.dry && seen.accepts && !seen.heeded,
                    "{seen:?}"
                );
            }
            Next::Pause { until, .. } => {
                assert!(until > now && until <= called + 4 * LEASE, "{seen:?}");
                assert!(!seen.pool.settles && !seen.rung, "{seen:?}");
                assert!(seen.dry || seen.pool.want == 0, "{seen:?}");
            }
        }
    }
}
