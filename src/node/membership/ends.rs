//! What is done once, when a node begins and when it ends.

use super::Membership;
use crate::engine::{Engine, NodeId};
use crate::error::Result;

impl<E: Engine> Membership<E> {
    /// Sets the limit that this node was given, if it was given one: before anything is taken, and again in a queue that was removed, which has
    /// forgotten it.
    pub(super) async fn limit(&mut self, node: &NodeId) -> Result<()> {
        let Some(limits) = self.context.settings.limits else {
            return Ok(());
        };
        loop {
            match self.context.engine.limit(&limits).await {
                Err(error) if error.may_be_mended() => {
                    // It is told to leave before anything is taken.
                    if self.context.requests.requested().leave {
                        return Ok(());
                    }
                    self.wait(node, &error.to_string()).await;
                }
                limited => return limited,
            }
        }
    }

    /// Of one that is no member, and is not to become one again.
    pub(super) async fn until_told_to_leave(&self) {
        while !self.context.requests.requested().leave {
            self.context.meter.beat_turns();
            let looks = self.context.settings.lease / 4;
            let _ = tokio::time::timeout(looks, self.context.requests.waiting()).await;
        }
    }

    pub(super) async fn leave(&mut self, node: &NodeId) -> Result<()> {
        loop {
            self.context.meter.beat_turns();
            match self.context.engine.leave(node).await {
                Err(error) if error.may_be_mended() => self.wait(node, &error.to_string()).await,
                done => return done,
            }
        }
    }
}
