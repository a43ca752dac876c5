//! What runs beside the beat, on the runtime of the node.

use std::time::Duration;

use crate::engine::{Engine, Wake};
use crate::node::backoff::Backoff;
use crate::node::context::Context;

/// Beats at once when the crown is given up, for as long as this node is an heir.
pub(crate) async fn watch_crown<E: Engine>(mut context: Context<E>) {
    let mut backoff = Backoff::new(&context.settings);
    let at_most = Duration::from_millis(context.settings.beat_ms());
    while context.standing.wait_for(|standing| standing.heir).await.is_ok() {
        match context.engine.listen(Wake::Crown, at_most).await {
            Ok(rung) => {
                backoff.reset();
                if rung {
                    context.requests.beat_now();
                }
            }
            Err(_) => backoff.wait().await,
        }
    }
}

/// Tells the membership, which has a thread of its own, that this runtime makes progress. One that is blocked cannot
/// publish, and must not keep the crown.
pub(crate) async fn show_life<E>(context: Context<E>) {
    loop {
        context.requests.turn();
        tokio::time::sleep(context.settings.lease / 8).await;
    }
}
