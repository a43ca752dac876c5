//! What is told, in which order, and how much may wait for it; what becomes of what a failover took back.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::*;
use crate::engine::NodeId;
use crate::error::{Absence, Error};
use crate::message::PackBuilder;
use crate::node::event::Observer;
use crate::node::membership::{Reign, Standing};
use crate::node::watch;
use crate::settings::Settings;

/// A store with replicas that has what it is told to have.
#[derive(Default)]
struct Store {
    /// Each ticket's answers, the next one first; none: it is kept.
    answers: Mutex<BTreeMap<u64, Vec<Result<bool>>>>,
    /// What it says to publishes that come again, the next one first; none: they are published.
    says: Mutex<Vec<Published>>,
    /// Which messages came again, by the number of the first.
    again: Mutex<Vec<u64>>,
    /// No question is answered before there is one of these.
    turns: Option<Semaphore>,
}

impl Keeps for Store {
    async fn kept(&self, ticket: &Ticket) -> Result<bool> {
        if let Some(turns) = &self.turns {
            turns.acquire().await.expect("open").forget();
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = answers.entry(ticket.number).or_default();
        if answers.is_empty() {
            Ok(true)
        } else {
            answers.remove(0)
        }
    }

    async fn publish_again(&self, publish: &Publish) -> Result<(Published, Option<Ticket>)> {
        let mut says = self.says.lock().expect("whole");
        let said = if says.is_empty() {
            self.again.lock().expect("whole").push(publish.first);
            Published::Ok {
                seq: publish.first + publish.count(),
                made: publish.made + publish.count(),
                grain: 1,
                due_in_ms: 0,
            }
        } else {
            says.remove(0)
        };
        Ok((said, Some(ticket(1000 + publish.first))))
    }
}

fn ticket(number: u64) -> Ticket {
    Ticket {
        key: "mark".into(),
        number,
        history: "".into(),
        at_leisure: false,
    }
}

/// Writes down what it is told.
#[derive(Default)]
struct Watch(Mutex<Vec<Event>>);

impl Observer for Watch {
    fn observe(&self, _: &str, events: &[Event]) {
        self.0.lock().expect("whole").extend_from_slice(events);
    }
}

struct Bed {
    context: Context<Store>,
    watch: Arc<Watch>,
    standing: watch::Sender<Standing>,
    told: Arc<Mutex<Vec<(u64, Fate)>>>,
}

impl Bed {
    /// Node `n` reigns in epoch 1.
    fn new(store: Store) -> Self {
        let settings = Settings {
            replicas: 1,
            ..Settings::default()
        };
        let now = tokio::time::Instant::now();
        let reign = Reign {
            epoch: 1,
            seq: 0,
            made: 0,
            made_before: None,
            grain: 1,
            cursor: bytes::Bytes::new(),
            due: now,
            wall_ms: 0,
            told: now,
        };
        let standing = watch::Sender::new(Standing {
            node: "n".into(),
            reign: Some(reign),
            ..Standing::default()
        });
        let watch = Arc::new(Watch::default());
        let context = Context {
            engine: Arc::new(store),
            settings: Arc::new(settings),
            observer: watch.clone(),
            requests: Arc::default(),
            told: Arc::default(),
            meter: Arc::default(),
            standing: standing.subscribe(),
            shutdown: crate::node::shutdown::channel().1,
            reopening: crate::node::context::Reopening::new(&crate::node::shutdown::channel().1, false),
        };
        Self {
            context,
            watch,
            standing,
            told: Arc::default(),
        }
    }

    fn call(&self, number: u64, outcomes: u32, publish: Option<Publish>) -> Untold {
        let told = self.told.clone();
        Untold {
            ticket: ticket(number),
            outcomes,
            publish,
            tell: Box::new(move |fate, _| told.lock().expect("whole").push((number, fate))),
        }
    }

    fn told(&self) -> Vec<(u64, Fate)> {
        self.told.lock().expect("whole").clone()
    }

    fn untold(&self) -> u64 {
        self.context.meter.untold.load(Ordering::Relaxed)
    }
}

/// Two messages from this number on.
fn publish(first: u64) -> Publish {
    let mut builder = PackBuilder::new();
    builder.push(b"one");
    builder.push(b"two");
    Publish {
        node: NodeId::from("n"),
        epoch: 1,
        made: first,
        first,
        messages: None,
        backlog_max: 100,
        interval_ms: 0,
        cursor: None,
        server: String::new(),
        again: false,
        packs: vec![builder.build(first, 1, 1)],
    }
}

fn away() -> Error {
    Error::Away {
        store: "the store".into(),
        absence: Absence::Unable,
        reason: "0 of 1 replicas have what was written".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_told_in_the_order_in_which_they_were_made_whatever_each_waits_for() {
    let store = Store::default();
    let answers = BTreeMap::from([(1, vec![Err(away()), Err(away()), Err(away())]), (2, vec![Err(away())])]);
    *store.answers.lock().expect("whole") = answers;
    let bed = Bed::new(store);
    let mut line = Line::of(&bed.context, 8).expect("it waits for replicas");
    for number in 1..=3 {
        line.add(bed.call(number, 1, None)).await;
    }
    line.told(&Ok(())).await;
    assert_eq!(bed.told(), [1, 2, 3].map(|number| (number, Fate::Kept)));
    assert_eq!(bed.untold(), 0);
    let events = bed.watch.0.lock().expect("whole").clone();
    assert!(
        matches!(&events[..], [Event::Away { .. }, Event::Reconnected, ..]),
        "it says that it waits, and that it goes on: {events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_outcomes_wait_to_be_told_than_a_node_can_keep() {
    let bed = Bed::new(Store {
        turns: Some(Semaphore::new(0)),
        ..Store::default()
    });
    let mut line = Line::of(&bed.context, 8).expect("it waits for replicas");
    let second = Duration::from_secs(1);
    line.add(bed.call(1, OUTCOMES_MAX - 1, None)).await;
    line.add(bed.call(2, 1, None)).await;
    let full = timeout(second, line.add(bed.call(3, 1, None))).await;
    assert!(full.is_err(), "one outcome more than fits does not wait");
    bed.context.engine.turns.as_ref().expect("turns").add_permits(1);
    let room = timeout(second, line.add(bed.call(4, u32::MAX, None))).await;
    assert!(room.is_err(), "more than ever fit wait until nothing else does");
    bed.context.engine.turns.as_ref().expect("turns").add_permits(9);
    line.add(bed.call(5, 1, None)).await;
    line.told(&Ok(())).await;
    assert_eq!(bed.told().len(), 3, "{:?}", bed.told());
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_wait_to_be_told_than_the_line_is_long() {
    let bed = Bed::new(Store {
        turns: Some(Semaphore::new(0)),
        ..Store::default()
    });
    let line = Line::of(&bed.context, 2).expect("it waits for replicas");
    // One is being asked for, two stand in the line.
    for number in 0..3 {
        line.add(bed.call(number, 0, Some(publish(number)))).await;
        tokio::task::yield_now().await;
    }
    let second = Duration::from_secs(1);
    assert!(
        timeout(second, line.add(bed.call(3, 0, Some(publish(3)))))
            .await
            .is_err()
    );
    assert_eq!(bed.untold(), 8, "each has two messages");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_ends_by_an_error_waits_for_replicas_as_long_as_for_a_stop() {
    let bed = Bed::new(Store {
        turns: Some(Semaphore::new(0)),
        ..Store::default()
    });
    let mut line = Line::of(&bed.context, 8).expect("it waits for replicas");
    line.add(bed.call(1, 7, None)).await;
    let begun = tokio::time::Instant::now();
    line.told(&Err(away())).await;
    assert_eq!(begun.elapsed().as_secs(), bed.context.settings.grace.as_secs());
    assert_eq!((bed.told(), bed.untold()), (vec![], 7));
}

#[tokio::test(start_paused = true)]
async fn what_a_failover_took_back_is_published_again_and_then_told() {
    let store = Store::default();
    let answers = BTreeMap::from([(0, vec![Ok(false)]), (2, vec![Ok(false)])]);
    *store.answers.lock().expect("whole") = answers;
    *store.says.lock().expect("whole") = vec![Published::Unheard, Published::Full, Published::Gap, Published::Fenced];
    let bed = Bed::new(store);
    let mut line = Line::of(&bed.context, 8).expect("it waits for replicas");
    for first in [0, 2, 4] {
        line.add(bed.call(first, 0, Some(publish(first)))).await;
    }
    line.told(&Ok(())).await;
    assert_eq!(bed.told(), [0, 2, 4].map(|number| (number, Fate::Kept)));
    assert_eq!(*bed.context.engine.again.lock().expect("whole"), [0, 2]);
    let replayed = Event::Replayed {
        messages: 4,
        unknown: 0,
    };
    assert_eq!(*bed.watch.0.lock().expect("whole"), [replayed]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_published_again_is_not_told_and_counted() {
    let store = Store::default();
    let answers = BTreeMap::from([(0, vec![Ok(false)]), (2, vec![Ok(false)]), (7, vec![Ok(false)])]);
    *store.answers.lock().expect("whole") = answers;
    *store.says.lock().expect("whole") = vec![Published::Moved { seq: 9 }];
    let bed = Bed::new(store);
    let mut line = Line::of(&bed.context, 8).expect("it waits for replicas");
    line.add(bed.call(0, 0, Some(publish(0)))).await;
    // An outcome is given anew by whoever gets the message.
    line.add(bed.call(7, 3, None)).await;
    while bed.untold() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Another reigns.
    bed.standing.send_modify(|standing| standing.reign = None);
    line.add(bed.call(2, 0, Some(publish(2)))).await;
    line.told(&Ok(())).await;
    assert_eq!(bed.told(), [0, 7, 2].map(|number| (number, Fate::TakenBack)));
    assert!(bed.context.engine.again.lock().expect("whole").is_empty());
    let unknown = Event::Replayed {
        messages: 0,
        unknown: 2,
    };
    assert_eq!(*bed.watch.0.lock().expect("whole"), [unknown.clone(), unknown]);
}

/// Everything that the node publishes waits behind this: it asks again sooner than for what others hold up.
#[tokio::test(start_paused = true)]
async fn while_members_have_not_spoken_to_a_new_server_replays_are_tried_eight_times_within_the_lease_of_the_crown() {
    let tries = 40;
    for (says, soon) in [(Published::Unheard, true), (Published::Full, false)] {
        let store = Store::default();
        *store.answers.lock().expect("whole") = BTreeMap::from([(0, vec![Ok(false)])]);
        *store.says.lock().expect("whole") = vec![says.clone(); tries];
        let bed = Bed::new(store);
        let mut line = Line::of(&bed.context, 8).expect("it waits for replicas");
        let begun = tokio::time::Instant::now();
        line.add(bed.call(0, 0, Some(publish(0)))).await;
        line.told(&Ok(())).await;
        let within = Duration::from_millis(bed.context.settings.crown_ms()) * u32::try_from(tries).expect("few") / 8;
        assert_eq!(begun.elapsed() <= within, soon, "{says:?}: {:?}", begun.elapsed());
    }
}
