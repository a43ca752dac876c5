//! The rights that the user of a node needs: the one place that README, errors and `doctor` have them from.

use std::sync::LazyLock;

/// A right, and the commands that it is for, each with arguments that do no harm, separated by commas. `K` stands for a key
/// of the queue that nothing else uses; what is written to it is removed by `DEL`.
pub(crate) type Right = (&'static str, &'static str);

/// What every node needs. A test compares this with the commands that the scripts call and the engine sends.
pub(crate) const NEEDED: &[Right] = &[
    (
        "+@hash",
        "HSET K a 1, HSETNX K a 1, HDEL K a, HEXISTS K a, HGET K a, HINCRBY K a 1, HKEYS K, HMGET K a, HSCAN K 0, \
         HSTRLEN K a",
    ),
    (
        "+@list",
        "BLPOP K 0.002, LINDEX K 0, LLEN K, LPOP K, LPOS K a, LPUSH K a, LRANGE K 0 0, LREM K 0 a, LTRIM K 0 0, RPUSH K a",
    ),
    (
        "+@sortedset",
        "ZADD K 1 a, ZCARD K, ZCOUNT K 0 1, ZINCRBY K 0 a, ZMSCORE K a, ZPOPMIN K 1, ZRANGE K 0 0, ZRANGEBYLEX K - +, \
         ZRANGEBYSCORE K 0 1, ZREM K a, ZREMRANGEBYRANK K 0 0, ZREVRANGE K 0 0, ZREVRANGEBYSCORE K 1 0, ZSCORE K a",
    ),
    (
        "+@scripting",
        "EVAL return+1 1 K, EVALSHA 0000000000000000000000000000000000000000 1 K",
    ),
    ("+type", "TYPE K"),
    ("+time", "TIME"),
    ("+del", "DEL K"),
    ("+unlink", "UNLINK K"),
    ("+pexpire", "PEXPIRE K 1"),
    ("+info", "INFO"),
    // Sent by the client where another database than 0 is chosen.
    ("+select", "SELECT none"),
];

/// What is asked for at each connect, and not needed: whether the server is a replica, and which servers its cluster has.
/// The last one is needed with `--replicas`.
#[cfg(test)]
const TELLING: &[Right] = &[
    ("+role", "ROLE"),
    ("+cluster|slots", "CLUSTER SLOTS"),
    ("+wait", "WAIT 0 1"),
];

/// What it takes to see at once that a node has died, besides the channels of the queue. Without it, leases tell.
pub(crate) const FOR_WATCHING: &[Right] = &[
    ("+subscribe", "SUBSCRIBE K"),
    ("+unsubscribe", "UNSUBSCRIBE K"),
    ("+publish", "PUBLISH K a"),
    ("+pubsub|numsub", "PUBSUB NUMSUB K"),
];

/// What effects need on top, besides the keys that they write: to add to a counter, and to set a value.
pub(crate) const FOR_EFFECTS: &[Right] = &[("+get", "GET K"), ("+set", "SET K a"), ("+incrby", "INCRBY K 1")];

/// The rights alone, as words of an `ACL SETUSER`.
pub(crate) fn words(rights: &[Right]) -> String {
    rights.iter().map(|(right, _)| *right).collect::<Vec<_>>().join(" ")
}

/// The commands that these rights are for.
#[cfg(any(test, feature = "cli"))]
pub(crate) fn commands(rights: &[Right]) -> impl Iterator<Item = &'static str> {
    let tried = rights.iter().flat_map(|(_, tried)| tried.split(", "));
    tried.filter_map(|tried| tried.split(' ').next())
}

/// The line that makes a user with all that a node needs, and nothing more. A new user of Redis 6.2 has every channel, and one with every
/// channel is refused a further one: `resetchannels` comes first.
pub static ACL_LINE: LazyLock<String> = LazyLock::new(|| {
    let rights = [words(NEEDED), words(FOR_WATCHING)].join(" ");
    format!("ACL SETUSER NAME on >PASSWORD ~{{qr:QUEUE}}:* resetchannels &{{qr:QUEUE}}:* {rights}")
});

/// What to do about a right that is missing.
pub(crate) static HINT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "grant the user its rights: {} (effects also need {} and their keys)",
        *ACL_LINE,
        words(FOR_EFFECTS)
    )
});

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::engine::redis::Scripts;

    /// The words in quotes that follow a mark.
    fn quoted<'a>(text: &'a str, mark: &str, quote: char) -> Vec<&'a str> {
        let after = text.split(mark).skip(1);
        after.filter_map(|rest| rest.split(quote).next()).collect()
    }

    fn sent() -> BTreeSet<String> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine/redis");
        let mut sent = BTreeSet::new();
        let files = [directory.clone(), directory.join("link")];
        for file in files
            .iter()
            .flat_map(|directory| std::fs::read_dir(directory).expect("a directory"))
        {
            let path = file.expect("readable").path();
            // Only the tests read everything back, and sentinels have users of their own.
            let is_ours = !path.ends_with("dump.rs") && !path.ends_with("sentinel.rs");
            if path.extension().is_some_and(|ext| ext == "rs") && is_ours {
                let text = std::fs::read_to_string(&path).expect("text");
                let text = text.split("#[cfg(test)]").next().unwrap_or_default();
                for mark in ["cmd(\"", "build(\"", "all_of(\"", "Vec<u8>>(\""] {
                    sent.extend(quoted(text, mark, '"').into_iter().map(str::to_string));
                }
            }
        }
        assert!(sent.len() > 8, "{sent:?}");
        sent
    }

    fn called() -> BTreeSet<String> {
        let scripts = Scripts::new();
        let mut called = BTreeSet::new();
        for text in scripts.texts() {
            for mark in ["call('", "run('"] {
                called.extend(quoted(text, mark, '\'').into_iter().map(str::to_string));
            }
        }
        assert!(called.len() > 20, "{called:?}");
        called
    }

    #[test]
    fn the_rights_are_those_that_the_scripts_and_the_engine_use() {
        let mut used = sent();
        used.extend(called());
        used.insert("SELECT".into());
        let granted = [NEEDED, FOR_WATCHING, FOR_EFFECTS, TELLING]
            .into_iter()
            .flat_map(commands);
        let granted: BTreeSet<String> = granted.map(str::to_string).collect();
        let (missing, superfluous) = (used.difference(&granted), granted.difference(&used));
        let (missing, superfluous): (Vec<_>, Vec<_>) = (missing.collect(), superfluous.collect());
        assert!(
            missing.is_empty() && superfluous.is_empty(),
            "{missing:?} {superfluous:?}"
        );
    }

    #[test]
    fn every_text_that_shows_the_line_shows_this_one() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let docs = std::fs::read_dir(root.join("docs")).expect("a directory");
        let docs = docs.map(|file| file.expect("readable").path());
        let texts = docs.filter(|path| path.extension().is_some_and(|ext| ext == "md"));
        let mut shown = 0;
        for path in texts.chain([root.join("README.md")]) {
            let text = std::fs::read_to_string(&path).expect("text");
            // However it is wrapped.
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for (at, _) in text.match_indices("ACL SETUSER") {
                assert!(
                    text[at..].starts_with(ACL_LINE.as_str()),
                    "{}: {}",
                    path.display(),
                    *ACL_LINE
                );
                shown += 1;
            }
        }
        assert!(shown > 0, "nobody reads of it");
    }
}
