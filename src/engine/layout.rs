//! Which queues this program can work on.

use crate::error::{Error, Result};
use crate::settings::Names;

/// What this program writes into a queue. A queue written by a newer layout is refused; one written by an
/// older layout is taken over, and its members of that time are deposed.
pub const LAYOUT: u64 = 4;

/// Whether a queue that was found so is one that this program can work on.
pub(super) fn check_layout(queue: &str, names: &Names, layout: u64, recorded: &str) -> Result<()> {
    if layout > LAYOUT {
        return Err(Error::NewerLayout {
            queue: queue.to_string(),
            found: layout,
            known: LAYOUT,
        });
    }
    if let Some(now) = names.continued(recorded) {
        return Err(Error::Resharded {
            queue: queue.to_string(),
            shards: now.shards_now(),
            line: recorded.to_string(),
        });
    }
    // Whoever knows of a later reshard tells it with its next call that writes; until then a look is one at what is there.
    if goes_on(&names.line(), recorded) {
        return Ok(());
    }
    let (found, given) = (shards(recorded), (names.shards.max(1), names.shard));
    if found.0 != given.0 {
        return Err(Error::OtherShards {
            queue: queue.to_string(),
            recorded: shards_now(recorded),
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

/// Whether a line tells of a later reshard than another, from which it goes on. The scripts of the Redis engine compare them in the same way.
pub(super) fn goes_on(longer: &str, shorter: &str) -> bool {
    let begins = if shorter.contains(" then=") { "," } else { " then=" };
    let more = longer.strip_prefix(shorter).and_then(|rest| rest.strip_prefix(begins));
    let is_number = |letter: char| letter.is_ascii_digit();
    more.is_some_and(|more| {
        more.starts_with(is_number)
            && more
                .chars()
                .all(|letter| is_number(letter) || matches!(letter, ',' | '/'))
    })
}

/// What the generator of a queue without shards has left, as the generator of one with shards reads it (`node/generator/spread/course.rs`): the first
/// record, nothing in doubt, and the epoch that has made so many messages. The script of the Redis engine writes the same.
pub(crate) fn first_record(made: u64, epoch: u64, cursor: &[u8]) -> Vec<u8> {
    let length = u32::try_from(cursor.len()).unwrap_or(u32::MAX);
    let mut record = vec![1];
    record.extend(1_u64.to_le_bytes());
    record.extend(made.to_le_bytes());
    record.extend(length.to_le_bytes());
    record.extend(cursor);
    for count in [0_u32, 0, 1] {
        record.extend(count.to_le_bytes());
    }
    record.extend(epoch.to_le_bytes());
    record.extend(made.to_le_bytes());
    record
}

/// How many shards a line of names speaks of, and of which of them.
pub(super) fn shards(line: &str) -> (u32, u32) {
    let said = |of: &str| line.rsplit(' ').find_map(|part| part.strip_prefix(of)?.parse().ok());
    (said("shards=").unwrap_or(1), said("shard=").unwrap_or(0))
}

/// How many shards get new messages, as a line of names tells.
fn shards_now(line: &str) -> u32 {
    let then = line.rsplit_once(" then=").and_then(|(_, then)| then.rsplit(',').next());
    let now = then.and_then(|last| last.split('/').next()?.parse().ok());
    now.unwrap_or(shards(line).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_goes_on_from_another_tells_of_a_later_reshard() {
        let three = Names::default().of_shard(0, 3);
        let five = three.resharded(5, 1);
        assert_eq!(
            five.line(),
            "errors=errors bell=bell crown=crown shards=3 shard=0 then=5"
        );
        assert_eq!((five.shards_now(), five.resharded(2, 1).shards_in_all()), (5, 5));
        for (older, newer) in [
            (&three, &five),
            (&five, &five.resharded(2, 3)),
            (&three, &five.resharded(2, 1)),
        ] {
            let found = check_layout("jobs", older, LAYOUT, &newer.line());
            assert!(
                matches!(found, Err(Error::Resharded { line, .. }) if line == newer.line()),
                "{}",
                newer.line()
            );
            assert!(check_layout("jobs", newer, LAYOUT, &older.line()).is_ok());
        }
        // A queue without shards has none in its line.
        let (one, four) = (Names::default(), Names::default().resharded(4, 1));
        assert_eq!(one.continued(&four.line()), Some(four.clone()));
        for other in [
            "x",
            " then=",
            " then=x",
            " then=0",
            " then=257",
            " then=4,",
            ",4",
            " then=4 x",
            " then=4/1",
            " then=4/0",
            " then=04",
        ] {
            assert_eq!(one.continued(&format!("{}{other}", one.line())), None, "{other:?}");
        }
        assert_eq!(one.continued(&one.line()), None);
        assert_eq!(three.continued(&four.line()), None);
        // Who is told the number that there is now, or was, means this queue.
        assert_eq!(three.of_shard(0, 5).continued(&five.line()), Some(five.clone()));
        assert_eq!(three.of_shard(0, 4).continued(&five.line()), None);
        // A shard has the number of shards with which it was made, and so its keys.
        let shard = five.resharded(2, 1).resharded(8, 8).in_shard(4);
        assert_eq!(
            shard.line(),
            "errors=errors bell=bell crown=crown shards=5 shard=4 then=2,8/8"
        );
        assert_eq!(
            five.in_shard(2).line(),
            "errors=errors bell=bell crown=crown shards=3 shard=2 then=5"
        );
        assert_eq!(five.in_shard(0), five);
    }

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
            "queue \"jobs\" has 3 shards, and this node works on 1: open it with as many as it has"
        );
        assert!(matches!(
            check_layout("jobs", &of(3), LAYOUT, &of(1).line()),
            Err(Error::OtherShards {
                recorded: 1,
                given: 3,
                ..
            })
        ));
        // Of one that was resharded, the number that it has now is told.
        let now = of(3).resharded(5, 1).resharded(8, 2);
        for (names, line) in [(of(4), now.line()), (of(5).resharded(6, 1), now.line())] {
            let error = check_layout("jobs", &names, LAYOUT, &line).expect_err("refused");
            assert!(matches!(error, Error::OtherShards { recorded: 8, .. }), "{error}");
        }
        let second = Names::default().of_shard(2, 3);
        let error = check_layout("jobs", &of(3), LAYOUT, &second.line()).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "shard 2 of queue \"jobs\" is where shard 0 was looked for: name the stores in the order in which the queue was made"
        );
    }
}
