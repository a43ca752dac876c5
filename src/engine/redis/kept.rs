//! Group commit: one wait for the replicas serves all calls that were answered before it.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::link::Link;
use super::link::kept::WRITTEN_MS;
use crate::engine::Ticket;
use crate::error::Result;

/// From one question to the next. Who has asked for nothing lately does not wait.
const PAUSE: Duration = Duration::from_millis(20);
/// Each costs the server as much as some messages do: if it serves fewer calls than this, and little waits for the next one,
const CALLS_MIN: u64 = 32;
/// that comes later.
const LONG_PAUSE: Duration = Duration::from_millis(50);
/// How long an answer is good for.
const FORGET: Duration = Duration::from_millis(WRITTEN_MS / 2);
/// How long it is believed that a server lacks something.
const LACKING: Duration = Duration::from_secs(1);

/// Asks on a connection of its own whether replicas have what calls wrote.
pub(super) struct Keeper {
    link: Link,
    known: Mutex<Known>,
}

/// What was last asked for.
#[derive(Default)]
struct Known {
    mark: String,
    /// Replicas have it up to this number.
    number: u64,
    /// So many more than the question before had found.
    served: u64,
    asked: Option<Instant>,
    /// A new connection found no more than this.
    lacks: Option<Instant>,
}

impl Known {
    fn found(&mut self, mark: &str, number: u64) {
        let before = if self.mark == mark { self.number } else { 0 };
        self.served = number.saturating_sub(before);
        self.number = number;
        mark.clone_into(&mut self.mark);
    }

    fn pause(&self, at_leisure: bool) -> Duration {
        if at_leisure && self.served < CALLS_MIN {
            LONG_PAUSE
        } else {
            PAUSE
        }
    }

    fn covers(&self, ticket: &Ticket) -> bool {
        // A mark that nobody asks for expires, and is counted anew.
        let is_fresh = self.asked.is_some_and(|asked| asked.elapsed() < FORGET);
        self.mark == *ticket.key && self.number >= ticket.number && is_fresh
    }

    /// A whole line of calls may be gone, and each would be asked for.
    fn lacks(&self, ticket: &Ticket) -> bool {
        let lately = self.lacks.is_some_and(|at| at.elapsed() < LACKING);
        self.mark == *ticket.key && self.number < ticket.number && lately
    }
}

impl Keeper {
    pub(super) fn new(link: Link) -> Self {
        Self {
            link,
            known: Mutex::default(),
        }
    }

    /// Returns when enough replicas have what the ticket stands for. False: the server that has the queue now has it not.
    pub(super) async fn kept(&self, ticket: &Ticket) -> Result<bool> {
        // Whoever waits here while another asks finds the answer to its own question.
        let mut known = self.known.lock().await;
        if known.covers(ticket) {
            return Ok(true);
        }
        if known.lacks(ticket) {
            return Ok(false);
        }
        known.lacks = None;
        if let Some(asked) = known.asked {
            tokio::time::sleep_until(asked + known.pause(ticket.at_leisure)).await;
        }
        for is_fresh in [false, true] {
            known.asked = Some(Instant::now());
            known.found(&ticket.key, self.link.wait_at(ticket).await?);
            if known.covers(ticket) {
                return Ok(true);
            }
            // This connection may lead to a server that is the primary no more.
            if !is_fresh {
                self.link.close().await;
            }
        }
        known.lacks = Some(Instant::now());
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(mark: &str, number: u64) -> Ticket {
        Ticket {
            key: mark.into(),
            number,
            history: "".into(),
            at_leisure: false,
        }
    }

    fn known() -> Known {
        Known {
            mark: "a".into(),
            number: 5,
            served: 5,
            asked: Some(Instant::now()),
            lacks: None,
        }
    }

    #[test]
    fn whoever_makes_few_calls_asks_rarely() {
        let mut known = Known::default();
        let pauses = [("a", 40), ("a", 60), ("a", 92), ("b", 92), ("b", 0)].map(|(mark, number)| {
            known.found(mark, number);
            [true, false].map(|at_leisure| known.pause(at_leisure))
        });
        let [short, long] = [[PAUSE, PAUSE], [LONG_PAUSE, PAUSE]];
        assert_eq!(pauses, [short, long, short, short, long]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_serves_all_calls_of_its_connection_that_came_before_it() {
        let known = known();
        let covered =
            [("a", 4), ("a", 5), ("a", 6), ("b", 4)].map(|(mark, number)| known.covers(&ticket(mark, number)));
        assert_eq!(covered, [true, true, false, false]);
        assert!(!Known::default().covers(&ticket("", 0)), "nothing was asked");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_does_not_outlive_its_mark() {
        let known = known();
        tokio::time::advance(FORGET / 2).await;
        assert!(known.covers(&ticket("a", 5)));
        // The mark may have expired, and another call of the connection begun it anew.
        tokio::time::advance(FORGET / 2).await;
        assert!(!known.covers(&ticket("a", 5)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_server_lacks_is_asked_for_again_after_a_while() {
        let mut known = known();
        known.lacks = Some(Instant::now());
        let lacking =
            |known: &Known| [("a", 5), ("a", 6), ("b", 6)].map(|(mark, number)| known.lacks(&ticket(mark, number)));
        assert_eq!(lacking(&known), [false, true, false]);
        tokio::time::advance(LACKING).await;
        assert_eq!(lacking(&known), [false; 3]);
    }
}
