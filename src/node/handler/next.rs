//! What a lane does next, decided from what it sees and from nothing else.
//!
//! A lane makes one call after the other, or has some on their way where the store is far away. Each settles what has finished and asks for as many messages as there is room
//! for, so the fewer calls, the cheaper a message. The lane therefore calls only when there is something to say, and
//! waits for the bell when the queue is empty.

use std::time::Duration;

use tokio::time::Instant;

use crate::mutants::guard;

/// A lane that has nothing to say calls after so many leases all the same. A store that went back in time may hold
/// messages for it that it settled long ago; the number of the call tells, and the membership ends.
const SILENT_LEASES_MAX: u32 = 4;

/// A lane that has messages in hand, and room for more, begins to listen this long after its last call: most of them have
/// nothing in hand again before.
const LISTEN_AFTER: Duration = Duration::from_millis(1);

/// What a lane sees.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is seen, each by itself; next() puts it together"
)]
pub(super) struct Seen {
    /// The node takes messages: it does not generate, and is not to stop.
    pub accepts: bool,
    /// The node is to stop.
    pub stopping: bool,
    /// The node ends when the queue is empty.
    pub burst: bool,
    /// Messages are in this lane's hand, as far as the store knows.
    pub holds: bool,
    /// Calls are on their way, and there may be more of them.
    pub flies: bool,
    /// The last take brought everything that was queued.
    pub dry: bool,
    /// A limit kept back some of what the last take wanted: until then there is no more.
    pub held_until: Option<Instant>,
    /// The bell has rung since the last look.
    pub rung: bool,
    /// The listener waits at the bell now, and may for up to a beat.
    pub heeded: bool,
    pub pool: PoolSeen,
    pub lease: Duration,
    /// When the store last answered a call.
    pub called: Instant,
    pub now: Instant,
}

impl Seen {
    /// Whether a limit lets nothing through for now.
    pub(super) fn is_held_back(&self) -> bool {
        self.held_until.is_some_and(|until| self.now < until)
    }
}

/// What a lane sees of its pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolSeen {
    /// How many messages to ask for.
    pub want: u32,
    /// Outcomes are to be settled now, rather than with the next take.
    pub settles: bool,
    /// Messages wait for a slot.
    pub ready: bool,
    /// They would wait for long: what waits is given back.
    pub stuck: bool,
    /// When to look again even if nothing changes.
    pub wake: Option<Instant>,
}

/// What a lane does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Ends: nothing is in hand, and nothing more is to be taken.
    Stop,
    /// Calls the store now, and with `gives_back` returns the messages that no slot has started.
    Call { gives_back: bool, listens: bool },
    /// Makes its call when the bell rings: nothing is in hand, so nothing can be settled meanwhile.
    AwaitWork,
    /// Waits until something changes or this time has come; with `listens`, the bell changes something, too.
    Pause { until: Instant, listens: bool },
}

/// What to do now.
pub(super) fn next(seen: &Seen) -> Next {
    let Seen { pool, now, called, .. } = *seen;
    if is_over(seen) {
        return Next::Stop;
    }
    let wants = pool.want > 0;
    // After a take that emptied the queue, the next one waits for the bell, or for something to settle.
    // So does one after a take that a limit has cut short, or for the time that it was told.
    let held_back = seen.is_held_back();
    let asks = wants && (!(seen.dry || held_back) || seen.rung || !guard("dry"));
    // A lane whose last take left messages in the queue calls again anyway: it must not answer a bell that others wait for.
    let awaits_bell = wants && (seen.dry || held_back || !guard("dry"));
    let listens = awaits_bell && seen.holds && !seen.flies && now >= called + LISTEN_AFTER;
    let gives_back = (!seen.accepts || pool.stuck) && guard("give-back");
    let leases = if guard("silent-lane") {
        SILENT_LEASES_MAX
    } else {
        1_000_000
    };
    let silent = called + leases * seen.lease;
    if now >= silent || asks || seen.rung || pool.settles || (gives_back && pool.ready) {
        return Next::Call { gives_back, listens };
    }
    // If the listener is still at the bell, it would answer the ring instead of this call.
    if awaits_bell && !seen.holds && !seen.flies && !seen.heeded && guard("dry") {
        return Next::AwaitWork;
    }
    let soon = called + LISTEN_AFTER;
    let mut latest = if awaits_bell && !listens && !seen.flies && now < soon {
        soon
    } else {
        silent
    };
    if let Some(until) = seen.held_until.filter(|_| wants && held_back) {
        latest = latest.min(until);
    }
    let until = pool.wake.map_or(latest, |wake| wake.min(latest));
    Next::Pause { until, listens }
}

/// Whether the lane has come to its end.
fn is_over(seen: &Seen) -> bool {
    let stops = seen.stopping && !seen.accepts && (!seen.holds || !guard("finish-first"));
    let emptied = seen.burst && seen.dry && !seen.holds;
    (stops || emptied) && !seen.flies
}

#[cfg(test)]
mod tests;
