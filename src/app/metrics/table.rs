//! Every metric there is: name, kind, help and value in one entry, in the order in which they are exported. The table in
//! docs/operations.md has the same names, which a test below checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::text::{Metric, Value, counter, gauge, histogram};
use crate::engine::history::Figures;
use crate::engine::{Paused, Status};
use crate::node::meter::Meter;

/// What a node counts of itself, at one moment.
pub(super) struct Node {
    pub totals: Figures,
    pub meter: Arc<Meter>,
    pub concurrency: u32,
    pub store_is_up: bool,
}

pub(super) const BUILD: [Metric<()>; 1] = [gauge("queenright_build_info", "The version that runs.", |()| {
    Value::By("version", vec![(env!("CARGO_PKG_VERSION"), 1)])
})];

/// Told by every node.
pub(super) const NODE: [Metric<Node>; 13] = [
    gauge(
        "process_start_time_seconds",
        "When this process started, in seconds since 1970.",
        |node| Value::Seconds(node.meter.started_ms * 1000),
    ),
    counter(
        "queenright_messages_published_total",
        "Messages that this node generated and the store confirmed.",
        |node| Value::Count(node.totals.published),
    ),
    counter(
        "queenright_messages_done_total",
        "Messages that this node settled as done.",
        |node| Value::Count(node.totals.done),
    ),
    counter(
        "queenright_messages_failed_total",
        "Messages that this node settled as errors.",
        |node| Value::Count(node.totals.failed),
    ),
    counter(
        "queenright_messages_retried_total",
        "Messages that failed on this node and were put off to be tried again.",
        |node| Value::Count(node.totals.retried),
    ),
    counter(
        "queenright_messages_redelivered_total",
        "Messages that this node took and that were delivered before.",
        |node| load(&node.meter.redelivered),
    ),
    counter(
        "queenright_elections_total",
        "How often this node became the generator.",
        |node| load(&node.meter.elections),
    ),
    histogram(
        "queenright_handle_seconds",
        "How long the handler took for a message.",
        |node| Value::Times(&node.totals.handle),
    ),
    histogram(
        "queenright_wait_seconds",
        "From publishing a message to the start of its first handling, exact to a millisecond.",
        |node| Value::Times(&node.totals.wait),
    ),
    gauge(
        "queenright_node_messages_in_hand",
        "Messages that this node has taken and not settled.",
        |node| load(&node.meter.in_hand),
    ),
    gauge(
        "queenright_node_concurrency",
        "How many messages this node handles at once.",
        |node| Value::Count(node.concurrency.into()),
    ),
    gauge(
        "queenright_node_generates",
        "1 while this node is the generator.",
        |node| Value::Count(node.meter.generates.load(Ordering::Relaxed).into()),
    ),
    gauge("queenright_store_up", "1 while the store answers this node.", |node| {
        Value::Count(node.store_is_up.into())
    }),
];

/// Told by the generator, and by the dashboard: the same from wherever it is looked at.
pub(super) const QUEUE: [Metric<Status>; 11] = [
    gauge(
        "queenright_queue_messages",
        "Messages in the store, by where they are.",
        |status| {
            let states = [
                ("queued", status.queued),
                ("in_hand", status.in_hand),
                ("later", status.later),
                ("errors", status.errors),
            ];
            Value::By("state", states.into())
        },
    ),
    counter(
        "queenright_queue_published_total",
        "Messages published or pushed, by all nodes.",
        |status| Value::Count(status.published),
    ),
    counter(
        "queenright_queue_done_total",
        "Messages done, by all nodes.",
        |status| Value::Count(status.done),
    ),
    counter(
        "queenright_queue_failed_total",
        "Messages that became errors, by all nodes.",
        |status| Value::Count(status.failed),
    ),
    counter(
        "queenright_queue_requeued_total",
        "Failed messages that were put back into the queue.",
        |status| Value::Count(status.requeued),
    ),
    counter(
        "queenright_queue_trimmed_total",
        "Failed messages that were removed because there were more than --max-errors.",
        |status| Value::Count(status.trimmed),
    ),
    counter(
        "queenright_queue_rewinds_total",
        "How often the store was found to have lost acknowledged writes.",
        |status| Value::Count(status.rewinds),
    ),
    gauge("queenright_queue_paused", "1 while this part is paused.", |status| {
        let Paused { generator, handlers } = status.paused;
        Value::By(
            "part",
            vec![("generator", generator.into()), ("handlers", handlers.into())],
        )
    }),
    gauge("queenright_queue_nodes", "Nodes that are alive.", |status| {
        Value::Count(status.nodes.len() as u64)
    }),
    gauge(
        "queenright_queue_has_generator",
        "1 while there is a generator.",
        |status| Value::Count(status.generator.is_some().into()),
    ),
    gauge(
        "queenright_queue_epoch",
        "The number of the present reign: one more with each election.",
        |status| Value::Count(status.epoch),
    ),
];

fn load(counter: &AtomicU64) -> Value<'static> {
    Value::Count(counter.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::text::Kind;
    use super::*;

    /// Name and kind of every metric.
    fn all() -> Vec<(&'static str, Kind)> {
        fn of<T>(metrics: &[Metric<T>]) -> Vec<(&'static str, Kind)> {
            metrics.iter().map(|metric| (metric.name, metric.kind)).collect()
        }
        [of(&BUILD), of(&NODE), of(&QUEUE)].concat()
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
