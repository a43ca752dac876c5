//! Graceful shutdown: stop generating and taking, finish what is in hand, leave.

use std::sync::Arc;

use crate::node::watch;

/// Tells nodes to stop. Dropping it does not.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<watch::Sender<bool>>);

/// Learns that the node is to stop. Clones learn the same.
#[derive(Debug, Clone)]
pub struct Shutdown {
    told: watch::Receiver<bool>,
    /// Whoever stops this one stops the other, too.
    outer: Option<watch::Receiver<bool>>,
}

/// The two ends of a shutdown.
#[must_use]
pub fn channel() -> (Stopper, Shutdown) {
    let sender = watch::Sender::new(false);
    let receiver = sender.subscribe();
    let shutdown = Shutdown {
        told: receiver,
        outer: None,
    };
    (Stopper(Arc::new(sender)), shutdown)
}

/// Returns at the first SIGTERM or SIGINT: what service managers, containers and Ctrl-C send. For
/// [`run_until`](crate::builder::Builder::run_until).
///
/// From the first call on these signals do not end the process by themselves any more. Panics outside of a tokio runtime.
#[cfg(unix)]
pub fn signals() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    // Here, not at the first poll: a signal that comes in between must not end the process.
    let listening = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        // Where they cannot be heard of, they end the process as they always did.
        let (Ok(mut term), Ok(mut int)) = listening else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }
}

impl Stopper {
    /// Asks for a graceful shutdown.
    pub fn stop(&self) {
        self.0.send_modify(|stopping| *stopping = true);
    }
}

impl Shutdown {
    /// Whether it was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.told.borrow() || self.outer.as_ref().is_some_and(|outer| *outer.borrow())
    }

    /// Returns once the node is to stop; never, if every [`Stopper`] is gone.
    pub async fn stopping(&mut self) {
        let Some(outer) = &mut self.outer else {
            return told(&mut self.told).await;
        };
        tokio::select! {
            () = told(outer) => {}
            () = told(&mut self.told) => {}
        }
    }

    /// One that can be ended by itself, and ends with this one.
    pub(crate) fn inner(&self) -> (Stopper, Self) {
        let (stopper, inner) = channel();
        let outer = Some(self.told.clone());
        (stopper, Self { outer, ..inner })
    }
}

async fn told(told: &mut watch::Receiver<bool>) {
    if told.wait_for(|stopping| *stopping).await.is_err() {
        std::future::pending::<()>().await;
    }
}
