//! What an exchange takes.

use crate::engine::limits::{
    GRAIN_START, TAKE_BYTES_MAX, TAKE_CUT_BYTES, TAKE_PACKS_MAX, TAKE_POP_START, TAKE_SHARES, take_cut, take_is_enough,
};
use crate::engine::store::{About, Line, Meta, Store};
use crate::error::Result;
use crate::message::Pack;

/// Takes up to `want` messages: first what waits to be taken again, then the queue.
pub(super) fn take(store: &mut impl Store, meta: &mut Meta, about: &mut About, want: u64) -> Result<Vec<Pack>> {
    let mut take = Take::default();
    if want > 0 && meta.again {
        take_again(store, meta, about, want, &mut take)?;
    }
    let mut pop = TAKE_POP_START;
    while take.total < want && take.bytes < TAKE_BYTES_MAX && take.packs.len() < TAKE_PACKS_MAX {
        // To cut a pack copies it. A take that has nearly all that it wants ends here; so does one that has many bytes, if a pack
        // as large as those before would not fit.
        let much = take.bytes >= TAKE_CUT_BYTES;
        if take_is_enough(take.total, want) || much && (want - take.total) * (take.packs.len() as u64) < take.total {
            break;
        }
        let expected = (want - take.total).div_ceil(meta.grain).max(1);
        let mut popped = Vec::new();
        while (popped.len() as u64) < expected.min(pop) {
            let Some(pack) = store.pop(Line::Queue)? else { break };
            popped.push(pack);
        }
        if popped.is_empty() {
            break;
        }
        let mut left = Vec::new();
        for pack in popped {
            let (count, room) = (pack.count(), usize::try_from(want - take.total).unwrap_or(0));
            let cut = usize::try_from(take_cut(take.total, want)).unwrap_or(0);
            let leaves = count > room && (cut == 0 || take.bytes >= TAKE_CUT_BYTES);
            if room == 0 || take.bytes >= TAKE_BYTES_MAX || leaves || !left.is_empty() {
                left.push(pack);
            } else if count <= room {
                take.add(about, pack);
            } else {
                take.add(about, pack.piece(0, cut));
                // A pack far larger than its taker is broken into eight, so that the next takers copy less.
                let rest = count - cut;
                let shares = usize::try_from(TAKE_SHARES).expect("a few");
                let share = if rest > shares * cut {
                    rest.div_ceil(shares)
                } else {
                    rest
                };
                for from in (cut..count).step_by(share) {
                    left.push(pack.piece(from, share.min(count - from)));
                }
            }
        }
        for pack in left.iter().rev() {
            store.push_front(Line::Queue, pack)?;
        }
        if !left.is_empty() {
            break;
        }
        pop = pop.saturating_mul(2);
    }
    if want > 0 {
        let want = want.min(GRAIN_START);
        meta.grain = if want < meta.grain {
            meta.grain - (meta.grain - want).div_ceil(TAKE_SHARES)
        } else {
            meta.grain + (want - meta.grain).div_ceil(TAKE_SHARES)
        };
    }
    Ok(take.packs)
}

/// Messages that were delivered before come one per call, since one of them may have killed its handler. Messages that were
/// only put off come as they are, up to the first that was delivered before.
fn take_again(store: &mut impl Store, meta: &mut Meta, about: &mut About, want: u64, take: &mut Take) -> Result<()> {
    while take.total < want && take.bytes < TAKE_BYTES_MAX && take.packs.len() < TAKE_PACKS_MAX {
        let Some(pack) = store.pop(Line::Again)? else {
            meta.again = false;
            return Ok(());
        };
        let (count, redelivered) = (pack.count(), pack.attempt() > 1);
        let room = usize::try_from(want - take.total).unwrap_or(count);
        // From its third delivery on, a node holds no other such message beside it: a poison message takes no neighbours with it.
        let calm = !redelivered || about.redelivered == 0 || (pack.attempt() < 3 && about.suspects == 0);
        if !calm && store.guard("alone") {
            return store.push_front(Line::Again, &pack);
        }
        let part = if redelivered && store.guard("again-one") {
            1
        } else {
            count.min(room)
        };
        if count > part {
            store.push_front(Line::Again, &pack.piece(part, count - part))?;
        }
        take.add(about, pack.piece(0, part));
        if redelivered {
            return Ok(());
        }
    }
    Ok(())
}

/// What a take has so far.
#[derive(Default)]
struct Take {
    packs: Vec<Pack>,
    total: u64,
    bytes: usize,
}

impl Take {
    fn add(&mut self, about: &mut About, pack: Pack) {
        about.took(&pack);
        self.total += pack.count() as u64;
        self.bytes += pack.bytes().len();
        self.packs.push(pack);
    }
}
