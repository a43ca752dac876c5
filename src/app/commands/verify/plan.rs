//! Which faults come when: the same for the same seed.

use std::fmt::Write as _;
use std::mem::discriminant;
use std::time::Duration;

use crate::app::lab::test_bed::TestBed;
use crate::app::lab::topology::{Failover, Kind};
use crate::engine::redis::rights::{FOR_EFFECTS, FOR_WATCHING, NEEDED, commands};

/// What can be done to a fleet and its Redis. Who it meets is decided when it comes: the generator of that moment, or
/// a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    KillGenerator,
    KillHandler,
    KillReader,
    /// SIGSTOP, for this many tenths of a lease.
    StopGenerator(u64),
    StopHandler(u64),
    /// All connections of one copy, or of all.
    Cut,
    CutAll,
    /// Of one copy: by how many milliseconds, and for how many.
    Delay(u64, u64),
    HalfOpen(u64),
    BlackHole(u64),
    /// A slow link of one copy: how many kilobytes a second, and for how many milliseconds.
    Throttle(u64, u64),
    /// All copies are killed; those that come may not generate for this many milliseconds, then they may again.
    NoCandidates(u64),
    /// kill -9, and started again after this many milliseconds.
    KillRedis(u64),
    /// A replica stops following, and this many milliseconds later takes the place of the server, which is killed.
    Promote(u64),
    FlushScripts,
    KillClients,
    /// `DEBUG SLEEP`, in milliseconds.
    Sleep(u64),
    OutOfMemory(u64),
    /// The copies may not use this command for so many milliseconds.
    TakeRight(&'static str, u64),
    /// The same of those by which deaths are seen.
    TakeSight(&'static str, u64),
    /// Of one copy: more than so many bytes in a row do not arrive, for so many milliseconds.
    SmallOnly(u64, u64),
    /// Another server becomes the primary, in the way of this number.
    FailOver(usize),
    /// Nothing gets through to one shard, for so many milliseconds.
    ShardAway(u64),
    /// So many shards get new messages; whoever changes it is killed after so many milliseconds.
    Reshard(u64, u64),
    /// The primary is cut off from its replicas, works on for so many milliseconds, and is killed.
    LoseTail(u64),
    /// The primary is frozen until another is there, and then goes on: for some time there are two.
    TwoPrimaries,
    /// The slot of the queue goes to another primary.
    MoveSlot,
    /// kill -9 of a sentinel, which comes back after so many milliseconds.
    KillSentinel(u64),
}

/// What may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// A proxy stands between the copies and the store.
    pub connections: bool,
    /// How many servers are our own; with more than one, each has a shard.
    pub servers: usize,
    /// The copies are a user of their own.
    pub rights: bool,
    /// There are several servers of our own.
    pub several: Option<Kind>,
    pub shards: usize,
}

impl Reach {
    pub(super) fn of(bed: &TestBed, shards: usize) -> Self {
        Self {
            connections: !bed.upstreams().is_empty(),
            servers: bed.servers(),
            rights: bed.are_copies_limited(),
            several: bed.several_kind(),
            shards,
        }
    }
}

impl Fault {
    fn card(self) -> &'static Card {
        let same = |(fault, ..): &&Card| discriminant(fault) == discriminant(&self);
        DECK.iter().find(same).expect("every fault lies in the deck")
    }

    pub(super) fn name(self) -> &'static str {
        self.card().1
    }

    /// Whether copies are killed or stopped, and others wait for them until their lease is over.
    pub(super) fn harms_copies(self) -> bool {
        matches!(
            self,
            Self::KillGenerator
                | Self::KillHandler
                | Self::StopGenerator(_)
                | Self::StopHandler(_)
                | Self::NoCandidates(_)
        )
    }

    fn is_within(self, reach: Reach) -> bool {
        match self.card().3 {
            Needs::Copies => true,
            Needs::Proxies => reach.connections,
            Needs::OwnServer => reach.servers > 0,
            // A shard that forgets has forgotten a part of the generator's sequence for good, unless there are replicas.
            Needs::OneServer => reach.servers == 1,
            Needs::OwnShards => reach.servers > 1,
            Needs::Shards => reach.shards > 1,
            Needs::OwnUser => reach.rights,
            Needs::Several => reach.several.is_some(),
            Needs::Sentinels => reach.several == Some(Kind::Sentinel),
            Needs::Cluster => reach.several == Some(Kind::Cluster),
        }
    }

    /// The same kind of fault, with its measures drawn.
    fn drawn(self, random: &mut fastrand::Rng, shards: usize) -> Self {
        match self {
            Self::StopGenerator(_) => Self::StopGenerator(random.u64(5..=30)),
            Self::StopHandler(_) => Self::StopHandler(random.u64(5..=30)),
            Self::Delay(..) => Self::Delay(random.u64(5..=150), random.u64(500..=3000)),
            Self::HalfOpen(_) => Self::HalfOpen(random.u64(300..=5000)),
            Self::BlackHole(_) => Self::BlackHole(random.u64(300..=5000)),
            Self::Throttle(..) => Self::Throttle(random.u64(20..=400), random.u64(1000..=5000)),
            Self::NoCandidates(_) => Self::NoCandidates(random.u64(1000..=4000)),
            Self::KillRedis(_) => Self::KillRedis(random.u64(50..=2000)),
            Self::Promote(_) => Self::Promote(random.u64(100..=2000)),
            Self::Sleep(_) => Self::Sleep(random.u64(100..=4000)),
            Self::OutOfMemory(_) => Self::OutOfMemory(random.u64(300..=3000)),
            Self::TakeRight(..) => {
                let commands: Vec<_> = commands(NEEDED).chain(commands(FOR_EFFECTS)).collect();
                Self::TakeRight(commands[random.usize(..commands.len())], random.u64(100..=2000))
            }
            Self::TakeSight(..) => {
                let commands: Vec<_> = commands(FOR_WATCHING).collect();
                Self::TakeSight(commands[random.usize(..commands.len())], random.u64(100..=2000))
            }
            Self::SmallOnly(..) => Self::SmallOnly(random.u64(1000..=8000), random.u64(1000..=5000)),
            Self::FailOver(_) => Self::FailOver(random.usize(..Failover::ALL.len())),
            Self::ShardAway(_) => Self::ShardAway(random.u64(500..=5000)),
            Self::Reshard(..) => Self::Reshard(random.u64(1..=shards as u64), random.u64(..300)),
            Self::LoseTail(_) => Self::LoseTail(random.u64(100..=1500)),
            Self::KillSentinel(_) => Self::KillSentinel(random.u64(500..=4000)),
            plain => plain,
        }
    }
}

/// What must be there for a fault to strike.
enum Needs {
    Copies,
    Proxies,
    OwnServer,
    OneServer,
    OwnShards,
    Shards,
    OwnUser,
    Several,
    Sentinels,
    Cluster,
}

/// A kind of fault: its name, how often it lies in a deck, and what it needs.
type Card = (Fault, &'static str, usize, Needs);

/// One deck, in which each fault lies as often as it is to come: the most common are the ones that the promises are
/// about. Decks are shuffled one by one, so that ten minutes hold enough of each, whatever the seed.
static DECK: [Card; 28] = [
    (Fault::KillGenerator, "generator_killed", 13, Needs::Copies),
    (Fault::KillHandler, "handler_killed", 13, Needs::Copies),
    (Fault::KillReader, "reader_killed", 3, Needs::Copies),
    (Fault::StopGenerator(0), "generator_stopped", 2, Needs::Copies),
    (Fault::StopHandler(0), "handler_stopped", 3, Needs::Copies),
    (Fault::Cut, "connections_cut", 4, Needs::Proxies),
    (Fault::CutAll, "all_connections_cut", 1, Needs::Proxies),
    (Fault::Delay(0, 0), "connections_delayed", 2, Needs::Proxies),
    (Fault::HalfOpen(0), "connections_half_open", 2, Needs::Proxies),
    (Fault::BlackHole(0), "connections_black_holed", 2, Needs::Proxies),
    (Fault::Throttle(0, 0), "connections_throttled", 2, Needs::Proxies),
    (Fault::NoCandidates(0), "no_candidates", 1, Needs::Copies),
    (Fault::KillRedis(0), "redis_killed", 2, Needs::OwnServer),
    (Fault::Promote(0), "replica_promoted", 1, Needs::OneServer),
    (Fault::ShardAway(0), "shard_away", 4, Needs::OwnShards),
    // A queue can be resharded 64 times: ten minutes have half as many.
    (Fault::Reshard(0, 0), "resharded", 4, Needs::Shards),
    (Fault::FlushScripts, "scripts_flushed", 1, Needs::OwnServer),
    (Fault::KillClients, "clients_killed", 1, Needs::OwnServer),
    (Fault::Sleep(0), "redis_slept", 1, Needs::OwnServer),
    (Fault::OutOfMemory(0), "redis_out_of_memory", 1, Needs::OwnServer),
    (Fault::TakeRight("", 0), "right_taken_away", 3, Needs::OwnUser),
    (Fault::TakeSight("", 0), "right_to_watch_taken_away", 1, Needs::OwnUser),
    (Fault::SmallOnly(0, 0), "large_packets_lost", 1, Needs::Proxies),
    (Fault::FailOver(0), "primary_replaced", 40, Needs::Several),
    (Fault::LoseTail(0), "primary_lost_with_its_tail", 6, Needs::Several),
    (Fault::TwoPrimaries, "two_primaries", 4, Needs::Several),
    (Fault::MoveSlot, "slot_moved", 3, Needs::Cluster),
    (Fault::KillSentinel(0), "sentinel_killed", 3, Needs::Sentinels),
];

/// Between two faults, in milliseconds.
const BETWEEN_MS: std::ops::RangeInclusive<u64> = 900..=1800;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// For how long faults come.
    pub(super) length: Duration,
    pub(super) faults: Vec<(Duration, Fault)>,
    /// What can come here, in a plan that is long enough.
    pub(super) kinds: Vec<&'static str>,
}

impl Plan {
    pub(super) fn new(seed: u64, length: Duration, reach: Reach) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut faults = Vec::new();
        let mut deck: Vec<Fault> = Vec::new();
        let mut at = Duration::ZERO;
        loop {
            at += Duration::from_millis(random.u64(BETWEEN_MS));
            if at >= length {
                let within = DECK.iter().filter(|(fault, ..)| fault.is_within(reach));
                return Self {
                    seed,
                    length,
                    faults,
                    kinds: within.map(|(_, name, ..)| *name).collect(),
                };
            }
            if deck.is_empty() {
                let cards = DECK.iter().filter(|(fault, ..)| fault.is_within(reach));
                deck.extend(cards.flat_map(|(fault, _, count, _)| std::iter::repeat_n(*fault, *count)));
                random.shuffle(&mut deck);
            }
            faults.extend(deck.pop().map(|fault| (at, fault.drawn(&mut random, reach.shards))));
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("seed {}\n", self.seed);
        for (at, fault) in &self.faults {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:>9.3} {fault:?}", at.as_secs_f64());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ALL: Reach = Reach {
        connections: true,
        servers: 1,
        rights: true,
        several: None,
        shards: 1,
    };

    fn count(plan: &Plan, name: &str) -> usize {
        plan.faults.iter().filter(|(_, fault)| fault.name() == name).count()
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_one_another() {
        let plan = |seed| Plan::new(seed, Duration::from_mins(10), ALL);
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7).faults, plan(8).faults);
    }

    #[test]
    fn twelve_minutes_hold_enough_of_each_fault_whatever_the_seed() {
        for seed in 0..50 {
            let plan = Plan::new(seed, Duration::from_mins(12), ALL);
            for (name, least) in [
                ("generator_killed", 104),
                ("handler_killed", 104),
                ("handler_stopped", 20),
                ("generator_stopped", 14),
                ("connections_cut", 32),
                ("redis_killed", 15),
                ("connections_half_open", 15),
                ("connections_black_holed", 15),
                ("connections_throttled", 15),
                ("no_candidates", 7),
                ("replica_promoted", 7),
                ("redis_out_of_memory", 7),
                ("right_taken_away", 22),
                ("right_to_watch_taken_away", 7),
                ("large_packets_lost", 7),
            ] {
                assert!(count(&plan, name) >= least, "{name}: {}", count(&plan, name));
            }
        }
    }

    #[test]
    fn each_right_by_which_deaths_are_seen_is_taken_away_in_some_plan() {
        let plans = (0..10).map(|seed| Plan::new(seed, Duration::from_mins(12), ALL));
        let taken = plans.flat_map(|plan| plan.faults).filter_map(|(_, fault)| match fault {
            Fault::TakeSight(command, _) => Some(command),
            _ => None,
        });
        let taken: BTreeSet<_> = taken.collect();
        assert_eq!(taken, ["PUBLISH", "PUBSUB", "SUBSCRIBE", "UNSUBSCRIBE"].into());
    }

    #[test]
    fn a_short_plan_knows_what_a_longer_one_would_bring_and_nothing_else() {
        let short = Plan::new(7, Duration::from_secs(5), ALL);
        let missing = short.kinds.iter().filter(|name| count(&short, name) == 0).count();
        assert!(missing > 10, "{short:?}");
        let long = Plan::new(7, Duration::from_mins(12), ALL);
        assert_eq!(short.kinds, long.kinds);
        assert!(long.kinds.iter().all(|name| count(&long, name) > 0), "{:?}", long.kinds);
    }

    #[test]
    fn a_server_that_is_not_our_own_is_left_alone() {
        let reach = Reach {
            connections: true,
            servers: 0,
            rights: false,
            several: None,
            shards: 1,
        };
        let plan = Plan::new(1, Duration::from_mins(10), reach);
        let harmless = |fault: &Fault| fault.is_within(reach);
        assert!(plan.faults.len() > 300 && plan.faults.iter().all(|(_, fault)| harmless(fault)));
        for name in [
            "redis_killed",
            "replica_promoted",
            "scripts_flushed",
            "clients_killed",
            "redis_slept",
            "redis_out_of_memory",
            "right_taken_away",
            "right_to_watch_taken_away",
        ] {
            assert_eq!(count(&plan, name), 0, "{name}");
        }
        let kills_only = Plan::new(
            1,
            Duration::from_mins(10),
            Reach {
                connections: false,
                ..reach
            },
        );
        assert_eq!(count(&kills_only, "connections_cut"), 0);
    }
}
