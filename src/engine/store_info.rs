//! What a store says of itself: for `doctor` and the dashboard.

/// What a store says of itself. `None`: not known, or without meaning for this kind of store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreInfo {
    /// Redis, Valkey, SQLite.
    pub kind: String,
    pub version: String,
    pub memory_bytes: Option<u64>,
    /// None: no limit.
    pub memory_max_bytes: Option<u64>,
    /// What is evicted when memory is full.
    pub policy: Option<String>,
    pub persistence: String,
    pub replicas: Option<u64>,
    pub uptime_ms: Option<u64>,
    pub round_trip_us: Option<u64>,
}

impl StoreInfo {
    /// From what INFO says.
    pub(super) fn of_redis(info: &str) -> Self {
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim().to_string())
        };
        let number = |name: &str| field(name).and_then(|value| value.parse::<u64>().ok());
        let valkey = field("valkey_version");
        let log = field("aof_enabled").is_some_and(|on| on == "1");
        // INFO says neither how often the log is synced nor whether snapshots are configured.
        let persistence = if log { "append-only file" } else { "no append-only file" };
        Self {
            kind: if valkey.is_some() { "Valkey" } else { "Redis" }.into(),
            version: valkey.or_else(|| field("redis_version")).unwrap_or_default(),
            memory_bytes: number("used_memory"),
            memory_max_bytes: number("maxmemory").filter(|bytes| *bytes > 0),
            policy: field("maxmemory_policy"),
            persistence: persistence.into(),
            replicas: number("connected_slaves"),
            uptime_ms: number("uptime_in_seconds").map(|seconds| seconds.saturating_mul(1000)),
            round_trip_us: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_whoever_says_it() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:61\r\nused_memory:1048576\r\nmaxmemory:0\r\n\
                     maxmemory_policy:noeviction\r\naof_enabled:1\r\nconnected_slaves:2\r\n";
        let read = StoreInfo::of_redis(redis);
        assert_eq!(
            (&*read.kind, &*read.version, &*read.persistence),
            ("Redis", "7.0.15", "append-only file")
        );
        assert_eq!((read.memory_bytes, read.memory_max_bytes), (Some(1 << 20), None));
        assert_eq!((read.replicas, read.uptime_ms), (Some(2), Some(61_000)));
        let valkey = StoreInfo::of_redis("redis_version:7.2.4\r\nvalkey_version:8.1.8\r\naof_enabled:0\r\n");
        assert_eq!((&*valkey.kind, &*valkey.version), ("Valkey", "8.1.8"));
        assert_eq!(StoreInfo::of_redis("nonsense").version, "");
    }
}
