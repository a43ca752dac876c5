//! Waiting for messages at the bell, and what becomes of a wait that fails.

use std::time::Duration;

use tokio::time::Instant;

use super::Lane;
use crate::engine::{Engine, Exchange, Exchanged, requeue};
use crate::error::Result;
use crate::node::backoff::Backoff;
use crate::node::context::Context;
use crate::node::event::Event;
use crate::node::handle::Handle;
use crate::node::handler::call::{Call, Landed, Said, send};
use crate::node::handler::lane::Ended;
use crate::settings::Settings;

/// Waits that fail after so long are no storm: something on the way closes what is idle.
const LONG: Duration = Duration::from_secs(1);

/// The waits of one lane. Calls may be answered where waits fail at once: the right to wait may be missing, or a proxy may know no such command. Then the
/// lane asks again and again, at intervals.
pub(super) struct Waits {
    backoff: Backoff,
    /// It was told that they fail.
    told: bool,
}

impl Waits {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            backoff: Backoff::new(settings),
            told: false,
        }
    }

    /// Makes the call when the bell rings. None: the wait has failed, some time ago.
    async fn wait<E: Engine>(
        &mut self,
        context: &Context<E>,
        exchange: &Exchange,
        at_most: Duration,
    ) -> Option<Exchanged> {
        let begun = Instant::now();
        let error = match context.engine.await_work(exchange, at_most).await {
            Ok(exchanged) => {
                self.backoff.reset();
                self.told = false;
                return Some(exchanged);
            }
            Err(error) => error,
        };
        if begun.elapsed() >= LONG {
            self.backoff.reset();
        }
        if self.backoff.is_fresh() {
            context.requests.beat_now();
        }
        // The beat tells of a store that is away; this is for what only the wait meets.
        if self.backoff.is_long() && !self.told {
            self.told = true;
            let reason = error.to_string();
            context.tell(&exchange.node, Event::Away { reason });
        }
        self.backoff.wait().await;
        None
    }
}

impl<E: Engine, H: Handle> Lane<'_, E, H> {
    /// Makes a call when the bell rings; no other is on its way.
    pub(super) async fn call_at_the_bell(&mut self, mut call: Call) -> Result<Option<Ended>> {
        if let Some(exchanged) = self.await_work(&call.exchange).await {
            let (ticket, took) = (None, None);
            let answer = Some(Said {
                exchanged,
                ticket,
                took,
            });
            let ended = self.land(Landed { call, answer, lost: 0 }).await;
            // What came is begun with before this lane prepares for its end.
            requeue().await;
            return Ok(ended);
        }
        // A wait that was given up may have made the call or not. To send the same call again tells which.
        if !self.accepts() {
            call.exchange.want = 0;
        }
        // A lane that is to stop sends it once: nothing is in hand unless the answer says so.
        if self.context.shutdown.is_stopping() && self.context.engine.exchange(&call.exchange).await.is_err() {
            return Ok(Some(Ended::Stopped));
        }
        let landed = send(self.context, call).await?;
        let lost = landed.lost + 1;
        Ok(self.land(Landed { lost, ..landed }).await)
    }

    /// Waits for messages at the bell. None: there is something else to look after, or the wait has failed.
    async fn await_work(&mut self, exchange: &Exchange) -> Option<Exchanged> {
        let Self {
            context,
            standing,
            own,
            patience,
            waits,
            ..
        } = self;
        let mut shutdown = context.shutdown.clone();
        // Whoever has work rings. What ends a wait without a ring is only to find a connection that is dead. Redis wakes whoever has waited
        // longest, and each new wait begins at the end of the line: with short ones, those that began right before a tick were passed
        // over again and again.
        let at_most = patience.at_most(context.settings.lease);
        tokio::select! {
            biased;
            // First: a node that has become the generator, or is to stop, takes nothing more.
            Ok(()) = standing.changed() => None,
            () = shutdown.stopping() => None,
            // With the last message of all shards a burst is over.
            () = own.woken(), if context.settings.burst => None,
            answer = waits.wait(context, exchange, at_most) => answer,
        }
    }
}
