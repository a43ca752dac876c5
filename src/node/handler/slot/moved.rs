//! Effects of a node that has heard of a reshard and works by the names of before, until what it has in hand is done.

use std::time::Duration;

use super::Pool;
use crate::message::{Effect, Message};
use crate::node::handle::{Failure, Handled};

/// When the message is tried again: by then, or soon after, this node and others have followed.
const AGAIN: Duration = Duration::from_secs(1);

/// Where another group is by now this node does not know: two of its messages could be in work at once. So the message is put off. That of its own group is held up by
/// the message itself.
pub(super) fn unless_moving(handled: Handled, pool: &Pool, sample: &Message) -> Handled {
    match handled {
        Ok(effects) if !effects.is_empty() && pool.is_resharded() => put_off(effects, sample.group()),
        handled => handled,
    }
}

#[cold]
fn put_off(effects: Vec<Effect>, own: Option<&str>) -> Handled {
    let other = effects.iter().find_map(|effect| match effect {
        Effect::Publish { group: Some(group), .. } if own != Some(group) => Some(group),
        _ => None,
    });
    match other {
        None => Ok(effects),
        Some(group) => {
            let text = format!("it publishes to the group {group:?}, and the number of shards is being changed");
            Err(Failure::retry_after(text, AGAIN))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::super::slot;
    use super::*;
    use crate::message::{Envelope, Outcome, Pack};
    use crate::node::context::Reopening;
    use crate::node::shutdown;
    use crate::settings::Settings;

    /// What becomes of a message of this group that publishes into another one, or nothing.
    async fn outcome(own: Option<&str>, to: Option<&str>, is_resharded: bool) -> Outcome {
        let (_stopper, shutdown) = shutdown::channel();
        let reopening = Reopening::new(&shutdown, false);
        if is_resharded {
            reopening.want();
        }
        let mut pool = Pool::new(&Settings::default(), &Arc::default(), None);
        pool.reopening = Some(reopening);
        let pool = Arc::new(pool);
        let envelope = Envelope {
            group: own.map(str::to_string),
            ..Envelope::default()
        };
        pool.add(vec![Pack::of_one(&envelope, b"x", 1, 1, 0)], Instant::now());
        let next = Effect::publish("next");
        let effects = vec![match to {
            Some(group) => next.in_group(group),
            None => next,
        }];
        let handle = move |_: Message| std::future::ready(Ok(effects.clone()));
        slot(pool.clone(), Arc::new(handle), Arc::default(), None).await;
        pool.collect(false, Instant::now()).remove(0).outcome
    }

    #[tokio::test]
    async fn until_a_node_has_followed_a_reshard_its_messages_publish_to_no_other_group() {
        for (own, to) in [(None, Some("g")), (Some("h"), Some("g"))] {
            assert!(matches!(outcome(own, to, false).await, Outcome::Done(_)));
            let put_off = outcome(own, to, true).await;
            assert!(matches!(put_off, Outcome::Retry { after_ms: 1000, .. }), "{put_off:?}");
        }
        for (own, to) in [(Some("g"), Some("g")), (Some("g"), None), (None, None)] {
            assert!(
                matches!(outcome(own, to, true).await, Outcome::Done(_)),
                "{own:?} {to:?}"
            );
        }
    }
}
