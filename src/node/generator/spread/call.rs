//! A publish that is on its way to a shard.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::super::send::{Sender, Sent};
use crate::engine::{Engine, Publish};
use crate::error::Result;
use crate::node::context::Context;
use crate::node::kept::Line;

/// Ends with the shard, the id under which it was sent, and what came of it.
pub(super) type Call<'a> = Pin<Box<dyn Future<Output = (usize, String, Result<Sent>)> + Send + 'a>>;

/// Sends a publish to a shard until it is answered.
pub(super) async fn call<E: Engine>(
    shard: &Context<E>,
    line: Option<&Line>,
    index: usize,
    publish: Publish,
    told: Arc<AtomicU64>,
) -> (usize, String, Result<Sent>) {
    let node = publish.node.clone();
    let sender = Sender {
        context: shard,
        confirmed: &told,
        line,
        node: &node,
    };
    let sent = sender.send(publish).await;
    (index, node, sent)
}
