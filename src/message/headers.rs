//! Headers: a small map of text that travels with a message, for its handler and whoever is behind it.

use std::collections::BTreeMap;

/// The most headers of one message.
pub const HEADERS_MAX: usize = 32;
/// The most bytes that names and values of one message have together.
pub const HEADERS_BYTES_MAX: usize = 8 * 1024;
/// The longest name of a header.
const NAME_BYTES_MAX: usize = 100;

/// A few names with a text each, such as `traceparent`. Most messages have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text under a name, whose letters are small.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets one. Letters of a name are made small, as HTTP does.
    pub fn insert(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_ascii_lowercase(), value.into());
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter();
        all.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many bytes names and values have.
    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// The names under which a W3C trace context travels.
    pub const TRACE: [&str; 2] = ["traceparent", "tracestate"];

    /// Takes over the trace context of others, unless there is one, or no room for another: nobody loses a message for that.
    pub(crate) fn follow(&mut self, others: &Self) {
        if others.get(Self::TRACE[0]).is_none() || self.get(Self::TRACE[0]).is_some() {
            return;
        }
        let mut with = self.clone();
        for name in Self::TRACE {
            if let Some(value) = others.get(name) {
                with.insert(name, value);
            }
        }
        if with.wrong().is_none() {
            *self = with;
        }
    }

    /// Says what is wrong with them.
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        let bytes = self.bytes();
        if self.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
            return Some(format!("must be at most {HEADERS_MAX}, with {HEADERS_BYTES_MAX} bytes"));
        }
        for (name, value) in self.iter() {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_letter) {
                return Some(format!(
                    "must have names of 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.': {name:?} is none"
                ));
            }
            if value.chars().any(char::is_control) {
                return Some(format!(
                    "must be text without control characters: that of {name} is not"
                ));
            }
        }
        None
    }
}

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(all: T) -> Self {
        let mut headers = Self::new();
        for (name, value) in all {
            headers.insert(name.as_ref(), value);
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_few_short_and_plain() {
        let of = |name: &str, value: &str| [(name, value)].into_iter().collect::<Headers>();
        for fine in [("traceparent", "00-ab-01"), ("X-Tenant.Id", "ü 7"), ("a", "")] {
            assert_eq!(of(fine.0, fine.1).wrong(), None, "{fine:?}");
        }
        for wrong in [
            ("", "x"),
            ("a b", "x"),
            ("a:b", "x"),
            ("ä", "x"),
            ("a", "x\ny"),
            ("a", "\0"),
        ] {
            assert!(of(wrong.0, wrong.1).wrong().is_some(), "{wrong:?}");
        }
        assert!(of("a", &"x".repeat(HEADERS_BYTES_MAX)).wrong().is_some());
        let many: Headers = (0..=HEADERS_MAX).map(|index| (format!("h{index}"), "x")).collect();
        assert!(many.wrong().is_some());
        assert_eq!(of("TraceParent", "x").get("traceparent"), Some("x"));
        assert_eq!(Headers::new().iter().count(), 0);
    }
}
