//! One strand of work: takes one message after the other until there is none.

use std::future::Future;
use std::ops::DerefMut;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::pool::Pool;
use super::stretch::Stretch;
use super::{Handle, Handled};
use crate::config::Settings;
use crate::engine::NodeId;
use crate::event::{Event, Observer};
use crate::message::{Effect, Message, Outcome};
use crate::mutants::guard;

/// The most effects of one message, and their size.
const EFFECTS_MAX: usize = 100;
const EFFECT_BYTES_MAX: usize = 256 * 1024;

/// Who is told of each message that starts, and as whom.
pub(super) type Told = Option<(NodeId, Arc<dyn Observer>)>;

/// Messages are claimed one by one, so that a slow one holds back no other. But what came of them is told to the pool in
/// stretches, each with one look at the clock: for a message that takes next to no time, both cost more than the rest.
pub(super) async fn slot<H: Handle>(pool: Arc<Pool>, handle: Arc<H>, settings: Arc<Settings>, told: Told) {
    let mut stretch = Stretch::new(pool.pace, Instant::now());
    let mut turn = stretch.began;
    while let Some(pack) = pool.advance(&mut stretch) {
        if stretch.began >= turn + pool.pace.turn {
            tokio::task::yield_now().await;
            stretch.began = Instant::now();
            turn = stretch.began;
        }
        while stretch.has_room()
            && let Some(message) = pack.claim()
        {
            let (number, bytes, failures) = (message.number, message.payload.len(), message.failures);
            if let Some((node, observer)) = &told {
                tell_start(node, &**observer, &message);
            }
            stretch.starts();
            // Whoever waits for long leaves nothing untold.
            let waits = || pool.pause(&mut stretch);
            let handled = match settings.timeout {
                None => guarded(pin!(handle.handle(message)), waits).await,
                // On the heap: with a timer in it, every message would pay for the size, timed or not.
                Some(time) => guarded(Box::pin(timed(time, handle.handle(message))), waits).await,
            };
            match handled {
                Ok(effects) if effects.is_empty() => stretch.done(number, bytes),
                handled => stretch.ends(number, bytes, outcome(handled, failures, &settings)),
            }
        }
    }
}

fn outcome(handled: Handled, failures: u16, settings: &Settings) -> Outcome {
    match handled.and_then(bounded) {
        Ok(effects) => Outcome::Done(effects),
        Err(failure) => failure.outcome(failures, settings),
    }
}

#[cold]
fn tell_start(node: &NodeId, observer: &dyn Observer, message: &Message) {
    let started = Event::Started {
        epoch: message.epoch,
        number: message.number,
        attempt: message.attempt,
        payload: message.payload.clone(),
    };
    observer.observe(node, &[started]);
}

async fn timed(time: Duration, handled: impl Future<Output = Handled>) -> Handled {
    let late = |_| Err(format!("timed out after {time:?} (--timeout)").into());
    tokio::time::timeout(time, handled).await.unwrap_or_else(late)
}

/// Effects are small; a script that applies them must be short.
fn bounded(effects: Vec<Effect>) -> Handled {
    let bytes: usize = effects.iter().map(Effect::bytes).sum();
    if effects.len() > EFFECTS_MAX || bytes > EFFECT_BYTES_MAX {
        let count = effects.len();
        let text = format!(
            "{count} effects with {bytes} bytes are too much for one message: at most {EFFECTS_MAX} with {EFFECT_BYTES_MAX}"
        );
        return Err(text.into());
    }
    Ok(effects)
}

/// A panic of the handler is an error of its message, and of nothing else. What it handles is pinned where it stands: futures
/// are large, and to move one for every message was a quarter of a handler's time. Says each time that it has to wait.
fn guarded<F: Future<Output = Handled>>(
    mut handled: Pin<impl DerefMut<Target = F>>,
    mut waits: impl FnMut(),
) -> impl Future<Output = Handled> {
    std::future::poll_fn(move |context| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| handled.as_mut().poll(context)));
        let polled = polled.unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<&str>()
                .map(ToString::to_string)
                .or_else(|| panic.downcast_ref::<String>().cloned());
            if !guard("panic") {
                return Poll::Pending;
            }
            let text = text.unwrap_or_else(|| "no message".into());
            Poll::Ready(Err(format!("the handler panicked: {text}").into()))
        });
        if polled.is_pending() {
            waits();
        }
        polled
    })
}
