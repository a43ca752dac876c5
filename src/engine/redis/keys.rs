//! Every key of a queue. All carry one hash tag, so that a queue lives in one slot of a cluster.

use super::slots;
use crate::settings::Names;

/// The keys of one queue.
#[derive(Debug, Clone)]
pub struct Keys {
    pub queue_name: String,
    pub names: Names,
    pub prefix: String,
    pub meta: String,
    pub queue: String,
    pub bodies: String,
    pub again: String,
    pub later: String,
    pub nodes: String,
    pub dead: String,
    pub errors: String,
    pub records: String,
    pub readers: String,
    pub once: String,
    pub once_values: String,
    pub history: String,
    pub reigns: String,
    pub unheard: String,
    pub sending: String,
    /// The lines of groups, the groups whose turn it is, how each stands, how many wait in each, and which are paused.
    pub lines: String,
    pub ready: String,
    pub turns: String,
    pub groups: String,
    pub groups_paused: String,
    /// Groups that rest by a limit.
    pub resting: String,
    /// Messages whose outcomes are asked for, and those of them that ended.
    pub asked: String,
    pub endings: String,
    pub purged: String,
    /// Written to, so that the server can say which replicas have it; expires.
    pub replicated: String,
    /// What could not be read.
    pub damaged: String,
    pub bell: String,
    pub crown: String,
}

impl Keys {
    /// Those of a queue, or of one of its shards: their slots are spread evenly over a cluster.
    #[must_use]
    pub fn new(queue: &str, names: &Names) -> Self {
        let tag = match names.shard {
            0 => format!("qr:{queue}"),
            _ => slots::tag(queue, names),
        };
        let prefix = format!("{{{tag}}}:");
        let key = |name: &str| format!("{prefix}{name}");
        Self {
            queue_name: queue.to_string(),
            names: names.clone(),
            meta: key("meta"),
            queue: key("queue"),
            bodies: key("bodies"),
            again: key("again"),
            later: key("later"),
            nodes: key("nodes"),
            dead: key("dead"),
            errors: key(&names.errors),
            records: key(&format!("{}:records", names.errors)),
            readers: key("readers"),
            once: key("once"),
            once_values: key("once:values"),
            history: key("history"),
            reigns: key("reigns"),
            unheard: key("unheard"),
            sending: key("sending"),
            lines: key("lines"),
            ready: key("ready"),
            turns: key("turns"),
            groups: key("groups"),
            groups_paused: key("groups:paused"),
            resting: key("resting"),
            asked: key("asked"),
            endings: key("endings"),
            purged: key("purged"),
            replicated: key("replicated"),
            damaged: key("damaged"),
            bell: key(&names.bell),
            crown: key(&names.crown),
            prefix,
        }
    }

    /// What scripts need where there are messages of groups, in this order.
    pub(super) fn of_groups(&self) -> [&String; 4] {
        [&self.lines, &self.ready, &self.turns, &self.groups]
    }

    /// The keys that every queue has, with the types of what they hold. The last one outlives it. Scripts find those of groups from the
    /// end.
    pub(super) fn typed(&self) -> [(&String, &'static str); 28] {
        [
            (&self.meta, "hash"),
            (&self.nodes, "zset"),
            (&self.queue, "list"),
            (&self.again, "list"),
            (&self.later, "zset"),
            (&self.dead, "list"),
            (&self.errors, "zset"),
            (&self.records, "hash"),
            (&self.bodies, "hash"),
            (&self.readers, "zset"),
            (&self.once, "zset"),
            (&self.once_values, "hash"),
            (&self.history, "hash"),
            (&self.reigns, "list"),
            (&self.damaged, "list"),
            (&self.bell, "list"),
            (&self.crown, "list"),
            (&self.unheard, "list"),
            (&self.sending, "list"),
            (&self.asked, "hash"),
            (&self.endings, "zset"),
            (&self.resting, "zset"),
            (&self.lines, "zset"),
            (&self.ready, "list"),
            (&self.turns, "hash"),
            (&self.groups, "zset"),
            (&self.groups_paused, "zset"),
            (&self.purged, "hash"),
        ]
    }

    /// The hash tag, with its braces.
    #[must_use]
    pub fn tag(&self) -> &str {
        self.prefix.trim_end_matches(':')
    }

    /// Whether a cluster keeps this key where the queue is because of its hash tag: what is between its first pair of braces.
    #[must_use]
    pub fn shares_slot(&self, key: &str) -> bool {
        let tag = self.tag();
        key.find('{').is_some_and(|at| key[at..].starts_with(tag))
    }

    /// What a node holds.
    #[must_use]
    pub fn taken(&self, node: &str) -> String {
        format!("{}taken:{node}", self.prefix)
    }

    /// The channels that show which nodes are there, without their ids.
    #[must_use]
    pub fn alive(&self) -> String {
        format!("{}alive:", self.prefix)
    }

    /// What a reader of errors is printing.
    #[must_use]
    pub fn reading(&self, reader: &str) -> String {
        format!("{}:{reader}", self.errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_shares_the_slot_of_the_queue_by_its_first_hash_tag() {
        let keys = Keys::new("feeds", &Names::default());
        assert_eq!(keys.tag(), "{qr:feeds}");
        for inside in ["read{qr:feeds}", "{qr:feeds}", "a{qr:feeds}b{c}"] {
            assert!(keys.shares_slot(inside), "{inside}");
        }
        for outside in [
            "read",
            "qr:feeds",
            "a{b}{qr:feeds}",
            "{}{qr:feeds}",
            "{qr:feeds",
            "{qr:feed}",
            "",
        ] {
            assert!(!keys.shares_slot(outside), "{outside}");
        }
    }
}
