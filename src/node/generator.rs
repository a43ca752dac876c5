//! Generate → publish: what a generator does for as long as it reigns.
//!
//! One message a tick; or, flat out, as many as a publish carries, made while the publish before it is on its way.
//! [`progress`] keeps the account of a reign, [`batch`] makes what one publish carries, [`send`] gets it into the store,
//! [`flight`] several of them at once, as many as [`window`] lets it.

mod batch;
mod flight;
mod progress;
mod send;
mod spread;
mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
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
use flight::{Call, Flight};
use progress::{Progress, Then};
use send::Sender;

pub(crate) use spread::Spread;

#[cfg(feature = "cli")]
pub(crate) use batch::batch;

/// A generator that has no message is asked again after this time at the earliest.
const NOTHING: Duration = Duration::from_millis(10);

pub(crate) struct Generator<E, G> {
    context: Context<E>,
    maker: Making<G>,
    /// How many messages were made and published, in all reigns, as far as this node knows.
    confirmed: Arc<AtomicU64>,
    line: Option<Line>,
}

/// What makes messages, apart from the rest: it makes the next ones while others are sent. It outlives a reshard, after which another generator of this
/// process uses it.
pub(crate) struct Maker<G> {
    generate: G,
    builder: PackBuilder,
    /// The last epoch in which this process reigned.
    reigned: u64,
    /// The source was told that it is elected, and not that this has ended.
    elected: bool,
}

impl<G> Maker<G> {
    pub(crate) fn shared(generate: G) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            generate,
            builder: PackBuilder::new(),
            reigned: 0,
            elected: false,
        }))
    }
}

impl<G: Generate> Maker<G> {
    /// Waits for whoever used the maker before. One whose last publishes took too long to be answered was given up in the middle of its reign: of these nobody
    /// knows anything here, and the source is told that this reign is over.
    pub(crate) async fn taken(maker: Arc<Mutex<Self>>) -> Making<G> {
        let mut making = maker.lock_owned().await;
        making.deposed(0);
        making
    }

    fn elected(&mut self, election: &Election) {
        self.elected = true;
        self.generate.elected(election);
    }

    fn deposed(&mut self, confirmed: u64) {
        if std::mem::take(&mut self.elected) {
            self.generate.deposed(confirmed);
        }
    }
}

/// A maker, in use.
type Making<G> = OwnedMutexGuard<Maker<G>>;

impl<E: Engine, G: Generate> Generator<E, G> {
    /// Waits for whoever used the maker before.
    pub(crate) async fn new(context: Context<E>, maker: Arc<Mutex<Maker<G>>>) -> Self {
        Self {
            context,
            maker: Maker::taken(maker).await,
            confirmed: Arc::default(),
            line: None,
        }
    }

    /// Generates whenever this node is elected, until it is to stop.
    pub(crate) async fn run(mut self) -> Result<()> {
        self.line = Line::of(&self.context, PUBLISHES_MAX);
        let ended = self.reigns().await;
        if let Some(line) = &mut self.line {
            line.told(&ended).await;
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
                self.maker.elected(&Election {
                    number: reign.seq,
                    epoch: reign.epoch,
                    made: reign.made,
                    made_before: reign.made_before,
                    cursor: reign.cursor.clone(),
                    shards: 1,
                });
                self.maker.reigned = reign.epoch;
                self.confirmed.store(reign.made, Ordering::Relaxed);
                let ended = self.reign(&node, &reign).await;
                self.maker.deposed(self.confirmed.load(Ordering::Relaxed));
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
        if context.settings.interval.is_zero() {
            flat_out(maker, &sender, reign).await
        } else {
            tick(maker, &sender, reign).await
        }
    }
}

/// One message a tick.
async fn tick<E: Engine, G: Generate>(maker: &mut Maker<G>, sender: &Sender<'_, E>, reign: &Reign) -> Result<()> {
    let (context, token) = (sender.context, sender.token(reign.epoch));
    let mut progress = Progress::of(reign);
    while sleep_until(context, token, progress.due).await {
        let start = progress.start(sender.confirmed);
        let Some(batch) = maker.build(context, token, reign, start).await else {
            return Ok(());
        };
        let batch = batch?;
        if batch.packs.is_empty() {
            if batch.is_last {
                reign_ends(context, token).await;
                return Ok(());
            }
            progress.due = (progress.due + context.settings.interval).max(Instant::now() + NOTHING);
            continue;
        }
        let (publish, sending) = progress.publish(&context.settings, sender.node, reign.epoch, batch);
        let sent = sender.send(publish).await?;
        match progress.advance(sent, sending, context.settings.interval) {
            Then::GoOn { .. } => {}
            Then::AwaitEnd => {
                reign_ends(context, token).await;
                return Ok(());
            }
            Then::End => return Ok(()),
        }
    }
    Ok(())
}

/// As many messages as are wanted: each batch is made while those before it are on their way.
async fn flat_out<E: Engine, G: Generate>(maker: &mut Maker<G>, sender: &Sender<'_, E>, reign: &Reign) -> Result<()> {
    let (context, token) = (sender.context, sender.token(reign.epoch));
    let mut flight = Flight::new(sender, flight::fly);
    let mut progress = Progress::of(reign);
    // Where the next batch begins: behind all that is on its way.
    let mut front = progress.clone();
    loop {
        tokio::task::coop::consume_budget().await;
        if context.shutdown.is_stopping() || !reigns(&context.standing, token) {
            flight.land_all(&mut progress).await?;
            return Ok(());
        }
        (front.grain, front.most) = (progress.grain, progress.most);
        let making = maker.build(context, token, reign, front.start(sender.confirmed));
        // The generator may take long. What it is about to make is of use only if it has the right number.
        let mut then = match flight.during(&mut progress, making).await? {
            (None, then) => then,
            // The reign is over, or the node is to stop.
            (Some(None), _) => flight.land_all(&mut progress).await.map(|_| Then::End)?,
            (Some(Some(batch)), _) => {
                let batch = batch?;
                if !batch.packs.is_empty() {
                    let mut then = Then::ON;
                    while then == Then::ON && !flight.has_room() {
                        then = flight.land(&mut progress).await?;
                    }
                    if then == Then::ON {
                        let (publish, sending) = front.publish(&context.settings, sender.node, reign.epoch, batch);
                        front = front.behind(&sending);
                        flight.send(Call { publish, sending });
                    }
                    then
                } else if batch.is_last {
                    match flight.land_all(&mut progress).await? {
                        Then::ON => Then::AwaitEnd,
                        then => then,
                    }
                } else {
                    let nothing = sleep_until(context, token, Instant::now() + NOTHING);
                    flight.during(&mut progress, nothing).await?.1
                }
            }
        };
        if then == (Then::GoOn { keeps_ready: false }) {
            then = flight.land_all(&mut progress).await?;
            front = progress.clone();
        }
        match then {
            Then::GoOn { .. } => {}
            Then::AwaitEnd => {
                reign_ends(context, token).await;
                return Ok(());
            }
            Then::End => return Ok(()),
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::node::generate::{Draft, Made, Next};

    /// What a source was told.
    #[derive(Default)]
    struct Told(Vec<&'static str>);

    impl Generate for Told {
        fn elected(&mut self, _: &Election) {
            self.0.push("elected");
        }

        fn deposed(&mut self, _: u64) {
            self.0.push("deposed");
        }

        async fn generate(&mut self, _: Next, _: &mut Draft) -> Made {
            Made::End
        }
    }

    #[tokio::test]
    async fn a_source_whose_reign_was_given_up_in_the_middle_is_told_that_it_is_over() {
        let maker = Maker::shared(Told::default());
        let election = Election {
            number: 0,
            epoch: 1,
            made: 0,
            made_before: None,
            cursor: Bytes::new(),
            shards: 1,
        };
        // Its task was aborted: nobody has told it.
        Maker::taken(maker.clone()).await.elected(&election);
        let mut next = Maker::taken(maker.clone()).await;
        assert_eq!(next.generate.0, ["elected", "deposed"]);
        next.elected(&election);
        next.deposed(1);
        drop(next);
        assert_eq!(Maker::taken(maker).await.generate.0.len(), 4, "once each");
    }
}
