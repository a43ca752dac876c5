//! What processes are told and do.

use queenright::engine::{Exchange, Exchanged, Publish, Run};
use queenright::error::Error;
use queenright::event::{Entry, Event, What};
use queenright::{Message, Outcome};

use super::checks::Place;
use super::process::is_right_end;
use super::shelves::READER_LEASE_MS;
use super::world::{Inner, payload};

/// How long nodes let wait what they fetched ahead, at most: messages that usually take long are waited for longer.
const STUCK_MS: u64 = 100;

impl Inner {
    pub fn saw(&mut self, process: usize, seq: u64) {
        let process = &mut self.processes[process];
        process.seen = process.seen.max(seq);
    }

    /// A node tells all that it has seen, and does not give numbers anew that it has seen.
    pub fn tells(&mut self, process: usize, seq: u64) {
        // With replicas, a generator tells what they have: the rest it can publish again.
        let can_replay = self.plan.settings.replicas > 0 && self.processes[process].reigns.is_some();
        if seq < self.processes[process].seen && !can_replay {
            self.fail("a node does not tell all that it has seen");
        }
    }

    pub fn publishes(&mut self, process: usize, publish: &Publish) {
        let call = (publish.epoch, publish.made, publish.first);
        let publisher = &mut self.processes[process];
        let anew = publish.first < publisher.seen;
        publisher.publishes.entry(call).or_insert(anew);
        if publisher.oldest.0 != publish.epoch {
            publisher.oldest = (publish.epoch, publish.made);
        }
    }

    /// A publish was applied, and its sender knows it.
    pub fn has_published(&mut self, process: usize, publish: &Publish) {
        let oldest = &mut self.processes[process].oldest;
        *oldest = (*oldest).max((publish.epoch, publish.made + publish.count()));
    }

    /// Whether a call builds on what its sender knows to be applied. Others may overtake those that they build on.
    pub fn is_oldest(&self, process: usize, publish: &Publish) -> bool {
        self.processes[process].oldest == (publish.epoch, publish.made)
    }

    /// A new call: a node takes nothing while it generates, once it stops, or when it knows that there is nothing.
    pub fn sends(&mut self, process: usize, exchange: &Exchange) {
        self.the_doomed_end_as_cancelled(process, exchange);
        let (now, lease) = (self.now(), self.plan.lease(process).as_millis());
        let handles = self.plan.settings.also_handle;
        let sender = &mut self.processes[process];
        let last = sender.last_calls.get(&exchange.lane).copied();
        // A repeat may want nothing any more: its answer says nothing about the queue.
        let repeated = last.filter(|(last, ..)| *last == exchange.call);
        let heard = repeated.map_or(sender.limited.0, |(.., heard)| heard);
        let call = (exchange.call, exchange.want, heard);
        sender.last_calls.insert(exchange.lane, call);
        if repeated.is_some() {
            return;
        }
        // After long silence it calls all the same.
        let silent = u128::from(now - std::mem::replace(&mut sender.last_sent, now)) >= 4 * lease;
        let unasked = exchange.settles.is_empty() && !exchange.woken && !silent;
        let (in_vain, too_soon) = (sender.last_was_empty && unasked, now < sender.limited.1 && unasked);
        if sender.node == *exchange.node {
            sender.given_back.extend(given_back(exchange));
        }
        sender.last_was_empty = false;
        if exchange.want == 0 {
            return;
        }
        if sender.reigns.is_some() && !handles {
            self.fail("a generator takes work");
        } else if sender.stopping.is_some() {
            self.fail("a node that stops takes work");
        } else if in_vain {
            self.fail("an idle node asks again and again");
        } else if too_soon {
            self.fail("a node asks before the time that a limit told it");
        }
    }

    pub fn got(&mut self, process: usize, exchange: &Exchange, exchanged: &Exchanged) {
        let Exchanged::Ok {
            packs,
            chained,
            wait_ms,
            cancelled,
            ..
        } = exchanged
        else {
            return;
        };
        self.is_told_of_the_doomed(process, packs, cancelled);
        for link in &chained.links {
            self.saw(process, link.first + link.count);
        }
        let now = self.now();
        let taker = &mut self.processes[process];
        let (_, want, heard) = taker.last_calls.get(&exchange.lane).copied().unwrap_or_default();
        let wanted = want > 0;
        // What was on its way when a limit was told says nothing about what is left since.
        let is_news = heard == taker.limited.0;
        match wait_ms.filter(|_| wanted) {
            Some(wait_ms) => {
                let until = now + wait_ms.min(10_000);
                taker.limited = if is_news {
                    (heard + 1, until)
                } else {
                    (taker.limited.0, taker.limited.1.max(until))
                };
            }
            None if is_news && wanted => taker.limited.1 = 0,
            None => {}
        }
        for settle in &exchange.settles {
            let settled = |number: &u64| {
                let at = number.wrapping_sub(settle.piece);
                let mut runs = settle.runs.iter();
                runs.any(|run| (u64::from(run.from)..u64::from(run.from + run.count)).contains(&at))
            };
            taker.intents.retain(|number| !settled(number));
        }
        taker.last_was_empty = packs.is_empty() && wanted && wait_ms.is_none() && is_news;
        for pack in packs {
            let end = pack.first() + pack.count() as u64;
            taker.seen = taker.seen.max(end);
            for number in pack.first()..end {
                taker.got.insert(number, now);
            }
        }
    }

    /// The code of a handler starts on a message.
    pub fn starts(&mut self, process: usize, message: &Message) {
        let (now, lease, number) = (self.now(), self.plan.lease_ms(), message.number);
        let slots = self.plan.settings.concurrency;
        self.note(|| format!("{process}: handles {number}"));
        self.the_doomed_are_not_handled(process, number);
        let own = match self.book.pushed.get(&number) {
            Some(pushed) => message.payload == *pushed,
            None => message.payload.starts_with(&payload(number)),
        };
        if !own && !self.rewound {
            self.fail(&format!("message {number} has another's payload"));
        }
        if message.failures > self.plan.failures(number) {
            self.fail(&format!("message {number} is tried too often"));
        }
        let calm = self.accidents == 0 && self.store_trouble < now.saturating_sub(lease);
        let stuck = STUCK_MS + 3 * self.plan.trip_ms;
        let handler = &mut self.processes[process];
        handler.running += 1;
        let waited = now.saturating_sub(handler.last_start);
        let ready = handler.got.get(&number).is_some_and(|got| *got <= handler.last_start);
        handler.last_start = now;
        let calm = calm && handler.is_calm(now.saturating_sub(lease));
        if handler.running > slots {
            self.fail("more messages are in work than there are slots");
        }
        if ready && calm && waited > stuck + 15 {
            self.fail(&format!("message {number} waited {waited} ms behind a slow one"));
        }
    }

    pub fn observes(&mut self, process: usize, node: &str, events: &[Event]) {
        let now = self.now();
        self.trace(node.bytes().map(u64::from).sum::<u64>() + events.len() as u64);
        for event in events {
            let seen = &mut self.processes[process];
            match event {
                Event::Joined => {
                    seen.node = node.to_string();
                    seen.joined = now;
                    seen.last_calls.clear();
                    seen.limited = (0, 0);
                    seen.intents.clear();
                    seen.last_was_empty = false;
                    seen.got.clear();
                    seen.given_back.clear();
                    seen.doomed = super::cancels::Doomed::default();
                }
                Event::Elected { epoch, .. } => seen.reigns = Some(*epoch),
                Event::Deposed { .. } | Event::Left => seen.reigns = None,
                Event::Paused { .. } => seen.halted = true,
                Event::Resumed => seen.halted = false,
                Event::Rewound { .. } => seen.rewinds.1 += 1,
                _ => {}
            }
            if !event.is_per_message() {
                self.note(|| format!("{process}: tells {event:?}"));
            }
        }
    }

    /// A node is told that its publish or settle was applied: once for each message, and it is so.
    pub fn confirmed(&mut self, process: usize, entries: &[Entry]) {
        for entry in entries {
            for number in entry.first..entry.first + entry.count {
                let at = usize::try_from(number).expect("few");
                let place = self.book.places.get(at).map(|spot| spot.place);
                let (before, right) = match entry.what {
                    What::Publish { epoch } => {
                        self.saw(process, number + 1);
                        let before = self.told.published.insert(number, epoch).is_some();
                        (before, place.is_some_and(|place| place != Place::Unborn))
                    }
                    What::Chain { cause } => {
                        let given = self.book.links.get(&cause);
                        let right = given.is_some_and(|link| (link.first..link.first + link.count).contains(&number));
                        (self.told.published.insert(number, 0).is_some(), right)
                    }
                    What::Done => (self.has_outcome(number), place == Some(Place::Done)),
                    What::Error => {
                        let again = self.book.lives.contains_key(&number);
                        (self.has_outcome(number), place == Some(Place::Failed) || again)
                    }
                    What::Take { .. } | What::Return => (false, true),
                };
                // What replicas have stays, whichever of them takes the store's place.
                let excused = self.rewound && self.plan.settings.replicas == 0;
                if before && !excused {
                    self.fail(&format!("message {number} is confirmed twice: {:?}", entry.what));
                }
                if !right && !excused {
                    let what = entry.what;
                    self.fail(&format!("message {number} is confirmed as {what:?} and is {place:?}"));
                }
            }
        }
    }

    /// Whether the present life of a message had an outcome before.
    fn has_outcome(&mut self, number: u64) -> bool {
        let outcomes = self.told.outcomes.entry(number).or_default();
        *outcomes += 1;
        *outcomes > 1 + self.book.lives.get(&number).copied().unwrap_or(0)
    }

    /// A node is told that nothing was written of what it last intended.
    pub fn refused(&mut self, process: usize, node: &str) {
        let holder = self.book.holders.get(node).copied();
        let intents = std::mem::take(&mut self.processes[process].intents);
        let written = |number: &u64| holder.is_some() && self.book.settlers.get(number).copied() == holder;
        if let Some(number) = intents.into_iter().find(written)
            && !self.rewound
        {
            self.fail(&format!("message {number} is refused, and was settled"));
        }
    }

    pub fn ended(&mut self, process: usize, ended: Result<(), Error>) {
        self.note(|| format!("{process}: ends with {ended:?}"));
        let kind = self.processes[process].kind;
        if !is_right_end(kind, &ended) {
            self.fail(&format!("a {kind:?} ends with {ended:?}"));
        }
        let over = &mut self.processes[process];
        over.ended = Some(ended.map_err(|error| error.to_string()));
        over.reigns = None;
        let stopped = over.stopping.unwrap_or(0);
        let calm = over.stopping.is_some() && over.is_calm(stopped) && self.store_trouble < stopped;
        // A late copy of its join would make it a member once more, for a lease.
        let calm = calm && self.accidents == 0;
        if calm && self.state.nodes.contains_key(&self.processes[process].node) {
            self.fail("a node that has stopped in order is still a member");
        }
    }

    /// A second print must be explained by what befell the first reader.
    pub fn shown(&mut self, process: usize, numbers: &[u64]) {
        let now = self.now();
        self.note(|| format!("{process}: shows {numbers:?}"));
        for number in numbers {
            let before = self.told.shown.entry(*number).or_default();
            let last = before.last().copied();
            before.push((process, now));
            let Some((reader, at)) = last else { continue };
            let first = &self.processes[reader];
            let since = at.saturating_sub(4 * READER_LEASE_MS);
            // One that was stopped may show what was taken from it, and read by others, meanwhile.
            let late = !self.processes[process].is_calm(now.saturating_sub(4 * READER_LEASE_MS));
            let broken = first.ended.as_ref().is_some_and(Result::is_err);
            if first.is_calm(since) && !late && !broken && self.store_trouble < since && !self.rewound {
                self.fail(&format!(
                    "error {number} is shown twice although nothing befell its reader"
                ));
            }
        }
    }
}

/// The messages that a call gives back unstarted.
fn given_back(exchange: &Exchange) -> impl Iterator<Item = u64> {
    let runs = exchange.settles.iter().flat_map(|settle| {
        let of = |run: &Run| {
            let first = settle.piece + u64::from(run.from);
            first..first + u64::from(run.count)
        };
        let returned = settle.runs.iter().filter(|run| run.outcome == Outcome::Return);
        returned.map(of).collect::<Vec<_>>()
    });
    runs.flatten()
}
