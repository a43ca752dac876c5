//! Waiting for a store that is away.

use std::time::Duration;

use crate::mutants::guard;
use crate::settings::Settings;

/// Waits that double, with jitter, and stay so short that no lease runs out for them.
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

    /// Whether nothing has gone wrong since the last reset.
    pub(crate) fn is_fresh(&self) -> bool {
        self.tries == 0
    }

    /// Whether it has gone wrong for some while.
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
        // Never all at once: somewhere between half and the whole of it.
        tokio::time::sleep(longest.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}
