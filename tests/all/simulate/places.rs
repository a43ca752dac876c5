//! Where the messages are.

use queenright::Outcome;
use queenright::engine::{CROWDED_MS, Exchange, Item, rules};
use queenright::message::Pack;

use queenright::message::CANCELLED;

use super::checks::{Place, Shelf, Spot, count_of};
use super::plan::Deed;
use super::process::{Kind, Process};
use super::world::Inner;
use crate::oracle::Call;

/// Nowhere in the store.
const NOWHERE: Spot = Spot {
    place: Place::Unborn,
    deliveries: 0,
    failures: 0,
};

/// What may have moved messages.
struct Way<'a> {
    call: &'a Call,
    wall_ms: u64,
    settler: Option<u32>,
    reaped: Option<u32>,
}

impl Inner {
    /// In one place, and on the way from one to the next only by the one call that may move it.
    pub fn every_message_is_in_one_place(&mut self, call: &Call, wall_ms: u64) {
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        let mut found = vec![NOWHERE; usize::try_from(seq).expect("few")];
        let mut twice = None;
        let mut put = |pack: &Pack, place| {
            for number in pack.first()..pack.first() + pack.count() as u64 {
                let at = usize::try_from(number).expect("few");
                match found.get_mut(at) {
                    Some(free) if free.place == Place::Unborn => {
                        let (deliveries, failures) = (pack.deliveries(), pack.failures());
                        *free = Spot {
                            place,
                            deliveries,
                            failures,
                        };
                    }
                    _ => twice = Some(number),
                }
            }
        };
        for pack in self.state.queue.iter().chain(&self.state.again) {
            put(pack, Place::Waiting);
        }
        for pack in self.state.lines.values() {
            put(pack, Place::Waiting);
        }
        for ((due_ms, _), pack) in &self.state.later {
            put(pack, Place::Later(*due_ms));
        }
        for (node, taken) in self.state.taken.iter().filter(|(_, taken)| !taken.pieces.is_empty()) {
            let next = u32::try_from(self.book.holders.len()).expect("few");
            let holder = *self.book.holders.entry(node.clone()).or_insert(next);
            for pack in taken.pieces.values() {
                put(pack, Place::Held(holder));
            }
        }
        if let Some(number) = twice {
            return self.fail(&format!("message {number} is in two places, or has no number"));
        }
        if self.book.places.len() > found.len() {
            return self.fail("the next number goes back");
        }
        let of = |node: &String| self.book.holders.get(node).copied();
        let (settler, reaped) = match call {
            Call::Exchange(exchange) => (of(&exchange.node), None),
            Call::Reap(reap) => (None, of(&reap.victim)),
            _ => (None, None),
        };
        let way = Way {
            call,
            wall_ms,
            settler,
            reaped,
        };
        let mut places = std::mem::take(&mut self.book.places);
        places.resize(found.len(), NOWHERE);
        for (number, (was, is)) in places.iter_mut().zip(found).enumerate() {
            if *was == is && is.place != Place::Unborn {
                continue;
            }
            match self.moves(number as u64, *was, is, &way) {
                Some(new) => *was = new,
                None => self.fail(&format!("message {number} went from {was:?} to {is:?} by {call:?}")),
            }
        }
        self.book.places = places;
        self.it_adds_up();
    }

    /// Where a message is now; none, if it cannot have come there in this way.
    fn moves(&mut self, number: u64, was: Spot, is: Spot, way: &Way) -> Option<Spot> {
        let same = (was.deliveries, was.failures) == (is.deliveries, is.failures);
        let new = (is.deliveries, is.failures) == (1, 0);
        let chains = matches!(way.call, Call::Exchange(exchange) if exchange.publishes());
        let births = chains || matches!(way.call, Call::Publish(_) | Call::Push(_));
        let beat = matches!(way.call, Call::Beat(_));
        let right = match (was.place, is.place) {
            (Place::Done | Place::Failed | Place::Skipped, Place::Unborn) => return Some(was),
            (Place::Unborn, Place::Waiting) => births && new,
            (Place::Skipped, Place::Waiting) => new && matches!(way.call, Call::Publish(publish) if publish.again),
            // The call that publishes a message may also take it.
            (Place::Unborn, Place::Held(holder)) => {
                chains && new && Some(holder) == way.settler && !self.book.paused.handlers
            }
            (Place::Unborn, Place::Later(due_ms)) if chains => new && due_ms == way.wall_ms + self.plan.lease_ms() / 4,
            (Place::Unborn, Place::Later(due_ms)) => {
                let Call::Push(push) = way.call else { return None };
                let meant = |item: &Item| item.delay_ms > 0 && due_ms == way.wall_ms + item.delay_ms;
                new && push.items.iter().any(meant)
            }
            // A store that went back in time was raised.
            (Place::Unborn, Place::Unborn) if beat || matches!(way.call, Call::Join(_)) => {
                let place = Place::Skipped;
                return Some(Spot { place, ..NOWHERE });
            }
            (Place::Waiting, Place::Held(holder)) => Some(holder) == way.settler && same && !self.book.paused.handlers,
            (Place::Held(holder), Place::Waiting) if Some(holder) == way.reaped => {
                self.told.redelivered += 1;
                is.deliveries == was.deliveries + 1 && is.failures == was.failures
            }
            (Place::Held(holder), Place::Waiting) => Some(holder) == way.settler && same,
            (Place::Held(holder), Place::Later(due_ms)) => {
                let Call::Exchange(exchange) = way.call else {
                    return None;
                };
                // There was no room for what it publishes.
                let crowded = same && self.plan.links(number) > 0 && due_ms == way.wall_ms + CROWDED_MS;
                let failed = (is.deliveries, is.failures) == (was.deliveries, was.failures + 1);
                let failed =
                    failed && put_off(exchange, number).is_some_and(|after_ms| due_ms == way.wall_ms + after_ms);
                Some(holder) == way.settler && (failed || crowded)
            }
            (Place::Later(due_ms), Place::Waiting) => {
                self.what_is_due_comes_soon(way.wall_ms.saturating_sub(due_ms));
                beat && due_ms <= way.wall_ms && same
            }
            (Place::Failed, Place::Waiting) => {
                let named = matches!(way.call, Call::Requeue(numbers) if numbers.contains(&number));
                named && new && !self.state.errors.contains_key(&number) && self.lives_again(number)
            }
            (Place::Held(holder), Place::Unborn) => return self.ends(number, was, holder, way),
            _ => false,
        };
        right.then_some(is)
    }

    /// Any member that beats sees to it, generator or not.
    fn what_is_due_comes_soon(&mut self, late_ms: u64) {
        let (now, lease) = (self.now(), self.plan.lease_ms());
        let since = now.saturating_sub(4 * lease);
        let watches = |process: &Process| {
            process.kind == Kind::Node && process.works() && process.joined < since && process.is_calm(since)
        };
        let calm = self.accidents == 0 && self.store_trouble < since && self.wall_set < since;
        if late_ms > 2 * lease && calm && self.processes.iter().any(watches) {
            self.fail(&format!("a message is {late_ms} ms late"));
        }
    }

    /// An error that nobody reads has been put in again.
    fn lives_again(&mut self, number: u64) -> bool {
        *self.book.lives.entry(number).or_default() += 1;
        self.book.settlers.remove(&number);
        self.told.shown.remove(&number);
        self.book.shelves.remove(&number) == Some(Shelf::Errors)
    }

    /// A message has an outcome: the one that it must have.
    fn ends(&mut self, number: u64, was: Spot, holder: u32, way: &Way) -> Option<Spot> {
        let error = self.state.errors.get(&number);
        let suspects = error.is_some_and(|failed| failed.error.starts_with(b"delivered"));
        let by = (Some(holder) == way.settler, Some(holder) == way.reaped);
        let (deed, enough) = (self.plan.deed(number), was.failures == self.plan.failures(number));
        let right = match (error, suspects) {
            (Some(_), true) => by.1 && was.deliveries >= self.plan.settings.deliveries_max,
            (Some(failed), false) if failed.error == CANCELLED.as_bytes() => {
                let counted = failed.failures == was.failures && failed.deliveries == was.deliveries;
                by.0 && counted && self.book.cancels.may_have_ended(number, failed.group.as_deref())
            }
            (Some(failed), false) => {
                let counted = failed.failures == was.failures && failed.deliveries == was.deliveries;
                by.0 && counted && enough && !deed.succeeds() && deed != Deed::Poison
            }
            (None, _) => by.0 && enough && deed.succeeds(),
        };
        let place = if error.is_some() { Place::Failed } else { Place::Done };
        if by.0 {
            self.book.settlers.insert(number, holder);
        }
        right.then_some(Spot { place, ..was })
    }

    /// done + failed + queued + in hand + later = published + requeued.
    fn it_adds_up(&mut self) {
        let Some(meta) = &self.state.meta else { return };
        let lanes = || self.state.taken.values().flat_map(|taken| taken.lanes.values());
        let done = meta.done + lanes().map(|lane| lane.done).sum::<u64>();
        let failed = meta.failed + lanes().map(|lane| lane.failed).sum::<u64>();
        let (mut is_done, mut is_failed, mut is_skipped) = (0, 0, 0);
        for spot in &self.book.places {
            match spot.place {
                Place::Done => is_done += 1,
                Place::Failed => is_failed += 1,
                Place::Skipped => is_skipped += 1,
                _ => {}
            }
        }
        let again = self.book.lives.values().copied().map(u64::from).sum();
        let counted = [
            (meta.requeued, again, "requeued"),
            (done, is_done, "done"),
            (failed, is_failed + again, "failed"),
            (meta.skipped, is_skipped, "skipped"),
        ];
        let forgotten = self
            .state
            .taken
            .keys()
            .find(|node| self.state.nodes.contains_key(*node) == self.state.dead.contains(*node));
        let wrong = counted.iter().find(|(said, is, _)| said != is);
        if let Some((said, is, what)) = wrong {
            self.fail(&format!("the store counts {said} {what}, there are {is}"));
        } else if let Some(node) = forgotten.cloned() {
            self.fail(&format!("{node} is neither a member nor dead, or both"));
        } else if self.calls.is_multiple_of(64) {
            self.the_status_adds_up();
        }
    }

    fn the_status_adds_up(&mut self) {
        let wall_ms = self.wall();
        let Ok(status) = rules::status(&mut self.state, wall_ms) else {
            return;
        };
        let sum = status.done + status.failed + status.queued + status.in_hand + status.later;
        let lined_up = self.state.lines.values();
        let waiting = count_of(self.state.queue.iter().chain(&self.state.again).chain(lined_up));
        let skipped = self.state.meta.as_ref().map_or(0, |meta| meta.skipped);
        if status.published + status.requeued != sum + skipped || status.queued != waiting {
            self.fail(&format!(
                "done + failed + queued + in hand + later is not published + requeued: {status:?}"
            ));
        }
    }
}

/// For how long a call puts a message off.
fn put_off(exchange: &Exchange, number: u64) -> Option<u64> {
    let runs = exchange.settles.iter().flat_map(|settle| {
        let runs = settle.runs.iter();
        runs.map(|run| (settle.piece + u64::from(run.from), run))
    });
    let mut named = runs.filter(|(first, run)| (*first..*first + u64::from(run.count)).contains(&number));
    match &named.next()?.1.outcome {
        Outcome::Retry { after_ms, .. } => Some(*after_ms),
        _ => None,
    }
}
