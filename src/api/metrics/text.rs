//! The text form of Prometheus' exposition format.

use std::fmt::Write as _;

use crate::engine::history::{BOUNDS_US, Times};

#[cfg(feature = "cli")]
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric, and how its value is read from a `T`.
pub(super) struct Metric<T> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
    pub(super) value: fn(&T) -> Value<'_>,
}

pub(super) enum Value<'a> {
    Count(u64),
    /// From microseconds.
    Seconds(u64),
    /// One for each value of a label.
    By(&'static str, Vec<(&'static str, u64)>),
    /// One for each shard that answers.
    OfShards(Vec<(usize, u64)>),
    /// The same, for each value of a label.
    OfShardsBy(&'static str, Vec<(usize, &'static str, u64)>),
    Times(&'a Times),
}

/// The figures of one queue, as text.
pub(super) struct Text {
    out: String,
    /// `queue="…"`
    queue: String,
}

impl Text {
    pub(super) fn new(queue: &str) -> Self {
        Self {
            out: String::new(),
            queue: format!("queue=\"{}\"", label(queue)),
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    pub(super) fn add<'a, T: 'a>(&mut self, metrics: impl IntoIterator<Item = &'a Metric<T>>, of: &T) {
        for metric in metrics {
            let (name, kind, help) = (metric.name, metric.kind.word(), metric.help);
            // Writing to a String cannot fail.
            let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            match (metric.value)(of) {
                Value::Count(count) => self.line(name, "", &count.to_string()),
                Value::Seconds(us) => self.line(name, "", &seconds(us)),
                Value::By(by, values) => {
                    for (value, count) in values {
                        self.line(name, &format!("{by}=\"{value}\""), &count.to_string());
                    }
                }
                Value::OfShards(values) => {
                    for (shard, count) in values {
                        self.line(name, &format!("shard=\"{shard}\""), &count.to_string());
                    }
                }
                Value::OfShardsBy(by, values) => {
                    for (shard, value, count) in values {
                        self.line(name, &format!("shard=\"{shard}\",{by}=\"{value}\""), &count.to_string());
                    }
                }
                Value::Times(times) => self.times(name, times),
            }
        }
    }

    fn line(&mut self, name: &str, labels: &str, value: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let _ = writeln!(self.out, "{name}{{{}{comma}{labels}}} {value}", self.queue);
    }

    fn times(&mut self, name: &str, times: &Times) {
        let (bucket, mut below) = (format!("{name}_bucket"), 0);
        for (count, bound) in times.counts.iter().zip(BOUNDS_US) {
            below += count;
            self.line(&bucket, &format!("le=\"{}\"", seconds(bound)), &below.to_string());
        }
        self.line(&bucket, "le=\"+Inf\"", &times.count().to_string());
        self.line(&format!("{name}_sum"), "", &seconds(times.sum_us));
        self.line(&format!("{name}_count"), "", &times.count().to_string());
    }
}

/// A label's value as the format has it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Microseconds as seconds, without the noise of a float.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let text = text.trim_end_matches('0');
    text.trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_as_short_as_they_can_be() {
        for (us, text) in [
            (0, "0"),
            (10, "0.00001"),
            (1_500_000, "1.5"),
            (100_000_000, "100"),
            (123_456, "0.123456"),
        ] {
            assert_eq!(seconds(us), text);
        }
    }

    #[test]
    fn the_name_of_a_queue_cannot_leave_its_quotes() {
        let mut text = Text::new("a\"b\\c\nd");
        let metric = Metric {
            name: "queenright_x",
            kind: Kind::Gauge,
            help: "X.",
            value: |()| Value::Count(1),
        };
        text.add(&[metric], &());
        let text = text.finish();
        assert!(text.ends_with("queenright_x{queue=\"a\\\"b\\\\c\\nd\"} 1\n"), "{text}");
    }
}
