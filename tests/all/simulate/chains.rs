//! What effects publish: once for each message that is done, and nothing for any other.

use queenright::engine::{Chained, Exchange, Exchanged, Link};
use queenright::message::{Effect, Pack};

use super::checks::{Glance, Place};
use super::world::Inner;

impl Inner {
    pub fn a_chain_goes_on_once(&mut self, exchange: &Exchange, exchanged: &Exchanged, before: &Glance) {
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        match exchanged {
            Exchanged::Unheard => self.only_a_store_that_went_back_waits(before),
            Exchanged::Ok {
                packs,
                refused,
                chained,
                ..
            } => {
                self.only_a_full_queue_is_crowded(exchange, packs, chained, before);
                if seq == before.seq {
                    return self.a_repeat_tells_the_same(chained);
                }
                let failed: Vec<u64> = refused.iter().map(|(number, _)| *number).collect();
                self.links_follow_their_causes(exchange, &failed, chained, before);
            }
            _ if seq != before.seq => self.fail("a refused call publishes"),
            _ => {}
        }
    }

    /// What was given out before, or nothing.
    fn a_repeat_tells_the_same(&mut self, chained: &Chained) {
        let known = |link: &Link| self.book.links.get(&link.cause) == Some(link);
        if !chained.links.iter().all(known) && !self.rewound {
            self.fail(&format!("{chained:?} is told, and was never published"));
        }
    }

    fn links_follow_their_causes(&mut self, exchange: &Exchange, failed: &[u64], told: &Chained, before: &Glance) {
        let (mut next, mut links, mut delayed) = (before.seq, Vec::new(), false);
        for (cause, effects) in publishing(exchange) {
            if failed.contains(&cause) || told.crowded.contains(&cause) {
                continue;
            }
            let first = next;
            for effect in effects {
                if let Effect::Publish {
                    payload,
                    delay_ms,
                    group,
                    ..
                } = effect
                {
                    self.book.pushed.insert(next, payload.clone());
                    // What stands in the line of a group has a limit of its own.
                    delayed |= *delay_ms > 0 || group.is_some();
                    next += 1;
                }
            }
            let count = next - first;
            let link = Link { cause, first, count };
            links.push(link);
            if self.book.links.insert(cause, link).is_some() {
                self.fail(&format!("message {cause} publishes twice"));
            }
        }
        let seq = self.state.meta.as_ref().map_or(0, |meta| meta.seq);
        if told.links != links || next != seq || told.epoch != before.epoch {
            self.fail(&format!("{links:?} are published, and {told:?} is told"));
        }
        if self.someone_has_seen(before.seq, before) {
            self.fail("an effect is given a number that a living node has seen");
        }
        self.pushed = true;
        if !delayed {
            self.the_backlog_keeps(exchange.backlog_max, before);
        }
    }

    /// A message is put off for lack of room only if there is none.
    fn only_a_full_queue_is_crowded(&mut self, exchange: &Exchange, packs: &[Pack], told: &Chained, before: &Glance) {
        let given: u64 = told.count();
        let taken = packs.iter().filter(|pack| !pack.unordered()).map(Pack::first);
        let head = taken.chain(self.state.queue.front().map(Pack::first)).min();
        let head = head.unwrap_or(before.seq).min(before.seq);
        for (number, effects) in publishing(exchange).filter(|(number, _)| told.crowded.contains(number)) {
            let at = usize::try_from(number).expect("few");
            let now = matches!(self.book.places.get(at).map(|spot| spot.place), Some(Place::Held(_)));
            let count = effects.iter().filter(|effect| effect.publishes()).count() as u64;
            let in_lines = effects.iter().any(is_grouped);
            if now && !in_lines && before.seq + given + count - head <= exchange.backlog_max {
                return self.fail(&format!("message {number} is put off although there is room"));
            }
        }
    }

    /// At the end: every message that is done has published what it was to.
    pub fn chains_are_complete(&mut self) {
        let done: Vec<u64> = self.book.done().collect();
        let wanted = done.iter().filter(|number| self.plan.links(**number) > 0);
        let missing = wanted.clone().find(|number| {
            let count = self.book.links.get(*number).map_or(0, |link| link.count);
            count != self.plan.links(**number)
        });
        if let Some(number) = missing {
            self.fail(&format!("message {number} is done, and has not published what follows"));
        } else if self.book.links.len() != wanted.count() {
            self.fail("a message has published, and is not done");
        }
    }
}

fn is_grouped(effect: &Effect) -> bool {
    matches!(effect, Effect::Publish { group: Some(_), .. })
}

/// The messages of a call whose effects publish, in the order of their settles.
fn publishing(exchange: &Exchange) -> impl Iterator<Item = (u64, &[Effect])> {
    let runs = exchange.settles.iter().flat_map(|settle| {
        let runs = settle.runs.iter();
        runs.map(|run| (settle.piece + u64::from(run.from), &run.outcome))
    });
    runs.filter_map(|(number, outcome)| match outcome {
        queenright::Outcome::Done(effects) if outcome.publishes() => Some((number, &effects[..])),
        _ => None,
    })
}
