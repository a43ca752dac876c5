//! Messages that are cancelled: what a store tells of them, what a node remembers of that, and how a handler hears of it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Message, Pack};

/// What is kept of a message that was cancelled: its error.
pub const CANCELLED: &str = "cancelled";

/// Messages that are to end as errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cancels {
    pub numbers: BTreeSet<u64>,
    /// All messages of a group up to this number.
    pub groups: BTreeMap<String, u64>,
    /// But for these, which were requeued since.
    pub spared: BTreeSet<u64>,
}

impl Cancels {
    /// Whether nothing is cancelled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.groups.is_empty()
    }

    /// Whether a message is cancelled.
    #[must_use]
    pub fn covers(&self, number: u64, group: Option<&str>) -> bool {
        let bound = group.and_then(|group| self.groups.get(group));
        self.numbers.contains(&number) || bound.is_some_and(|bound| number <= *bound && !self.spared.contains(&number))
    }
}

/// What a node was told of messages that it has in hand. Nothing is cancelled mostly: then it is one look at a flag.
#[derive(Debug, Default)]
pub(crate) struct Told {
    any: AtomicBool,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// By the last beat: of all messages of the queue.
    beat: Cancels,
    /// When they were taken.
    taken: BTreeSet<u64>,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, inner: &Inner) {
        self.any
            .store(!(inner.beat.is_empty() && inner.taken.is_empty()), Ordering::Release);
    }

    /// A beat has told what is cancelled.
    pub(crate) fn heed(&self, cancels: &Cancels) {
        if cancels.is_empty() && !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut inner = self.lock();
        if inner.beat != *cancels {
            inner.beat = cancels.clone();
            self.mark(&inner);
            drop(inner);
            self.changed.notify_waiters();
        }
    }

    /// A take brought these packs, of which these messages are cancelled. What a beat has told before of the others was of an earlier life.
    pub(crate) fn took(&self, packs: &[Pack], cancelled: &[u64]) {
        if cancelled.is_empty() && !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut inner = self.lock();
        for pack in packs {
            let numbers = pack.first()..pack.first() + pack.count() as u64;
            for number in numbers.filter(|number| !cancelled.contains(number)) {
                inner.beat.numbers.remove(&number);
                inner.taken.remove(&number);
                if inner.beat.covers(number, pack.group()) {
                    inner.beat.spared.insert(number);
                }
            }
        }
        inner.taken.extend(cancelled);
        self.mark(&inner);
    }

    /// These messages are not in hand any more.
    pub(crate) fn left(&self, runs: impl Iterator<Item = (u64, u32)>) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut inner = self.lock();
        for number in runs.flat_map(|(first, count)| first..first + u64::from(count)) {
            inner.taken.remove(&number);
            inner.beat.numbers.remove(&number);
        }
        self.mark(&inner);
    }

    /// Nothing is in hand any more.
    pub(crate) fn forget(&self) {
        let mut inner = self.lock();
        inner.taken.clear();
        self.mark(&inner);
    }

    /// Whether anything may be cancelled.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether a message in hand is cancelled.
    pub(crate) fn is_cancelled(&self, message: &Message) -> bool {
        self.any() && self.covers(message.number, message.group())
    }

    /// The same, of a message with this number and this group.
    pub(crate) fn covers(&self, number: u64, group: Option<&str>) -> bool {
        let inner = self.lock();
        inner.taken.contains(&number) || inner.beat.covers(number, group)
    }
}

tokio::task_local! {
    /// What the node was told whose handler runs in this task.
    static NODE: Arc<Told>;
}

/// Runs handlers of a node: they can ask whether their message is cancelled.
pub(crate) fn within<F: Future>(told: Arc<Told>, handling: F) -> impl Future<Output = F::Output> {
    NODE.scope(told, handling)
}

/// Tells a handler that its message was cancelled, wherever it is taken to.
///
/// ```
/// use queenright::message::Message;
///
/// async fn handle(message: Message) -> Result<(), queenright::Failure> {
///     let cancellation = message.cancellation();
///     for part in message.payload.chunks(1000) {
///         if cancellation.is_cancelled() {
///             return Err("stopped in the midst".into());
///         }
///         // work on this part
/// #       let _ = part;
///     }
///     Ok(())
/// }
/// # tokio::runtime::Runtime::new().unwrap().block_on(handle(Message::new("x"))).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Cancellation {
    told: Option<Arc<Told>>,
    number: u64,
    group: Option<String>,
}

impl Cancellation {
    /// Whether the message was cancelled while it was in work. The node hears of it with its next beat.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        let is_told = |told: &Arc<Told>| told.any.load(Ordering::Acquire) && told.covers(self.number, self.group());
        self.told.as_ref().is_some_and(is_told)
    }

    fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Returns when it was; never, if it is not.
    pub async fn cancelled(&self) {
        let Some(told) = &self.told else {
            return std::future::pending().await;
        };
        loop {
            let mut changed = std::pin::pin!(told.changed.notified());
            changed.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            changed.await;
        }
    }
}

impl Message {
    /// Tells whether this message was cancelled since its handler began with it. To be asked for in the handler itself, not in a task that it
    /// spawns: there, and in tests without a node, nothing is ever cancelled.
    ///
    /// A handler that goes on and is done gets its own outcome. One that then fails has been cancelled: the message is an error that says so, and is not
    /// tried again.
    #[must_use]
    pub fn cancellation(&self) -> Cancellation {
        Cancellation {
            told: NODE.try_with(Arc::clone).ok(),
            number: self.number,
            group: self.group().map(str::to_string),
        }
    }

    /// As [`Cancellation::is_cancelled`].
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        NODE.try_with(|told| told.is_cancelled(self)).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Envelope;

    fn numbers(numbers: &[u64]) -> Cancels {
        Cancels {
            numbers: numbers.iter().copied().collect(),
            ..Cancels::default()
        }
    }

    fn pack(number: u64, group: Option<&str>) -> Pack {
        Pack::of_one(&Envelope::of_group(group), b"x", number, 1, 0)
    }

    #[test]
    fn a_group_is_cancelled_up_to_a_number_but_for_what_was_requeued() {
        let cancels = Cancels {
            groups: BTreeMap::from([("g".to_string(), 7)]),
            spared: BTreeSet::from([5]),
            ..numbers(&[9])
        };
        assert!(cancels.covers(9, None) && cancels.covers(7, Some("g")) && !cancels.is_empty());
        for (number, group) in [(8, Some("g")), (5, Some("g")), (7, Some("h")), (7, None)] {
            assert!(!cancels.covers(number, group), "{number} of {group:?}");
        }
    }

    #[test]
    fn what_a_take_says_of_a_message_counts_more_than_the_beat_before_it() {
        let told = Told::default();
        let is = |number, group| told.is_cancelled(&pack(number, group).message(0));
        assert!(!is(1, None));
        told.heed(&Cancels {
            groups: BTreeMap::from([("g".to_string(), 7)]),
            ..numbers(&[1, 2])
        });
        assert!(is(1, None) && is(3, Some("g")));
        // 1 and 3 have a new life by now.
        told.took(&[pack(1, None), pack(3, Some("g")), pack(4, Some("g"))], &[4]);
        assert!(!is(1, None) && !is(3, Some("g")) && is(4, Some("g")) && is(2, None));
        told.heed(&Cancels::default());
        assert!(is(4, Some("g")) && !is(2, None), "the next beat knows nothing of it");
        told.left([(4, 1)].into_iter());
        assert!(!is(4, Some("g")) && !told.any.load(Ordering::Acquire));
        told.took(&[pack(1, None)], &[1]);
        told.forget();
        assert!(!is(1, None));
    }

    #[tokio::test]
    async fn a_handler_is_told_where_it_waits_and_elsewhere_nothing_is_cancelled() {
        let message = pack(1, None).message(0);
        assert!(!message.is_cancelled() && !message.cancellation().is_cancelled());
        let told = Arc::new(Told::default());
        let of = message.clone();
        let token = within(told.clone(), async move { of.cancellation() }).await;
        let waiting = tokio::spawn({
            let token = token.clone();
            async move { token.cancelled().await }
        });
        tokio::task::yield_now().await;
        assert!(!token.is_cancelled());
        told.heed(&numbers(&[2]));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        told.heed(&numbers(&[1]));
        waiting.await.expect("told");
        assert!(token.is_cancelled());
        assert!(within(told, async move { message.is_cancelled() }).await);
    }
}
