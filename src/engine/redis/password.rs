//! Passwords that do not last: asked for anew when a connection is made.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Connections that are made within this time share a password: a node makes several at once.
const SHARED: Duration = Duration::from_secs(5);
/// How long the first connection waits for its password.
const FIRST_MAX: Duration = Duration::from_secs(30);

type Asked = Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;
/// When it came, and what it was.
type Answer = (Instant, Result<String, String>);

/// Where the password of each new connection comes from: a token of a cloud service is valid for minutes, a mounted secret
/// changes under a running node.
#[derive(Clone)]
pub struct Password(Arc<Inner>);

struct Inner {
    ask: Box<dyn Fn() -> Asked + Send + Sync>,
    /// The last question; none, while there is no answer.
    last: Mutex<Option<watch::Receiver<Option<Answer>>>>,
    /// A server has taken one of them.
    admitted: AtomicBool,
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

impl Password {
    /// `ask` is called when connections are made; those of the same five seconds share an answer.
    ///
    /// ```
    /// use queenright::engine::redis::Password;
    ///
    /// let password = Password::new(|| async { std::fs::read_to_string("/run/secrets/redis") });
    /// ```
    pub fn new<A>(ask: impl Fn() -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = io::Result<String>> + Send + 'static,
    {
        Self(Arc::new(Inner {
            ask: Box::new(move || Box::pin(ask())),
            last: Mutex::default(),
            admitted: AtomicBool::new(false),
        }))
    }

    /// Waits for so long at most. Who gives up does not end the question: its answer serves the next connection. A node that was
    /// admitted before must not stand still for it.
    pub(crate) async fn ask(&self, at_most: Duration) -> io::Result<String> {
        let at_most = if self.was_admitted() {
            at_most
        } else {
            at_most.max(FIRST_MAX)
        };
        let mut question = self.question();
        let answered = timeout(at_most, question.wait_for(Option::is_some)).await;
        let slow = || io::Error::other("whoever gives it has not answered yet");
        let answer = answered.map_err(|_| slow())?.map_err(io::Error::other)?.clone();
        answer.ok_or_else(slow)?.1.map_err(io::Error::other)
    }

    /// One that is under way, or whose answer is new; otherwise a new one.
    fn question(&self) -> watch::Receiver<Option<Answer>> {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(question) = &*last {
            let serves = match &*question.borrow() {
                None => question.has_changed().is_ok(),
                Some((at, answer)) => answer.is_ok() && at.elapsed() < SHARED,
            };
            if serves {
                return question.clone();
            }
        }
        let (tell, question) = watch::channel(None);
        let asked = (self.0.ask)();
        tokio::spawn(async move {
            let answer = asked.await.map_err(|error| error.to_string());
            tell.send_replace(Some((Instant::now(), answer)));
        });
        *last = Some(question.clone());
        question
    }

    pub(super) fn admitted(&self) {
        self.0.admitted.store(true, Ordering::Relaxed);
    }

    /// One that is refused now may be one that has just expired: the next one will do.
    pub(super) fn was_admitted(&self) -> bool {
        self.0.admitted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// Takes two seconds for each answer, which is a number; the third is an error.
    fn counting() -> Password {
        let asked = Arc::new(AtomicU32::new(0));
        Password::new(move || {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                let fails = || io::Error::other("no more");
                (number < 2).then(|| number.to_string()).ok_or_else(fails)
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn connections_at_the_same_time_share_a_password_and_later_ones_ask_anew() {
        let password = counting();
        let long = Duration::from_mins(1);
        let all = tokio::join!(password.ask(long), password.ask(long), password.ask(long));
        assert_eq!([all.0.unwrap(), all.1.unwrap(), all.2.unwrap()], ["0", "0", "0"]);
        tokio::time::advance(SHARED).await;
        assert_eq!(password.ask(long).await.unwrap(), "1");
        tokio::time::advance(SHARED).await;
        let both = tokio::join!(password.ask(long), password.ask(long));
        assert_eq!(both.0.unwrap_err().to_string(), "no more");
        assert_eq!(both.1.unwrap_err().to_string(), "no more", "asked once for both");
        assert_eq!(format!("{password:?}"), "Password");
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_admitted_before_does_not_wait_long_and_the_answer_serves_the_next() {
        let password = counting();
        let short = Duration::from_millis(500);
        assert_eq!(password.ask(short).await.unwrap(), "0", "the first waits for it");
        password.admitted();
        tokio::time::advance(SHARED).await;
        assert!(password.ask(short).await.is_err());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(password.ask(short).await.unwrap(), "1");
    }
}
