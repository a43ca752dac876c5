//! A generator whose messages are spread over several shards: it asks one source, and publishes batch after batch, each into the next shard
//! in turn. [`course`] keeps the account of the one sequence across the shards.

mod call;
mod claims;
mod course;
mod groups;
mod turn;
mod untold;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::batch::{self, Batch, PUBLISH_MESSAGES_MAX, Start};
use super::progress::Progress;
use super::send::{Now, Sent};
use super::{Maker, Making, NOTHING, Token, reigns, sleep_until};
use crate::engine::{Engine, Publish};
use crate::error::Result;
use crate::message::Pack;
use crate::mutants::guard;
use crate::node::context::Context;
use crate::node::generate::{Election, Generate};
use crate::node::kept::{Line, PUBLISHES_MAX};
use crate::node::membership::Reign;
use crate::settings::Settings;
use call::{Call, call};
use claims::{Claims, Seat, is_claimed_by};
use course::Course;
use turn::Turn;
use untold::Untold;

/// How often it is looked whether shards were claimed, while that is waited for.
const LOOK: Duration = Duration::from_millis(5);

/// Generates over these shards; the first is the home shard.
pub(crate) struct Spread<E, G> {
    shards: Vec<Context<E>>,
    /// So many of them, from the first on, get new messages. The others are claimed all the same: they know how far the sequence had come.
    used: usize,
    maker: Making<G>,
    lines: Vec<Option<Line>>,
}

impl<E: Engine, G: Generate> Spread<E, G> {
    /// Waits for whoever used the maker before.
    pub(crate) async fn new(shards: Vec<Context<E>>, maker: Arc<Mutex<Maker<G>>>) -> Self {
        let used = shards.first().map_or(1, |home| home.settings.names.shards_now());
        Self {
            used: used.min(shards.len()),
            shards,
            maker: Maker::taken(maker).await,
            lines: Vec::new(),
        }
    }

    /// Generates whenever this node is elected, until it is to stop.
    pub(crate) async fn run(mut self) -> Result<()> {
        self.lines = self.shards.iter().map(|shard| Line::of(shard, PUBLISHES_MAX)).collect();
        let ended = self.reigns().await;
        for line in self.lines.iter_mut().flatten() {
            line.told(&ended).await;
        }
        ended
    }

    async fn reigns(&mut self) -> Result<()> {
        loop {
            let home = &mut self.shards[0];
            let mut shutdown = home.shutdown.clone();
            let (node, reign) = tokio::select! {
                biased;
                () = shutdown.stopping() => return Ok(()),
                standing = home.standing.wait_for(|standing| standing.reign.is_some()) => match standing {
                    Ok(standing) => (standing.node.clone(), standing.reign.clone()),
                    Err(_) => return Ok(()),
                },
            };
            let Some(reign) = reign else { continue };
            let token = Token {
                node: &node,
                epoch: reign.epoch,
            };
            let mut claims = Claims::new(&self.shards, token);
            let Some((mut course, seats)) = claims.begin().await else {
                continue;
            };
            course.retire(id(self.used), id(self.shards.len()));
            let made_before = course.made_before(self.maker.reigned);
            self.maker.reigned = reign.epoch;
            let mut run = Run {
                shards: &self.shards,
                lines: &self.lines,
                maker: &mut self.maker,
                due: seats.iter().flatten().map(|seat| seat.due).max().unwrap_or(reign.due),
                claims,
                course,
                seats,
                token,
                reign: &reign,
                calls: FuturesUnordered::new(),
                last: None,
                turn: Turn::of(reign.epoch, self.used),
                most: PUBLISH_MESSAGES_MAX,
                untold: Untold::default(),
                is_over: false,
                is_refused: false,
            };
            run.elect(made_before);
            let ended = run.publish().await;
            let confirmed = run.confirmed();
            drop(run);
            self.maker.deposed(confirmed);
            ended?;
        }
    }
}

/// One reign.
struct Run<'a, E, G> {
    shards: &'a [Context<E>],
    lines: &'a [Option<Line>],
    maker: &'a mut Maker<G>,
    claims: Claims<'a, E>,
    course: Course,
    seats: Vec<Option<Seat>>,
    token: Token<'a>,
    reign: &'a Reign,
    calls: FuturesUnordered<Call<'a>>,
    /// The shard of the last call, while that is not answered, and when it is overtaken.
    last: Option<(usize, Instant)>,
    turn: Turn,
    /// How many messages the next publish carries at most.
    most: usize,
    due: Instant,
    untold: Untold,
    /// The source has no more messages.
    is_over: bool,
    /// It makes messages of groups, which cannot be spread.
    is_refused: bool,
}

impl<'a, E: Engine, G: Generate> Run<'a, E, G> {
    fn settings(&self) -> &'a Settings {
        &self.shards[0].settings
    }

    fn goes_on(&self) -> bool {
        let home = &self.shards[0];
        !home.shutdown.is_stopping() && reigns(&home.standing, self.token)
    }

    /// Tells the source where to go on.
    fn elect(&mut self, made_before: Option<u64>) {
        let next = self.course.next();
        self.is_over = false;
        self.maker.elected(&Election {
            number: self.seats[0].as_ref().map_or(0, |seat| seat.seq),
            epoch: self.token.epoch,
            made: next.made,
            made_before,
            cursor: next.cursor,
            shards: self.shards.len(),
        });
    }

    /// How many messages from the first on are published, and told.
    fn confirmed(&mut self) -> u64 {
        self.look_at_told();
        self.course.first_missing()
    }

    fn look_at_told(&mut self) {
        let patience = Duration::from_millis(self.settings().crown_ms());
        self.untold.look(&mut self.course, patience);
    }

    /// What was last sent to this shard is not waited for any more: what became of it is known otherwise.
    fn forget_last(&mut self, shard: usize) {
        self.untold.forget_last(shard);
        if self.last.is_some_and(|(last, _)| last == shard) {
            self.last = None;
        }
    }

    /// Publishes until the reign ends or the node is to stop.
    async fn publish(&mut self) -> Result<()> {
        // Whether the source makes what is missing, and not what comes next.
        let mut fills = self.course.next().hole.is_some();
        while self.goes_on() {
            tokio::task::coop::consume_budget().await;
            self.look_at_claims();
            self.look_at_told();
            let next = self.course.next();
            if next.hole.is_some() != fills {
                // What was made ahead is made again: the source goes back, or on from where it was.
                self.settle_last().await?;
                if self.course.next().hole.is_some() == fills {
                    continue;
                }
                let confirmed = self.confirmed();
                self.maker.deposed(confirmed);
                self.elect(None);
                fills = !fills;
                continue;
            }
            let wanted = self
                .settings()
                .messages
                .map_or(u64::MAX, |last| last.saturating_sub(next.made));
            if next.hole.is_none() && (wanted == 0 || self.is_over) {
                // What is in doubt may still turn out to be missing.
                self.take_in_for(LOOK).await?;
                continue;
            }
            // With replicas, records tell of all that they lack.
            let has_room = !self.is_refused && (self.settings().replicas == 0 || self.course.has_room());
            let Some(shard) = self.pick().filter(|_| has_room) else {
                self.take_in_for(LOOK).await?;
                continue;
            };
            if next.hole.is_none() && !self.settings().interval.is_zero() && !self.sleep_until(self.due).await? {
                continue;
            }
            // While it slept, answers may have changed what comes next, and where.
            if self.course.next() != next || self.pick() != Some(shard) {
                continue;
            }
            match self.make(shard, &next, wanted).await? {
                None => {}
                Some(batch) if batch.packs.is_empty() => {
                    if batch.is_last && next.hole.is_some() {
                        self.course.give_up_hole();
                    } else if batch.is_last {
                        self.is_over = true;
                    } else {
                        self.pass_tick();
                        self.sleep_until(Instant::now() + NOTHING).await?;
                    }
                }
                Some(batch) => {
                    self.settle_last().await?;
                    // The answer may have been that others took its numbers.
                    let is_right = self.course.next() == next && self.pick() == Some(shard);
                    if is_right && self.goes_on() {
                        self.send(shard, batch);
                        self.pass_tick();
                    }
                }
            }
        }
        self.land().await
    }

    /// Notes which shards are claimed.
    fn look_at_claims(&mut self) {
        for (shard, context) in self.shards.iter().enumerate() {
            let is_same = |seat: &Seat| is_claimed_by(context, self.token.epoch, &seat.node);
            if self.seats[shard].as_ref().is_some_and(is_same) {
                continue;
            }
            // What was sent under the id before is there or not: the next claim tells. A late copy is refused.
            if self.seats[shard].take().is_some() && shard > 0 {
                self.course.overtake(id(shard));
                self.untold.forget_all(shard);
                self.forget_last(shard);
            }
            let Some((seat, record)) = self.claims.find(shard) else {
                continue;
            };
            if let Ok(last) = course::serial(&record) {
                self.course.claimed(id(shard), last);
                self.seats[shard] = Some(seat);
            }
        }
    }

    /// The shard whose turn it is.
    fn pick(&self) -> Option<usize> {
        let turn = self.turn.in_turn();
        let is_free = |shard: &usize| {
            let seat = self.seats[*shard].as_ref();
            let is_full = || self.course.untold(id(*shard)) >= untold::most_of(self.shards.len());
            seat.is_some_and(|seat| !seat.waits) && !self.course.is_shut(id(*shard)) && !is_full()
        };
        turn.into_iter().find(is_free)
    }

    /// Makes the next messages for a shard, and takes in answers meanwhile. None: what comes next has changed.
    async fn make(&mut self, shard: usize, next: &course::Next, wanted: u64) -> Result<Option<Batch>> {
        let Some(seat) = &self.seats[shard] else {
            return Ok(None);
        };
        // What is missing was wanted before.
        let most = next.hole.unwrap_or(wanted).min(self.most as u64);
        let start = Start {
            at: Progress {
                seq: seat.seq,
                made: next.made,
                grain: seat.grain,
                due: self.due,
                cursor: next.cursor.clone(),
                most: usize::try_from(most).unwrap_or(usize::MAX),
            },
            confirmed: self.confirmed(),
        };
        let context = &self.shards[0];
        let mut settings = (*context.settings).clone();
        // What is missing is made at once; and numbers of shards are not counted from 0 on.
        settings.messages = None;
        if next.hole.is_some() {
            settings.interval = Duration::ZERO;
        }
        let now_ms = context.meter.time_ms(Instant::now());
        let Self {
            maker,
            reign,
            token,
            calls,
            ..
        } = self;
        let Maker { generate, builder, .. } = &mut **maker;
        let mut landed = Vec::new();
        let made = {
            let making = batch::make(&settings, generate, builder, reign, start, now_ms);
            let mut making = std::pin::pin!(making);
            loop {
                tokio::select! {
                    biased;
                    Some(call) = calls.next() => {
                        // Only what is published leaves what comes next as it is.
                        let goes_on = matches!(call.2, Ok(Sent::Published(_)));
                        landed.push(call);
                        if !goes_on {
                            break None;
                        }
                    }
                    made = &mut making => break Some(made),
                    () = super::reign_ends(context, *token) => break None,
                }
            }
        };
        for call in landed {
            self.take_in(call)?;
        }
        match made.transpose()? {
            Some(batch) => self.unless_grouped(batch),
            None => Ok(None),
        }
    }

    /// Sends a batch to a shard.
    fn send(&mut self, shard: usize, batch: Batch) {
        let count: u64 = batch.packs.iter().map(|pack| Pack::count(pack) as u64).sum();
        let bytes: usize = batch.packs.iter().map(|pack| pack.bytes().len()).sum();
        let settings = self.settings();
        let Some(seat) = &mut self.seats[shard] else { return };
        let (record, serial) = self.course.send(id(shard), count, &batch.cursor);
        let publish = Publish {
            node: seat.node.clone(),
            epoch: self.token.epoch,
            made: seat.made,
            first: seat.seq,
            messages: None,
            backlog_max: self.shards[shard].settings.backlog_max,
            interval_ms: settings.interval_ms(),
            cursor: Some(record),
            server: String::new(),
            again: false,
            packs: batch.packs,
        };
        seat.waits = true;
        let told = self.untold.add(shard, serial);
        self.calls.push(Box::pin(call(
            &self.shards[shard],
            self.lines[shard].as_ref(),
            shard,
            publish,
            told,
        )));
        let patience = Duration::from_millis(settings.crown_ms() / 8).max(4 * self.shards[shard].engine.trip());
        self.last = Some((shard, Instant::now() + patience));
        let is_flat_out = settings.interval.is_zero();
        self.turn.sent(shard, if is_flat_out { bytes } else { 0 });
    }

    /// Until the last call is answered; if that takes long, it is overtaken. The home shard is waited for: without it nobody reigns.
    async fn settle_last(&mut self) -> Result<()> {
        while let Some((shard, until)) = self.last {
            if !self.goes_on() {
                return Ok(());
            }
            if shard > 0 && Instant::now() >= until && self.course.has_room() && guard("overtakes") {
                self.course.overtake(id(shard));
                self.last = None;
                return Ok(());
            }
            let time = if shard > 0 {
                until.saturating_duration_since(Instant::now())
            } else {
                LOOK
            };
            self.take_in_for(time.max(Duration::from_millis(1))).await?;
            self.look_at_claims();
        }
        Ok(())
    }

    /// What is on its way when the reign ends is answered soon, or given up: whoever claims the shard sees what became of it.
    async fn land(&mut self) -> Result<()> {
        let until = Instant::now() + Duration::from_millis(self.settings().crown_ms() / 4);
        while let Ok(Some(call)) = tokio::time::timeout_at(until, self.calls.next()).await {
            self.take_in(call)?;
        }
        Ok(())
    }

    /// False: the reign ended first, or there is an answer to look at.
    async fn sleep_until(&mut self, due: Instant) -> Result<bool> {
        let slept = {
            let sleep = sleep_until(&self.shards[0], self.token, due);
            let mut sleep = std::pin::pin!(sleep);
            tokio::select! {
                biased;
                Some(call) = self.calls.next() => Err(call),
                slept = &mut sleep => Ok(slept),
            }
        };
        match slept {
            Ok(slept) => Ok(slept),
            Err(call) => self.take_in(call).map(|()| false),
        }
    }

    /// Takes in one answer, if one comes within this time.
    async fn take_in_for(&mut self, time: Duration) -> Result<()> {
        if self.calls.is_empty() {
            sleep_until(&self.shards[0], self.token, Instant::now() + time).await;
            return Ok(());
        }
        match tokio::time::timeout(time, self.calls.next()).await {
            Ok(Some(call)) => self.take_in(call),
            _ => Ok(()),
        }
    }

    fn take_in(&mut self, (shard, node, answer): (usize, String, Result<Sent>)) -> Result<()> {
        let answer = answer?;
        let Some(seat) = self.seats[shard].as_mut().filter(|seat| seat.node == node) else {
            // Under an id that it had before: the claim has told what became of it.
            return Ok(());
        };
        match answer {
            Sent::Published(Now { seq, made, grain, .. }) => {
                (seat.seq, seat.made, seat.grain, seat.waits) = (seq, made, grain, false);
                self.course.published(id(shard));
                self.look_at_told();
                self.most = (self.most * 2).min(PUBLISH_MESSAGES_MAX);
            }
            Sent::Moved { seq } => {
                (seat.seq, seat.waits) = (seq, false);
                self.course.refused(id(shard));
                self.forget_last(shard);
                self.most = super::progress::MOVED_MESSAGES_MAX;
            }
            // Whether it is there is known when the shard is claimed again.
            Sent::Finished | Sent::Over => return Ok(()),
        }
        if self.last.is_some_and(|(last, _)| last == shard) {
            self.last = None;
        }
        Ok(())
    }

    /// The next tick: those that were missed are left out.
    fn pass_tick(&mut self) {
        let interval = self.settings().interval;
        if interval.is_zero() {
            return;
        }
        let now = Instant::now();
        self.due += interval;
        if self.due < now {
            let missed = (now - self.due).as_nanos() / interval.as_nanos();
            self.due += interval * u32::try_from(missed).unwrap_or(u32::MAX);
        }
    }
}

fn id(shard: usize) -> u32 {
    u32::try_from(shard).unwrap_or(u32::MAX)
}
