//! A push into the whole queue.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{List, Sharded, UNANSWERED_MAX, rounds};
use crate::engine::{CALL_MS, Engine, Push, Pushed, Receipt};
use crate::error::{Absence, Error, Result};

/// A shard answers a repeat of a call as it did before for twice this time. What comes later than that may follow a repeat that was sent to other shards since.
const LATE: Duration = Duration::from_millis(CALL_MS / 2);

fn is_late(place: Option<String>, shard: usize) -> Error {
    Error::Away {
        store: place.unwrap_or_else(|| format!("shard {shard}")),
        absence: Absence::Silent,
        reason: "the push stood still on its way there: make the same call again".into(),
    }
}

impl<E: Engine<Shard = E>> Sharded<E> {
    pub(super) async fn push_into(&self, list: &List<E>, push: &Push) -> Result<Pushed> {
        if !Self::is_known(list, push).await? {
            return Ok(Pushed::Unheard);
        }
        self.note_push(&push.call, Some(list.names.then.len()));
        let pushed = self.push_parts(list, push).await;
        // Of one that is refused in one shard something may have been put in in another: a repeat of the call looks there.
        if matches!(pushed, Ok(Pushed::Ok(_))) {
            self.note_push(&push.call, None);
        }
        pushed
    }

    /// Whether the home shard says that these are the shards, and cannot forget it with a failover: nobody would look for what was put in elsewhere.
    async fn is_known(list: &List<E>, push: &Push) -> Result<bool> {
        let is_alone = list.shards.len() == 1 && list.names.then.is_empty();
        if is_alone || list.is_known.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let told = if list.names.then.is_empty() {
            list.home().published().await.map(|_| true)
        } else {
            list.home().reshard("").await
        };
        match told {
            Err(Error::NoQueue { .. }) => Self::make_home(list, push).await,
            Ok(true) => {
                list.is_known.store(true, Ordering::Relaxed);
                list.is_checked.store(true, Ordering::Relaxed);
                Ok(true)
            }
            told => told,
        }
    }

    /// The first push makes the home shard, wherever its messages belong: so whoever comes with another number of shards is told. If there is no room for anything, it
    /// makes nothing.
    async fn make_home(list: &List<E>, push: &Push) -> Result<bool> {
        if push.backlog_max == 0 {
            return Ok(true);
        }
        let nothing = Push {
            call: format!("{}!", push.call),
            items: Vec::new(),
            ..push.clone()
        };
        let made = list.home().push(&nothing).await?;
        Ok(!matches!(made, Pushed::Unheard))
    }

    async fn push_parts(&self, list: &List<E>, push: &Push) -> Result<Pushed> {
        let (begun, mut receipts) = (Instant::now(), vec![None; push.items.len()]);
        let sent_at = self.sent_at(&push.call);
        for round in rounds::rounds(&list.names, &sent_at) {
            let left: Vec<usize> = (0..receipts.len()).filter(|place| receipts[*place].is_none()).collect();
            for (shard, part, places) in rounds::parts(push, &left, &round) {
                if begun.elapsed() > LATE {
                    return Err(is_late(list.shards[shard].place(), shard));
                }
                match Self::push_part(list, shard, part, push).await? {
                    Pushed::Ok(found) => {
                        for (place, receipt) in places.into_iter().zip(found) {
                            receipts[place] = Some(receipt).filter(|receipt| *receipt != Receipt::NOT_HERE);
                        }
                    }
                    // What is in is said: it must not be pushed again under another id.
                    Pushed::Full if receipts.iter().any(Option::is_some) => return Ok(Pushed::Part(receipts)),
                    other => return Ok(other),
                }
            }
        }
        let receipts: Option<Vec<_>> = receipts.into_iter().collect();
        receipts.map(Pushed::Ok).ok_or_else(|| Error::Protocol {
            detail: "a push was answered in part".into(),
        })
    }

    /// Pushes a part into its shard. One that nobody has come to is made only if the home shard says once more that it is one of the queue: that may have been removed,
    /// and made anew with other shards, while this process knew it. Nobody would work on what was put in there.
    async fn push_part(list: &List<E>, shard: usize, mut part: Push, push: &Push) -> Result<Pushed> {
        if shard > 0 {
            part.birth.clear();
            match list.shards[shard].push(&part).await {
                Err(Error::NoQueue { .. }) => {}
                told => return told,
            }
            list.is_known.store(false, Ordering::Relaxed);
            if !Self::is_known(list, push).await? {
                return Ok(Pushed::Unheard);
            }
            part.birth.clone_from(&push.birth);
        }
        list.shards[shard].push(&part).await
    }

    /// After how many reshards a push was sent that is not answered.
    fn sent_at(&self, call: &str) -> Vec<usize> {
        let unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let found = unanswered.iter().find(|(other, _)| other == call);
        found.map_or_else(Vec::new, |(_, sent_at)| sent_at.clone())
    }

    /// A push is sent after so many reshards; None: it is answered.
    fn note_push(&self, call: &str, reshards: Option<usize>) {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let known = unanswered.iter().position(|(other, _)| other == call);
        match (known, reshards) {
            (Some(at), None) => drop(unanswered.remove(at)),
            (Some(at), Some(reshards)) => {
                let sent_at = &mut unanswered[at].1;
                if !sent_at.contains(&reshards) {
                    sent_at.push(reshards);
                }
            }
            (None, Some(reshards)) => {
                if unanswered.len() == UNANSWERED_MAX {
                    unanswered.pop_front();
                }
                unanswered.push_back((call.to_string(), vec![reshards]));
            }
            (None, None) => {}
        }
    }
}
