//! What a node is, as far as it knows, and what the answer to a beat changes about that.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::{Member, NodeId, Paused};
use crate::mutants::guard;
use crate::node::event::Event;
use crate::settings::Settings;

/// What a node is, as the store last told it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// Empty before the first join.
    pub node: NodeId,
    /// This node is the generator.
    pub reign: Option<Reign>,
    /// This node is among the few that watch the crown closely.
    pub heir: bool,
    pub paused: Paused,
}

/// A generator's reign, as the store told of it when it began.
#[derive(Debug, Clone)]
pub(crate) struct Reign {
    pub epoch: u64,
    pub seq: u64,
    pub made: u64,
    /// How many were made when the last reign of this process had ended.
    pub made_before: Option<u64>,
    pub grain: u64,
    /// What the last message left for this one.
    pub cursor: bytes::Bytes,
    /// When the next tick is due.
    pub due: Instant,
    /// The store's wall clock at `told`.
    pub wall_ms: u64,
    pub told: Instant,
}

/// What the answer to a beat has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// To be told to the observer, in this order.
    pub events: Vec<Event>,
    /// A reign began or ended, or this node became an heir or is none any more.
    pub wakes: bool,
    /// A reign began.
    pub elected: bool,
    /// To be asked again at once: the store does not yet know all that this node has seen.
    pub beats_again: bool,
}

impl Standing {
    /// Takes in what the store says of this node, which has seen the numbers below `seen_seq`.
    pub(super) fn heed(&mut self, member: &Member, seen_seq: u64, settings: &Settings, now: Instant) -> Changes {
        let mut changes = Changes::default();
        if let Some(lacked) = member.rewound {
            changes.events.push(Event::Rewound {
                next_number: member.seq,
                lacked,
            });
        }
        let before = self.reign.as_ref().map(|reign| reign.epoch);
        changes.wakes = self.heir != member.heir || before != member.generator.then_some(member.epoch);
        self.heir = member.heir;
        if self.paused != member.paused {
            self.paused = member.paused;
            changes.events.push(match member.paused {
                Paused {
                    generator: false,
                    handlers: false,
                } => Event::Resumed,
                Paused { generator, handlers } => Event::Paused { generator, handlers },
            });
        }
        let goes_on = before.is_some_and(|epoch| {
            if member.generator {
                epoch == member.epoch || !guard("new-epoch")
            } else {
                !guard("lost-crown")
            }
        });
        if let Some(epoch) = before.filter(|_| !goes_on) {
            self.reign = None;
            changes.events.push(Event::Deposed { epoch: Some(epoch) });
        }
        if member.generator && !goes_on {
            // The store went back in time after this beat was sent, to before what was seen meanwhile: the next beat
            // raises it, and only then does the reign begin.
            changes.beats_again = member.seq < seen_seq;
            changes.elected = !changes.beats_again;
        }
        if changes.elected {
            self.reign = Some(Reign::begin(member, settings, now));
            changes.events.push(Event::Elected {
                epoch: member.epoch,
                next_number: member.seq,
            });
        }
        changes
    }
}

impl Reign {
    fn begin(member: &Member, settings: &Settings, now: Instant) -> Self {
        Self {
            epoch: member.epoch,
            seq: member.seq,
            made: member.made,
            made_before: member.made_before,
            grain: member.grain,
            cursor: member.cursor.clone().unwrap_or_default(),
            due: now + Duration::from_millis(member.due_in_ms.min(settings.interval_ms())),
            wall_ms: member.wall_ms,
            told: now,
        }
    }
}

/// When to beat again: a generator four times within the crown's lease; an heir right after that lease ends, and the first one often
/// enough for the hive clock, or all of them if deaths are not seen; everyone else four times within a node's lease, or three if others would see its death at once.
pub(super) fn next_beat(member: &Member, settings: &Settings, watched: bool) -> Duration {
    let ms = if member.generator {
        settings.crown_ms() / 4
    } else if member.heir && guard("heir") {
        let most = if watched && member.before > 0 {
            settings.watched_beat_ms()
        } else {
            settings.step_ms()
        };
        (member.crown_in_ms + 1).min(most)
    } else if watched {
        settings.watched_beat_ms()
    } else {
        settings.beat_ms()
    };
    Duration::from_millis(ms.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(generator: bool, epoch: u64) -> Member {
        Member {
            generator,
            epoch,
            seq: 100,
            made: 90,
            grain: 1000,
            due_in_ms: 7,
            crown_in_ms: 40,
            heir: false,
            before: 0,
            crowned: NodeId::new(),
            wall_ms: 1,
            victim: None,
            cursor: None,
            made_before: None,
            paused: Paused::default(),
            more_due: false,
            rewound: None,
            damaged: None,
            cancels: crate::message::Cancels::default(),
            wrong: None,
            resharded: None,
        }
    }

    fn standing(reign: Option<u64>) -> Standing {
        let (now, settings) = (Instant::now(), Settings::default());
        Standing {
            node: "me".into(),
            reign: reign.map(|epoch| Reign::begin(&member(true, epoch), &settings, now)),
            ..Standing::default()
        }
    }

    /// The reign before, the store's answer, the number seen; then the reign after, and the events.
    type Case = (&'static str, Option<u64>, (bool, u64), u64, Option<u64>, Vec<Event>);

    #[test]
    fn the_answer_to_a_beat_decides_what_a_node_is() {
        let elected = |epoch| Event::Elected {
            epoch,
            next_number: 100,
        };
        let deposed = |epoch| Event::Deposed { epoch: Some(epoch) };
        let cases: [Case; 7] = [
            ("a handler stays one", None, (false, 4), 100, None, vec![]),
            ("a handler is elected", None, (true, 5), 100, Some(5), vec![elected(5)]),
            ("a generator goes on", Some(5), (true, 5), 100, Some(5), vec![]),
            ("another was elected", Some(5), (false, 6), 100, None, vec![deposed(5)]),
            (
                "it was elected anew",
                Some(5),
                (true, 7),
                100,
                Some(7),
                vec![deposed(5), elected(7)],
            ),
            ("the store is behind what was seen", None, (true, 5), 101, None, vec![]),
            ("it went back in a reign", Some(5), (true, 5), 101, Some(5), vec![]),
        ];
        let settings = Settings::default();
        for (case, before, (generator, epoch), seen, after, events) in cases {
            let mut standing = standing(before);
            let changes = standing.heed(&member(generator, epoch), seen, &settings, Instant::now());
            assert_eq!(standing.reign.map(|reign| reign.epoch), after, "{case}");
            assert_eq!(changes.events, events, "{case}");
            assert_eq!(changes.wakes, before != generator.then_some(epoch), "{case}");
            assert_eq!(changes.elected, after.is_some() && before != after, "{case}");
            assert_eq!(changes.beats_again, generator && after.is_none(), "{case}");
        }
    }

    #[test]
    fn pauses_and_rewinds_are_told_once_and_heirs_are_woken() {
        let (settings, now) = (Settings::default(), Instant::now());
        let mut standing = standing(None);
        let mut said = member(false, 4);
        said.rewound = Some(12);
        said.heir = true;
        said.paused.handlers = true;
        let paused = Event::Paused {
            generator: false,
            handlers: true,
        };
        let changes = standing.heed(&said, 0, &settings, now);
        let rewound = Event::Rewound {
            next_number: 100,
            lacked: 12,
        };
        assert_eq!(changes.events, [rewound, paused]);
        assert!(changes.wakes && standing.heir);
        said.rewound = None;
        assert_eq!(standing.heed(&said, 0, &settings, now), Changes::default());
        said.paused.handlers = false;
        assert_eq!(standing.heed(&said, 0, &settings, now).events, [Event::Resumed]);
    }

    #[test]
    fn a_tick_is_never_later_than_one_interval() {
        let settings = Settings {
            interval: Duration::from_millis(5),
            ..Settings::default()
        };
        let now = Instant::now();
        let reign = Reign::begin(&member(true, 1), &settings, now);
        assert_eq!(reign.due, now + Duration::from_millis(5));
    }

    #[test]
    fn generators_beat_most_often_and_heirs_when_the_crown_may_be_free() {
        let settings = Settings::default();
        let next_of = |generator, heir, crown_in_ms, watched| {
            let mut said = member(generator, 1);
            (said.heir, said.crown_in_ms) = (heir, crown_in_ms);
            next_beat(&said, &settings, watched).as_millis()
        };
        let next = |generator, heir, crown_in_ms| next_of(generator, heir, crown_in_ms, false);
        assert_eq!(next(true, false, 0), 83);
        assert_eq!(next(false, true, 40), 41);
        assert_eq!(next(false, true, 10_000), 166, "often enough for the hive clock");
        assert_eq!(next(false, false, 40), 500);
        assert_eq!(next_of(false, false, 40, true), 600);
        assert_eq!(next_of(false, true, 40, true), 41);
        let mut second = member(false, 1);
        (second.heir, second.before, second.crown_in_ms) = (true, 1, 300);
        let beats = [true, false].map(|watched| next_beat(&second, &settings, watched).as_millis());
        assert_eq!(
            beats,
            [301, 166],
            "the first heir sees to the hive clock, if it would be seen to die"
        );
    }
}
