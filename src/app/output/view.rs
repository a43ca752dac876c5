//! The queue as JSON, for all who show it: `status --json`, `nodes --json`, the API and the dashboard. A field of the
//! queue is one line here.

use serde::Serialize;

use crate::engine::history::Reign;
use crate::engine::{GroupFigures, Limits, NodeStatus, Paused, ShardStatus, Status, StoreInfo};

/// A struct that is written out, and how it is copied from the engine's: the same fields in both.
macro_rules! view {
    ($(#[$about:meta])* $name:ident of $source:ident { $($field:ident: $kind:ty,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Serialize)]
        pub(in crate::app) struct $name {
            $(pub(in crate::app) $field: $kind,)+
        }

        impl From<&$source> for $name {
            fn from(source: &$source) -> Self {
                Self { $($field: source.$field.clone().into(),)+ }
            }
        }
    };
}

view! {
    /// The queue as a whole.
    QueueView of Status {
        generator: Option<String>,
        generator_heard_ago_ms: Option<u64>,
        epoch: u64,
        published: u64,
        queued: u64,
        in_hand: u64,
        later: u64,
        done: u64,
        failed: u64,
        errors: u64,
        requeued: u64,
        trimmed: u64,
        rewinds: u64,
        damaged: u64,
        missing: u64,
        paused: PausedView,
        limits: LimitView,
        cancels: u64,
        groups: GroupsView,
    }
}

/// How fast messages may be taken; null: as fast as can be.
#[derive(Debug, Clone, Serialize)]
pub(in crate::app) struct LimitView {
    rate: Option<String>,
    burst: Option<u32>,
    group: Option<String>,
}

impl From<Limits> for LimitView {
    fn from(limits: Limits) -> Self {
        Self {
            rate: limits.rate.map(|rate| rate.to_string()),
            burst: limits.rate.map(|_| limits.burst),
            group: limits.group.map(|rate| rate.to_string()),
        }
    }
}

/// What waits in groups.
#[derive(Debug, Clone, Serialize)]
pub(in crate::app) struct GroupsView {
    /// How many groups have messages in line.
    waiting: u64,
    /// How many messages that are: they are among those queued.
    messages: u64,
    longest: Vec<GroupView>,
    paused: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
struct GroupView {
    group: String,
    messages: u64,
}

impl From<GroupFigures> for GroupsView {
    fn from(figures: GroupFigures) -> Self {
        let longest = figures.longest.into_iter();
        Self {
            waiting: figures.groups,
            messages: figures.messages,
            longest: longest.map(|(group, messages)| GroupView { group, messages }).collect(),
            paused: figures.paused,
        }
    }
}

view! {
    /// A node, but for its id and its role.
    NodeView of NodeStatus {
        host: String,
        pid: u32,
        version: String,
        concurrency: u32,
        age_ms: u64,
        silent_ms: u64,
        watched: bool,
        in_hand: u64,
        done: u64,
        failed: u64,
    }
}

view! {
    PausedView of Paused {
        generator: bool,
        handlers: bool,
    }
}

impl From<Paused> for PausedView {
    fn from(paused: Paused) -> Self {
        Self::from(&paused)
    }
}

view! {
    /// What the queue is kept in.
    StoreView of StoreInfo {
        kind: String,
        version: String,
        memory_bytes: Option<u64>,
        memory_max_bytes: Option<u64>,
        policy: Option<String>,
        persistence: String,
        replicas: Option<u64>,
        uptime_ms: Option<u64>,
        round_trip_us: Option<u64>,
    }
}

view! {
    /// One generator, from its election to its last message.
    ReignView of Reign {
        epoch: u64,
        node: String,
        began_ms: u64,
        last_ms: u64,
        gap_ms: Option<u64>,
    }
}

/// `status --json`.
#[derive(Serialize)]
pub(in crate::app) struct StatusView {
    #[serde(flatten)]
    queue: QueueView,
    nobody_handles: bool,
    nodes: Vec<Member>,
    /// The home shard first; left out where the queue has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shards: Vec<ShardView>,
}

view! {
    /// A shard of the queue.
    ShardView of ShardStatus {
        published: u64,
        queued: u64,
        in_hand: u64,
        later: u64,
        done: u64,
        failed: u64,
        errors: u64,
        nodes: u64,
        retired: bool,
        paused: PausedView,
        limits: LimitView,
        differs: bool,
        place: Option<String>,
        hot: bool,
        away: Option<String>,
    }
}

impl From<&Status> for StatusView {
    fn from(status: &Status) -> Self {
        Self {
            queue: status.into(),
            nobody_handles: status.nobody_handles(),
            nodes: members(status),
            shards: status.shards.iter().map(Into::into).collect(),
        }
    }
}

/// A node in `status --json` and `nodes --json`.
#[derive(Serialize)]
pub(in crate::app) struct Member {
    node: String,
    role: &'static str,
    #[serde(flatten)]
    about: NodeView,
}

/// `nodes --json`.
pub(in crate::app) fn members(status: &Status) -> Vec<Member> {
    let member = |node: &NodeStatus| Member {
        node: node.node.clone(),
        role: super::status::role(status, node),
        about: node.into(),
    };
    status.nodes.iter().map(member).collect()
}
