//! Backoff: waiting before a call to a store that is away is sent again.

use std::time::Duration;

use crate::mutants::guard;
use crate::settings::Settings;

/// Waits that double, with jitter, up to an eighth of the lease: so no lease runs out while a node waits.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    tries: u32,
    longest: Duration,
}

impl Backoff {
    const SHORTEST: Duration = Duration::from_millis(5);

    pub(crate) fn new(settings: &Settings) -> Self {
        Self::up_to((settings.lease / 8).min(Duration::from_millis(250)))
    }

    pub(crate) fn up_to(longest: Duration) -> Self {
        Self { tries: 0, longest }
    }

    /// From now on it waits for no longer than this.
    pub(crate) fn at_most(&mut self, longest: Duration) -> &mut Self {
        self.longest = longest;
        self
    }

    /// Whether no call has failed since the last reset.
    pub(crate) fn is_fresh(&self) -> bool {
        self.tries == 0
    }

    /// Whether more than eight calls in a row have failed.
    pub(crate) fn is_long(&self) -> bool {
        self.tries > 8
    }

    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }

    pub(crate) async fn wait(&mut self) {
        let mut longest = Self::SHORTEST * 2u32.pow(self.tries.min(10));
        if guard("backoff-soon") {
            longest = longest.min(self.longest);
        }
        self.tries = self.tries.saturating_add(1);
        // Between half and the whole of it, at random: nodes must not all come back at once.
        tokio::time::sleep(longest.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}
