//! Who is crowned, and when.

use queenright::engine::{Beat, Handover, Renewed};

use super::checks::Glance;
use super::world::Inner;

/// How long a publish on its way is waited for when a node stops.
const LAST_PUBLISH_MS: u64 = 1000;

impl Inner {
    /// An epoch has one generator, epochs only grow, and nobody takes a crown whose lease runs.
    pub fn one_crown(&mut self, process: usize, beat: &Beat, pulse: &Renewed, before: &Glance) {
        let Renewed::Alive(member) = pulse else { return };
        let node = &beat.node;
        let called = self.book.chosen == *node || self.book.chosen == "*";
        let entitled = called || beat.rank > self.book.rank;
        if member.epoch < before.epoch {
            self.fail("the epoch goes back");
        }
        if !member.generator {
            if entitled && beat.eligible {
                self.fail("one who is chosen, or ranks above the generator, is not crowned");
            }
            return;
        }
        let reign = self.book.reigns.entry(member.epoch).or_insert_with(|| node.clone());
        if reign != node {
            self.fail(&format!("epoch {} has two generators", member.epoch));
        }
        if member.epoch != before.epoch {
            self.told.elections += 1;
            let gone = beat.gone == before.generator && !self.state.connected.0.contains(&before.generator);
            let reigns = before.crown > before.clock && !before.generator.is_empty();
            if reigns && member.rewound.is_none() && !entitled && !gone {
                self.fail("a crown is taken from its bearer");
            }
            self.a_free_crown_is_soon_taken(before);
            // Who was chosen has the place of the one before, also against those who would rather reign.
            let before = if called { self.book.rank } else { 0 };
            self.book.chosen.clear();
            self.book.rank = before.max(beat.rank);
        }
        (self.book.crown_beat, self.book.crown_ms) = (before.now, beat.crown_ms);
        let lease = self.plan.lease_ms();
        let reigner = &self.processes[process];
        if let Some(stopped) = reigner.stopping
            && before.now > stopped + LAST_PUBLISH_MS + lease / 4
            && reigner.is_calm(stopped)
            && self.store_trouble < stopped
            && self.accidents == 0
        {
            self.fail("a node that stops keeps the crown");
        }
    }

    /// Heirs watch closely: a crown whose bearer has died is taken right after its lease. Whoever was in trouble waits a
    /// lease from its return.
    fn a_free_crown_is_soon_taken(&mut self, before: &Glance) {
        let (lease, step) = (self.plan.lease_ms(), self.plan.settings.step_ms());
        // One that could not reach the store waits a lease before it lets itself be crowned.
        let since = before.now.saturating_sub(2 * lease + lease / 2);
        let watched = before.heirs.iter().any(|heir| {
            let process = self.members.get(heir).map(|process| &self.processes[*process]);
            process.is_some_and(|process| {
                process.works() && process.is_calm(since) && process.joined < since && process.node == *heir
            })
        });
        let since_beat = before.now - self.book.crown_beat;
        let undisturbed = self.store_trouble < since && self.accidents == 0 && !self.rewound;
        let soon = self.book.crown_ms + 3 * step;
        if watched && undisturbed && before.crown > 0 && since_beat > soon {
            self.fail(&format!("nobody took the crown for {since_beat} ms"));
        }
    }

    pub fn a_member_is_chosen(&mut self, to: Option<&str>, asked: Handover) {
        let to = to.unwrap_or("*");
        let named = !matches!(to, "" | "*");
        let generator = self.state.meta.as_ref().map(|meta| &meta.generator);
        let right = match asked {
            Handover::Asked => !named || self.state.nodes.contains_key(to),
            Handover::Reigns => named && generator.is_some_and(|generator| generator == to),
            Handover::Unknown => named && !self.state.nodes.contains_key(to),
        };
        if !right {
            self.fail(&format!("the crown is asked for {to:?}, the answer is {asked:?}"));
        }
        if asked == Handover::Asked {
            self.book.chosen = to.to_string();
        }
    }
}
