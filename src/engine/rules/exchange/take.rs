//! What an exchange takes.

use super::super::groups::{first_share, take_groups};
use super::super::limit::Limited;
use crate::engine::limits::{
    CLEARING_MS, GRAIN_START, SUSPECTS_MAX, TAKE_BYTES_MAX, TAKE_CUT_BYTES, TAKE_PACKS_MAX, TAKE_POP_START,
    TAKE_SHARES, take_cut, take_fits, take_is_enough,
};
use crate::engine::store::{About, Delivery, Line, Meta, Store};
use crate::error::Result;
use crate::message::Pack;

/// Takes up to as many messages as the limit allows, of up to `want_bytes` bytes: first what waits to be taken again, then the queue; to make room,
/// only the queue.
pub(super) fn take(
    store: &mut impl Store,
    meta: &mut Meta,
    (node, about): (&str, &mut About),
    clock: u64,
    (limited, want_bytes): (&mut Limited, u32),
    makes_room: bool,
) -> Result<Vec<Pack>> {
    let want = limited.allowed();
    let mut take = Take {
        goal: want,
        bytes_max: TAKE_BYTES_MAX,
        ..Take::default()
    };
    if store.guard("want-bytes") {
        take.bytes_max = TAKE_BYTES_MAX.min(want_bytes as usize);
    }
    if about.alone == About::ALONE && store.guard("alone") {
        take.goal = 0;
    }
    if take.goal > 0 && meta.again && !makes_room {
        take_again(store, meta, (node, &mut *about), clock, (&mut take, limited))?;
    }
    let groups_wait = store.ready_count()? > 0 && take.total < take.goal;
    if groups_wait {
        let share = first_share(store, take.goal - take.total, want)?;
        take_groups(store, &mut take, limited, share)?;
    }
    let mut pop = TAKE_POP_START;
    while take.total < take.goal && take.bytes < take.bytes_max && take.packs.len() < TAKE_PACKS_MAX {
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
            let (count, fits) = (pack.count(), take.fits(&pack));
            let room = usize::try_from(want - take.total).unwrap_or(0).min(fits);
            let cut = usize::try_from(take_cut(take.total, want)).unwrap_or(0).min(fits);
            let leaves = count > room && (cut == 0 || take.bytes >= TAKE_CUT_BYTES);
            if room == 0 || take.bytes >= take.bytes_max || leaves || !left.is_empty() {
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
    if groups_wait && take.total < take.goal {
        let rest = take.goal - take.total;
        take_groups(store, &mut take, limited, rest)?;
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

/// On its last delivery a message comes alone, into an empty hand: so whatever becomes an error for its deliveries killed its
/// handlers itself. On the one before, a node holds a few of its kind at most, so that few come to their last one for a
/// neighbour.
fn take_again(
    store: &mut impl Store,
    meta: &mut Meta,
    (node, about): (&str, &mut About),
    clock: u64,
    (take, limited): (&mut Take, &mut Limited),
) -> Result<()> {
    while take.total < take.goal && take.bytes < take.bytes_max && take.packs.len() < TAKE_PACKS_MAX {
        let Some(pack) = store.pop(Line::Again)? else {
            meta.again = false;
            return Ok(());
        };
        let (count, delivery) = (pack.count(), about.delivery(&pack));
        let fits = match delivery {
            Delivery::Early => true,
            Delivery::Suspect => about.suspects < SUSPECTS_MAX || !store.guard("suspects"),
            Delivery::Last => take.total == 0 && store.pieces(node, 1, 0)?.is_empty() || !store.guard("alone-empty"),
        };
        if !fits {
            if delivery == Delivery::Last && clears(meta, about, clock) && store.guard("clearing") {
                about.alone = About::CLEARS;
                take.goal = take.total;
            }
            return store.push_front(Line::Again, &pack);
        }
        if about.alone == About::CLEARS {
            about.alone = 0;
        }
        let room = usize::try_from(take.goal - take.total).unwrap_or(count);
        let part = if delivery != Delivery::Early && store.guard("again-one") {
            1
        } else {
            count.min(room)
        };
        let part = part.min(take.fits(&pack));
        if part == 0 {
            return store.push_front(Line::Again, &pack);
        }
        if count > part {
            store.push_front(Line::Again, &pack.piece(part, count - part))?;
        }
        limited.took_again(store, &pack)?;
        take.add(about, pack.piece(0, part));
        if delivery == Delivery::Last {
            take.goal = take.total;
        }
        if delivery != Delivery::Early {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether a node empties its hand for a message on its last delivery. Where nobody is ever idle, one does; each second one
/// more, should that take long.
fn clears(meta: &mut Meta, about: &About, clock: u64) -> bool {
    if about.alone == About::CLEARS {
        return true;
    }
    let clears = clock >= meta.clearing;
    if clears {
        meta.clearing = clock + CLEARING_MS;
    }
    clears
}

/// What a take has so far.
#[derive(Default)]
pub(in crate::engine::rules) struct Take {
    /// It ends with so many.
    goal: u64,
    packs: Vec<Pack>,
    total: u64,
    bytes: usize,
    /// It takes no more bytes than this.
    bytes_max: usize,
}

impl Take {
    /// Whether it may look for one more pack.
    pub(in crate::engine::rules) fn has_room(&self) -> bool {
        self.bytes < self.bytes_max && self.packs.len() < TAKE_PACKS_MAX
    }

    /// Whether a pack fits as a whole. The first one does in any case.
    pub(in crate::engine::rules) fn holds(&self, pack: &Pack) -> bool {
        self.packs.is_empty() || self.bytes + pack.bytes().len() <= self.bytes_max
    }

    /// Takes a pack that was never delivered before.
    pub(in crate::engine::rules) fn add_new(&mut self, pack: Pack) {
        self.total += pack.count() as u64;
        self.bytes += pack.bytes().len();
        self.packs.push(pack);
    }

    /// How many messages of a pack fit into what is left of the bytes.
    fn fits(&self, pack: &Pack) -> usize {
        let (count, length) = (pack.count(), pack.bytes().len());
        let left = self.bytes_max.saturating_sub(self.bytes);
        if length <= left {
            return count;
        }
        take_fits(left, count, length, self.packs.is_empty())
    }

    fn add(&mut self, about: &mut About, pack: Pack) {
        about.took(&pack);
        self.add_new(pack);
    }
}
