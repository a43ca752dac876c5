//! A value whose changes many tasks wait for. Unlike tokio's `watch`, it wakes them in the order in which they came and not
//! in a random one, so that a simulated node does the same twice.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State<T> {
    value: T,
    version: u64,
    closed: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the value. Once it is dropped, all waits end.
#[derive(Debug, Default)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Reads the value, and waits for it to change.
#[derive(Debug)]
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// The sender is gone: the value cannot change any more.
#[derive(Debug)]
pub(crate) struct Closed;

/// The value, which stays the same while this is held.
#[derive(Debug)]
pub(crate) struct Ref<'a, T>(MutexGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> Sender<T> {
    pub(crate) fn new(value: T) -> Self {
        let state = Mutex::new(State {
            value,
            version: 0,
            closed: false,
        });
        let changed = Notify::new();
        Self(Arc::new(Shared { state, changed }))
    }

    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let seen = self.0.lock().version;
        let shared = self.0.clone();
        Receiver { shared, seen }
    }

    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        Ref(self.0.lock())
    }

    pub(crate) fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Wakes those who wait if `change` returns true.
    pub(crate) fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) {
        let mut state = self.0.lock();
        let changed = change(&mut state.value);
        state.version += u64::from(changed);
        drop(state);
        if changed {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        let (shared, seen) = (self.shared.clone(), self.seen);
        Self { shared, seen }
    }
}

impl<T> Receiver<T> {
    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.lock())
    }

    /// Returns once the value is right: at once, if it is already.
    pub(crate) async fn wait_for(&mut self, mut is_right: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        self.wait(|state, _| is_right(&state.value)).await
    }

    /// Returns once the value has changed since this receiver last waited.
    pub(crate) async fn changed(&mut self) -> Result<(), Closed> {
        self.wait(|state, seen| state.version != seen).await.map(drop)
    }

    async fn wait(&mut self, mut is_right: impl FnMut(&State<T>, u64) -> bool) -> Result<Ref<'_, T>, Closed> {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            {
                let state = self.shared.lock();
                if is_right(&state, self.seen) {
                    self.seen = state.version;
                    return Ok(Ref(state));
                }
                if state.closed {
                    return Err(Closed);
                }
                self.seen = state.version;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiters_are_woken_in_the_order_in_which_they_came() {
        let sender = Sender::new(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiters = tokio::task::JoinSet::new();
        for name in 0..20 {
            let (mut receiver, order) = (sender.subscribe(), order.clone());
            waiters.spawn(async move {
                let value = *receiver.wait_for(|value| *value > 0).await.expect("open");
                order.lock().expect("whole").push(name);
                value
            });
            tokio::task::yield_now().await;
        }
        sender.send_modify(|value| *value = 7);
        assert_eq!(waiters.join_all().await, [7; 20]);
        assert_eq!(*order.lock().expect("whole"), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_is_seen_once_and_the_end_by_all() {
        let sender = Sender::new(0);
        let mut receiver = sender.subscribe();
        sender.send_modify(|value| *value = 1);
        sender.send_if_modified(|_| false);
        assert!(receiver.changed().await.is_ok());
        drop(sender);
        assert!(receiver.changed().await.is_err());
        assert_eq!(*receiver.borrow(), 1);
        assert!(receiver.wait_for(|value| *value == 2).await.is_err());
    }
}
