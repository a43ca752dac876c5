//! What must hold in every state.

use super::state::{Lease, NUMBERS, Node, Record, Reign, State, bit};

/// What is promised. Those that a step can break are noted by the witness when it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    NumbersOnce,
    NoGap,
    EpochsRise,
    OneVoice,
    OwnMessage,
    MembersSettle,
    OneOutcome,
    Explained,
    /// With replicas.
    ToldIsKept,
    Replayed,
    NoReuse,
    /// Not kept between the moment the store went back and the first beat of a node that has seen more.
    NoReuseEver,
}

impl Promise {
    const ALL: [(Self, &str); 12] = [
        (Self::NumbersOnce, "a number is published once"),
        (Self::NoGap, "numbers have no gap"),
        (Self::EpochsRise, "epochs never go down along the numbers"),
        (
            Self::OneVoice,
            "only the generator publishes, while its crown's lease runs",
        ),
        (
            Self::OwnMessage,
            "what a generator is told it published is its own message",
        ),
        (Self::MembersSettle, "only members settle"),
        (Self::OneOutcome, "a message gets one outcome"),
        (Self::Explained, "no node is refused without cause"),
        (
            Self::ToldIsKept,
            "what was told as published is there, and is the same message",
        ),
        (
            Self::Replayed,
            "what a generator publishes again while it reigns is taken",
        ),
        (
            Self::NoReuse,
            "a number that its own reign has given, or the store was told of, is not given again",
        ),
        (
            Self::NoReuseEver,
            "a number that a living node has seen is not given again",
        ),
    ];
}

impl State {
    pub fn breaks(&mut self, promise: Promise) {
        self.witness.broken |= 1 << promise as u16;
    }

    /// Looks at a message that is about to be published.
    pub fn witness_publish(&mut self, reign: Reign, mine: bool, fills: bool) {
        let number = reign.seq;
        if !mine || !self.meta.crown {
            self.breaks(Promise::OneVoice);
        }
        if number != self.meta.seq && !fills {
            self.breaks(Promise::NoGap);
        }
        if fills && self.meta.skipped & bit(number) == 0 {
            self.breaks(Promise::NumbersOnce);
        }
        if reign.epoch < self.meta.newest {
            self.breaks(Promise::EpochsRise);
        }
        let before = self.witness.published_by[usize::from(number)];
        if before != 0 && !self.witness.rewound {
            self.breaks(Promise::NumbersOnce);
        }
        // A store that went back may be given once more what it lost, and this then is the same message.
        if before != 0 && before != reign.mark() {
            let seen = |node: &Node| node.process.seen.seq > number;
            if number < self.witness.told || before >> 4 == reign.nth {
                self.breaks(Promise::NoReuse);
            }
            if self.nodes.iter().any(seen) {
                self.breaks(Promise::NoReuseEver);
            }
        }
        self.witness.published_by[usize::from(number)] = reign.mark();
    }

    /// Looks at what a generator is told to have published.
    pub fn witness_own(&mut self, reign: Reign) {
        if self.witness.published_by[usize::from(reign.seq)] != reign.mark() {
            self.breaks(Promise::OwnMessage);
        }
    }

    /// Looks whether all that was told is there.
    pub fn witness_told(&mut self) {
        let there = bit(self.meta.seq).wrapping_sub(1) & !self.meta.skipped;
        let kept = |(number, (told, mark)): (u8, (&u8, &u8))| *told == 0 || told == mark && there & bit(number) != 0;
        if !(0..).zip(self.witness.told_of.iter().zip(&self.meta.marks)).all(kept) {
            self.breaks(Promise::ToldIsKept);
        }
    }

    /// The first promise that is broken in this state.
    pub fn broken(&self, deliveries_max: u8, no_reuse_ever: bool) -> Option<&'static str> {
        let noted = |(promise, name): &(Promise, &'static str)| {
            let counts = no_reuse_ever || *promise != Promise::NoReuseEver;
            (counts && self.witness.broken & (1 << *promise as u16) != 0).then_some(*name)
        };
        Promise::ALL
            .iter()
            .find_map(noted)
            .or_else(|| self.misplaced())
            .or_else(|| self.miscounted(deliveries_max))
            .or_else(|| self.misrecorded())
    }

    /// Every message is in exactly one place, and so all of them add up.
    fn misplaced(&self) -> Option<&'static str> {
        let meta = &self.meta;
        let hands = self.nodes.iter().map(|node| node.record.hand);
        let mut all = 0;
        for place in [meta.queue, meta.again, meta.done, meta.failed, meta.skipped]
            .into_iter()
            .chain(hands)
        {
            if all & place != 0 {
                return Some("a message is in one place");
            }
            all |= place;
        }
        (all != bit(meta.seq) - 1).then_some("done + failed + queued + in hand = published")
    }

    fn miscounted(&self, deliveries_max: u8) -> Option<&'static str> {
        for number in 0..NUMBERS {
            let done = self.meta.done >> number & 1;
            if self.meta.effects[number] != done {
                return Some("an effect happens exactly once, with its outcome");
            }
            if self.meta.attempts[number] > deliveries_max {
                return Some("no message is delivered too often");
            }
        }
        None
    }

    /// A node is a member, and then it has a lane; or dead; or forgotten, and then it holds nothing.
    fn misrecorded(&self) -> Option<&'static str> {
        let wrong = |record: &Record| {
            let member = record.lease != Lease::None;
            member && (record.dead || record.lane.is_none()) || !member && !record.dead && record.hand != 0
        };
        let any = self.nodes.iter().any(|node| wrong(&node.record));
        any.then_some("a node is a member, or dead, or forgotten")
    }
}
