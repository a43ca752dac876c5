//! The table of cases: what a lane sees, and what it does.

use super::*;

const LEASE: Duration = Duration::from_secs(2);

/// An idle handler: an empty queue, nothing in hand, room for one message, a tenth of a second after its last call.
fn idle(called: Instant) -> Seen {
    Seen {
        accepts: true,
        stopping: false,
        burst: false,
        holds: false,
        dry: true,
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

#[test]
fn a_lane_does_what_the_table_says() {
    let called = Instant::now();
    let silent = called + 4 * LEASE;
    let soon = called + LISTEN_AFTER;
    let pause = |until| Next::Pause { until, listens: false };
    type Case = (&'static str, fn(Instant) -> Seen, fn(&mut Seen), Next);
    let cases: Vec<Case> = vec![
        // An empty queue.
        ("idle: the bell makes the call", idle, |_| {}, Next::AwaitWork),
        ("idle, the bell rang: take", idle, |seen| seen.rung = true, CALL),
        (
            "idle, but the listener would answer the bell: wait until it is gone",
            idle,
            |seen| seen.heeded = true,
            pause(silent),
        ),
        (
            "idle and just called, the listener is still there",
            idle,
            |seen| (seen.heeded, seen.now) = (true, seen.called),
            pause(soon),
        ),
        // A queue with more in it.
        ("the last take left messages: take", idle, |seen| seen.dry = false, CALL),
        (
            "the same with messages in hand",
            busy,
            |seen| (seen.dry, seen.pool.want) = (false, 1),
            CALL,
        ),
        (
            "no room for any: wait for a slot",
            busy,
            |seen| seen.dry = false,
            pause(silent),
        ),
        // Messages in hand, room for more, and an empty queue.
        (
            "just called: most are done before it is worth listening",
            busy,
            |seen| (seen.pool.want, seen.now) = (1, seen.called),
            pause(soon),
        ),
        (
            "a while later: listen",
            busy,
            |seen| seen.pool.want = 1,
            Next::Pause {
                until: silent,
                listens: true,
            },
        ),
        (
            "it rang: take, and go on listening",
            busy,
            |seen| (seen.pool.want, seen.rung) = (1, true),
            Next::Call {
                gives_back: false,
                listens: true,
            },
        ),
        // Outcomes.
        ("outcomes are due: settle", busy, |seen| seen.pool.settles = true, CALL),
        (
            "they are due at a time: wait for that",
            busy,
            |seen| seen.pool.wake = Some(seen.now + Duration::from_millis(3)),
            pause(called + Duration::from_millis(103)),
        ),
        (
            "due later than the lane may be silent",
            busy,
            |seen| seen.pool.wake = Some(seen.called + 5 * LEASE),
            pause(silent),
        ),
        // What waits behind a slow message.
        (
            "every slot is stuck: give back what waits",
            busy,
            |seen| (seen.pool.stuck, seen.pool.ready) = (true, true),
            GIVE_BACK,
        ),
        (
            "stuck, and nothing waits",
            busy,
            |seen| seen.pool.stuck = true,
            pause(silent),
        ),
        (
            "this node generates now: give back what waits",
            busy,
            |seen| (seen.accepts, seen.pool.ready) = (false, true),
            GIVE_BACK,
        ),
        (
            "it generates, and one is in work",
            busy,
            |seen| seen.accepts = false,
            pause(silent),
        ),
        (
            "it generates, nothing in hand",
            idle,
            |seen| (seen.accepts, seen.pool.want) = (false, 0),
            pause(silent),
        ),
        // Four leases without a call.
        (
            "silent for long: call",
            busy,
            |seen| seen.now = seen.called + 4 * LEASE,
            CALL,
        ),
        (
            "the same with an empty hand",
            idle,
            |seen| seen.now = seen.called + 4 * LEASE,
            CALL,
        ),
        // The end.
        (
            "to stop, nothing in hand",
            idle,
            |seen| (seen.stopping, seen.accepts, seen.pool.want) = (true, false, 0),
            Next::Stop,
        ),
        (
            "to stop, and one is in work: finish it",
            busy,
            |seen| (seen.stopping, seen.accepts) = (true, false),
            pause(silent),
        ),
        (
            "to stop, and it is done: settle it",
            busy,
            |seen| (seen.stopping, seen.accepts, seen.pool.settles) = (true, false, true),
            GIVE_BACK,
        ),
        (
            "a burst, and the queue is empty",
            idle,
            |seen| seen.burst = true,
            Next::Stop,
        ),
        (
            "a burst, and one is in work",
            busy,
            |seen| seen.burst = true,
            pause(silent),
        ),
        (
            "a burst, and the queue is not empty",
            idle,
            |seen| (seen.burst, seen.dry) = (true, false),
            CALL,
        ),
    ];
    for (case, seen, change, expected) in cases {
        let mut seen = seen(called);
        change(&mut seen);
        assert_eq!(next(&seen), expected, "{case}: {seen:?}");
    }
}

/// Every combination: a lane never waits while there is something to do, and never for longer than it may be silent.
#[test]
fn whatever_a_lane_sees_it_neither_sleeps_over_work_nor_turns_in_circles() {
    let called = Instant::now();
    for bits in 0..1u32 << 11 {
        let bit = |at: u32| bits >> at & 1 == 1;
        let now = called + if bit(10) { LEASE } else { Duration::ZERO };
        let seen = Seen {
            accepts: bit(0),
            stopping: bit(1),
            burst: bit(2),
            holds: bit(3),
            dry: bit(4),
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
            Next::Stop => assert!(!seen.holds, "{seen:?}"),
            Next::Call { gives_back, listens } => {
                assert!(!gives_back || !seen.accepts || seen.pool.stuck, "{seen:?}");
                assert!(!listens || seen.holds && seen.dry, "{seen:?}");
            }
            Next::AwaitWork => assert!(!seen.holds && seen.dry && seen.accepts && !seen.heeded, "{seen:?}"),
            Next::Pause { until, .. } => {
                assert!(until > now && until <= called + 4 * LEASE, "{seen:?}");
                assert!(!seen.pool.settles && !seen.rung, "{seen:?}");
                assert!(seen.dry || seen.pool.want == 0, "{seen:?}");
            }
        }
    }
}
