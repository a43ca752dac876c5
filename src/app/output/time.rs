//! Times of day and durations, as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(in crate::app) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `2026-11-15T13:05:00.123Z`; the number itself where no calendar has it.
pub(in crate::app) fn utc(ms: u64) -> String {
    timestamp(ms).map_or_else(|| ms.to_string(), |time| format!("{time:.3}"))
}

/// The same without a fraction that is zero: `2026-11-15T13:05:00Z`.
pub(in crate::app) fn utc_short(ms: u64) -> String {
    timestamp(ms).map_or_else(String::new, |time| time.to_string())
}

fn timestamp(ms: u64) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()
}

/// How old something is: `3.2s`, `5m07s`, `2h05m`, `3d04h`.
pub(in crate::app) fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{}.{}s", seconds, ms % 1000 / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}
