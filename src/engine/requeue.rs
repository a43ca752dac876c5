//! To the end of the line of tasks.

use std::future::poll_fn;
use std::task::Poll;

/// Lets the tasks run first that wait for their turn. `tokio::task::yield_now` would look for I/O before that, which is a system call.
pub(crate) async fn requeue() {
    let mut was_here = false;
    poll_fn(|context| {
        if std::mem::replace(&mut was_here, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn who_goes_to_the_end_of_the_line_comes_after_those_in_it() {
        static HAS_RUN: AtomicBool = AtomicBool::new(false);
        tokio::spawn(async { HAS_RUN.store(true, Ordering::Relaxed) });
        assert!(!HAS_RUN.load(Ordering::Relaxed));
        requeue().await;
        assert!(HAS_RUN.load(Ordering::Relaxed));
    }
}
