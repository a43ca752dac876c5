//! What a beat tells of the queue itself: another number of shards, and what someone else has done to it.

use super::Membership;
use crate::engine::{Engine, Member, NodeId};
use crate::mutants::guard;
use crate::node::event::Event;

impl<E: Engine> Membership<E> {
    /// There are other shards than this node works on: the queue is to be opened anew.
    pub(super) fn heed_shards(&mut self, node: &NodeId, member: &Member) {
        let Some(line) = &member.resharded else { return };
        if !self.reopens(line) {
            self.tell_once(
                node,
                format!("the field names of meta, which is {line:?}: set it right"),
            );
        }
    }

    /// If this line tells of other shards, the queue is to be opened anew. False: it does not.
    pub(super) fn reopens(&self, line: &str) -> bool {
        let is_later = self.context.settings.names.continued(line).is_some() && guard("reopen");
        if is_later {
            self.context.reopening.want();
        }
        is_later
    }

    /// Says once what the store has found to be damaged.
    pub(super) fn tell_damage(&mut self, node: &NodeId, member: &Member) {
        let pieces = member.damaged.unwrap_or(0);
        if pieces > self.damage.0 {
            let what =
                format!("{pieces} pieces of the queue could not be read and were set aside: someone else wrote there");
            self.context.tell(node, Event::Damaged { what });
        }
        if member.damaged.is_some() {
            self.damage.0 = pieces;
        }
        if let Some(wrong) = &member.wrong {
            self.tell_once(node, format!("the key {wrong}: rename or remove it"));
        }
    }

    pub(super) fn tell_once(&mut self, node: &NodeId, what: String) {
        if self.damage.1 != what {
            self.damage.1.clone_from(&what);
            self.context.tell(node, Event::Damaged { what });
        }
    }
}
