//! Async functions and streams as a [`Generate`].

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use futures_core::Stream;

use crate::node::generate::{Draft, Election, Generate, Made, Next, Unconfirmed};

type Making = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// An async function as a generator. A message that it is at work on is kept while others are published.
pub struct FromFn<F> {
    generate: F,
    /// The number and the epoch of the message, and its future.
    making: Option<(u64, u64, Making)>,
}

impl<F> FromFn<F> {
    pub(super) fn new(generate: F) -> Self {
        Self { generate, making: None }
    }
}

impl<F, M> Generate for FromFn<F>
where
    F: FnMut(Next) -> M + Send + 'static,
    M: Future<Output: Into<Vec<u8>>> + Send + 'static,
{
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        let is_other = |making: &(u64, u64, Making)| (making.0, making.1) != (next.number, next.epoch);
        if self.making.as_ref().is_none_or(is_other) {
            let made = (self.generate)(next);
            let made: Making = Box::pin(async move { made.await.into() });
            self.making = Some((next.number, next.epoch, made));
        }
        let (_, _, making) = self.making.as_mut().expect("put there just now");
        let polled = std::future::poll_fn(|context| match making.as_mut().poll(context) {
            Poll::Pending if next.others_wait => Poll::Ready(None),
            polled => polled.map(Some),
        });
        let Some(payload) = polled.await else {
            return Made::Nothing;
        };
        self.making = None;
        draft.payload = payload;
        Made::Message
    }
}

/// A stream as a generator. An item is kept until it is confirmed, since it may be asked for again.
pub struct FromStream<S> {
    stream: Pin<Box<S>>,
    unconfirmed: Unconfirmed<Vec<u8>>,
    /// A stream that has ended must not be polled again.
    ended: bool,
}

impl<S> FromStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream: Box::pin(stream),
            unconfirmed: Unconfirmed::default(),
            ended: false,
        }
    }
}

impl<S> Generate for FromStream<S>
where
    S: Stream<Item: Into<Vec<u8>>> + Send + 'static,
{
    fn elected(&mut self, election: &Election) {
        self.unconfirmed.elected(election);
    }

    fn deposed(&mut self, confirmed: u64) {
        self.unconfirmed.confirm(confirmed);
    }

    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        if let Some(item) = self.unconfirmed.again(&next) {
            draft.payload.extend_from_slice(item);
            return Made::Message;
        }
        if self.ended {
            return Made::End;
        }
        let stream = &mut self.stream;
        let polled = std::future::poll_fn(|context| match stream.as_mut().poll_next(context) {
            Poll::Pending if next.others_wait => Poll::Ready(None),
            polled => polled.map(Some),
        });
        match polled.await {
            None => Made::Nothing,
            Some(None) => {
                self.ended = true;
                Made::End
            }
            Some(Some(item)) => {
                let item = item.into();
                draft.payload.extend_from_slice(&item);
                self.unconfirmed.push(item);
                Made::Message
            }
        }
    }
}
