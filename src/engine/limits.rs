//! The limits of the protocol, with their reasons. A call is one step of the store, and holds up everybody else for as long
//! as it takes: so each is bounded in messages and in bytes.

use crate::message::PACK_MESSAGES_MAX;

/// How many nodes watch the crown closely. All others look once per beat.
pub const HEIRS_MAX: usize = 5;

/// The grain of a new queue: packs are cut to this many messages until handlers ask for fewer.
pub const GRAIN_START: u64 = PACK_MESSAGES_MAX as u64;

/// How many calls of a handler are on their way at once where the store is far away: each has a lane of its own, and is numbered and repeated
/// as if there were no others. Four of a megabyte fill a link of 80 MB/s at a round trip of 50 ms.
pub const LANES: u32 = 4;

/// How many packs one publish carries at most.
pub const PUBLISH_PACKS_MAX: usize = 1024;

/// The largest cursor of a generator.
pub const CURSOR_BYTES_MAX: usize = 64 * 1024;

/// A take ends once it has this many packs.
pub const TAKE_PACKS_MAX: usize = 256;

/// How many groups whose turn it is one take looks at: of some, nothing can be taken.
pub const GROUPS_LOOKED_MAX: usize = 2 * TAKE_PACKS_MAX;

/// How many groups can be paused at once: all are shown in one answer.
pub const PAUSED_GROUPS_MAX: usize = 1000;

/// So much time's worth of a limit is kept for those who were told to come back and come a little late. Over a minute it is less than half a
/// hundredth of what the limit allows.
pub const LIMIT_SLACK_MS: u64 = 250;

/// How many microseconds a millisecond has: groups rest to the microsecond.
pub const MS_US: u64 = 1000;

/// How many of the groups with the longest lines are shown.
pub const LONGEST_GROUPS: usize = 10;

/// A take brings this many bytes at most, but one message in any case.
pub const TAKE_BYTES_MAX: usize = 1024 * 1024;

/// A take that has this many bytes does not cut a pack to get more: to cut a pack copies it.
pub const TAKE_CUT_BYTES: usize = 32 * 1024;

/// A take of fewer messages than this is always filled to the last one.
pub const TAKE_EXACT: u64 = 64;

/// A take that expects many packs pops this many at first, then twice as many, and so on.
pub const TAKE_POP_START: u64 = 8;

/// Takes reckon in eighths: a take that misses less than one share of what it wants looks for nothing more, the grain moves by
/// one share of the difference towards what is wanted, and the rest of a pack that is far larger than its taker is broken into
/// this many pieces.
pub const TAKE_SHARES: u64 = 8;

/// Whether a take misses less than an eighth of what it wants: then it looks for nothing more.
pub(crate) fn take_is_enough(total: u64, want: u64) -> bool {
    want >= TAKE_EXACT && TAKE_SHARES * want.saturating_sub(total) < want
}

/// How many messages a take cuts off a pack that does not fit. A take that has half of what it wants leaves the pack whole,
/// one that has less fills up to half. If it filled up to the last message, the next take would begin with the rest, cut the
/// next pack, and so on: a cut in every call. A take may have more than it wants: a pack whose body cannot be cut comes whole.
pub(crate) fn take_cut(total: u64, want: u64) -> u64 {
    if want < TAKE_EXACT || total == 0 {
        want.saturating_sub(total)
    } else {
        want.div_ceil(2).saturating_sub(total)
    }
}

/// How many messages of a pack fit into so many bytes, by their mean length: what a pack that is stored separately has in it,
/// a script does not see. The first pack of a take gives at least one.
pub(crate) fn take_fits(bytes: usize, count: usize, length: usize, is_first: bool) -> usize {
    (bytes * count / length).max(usize::from(is_first))
}

/// How many pieces one exchange settles at most (Lua's `unpack` ends at 8,000).
pub const SETTLES_PER_CALL_MAX: usize = 1000;

/// Counters that effects add to stay between −2^53 and 2^53, where a Lua number counts exactly.
pub const COUNTER_MAX: i64 = (1 << 53) - 1;

/// How many pieces that could not be read are kept, and how many of them one call sets aside.
pub const DAMAGED_MAX: usize = 1000;

/// No message is put off for longer than this: 366 days.
pub const DELAY_MS_MAX: u64 = 366 * 24 * 3600 * 1000;

/// A message whose effects publish more than the backlog has room for is put off for so long.
pub const CROWDED_MS: u64 = 1000;

/// How many messages a node holds at most that are on the delivery before their last one.
pub const SUSPECTS_MAX: u64 = 8;

/// A message on its last delivery waits for a node with nothing in hand. If there is none, one node empties its hand, and after
/// this long another.
pub const CLEARING_MS: u64 = 1000;

/// How many packs one reap moves.
pub const REAP_PACKS_MAX: usize = 1000;

/// A reap moves no more bytes than this, if it moves more than one pack.
pub const REAP_BYTES_MAX: usize = 1024 * 1024;

/// A reap ends once it has made this many messages errors.
pub const REAP_FAILED_MAX: u64 = 1000;

/// How many messages one beat moves back into the queue because they are due.
pub const DUE_MAX: usize = 1000;

/// A beat stops moving messages that are due once it has moved this many bytes.
pub const DUE_BYTES_MAX: usize = 1024 * 1024;

/// How many messages one push carries.
pub const PUSH_ITEMS_MAX: usize = 1000;

/// The longest idempotency key of a pushed message.
pub const KEY_BYTES_MAX: usize = 256;

/// How long the store remembers a push, so that a repeat after a lost reply is answered and not applied: a minute, several
/// times as long as anyone waits for a store that is away.
pub const CALL_MS: u64 = 60_000;

/// How long it is kept how a message ended whose outcome was asked for: an hour, as long as keys of pushes are remembered, so that whoever pushes again with the
/// same key is told.
pub const ENDING_MS: u64 = 3600 * 1000;

/// How many such endings are kept at once; beyond that the oldest goes. With the largest results these are 40 MB.
pub const ENDINGS_MAX: u64 = 10_000;

/// How many endings are looked at in one call.
pub const ENDINGS_PER_CALL_MAX: usize = 100;

/// Whoever looks for a message looks through so many packs of each place where some wait,
pub const FOUND_MAX: usize = 1000;

/// and through so many bytes, about.
pub const FOUND_BYTES_MAX: usize = 1024 * 1024;

/// Behind these, the queue is in the order of its numbers, and they find their place in it if it is no longer than this.
pub const FOUND_DEEP_MAX: usize = 100_000;

/// How many numbers can be cancelled at once, and how many groups: takes look through them.
pub const CANCELS_MAX: usize = 1000;
pub const CANCELLED_GROUPS_MAX: usize = 100;

/// What the field that tells what is paused has more while something is cancelled.
pub(super) const CANCELS_BIT: u64 = 80;

/// What is cancelled is remembered for an hour, on the hive clock, although nothing seems to wait that it could match: it may be in a hand.
pub const CANCEL_MS: u64 = 3_600_000;

/// After thirty more days it is forgotten, whatever waits.
pub const CANCEL_MS_MAX: u64 = 30 * 24 * 3_600_000;

/// A batch of errors, or a look at what is in hand, has no more bytes than this, if it has more than one.
pub const COLLECT_BYTES_MAX: usize = 1024 * 1024;

/// How many errors one call requeues or discards.
pub const ERRORS_PER_CALL_MAX: usize = 500;

/// How many errors one call removes because there are too many.
pub const TRIM_MAX: usize = 1000;

/// How many errors a batch has at most, and how many lengths of records are asked for in a row.
pub const CHUNK_MAX: usize = 500;

/// How much of a payload in hand is shown.
pub const HELD_START_BYTES: usize = 200;

/// How long it is remembered that a queue was removed: 24 hours, for processes that were stopped or asleep meanwhile.
pub const PURGED_MS: u64 = 24 * 3600 * 1000;

/// How many removed queues of one name are remembered.
pub const PURGED_MAX: usize = 16;

/// How much one look adds to the time for which pushes have waited for members: a clock that jumps ends no wait.
pub const UNHEARD_STEP_MS: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_take_that_brought_more_than_was_wanted_needs_nothing_more() {
        for (total, want) in [(3, 1), (1000, 63), (1000, 64)] {
            assert_eq!(take_cut(total, want), 0, "{total} of {want}");
        }
    }
}
