//! Which shards a reign has, and what their claims told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::{Token, reigns};
use super::LOOK;
use super::course::{self, Course};
use crate::engine::{Engine, Publish, Published};
use crate::mutants::guard;
use crate::node::context::Context;
use crate::node::event::Event;

/// The claims of one reign. With `--replicas`, one counts when replicas have it: a shard that goes back in time after that goes back to it at most, so what
/// it told of the sequence stays true.
pub(super) struct Claims<'a, E> {
    shards: &'a [Context<E>],
    token: Token<'a>,
    asked: Vec<Option<Asked>>,
    /// That a record cannot be read was said.
    told: bool,
}

impl<'a, E: Engine> Claims<'a, E> {
    pub(super) fn new(shards: &'a [Context<E>], token: Token<'a>) -> Self {
        Self {
            shards,
            token,
            asked: shards.iter().map(|_| None).collect(),
            told: false,
        }
    }

    /// Waits until all shards that may know more are claimed. None: the reign ended first.
    pub(super) async fn begin(&mut self) -> Option<(Course, Vec<Option<Seat>>)> {
        let home = &self.shards[0];
        while reigns(&home.standing, self.token) && !home.shutdown.is_stopping() {
            let found: Vec<_> = (0..self.shards.len()).map(|shard| self.find(shard)).collect();
            let records: Vec<_> = found
                .iter()
                .map(|found| found.as_ref().map(|found| found.1.clone()))
                .collect();
            // What cannot be read is not found.
            if let Ok(Some(course)) = Course::begin(self.token.epoch, &records) {
                let seats = found.into_iter().map(|found| found.map(|found| found.0)).collect();
                return Some((course, seats));
            }
            tokio::time::sleep(LOOK).await;
        }
        None
    }

    /// The claim of a shard and its record, as its membership has them, once they are there to stay.
    pub(super) fn find(&mut self, shard: usize) -> Option<(Seat, Bytes)> {
        let (seat, record) = reign_in(&self.shards[shard], self.token.epoch)?;
        if !self.is_kept(shard, &seat) {
            return None;
        }
        // As for anything that someone else wrote: it is said once, and waited for.
        if let Err(error) = course::serial(&record) {
            if !std::mem::replace(&mut self.told, true) {
                let what = error.to_string();
                self.shards[shard].tell_own(Event::Damaged { what });
            }
            return None;
        }
        Some((seat, record))
    }

    fn is_kept(&mut self, shard: usize, seat: &Seat) -> bool {
        let context = &self.shards[shard];
        if context.settings.replicas == 0 || !guard("claim-kept") {
            return true;
        }
        let asked = self.asked[shard].take().filter(|asked| asked.node == seat.node);
        let asked = asked.unwrap_or_else(|| Asked::of(context, seat, self.token.epoch));
        let is_kept = asked.kept.load(Ordering::Relaxed);
        self.asked[shard] = Some(asked);
        is_kept
    }
}

/// Whether replicas have a claim is asked beside all else.
struct Asked {
    node: String,
    kept: Arc<AtomicBool>,
    asking: JoinHandle<()>,
}

impl Asked {
    fn of<E: Engine>(context: &Context<E>, seat: &Seat, epoch: u64) -> Self {
        let (context, kept) = (context.clone(), Arc::new(AtomicBool::new(false)));
        // It publishes nothing: it is answered if this node has the claim, and tells when replicas have all up to there.
        let nothing = Publish {
            node: seat.node.clone(),
            epoch,
            made: seat.made,
            first: seat.seq,
            messages: None,
            backlog_max: u64::MAX,
            interval_ms: 0,
            cursor: None,
            server: String::new(),
            again: false,
            packs: Vec::new(),
        };
        Self {
            node: seat.node.clone(),
            kept: kept.clone(),
            asking: tokio::spawn(async move {
                while !is_kept(&context, &nothing).await {
                    tokio::time::sleep(LOOK).await;
                }
                kept.store(true, Ordering::Relaxed);
            }),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

async fn is_kept<E: Engine>(context: &Context<E>, nothing: &Publish) -> bool {
    match context.engine.publish_ahead(nothing).await {
        Ok((Published::Ok { .. }, Some(ticket))) => matches!(context.engine.kept(&ticket).await, Ok(true)),
        Ok((Published::Ok { .. }, None)) => true,
        // The beat finds out whether it has lost the claim.
        _ => false,
    }
}

/// What is known of a shard that was claimed in this reign.
pub(super) struct Seat {
    pub node: String,
    /// Its next number, and how many messages of generators it has.
    pub seq: u64,
    pub made: u64,
    pub grain: u64,
    pub due: Instant,
    /// A publish is on its way there.
    pub waits: bool,
}

/// The claim of a shard and its record, as its membership has them.
fn reign_in<E>(shard: &Context<E>, epoch: u64) -> Option<(Seat, Bytes)> {
    let standing = shard.standing.borrow();
    let reign = standing.reign.as_ref().filter(|reign| reign.epoch == epoch)?;
    let seat = Seat {
        node: standing.node.clone(),
        seq: reign.seq,
        made: reign.made,
        grain: reign.grain,
        due: reign.due,
        waits: false,
    };
    Some((seat, reign.cursor.clone()))
}

/// Whether this node has the claim of a shard.
pub(super) fn is_claimed_by<E>(shard: &Context<E>, epoch: u64, node: &str) -> bool {
    let token = Token { node, epoch };
    reigns(&shard.standing, token)
}
