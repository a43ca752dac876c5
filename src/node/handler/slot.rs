//! One slot: it handles one message after the other until the pool has none.

mod moved;

use std::future::Future;
use std::ops::DerefMut;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::pool::Pool;
use super::stretch::{Open, Stretch};
use crate::engine::sharded::shard_of_group;
use crate::engine::{DELAY_MS_MAX, NodeId};
use crate::message::{CANCELLED, Effect, Headers, Message, Outcome, RESULT_BYTES_MAX, wrong_group};
use crate::mutants::guard;
use crate::node::event::{Event, Observer};
use crate::node::handle::{Handle, Handled};
use crate::settings::{Names, Settings};

/// The most effects of one message, and the most bytes that they have together.
const EFFECTS_MAX: usize = 100;
const EFFECT_BYTES_MAX: usize = 256 * 1024;

/// The observer that is told of each message that starts, and the node's name.
pub(super) type Told = Option<(NodeId, Arc<dyn Observer>)>;

/// Messages are claimed one by one, so that a slow one holds back no other. But their outcomes are told to the pool in
/// stretches, with one look at the clock for each stretch: for a message that takes next to no time, the pool's lock and the
/// clock would cost more than everything else.
pub(super) async fn slot<H: Handle>(pool: Arc<Pool>, handle: Arc<H>, settings: Arc<Settings>, told: Told) {
    let mut stretch = Stretch::new(pool.pace, Instant::now());
    let (mut turn, mut waited) = (stretch.began, false);
    while let Some(pack) = pool.advance(&mut stretch) {
        // A slot that waited has left the thread to others already.
        if std::mem::take(&mut waited) {
            turn = stretch.began;
        } else if stretch.began >= turn + pool.pace.turn {
            tokio::task::yield_now().await;
            stretch.began = Instant::now();
            turn = stretch.began;
        }
        let is_enveloped = pack.pack().is_enveloped();
        while stretch.has_room()
            && let Some(index) = pack.claim()
        {
            let (number, bytes) = pack.number_and_bytes(index);
            if (is_enveloped || pool.told.any())
                && let Some(outcome) = unseen(&pool, &pack, index)
            {
                stretch.starts();
                stretch.ends(number, bytes, outcome);
                continue;
            }
            if let Some((node, observer)) = &told {
                tell_start(node, &**observer, &pack.message(index));
            }
            stretch.starts();
            // Before the slot waits for this handler, it tells the pool the outcomes that it has.
            let waits = || {
                waited = true;
                pool.pause(&mut stretch);
            };
            // The handler is called when its future is first polled: that may panic, too. The message is made there: to move one is a tenth of the time of
            // one that takes none.
            let handled = match settings.timeout {
                None => guarded(pin!(async { handle.handle(pack.message(index)).await }), waits).await,
                // On the heap: a future with a timer in it is large, and every message would pay for the size, timed or not.
                Some(time) => {
                    let handling = async { handle.handle(pack.message(index)).await };
                    guarded(Box::pin(timed(time, handling)), waits).await
                }
            };
            match handled {
                Ok(effects) if effects.is_empty() => stretch.done(number, bytes),
                Err(_) if pool.told.any() && is_cancelled(&pool, &pack, index) && guard("cancel-fails") => {
                    stretch.ends(number, bytes, cancelled());
                }
                handled => {
                    let handled = moved::unless_moving(handled, &pool, pack.sample());
                    stretch.ends(number, bytes, outcome(handled, pack.sample(), &settings));
                }
            }
        }
    }
}

/// It is not tried again: it would have expired then, too.
#[cold]
fn expired(expires_ms: u64) -> Outcome {
    let time = Duration::from_millis(expires_ms);
    Outcome::Error(format!(
        "expired: it was not begun with within {time:?} of its publication"
    ))
}

/// How a message ends that no handler is to see. Apart from the path that every message takes.
#[cold]
fn unseen(pool: &Pool, pack: &Open, index: usize) -> Option<Outcome> {
    if let Some(expires_ms) = pack.has_expired(|| pool.time_ms(Instant::now())) {
        return Some(expired(expires_ms));
    }
    (is_cancelled(pool, pack, index) && guard("cancel-skips")).then(cancelled)
}

#[cold]
fn is_cancelled(pool: &Pool, pack: &Open, index: usize) -> bool {
    let sample = pack.sample();
    pool.told.covers(sample.number + index as u64, sample.group())
}

/// No handler sees it, or the one that did was told.
#[cold]
fn cancelled() -> Outcome {
    Outcome::Error(CANCELLED.into())
}

fn outcome(handled: Handled, sample: &Message, settings: &Settings) -> Outcome {
    match handled.and_then(|effects| bounded(effects, &settings.names, sample.group())) {
        Ok(mut effects) => {
            // A result is for whoever asked.
            effects.retain(|effect| sample.is_asked() || !matches!(effect, Effect::Result { .. }));
            if !sample.headers().is_empty() {
                follow(&mut effects, sample.headers());
            }
            Outcome::Done(effects)
        }
        Err(failure) => failure.outcome(sample.failures, settings),
    }
}

/// What a message publishes belongs to its trace.
#[cold]
fn follow(effects: &mut [Effect], of: &Headers) {
    for effect in effects {
        if let Effect::Publish { headers, .. } = effect {
            headers.follow(of);
        }
    }
}

#[cold]
fn tell_start(node: &NodeId, observer: &dyn Observer, message: &Message) {
    let started = Event::Started {
        epoch: message.epoch,
        number: message.number,
        deliveries: message.deliveries,
        payload: message.payload.clone(),
    };
    observer.observe(node, &[started]);
}

async fn timed(time: Duration, handled: impl Future<Output = Handled>) -> Handled {
    let late = |_| Err(format!("timed out after {time:?} (setting timeout)").into());
    tokio::time::timeout(time, handled).await.unwrap_or_else(late)
}

/// Refuses effects that are too many or too large: the script that applies them must be short.
fn bounded(effects: Vec<Effect>, names: &Names, own: Option<&str>) -> Handled {
    let bytes: usize = effects.iter().map(Effect::bytes).sum();
    if effects.len() > EFFECTS_MAX || bytes > EFFECT_BYTES_MAX {
        let count = effects.len();
        let text = format!(
            "{count} effects with {bytes} bytes are too much for one message: at most {EFFECTS_MAX} with {EFFECT_BYTES_MAX}"
        );
        return Err(text.into());
    }
    let results = || {
        effects.iter().filter_map(|effect| match effect {
            Effect::Result { value } => Some(value.len()),
            _ => None,
        })
    };
    if let Some(bytes) = results().find(|bytes| *bytes > RESULT_BYTES_MAX) {
        return Err(format!("a result of {bytes} bytes is too large: at most {RESULT_BYTES_MAX}").into());
    }
    if results().count() > 1 {
        return Err("a message has one result at most".into());
    }
    for effect in &effects {
        let Effect::Publish {
            delay_ms,
            group,
            headers,
            ..
        } = effect
        else {
            continue;
        };
        if *delay_ms > DELAY_MS_MAX {
            return Err("it publishes a message for more than 366 days ahead".into());
        }
        if let Some(why) = group.as_deref().and_then(wrong_group) {
            return Err(format!("it publishes to a group whose name {why}").into());
        }
        if let Some(group) = group.as_deref().filter(|_| names.shards_in_all() > 1) {
            let (of, here) = (shard_of_group(group, names.shards_now()), names.shard as usize);
            // After a reshard, a group stays where it was while something of it is there.
            if of != here && own != Some(group) {
                let text = format!(
                    "it publishes to the group {group:?}, which is in shard {of}: a message of shard {here} can publish to groups of its own shard"
                );
                return Err(text.into());
            }
        }
        if let Some(why) = headers.wrong() {
            return Err(format!("the headers of what it publishes {why}").into());
        }
    }
    Ok(effects)
}

/// A panic of the handler fails its own message, and nothing else. The future is pinned where it stands: futures are large,
/// and to move one for every message was a quarter of a handler's time. Calls `waits` each time the future is not ready.
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc;

    use tokio::sync::Notify;

    use super::*;
    use crate::message::{Envelope, Pack, PackBuilder};
    use crate::node::handle::Failure;
    use crate::node::handler::stretch::Finished;
    use crate::node::meter::Meter;

    const PATIENCE: Duration = Duration::from_mins(1);

    /// The messages 100 to 109, and one slot for them.
    fn work() -> Arc<Pool> {
        let mut builder = PackBuilder::new();
        for i in 0..10u8 {
            builder.push(&[i]);
        }
        let pool = Arc::new(Pool::new(&Settings::default(), &Arc::default(), None));
        assert_eq!(pool.add(vec![builder.build(100, 1, 0)], Instant::now()), 1);
        pool
    }

    fn run<H: Handle>(pool: &Arc<Pool>, handle: H) -> tokio::task::JoinHandle<()> {
        tokio::spawn(slot(pool.clone(), Arc::new(handle), Arc::default(), None))
    }

    fn numbers(finished: &[Finished], of: fn(&Outcome) -> bool) -> Vec<u64> {
        let runs = finished.iter().filter(|run| of(&run.outcome));
        runs.flat_map(|run| run.first..run.first + u64::from(run.count))
            .collect()
    }

    #[tokio::test]
    async fn before_a_message_is_waited_for_what_ended_is_told_and_what_follows_can_be_given_back() {
        let (pool, gate) = (work(), Arc::new(Notify::new()));
        let opened = gate.clone();
        let working = run(&pool, move |message: Message| {
            let gate = gate.clone();
            async move {
                if message.number == 104 {
                    gate.notified().await;
                }
                Ok(Vec::new())
            }
        });
        let mut told = Vec::new();
        let four = async {
            while numbers(&told, Outcome::is_plain).len() < 4 {
                tokio::task::yield_now().await;
                told.extend(pool.collect(false, Instant::now()));
            }
        };
        tokio::time::timeout(PATIENCE, four).await.expect("four are told");
        told.extend(pool.collect(true, Instant::now()));
        let returned = numbers(&told, |outcome| *outcome == Outcome::Return);
        assert_eq!(returned, (105..110).collect::<Vec<_>>());
        opened.notify_one();
        working.await.expect("the slot ends");
        told.extend(pool.collect(false, Instant::now()));
        assert_eq!(numbers(&told, Outcome::is_plain), (100..105).collect::<Vec<_>>());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_follows_a_message_that_blocks_its_thread_can_be_given_back() {
        let pool = work();
        let (reached, blocks) = mpsc::channel();
        let (unblock, blocked) = mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let working = run(&pool, move |message: Message| {
            if message.number == 104 {
                reached.send(()).expect("someone waits");
                blocked.lock().expect("whole").recv().expect("it ends");
            }
            std::future::ready(Ok(Vec::new()))
        });
        blocks.recv_timeout(PATIENCE).expect("it comes to the fifth");
        let mut told = pool.collect(true, Instant::now());
        let returned = numbers(&told, |outcome| *outcome == Outcome::Return);
        assert_eq!(returned, (105..110).collect::<Vec<_>>());
        unblock.send(()).expect("it waits");
        working.await.expect("the slot ends");
        told.extend(pool.collect(false, Instant::now()));
        assert_eq!(numbers(&told, Outcome::is_plain), (100..105).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_has_expired_is_an_error_and_no_handler_sees_it() {
        let meter = Arc::new(Meter::default());
        meter.hears(1_000_000);
        let pool = Arc::new(Pool::new(&Settings::default(), &meter, None));
        let one = |number, expires_ms| {
            let envelope = Envelope {
                expires_ms,
                ..Envelope::default()
            };
            Pack::of_one(&envelope, b"x", number, 1, 900_000)
        };
        // Long ago, just now, in an hour, and never.
        let packs = vec![
            one(1, Some(1)),
            one(2, Some(100_000)),
            one(3, Some(3_700_000)),
            one(4, None),
        ];
        pool.add(packs, Instant::now());
        let working = run(&pool, |message: Message| {
            assert!(message.number > 2, "it has expired");
            std::future::ready(Ok(Vec::new()))
        });
        working.await.expect("the slot goes on");
        let told = pool.collect(false, Instant::now());
        assert_eq!(numbers(&told, Outcome::is_plain), [3, 4]);
        let errors = told.iter().filter_map(|run| match &run.outcome {
            Outcome::Error(text) => Some((run.first, text.as_str())),
            _ => None,
        });
        let expected = [
            (1, "expired: it was not begun with within 1ms of its publication"),
            (2, "expired: it was not begun with within 100s of its publication"),
        ];
        assert_eq!(errors.collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn what_is_published_belongs_to_the_trace_of_its_cause_unless_it_names_another() {
        let pool = Arc::new(Pool::new(&Settings::default(), &Arc::default(), None));
        let headers: Headers = [("traceparent", "a"), ("tracestate", "b"), ("tenant", "c")]
            .into_iter()
            .collect();
        let envelope = Envelope {
            headers,
            ..Envelope::default()
        };
        pool.add(vec![Pack::of_one(&envelope, b"x", 1, 1, 0)], Instant::now());
        let working = run(&pool, |_: Message| {
            let own = Effect::publish("own").with_header("traceparent", "z");
            std::future::ready(Ok(vec![Effect::publish("next"), own, Effect::result("nobody asked")]))
        });
        working.await.expect("the slot goes on");
        let told = pool.collect(false, Instant::now());
        let inherits = Effect::publish("next").with_header("traceparent", "a");
        let effects = vec![
            inherits.with_header("tracestate", "b"),
            Effect::publish("own").with_header("traceparent", "z"),
        ];
        assert_eq!(
            told.iter().map(|run| &run.outcome).collect::<Vec<_>>(),
            [&Outcome::Done(effects)]
        );
    }

    #[test]
    fn a_message_publishes_to_groups_of_its_own_shard_only() {
        let of = (0..).map(|i| format!("g{i}"));
        let groups: Vec<(String, usize)> = of
            .map(|group| (group.clone(), shard_of_group(&group, 3)))
            .take(20)
            .collect();
        for (group, shard) in groups {
            let effects = || vec![Effect::publish("next").in_group(&group)];
            assert!(bounded(effects(), &Names::default(), None).is_ok());
            for here in 0..3 {
                let names = Names::default().of_shard(here, 3);
                assert_eq!(
                    bounded(effects(), &names, Some("other")).is_ok(),
                    here == shard,
                    "{group} in {here}"
                );
                // It is of that group itself, which a reshard has found here.
                assert!(bounded(effects(), &names, Some(&group)).is_ok());
                let now = names.resharded(5, 1);
                let is_there = shard_of_group(&group, 5) == here;
                assert_eq!(
                    bounded(effects(), &now, None).is_ok(),
                    is_there,
                    "{group} in {here} of 5"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_handler_that_panics_before_or_in_its_future_fails_its_own_message_only() {
        let pool = work();
        let working = run(&pool, |message: Message| {
            assert!(message.number != 103, "before");
            async move {
                assert!(message.number != 107, "in it");
                if message.number == 105 {
                    return Err(Failure::from("refused"));
                }
                Ok(Vec::new())
            }
        });
        working.await.expect("the slot goes on");
        let told = pool.collect(false, Instant::now());
        assert_eq!(numbers(&told, Outcome::is_plain), [100, 101, 102, 104, 106, 108, 109]);
        let errors = told.iter().filter_map(|run| match &run.outcome {
            Outcome::Error(text) => Some((run.first, run.count, text.as_str())),
            _ => None,
        });
        let expected = [
            (103, 1, "the handler panicked: before"),
            (105, 1, "refused"),
            (107, 1, "the handler panicked: in it"),
        ];
        assert_eq!(errors.collect::<Vec<_>>(), expected);
    }
}
