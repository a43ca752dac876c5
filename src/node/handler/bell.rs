//! Waiting for the bell beside the lane: it rings when messages come into an empty queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::engine::{Engine, Wake};
use crate::node::backoff::Backoff;
use crate::node::watch;
use crate::settings::Settings;

/// What the lane and the listener tell each other.
#[derive(Default)]
pub(super) struct Bell {
    /// The lane has room for messages: the listener is to wait for a ring.
    wanted: watch::Sender<bool>,
    /// The listener waits at the store now, and may for up to a beat.
    heeded: AtomicBool,
    rung: AtomicBool,
    heard: Notify,
}

impl Bell {
    /// Whether the listener is to wait for a ring.
    pub(super) fn want(&self, wanted: bool) {
        self.wanted
            .send_if_modified(|before| std::mem::replace(before, wanted) != wanted);
    }

    /// Whether the listener waits at the store now.
    pub(super) fn is_heeded(&self) -> bool {
        self.heeded.load(Ordering::Acquire)
    }

    /// Whether it has rung since this was last asked.
    pub(super) fn has_rung(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    /// Returns when it rings, or when the listener has given up waiting.
    pub(super) async fn heard(&self) {
        self.heard.notified().await;
    }
}

/// Waits at the bell for as long as the lane wants it to.
pub(super) async fn listen<E: Engine>(engine: Arc<E>, settings: Arc<Settings>, bell: Arc<Bell>) {
    let mut wanted = bell.wanted.subscribe();
    let mut backoff = Backoff::new(&settings);
    while wanted.wait_for(|wanted| *wanted).await.is_ok() {
        bell.heeded.store(true, Ordering::Release);
        let rung = engine
            .listen(Wake::Bell, Duration::from_millis(settings.beat_ms()))
            .await;
        bell.heeded.store(false, Ordering::Release);
        match rung {
            Ok(false) => {
                backoff.reset();
                // The lane may have waited for the listener to be gone.
                bell.heard.notify_one();
                tokio::task::yield_now().await;
                continue;
            }
            Ok(true) => backoff.reset(),
            // A ring may have been lost with the connection.
            Err(_) => backoff.wait().await,
        }
        bell.rung.store(true, Ordering::Release);
        bell.heard.notify_one();
        // The lane calls before the next ring is waited for.
        tokio::task::yield_now().await;
    }
}
