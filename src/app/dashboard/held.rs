//! `/api/v1/held`: what each node has in hand, and for how long this dashboard has seen it there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::reply::{Answer, ok};
use crate::engine::Engine;
use crate::settings::ms;

/// How many pieces in hand are listed at most.
const HELD_MAX: u32 = 200;

#[derive(Serialize)]
struct InHand {
    pieces: Vec<Piece>,
    /// Whether there are more than are listed.
    more: bool,
}

#[derive(Serialize)]
struct Piece {
    node: String,
    first: u64,
    count: u64,
    deliveries: u16,
    failures: u16,
    published_ms: u64,
    /// For how long this dashboard has seen it there: it may have been there before.
    seen_ms: u64,
    start: String,
}

/// Since when pieces are seen in the hand of a node. What is not seen any more is forgotten.
#[derive(Default)]
pub(super) struct Sightings(Mutex<BTreeMap<Key, (Instant, Instant)>>);

/// Node, number and deliveries.
type Key = (String, u64, u16);

/// A piece that was in no answer for this long is forgotten.
const SIGHT_MAX: Duration = Duration::from_secs(10);

impl Sightings {
    /// Who holds what: bounded, the oldest of each node first.
    pub(super) async fn tell<E: Engine>(&self, engine: &E) -> Answer {
        let (mut pieces, mut more) = (Vec::new(), false);
        for node in engine.status().await?.nodes {
            if node.in_hand == 0 {
                continue;
            }
            let room = HELD_MAX - u32::try_from(pieces.len()).expect("bounded");
            // Of large messages one look brings only a few.
            let held = engine.held(&node.node, room).await?;
            more |= held.iter().map(|piece| piece.count).sum::<u64>() < node.in_hand;
            for piece in held {
                let sight = (node.node.clone(), piece.first, piece.deliveries);
                pieces.push(Piece {
                    node: node.node.clone(),
                    first: piece.first,
                    count: piece.count,
                    deliveries: piece.deliveries,
                    failures: piece.failures,
                    published_ms: piece.published_ms,
                    seen_ms: ms(self.see(sight)),
                    start: String::from_utf8_lossy(&piece.start).into_owned(),
                });
            }
            if pieces.len() == HELD_MAX as usize {
                break;
            }
        }
        Ok(ok(&InHand { pieces, more }))
    }

    /// How long ago this piece was first seen.
    fn see(&self, piece: Key) -> Duration {
        let now = Instant::now();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, (_, last)| now - *last < SIGHT_MAX);
        let (first, last) = seen.entry(piece).or_insert((now, now));
        *last = now;
        now - *first
    }
}
