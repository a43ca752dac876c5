//! About once a second a node reports its figures to the store, beside its work and never in the way of it. A report that
//! fails is sent again; one that is lost is missing in the history, and nowhere else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::history::{Figures, Gauges, Live, Report, Reported};
use crate::engine::sharded::process_of;
use crate::engine::{Engine, NodeId, Status};
use crate::node::context::Context;
use crate::node::event::Event;
use crate::settings::ms;

const EVERY: Duration = Duration::from_secs(1);
/// A node whose figures have not changed reports all the same, a little more often than the shortest step of history.
const IDLE: Duration = Duration::from_millis(4500);
/// A rate is taken over this many of the last reports.
const RATE_TICKS: usize = 10;

pub(crate) struct Reporter<E: Engine> {
    context: Context<E::Shard>,
    /// All shards.
    queue: Arc<E>,
    node: NodeId,
    number: u64,
    /// The totals that the store has been told.
    told: Figures,
    /// What it has not confirmed: the call, the totals that are told with it, and how often it was sent.
    pending: Option<(Report, Figures, u32)>,
    last: Option<(Live, Instant)>,
    ticks: VecDeque<(Instant, u64)>,
    /// It was told that nobody handles, and that has not changed since.
    unhandled: bool,
}

impl<E: Engine> Reporter<E> {
    pub(crate) fn new(context: Context<E::Shard>, queue: Arc<E>) -> Self {
        Self {
            queue,
            node: NodeId::new(),
            number: 0,
            // What was counted before a reshard was told then.
            told: context.meter.totals(),
            pending: None,
            last: None,
            ticks: VecDeque::new(),
            unhandled: false,
            context,
        }
    }

    /// Reports until it is dropped.
    pub(crate) async fn run(reporter: Arc<tokio::sync::Mutex<Self>>) {
        loop {
            tokio::time::sleep(EVERY).await;
            reporter.lock().await.tell().await;
        }
    }

    /// Sends a report if there is something new.
    pub(crate) async fn tell(&mut self) {
        let totals = self.context.meter.totals();
        let rate_milli = self.rate(&totals);
        let (node, generates) = {
            let standing = self.context.standing.borrow();
            (standing.node.clone(), standing.reign.is_some())
        };
        if node.is_empty() {
            return;
        }
        if node != self.node {
            // Whether the store has the last report is not known: what it told is not told twice.
            if let Some((_, told, _)) = self.pending.take() {
                self.told = told;
            }
            (self.node, self.number, self.last) = (node, 0, None);
        }
        if self.pending.is_none() {
            let live = Live {
                generates,
                started_ms: self.context.meter.started_ms,
                in_hand: self.context.meter.in_hand.load(Ordering::Relaxed),
                rate_milli,
                published: totals.published,
                done: totals.done,
                failed: totals.failed,
                retried: totals.retried,
            };
            let same = |(last, at): &(Live, Instant)| *last == live && at.elapsed() < IDLE;
            if self.last.as_ref().is_some_and(same) {
                return;
            }
            let report = self.next(live, totals.since(&self.told), None);
            self.pending = Some((report, totals, 0));
        }
        if self.send().await {
            let Ok(status) = self.queue.status().await else {
                return;
            };
            self.tell_unhandled(&status);
            let Some((live, _)) = self.last.clone() else { return };
            let gauges = Gauges {
                queued: status.queued,
                in_hand: status.in_hand,
                later: status.later,
                errors: status.errors,
            };
            let report = self.next(live, Figures::default(), Some(gauges));
            self.pending = Some((report, self.told.clone(), 0));
            self.send().await;
        }
    }

    /// Says once that this node generates for nobody: the one who asks for help is the only one there.
    fn tell_unhandled(&mut self, status: &Status) {
        let handles = self.context.settings.also_handle || self.context.standing.borrow().reign.is_none();
        let others = status
            .nodes
            .iter()
            .any(|node| node.is_alive() && process_of(&node.node) != process_of(&self.node));
        let unhandled = !handles && !others && !status.paused.handlers;
        if unhandled && !self.unhandled {
            let queued = status.queued;
            self.context.tell(&self.node, Event::Unhandled { queued });
        }
        self.unhandled = unhandled;
    }

    fn next(&mut self, live: Live, figures: Figures, gauges: Option<Gauges>) -> Report {
        self.number += 1;
        Report {
            node: self.node.clone(),
            number: self.number,
            live,
            figures,
            gauges,
        }
    }

    /// True: the store asks for the gauges of the queue.
    async fn send(&mut self) -> bool {
        let Some((report, told, tries)) = &mut self.pending else {
            return false;
        };
        *tries += 1;
        let answer = self.context.engine.report(report).await;
        let Ok(answer) = answer else { return false };
        // The report of a node that is no member was not applied, unless a copy of it was applied before.
        if matches!(answer, Reported::Stored { .. }) || *tries > 1 {
            self.told = told.clone();
        }
        self.last = Some((report.live.clone(), Instant::now()));
        self.pending = None;
        answer == Reported::Stored { look: true }
    }

    /// Messages published or settled per 1000 seconds, over the last ticks.
    fn rate(&mut self, totals: &Figures) -> u64 {
        let (now, moved) = (Instant::now(), totals.published + totals.done + totals.failed);
        self.ticks.push_back((now, moved));
        if self.ticks.len() > RATE_TICKS + 1 {
            self.ticks.pop_front();
        }
        let (then, before) = self.ticks[0];
        let over_ms = ms(now - then);
        (moved - before)
            .saturating_mul(1_000_000)
            .checked_div(over_ms)
            .unwrap_or(0)
    }
}
