//! What a generator may publish.

use queenright::engine::{Publish, Published};
use queenright::message::Pack;

use super::checks::Glance;
use super::world::{Inner, item};

impl Inner {
    pub fn only_the_crowned_publish(&mut self, publish: &Publish, published: &Published, before: &Glance) {
        let process = self.members.get(&publish.node).copied();
        let oldest = process.is_some_and(|process| self.is_oldest(process, publish));
        if matches!(published, Published::Gap) && oldest && !self.rewound {
            self.fail("a publish meets a gap although the store never went back");
        }
        if matches!(published, Published::Unheard) {
            return self.only_a_store_that_went_back_waits(before);
        }
        if self.state.meta.as_ref().map_or(0, |meta| meta.made) == before.made {
            return;
        }
        self.a_replay_has_the_same_bytes(publish);
        if !publish.again && self.someone_has_seen(publish.first, before) {
            self.fail("a publish is given a number that a living node has seen");
        }
        if before.generator != publish.node || before.epoch != publish.epoch {
            self.fail("one who is no generator publishes");
        }
        if before.crown <= before.clock {
            self.fail("a generator publishes after its lease");
        }
        if self.book.paused.generator {
            self.fail("a generator publishes although it is paused");
        }
        self.the_source_is_followed(publish);
        let fills = publish.again && publish.first < before.seq;
        if (publish.first != before.seq && !fills) || !matches!(published, Published::Ok { .. }) {
            self.fail("numbers have a gap or a repeat");
        }
        if publish.epoch < self.book.last_epoch {
            self.fail("epochs go down along the numbers");
        }
        self.book.last_epoch = publish.epoch;
        let call = (publish.epoch, publish.made, publish.first);
        let anew = process.is_some_and(|process| self.processes[process].publishes.get(&call) == Some(&true));
        if anew && !self.pushed && !publish.again {
            let number = publish.first;
            self.fail(&format!("a node gives number {number} anew, and has seen it"));
        }
    }

    fn a_replay_has_the_same_bytes(&mut self, publish: &Publish) {
        for pack in &publish.packs {
            for index in 0..pack.count() {
                let message = pack.message(index);
                let known = self.told.made.entry((message.epoch, message.number));
                if *known.or_insert_with(|| message.payload.clone()) != message.payload {
                    let number = message.number;
                    self.fail(&format!("message {number} is published again, and is another one"));
                }
            }
        }
    }

    /// With a cursor nothing of the source is left out, and nothing comes twice.
    fn the_source_is_followed(&mut self, publish: &Publish) {
        if !self.plan.cursor {
            return;
        }
        for pack in &publish.packs {
            for index in 0..pack.count() {
                let (found, next) = (item(&pack.message(index).payload), self.book.item);
                if found != next {
                    self.fail(&format!(
                        "item {found} of the source is published, and {next} should be"
                    ));
                }
                self.book.item += 1;
            }
        }
    }

    pub fn the_backlog_keeps_its_limit(&mut self, before: &Glance) {
        self.the_backlog_keeps(self.plan.settings.backlog_max, before);
    }

    pub fn the_backlog_keeps(&mut self, most: u64, before: &Glance) {
        let Some(meta) = &self.state.meta else { return };
        let seq = meta.seq;
        // What was given back to the head since the last look does not count.
        let head = self.state.queue.front().map_or(seq, Pack::first).max(meta.head);
        if seq != before.seq && seq - head > most {
            self.fail("more is queued than the limit");
        }
    }

    pub fn the_ticks_keep_the_grid(&mut self, before: &Glance) {
        let interval = self.plan.settings.interval_ms();
        let Some(meta) = self
            .state
            .meta
            .as_ref()
            .filter(|meta| interval > 0 && meta.seq != before.seq)
        else {
            return;
        };
        // Where the hive clock was held back for longer than a tick, the grid begins anew.
        let on_grid = meta.due.is_multiple_of(interval) || self.book.lag + 50 > interval;
        if !on_grid || meta.due <= before.clock || meta.due > before.clock + 2 * interval {
            let (due, clock) = (meta.due, before.clock);
            self.fail(&format!(
                "the next tick is at {due}, now it is {clock}, ticks come every {interval}"
            ));
        }
    }
}
