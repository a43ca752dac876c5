//! Groups: as many in flight as are allowed, in order, and none forgotten.

use queenright::engine::Exchanged;

use super::world::Inner;
use crate::checker;
use crate::oracle::Answer;

impl Inner {
    /// After every call.
    pub fn groups_are_in_order(&mut self, answer: &Answer) {
        if self.plan.groups == 0 {
            return;
        }
        if let Some(wrong) = checker::wrong_group(&self.state) {
            return self.fail(&wrong);
        }
        let most = u64::from(self.plan.settings.group_concurrency);
        let busy = self.state.turns.iter().find(|(_, turn)| turn.in_flight > most);
        if let Some((group, turn)) = busy {
            let line = format!("{group} has more in flight than are allowed: {turn:?}");
            return self.fail(&line);
        }
        let Answer::Exchanged(Exchanged::Ok { packs, .. }) = answer else {
            return;
        };
        // What was put off or delivered before is in flight: nothing of its group was taken meanwhile.
        for pack in packs
            .iter()
            .filter(|pack| pack.deliveries() == 1 && pack.failures() == 0)
        {
            let Some(group) = pack.group() else { continue };
            let line = (group.to_string(), 0)..(group.to_string(), pack.first());
            if let Some(((_, before), _)) = self.state.lines.range(line).next() {
                // One that was put in again, or has become due, comes before those that were taken before it came.
                let late = self.book.lives.contains_key(before) || self.pushed;
                if !late {
                    let number = pack.first();
                    return self.fail(&format!("message {number} of {group} is taken before {before}"));
                }
            }
        }
    }
}
