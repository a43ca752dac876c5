//! What does the work: a [`Handle`], usually an async function of a message.
//!
//! The loop that feeds it is in `handler.rs`.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use crate::engine::DELAY_MS_MAX;
use crate::message::{ERROR_TEXT_BYTES_MAX, Effect, Message, Outcome};
use crate::settings::{Settings, ms};

/// What comes of handling a message: done, with effects to apply in the same step, or why it failed.
pub type Handled = Result<Vec<Effect>, Failure>;

/// Why a message was not done. A text is a failure: `Err("no such host".into())`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It failed: tried again while [`Settings::retries`] allows, then kept among the errors.
    Error(String),
    /// It cannot be done now: tried again whatever [`Settings::retries`] says, `after` this time or the usual backoff. It
    /// counts as a failure; after 65,535 of them it is an error.
    Retry { error: String, after: Option<Duration> },
}

impl Failure {
    /// To be tried again after the usual backoff.
    pub fn retry(error: impl Into<String>) -> Self {
        Self::Retry {
            error: error.into(),
            after: None,
        }
    }

    /// To be tried again after this time.
    pub fn retry_after(error: impl Into<String>, after: Duration) -> Self {
        Self::Retry {
            error: error.into(),
            after: Some(after),
        }
    }

    /// The outcome of a message that has failed `failures` times before this.
    pub(crate) fn outcome(self, failures: u16, settings: &Settings) -> Outcome {
        let cut = |mut text: String| {
            text.truncate(text.floor_char_boundary(ERROR_TEXT_BYTES_MAX));
            text
        };
        let (error, after) = match self {
            Self::Error(text) if failures >= settings.retries => return Outcome::Error(cut(text)),
            Self::Retry { error, .. } if failures == u16::MAX => return Outcome::Error(cut(error)),
            Self::Error(text) => (text, None),
            Self::Retry { error, after } => (error, after),
        };
        Outcome::Retry {
            error: cut(error),
            after_ms: ms(after.unwrap_or_else(|| settings.backoff_after(failures))).min(DELAY_MS_MAX),
        }
    }
}

/// A text, any [`std::error::Error`], a `Box<dyn Error>` and an `anyhow::Error` are failures: so `?` works in handlers. What is
/// kept is the text of the error and of those that caused it.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors repeat what caused them.
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self::Error(text)
    }
}

/// Handles messages.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle messages",
    label = "no handler",
    note = "give one before it runs: `.handle(f)` with `async fn f(message: Message) -> Result<(), Failure>`",
    note = "or `.handler(value)` with a type that implements `Handle`",
    note = "if an error above is about `.handle(…)`, it says what is wrong with yours"
)]
pub trait Handle: Send + Sync + 'static {
    /// Handles one message. It is called for several at once, up to [`Settings::concurrency`].
    fn handle(&self, message: Message) -> impl Future<Output = Handled> + Send;
}

impl<F, Answer> Handle for F
where
    F: Fn(Message) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Handled> + Send,
{
    fn handle(&self, message: Message) -> impl Future<Output = Handled> + Send {
        self(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_texts_of_all_causes_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read the list")]
        struct Outer(#[source] std::io::Error);
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read the list: {0}")]
        struct Repeats(#[source] std::io::Error);
        let cause = || std::io::Error::other("no such disk");
        let whole = Failure::Error("cannot read the list: no such disk".into());
        assert_eq!(Failure::from(Outer(cause())), whole);
        assert_eq!(Failure::from(Repeats(cause())), whole);
        let boxed: Box<dyn StdError + Send + Sync> = Box::new(Outer(cause()));
        assert_eq!(Failure::from(boxed), whole);
        assert_eq!(Failure::from("no"), Failure::from(String::from("no")));
    }

    #[test]
    fn a_failure_is_tried_again_as_often_as_allowed_and_a_request_to_try_again_always() {
        let settings = Settings {
            retries: 2,
            ..Settings::default()
        };
        let failed = |failures| Failure::from("bad").outcome(failures, &settings);
        assert!(matches!(
            failed(0),
            Outcome::Retry {
                after_ms: 500..=1000,
                ..
            }
        ));
        assert!(matches!(
            failed(1),
            Outcome::Retry {
                after_ms: 1000..=2000,
                ..
            }
        ));
        assert_eq!(failed(2), Outcome::Error("bad".into()));
        let none = Settings::default();
        assert_eq!(Failure::from("bad").outcome(0, &none), Outcome::Error("bad".into()));
        let wished = |failures| Failure::retry_after("busy", Duration::from_secs(7)).outcome(failures, &none);
        let error = String::from("busy");
        assert_eq!(wished(500), Outcome::Retry { error, after_ms: 7000 });
        assert_eq!(wished(u16::MAX), Outcome::Error("busy".into()), "not for ever");
        let long = Failure::retry("é".repeat(5000)).outcome(0, &none);
        assert!(matches!(long, Outcome::Retry { error, .. } if error.len() == ERROR_TEXT_BYTES_MAX));
    }
}
