//! Generate → publish: what a generator does for as long as it reigns.

mod batch;
mod unconfirmed;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::engine::{Engine, Publish, Published};
use crate::error::Result;
use crate::message::{Pack, PackBuilder};
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::event::{Entry, Event, Observer, What};
use crate::node::membership::{Reign, Requests, Standing};
use crate::node::meter::Meter;
use crate::node::shutdown::Shutdown;
use crate::node::watch;
use crate::settings::Settings;

use batch::{Batch, PUBLISH_MESSAGES_MAX, Start};
pub(crate) use unconfirmed::Unconfirmed;

#[doc(hidden)]
pub use batch::batch;

/// How long a generator is left alone that has nothing to say.
const NOTHING: Duration = Duration::from_millis(10);
/// How often a generator that is paused looks whether it still is.
const PAUSED: Duration = Duration::from_millis(100);
/// And after others took its numbers.
const MOVED_MESSAGES_MAX: usize = 16;

/// The message that is to be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    pub number: u64,
    pub epoch: u64,
    /// How many messages were generated before this one, in all reigns; pushed ones have numbers, but do not count.
    pub made: u64,
    /// How many of them the store has confirmed. What lies between may be asked for again.
    pub confirmed: u64,
    /// Messages that are made already wait for this one. If it is not there yet, say [`Made::Nothing`] and they are published
    /// now; it is asked for again at once, and may then be waited for.
    pub others_wait: bool,
    /// The time for which this message is made, in milliseconds since 1970 by the store's clock: that of its tick; flat out,
    /// now.
    pub due_ms: u64,
}

/// What came of asking for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// The draft is a message.
    Message,
    /// There is none this time: the tick passes without. The draft is as it was.
    Nothing,
    /// There will be none any more in this reign.
    End,
}

/// The beginning of a reign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    pub number: u64,
    pub epoch: u64,
    /// As in [`Next::made`].
    pub made: u64,
    /// What the last message left for this one.
    pub cursor: Bytes,
}

/// A message in the making.
#[derive(Debug, Default)]
pub struct Draft {
    /// Empty; to be filled.
    pub payload: Vec<u8>,
    /// What the message before this one left here, under whichever generator. What is left here now is stored in the same
    /// step as this message: so a poller that continues from its cursor neither skips nor repeats, whoever dies when.
    /// At most 64 KB. Left alone, it costs nothing.
    pub cursor: Vec<u8>,
}

/// Makes messages.
pub trait Generate: Send + 'static {
    /// Fills in the next message. May take as long as it likes, and is dropped when the reign ends. May be asked again for
    /// the same message, or for the same cursor under another number: what was not published is as if never asked for.
    fn generate(&mut self, next: Next, draft: &mut Draft) -> impl Future<Output = Made> + Send;

    /// A reign of this node begins.
    fn elected(&mut self, _: &Election) {}

    /// It has ended; so many messages were confirmed, as in [`Next::confirmed`]. Must not block.
    fn deposed(&mut self, _confirmed: u64) {}
}

/// A function of the next number is a generator.
impl<F> Generate for F
where
    F: FnMut(Next) -> Vec<u8> + Send + 'static,
{
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        draft.payload.extend(self(next));
        Made::Message
    }
}

pub(crate) struct Generator<E, G> {
    pub engine: Arc<E>,
    pub settings: Arc<Settings>,
    pub observer: Arc<dyn Observer>,
    pub asks: Arc<Requests>,
    pub meter: Arc<Meter>,
    pub standing: watch::Receiver<Standing>,
    pub shutdown: Shutdown,
    pub generate: G,
    pub builder: PackBuilder,
    /// How many messages were made and published, in all reigns, as far as this node knows.
    pub confirmed: Arc<AtomicU64>,
}

/// How far a reign has come.
struct Progress {
    seq: u64,
    made: u64,
    grain: u64,
    due: Instant,
    cursor: Bytes,
}

/// What became of a publish.
enum Step {
    Went(Progress),
    Moved(u64),
    /// No more numbers are wanted.
    Finished,
    /// The reign is over, or the node is to stop.
    Over,
}

impl<E: Engine, G: Generate> Generator<E, G> {
    /// Reigns whenever it is this node's turn, until the node is to stop.
    pub(crate) async fn run(mut self) -> Result<()> {
        loop {
            let mut shutdown = self.shutdown.clone();
            let reign = tokio::select! {
                biased;
                () = shutdown.stopping() => return Ok(()),
                standing = self.standing.wait_for(|standing| standing.reign.is_some()) => match standing {
                    Ok(standing) => (standing.node.clone(), standing.reign.clone()),
                    Err(_) => return Ok(()),
                },
            };
            if let (node, Some(reign)) = reign {
                self.generate.elected(&Election {
                    number: reign.seq,
                    epoch: reign.epoch,
                    made: reign.made,
                    cursor: reign.cursor.clone(),
                });
                self.confirmed.store(reign.made, Ordering::Relaxed);
                let ended = self.reign(&node, &reign).await;
                self.generate.deposed(self.confirmed.load(Ordering::Relaxed));
                ended?;
            }
        }
    }

    async fn reign(&mut self, node: &str, reign: &Reign) -> Result<()> {
        let mut progress = Progress {
            seq: reign.seq,
            made: reign.made,
            grain: reign.grain,
            due: reign.due,
            cursor: reign.cursor.clone(),
        };
        let mut ready: Option<Batch> = None;
        let mut most = PUBLISH_MESSAGES_MAX;
        loop {
            if !self.pause_until(reign.epoch, progress.due).await {
                return Ok(());
            }
            let batch = if let Some(batch) = ready.take() {
                batch
            } else {
                let start = Start {
                    first: progress.seq,
                    made: progress.made,
                    confirmed: progress.made,
                    due: progress.due,
                    grain: progress.grain,
                    most,
                    cursor: progress.cursor.clone(),
                };
                match self.build(reign, start).await {
                    Some(built) => built?,
                    None => return Ok(()),
                }
            };
            let Batch { packs, cursor, is_last } = batch;
            if packs.is_empty() && is_last {
                self.reign_ends(reign.epoch).await;
                return Ok(());
            }
            if packs.is_empty() {
                // A generator that has nothing to say is not asked without pause.
                progress.due = (progress.due + self.settings.interval).max(Instant::now() + NOTHING);
                if !self.sleep_until(reign.epoch, progress.due).await {
                    return Ok(());
                }
                continue;
            }
            let count: usize = packs.iter().map(Pack::count).sum();
            let changed = (cursor != progress.cursor).then(|| cursor.clone());
            let publish = self.publish(node, reign, &progress, packs, changed);
            let next = progress.seq + count as u64;
            let sending = Self::send(self.link(), publish, &progress);
            // Flat out, the next messages are generated while these are on their way.
            let step = if self.settings.interval.is_zero() {
                let start = Start {
                    first: next,
                    made: progress.made + count as u64,
                    confirmed: progress.made,
                    due: progress.due,
                    grain: progress.grain,
                    most,
                    cursor: cursor.clone(),
                };
                let (mut sending, mut building) = (pin!(sending), pin!(self.build(reign, start)));
                let (step, built) = tokio::select! {
                    biased;
                    // The generator may take long. What it is about to make is of use only if it has the right number.
                    step = &mut sending => match step? {
                        Step::Went(now) if now.seq == next => (Step::Went(now), Some(building.await)),
                        step => (step, None),
                    },
                    built = &mut building => (sending.await?, Some(built)),
                };
                match built {
                    Some(Some(built)) => ready = Some(built?),
                    Some(None) => return Ok(()),
                    None => {}
                }
                step
            } else {
                sending.await?
            };
            match step {
                Step::Went(now) => {
                    if now.seq != next {
                        ready = None;
                    }
                    progress = Progress { cursor, ..now };
                    most = (most * 2).min(PUBLISH_MESSAGES_MAX);
                }
                // Others push. The less there is to number anew, the sooner it is sent, before they push again.
                Step::Moved(seq) => {
                    if guard("numbered-anew") {
                        ready = None;
                    }
                    progress.seq = seq;
                    most = MOVED_MESSAGES_MAX;
                }
                Step::Finished => {
                    self.reign_ends(reign.epoch).await;
                    return Ok(());
                }
                Step::Over => return Ok(()),
            }
        }
    }

    /// False: the reign ended first.
    async fn pause_until(&mut self, epoch: u64, due: Instant) -> bool {
        if self.settings.interval.is_zero() {
            // Numbers to publish there may be without end, but others must have their turn.
            tokio::task::coop::consume_budget().await;
            return !self.shutdown.is_stopping() && reigns(&self.standing, epoch);
        }
        self.sleep_until(epoch, due).await
    }

    /// False: the reign ended first.
    async fn sleep_until(&mut self, epoch: u64, due: Instant) -> bool {
        let (mut shutdown, mut standing) = (self.shutdown.clone(), self.standing.clone());
        tokio::select! {
            biased;
            () = shutdown.stopping() => false,
            _ = standing.wait_for(|standing| !is_epoch(standing, epoch)) => false,
            () = tokio::time::sleep_until(due) => true,
        }
    }

    async fn reign_ends(&mut self, epoch: u64) {
        let (mut shutdown, mut standing) = (self.shutdown.clone(), self.standing.clone());
        tokio::select! {
            biased;
            () = shutdown.stopping() => {}
            _ = standing.wait_for(|standing| !is_epoch(standing, epoch)) => {}
        }
    }

    /// None: the reign ended before the generator had something.
    async fn build(&mut self, reign: &Reign, start: Start) -> Option<Result<Batch>> {
        let (mut shutdown, mut standing) = (self.shutdown.clone(), self.standing.clone());
        let building = batch::make(&self.settings, &mut self.generate, &mut self.builder, reign, start);
        tokio::select! {
            biased;
            built = building => Some(built),
            () = shutdown.stopping() => None,
            _ = standing.wait_for(|standing| !is_epoch(standing, reign.epoch)) => None,
        }
    }

    fn publish(
        &self,
        node: &str,
        reign: &Reign,
        progress: &Progress,
        packs: Vec<Pack>,
        cursor: Option<Bytes>,
    ) -> Publish {
        Publish {
            node: node.to_string(),
            epoch: reign.epoch,
            made: progress.made,
            first: progress.seq,
            messages: self.settings.messages,
            backlog_max: self.settings.backlog_max,
            interval_ms: self.settings.interval_ms(),
            cursor,
            packs,
        }
    }

    fn link(&self) -> Link<E> {
        Link {
            engine: self.engine.clone(),
            observer: self.observer.clone(),
            asks: self.asks.clone(),
            meter: self.meter.clone(),
            standing: self.standing.clone(),
            shutdown: self.shutdown.clone(),
            confirmed: self.confirmed.clone(),
            backoff: Backoff::new(&self.settings),
            room: Backoff::up_to(Duration::from_millis(20)),
            patience: Duration::from_millis(self.settings.crown_ms() / 8),
            interval: self.settings.interval,
        }
    }

    /// Sends the same call until it is answered: only then is it known what was published. What is still unanswered
    /// when the reign ends is given up, and the next reign has another epoch.
    async fn send(mut link: Link<E>, publish: Publish, progress: &Progress) -> Result<Step> {
        let entry = entry(&publish);
        if link.observer.keeps_ledger() {
            link.observer.intends(&publish.node, &[entry]);
        }
        loop {
            match link.engine.publish(&publish).await {
                Ok(Published::Ok {
                    seq,
                    made,
                    grain,
                    due_in_ms,
                }) => {
                    link.confirmed.store(made, Ordering::Relaxed);
                    link.observer.confirms(&publish.node, &[entry]);
                    link.tell(&publish);
                    link.meter.add(|figures| figures.published += entry.count);
                    if guard("saw-publish") {
                        link.asks.saw(seq);
                    }
                    let due_in = Duration::from_millis(due_in_ms).min(link.interval);
                    return Ok(Step::Went(Progress {
                        seq: seq.max(progress.seq),
                        made,
                        grain,
                        due: Instant::now() + due_in,
                        cursor: Bytes::new(),
                    }));
                }
                Ok(Published::Moved { seq }) => {
                    if guard("saw-moved") {
                        link.asks.saw(seq);
                    }
                    return Ok(Step::Moved(seq));
                }
                Ok(Published::Finished) => return Ok(Step::Finished),
                // The store went back in time, and this reign with it: another begins under another membership.
                Ok(Published::Gap) if guard("gap-ends-it") => {
                    link.asks.abandon(&publish.node);
                    tokio::time::sleep(link.patience).await;
                }
                // The beat finds out whether we still reign.
                Ok(Published::Fenced | Published::Gap) => {
                    link.asks.beat_now.notify_one();
                    tokio::time::sleep(link.patience).await;
                }
                Ok(Published::Full) => link.room.wait().await,
                Ok(Published::Paused) => tokio::time::sleep(PAUSED).await,
                Err(error) if error.is_away() => {
                    link.asks.beat_now.notify_one();
                    link.backoff.wait().await;
                    if !guard("same-publish") {
                        return Ok(Step::Over);
                    }
                }
                Err(error) => return Err(error),
            }
            let over = !reigns(&link.standing, publish.epoch) && guard("reign-over");
            if link.shutdown.is_stopping() || over {
                return Ok(Step::Over);
            }
        }
    }
}

/// What sending needs, apart from the generator, which may be generating meanwhile.
struct Link<E> {
    engine: Arc<E>,
    observer: Arc<dyn Observer>,
    asks: Arc<Requests>,
    meter: Arc<Meter>,
    standing: watch::Receiver<Standing>,
    shutdown: Shutdown,
    confirmed: Arc<AtomicU64>,
    backoff: Backoff,
    room: Backoff,
    patience: Duration,
    interval: Duration,
}

impl<E> Link<E> {
    fn tell(&self, publish: &Publish) {
        if !self.observer.wants_messages() {
            return;
        }
        let events: Vec<Event> = publish
            .packs
            .iter()
            .flat_map(|pack| (0..pack.count()).map(|index| pack.message(index)))
            .map(|message| Event::Published {
                epoch: message.epoch,
                number: message.number,
                payload: message.payload,
            })
            .collect();
        self.observer.observe(&publish.node, &events);
    }
}

fn entry(publish: &Publish) -> Entry {
    Entry {
        first: publish.first,
        count: publish.packs.iter().map(|pack| pack.count() as u64).sum(),
        what: What::Publish { epoch: publish.epoch },
    }
}

fn is_epoch(standing: &Standing, epoch: u64) -> bool {
    standing.reign.as_ref().is_some_and(|reign| reign.epoch == epoch)
}

fn reigns(standing: &watch::Receiver<Standing>, epoch: u64) -> bool {
    is_epoch(&standing.borrow(), epoch)
}
