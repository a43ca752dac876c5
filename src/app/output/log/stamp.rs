//! Time stamps in UTC, cheap enough for every line.

/// Remembers the last second, since many lines share it; within it only three digits change.
#[derive(Default)]
pub struct Stamp {
    second: Option<u64>,
    text: String,
}

impl Stamp {
    /// Such as `2026-11-15T09:14:08.123Z`.
    pub fn text(&mut self, ms: u64) -> &str {
        let (second, ms) = (ms / 1000, ms % 1000);
        if self.second != Some(second) {
            let time = i64::try_from(second)
                .ok()
                .and_then(|second| jiff::Timestamp::from_second(second).ok());
            self.text = time.unwrap_or_default().to_string();
            self.second = Some(second);
        }
        self.text.truncate("2026-11-15T09:14:08".len());
        let digit = |value: u64| char::from_digit((value % 10) as u32, 10).unwrap_or('0');
        self.text.extend(['.', digit(ms / 100), digit(ms / 10), digit(ms), 'Z']);
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc_milliseconds() {
        let mut stamp = Stamp::default();
        assert_eq!(stamp.text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp.text(7), "1970-01-01T00:00:00.007Z");
        assert_eq!(stamp.text(1_794_734_048_123), "2026-11-15T09:14:08.123Z");
        assert_eq!(stamp.text(1_794_734_048_999), "2026-11-15T09:14:08.999Z");
        assert_eq!(stamp.text(1_794_734_049_000), "2026-11-15T09:14:09.000Z");
        assert_eq!(stamp.text(u64::MAX).len(), "2026-11-15T09:14:08.123Z".len());
    }
}
