//! Several publishes on their way at once, in the order of their numbers.
//!
//! The store applies a publish only if it builds on what there is: on the count of messages made before it, and on the next number. So
//! of calls that overtake each other, or that follow one that was refused or lost, none is applied out of turn: they are answered
//! `gap`, and sent again. The oldest decides. If it is not applied, the others are waited for, the oldest is sent until it
//! is, and then those behind it once more, unchanged; what was applied already is answered as such.
//! If others pushed, the numbers of all that follow are wrong. None of them can be applied any more, also as a late copy: how far the next
//! number is ahead of the count of messages made never shrinks.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use tokio::time::Instant;

use super::progress::{Progress, Sending, Then};
use super::send::{Attempt, Sender, Sent};
use super::window::Window;
use crate::engine::{Engine, Publish};
use crate::error::Result;
use crate::mutants::guard;

/// Calls on their way, the oldest first.
pub(super) struct Flight<'a, E, F: Future> {
    sender: &'a Sender<'a, E>,
    send: fn(&'a Sender<'a, E>, Call) -> F,
    calls: FuturesOrdered<F>,
    bytes: usize,
    window: Window,
    /// When the first was answered.
    first: Option<Instant>,
}

/// A publish, and what is known once it is applied.
pub(super) struct Call {
    pub publish: Publish,
    pub sending: Sending,
}

/// What came of sending it once.
pub(super) struct Landed<'a> {
    call: Call,
    attempt: Attempt<'a>,
    sent: Instant,
}

/// Sends it once.
pub(super) async fn fly<'a, E: Engine>(sender: &'a Sender<'a, E>, call: Call) -> Landed<'a> {
    let sent = Instant::now();
    let attempt = sender.attempt(&call.publish).await;
    Landed { call, attempt, sent }
}

impl<'a, E: Engine, F: Future<Output = Landed<'a>>> Flight<'a, E, F> {
    pub(super) fn new(sender: &'a Sender<'a, E>, send: fn(&'a Sender<'a, E>, Call) -> F) -> Self {
        Self {
            sender,
            send,
            calls: FuturesOrdered::new(),
            bytes: 0,
            window: Window::new(sender.context.engine.trip()),
            first: None,
        }
    }

    /// How long the way of a call was that is answered now. Those that were sent before the first answer waited until there was a connection.
    fn took(&mut self, sent: Instant, trip: Duration) -> Duration {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        if sent < first { now - first + trip } else { now - sent }
    }

    pub(super) fn has_room(&self) -> bool {
        self.window.has_room(self.calls.len(), self.bytes)
    }

    /// Sends behind those that are on their way.
    pub(super) fn send(&mut self, call: Call) {
        self.sender.intends(&call.publish);
        self.resend(call);
    }

    fn resend(&mut self, call: Call) {
        self.bytes += bytes(&call.publish);
        self.calls.push_back((self.send)(self.sender, call));
    }

    /// Takes in answers until `work` is done. None: what follows has other numbers, or the reign is over, as the other value tells.
    pub(super) async fn during<T>(
        &mut self,
        progress: &mut Progress,
        work: impl Future<Output = T>,
    ) -> Result<(Option<T>, Then)> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                Some(landed) = self.next() => match self.take_in(landed, progress).await? {
                    Then::ON => {}
                    then => return Ok((None, then)),
                },
                done = &mut work => return Ok((Some(done), Then::ON)),
            }
        }
    }

    /// Takes in all answers.
    pub(super) async fn land_all(&mut self, progress: &mut Progress) -> Result<Then> {
        let mut keeps_ready = true;
        while !self.calls.is_empty() {
            match self.land(progress).await? {
                Then::GoOn { keeps_ready: keeps } => keeps_ready &= keeps,
                end => return Ok(end),
            }
        }
        Ok(Then::GoOn { keeps_ready })
    }

    /// Takes in the answer to the oldest.
    pub(super) async fn land(&mut self, progress: &mut Progress) -> Result<Then> {
        match self.next().await {
            Some(landed) => self.take_in(landed, progress).await,
            None => Ok(Then::ON),
        }
    }

    async fn take_in(&mut self, landed: Landed<'a>, progress: &mut Progress) -> Result<Then> {
        let Landed { call, attempt, sent } = landed;
        let mut behind = VecDeque::new();
        if attempt.is_applied() || !guard("oldest-first") {
            let trip = self.sender.context.engine.trip();
            let took = self.took(sent, trip);
            self.window.answered(took, trip);
        } else {
            if attempt.has_failed() {
                self.window.failed();
            }
            self.sender.notes(&attempt);
            while let Some(landed) = self.next().await {
                self.sender.notes(&landed.attempt);
                behind.push_back(landed.call);
            }
        }
        let Call { publish, sending } = call;
        let sent = self.sender.insist(publish, attempt).await?;
        let is_published = matches!(sent, Sent::Published(_));
        if matches!(sent, Sent::Moved { .. }) {
            self.window.moved();
        }
        let then = progress.advance(sent, sending, Duration::ZERO);
        // Where others pushed behind it, some of these may have been applied before that.
        if is_published {
            for call in behind {
                self.resend(call);
            }
        }
        Ok(then)
    }

    /// Nothing is lost if it is not waited for to the end.
    async fn next(&mut self) -> Option<Landed<'a>> {
        let landed = self.calls.next().await?;
        self.bytes -= bytes(&landed.call.publish);
        Some(landed)
    }
}

fn bytes(publish: &Publish) -> usize {
    publish.packs.iter().map(|pack| pack.bytes().len()).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use bytes::Bytes;

    use super::super::send::tests::{context, publish};
    use super::*;
    use crate::engine::Published;
    use crate::engine::memory::Local;
    use crate::node::context::Context;

    const TRIP: Duration = Duration::from_millis(50);

    fn sender<'a>(context: &'a Context<Local>, confirmed: &'a Arc<AtomicU64>) -> Sender<'a, Local> {
        Sender {
            context,
            confirmed,
            line: None,
            node: "n",
        }
    }

    /// Somebody has pushed one message before it arrived.
    async fn moved<'a>(_: &'a Sender<'a, Local>, call: Call) -> Landed<'a> {
        Landed {
            call,
            attempt: Attempt::answered(Published::Moved { seq: 1 }),
            sent: Instant::now(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_before_the_first_answer_had_to_wait_for_a_connection() {
        let (context, confirmed) = (context(Local::new("q")), Arc::default());
        let sender = sender(&context, &confirmed);
        let mut flight = Flight::new(&sender, moved);
        let (began, little) = (Instant::now(), Duration::from_millis(5));
        tokio::time::advance(3 * TRIP).await;
        assert_eq!(flight.took(began, TRIP), TRIP);
        tokio::time::advance(little).await;
        assert_eq!(flight.took(began, TRIP), TRIP + little);
        let later = Instant::now();
        tokio::time::advance(2 * TRIP).await;
        assert_eq!(flight.took(later, TRIP), 2 * TRIP);
    }

    #[tokio::test]
    async fn when_others_have_pushed_half_as_many_are_on_their_way() {
        let (context, confirmed) = (context(Local::new("q")), Arc::default());
        let sender = sender(&context, &confirmed);
        let mut flight = Flight::new(&sender, moved);
        while !flight.window.has_room(7, 0) {
            flight.window.answered(TRIP, TRIP);
        }
        let mut progress = Progress {
            seq: 0,
            made: 0,
            grain: 1,
            due: Instant::now(),
            cursor: Bytes::new(),
            most: 1,
        };
        for number in 0..8 {
            let sending = Sending {
                next: number + 1,
                made: number + 1,
                cursor: Bytes::new(),
            };
            let publish = publish(number);
            flight.send(Call { publish, sending });
        }
        let then = flight.land(&mut progress).await.expect("answered");
        assert_eq!((then, progress.seq), (Then::GoOn { keeps_ready: false }, 1));
        assert!(flight.calls.is_empty() && flight.window.has_room(3, 0) && !flight.window.has_room(4, 0));
    }
}
