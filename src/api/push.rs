//! Pushing: putting messages into a queue from a program that is none of its nodes.

mod wait;

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::{DELAY_MS_MAX, Engine, Item, KEY_BYTES_MAX, PUSH_ITEMS_MAX, Push, Pushed, Receipt};
use crate::error::{Absence, Error, Result};
use crate::message::{PAYLOAD_BYTES_MAX, wrong_group};
use crate::node::backoff::Backoff;
use crate::node::id::new_id;
use crate::settings::{Settings, ms};

pub use wait::{Waited, push_and_wait, wait, wait_all};

/// The most bytes of one call, unless it is one message.
const CALL_BYTES_MAX: usize = 256 * 1024;
/// How long a store may be away before the push fails. The store remembers a call for longer, so that a repeat changes
/// nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an idempotency key is remembered, unless told otherwise: an hour, longer than most callers go on retrying.
pub const KEEP: Duration = Duration::from_hours(1);

/// Puts messages into the queue of these settings, and creates it if there is none. They are numbered with those of the
/// generator, in the order given; a message whose key was pushed within `keep` gets the number that it has, and is not
/// put in again. At [`Settings::backlog_max`] waiting messages it fails with [`Error::Full`].
///
/// More than a thousand messages, or 256 KB, or of several shards, are pushed in several steps: after an error, some of them may be in the
/// queue. With keys it is safe to push them all again.
///
/// In a program the engine is `AnyEngine::open("redis://localhost", &settings)?`, opened once.
///
/// ```
/// use std::time::Duration;
/// use queenright::engine::{Item, memory::Local};
/// use queenright::{Settings, push};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> queenright::Result<()> {
/// let settings = Settings { queue: "jobs".into(), ..Settings::default() };
/// let engine = Local::new(&settings.queue);
/// let item = Item::new("resize 17.png").key("17").delay(Duration::from_secs(5));
/// let first = push::push(&engine, &settings, push::KEEP, &[item.clone()]).await?;
/// let again = push::push(&engine, &settings, push::KEEP, &[item]).await?;
/// assert_eq!((first[0].repeated, again[0].repeated), (false, true));
/// assert_eq!(first[0].number, again[0].number);
/// # Ok(())
/// # }
/// ```
pub async fn push<E: Engine>(engine: &E, settings: &Settings, keep: Duration, items: &[Item]) -> Result<Vec<Receipt>> {
    let mut receipts = Vec::with_capacity(items.len());
    push_with(engine, settings, keep, items, |given| receipts.extend_from_slice(given)).await?;
    Ok(receipts)
}

/// The same, and tells after each step what was put in, in the order given: also when a later one fails. Since a [reshard](Engine::reshard_to) a step may have messages of several
/// shards. If one of these is full, what is told ends before the first message that is refused, and of those behind it some of the same step may be in.
pub async fn push_with<E: Engine>(
    engine: &E,
    settings: &Settings,
    keep: Duration,
    items: &[Item],
    mut told: impl FnMut(&[Receipt]),
) -> Result<()> {
    for item in items {
        check(item)?;
    }
    let mut steps = Steps::new(items);
    while let Some(places) = steps.next(engine) {
        let call = Push {
            call: new_id(),
            keep_ms: ms(keep).min(DELAY_MS_MAX),
            backlog_max: settings.backlog_max,
            birth: new_id(),
            step_ms: settings.step_ms(),
            server: String::new(),
            only_known: false,
            items: places.iter().map(|place| items[*place].clone()).collect(),
        };
        match send(engine, settings, &call).await? {
            Pushed::Ok(given) => steps.took(&places, given.into_iter().map(Some)),
            Pushed::Part(given) => {
                let refused = given.iter().filter(|receipt| receipt.is_none()).count();
                steps.took(&places, given);
                steps.most = (refused / 2).max(1);
            }
            // There may be room for half of them.
            Pushed::Full if places.len() > 1 => {
                steps.most = places.len() / 2;
                steps.took(&places, places.iter().map(|_| None));
            }
            Pushed::Full => {
                return Err(Error::Full {
                    queue: settings.queue.clone(),
                    most: settings.backlog_max,
                });
            }
            Pushed::Unheard => {
                return Err(Error::Away {
                    store: format!("the store of queue {:?}", settings.queue),
                    absence: Absence::Unable,
                    reason: "it came back as another server, and nodes that may have seen more numbers have not spoken to it \
                             yet; push again"
                        .into(),
                });
            }
        }
        let given = steps.untold();
        if !given.is_empty() {
            told(&given);
        }
    }
    Ok(())
}

/// Which messages are in, and which go with the next step.
struct Steps<'a> {
    items: &'a [Item],
    receipts: Vec<Option<Receipt>>,
    /// How many have been told, from the first one on.
    told: usize,
    /// The places of those that are not in.
    left: VecDeque<usize>,
    /// How many may go with one step.
    most: usize,
}

impl<'a> Steps<'a> {
    fn new(items: &'a [Item]) -> Self {
        Self {
            items,
            receipts: vec![None; items.len()],
            told: 0,
            left: (0..items.len()).collect(),
            most: PUSH_ITEMS_MAX,
        }
    }

    /// Takes the places of the next step: of one shard, and not too large. None: all are in.
    fn next(&mut self, engine: &impl Engine) -> Option<Vec<usize>> {
        let (mut bytes, mut shard) = (0, None);
        let fits = |place: &&usize| {
            let item = &self.items[**place];
            bytes += item.payload.len();
            let of = engine.shard_for(item);
            let is_apart = of.is_some() && shard.is_some() && of != shard;
            shard = shard.or(of);
            bytes <= CALL_BYTES_MAX && !is_apart
        };
        let count = self.left.iter().take(self.most).take_while(fits).count().max(1);
        let count = count.min(self.left.len());
        (count > 0).then(|| self.left.drain(..count).collect())
    }

    /// What became of the messages at these places; those without a receipt go with the next step.
    fn took(&mut self, places: &[usize], given: impl IntoIterator<Item = Option<Receipt>>) {
        for (place, receipt) in places.iter().zip(given) {
            self.receipts[*place] = receipt;
        }
        for place in places.iter().rev().filter(|place| self.receipts[**place].is_none()) {
            self.left.push_front(*place);
        }
    }

    /// Those that can be told now, in the order given.
    fn untold(&mut self) -> Vec<Receipt> {
        let given: Vec<Receipt> = self.receipts[self.told..]
            .iter()
            .map_while(|receipt| *receipt)
            .collect();
        self.told += given.len();
        given
    }
}

/// Whether a message can be pushed.
pub fn check(item: &Item) -> Result<()> {
    let wrong = |setting, reason| Err(Error::Setting { setting, reason });
    let size = item.payload.len();
    if size > PAYLOAD_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "payload",
            number: None,
            bytes: size,
            most: PAYLOAD_BYTES_MAX,
        });
    }
    if item.delay_ms > DELAY_MS_MAX {
        return wrong("delay", "must be at most 366 days".into());
    }
    if let Some(why) = item.group.as_deref().and_then(wrong_group) {
        return wrong("group", why);
    }
    if item
        .expires_ms
        .is_some_and(|expires_ms| expires_ms == 0 || expires_ms > DELAY_MS_MAX)
    {
        return wrong("expires", "must be 1ms to 366 days".into());
    }
    if let Some(why) = item.headers.wrong() {
        return wrong("headers", why);
    }
    match &item.key {
        Some(key) if key.is_empty() || key.len() > KEY_BYTES_MAX => {
            wrong("key", format!("must be 1 to {KEY_BYTES_MAX} bytes"))
        }
        _ => Ok(()),
    }
}

/// Sends the same call until it is answered: the store applies it once.
async fn send<E: Engine>(engine: &E, settings: &Settings, call: &Push) -> Result<Pushed> {
    let (mut backoff, give_up) = (Backoff::new(settings), Instant::now() + PATIENCE);
    loop {
        match engine.push(call).await {
            Ok(Pushed::Unheard) if Instant::now() < give_up => backoff.wait().await,
            Err(error) if error.is_away() && Instant::now() < give_up => backoff.wait().await,
            answered => return answered,
        }
    }
}
