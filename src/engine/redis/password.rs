//! Passwords that do not last: asked for anew at each connect.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Mutex;
use tokio::time::Instant;

type Asked = Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;

/// Where the password of each new connection comes from: a token of a cloud service is valid for minutes, a mounted secret
/// changes under a running node.
#[derive(Clone)]
pub struct Password(Arc<Inner>);

struct Inner {
    ask: Box<dyn Fn() -> Asked + Send + Sync>,
    /// The last answer, and when it came.
    last: Mutex<Option<(Instant, String)>>,
    /// A server has taken one of them.
    admitted: AtomicBool,
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

impl Password {
    /// `ask` is called for each connection; connections that are made at the same time share an answer.
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

    pub(crate) async fn ask(&self) -> io::Result<String> {
        let wanted = Instant::now();
        let mut last = self.0.last.lock().await;
        if let Some((given, password)) = &*last
            && *given >= wanted
        {
            return Ok(password.clone());
        }
        let password = (self.0.ask)().await?;
        *last = Some((Instant::now(), password.clone()));
        Ok(password)
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
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_connect_asks_anew_and_those_at_the_same_time_share_an_answer() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let password = Password::new(move || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                Ok(number.to_string())
            }
        });
        let all = tokio::join!(password.ask(), password.ask(), password.ask());
        assert_eq!([all.0.unwrap(), all.1.unwrap(), all.2.unwrap()], ["0", "0", "0"]);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(password.ask().await.unwrap(), "1");
        assert_eq!(format!("{password:?}"), "Password");
    }
}
