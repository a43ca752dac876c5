//! Who hears what happens on a node if nobody else was named.

use std::io::Write as _;

use crate::node::event::{Event, Observer};

/// Tells what needs attention on stderr: nobody should have to guess why nothing happens. With the feature `tracing`, all goes to
/// that crate, if somebody listens to it.
pub(super) struct Told;

impl Observer for Told {
    /// What there is one of for each message is prepared only for those who want to hear it.
    fn wants_messages(&self) -> bool {
        #[cfg(feature = "tracing")]
        let wants = tracing::enabled!(target: "queenright", tracing::Level::DEBUG);
        #[cfg(not(feature = "tracing"))]
        let wants = false;
        wants
    }

    fn observe(&self, node: &str, events: &[Event]) {
        #[cfg(feature = "tracing")]
        if tracing::dispatcher::has_been_set() {
            return events.iter().for_each(|event| trace(node, event));
        }
        for warning in events.iter().filter_map(Event::warning) {
            // Nobody may be listening.
            let _ = writeln!(std::io::stderr(), "queenright: node {node}: {warning}");
        }
    }
}

#[cfg(feature = "tracing")]
fn trace(node: &str, event: &Event) {
    let name = event.name();
    match event.warning() {
        Some(warning) => tracing::warn!(target: "queenright", node, event = name, "{warning}"),
        None if event.is_per_message() => tracing::debug!(target: "queenright", node, event = name, "{event:?}"),
        None => tracing::info!(target: "queenright", node, event = name, "{event:?}"),
    }
}
