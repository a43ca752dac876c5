//! Choosing among the failed messages.

use crate::engine::{Engine, Failed};
use crate::error::Result;

/// How many errors one step looks at.
const STEP: u32 = 500;

/// Which errors. The default is all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Numbers from this one on.
    pub from: u64,
    /// Numbers up to this one.
    pub to: u64,
    /// Those whose error contains this text.
    pub text: Option<String>,
    /// Those that failed before this time, in milliseconds since 1970.
    pub before_ms: Option<u64>,
    /// Those that failed at this time or after.
    pub since_ms: Option<u64>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            from: 0,
            to: u64::MAX,
            text: None,
            before_ms: None,
            since_ms: None,
        }
    }
}

impl Filter {
    /// Whether an error is meant.
    #[must_use]
    pub fn admits(&self, failed: &Failed) -> bool {
        let said = |text: &String| String::from_utf8_lossy(&failed.error).contains(text.as_str());
        (self.from..=self.to).contains(&failed.number)
            && self.text.as_ref().is_none_or(said)
            && self.before_ms.is_none_or(|before| failed.time_ms < before)
            && self.since_ms.is_none_or(|since| failed.time_ms >= since)
    }
}

/// Shows the errors that a filter admits, in the order of their numbers, at most `limit`. Removes nothing. The store is
/// asked in steps, so that a scan of millions holds nobody up.
pub async fn scan<E: Engine>(
    engine: &E,
    filter: &Filter,
    limit: Option<u64>,
    mut show: impl FnMut(&[Failed]),
) -> Result<()> {
    let (mut from, mut left) = (filter.from, limit.unwrap_or(u64::MAX));
    while left > 0 {
        let mut batch = engine.failed(from, STEP).await?;
        let Some(last) = batch.last().map(|failed| failed.number) else {
            return Ok(());
        };
        batch.retain(|failed| filter.admits(failed));
        batch.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        left -= batch.len() as u64;
        show(&batch);
        if last >= filter.to {
            return Ok(());
        }
        from = last + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_admits_what_fits_all_of_it() {
        let failed = Failed {
            number: 7,
            deliveries: 1,
            failures: 0,
            epoch: 1,
            published_ms: 0,
            time_ms: 1000,
            node: "n".into(),
            error: b"connection timeout".to_vec(),
            group: None,
            asked: false,
            expires_ms: None,
            headers: crate::message::Headers::new(),
            payload: Vec::new(),
        };
        let all = Filter::default();
        assert!(all.admits(&failed));
        let with = |change: fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            filter.admits(&failed)
        };
        assert!(with(|filter| (filter.from, filter.to) = (7, 7)));
        assert!(!with(|filter| filter.from = 8));
        assert!(!with(|filter| filter.to = 6));
        assert!(with(|filter| filter.text = Some("timeout".into())));
        assert!(!with(|filter| filter.text = Some("refused".into())));
        assert!(with(|filter| filter.before_ms = Some(1001)));
        assert!(!with(|filter| filter.before_ms = Some(1000)));
        assert!(with(|filter| filter.since_ms = Some(1000)));
        assert!(!with(|filter| filter.since_ms = Some(1001)));
    }
}
