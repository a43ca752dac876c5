//! A walk through the failed messages in bounded steps.

use std::time::Duration;

use tokio::time::Instant;

use super::super::reply::Refusal;
use crate::api::failed::Filter;
use crate::app::args::json::NUMBER_MAX;
use crate::engine::{Engine, Failed};

/// How many errors one call looks at, and for how long, at most.
const LOOK_MAX: u64 = 10_000;
const LOOK_TIME: Duration = Duration::from_millis(300);

/// A walk through the errors in bounded steps.
pub(super) struct Walk {
    newest: bool,
    /// Downwards below this number, upwards from it on; none at the end.
    pub(super) next: Option<u64>,
    /// The last number that matters.
    end: u64,
    pub(super) looked: u64,
    until: Instant,
}

impl Walk {
    pub(super) fn new(filter: &Filter, newest: bool, cursor: Option<u64>) -> Self {
        let (next, end) = if newest {
            let top = filter.to.min(NUMBER_MAX) + 1;
            (cursor.map_or(top, |cursor| cursor.min(top)), filter.from)
        } else {
            (cursor.map_or(filter.from, |cursor| cursor.max(filter.from)), filter.to)
        };
        Self {
            newest,
            next: Some(next),
            end,
            looked: 0,
            until: Instant::now() + LOOK_TIME,
        }
    }

    /// Whether there is more, and whether this call may look at more.
    pub(super) fn goes_on(&self) -> bool {
        let fresh = self.looked == 0 || (self.looked < LOOK_MAX && Instant::now() < self.until);
        self.next.is_some() && fresh
    }

    pub(super) async fn step<E: Engine>(&mut self, engine: &E, most: u32) -> Result<Vec<Failed>, Refusal> {
        let Some(next) = self.next else { return Ok(Vec::new()) };
        let batch = if self.newest {
            engine.latest(next, most).await?
        } else {
            engine.failed(next, most).await?
        };
        self.looked += batch.len() as u64;
        self.next = None;
        if let Some(last) = batch.last() {
            self.stop_at(last.number);
        }
        Ok(batch)
    }

    /// Goes on after this number.
    pub(super) fn stop_at(&mut self, number: u64) {
        self.next = if self.newest {
            (number > self.end).then_some(number)
        } else {
            (number < self.end).then_some(number + 1)
        };
    }
}
