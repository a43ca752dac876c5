//! A replica that follows the store some milliseconds behind it, may be cut off from it, and may take its place.

use queenright::engine::Ticket;
use queenright::error::{Absence, Error, Result};

use super::checks::{Book, Place};
use super::wire::Wire;
use super::world::{Inner, sleep_ms};

/// What the replica has.
#[derive(Debug, Default)]
pub struct Replica {
    /// How many calls the store has carried out, in all its lives.
    calls: u64,
    /// When each of the last ones was, as far as the replica may lack them.
    on_their_way: Vec<(u64, u64)>,
    /// It has all calls up to this one, and says so.
    has: u64,
    /// It was cut off when the store had carried out so many.
    cut_off: Option<u64>,
    /// What was lost when it took the store's place: calls behind the first number, up to the second.
    lost: Vec<(u64, u64)>,
}

impl Inner {
    /// The store has carried out a call.
    pub fn replicate(&mut self) {
        let now = self.now();
        self.replica.calls += 1;
        let call = self.replica.calls;
        self.replica.on_their_way.push((now + self.plan.lag_ms, call));
    }

    /// What has arrived by now.
    fn arrived(&mut self) -> u64 {
        let (now, most) = (self.now(), self.replica.cut_off.unwrap_or(u64::MAX));
        let replica = &mut self.replica;
        let arrived = |(at, call): &(u64, u64)| *at <= now && *call <= most;
        let last = replica
            .on_their_way
            .iter()
            .filter(|one| arrived(one))
            .map(|(_, call)| *call);
        replica.has = last.max().unwrap_or(0).max(replica.has);
        let has = replica.has;
        replica.on_their_way.retain(|(_, call)| *call > has);
        has
    }

    /// From now on the replica gets nothing more: it stays what the store is now. One that was cut off had been back for a moment.
    pub fn cut_off_replica(&mut self) {
        self.replica.cut_off = Some(self.replica.calls);
    }

    /// The replica takes the store's place, and another one follows it.
    pub fn promote_replica(&mut self, book: &Book) {
        let kept = self.replica.cut_off.take().unwrap_or(self.replica.calls);
        self.replica.lost.push((kept, self.replica.calls));
        self.replica.on_their_way.clear();
        self.replica.has = self.replica.calls;
        self.nothing_that_was_told_is_lost(book);
    }

    /// The replica is back, if it was cut off.
    pub fn attach_replica(&mut self) {
        self.replica.cut_off = None;
        self.kept = None;
    }

    fn nothing_that_was_told_is_lost(&mut self, book: &Book) {
        let place = |number: &u64| {
            book.places
                .get(usize::try_from(*number).expect("few"))
                .map(|spot| spot.place)
        };
        let published = |number: &&u64| matches!(place(number), None | Some(Place::Unborn | Place::Skipped));
        if let Some(number) = self.told.published.keys().find(published) {
            let number = *number;
            return self.fail(&format!(
                "message {number} was told as published, and the promoted replica lacks it"
            ));
        }
        let settled = |number: &u64| {
            matches!(place(number), Some(Place::Done | Place::Failed)) || book.lives.contains_key(number)
        };
        let undone = self
            .told
            .outcomes
            .iter()
            .find(|(number, told)| **told > 0 && !settled(number));
        if let Some((number, _)) = undone {
            let number = *number;
            self.fail(&format!(
                "message {number} was told as settled, and the promoted replica knows nothing of it"
            ));
        }
    }

    /// Some: what became of a call; none: the replica may still get it.
    fn fate(&mut self, call: u64) -> Option<bool> {
        if self
            .replica
            .lost
            .iter()
            .any(|(kept, until)| call > *kept && call <= *until)
        {
            return Some(false);
        }
        (self.arrived() >= call).then_some(true)
    }
}

impl Wire {
    /// What tells when the replica has all that the store has now, if anyone wants to know.
    pub fn ticket(&self) -> Option<Ticket> {
        let inner = self.world.lock();
        (inner.plan.settings.replicas > 0).then(|| Ticket {
            key: "calls".into(),
            number: inner.replica.calls,
            history: "".into(),
            at_leisure: false,
        })
    }

    /// As the Redis engine has it: it waits for a while, and then says that it waits in vain.
    pub async fn kept_by_replica(&self, ticket: &Ticket) -> Result<bool> {
        let (world, process) = (&self.world, self.process);
        for _ in 0..20 {
            world.gate(process).await;
            let fate = world.with(|inner| if inner.up { inner.fate(ticket.number) } else { None });
            if let Some(fate) = fate {
                return Ok(fate);
            }
            sleep_ms(self.patience().as_millis().try_into().unwrap_or(u64::MAX) / 20 + 1).await;
        }
        Err(Error::Away {
            store: "the simulated store".into(),
            absence: Absence::Unable,
            reason: "0 of 1 replicas have what was written".into(),
        })
    }
}
