//! Getting a publish into the store, however often it has to be sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::{Token, reigns};
use crate::engine::{Engine, Publish, Published, Ticket};
use crate::error::Result;
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::context::Context;
use crate::node::event::{Entry, Event, Observer, What};
use crate::node::kept::{Fate, Line, Untold};
use crate::node::membership::Requests;
use crate::node::meter::Meter;

/// How often a generator that is paused looks whether it still is.
const PAUSED: Duration = Duration::from_millis(100);
/// The longest wait for room in a queue that is full, at first,
const ROOM: Duration = Duration::from_millis(20);
/// and where it is full for long. One that waits for a quarter of the time that it has waited already comes late by so much at most: handlers that
/// made this little room meanwhile do not come to the end of the queue.
const ROOM_MAX: Duration = Duration::from_millis(100);

/// Why nothing is published for longer than a moment after the server has changed.
const UNHEARD: &str = "this is another server than before, or it has started anew: publishing waits until all nodes have told it what they have \
                       seen, or have been silent for their lease";

/// What came of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Published(Now),
    /// Others pushed: the next message has this number. Nothing was published.
    Moved {
        seq: u64,
    },
    /// No more numbers are wanted.
    Finished,
    /// The reign is over, or the node is to stop.
    Over,
}

/// What the store said of the queue when it had published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Now {
    /// The number of the next message.
    pub seq: u64,
    /// How many messages were generated and published, in all reigns.
    pub made: u64,
    /// How many messages a pack is to have at most.
    pub grain: u64,
    /// When the next tick is due.
    pub due: Instant,
}

/// Sends as this node.
pub(super) struct Sender<'a, E> {
    pub context: &'a Context<E>,
    pub confirmed: &'a Arc<AtomicU64>,
    /// Where publishes wait to be told until replicas have them.
    pub line: Option<&'a Line>,
    pub node: &'a str,
}

impl<'a, E: Engine> Sender<'a, E> {
    pub(super) fn token(&self, epoch: u64) -> Token<'a> {
        Token { node: self.node, epoch }
    }

    /// Sends the same call until it is answered: only then is it known what was published. What is still unanswered
    /// when the reign ends is given up, and the next reign has another epoch.
    pub(super) async fn send(&self, publish: Publish) -> Result<Sent> {
        self.intends(&publish);
        let attempt = self.attempt(&publish).await;
        self.insist(publish, attempt).await
    }

    /// Notes that a call is about to be sent.
    pub(super) fn intends(&self, publish: &Publish) {
        let observer = &self.context.observer;
        if observer.keeps_ledger() {
            observer.intends(self.node, &[entry(publish)]);
        }
    }

    /// Sends a call once.
    pub(super) async fn attempt(&self, publish: &Publish) -> Attempt<'a> {
        let on_its_way = OnItsWay::new(&self.context.requests);
        let answer = self.context.engine.publish_ahead(publish).await;
        Attempt {
            on_its_way: answer.is_err().then_some(on_its_way),
            answer,
        }
    }

    /// Others have pushed: that is told by the next beat, whatever is waited for before it is made use of.
    pub(super) fn notes(&self, attempt: &Attempt) {
        if let Ok((Published::Moved { seq }, _)) = &attempt.answer
            && self.context.settings.replicas == 0
            && guard("saw-moved")
        {
            self.context.requests.saw(self.node, *seq);
        }
    }

    /// Goes on with a call that was sent once.
    pub(super) async fn insist(&self, publish: Publish, mut attempt: Attempt<'a>) -> Result<Sent> {
        let Context {
            settings,
            observer,
            requests,
            meter,
            standing,
            shutdown,
            ..
        } = self.context;
        let mut backoff = Backoff::new(settings);
        let (mut room, began) = (Backoff::up_to(ROOM), Instant::now());
        let mut told = false;
        let patience = Duration::from_millis(settings.crown_ms() / 8);
        let mut hearing = Backoff::up_to(patience);
        loop {
            self.notes(&attempt);
            // Of one that was not answered, it may be on its way still.
            let Attempt { answer, on_its_way } = attempt;
            match answer {
                Ok((
                    Published::Ok {
                        seq,
                        made,
                        grain,
                        due_in_ms,
                    },
                    ticket,
                )) => {
                    if told {
                        self.context.tell(self.node, Event::Reconnected);
                    }
                    let confirmed = Confirmed {
                        node: self.node.to_string(),
                        entry: entry(&publish),
                        seq,
                        made,
                        all: self.confirmed.clone(),
                    };
                    match (ticket, self.line) {
                        (Some(ticket), Some(line)) => {
                            requests.published(publish.epoch, seq);
                            let told = confirmed.when_kept(self.context);
                            line.add(Untold {
                                ticket,
                                outcomes: 0,
                                publish: Some(publish),
                                tell: Box::new(told),
                            })
                            .await;
                        }
                        _ => confirmed.tell(observer, requests, meter, &publish),
                    }
                    let due = Instant::now() + Duration::from_millis(due_in_ms).min(settings.interval);
                    return Ok(Sent::Published(Now { seq, made, grain, due }));
                }
                Ok((Published::Moved { seq }, _)) => return Ok(Sent::Moved { seq }),
                Ok((Published::Finished, _)) => return Ok(Sent::Finished),
                // The beat finds out whether this node still reigns, and whether the store went back in time.
                // With replicas, what it took back is being published again.
                Ok((Published::Fenced | Published::Gap, _)) => {
                    requests.beat_now();
                    tokio::time::sleep(patience).await;
                }
                Ok((Published::Unheard, _)) => told |= self.wait_for_members(&mut hearing, told).await,
                Ok((Published::Full, _)) => room.at_most((began.elapsed() / 4).clamp(ROOM, ROOM_MAX)).wait().await,
                Ok((Published::Paused, _)) => tokio::time::sleep(PAUSED).await,
                Err(error) if error.may_be_mended() => {
                    // The beat tells of a store that is away; this is for what only publishes meet: too few replicas, for one.
                    if !told && !backoff.is_fresh() && error.is_unable() {
                        told = true;
                        let reason = error.to_string();
                        self.context.tell(self.node, Event::Away { reason });
                    }
                    requests.beat_now();
                    backoff.wait().await;
                    if !guard("same-publish") {
                        return Ok(Sent::Over);
                    }
                }
                Err(error) => return Err(error),
            }
            let over = !reigns(standing, self.token(publish.epoch)) && guard("reign-over");
            if shutdown.is_stopping() || over {
                return Ok(Sent::Over);
            }
            let next = self.attempt(&publish).await;
            drop(on_its_way);
            attempt = next;
        }
    }
}

impl<E: Engine> Sender<'_, E> {
    /// Members that may have seen more have not spoken to this server yet; perhaps not even this one. Returns whether it was told.
    async fn wait_for_members(&self, hearing: &mut Backoff, told: bool) -> bool {
        if hearing.is_fresh() {
            self.context.requests.beat_now();
        }
        let tells = hearing.is_long() && !told;
        if tells {
            let reason = UNHEARD.to_string();
            self.context.tell(self.node, Event::Away { reason });
        }
        hearing.wait().await;
        tells
    }
}

/// What came of sending a call once.
pub(super) struct Attempt<'a> {
    answer: Result<(Published, Option<Ticket>)>,
    on_its_way: Option<OnItsWay<'a>>,
}

impl Attempt<'_> {
    pub(super) fn is_applied(&self) -> bool {
        matches!(self.answer, Ok((Published::Ok { .. }, _)))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.answer.is_err()
    }
}

/// A publish that counts.
struct Confirmed {
    node: String,
    entry: Entry,
    /// What the store said of the queue.
    seq: u64,
    made: u64,
    all: Arc<AtomicU64>,
}

impl Confirmed {
    /// Tells it if replicas have it.
    fn when_kept<E>(self, context: &Context<E>) -> impl FnOnce(Fate, Option<Publish>) + Send + 'static {
        let Context {
            observer,
            requests,
            meter,
            ..
        } = context.clone();
        move |fate, publish| {
            if let (Fate::Kept, Some(publish)) = (fate, publish) {
                self.tell(&observer, &requests, &meter, &publish);
            } else if guard("gives-way") {
                // Nobody publishes it again, and the store takes nothing that builds on it: another reign must begin.
                requests.abandon(&self.node);
            }
        }
    }

    fn tell(self, observer: &Arc<dyn Observer>, requests: &Requests, meter: &Meter, publish: &Publish) {
        self.all.fetch_max(self.made, Ordering::Relaxed);
        observer.confirms(&self.node, &[self.entry]);
        if observer.wants_messages() {
            let messages = publish
                .packs
                .iter()
                .flat_map(|pack| (0..pack.count()).map(|index| pack.message(index)));
            let events: Vec<Event> = messages
                .map(|message| Event::Published {
                    epoch: message.epoch,
                    number: message.number,
                    payload: message.payload,
                    cause: None,
                })
                .collect();
            observer.observe(&self.node, &events);
        }
        meter.add(|figures| figures.published += self.entry.count);
        if guard("saw-publish") {
            requests.saw_made(&self.node, self.seq, self.made);
        }
    }
}

/// While there is one, a publish is on its way.
struct OnItsWay<'a>(&'a Requests);

impl<'a> OnItsWay<'a> {
    fn new(requests: &'a Requests) -> Self {
        requests.publishes(true);
        Self(requests)
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        self.0.publishes(false);
    }
}

/// A publish, as the ledger has it.
fn entry(publish: &Publish) -> Entry {
    Entry {
        first: publish.first,
        count: publish.count(),
        what: What::Publish { epoch: publish.epoch },
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::node::event::Silent;
    use crate::node::watch;
    use crate::settings::Settings;

    pub(in super::super) fn context<E>(engine: E) -> Context<E> {
        Context {
            engine: Arc::new(engine),
            settings: Arc::new(Settings::default()),
            observer: Arc::new(Silent),
            requests: Arc::default(),
            told: Arc::default(),
            meter: Arc::default(),
            standing: watch::Sender::new(crate::node::membership::Standing::default()).subscribe(),
            shutdown: crate::node::shutdown::channel().1,
            reopening: crate::node::context::Reopening::new(&crate::node::shutdown::channel().1, false),
        }
    }

    pub(in super::super) fn publish(first: u64) -> Publish {
        Publish {
            node: "n".into(),
            epoch: 1,
            made: first,
            first,
            messages: None,
            backlog_max: 1,
            interval_ms: 0,
            cursor: None,
            server: String::new(),
            again: false,
            packs: Vec::new(),
        }
    }

    impl Attempt<'_> {
        pub(in super::super) fn answered(answer: Published) -> Self {
            Self {
                answer: Ok((answer, None)),
                on_its_way: None,
            }
        }
    }

    /// What became of the membership of `n` when this became of a publish.
    fn abandoned(fate: Fate) -> Option<String> {
        let (context, publish) = (context(()), publish(0));
        let confirmed = Confirmed {
            node: "n".into(),
            entry: entry(&publish),
            seq: 1,
            made: 1,
            all: Arc::default(),
        };
        confirmed.when_kept(&context)(fate, Some(publish));
        context.requests.requested().abandon
    }

    #[test]
    fn a_generator_whose_messages_nobody_can_publish_again_gives_way() {
        assert_eq!(abandoned(Fate::TakenBack).as_deref(), Some("n"));
        assert_eq!(abandoned(Fate::Kept), None);
    }
}
