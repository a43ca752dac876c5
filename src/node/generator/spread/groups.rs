//! Messages of groups: a generator publishes into the shards in turn, and a group is in one of them.

use super::Run;
use super::batch::Batch;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::event::Event;
use crate::node::generate::Generate;

impl<E: Engine, G: Generate> Run<'_, E, G> {
    /// Where one shard gets all new messages, groups are there, too: that is the way back from a reshard. Otherwise what has a group is refused. In a queue that
    /// had shards from the beginning that is a mistake of whoever starts the node. After a reshard it ends no node: what waits is handled, and generating waits.
    pub(super) fn unless_grouped(&mut self, batch: Batch) -> Result<Option<Batch>> {
        if !self.turn.is_spread() || batch.packs.iter().all(|pack| pack.group().is_none()) {
            return Ok(Some(batch));
        }
        let home = &self.shards[0];
        if home.settings.names.then.is_empty() {
            return Err(Error::Setting {
                setting: "group",
                reason: "the generator of a queue with shards cannot put messages into groups: push them".into(),
            });
        }
        self.is_refused = true;
        home.tell_own(Event::Blocked {
            why: "the generator puts messages into groups, which it cannot where there are shards: nothing is generated until there is one shard again (queenright reshard --to 1)".into(),
        });
        Ok(None)
    }
}
