//! What the parts of one node share: membership, generator, handler and reporter each have a clone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::message::Told;
use crate::node::event::{Event, Observer};
use crate::node::membership::{Requests, Standing};
use crate::node::meter::Meter;
use crate::node::shutdown::{Shutdown, Stopper};
use crate::node::watch;
use crate::settings::Settings;

pub(crate) struct Context<E> {
    pub engine: Arc<E>,
    pub settings: Arc<Settings>,
    /// Is told what happens.
    pub observer: Arc<dyn Observer>,
    /// What the other parts ask of the membership.
    pub requests: Arc<Requests>,
    /// What the node counts of itself.
    pub meter: Arc<Meter>,
    /// What it was told of messages in hand that are cancelled.
    pub told: Arc<Told>,
    /// What the membership last learnt of this node.
    pub standing: watch::Receiver<Standing>,
    pub shutdown: Shutdown,
    /// Asks for the queue to be opened anew.
    pub reopening: Reopening,
}

/// Stops the node so that it goes on with the shards that the queue has now.
#[derive(Debug, Clone)]
pub(crate) struct Reopening {
    is_wanted: Arc<AtomicBool>,
    /// The node was at work before: what a node cannot begin with, it waits for.
    pub is_again: bool,
    stopper: Stopper,
    pub shutdown: Shutdown,
}

impl Reopening {
    /// What stops the node for good stops this one, too.
    pub(crate) fn new(shutdown: &Shutdown, is_again: bool) -> Self {
        let (stopper, shutdown) = shutdown.inner();
        Self {
            is_wanted: Arc::default(),
            is_again,
            stopper,
            shutdown,
        }
    }

    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
        self.stopper.stop();
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }
}

impl<E> Context<E> {
    /// Tells the observer of one event.
    pub(crate) fn tell(&self, node: &str, event: Event) {
        self.observer.observe(node, &[event]);
    }

    /// The same of this node, under whichever id it has now.
    pub(crate) fn tell_own(&self, event: Event) {
        let node = self.standing.borrow().node.clone();
        self.tell(&node, event);
    }
}

/// By hand: an engine itself need not be `Clone`.
impl<E> Clone for Context<E> {
    fn clone(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            settings: self.settings.clone(),
            observer: self.observer.clone(),
            requests: self.requests.clone(),
            meter: self.meter.clone(),
            told: self.told.clone(),
            standing: self.standing.clone(),
            shutdown: self.shutdown.clone(),
            reopening: self.reopening.clone(),
        }
    }
}
