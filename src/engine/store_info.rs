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
