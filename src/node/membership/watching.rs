//! When to look who is still connected, and what to make of it.
//!
//! The store knows at once when a process dies: its connection is closed. So heirs look at the generator's, and whoever keeps house at
//! everybody's. A node that only lost its connection is back within moments: who is missing is looked for once more before anything
//! is said of it. It is only ever a reason to look: the store looks itself, and leases and tokens hold as they always do.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::{Gone, Member, NodeId};
use crate::settings::Settings;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// The generator, by an heir.
    Crown,
    /// All members, by whoever keeps house, and now and then by the first heir, who may have to soon.
    House,
}

/// Of all members that may keep house while nobody generates, about this many look within one beat.
const LOOKERS: usize = 8;

/// A node that is missing is looked for again after so many round trips: connecting anew takes some.
const ROUND_TRIPS: u32 = 6;

/// A tick is due within so many looks at the generator, and then it is looked at in full measure; otherwise so many times as rarely.
const CLOSE_LOOKS: u32 = 3;
const RARELY: u32 = 4;

#[derive(Debug)]
pub(super) struct Watching {
    crown_at: Instant,
    house_at: Instant,
    /// When the next tick is due, as the last beat told.
    tick_at: Instant,
    /// Since when each node is missing.
    missing: BTreeMap<NodeId, Instant>,
    /// A generator that is gone.
    pub(super) suspect: NodeId,
}

impl Watching {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            crown_at: now,
            house_at: now,
            tick_at: now,
            missing: BTreeMap::new(),
            suspect: NodeId::new(),
        }
    }

    /// Takes in the answer to a beat.
    pub(super) fn hears(&mut self, member: &Member, now: Instant) {
        self.tick_at = now + Duration::from_millis(member.due_in_ms);
    }

    /// How long the first heir waits for its next look at the generator. It is to be crowned before the next tick: so it looks closely when one is due,
    /// and four times as rarely when there is time.
    fn first_pause(&self, settings: &Settings, now: Instant) -> Duration {
        let (every, interval) = (crown_look(settings), settings.interval);
        let close = every * CLOSE_LOOKS;
        let late = now.saturating_duration_since(self.tick_at);
        if interval < 2 * close || late > interval {
            return every;
        }
        let next = if late.is_zero() {
            self.tick_at
        } else {
            self.tick_at + interval
        };
        let until = next.saturating_duration_since(now);
        if until <= close || (!late.is_zero() && late < every) {
            every
        } else {
            (every * RARELY).min(until.saturating_sub(close))
        }
    }

    /// When to look next, and at what.
    pub(super) fn next(&self, member: &Member, settings: &Settings) -> Option<(Instant, Look)> {
        let looks_at_crown = member.heir && !member.crowned.is_empty();
        let looks_at_house = keeps_house(member) || (member.heir && member.before == 0);
        let crown = looks_at_crown.then_some((self.crown_at, Look::Crown));
        let house = looks_at_house.then_some((self.house_at, Look::House));
        crown
            .into_iter()
            .chain(house)
            .min_by_key(|(at, _)| *at)
            .filter(|_| settings.watch)
    }

    /// The store does not tell: it is asked again in a while.
    pub(super) fn is_blind(&mut self, settings: &Settings, now: Instant) {
        let again = now + settings.lease.min(Duration::from_secs(2));
        (self.crown_at, self.house_at) = (again, again);
        self.missing.clear();
    }

    /// Takes in a look at the crown that took so long. True: the generator is gone.
    pub(super) fn heed_crown(
        &mut self,
        member: &Member,
        gone: &Gone,
        settings: &Settings,
        now: Instant,
        took: Duration,
    ) -> bool {
        let every = crown_look(settings);
        let Some(node) = gone.nodes.first() else {
            self.missing.remove(&member.crowned);
            let pause = match member.before {
                0 => self.first_pause(settings, now),
                1 => every * 8,
                2 => every * 16,
                _ => every * 64,
            };
            self.crown_at = now + pause;
            return false;
        };
        let apart = (every * 3 / 5).max(took * ROUND_TRIPS);
        let since = *self.missing.entry(node.clone()).or_insert(now);
        self.crown_at = since + apart;
        if now < self.crown_at {
            return false;
        }
        self.crown_at = now + every;
        self.suspect.clone_from(node);
        true
    }

    /// Takes in a look at all members that took so long. Returns those that are gone.
    pub(super) fn heed_house(
        &mut self,
        member: &Member,
        gone: Gone,
        settings: &Settings,
        now: Instant,
        took: Duration,
    ) -> Vec<NodeId> {
        let apart = (crown_look(settings) * 6).max(took * ROUND_TRIPS);
        self.missing.retain(|node, _| gone.nodes.contains(node));
        for node in gone.nodes {
            self.missing.entry(node).or_insert(now);
        }
        if !keeps_house(member) {
            self.house_at = now + (settings.lease / 2).min(Duration::from_secs(1));
            return Vec::new();
        }
        let every = if member.generator {
            house_look(settings)
        } else {
            let share = u32::try_from(1 + gone.among / LOOKERS).unwrap_or(u32::MAX);
            let beat = Duration::from_millis(settings.beat_ms().min(500)).saturating_mul(share);
            beat.mul_f64(0.5 + fastrand::f64())
        };
        let (ripe, unripe): (Vec<_>, Vec<_>) = self.missing.iter().partition(|(_, since)| now >= **since + apart);
        let again = unripe.iter().map(|(_, since)| **since + apart).min();
        let ripe = ripe.into_iter().map(|(node, _)| node.clone()).collect();
        self.house_at = again.unwrap_or(now + every).min(now + every);
        ripe
    }

    /// It was given up, or is back.
    pub(super) fn settle(&mut self, node: &str) {
        self.missing.remove(node);
    }
}

/// Whether the store has let this member keep house. While something else stands in the place of one of its keys, nothing is handed on.
fn keeps_house(member: &Member) -> bool {
    member.damaged.is_some() && member.wrong.is_none()
}

/// How often the first heir looks: every 25 ms with a lease of 2 s, and four times a second with a long one.
fn crown_look(settings: &Settings) -> Duration {
    Duration::from_millis((settings.crown_ms() / 13).clamp(2, 250))
}

/// How often a generator looks at everybody: at each beat, and four times a second with a long lease.
fn house_look(settings: &Settings) -> Duration {
    Duration::from_millis((settings.crown_ms() / 4).clamp(2, 250))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Paused;

    fn member(generator: bool, heir: bool, before: u64) -> Member {
        Member {
            generator,
            epoch: 1,
            seq: 0,
            made: 0,
            grain: 0,
            due_in_ms: 0,
            crown_in_ms: 300,
            heir,
            before,
            crowned: "g".into(),
            wall_ms: 0,
            victim: None,
            cursor: None,
            made_before: None,
            paused: Paused::default(),
            more_due: false,
            rewound: None,
            damaged: generator.then_some(0),
            cancels: crate::message::Cancels::default(),
            wrong: None,
            resharded: None,
        }
    }

    fn gone(nodes: &[&str]) -> Gone {
        Gone {
            nodes: nodes.iter().map(|node| (*node).to_string()).collect(),
            among: 6,
        }
    }

    const SOON: Duration = Duration::from_micros(200);

    #[tokio::test]
    async fn an_heir_says_that_the_generator_is_gone_when_two_looks_have_shown_it() {
        let (settings, start) = (Settings::default(), Instant::now());
        let (heir, mut watching) = (member(false, true, 0), Watching::new(start));
        assert_eq!(watching.next(&heir, &settings), Some((start, Look::Crown)));
        assert!(!watching.heed_crown(&heir, &gone(&[]), &settings, start, SOON));
        let first = start + Duration::from_millis(25);
        assert_eq!(
            watching.next(&heir, &settings).map(|(at, _)| at),
            Some(start),
            "the house"
        );
        assert!(!watching.heed_crown(&heir, &gone(&["g"]), &settings, first, SOON));
        // It was back meanwhile.
        let second = watching.crown_at;
        assert_eq!(second, first + Duration::from_millis(15));
        assert!(!watching.heed_crown(&heir, &gone(&[]), &settings, second, SOON));
        assert!(!watching.heed_crown(&heir, &gone(&["g"]), &settings, second, SOON));
        let third = watching.crown_at;
        assert!(watching.heed_crown(&heir, &gone(&["g"]), &settings, third, SOON));
        assert_eq!(watching.suspect, "g");
    }

    #[tokio::test]
    async fn over_a_slow_link_there_is_more_time_to_come_back_and_later_heirs_look_rarely() {
        let (settings, start) = (Settings::default(), Instant::now());
        let mut watching = Watching::new(start);
        watching.heed_crown(
            &member(false, true, 0),
            &gone(&["g"]),
            &settings,
            start,
            Duration::from_millis(50),
        );
        assert_eq!(watching.crown_at, start + Duration::from_millis(300));
        for (before, ms) in [(0, 25), (1, 200), (2, 400), (4, 1600), (9, 1600)] {
            watching.heed_crown(&member(false, true, before), &gone(&[]), &settings, start, SOON);
            assert_eq!(watching.crown_at, start + Duration::from_millis(ms), "{before}");
        }
    }

    #[tokio::test]
    async fn the_first_heir_looks_closely_when_a_tick_is_due() {
        let (mut settings, start) = (Settings::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let mut heir = member(false, true, 0);
        heir.due_in_ms = 400;
        // Until when it waits after a look at this time.
        let next = |settings: &Settings, ms: u64| {
            let mut watching = Watching::new(start);
            watching.hears(&heir, start);
            watching.heed_crown(&heir, &gone(&[]), settings, at(ms), SOON);
            (watching.crown_at - start).as_millis()
        };
        // The tick comes after 400 ms, and the one behind it after 900.
        for (look, then) in [
            (0, 100),
            (200, 300),
            (260, 325),
            (325, 350),
            (399, 424),
            (401, 426),
            (430, 530),
            (810, 825),
            (825, 850),
        ] {
            assert_eq!(next(&settings, look), then, "after {look} ms");
        }
        assert_eq!(next(&settings, 901), 926, "nothing was heard for long");
        for interval in [0, 1, 149] {
            settings.interval = Duration::from_millis(interval);
            assert_eq!(next(&settings, 10), 35, "{interval} ms");
        }
    }

    #[tokio::test]
    async fn who_keeps_house_gives_up_who_is_missing_for_a_while() {
        let (settings, start) = (Settings::default(), Instant::now());
        let (keeper, mut watching) = (member(true, false, 0), Watching::new(start));
        assert_eq!(watching.next(&keeper, &settings), Some((start, Look::House)));
        let look = |watching: &mut Watching, nodes: &[&str], ms: u64| {
            let now = start + Duration::from_millis(ms);
            watching.heed_house(&keeper, gone(nodes), &settings, now, SOON)
        };
        assert!(look(&mut watching, &["a", "b"], 0).is_empty());
        assert!(look(&mut watching, &["a"], 83).is_empty(), "b is back");
        assert_eq!(watching.house_at, start + Duration::from_millis(150));
        assert_eq!(look(&mut watching, &["a", "b"], 150), ["a"]);
        watching.settle("a");
        assert!(look(&mut watching, &["a", "b"], 160).is_empty());
        // While the store says that something else stands in the place of a key, it waits.
        let waits = Member {
            wrong: Some("again holds a string, not a list".into()),
            ..keeper.clone()
        };
        let now = start + Duration::from_millis(400);
        let given_up = watching.heed_house(&waits, gone(&["a", "b"]), &settings, now, SOON);
        assert!(given_up.is_empty(), "{given_up:?}");
        assert_eq!(look(&mut watching, &["a", "b"], 410), ["a", "b"]);
        // The first heir looks now and then, so that it knows who was there.
        let heir = member(false, true, 0);
        assert!(
            watching
                .heed_house(&heir, gone(&["b"]), &settings, start + settings.lease, SOON)
                .is_empty()
        );
    }

    #[tokio::test]
    async fn nobody_looks_where_it_is_not_wanted_or_not_told() {
        let (mut settings, start) = (Settings::default(), Instant::now());
        let mut watching = Watching::new(start);
        assert_eq!(watching.next(&member(false, false, 0), &settings), None);
        watching.is_blind(&settings, start);
        let next = watching.next(&member(true, false, 0), &settings);
        assert_eq!(next, Some((start + settings.lease, Look::House)));
        settings.watch = false;
        assert_eq!(watching.next(&member(true, false, 0), &settings), None);
    }
}
