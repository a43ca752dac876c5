//! Every metric there is: name, kind, help and value in one entry, in the order in which they are exported. The table in
//! docs/operations.md has the same names, which a test below checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::text::{Kind, Metric, Value};
use crate::engine::history::Figures;
use crate::engine::{Rate, ShardStatus, Status};
use crate::node::meter::Meter;

/// What a node counts of itself, at one moment.
pub(super) struct Node {
    pub totals: Figures,
    pub meter: Arc<Meter>,
    pub concurrency: u32,
    pub store_is_up: bool,
}

/// A table of metrics, each with its kind, its name, how its value is read, and its help.
macro_rules! metrics {
    ($(#[$about:meta])* $table:ident of $source:ty { $($kind:ident $name:literal = $value:expr, $help:literal;)+ }) => {
        $(#[$about])*
        pub(super) const $table: &[Metric<$source>] =
            &[$(Metric { kind: Kind::$kind, name: $name, help: $help, value: $value },)+];
    };
}

metrics! {
    BUILD of () {
        Gauge "queenright_build_info" = |()| Value::By("version", vec![(env!("CARGO_PKG_VERSION"), 1)]),
            "The version that runs.";
    }
}

metrics! {
    /// Told by every node.
    NODE of Node {
        Gauge "process_start_time_seconds" = |node| Value::Seconds(node.meter.started_ms * 1000),
            "When this process started, in seconds since 1970.";
        Counter "queenright_messages_published_total" = |node| Value::Count(node.totals.published),
            "Messages that this node generated and the store confirmed.";
        Counter "queenright_messages_done_total" = |node| Value::Count(node.totals.done),
            "Messages that this node settled as done.";
        Counter "queenright_messages_failed_total" = |node| Value::Count(node.totals.failed),
            "Messages that this node settled as errors.";
        Counter "queenright_messages_retried_total" = |node| Value::Count(node.totals.retried),
            "Messages that failed on this node and were put off to be tried again.";
        Counter "queenright_messages_redelivered_total" = |node| load(&node.meter.redelivered),
            "Messages that this node took and that were delivered before.";
        Counter "queenright_elections_total" = |node| load(&node.meter.elections),
            "How often this node became the generator.";
        Histogram "queenright_handle_seconds" = |node| Value::Times(&node.totals.handle),
            "How long the handler took for a message.";
        Histogram "queenright_wait_seconds" = |node| Value::Times(&node.totals.wait),
            "From publishing a message to the start of its first handling, exact to a millisecond.";
        Gauge "queenright_node_messages_in_hand" = |node| load(&node.meter.in_hand),
            "Messages that this node has taken and not settled.";
        Gauge "queenright_node_concurrency" = |node| Value::Count(node.concurrency.into()),
            "How many messages this node handles at once.";
        Gauge "queenright_node_generates" = |node| Value::Count(node.meter.generates.load(Ordering::Relaxed).into()),
            "1 while this node is the generator.";
        Gauge "queenright_store_up" = |node| Value::Count(node.store_is_up.into()),
            "1 while the store answers this node.";
    }
}

metrics! {
    /// Told by the generator, and by the dashboard: the same from wherever it is looked at.
    QUEUE of Status {
        Gauge "queenright_queue_messages" = |status| Value::By("state", vec![
                ("queued", status.queued),
                ("in_hand", status.in_hand),
                ("later", status.later),
                ("errors", status.errors),
            ]),
            "Messages in the store, by where they are.";
        Counter "queenright_queue_published_total" = |status| Value::Count(status.published),
            "Messages published or pushed, by all nodes.";
        Counter "queenright_queue_done_total" = |status| Value::Count(status.done),
            "Messages done, by all nodes.";
        Counter "queenright_queue_failed_total" = |status| Value::Count(status.failed),
            "Messages that became errors, by all nodes.";
        Counter "queenright_queue_requeued_total" = |status| Value::Count(status.requeued),
            "Failed messages that were put back into the queue.";
        Counter "queenright_queue_trimmed_total" = |status| Value::Count(status.trimmed),
            "Failed messages that were removed because there were more than --max-errors.";
        Counter "queenright_queue_rewinds_total" = |status| Value::Count(status.rewinds),
            "How often the store was found to have lost acknowledged writes.";
        Counter "queenright_queue_damaged_total" = |status| Value::Count(status.damaged),
            "Pieces of the queue that could not be read and were set aside.";
        Gauge "queenright_queue_missing" = |status| Value::Count(status.missing),
            "Messages that are counted and are nowhere any more.";
        Gauge "queenright_queue_paused" = |status| Value::By("part", vec![
                ("generator", status.paused.generator.into()),
                ("handlers", status.paused.handlers.into()),
            ]),
            "1 while this part is paused.";
        Gauge "queenright_queue_limit_per_second" = |status| {
                // Written as seconds are: to the millionth.
                let millionths = |rate: Rate| u64::from(rate.messages) * 1_000_000_000 / u64::from(rate.per_ms);
                Value::Seconds(status.limits.rate.map_or(0, millionths))
            },
            "How fast the whole fleet may take messages, a second; 0 if there is no limit.";
        Gauge "queenright_queue_cancels" = |status| Value::Count(status.cancels),
            "Cancels that are pending: of messages, and of groups.";
        Gauge "queenright_queue_groups" = |status| Value::Count(status.groups.groups),
            "Groups that have messages waiting.";
        Gauge "queenright_queue_grouped_messages" = |status| Value::Count(status.groups.messages),
            "Messages that wait in the lines of groups; they are among those queued.";
        Gauge "queenright_queue_group_longest" = |status| {
                Value::Count(status.groups.longest.first().map_or(0, |(_, length)| *length))
            },
            "Messages in the longest line of a group.";
        Gauge "queenright_queue_groups_paused" = |status| Value::Count(status.groups.paused.len() as u64),
            "Groups that are paused.";
        Gauge "queenright_queue_nodes" = |status| {
                let alive = status.nodes.iter().filter(|node| node.is_alive());
                Value::Count(alive.count() as u64)
            },
            "Nodes that are alive: heard of within their leases.";
        Gauge "queenright_queue_has_generator" = |status| Value::Count(status.generator.is_some().into()),
            "1 while there is a generator.";
        Gauge "queenright_queue_epoch" = |status| Value::Count(status.epoch),
            "The number of the present reign: one more with each election.";
    }
}

metrics! {
    /// Told with those of the queue, where it has shards.
    SHARDS of Status {
        Gauge "queenright_shard_up" = |status| {
                let shards = status.shards.iter().enumerate();
                Value::OfShards(shards.map(|(number, shard)| (number, shard.away.is_none().into())).collect())
            },
            "1 while the shard answers.";
        Gauge "queenright_shard_messages" = |status| {
                let states = |(number, shard): (usize, &ShardStatus)| [
                    (number, "queued", shard.queued),
                    (number, "in_hand", shard.in_hand),
                    (number, "later", shard.later),
                    (number, "errors", shard.errors),
                ];
                Value::OfShardsBy("state", answering(status).flat_map(states).collect())
            },
            "Messages in the shard, by where they are.";
        Counter "queenright_shard_published_total" = |status| of_each(status, |shard| shard.published),
            "Messages published or pushed into the shard, by all nodes.";
        Counter "queenright_shard_done_total" = |status| of_each(status, |shard| shard.done),
            "Messages of the shard that are done, by all nodes.";
        Counter "queenright_shard_failed_total" = |status| of_each(status, |shard| shard.failed),
            "Messages of the shard that became errors, by all nodes.";
    }
}

fn answering(status: &Status) -> impl Iterator<Item = (usize, &ShardStatus)> {
    let shards = status.shards.iter().enumerate();
    shards.filter(|(_, shard)| shard.away.is_none())
}

fn of_each(status: &Status, count: fn(&ShardStatus) -> u64) -> Value<'static> {
    Value::OfShards(
        answering(status)
            .map(|(number, shard)| (number, count(shard)))
            .collect(),
    )
}

fn load(counter: &AtomicU64) -> Value<'static> {
    Value::Count(counter.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Name and kind of every metric.
    fn all() -> Vec<(&'static str, Kind)> {
        fn of<T>(metrics: &[Metric<T>]) -> Vec<(&'static str, Kind)> {
            metrics.iter().map(|metric| (metric.name, metric.kind)).collect()
        }
        [of(BUILD), of(NODE), of(QUEUE), of(SHARDS)].concat()
    }

    /// The rows of the table `| name | kind | …`: names and their kind. `_x` after a name stands for that name with
    /// another end.
    fn documented(text: &str, known: &BTreeMap<&str, Kind>) -> BTreeMap<String, String> {
        let table = text.split_once("| name | kind |").expect("a table of metrics").1;
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let mut found = BTreeMap::new();
        for row in rows {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let mut first = String::new();
            for quoted in cells[1].split('`').skip(1).step_by(2) {
                let name = quoted.split('{').next().unwrap_or_default();
                let whole = if let Some(end) = name.strip_prefix('_') {
                    let starts = first.match_indices('_').map(|(at, _)| &first[..=at]);
                    let mut wholes = starts.map(|start| format!("{start}{end}"));
                    wholes
                        .find(|whole| known.contains_key(whole.as_str()))
                        .unwrap_or_else(|| name.to_string())
                } else if name.contains('_') && !name.starts_with("in_") {
                    name.to_string()
                } else {
                    // A label's value.
                    continue;
                };
                if first.is_empty() {
                    first.clone_from(&whole);
                }
                found.insert(whole, cells[2].to_string());
            }
        }
        found
    }

    #[test]
    fn the_documentation_has_every_metric_and_no_other() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
        let text = std::fs::read_to_string(path).expect("the documentation of metrics");
        let known: BTreeMap<&str, Kind> = all().into_iter().collect();
        let wanted: BTreeMap<String, String> = known
            .iter()
            .map(|(name, kind)| ((*name).to_string(), kind.word().to_string()))
            .collect();
        assert_eq!(documented(&text, &known), wanted);
    }

    #[test]
    fn names_and_helps_follow_the_conventions_of_prometheus() {
        for (name, kind) in all() {
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        }
    }
}
