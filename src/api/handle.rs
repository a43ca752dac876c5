//! What an async function of a message may return, and how it becomes a [`Handle`].

use std::future::Future;

use crate::message::{Effect, Message};
use crate::node::handle::{Failure, Handle, Handled};

/// What a handler may return: nothing or effects, or a [`Failure`] or what becomes one.
pub trait IntoHandled {
    /// As a [`Handle`] returns it.
    fn into_handled(self) -> Handled;
}

impl<T: IntoEffects, E: Into<Failure>> IntoHandled for std::result::Result<T, E> {
    fn into_handled(self) -> Handled {
        self.map(IntoEffects::into_effects).map_err(Into::into)
    }
}

/// What a handler that is done may return.
pub trait IntoEffects {
    /// The effects.
    fn into_effects(self) -> Vec<Effect>;
}

impl IntoEffects for () {
    fn into_effects(self) -> Vec<Effect> {
        Vec::new()
    }
}

impl IntoEffects for Effect {
    fn into_effects(self) -> Vec<Effect> {
        vec![self]
    }
}

impl IntoEffects for Vec<Effect> {
    fn into_effects(self) -> Self {
        self
    }
}

/// An async function as a handler.
pub struct HandleFn<F>(pub(super) F);

impl<F, Answer> Handle for HandleFn<F>
where
    F: Fn(Message) -> Answer + Send + Sync + 'static,
    Answer: Future<Output: IntoHandled> + Send,
{
    async fn handle(&self, message: Message) -> Handled {
        (self.0)(message).await.into_handled()
    }
}
