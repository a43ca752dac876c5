//! Payloads as values, through serde.

use std::future::Future;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::handle::IntoHandled;
use crate::message::Message;
use crate::node::handle::{Failure, Handle, Handled};

/// A value as a payload: a generator returns `Json(value)`, and pushes send `Item::new(Json(value))`.
///
/// ```
/// use queenright::Json;
/// use queenright::engine::Item;
///
/// assert_eq!(Item::new(Json([17, 18])), Item::new("[17,18]"));
/// ```
///
/// A value that cannot be written as JSON (a map whose keys are no strings) panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> From<Json<T>> for Vec<u8> {
    fn from(value: Json<T>) -> Self {
        serde_json::to_vec(&value.0).expect("a value that can be written as JSON")
    }
}

impl<T: Serialize> From<Json<T>> for Bytes {
    fn from(value: Json<T>) -> Self {
        Vec::from(value).into()
    }
}

/// An async function of a value as a handler.
pub struct HandleJson<T, F> {
    handle: F,
    of: PhantomData<fn() -> T>,
}

impl<T, F> HandleJson<T, F> {
    pub(crate) fn new(handle: F) -> Self {
        Self {
            handle,
            of: PhantomData,
        }
    }
}

impl<T, F, Answer> Handle for HandleJson<T, F>
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(T, Message) -> Answer + Send + Sync + 'static,
    Answer: Future<Output: IntoHandled> + Send,
{
    async fn handle(&self, message: Message) -> Handled {
        let value = serde_json::from_slice(&message.payload)
            .map_err(|error| Failure::Error(format!("the payload is not what is expected: {error}")))?;
        (self.handle)(value, message).await.into_handled()
    }
}
