//! Without the feature `otel` there are no traces.

use std::future::Future;

use crate::engine::{Item, Receipt};
use crate::message::{Headers, Message};
use crate::node::handle::Handled;

/// There are none.
#[derive(Clone)]
pub enum Traces {}

/// There are none.
pub enum Published {}

impl Traces {
    /// There are none.
    pub fn of_environment(_: &str, _: impl Fn(&str) + Send + Sync + 'static) -> Option<Self> {
        None
    }

    pub fn publish(&self, _: &mut [Item]) -> Published {
        match *self {}
    }

    pub fn of_queue(&self, _: &str) -> Self {
        match *self {}
    }

    pub fn made(&self, _: &mut Headers) {
        match *self {}
    }

    pub fn follows(_: &Message) -> bool {
        false
    }

    #[expect(clippy::unused_async, reason = "as with the feature")]
    pub async fn handle<F: Future<Output = Handled>>(&self, _: Message, _: impl FnOnce(Message) -> F) -> Handled {
        match *self {}
    }

    pub fn end(&self) {
        match *self {}
    }
}

impl Published {
    pub fn told(&mut self, _: &[Receipt]) {
        match *self {}
    }
}
