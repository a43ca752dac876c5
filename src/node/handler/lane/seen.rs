//! What a lane sees before it decides.

use tokio::time::Instant;

use super::Lane;
use crate::engine::Engine;
use crate::mutants::guard;
use crate::node::handle::Handle;
use crate::node::handler::next::Seen;

impl<E: Engine, H: Handle> Lane<'_, E, H> {
    pub(super) fn look(&self) -> Seen {
        let (accepts, now) = (self.accepts(), Instant::now());
        if !accepts {
            // No take follows that outcomes could wait for.
            self.pool.took_all(true);
        }
        let (rung, held_until) = (self.bell.has_rung(), self.patience.until());
        let is_held_back = held_until.is_some_and(|until| now < until);
        let asks = accepts && (rung || !(self.dry || is_held_back));
        let mut pool = self.pool.look(now, asks);
        if !accepts {
            pool.want = 0;
            self.passes();
        }
        Seen {
            accepts,
            stopping: self.context.shutdown.is_stopping(),
            burst: self.ends_when_empty(),
            holds: !self.held.is_empty(),
            flies: !self.flight.is_empty() || !self.early.is_empty(),
            dry: self.dry,
            held_until,
            rung,
            heeded: self.bell.is_heeded(),
            pool,
            lease: self.context.settings.lease,
            called: self.called,
            now,
        }
    }

    /// Whether this node takes messages: not while it generates, and not once it is to stop.
    pub(super) fn accepts(&self) -> bool {
        let context = self.context;
        let generates = context.standing.borrow().reign.is_some() && !context.settings.also_handle;
        let stops = context.shutdown.is_stopping();
        !(generates && guard("either-role") || stops && guard("stops-taking"))
    }
}
