//! Which queues this program can work on.

use crate::error::{Error, Result};
use crate::settings::Names;

/// What this program writes into a queue. A queue written by a newer layout is refused; one written by an
/// older layout is taken over, and its members of that time are deposed.
pub const LAYOUT: u64 = 3;

/// Whether a queue that was found so is one that this program can work on.
pub(super) fn check_layout(queue: &str, names: &Names, layout: u64, recorded: &str) -> Result<()> {
    if layout > LAYOUT {
        return Err(Error::NewerLayout {
            queue: queue.to_string(),
            found: layout,
            known: LAYOUT,
        });
    }
    if recorded != names.line() {
        return Err(Error::OtherNames {
            queue: queue.to_string(),
            recorded: recorded.to_string(),
            given: names.line(),
        });
    }
    Ok(())
}
