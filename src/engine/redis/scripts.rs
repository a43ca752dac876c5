//! The texts of the scripts.
//!
//! A line `--+ NAME` stands for the whole of `lua/NAME.lua`: functions that only some scripts need, or only some of their
//! branches. A word `$NAME` stands for a limit of the protocol, which is written once, in Rust.

use std::borrow::Cow;

use crate::engine::history::{LOOK_NODES_MAX, REIGNS_MAX};
use crate::engine::sharded::SHARD_NUMBERS;
use crate::engine::{
    CALL_MS, CANCEL_MS, CANCEL_MS_MAX, CANCELLED_GROUPS_MAX, CANCELS_BIT, CANCELS_MAX, CHUNK_MAX, CLEARING_MS,
    COLLECT_BYTES_MAX, COUNTER_MAX, CROWDED_MS, DAMAGED_MAX, DUE_BYTES_MAX, DUE_MAX, ENDING_MS, ENDINGS_MAX,
    FOUND_BYTES_MAX, FOUND_DEEP_MAX, FOUND_MAX, GRAIN_START, GROUPS_LOOKED_MAX, HEIRS_MAX, HELD_START_BYTES, LAYOUT,
    LIMIT_SLACK_MS, LONGEST_GROUPS, MS_US, PAUSED_GROUPS_MAX, PURGED_MAX, PURGED_MS, REAP_BYTES_MAX, REAP_FAILED_MAX,
    REAP_PACKS_MAX, SUSPECTS_MAX, TAKE_BYTES_MAX, TAKE_CUT_BYTES, TAKE_EXACT, TAKE_PACKS_MAX, TAKE_POP_START,
    TAKE_SHARES, TRIM_MAX, UNHEARD_STEP_MS,
};
use crate::message::{PACK_BYTES_MAX, PACK_MESSAGES_MAX};

/// One verb's script, as it is sent.
#[derive(Debug, Clone)]
pub struct Script {
    pub text: String,
    pub sha: String,
}

const COMMON: &str = include_str!("lua/common.lua");
const PACKS: &str = include_str!("lua/packs.lua");
const MEMBERS: &str = include_str!("lua/members.lua");
const DELIVERIES: &str = include_str!("lua/deliveries.lua");
const ASIDE: &str = include_str!("lua/aside.lua");
const RECORDS: &str = include_str!("lua/records.lua");
const RIGHTS: &str = include_str!("lua/rights.lua");
const FOREIGN: &str = include_str!("lua/foreign.lua");
const SHORTCUT: &str = include_str!("lua/shortcut.lua");
const ALIVE: &str = include_str!("lua/alive.lua");
const NUMBERING: &str = include_str!("lua/numbering.lua");
const EFFECTS: &str = include_str!("lua/effects.lua");
const CHAIN: &str = include_str!("lua/chain.lua");
const GROUPS: &str = include_str!("lua/groups.lua");
const LIMITS_LUA: &str = include_str!("lua/limits.lua");
const LIMIT_EXCHANGE: &str = include_str!("lua/limit_exchange.lua");
const GROUPS_TAKE: &str = include_str!("lua/groups_take.lua");
const ASKED: &str = include_str!("lua/asked.lua");
const CANCELS: &str = include_str!("lua/cancels.lua");
const CANCELS_EXCHANGE: &str = include_str!("lua/cancels_exchange.lua");
const SHARDS: &str = include_str!("lua/shards.lua");
const GROUPS_EXCHANGE: &str = include_str!("lua/groups_exchange.lua");

/// How many values a script passes to one command: Lua's `unpack` ends at 8,000. Even, since many are pairs.
const UNPACK_MAX: usize = 2000;

/// Each limit by its name.
macro_rules! limits {
    ($($name:ident),+ $(,)?) => {
        #[expect(trivial_numeric_casts, reason = "they have several types")]
        const LIMITS: &[(&str, u64)] = &[$((stringify!($name), $name as u64)),+];
    };
}

limits! {
    CALL_MS, CANCELLED_GROUPS_MAX, CANCELS_BIT, CANCELS_MAX, CANCEL_MS, CANCEL_MS_MAX, CHUNK_MAX, CLEARING_MS, COLLECT_BYTES_MAX, COUNTER_MAX, CROWDED_MS, DAMAGED_MAX, DUE_BYTES_MAX, DUE_MAX, ENDINGS_MAX, ENDING_MS, FOUND_BYTES_MAX, FOUND_DEEP_MAX, FOUND_MAX, GRAIN_START, GROUPS_LOOKED_MAX, HEIRS_MAX, HELD_START_BYTES, LAYOUT,
    LIMIT_SLACK_MS, LONGEST_GROUPS, MS_US, LOOK_NODES_MAX, PACK_BYTES_MAX, PAUSED_GROUPS_MAX, PACK_MESSAGES_MAX, PURGED_MAX, PURGED_MS, REAP_BYTES_MAX, REAP_FAILED_MAX, REAP_PACKS_MAX, REIGNS_MAX, SHARD_NUMBERS, SUSPECTS_MAX,
    TAKE_BYTES_MAX, TAKE_CUT_BYTES, TAKE_EXACT, TAKE_PACKS_MAX, TAKE_POP_START, TAKE_SHARES, TRIM_MAX, UNHEARD_STEP_MS, UNPACK_MAX,
}

/// A line of a script, or what it stands for.
fn included(line: &'static str) -> std::str::Lines<'static> {
    match line.trim().strip_prefix("--+ ") {
        Some("common") => COMMON.lines(),
        Some("packs") => PACKS.lines(),
        Some("members") => MEMBERS.lines(),
        Some("deliveries") => DELIVERIES.lines(),
        Some("aside") => ASIDE.lines(),
        Some("records") => RECORDS.lines(),
        Some("rights") => RIGHTS.lines(),
        Some("foreign") => FOREIGN.lines(),
        Some("shortcut") => SHORTCUT.lines(),
        Some("alive") => ALIVE.lines(),
        Some("numbering") => NUMBERING.lines(),
        Some("effects") => EFFECTS.lines(),
        Some("chain") => CHAIN.lines(),
        Some("groups") => GROUPS.lines(),
        Some("asked") => ASKED.lines(),
        Some("limits") => LIMITS_LUA.lines(),
        Some("limit_exchange") => LIMIT_EXCHANGE.lines(),
        Some("groups_take") => GROUPS_TAKE.lines(),
        Some("shards") => SHARDS.lines(),
        Some("cancels") => CANCELS.lines(),
        Some("cancels_exchange") => CANCELS_EXCHANGE.lines(),
        Some("groups_exchange") => GROUPS_EXCHANGE.lines(),
        _ => line.lines(),
    }
}

/// A line with its limits written out.
fn limited(line: &str) -> Cow<'_, str> {
    let Some((before, rest)) = line.split_once('$') else {
        return line.into();
    };
    let end = rest.find(|letter: char| !letter.is_ascii_uppercase() && letter != '_');
    let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
    match LIMITS.iter().find(|(known, _)| *known == name) {
        Some((_, limit)) => format!("{before}{limit}{}", limited(after)).into(),
        None => format!("{before}${name}{}", limited(after)).into(),
    }
}

macro_rules! scripts {
    ($($name:ident),+ $(,)?) => {
        /// All scripts, by verb.
        #[derive(Debug, Clone)]
        pub struct Scripts { $(pub $name: Script),+ }

        impl Scripts {
            /// The scripts with every line passed through `edit`, which may change or drop it.
            #[must_use]
            pub fn edited(edit: impl Fn(&str) -> Option<String>) -> Self {
                let script = |body: &'static str| {
                    let lines = body.lines().flat_map(included).map(limited);
                    let text: String = lines
                        .filter_map(|line| edit(&line))
                        .flat_map(|line| [line, "\n".into()])
                        .collect();
                    Script { sha: redis::Script::new(&text).get_hash().to_string(), text }
                };
                Self { $($name: script(include_str!(concat!("lua/", stringify!($name), ".lua")))),+ }
            }

            /// The text of each.
            #[cfg(test)]
            pub(crate) fn texts(&self) -> Vec<&str> {
                vec![$(&self.$name.text),+]
            }
        }

        /// Every file, as it is written.
        #[cfg(any(test, feature = "mutants"))]
        const FILES: &[&str] = &[
            COMMON, PACKS, MEMBERS, ASIDE, RECORDS, RIGHTS, FOREIGN, DELIVERIES, SHORTCUT, ALIVE, NUMBERING, CHAIN, EFFECTS, GROUPS, GROUPS_TAKE, GROUPS_EXCHANGE, ASKED, LIMITS_LUA, LIMIT_EXCHANGE, CANCELS, CANCELS_EXCHANGE, SHARDS, $(include_str!(concat!("lua/", stringify!($name), ".lua"))),+
        ];
    };
}

scripts!(
    join,
    adopt,
    beat,
    renew,
    reap,
    leave,
    publish,
    hear,
    push,
    exchange,
    collect,
    hold,
    release,
    failed,
    requeue,
    discard,
    trim,
    pause,
    pause_group,
    limit,
    reshard,
    cancel,
    cancel_group,
    handover,
    purge,
    report,
    history,
    status,
    held,
    endings,
    find,
);

impl Scripts {
    /// The scripts as they are in production: comments cut, since a script is sent whole the first time.
    #[must_use]
    pub fn new() -> Self {
        Self::edited(|line| {
            let line = line.split("--").next().unwrap_or_default().trim();
            (!line.is_empty()).then(|| line.to_string())
        })
    }
}

impl Default for Scripts {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "mutants")]
impl Scripts {
    /// The scripts without the lines of one guard, to show that a test notices; `edit` changes the others.
    #[must_use]
    pub fn without(name: &str, edit: impl Fn(&str) -> String) -> Self {
        Self::edited(|line| (guard(line) != Some(name)).then(|| edit(line)))
    }

    /// The names of all guards, from the marks in the scripts.
    #[must_use]
    pub fn guards() -> Vec<String> {
        let lines = FILES.iter().flat_map(|text| text.lines());
        let mut guards: Vec<String> = lines.filter_map(guard).map(str::to_string).collect();
        guards.dedup();
        guards
    }
}

/// The guard that a line holds.
#[cfg(feature = "mutants")]
fn guard(line: &str) -> Option<&str> {
    line.split_once("-- guard: ").map(|(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Words of a script, without its comments.
    fn words(text: &str) -> impl Iterator<Item = &str> {
        let code = text.lines().map(|line| line.split("--").next().unwrap_or_default());
        // Milliseconds from seconds and from microseconds are no limit.
        let code = code.filter(|line| !line.contains("time[1] * 1000 + math.floor(time[2] / 1000)"));
        code.flat_map(|line| {
            line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '$')
        })
    }

    #[test]
    fn every_limit_of_a_script_is_known_and_every_known_one_is_used() {
        let named = FILES
            .iter()
            .flat_map(|text| words(text))
            .filter_map(|word| word.strip_prefix('$'));
        let named: BTreeSet<&str> = named.filter(|name| !name.is_empty()).collect();
        assert_eq!(named, LIMITS.iter().map(|(name, _)| *name).collect());
    }

    #[test]
    fn no_limit_is_written_as_digits() {
        for text in FILES {
            for word in words(text) {
                // Smaller ones are also places in a pack, or in a list of arguments.
                let limit = LIMITS
                    .iter()
                    .find(|(_, limit)| *limit > 50 && word == limit.to_string());
                assert_eq!(
                    limit,
                    None,
                    "written as digits in {}",
                    text.lines().next().unwrap_or_default()
                );
            }
        }
    }
}
