//! One sampler for all open pages; while no page is open it does not ask the store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use tokio::sync::{Notify, watch};

use super::access::Person;
use super::reply::{Answer, Refusal, stream};
use super::sample::Sample;
use crate::node::shutdown::Shutdown;

/// Between two looks.
pub(super) const EVERY: Duration = Duration::from_millis(500);
/// A comment line now and then, so that both sides notice when the other is gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How many pages may be open at once.
pub(super) const VIEWERS_MAX: usize = 50;

/// The last sample, for all who look.
#[derive(Default)]
pub(super) struct Live {
    sender: watch::Sender<Option<(u64, Arc<Sample>)>>,
    /// Wakes the sampler when somebody comes.
    came: Notify,
}

impl Live {
    /// Returns while somebody looks; otherwise once somebody comes.
    pub async fn awaited(&self) {
        if self.sender.receiver_count() == 0 {
            // An old sample is not shown to the next page that is opened.
            self.sender.send_replace(None);
            self.came.notified().await;
        }
    }

    pub fn tell(&self, sample: Sample) {
        self.sender.send_modify(|last| {
            let number = last.as_ref().map_or(0, |(number, _)| *number);
            *last = Some((number + 1, Arc::new(sample)));
        });
    }

    /// A stream of events for one who looks: the last sample at once, and each that follows. Who reads slowly skips some. It
    /// ends with the session.
    pub fn events(&self, person: Person, mut shutdown: Shutdown) -> Answer {
        if self.sender.receiver_count() >= VIEWERS_MAX {
            let line = format!("{VIEWERS_MAX} pages are open already: close one");
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "viewers", line));
        }
        let mut receiver = self.sender.subscribe();
        receiver.mark_changed();
        self.came.notify_one();
        let (pieces, reply) = stream("text/event-stream");
        let send = async move {
            let mut text = String::from("retry: 1000\n\n");
            loop {
                if !person.is_still_admitted() || pieces.send(Ok(Bytes::from(text))).await.is_err() {
                    return;
                }
                let changed = tokio::time::timeout(SILENCE_MAX, receiver.changed()).await;
                text = match changed {
                    Ok(Ok(())) => receiver.borrow_and_update().as_ref().map_or_else(String::new, event),
                    Ok(Err(_)) => return,
                    Err(_) => ": still here\n\n".into(),
                };
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = send => {}
                () = shutdown.stopping() => {}
            }
        });
        Ok(reply)
    }
}

fn event((number, sample): &(u64, Arc<Sample>)) -> String {
    let data = serde_json::to_string(&**sample).expect("keys are texts, and numbers are numbers");
    format!("id: {number}\nevent: sample\ndata: {data}\n\n")
}
