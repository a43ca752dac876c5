//! The guards that the model has, each under its name in the sources, and those that it leaves out, each with why.

macro_rules! guards {
    ($($field:ident = $name:literal),+ $(,)?) => {
        /// Every guard is in its place, but for the one that a test has taken out.
        #[derive(Debug, Clone, Copy)]
        pub struct Guards {
            $(pub $field: bool),+
        }

        impl Guards {
            pub const NAMES: &[&str] = &[$($name),+];

            pub const fn all() -> Self {
                Self { $($field: true),+ }
            }

            pub fn without(name: &str) -> Self {
                assert!(Self::NAMES.contains(&name), "the model has no guard {name}");
                Self { $($field: $name != name),+ }
            }
        }
    };
}

guards! {
    beat_member = "beat-member",
    call_ahead = "call-ahead",
    call_repeat = "call-repeat",
    call_stale = "call-stale",
    crown_lease = "crown-lease",
    filled = "filled",
    fills = "fills",
    fills_again = "fills-again",
    deliveries = "deliveries",
    depose_lanes = "depose-lanes",
    collect_call = "collect-call",
    gap = "gap",
    hold_member = "hold-member",
    hole_reign = "hole-reign",
    join_dead = "join-dead",
    lane_record = "lane-record",
    made = "made",
    moved = "moved",
    reader_lease = "reader-lease",
    reap_expired = "reap-expired",
    replays = "replays",
    rewind_beat = "rewind-beat",
    rewind_join = "rewind-join",
    silent_lane = "silent-lane",
    token = "token",
}

const PACKS: &str = "a pack is one message here, and a node holds one at a time";
const SHORTEST: &str = "a shorter way to do the same in a script; its checks hold it to that";
const BODIES: &str =
    "where the bytes of a pack are is Redis' own affair; every look of the checks and the oracle at them adds up";
const EFFECTS: &str = "whether an effect is admissible is decided before the first write; here every effect is";
const MEMORY: &str = "memory is never full here";
const TIME: &str = "there is no clock here: a lease ends when it likes";
const JOINING: &str = "what is found at the first join is of one kind here";

const LATER: &str = "nothing is put off here: what fails is an error; the oracle and the checks try it";
const PUSHING: &str = "nobody pushes here; the oracle and the checks do";
const HEARING: &str = "what a node has seen is told by its beats here, and who is waited for is a matter of time; the checks and the simulator have it";
const PAUSING: &str = "nothing is paused here: a pause only makes calls do nothing";
const REPORTING: &str = "nobody tells of itself here, and no promise hangs on it; the oracle and the checks do";
const GROUPS: &str = "messages belong to no group here; the oracle, the checks and the simulator have them";
const LIMITS: &str =
    "how fast messages are taken is no matter of their outcomes; the oracle, the checks and the simulator have limits";
const CANCELS: &str = "nobody cancels here: a message that is cancelled ends as any other does, by its settle; the oracle, the checks and the simulator cancel";
const CROWNING: &str = "any node may take the crown when its lease has ended, and that may be at any moment";

const RESHARDING: &str = "there is one shard here; the checks and tests/all/shards have reshards";
const WATCHING: &str =
    "a sign that a node has died ends its lease early, and here leases end at any moment, whoever lives";

/// The guards that the model does not have, and why.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("again-one", PACKS),
    ("cancel-beat", CANCELS),
    ("cancel-bound", CANCELS),
    ("cancel-ended", CANCELS),
    ("cancel-ending", CANCELS),
    ("cancel-kept", CANCELS),
    ("cancel-later", CANCELS),
    ("cancel-max", CANCELS),
    ("cancel-published", CANCELS),
    ("cancel-reaped", CANCELS),
    ("cancel-requeue", CANCELS),
    ("cancel-take", CANCELS),
    ("cancel-waits", CANCELS),
    ("chosen", CROWNING),
    (
        "claim-higher",
        "there is one shard here; the checks, the oracle and tests/all/shards have claims",
    ),
    (
        "claim-once",
        "there is one shard here; the checks and the oracle have claims",
    ),
    ("reshard-note", RESHARDING),
    ("reshard-reign", RESHARDING),
    ("reshard-crown", RESHARDING),
    ("reshard-record", RESHARDING),
    ("reshard-unheard", HEARING),
    ("only-known", RESHARDING),
    ("push-creates", RESHARDING),
    ("opener-reshard", MEMORY),
    ("bodies-end", BODIES),
    ("bodies-refused", BODIES),
    ("bodies-there", BODIES),
    ("clock-back", TIME),
    ("clock-step", TIME),
    ("cursor", "messages carry nothing here"),
    ("digits", "numbers are small here"),
    ("due", LATER),
    ("group-due", GROUPS),
    ("limit", LIMITS),
    ("limit-again", LIMITS),
    ("limit-back", LIMITS),
    ("limit-bell", LIMITS),
    ("limit-burst", LIMITS),
    ("limit-group", LIMITS),
    ("limit-quiet", LIMITS),
    ("limit-returned", LIMITS),
    ("group-ended", GROUPS),
    ("group-keys", GROUPS),
    ("group-left", GROUPS),
    ("group-once", GROUPS),
    ("group-paused", GROUPS),
    ("group-reaped", GROUPS),
    ("group-requeue", GROUPS),
    ("group-returns", GROUPS),
    ("group-skips", GROUPS),
    ("group-turn", GROUPS),
    ("effect-number", EFFECTS),
    ("effect-own", EFFECTS),
    ("effect-rights", EFFECTS),
    ("effect-type", EFFECTS),
    ("chain-full", EFFECTS),
    ("chain-group", EFFECTS),
    ("chain-never", EFFECTS),
    ("chain-turn", EFFECTS),
    ("chain-unheard", HEARING),
    ("failures", LATER),
    (
        "full",
        "there is always room here; a generator that waits for room tries again",
    ),
    ("key-types", JOINING),
    ("gone", WATCHING),
    ("gone-generator", WATCHING),
    ("gone-look", WATCHING),
    ("reap-look", WATCHING),
    ("join-token", "ids are never drawn twice here"),
    ("layout", JOINING),
    ("layout-older", JOINING),
    ("shortcut-alone", SHORTEST),
    ("shortcut-bytes", SHORTEST),
    ("shortcut-call", SHORTEST),
    ("shortcut-only", SHORTEST),
    ("shortcut-piece", SHORTEST),
    ("made-before", "messages carry nothing here"),
    ("shortcut-rights", SHORTEST),
    (
        "renew-member",
        "a beat has no short form in the model; the checks of all engines have it",
    ),
    ("rights", "nobody takes rights away in the model"),
    (
        "foreign",
        "nobody puts anything else in the place of a key in the model",
    ),
    ("named-once", PACKS),
    ("names", JOINING),
    ("once", PUSHING),
    ("once-until", PUSHING),
    ("opener-beat", MEMORY),
    ("opener-collect", MEMORY),
    ("opener-exchange", MEMORY),
    ("opener-handover", MEMORY),
    ("opener-hold", MEMORY),
    ("opener-join", MEMORY),
    ("opener-pause", MEMORY),
    ("opener-release", MEMORY),
    ("paused-generator", PAUSING),
    ("paused-handlers", PAUSING),
    ("purge-alive", "nobody removes a queue here"),
    ("purged", "nobody removes a queue here"),
    ("push-full", PUSHING),
    ("ending-done", PUSHING),
    ("ending-keys", PUSHING),
    ("ending-later", PUSHING),
    ("ending-pushed", PUSHING),
    ("ending-reaped", PUSHING),
    ("ending-requeue", PUSHING),
    ("ending-until", PUSHING),
    ("found-all", PUSHING),
    ("endings-max", PUSHING),
    ("endings-until", PUSHING),
    ("push-unheard", PUSHING),
    ("publish-unheard", HEARING),
    ("heard-anew", HEARING),
    ("heard-beat", HEARING),
    ("hole-front", PUSHING),
    ("rewind-made", "nobody pushes here, so the next number tells as much"),
    ("push-layout", JOINING),
    ("push-names", JOINING),
    ("push-repeat", PUSHING),
    ("push-types", JOINING),
    ("rank", CROWNING),
    ("report-member", REPORTING),
    ("report-once", REPORTING),
    ("requeue-withdraws", "errors stay errors here; the oracle requeues them"),
    ("step-crown", TIME),
    ("step-join", TIME),
    ("step-leave", TIME),
    ("step-vacant", TIME),
    ("trimmed", "errors stay errors here; the oracle removes them"),
    ("resume-bell", PAUSING),
    ("runs", PACKS),
    (
        "second-bell",
        "there is no bell here: a node asks whenever there is something to take",
    ),
    (
        "unarrived",
        "an answer that is lost comes with the next copy of its call here; the checks give it back",
    ),
    (
        "vacant",
        "every node may generate here, so the crown is not vacant for long",
    ),
    ("want-bytes", PACKS),
    ("alone", PACKS),
    ("alone-empty", PACKS),
    ("clearing", PACKS),
    ("suspects", PACKS),
];
