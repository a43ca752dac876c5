//! Who is connected, as the server sees it: whether a node's subscription is held.

use std::time::{Duration, Instant};

use super::RedisEngine;
use super::link::signs::Signs;
use super::reply::{Decode, Reply};
use crate::engine::{Gone, NodeId, Reap};
use crate::error::Result;

/// At how many members one look is taken: those whose leases end first, so whoever died is soon among them.
const MEMBERS_MAX: usize = 4096;
/// How many channels one command names.
const CHANNELS_MAX: usize = 512;

/// Shows a node, or not any more; the next `keep_signs` sees to it.
pub(super) fn show(engine: &RedisEngine, node: &str, shows: bool) {
    if let Some(signs) = engine.control.signs() {
        signs.show(node, shows);
    }
}

/// The node is a member no more, whatever becomes of this.
pub(super) async fn hide(engine: &RedisEngine, node: &str) {
    show(engine, node, false);
    let _ = engine.control.keep_signs().await;
}

pub(super) async fn gone(engine: &RedisEngine, of: Option<&NodeId>) -> Result<Option<Gone>> {
    let Some(signs) = engine.control.signs().filter(|signs| signs.tells(Instant::now())) else {
        return Ok(None);
    };
    match look(engine, signs, of).await {
        Err(error) if !error.is_away() => {
            // A right is missing.
            signs.refused_a_look(Instant::now());
            Ok(None)
        }
        looked => looked.map(Some),
    }
}

async fn look(engine: &RedisEngine, signs: &Signs, of: Option<&NodeId>) -> Result<Gone> {
    let over = engine.control.serial();
    let nodes = if let Some(node) = of {
        vec![node.clone()]
    } else {
        let mut look = redis::cmd("ZRANGE");
        look.arg(&engine.keys.nodes).arg(0).arg(MEMBERS_MAX - 1);
        Vec::<String>::decode(engine.control.query(&look).await?)?
    };
    let mut looked = Vec::with_capacity(nodes.len());
    for some in nodes.chunks(CHANNELS_MAX) {
        let mut look = redis::cmd("PUBSUB");
        look.arg("NUMSUB");
        for node in some {
            look.arg(signs.channel(node));
        }
        let mut told = Reply::decode(engine.control.query(&look).await?)?;
        for node in some {
            told.next::<String>()?;
            looked.push((node.clone(), told.next::<u64>()? > 0));
        }
    }
    // What was looked at over two connections says nothing.
    if engine.control.serial() != over {
        return Ok(Gone::default());
    }
    let all = of.is_none() && nodes.len() < MEMBERS_MAX;
    Ok(engine.sights.look(over, all, looked))
}

/// What a beat says of a generator that is gone: only over the connection over which it was seen.
pub(super) fn suspect<'a>(engine: &RedisEngine, gone: &'a str) -> &'a str {
    let seen = engine.sights.has_seen(engine.control.serial(), gone);
    if seen { gone } else { "" }
}

/// The channel of a victim that is gone; empty: its lease must have run out.
pub(super) fn channel_of(engine: &RedisEngine, reap: &Reap) -> String {
    let seen = reap.gone && engine.sights.has_seen(engine.control.serial(), &reap.victim);
    match engine.control.signs() {
        Some(signs) if seen => signs.channel(&reap.victim),
        _ => String::new(),
    }
}

/// Waits until the crown is given up, where the server tells. None: it does not.
pub(super) async fn hear_the_crown(engine: &RedisEngine, at_most: Duration) -> Option<bool> {
    let signs = engine.control.signs().filter(|signs| signs.hears_the_crown())?;
    Some(tokio::time::timeout(at_most, signs.rung()).await.is_ok())
}

impl RedisEngine {
    /// Whether the server lets a node be seen, and others look. None: it is not wanted.
    #[cfg(feature = "cli")]
    pub(crate) async fn try_watching(&self) -> Result<Option<bool>> {
        let Some(signs) = self.control.signs() else {
            return Ok(None);
        };
        let doctor = NodeId::from("doctor");
        show(self, &doctor, true);
        self.control.keep_signs().await?;
        let sees = gone(self, Some(&doctor)).await?.is_some();
        let mut ring = redis::cmd("PUBLISH");
        ring.arg(signs.channel(&doctor)).arg("");
        let rings = match self.control.query(&ring).await {
            Err(error) if error.is_away() => return Err(error),
            answer => answer.is_ok(),
        };
        show(self, &doctor, false);
        self.control.keep_signs().await?;
        Ok(Some(sees && rings))
    }

    /// Whose connections are seen; none of them, where the server does not tell.
    pub(super) async fn connected(&self, nodes: &[NodeId]) -> Result<Vec<bool>> {
        let mut seen = Vec::with_capacity(nodes.len());
        for some in nodes.chunks(CHANNELS_MAX) {
            let mut look = redis::cmd("PUBSUB");
            look.arg("NUMSUB");
            for node in some {
                look.arg(format!("{}{node}", self.keys.alive()));
            }
            let mut told = match self.aside.query(&look).await.and_then(Reply::decode) {
                Ok(told) => told,
                Err(error) if error.is_away() => return Err(error),
                // A right is missing.
                Err(_) => break,
            };
            for _ in some {
                let _ = told.next::<String>();
                seen.push(told.next::<u64>().is_ok_and(|holders| holders > 0));
            }
        }
        seen.resize(nodes.len(), false);
        Ok(seen)
    }

    /// Lets go of what shows that a node is there, as if its process had died, or holds it again: for tests. True: it has changed.
    #[cfg(feature = "mutants")]
    pub async fn show(&self, node: &str, shows: bool) -> Result<bool> {
        let Some(signs) = self.control.signs() else {
            return Ok(false);
        };
        let changes = signs.show(node, shows);
        self.control.keep_signs().await?;
        Ok(changes)
    }
}
