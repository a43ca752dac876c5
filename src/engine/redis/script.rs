//! The texts of the scripts.

/// One verb's script, as it is sent.
#[derive(Debug, Clone)]
pub struct Script {
    pub text: String,
    pub sha: String,
}

const COMMON: &str = include_str!("lua/common.lua");
const PACKS: &str = include_str!("lua/packs.lua");
const MEMBERS: &str = include_str!("lua/members.lua");

/// A line of a script, or what it asks for: functions that only some scripts need, or only some of their branches.
fn included(line: &'static str) -> std::str::Lines<'static> {
    match line.trim().strip_prefix("--+ ") {
        Some("common") => COMMON.lines(),
        Some("packs") => PACKS.lines(),
        Some("members") => MEMBERS.lines(),
        _ => line.lines(),
    }
}

macro_rules! scripts {
    ($($name:ident),+) => {
        /// All scripts, by verb.
        #[derive(Debug, Clone)]
        pub struct Scripts { $(pub $name: Script),+ }

        impl Scripts {
            /// The scripts with every line passed through `edit`, which may change or drop it.
            #[must_use]
            pub fn edited(edit: impl Fn(&str) -> Option<String>) -> Self {
                let script = |body: &'static str| {
                    let lines = body.lines().flat_map(included);
                    let text: String = lines
                        .filter_map(&edit)
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

            /// The names of all guards, from the marks in the scripts.
            #[must_use]
            pub fn guards() -> Vec<String> {
                let texts = [COMMON, PACKS, MEMBERS,
                    $(include_str!(concat!("lua/", stringify!($name), ".lua"))),+];
                let mut guards: Vec<String> = texts
                    .iter()
                    .flat_map(|text| text.lines())
                    .filter_map(guard)
                    .map(str::to_string)
                    .collect();
                guards.dedup();
                guards
            }
        }
    };
}

scripts!(
    pause, handover, purge, join, beat, publish, push, exchange, reap, leave, collect, hold, release, failed, latest,
    held, requeue, discard, trim, status, report, history
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

    /// The scripts without the lines of one guard, to show that a test notices; `edit` changes the others.
    #[must_use]
    pub fn without(name: &str, edit: impl Fn(&str) -> String) -> Self {
        Self::edited(|line| (guard(line) != Some(name)).then(|| edit(line)))
    }
}

impl Default for Scripts {
    fn default() -> Self {
        Self::new()
    }
}

/// The guard that a line holds.
fn guard(line: &str) -> Option<&str> {
    line.split_once("-- guard: ").map(|(_, name)| name.trim())
}
