//! Which shards a reign has, and what their claims told.

use tokio::time::Instant;

use super::super::{Token, reigns};
use super::LOOK;
use super::course::{Claimed, Course};
use crate::engine::Engine;
use crate::node::context::Context;
use crate::node::event::Event;

/// Waits until all shards that may know more are claimed. None: the reign ended first.
pub(super) async fn begin<E: Engine>(shards: &[Context<E>], token: Token<'_>) -> Option<(Course, Vec<Option<Seat>>)> {
    let (home, mut told) = (&shards[0], false);
    while reigns(&home.standing, token) && !home.shutdown.is_stopping() {
        let reigns: Vec<_> = shards.iter().map(|shard| reign_in(shard, token.epoch)).collect();
        let claims: Vec<_> = reigns
            .iter()
            .map(|found| found.as_ref().map(|found| found.1.clone()))
            .collect();
        match Course::begin(token.epoch, &claims) {
            Ok(Some(course)) => {
                let seats = reigns.into_iter().map(|found| found.map(|found| found.0)).collect();
                return Some((course, seats));
            }
            Ok(None) => tokio::time::sleep(LOOK).await,
            // As for anything that someone else wrote: it is said once, and waited for.
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    let what = error.to_string();
                    home.tell_own(Event::Damaged { what });
                }
                tokio::time::sleep(home.settings.lease / 4).await;
            }
        }
    }
    None
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

/// The claim of a shard, as its membership has it.
pub(super) fn reign_in<E>(shard: &Context<E>, epoch: u64) -> Option<(Seat, Claimed)> {
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
    let claimed = Claimed {
        made: reign.made,
        record: reign.cursor.clone(),
    };
    Some((seat, claimed))
}
