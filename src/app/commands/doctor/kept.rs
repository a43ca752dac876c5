//! Whether the store keeps what it has acknowledged, as far as can be seen.

use super::Findings;

/// How often the server's log reaches its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    None,
    /// There is one; the server does not tell how often.
    Unknown,
    /// As the system likes.
    Seldom,
    EverySecond,
    Always,
}

/// What is known of the servers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// As it was named.
    pub(super) address: &'a str,
    /// None: the server does not tell.
    pub(super) log: Option<Log>,
    /// None: the server does not tell.
    pub(super) replicas: Option<u64>,
    /// `--replicas`.
    pub(super) wanted: u64,
    /// `min-replicas-to-write`.
    pub(super) min_replicas: u64,
}

/// Services, by a part of the names of their servers. None of them tells what a failover takes back.
const SERVICES: &[(&str, &str, Answer, &str)] = &[
    (
        ".memorydb.",
        "Amazon MemoryDB",
        Answer::Yes,
        "its log is in several zones before it answers",
    ),
    (
        ".cache.amazonaws.com",
        "Amazon ElastiCache",
        Answer::Unknown,
        "its durable mode does, others do not",
    ),
    (".upstash.io", "Upstash", Answer::Unknown, "it does not tell"),
    (
        ".redis.cache.windows.net",
        "Azure Cache for Redis",
        Answer::Unknown,
        "it does not tell",
    ),
    (
        ".redis.azure.net",
        "Azure Managed Redis",
        Answer::Unknown,
        "it does not tell",
    ),
    (".aivencloud.com", "Aiven", Answer::Unknown, "it does not tell"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Unknown,
}

const LOG: &str = "redis-cli CONFIG SET appendonly yes, and appendfsync always, and the same in redis.conf";
const REPLICAS: &str = "give nodes --replicas with the number of all replicas";

impl Seen<'_> {
    fn answer(&self) -> (Answer, String, &'static str) {
        use Answer::{No, Unknown, Yes};
        let of_service = SERVICES.iter().find(|(part, ..)| self.address.contains(part));
        if let Some((_, name, answer, why)) = of_service {
            return (*answer, format!("{name}: {why}"), "");
        }
        let (Some(log), Some(replicas)) = (self.log, self.replicas) else {
            return (Unknown, "the server does not tell how it keeps them".into(), "");
        };
        if log == Log::None {
            let why = if replicas == 0 {
                "there is no append-only file"
            } else {
                "there is no append-only file: a primary that restarts is empty, and so are its replicas then"
            };
            return (No, why.into(), LOG);
        }
        if replicas > 0 && self.wanted == 0 {
            let cut_off = match self.min_replicas {
                0 => "",
                _ => "; min-replicas-to-write bounds it, and prevents it not",
            };
            return (
                No,
                format!("a failover takes back what the replica did not have yet{cut_off}"),
                REPLICAS,
            );
        }
        if replicas > self.wanted {
            let why = "some replicas need not have them: it depends on which is promoted";
            return (Unknown, why.into(), REPLICAS);
        }
        match (log, replicas) {
            (Log::Always, 0) => (Yes, "as long as its disk is there".into(), ""),
            (Log::Always, _) => (Yes, "on disk, and on all replicas before they are told".into(), ""),
            (_, 1..) => (
                Yes,
                "all replicas have them before they are told, unless all servers lose their power at once".into(),
                "",
            ),
            (Log::EverySecond, 0) => (No, "a power cut takes back the last second".into(), LOG),
            (Log::Seldom, 0) => (No, "a power cut takes back half a minute".into(), LOG),
            (Log::Unknown | Log::None, 0) => (
                Unknown,
                "the server does not tell how often its log reaches the disk".into(),
                "",
            ),
        }
    }

    pub(super) fn report(&self, findings: &mut Findings) {
        let (answer, why, fix) = self.answer();
        let found = |word: &str| format!("keeps acknowledged writes: {word}; {why}");
        match answer {
            Answer::Yes => findings.ok("kept", found("yes")),
            Answer::Unknown => findings.add("kept", super::Verdict::Ok, found("cannot tell"), fix),
            Answer::No => findings.warn("kept", found("no"), fix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Seen<'_> = Seen {
        address: "db1:6379",
        log: Some(Log::Always),
        replicas: Some(0),
        wanted: 0,
        min_replicas: 0,
    };

    #[test]
    fn a_server_alone_keeps_what_its_log_does() {
        let with = |log| Seen { log, ..ALONE }.answer().0;
        assert_eq!(with(Some(Log::Always)), Answer::Yes);
        assert_eq!(with(Some(Log::EverySecond)), Answer::No);
        assert_eq!(with(Some(Log::Seldom)), Answer::No);
        assert_eq!(with(Some(Log::None)), Answer::No);
        assert_eq!(with(Some(Log::Unknown)), Answer::Unknown);
        assert_eq!(with(None), Answer::Unknown);
    }

    #[test]
    fn behind_replicas_it_depends_on_how_many_must_have_it() {
        let of_two = |log, wanted| {
            let seen = Seen {
                log: Some(log),
                replicas: Some(2),
                wanted,
                min_replicas: 1,
                ..ALONE
            };
            seen.answer().0
        };
        assert_eq!(of_two(Log::Always, 0), Answer::No, "a failover takes it back");
        assert_eq!(of_two(Log::Always, 1), Answer::Unknown);
        assert_eq!(of_two(Log::Always, 2), Answer::Yes);
        assert_eq!(of_two(Log::EverySecond, 2), Answer::Yes);
        assert_eq!(of_two(Log::None, 2), Answer::No, "it may come back empty");
    }

    #[test]
    fn of_services_it_says_what_is_known_of_them() {
        let at = |address| Seen { address, ..ALONE }.answer();
        let (answer, why, _) = at("clustercfg.bees.abc123.memorydb.eu-west-1.amazonaws.com:6379");
        assert!(answer == Answer::Yes && why.contains("MemoryDB"), "{why}");
        let (answer, why, _) = at("bees.abc123.ng.0001.euw1.cache.amazonaws.com:6379");
        assert!(answer == Answer::Unknown && why.contains("ElastiCache"), "{why}");
    }
}
