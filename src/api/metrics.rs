//! Figures for Prometheus and its relatives, as text. `table` has every metric, `text` the format.

mod table;
mod text;

use std::sync::Arc;

use crate::engine::Status;
use crate::node::meter::Meter;
use crate::settings::Settings;
use table::{BUILD, NODE, Node, QUEUE, SHARDS};
use text::{Kind, Text};

#[cfg(feature = "cli")]
pub(crate) use text::CONTENT_TYPE;

/// The figures of a queue alone.
#[cfg(feature = "cli")]
pub(crate) fn of_queue(name: &str, status: Option<&Status>) -> String {
    of(name, None, status)
}

/// The figures of a node, and of its queue if somebody has looked at it.
pub(crate) fn of_node(settings: &Settings, meter: &Arc<Meter>, status: Option<&Status>) -> String {
    let node = Node {
        totals: meter.totals(),
        meter: meter.clone(),
        concurrency: settings.concurrency,
        store_is_up: store_is_up(settings, meter),
    };
    of(&settings.queue, Some(&node), status)
}

/// The store has answered within twice the time in which a node must be heard.
pub(crate) fn store_is_up(settings: &Settings, meter: &Meter) -> bool {
    meter.silence().is_some_and(|silence| silence < 2 * settings.lease)
}

fn of(queue: &str, node: Option<&Node>, status: Option<&Status>) -> String {
    let mut text = Text::new(queue);
    text.add(BUILD, &());
    if let Some(node) = node {
        text.add(NODE, node);
    }
    if let Some(status) = status {
        // Without those of a shard that is away, counters would go down, and up again with its return. What is missing, Prometheus knows.
        let is_whole = status.shards.iter().all(|shard| shard.away.is_none());
        text.add(
            QUEUE.iter().filter(|metric| is_whole || metric.kind != Kind::Counter),
            status,
        );
        if !status.shards.is_empty() {
            text.add(SHARDS, status);
        }
    }
    text.finish()
}
