//! What an async function of a message may return, and how it becomes a [`Handle`].

use std::future::Future;

use crate::message::{Effect, Message};
use crate::node::handle::{Failure, Handle, Handled};

/// What a handler may return: nothing or effects, or a [`Result`] of that and a [`Failure`] or what becomes one: any error.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "the handler returns this",
    note = "it returns `()`, an `Effect`, a `Vec<Effect>`, or a `Result` of one of these",
    note = "the error of the `Result` is a `Failure`, a text, an `anyhow::Error` or any `std::error::Error`"
)]
pub trait IntoHandled {
    /// As a [`Handle`] returns it.
    fn into_handled(self) -> Handled;
}

impl<T: IntoEffects, E: Into<Failure>> IntoHandled for std::result::Result<T, E> {
    fn into_handled(self) -> Handled {
        self.map(IntoEffects::into_effects).map_err(Into::into)
    }
}

impl IntoHandled for () {
    fn into_handled(self) -> Handled {
        Ok(Vec::new())
    }
}

impl IntoHandled for Effect {
    fn into_handled(self) -> Handled {
        Ok(vec![self])
    }
}

impl IntoHandled for Vec<Effect> {
    fn into_handled(self) -> Handled {
        Ok(self)
    }
}

/// What a handler that is done may return.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `Ok` with `{Self}`",
    label = "this is neither nothing nor an effect",
    note = "it returns `Ok(())`, `Ok(effect)` or `Ok(vec![effect, …])`; what else it found out belongs into a store of yours"
)]
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
