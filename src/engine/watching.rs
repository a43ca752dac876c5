//! Whom an engine has seen to be connected.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::NodeId;

/// Who is not connected any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gone {
    pub nodes: Vec<NodeId>,
    /// How many nodes were looked at.
    pub among: usize,
}

/// So many nodes are remembered, whatever looks reach: those that come and go among more members than a look takes.
const SEEN_MAX: usize = 65_536;

/// What looks have shown. Only whoever was seen can vanish: after a restart of the store, or behind a connection that was made anew,
/// nobody was.
#[derive(Debug, Default)]
pub struct Sights(Mutex<(u64, BTreeSet<NodeId>)>);

impl Sights {
    /// Takes in a look over the connection of this number, at all members or at some. Returns those that were seen over it before and are not now.
    pub fn look(&self, over: u64, all: bool, looked: Vec<(NodeId, bool)>) -> Gone {
        let mut sights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (on, seen) = &mut *sights;
        if *on != over {
            (*on, *seen) = (over, BTreeSet::new());
        }
        if all || seen.len() > SEEN_MAX {
            // Who is no member any more is forgotten.
            let members: BTreeSet<&NodeId> = looked.iter().map(|(node, _)| node).collect();
            seen.retain(|node| members.contains(node));
        }
        let (mut gone, among) = (Vec::new(), looked.len());
        for (node, connected) in looked {
            if connected {
                seen.insert(node);
            } else if seen.contains(&node) {
                gone.push(node);
            }
        }
        Gone { nodes: gone, among }
    }

    /// Whether a node was seen over this connection.
    #[must_use]
    pub fn has_seen(&self, over: u64, node: &str) -> bool {
        let sights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sights.0 == over && sights.1.contains(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(nodes: &[(&str, bool)]) -> Vec<(NodeId, bool)> {
        nodes
            .iter()
            .map(|(node, connected)| ((*node).into(), *connected))
            .collect()
    }

    #[test]
    fn only_who_was_seen_over_this_connection_can_vanish() {
        let sights = Sights::default();
        assert!(
            sights
                .look(1, true, named(&[("a", true), ("b", false)]))
                .nodes
                .is_empty()
        );
        assert_eq!(sights.look(1, true, named(&[("a", false), ("b", false)])).nodes, ["a"]);
        assert_eq!(
            sights.look(1, false, named(&[("a", false)])).nodes,
            ["a"],
            "until it is back"
        );
        assert!(sights.has_seen(1, "a") && !sights.has_seen(1, "b") && !sights.has_seen(2, "a"));
        assert!(
            sights.look(2, true, named(&[("a", false)])).nodes.is_empty(),
            "another connection"
        );
        assert!(
            sights.look(1, true, named(&[("a", false)])).nodes.is_empty(),
            "and back to the first"
        );
    }

    #[test]
    fn who_is_no_member_any_more_is_forgotten() {
        let sights = Sights::default();
        sights.look(1, true, named(&[("a", true), ("b", true)]));
        sights.look(1, false, named(&[("b", true)]));
        assert!(sights.has_seen(1, "a"), "only b was looked at");
        sights.look(1, true, named(&[("b", true)]));
        assert!(!sights.has_seen(1, "a"));
    }

    #[test]
    fn who_was_not_looked_at_is_remembered_unless_that_becomes_too_many() {
        let sights = Sights::default();
        sights.look(1, false, vec![("a".into(), true)]);
        let many = |from: usize| {
            let nodes = from..from + SEEN_MAX - 1;
            nodes.map(|node| (node.to_string(), true)).collect()
        };
        sights.look(1, false, many(0));
        assert!(sights.has_seen(1, "a"));
        sights.look(1, false, many(1));
        sights.look(1, false, named(&[("b", true)]));
        assert!(!sights.has_seen(1, "a") && sights.has_seen(1, "b"));
    }
}
