//! How a membership comes to the crown: by election; or, in a shard other than the home shard, by claiming it with the epoch of the home shard.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Requests, Standing};
use crate::engine::{Beat, Member, NodeId};
use crate::mutants::guard;
use crate::node::id::{new_id, new_node_id};
use crate::node::watch;

/// How a membership comes to the crown, and to its ids.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// Of a node that works on several shards.
    pub ids: Option<Ids>,
    /// In a shard other than the home shard.
    pub home: Option<Home>,
    /// Who reigns in the home shard of a queue that is being removed, and until when that may take.
    past: Option<(NodeId, Instant)>,
}

/// What the membership in the home shard has come to.
#[derive(Debug)]
pub(crate) struct Home {
    pub standing: watch::Receiver<Standing>,
    pub requests: Arc<Requests>,
}

/// The ids of one process in one shard: all begin alike, so that looks at all shards find the process again; and none is used twice.
#[derive(Debug)]
pub(crate) struct Ids {
    process: String,
    shard: usize,
    next: u64,
}

impl Ids {
    /// Of a new process, for each shard.
    pub(crate) fn of(shards: usize) -> Vec<Self> {
        let process = new_node_id();
        let of = |shard| Self {
            process: process.clone(),
            shard,
            next: 0,
        };
        (0..shards).map(of).collect()
    }

    fn draw(&mut self) -> String {
        let Self { process, shard, next } = self;
        let again = if *next > 0 { format!(".{next}") } else { String::new() };
        *next += 1;
        match shard {
            0 => format!("{process}{again}"),
            _ => format!("{process}-{shard}{again}"),
        }
    }
}

impl Seat {
    pub(crate) fn new(ids: Option<Ids>, home: Option<Home>) -> Self {
        let past = None;
        Self { ids, home, past }
    }

    /// This shard was removed. The home shard is the last to be: whoever reigns there until it joins again does so in the queue that was, and does not claim this one.
    pub(super) fn was_purged(&mut self, lease: Duration) {
        let Some(home) = &self.home else {
            return;
        };
        let (now, purged) = (Instant::now(), home.requests.requested().purged);
        if purged.is_none_or(|purged| now >= purged + lease) {
            self.past = Some((home.standing.borrow().node.clone(), now + lease));
            home.requests.beat_now();
        }
    }

    /// The generator is elected here.
    pub(super) fn is_elected(&self) -> bool {
        self.home.is_none()
    }

    pub(super) fn new_node_id(&mut self) -> String {
        self.ids.as_mut().map_or_else(new_node_id, Ids::draw)
    }

    /// After somebody else was found to have the last one.
    pub(super) fn another_node_id(&mut self) -> String {
        self.ids.as_mut().map_or_else(new_id, Ids::draw)
    }

    /// The epoch with which this shard is claimed; 0: this node does not reign in the home shard.
    pub(super) fn claims(&self) -> u64 {
        let home = self.home.as_ref().filter(|_| guard("claims"));
        home.map_or(0, |home| {
            let standing = home.standing.borrow();
            let is_past = |(node, until): &(NodeId, Instant)| *node == standing.node && Instant::now() < *until;
            if self.past.as_ref().is_some_and(is_past) {
                return 0;
            }
            standing.reign.as_ref().map_or(0, |reign| reign.epoch)
        })
    }

    /// The home shard hears of an epoch with which a shard was claimed: if it went back in time, it would give it again.
    pub(super) fn saw_epoch(&self, epoch: u64) {
        if let Some(home) = &self.home {
            home.requests.saw_epoch(epoch);
        }
    }

    /// Returns when a reign has begun or ended in the home shard.
    pub(super) async fn changed(&mut self) {
        if let Some(home) = &mut self.home
            && home.standing.changed().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// Whether this member had claimed its shard, and has not any more: the shard went back in time. It claims it again under another id.
pub(super) fn has_lost_claim(beat: &Beat, member: &Member) -> bool {
    beat.claims > 0 && beat.eligible && beat.reigned == beat.claims && !member.generator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_process_begin_alike_and_none_comes_twice() {
        let mut ids = Ids::of(3);
        let process = ids[0].process.clone();
        let drawn: Vec<String> = [0, 2, 0, 2, 1].map(|shard: usize| ids[shard].draw()).into();
        let expected = ["", "-2", ".1", "-2.1", "-1"].map(|end| format!("{process}{end}"));
        assert_eq!(drawn, expected);
    }
}
