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
    let (found, given) = (shards(recorded), (names.shards.max(1), names.shard));
    if found.0 != given.0 {
        return Err(Error::OtherShards {
            queue: queue.to_string(),
            recorded: found.0,
            given: given.0,
        });
    }
    if found.1 != given.1 {
        return Err(Error::OtherShard {
            queue: queue.to_string(),
            recorded: found.1,
            given: given.1,
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

/// How many shards a line of names speaks of, and of which of them.
fn shards(line: &str) -> (u32, u32) {
    let said = |of: &str| line.rsplit(' ').find_map(|part| part.strip_prefix(of)?.parse().ok());
    (said("shards=").unwrap_or(1), said("shard=").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_with_another_number_of_shards_is_refused_as_that() {
        let of = |shards| Names {
            shards,
            ..Names::default()
        };
        assert!(check_layout("jobs", &of(3), LAYOUT, &of(3).line()).is_ok());
        let error = check_layout("jobs", &of(1), LAYOUT, &of(3).line()).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "queue \"jobs\" has 3 shards, and this node works on 1: open it with as many as it was made with"
        );
        assert!(matches!(
            check_layout("jobs", &of(3), LAYOUT, &of(1).line()),
            Err(Error::OtherShards {
                recorded: 1,
                given: 3,
                ..
            })
        ));
        let second = Names::default().of_shard(2, 3);
        let error = check_layout("jobs", &of(3), LAYOUT, &second.line()).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "shard 2 of queue \"jobs\" is where shard 0 was looked for: name the stores in the order in which the queue was made"
        );
    }
}
