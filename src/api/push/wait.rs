//! Waiting for the outcomes of messages that were pushed with [`Item::ask`].

use std::time::Duration;

use tokio::time::Instant;

use super::{check, push};
use crate::engine::{ENDINGS_PER_CALL_MAX, Ending, Engine, Found, Item, Receipt};
use crate::error::Result;
use crate::node::backoff::Backoff;
use crate::settings::Settings;

/// After this time a wait looks where its message is: it may have ended without anybody having asked for its outcome.
const LOOK_AROUND: Duration = Duration::from_secs(10);

/// What came of waiting for an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// It is known.
    Ended(Ending),
    /// It was not known in time: where the message was then. It stays there.
    Late(Found),
    /// It will not be known: nobody asked for it, that was too long ago, or the store does not have the message (any more).
    Untold(Found),
}

/// Waits for the outcome of a message, at most this long. Tries that fail and are tried again are waited through, and so is a store that is away. It can be asked again, also by another
/// process, for as long as outcomes are kept; where the store has replicas that are waited for ([`Settings::replicas`]), they have what is told.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use queenright::engine::{Item, memory::Local};
/// use queenright::{Effect, Message, Node, Settings, generate::Next, push, shutdown};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> queenright::Result<()> {
/// let settings = Settings { interval: Duration::from_secs(3600), ..Settings::default() };
/// let engine = Arc::new(Local::new(&settings.queue));
/// let length = |message: Message| async move { Ok(vec![Effect::result(message.payload.len().to_string())]) };
/// let (stopper, shutdown) = shutdown::channel();
/// let mut nodes = Vec::new();
/// for _ in 0..2 {
///     let node = Node::new(engine.clone(), settings.clone(), |_: Next| b"x".to_vec(), length);
///     nodes.push(tokio::spawn(node.run(shutdown.clone())));
/// }
///
/// let items = [Item::new("three").ask()];
/// let at_most = Duration::from_secs(30);
/// let outcomes = push::push_and_wait(&*engine, &settings, push::KEEP, &items, at_most).await?;
/// let (receipt, push::Waited::Ended(ending)) = &outcomes[0] else { panic!("{outcomes:?}") };
/// assert_eq!((ending.word(), ending.result()), ("done", Some(&b"5"[..])));
///
/// // It can be asked for again, by its number.
/// let again = push::wait(&*engine, &settings, receipt.number, at_most).await?;
/// assert_eq!(again, push::Waited::Ended(ending.clone()));
/// # stopper.stop();
/// # for node in nodes { node.await.expect("it stops")?; }
/// # Ok(())
/// # }
/// ```
pub async fn wait<E: Engine>(engine: &E, settings: &Settings, number: u64, at_most: Duration) -> Result<Waited> {
    wait_until(engine, settings, number, deadline(at_most)).await
}

/// Pushes messages and waits for their outcomes. What waits is told of all of them in the order given; `at_most` counts from the moment in which the last one is in.
pub async fn push_and_wait<E: Engine>(
    engine: &E,
    settings: &Settings,
    keep: Duration,
    items: &[Item],
    at_most: Duration,
) -> Result<Vec<(Receipt, Waited)>> {
    for item in items {
        check(item)?;
    }
    let items: Vec<Item> = items.iter().cloned().map(Item::ask).collect();
    let receipts = push(engine, settings, keep, &items).await?;
    let numbers: Vec<u64> = receipts.iter().map(|receipt| receipt.number).collect();
    let mut outcomes = Vec::with_capacity(receipts.len());
    let told = |waited| outcomes.push((receipts[outcomes.len()], waited));
    wait_all(engine, settings, &numbers, at_most, told).await?;
    Ok(outcomes)
}

/// Waits for several, and tells of them in the order given: each as soon as it and all before it are known.
pub async fn wait_all<E: Engine>(
    engine: &E,
    settings: &Settings,
    numbers: &[u64],
    at_most: Duration,
    mut told: impl FnMut(Waited),
) -> Result<()> {
    let until = deadline(at_most);
    let mut rest = numbers;
    while let Some(next) = rest.first() {
        told(wait_until(engine, settings, *next, until).await?);
        rest = &rest[1..];
        // Others may have ended meanwhile.
        let look = engine.endings(&rest[..rest.len().min(ENDINGS_PER_CALL_MAX)]).await;
        for ending in look.unwrap_or_default().into_iter().map_while(|ending| ending) {
            told(Waited::Ended(ending));
            rest = &rest[1..];
        }
    }
    Ok(())
}

/// A wait of centuries is one without an end.
fn deadline(at_most: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(at_most)
        .unwrap_or_else(|| now + Duration::from_hours(24 * 365))
}

async fn wait_until<E: Engine>(engine: &E, settings: &Settings, number: u64, until: Instant) -> Result<Waited> {
    let mut backoff = Backoff::new(settings);
    loop {
        match step(engine, number, until).await {
            Ok(Some(waited)) => return Ok(waited),
            Ok(None) => backoff = Backoff::new(settings),
            Err(error) if error.is_away() && Instant::now() < until => backoff.wait().await,
            Err(error) => return Err(error),
        }
    }
}

/// None: it is to be looked for again.
async fn step<E: Engine>(engine: &E, number: u64, until: Instant) -> Result<Option<Waited>> {
    if let Some(ending) = known(engine, number).await? {
        return Ok(Some(Waited::Ended(ending)));
    }
    let found = engine.find(number).await?;
    let left = until.saturating_duration_since(Instant::now());
    match found {
        // It ended right now.
        Found::Ended(_) => Ok(None),
        Found::Failed(failed) => {
            // Nobody asked for it, but here it is. Replicas that are waited for behind this have it, too.
            let asked = known(engine, number).await?;
            Ok(Some(Waited::Ended(asked.unwrap_or_else(|| Ending::of_failed(&failed)))))
        }
        Found::Unpublished | Found::Settled | Found::Unknown => {
            // Between the two looks it may have ended.
            let ending = known(engine, number).await?;
            Ok(Some(ending.map_or(Waited::Untold(found), Waited::Ended)))
        }
        Found::Queued | Found::Later { .. } | Found::Held { .. } if left.is_zero() => Ok(Some(Waited::Late(found))),
        Found::Queued | Found::Later { .. } | Found::Held { .. } => {
            engine.await_ending(number, left.min(LOOK_AROUND)).await?;
            Ok(None)
        }
    }
}

async fn known<E: Engine>(engine: &E, number: u64) -> Result<Option<Ending>> {
    Ok(engine.endings(&[number]).await?.into_iter().next().flatten())
}
