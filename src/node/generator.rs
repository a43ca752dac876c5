//! Generate → publish: what a generator does for as long as it reigns.
//!
//! One message a tick; or, flat out, as many as a publish carries, made while the publish before it is on its way.
//! [`progress`] keeps the account of a reign, [`batch`] makes what one publish carries, [`send`] gets it into the store.

mod batch;
mod progress;
mod send;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::Result;
use crate::message::PackBuilder;
use crate::node::context::Context;
use crate::node::generate::{Election, Generate};
use crate::node::kept::{Line, PUBLISHES_MAX};
use crate::node::membership::{Reign, Standing};
use crate::node::watch;
use batch::{Batch, Start};
use progress::{Progress, Then};
use send::{Sender, Sent};

#[cfg(feature = "cli")]
pub(crate) use batch::batch;

/// A generator that has no message is asked again after this time at the earliest.
const NOTHING: Duration = Duration::from_millis(10);

pub(crate) struct Generator<E, G> {
    context: Context<E>,
    maker: Maker<G>,
    /// How many messages were made and published, in all reigns, as far as this node knows.
    confirmed: Arc<AtomicU64>,
    line: Option<Line>,
}

/// What makes messages, apart from the rest: it makes the next ones while others are sent.
struct Maker<G> {
    generate: G,
    builder: PackBuilder,
}

impl<E: Engine, G: Generate> Generator<E, G> {
    pub(crate) fn new(context: Context<E>, generate: G) -> Self {
        let builder = PackBuilder::new();
        Self {
            context,
            maker: Maker { generate, builder },
            confirmed: Arc::default(),
            line: None,
        }
    }

    /// Generates whenever this node is elected, until it is to stop.
    pub(crate) async fn run(mut self) -> Result<()> {
        self.line = Line::of(&self.context, PUBLISHES_MAX);
        let ended = self.reigns().await;
        if let Some(line) = &mut self.line {
            line.told().await;
        }
        ended
    }

    async fn reigns(&mut self) -> Result<()> {
        loop {
            let mut shutdown = self.context.shutdown.clone();
            let reign = tokio::select! {
                biased;
                () = shutdown.stopping() => return Ok(()),
                standing = self.context.standing.wait_for(|standing| standing.reign.is_some()) => match standing {
                    Ok(standing) => (standing.node.clone(), standing.reign.clone()),
                    Err(_) => return Ok(()),
                },
            };
            if let (node, Some(reign)) = reign {
                self.maker.generate.elected(&Election {
                    number: reign.seq,
                    epoch: reign.epoch,
                    made: reign.made,
                    made_before: reign.made_before,
                    cursor: reign.cursor.clone(),
                });
                self.confirmed.store(reign.made, Ordering::Relaxed);
                let ended = self.reign(&node, &reign).await;
                self.maker.generate.deposed(self.confirmed.load(Ordering::Relaxed));
                ended?;
            }
        }
    }

    /// Publishes until the reign ends or the node is to stop.
    async fn reign(&mut self, node: &str, reign: &Reign) -> Result<()> {
        let Self {
            context,
            maker,
            confirmed,
            line,
        } = self;
        let line = line.as_ref();
        let sender = Sender {
            context,
            confirmed,
            line,
            node,
        };
        let flat_out = context.settings.interval.is_zero();
        let mut progress = Progress::of(reign);
        let mut ready: Option<Batch> = None;
        let token = sender.token(reign.epoch);
        loop {
            if !pause_until(context, token, progress.due).await {
                return Ok(());
            }
            let batch = match ready.take() {
                Some(batch) => batch,
                None => match maker.build(context, token, reign, progress.start(confirmed)).await {
                    Some(built) => built?,
                    None => return Ok(()),
                },
            };
            if batch.packs.is_empty() {
                if batch.is_last {
                    reign_ends(context, token).await;
                    return Ok(());
                }
                progress.due = (progress.due + context.settings.interval).max(Instant::now() + NOTHING);
                if !sleep_until(context, token, progress.due).await {
                    return Ok(());
                }
                continue;
            }
            let ahead = flat_out.then(|| progress.start_behind(&batch, confirmed));
            let (publish, sending) = progress.publish(&context.settings, node, reign.epoch, batch);
            let answer = sender.send(publish);
            let sent = if let Some(start) = ahead {
                let (mut answer, mut building) = (pin!(answer), pin!(maker.build(context, token, reign, start)));
                let (sent, built) = tokio::select! {
                    biased;
                    // The generator may take long. What it is about to make is of use only if it has the right number.
                    sent = &mut answer => match sent? {
                        Sent::Published(now) if now.seq == sending.next => (Sent::Published(now), Some(building.await)),
                        sent => (sent, None),
                    },
                    built = &mut building => (answer.await?, Some(built)),
                };
                match built {
                    Some(Some(built)) => ready = Some(built?),
                    Some(None) => return Ok(()),
                    None => {}
                }
                sent
            } else {
                answer.await?
            };
            match progress.advance(sent, sending) {
                Then::GoOn { keeps_ready } => ready = ready.filter(|_| keeps_ready),
                Then::AwaitEnd => {
                    reign_ends(context, token).await;
                    return Ok(());
                }
                Then::End => return Ok(()),
            }
        }
    }
}

impl<G: Generate> Maker<G> {
    /// None: the reign ended before the generator had a message.
    async fn build<E: Engine>(
        &mut self,
        context: &Context<E>,
        token: Token<'_>,
        reign: &Reign,
        start: Start,
    ) -> Option<Result<Batch>> {
        // As the last beat told it: a reign may last for months, in which the clocks of two machines part.
        let now_ms = context.meter.time_ms(Instant::now());
        let building = batch::make(
            &context.settings,
            &mut self.generate,
            &mut self.builder,
            reign,
            start,
            now_ms,
        );
        tokio::select! {
            biased;
            built = building => Some(built),
            () = reign_ends(context, token) => None,
        }
    }
}

/// Until the next tick; flat out, until the others have had their turn. False: the reign ended first.
async fn pause_until<E>(context: &Context<E>, token: Token<'_>, due: Instant) -> bool {
    if context.settings.interval.is_zero() {
        tokio::task::coop::consume_budget().await;
        return !context.shutdown.is_stopping() && reigns(&context.standing, token);
    }
    sleep_until(context, token, due).await
}

/// False: the reign ended first.
async fn sleep_until<E>(context: &Context<E>, token: Token<'_>, due: Instant) -> bool {
    tokio::select! {
        biased;
        () = reign_ends(context, token) => false,
        () = tokio::time::sleep_until(due) => true,
    }
}

/// Until the reign ends, or the node is to stop.
async fn reign_ends<E>(context: &Context<E>, token: Token<'_>) {
    let (mut shutdown, mut standing) = (context.shutdown.clone(), context.standing.clone());
    tokio::select! {
        biased;
        () = shutdown.stopping() => {}
        _ = standing.wait_for(|standing| !token.is_of(standing)) => {}
    }
}

fn reigns(standing: &watch::Receiver<Standing>, token: Token<'_>) -> bool {
    token.is_of(&standing.borrow())
}

/// Which reign it is. In a queue that was made anew, epochs begin anew: the node tells.
#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    node: &'a str,
    epoch: u64,
}

impl Token<'_> {
    fn is_of(self, standing: &Standing) -> bool {
        let reign = standing.reign.as_ref();
        standing.node == self.node && reign.is_some_and(|reign| reign.epoch == self.epoch)
    }
}
