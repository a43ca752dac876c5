//! Group commit: one wait for the replicas serves all calls that were answered before it.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::link::Link;
use super::link::kept::WRITTEN_MS;
use crate::engine::Ticket;
use crate::error::Result;

/// From one question to the next: each costs the server as much as a message does. Who has asked for nothing lately does not wait.
const PAUSE: Duration = Duration::from_millis(20);
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
    asked: Option<Instant>,
    /// A new connection found no more than this.
    lacks: Option<Instant>,
}

impl Known {
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
            tokio::time::sleep_until(asked + PAUSE).await;
        }
        for is_fresh in [false, true] {
            known.asked = Some(Instant::now());
            known.number = self.link.wait_at(&ticket.key).await?;
            known.mark = ticket.key.to_string();
            if known.covers(ticket) {
                return Ok(true);
            }
            // This connection may lead to a server that is the primary no more.
            if !is_fresh {
                self.link.reconnect().await;
            }
        }
        known.lacks = Some(Instant::now());
        Ok(false)
    }
}
