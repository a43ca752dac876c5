//! One figure beside its baseline, and how figures are shown.

use std::fmt::Write;

use super::copies::Cost;
use crate::app::output::json;

pub(super) struct Row {
    pub(super) regime: String,
    pub(super) unit: &'static str,
    values: Vec<f64>,
    baselines: Vec<f64>,
    target: Option<Target>,
    moonshot: Option<Target>,
    pub(super) cost: Option<Cost>,
    pub(super) note: String,
}

/// What is to be reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    of: Of,
    at_least: bool,
    value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Value,
    Ratio,
}

pub(super) fn ratio_at_least(value: f64) -> Target {
    Target {
        of: Of::Ratio,
        at_least: true,
        value,
    }
}

pub(super) fn ratio_at_most(value: f64) -> Target {
    Target {
        of: Of::Ratio,
        at_least: false,
        value,
    }
}

pub(super) fn at_most(value: f64) -> Target {
    Target {
        of: Of::Value,
        at_least: false,
        value,
    }
}

impl Row {
    /// Figures of several rounds.
    pub(super) fn new(regime: impl Into<String>, unit: &'static str, values: Vec<f64>) -> Self {
        Self {
            regime: regime.into(),
            unit,
            values,
            baselines: Vec::new(),
            target: None,
            moonshot: None,
            cost: None,
            note: String::new(),
        }
    }

    /// The baseline of each round.
    pub(super) fn beside(mut self, baselines: Vec<f64>) -> Self {
        self.baselines = baselines;
        self
    }

    pub(super) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    pub(super) fn moonshot(mut self, moonshot: Target) -> Self {
        self.moonshot = Some(moonshot);
        self
    }

    pub(super) fn cost(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    pub(super) fn value(&self) -> f64 {
        median(&self.values)
    }

    pub(super) fn least(&self) -> f64 {
        self.values.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    pub(super) fn most(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    pub(super) fn baseline(&self) -> Option<f64> {
        (!self.baselines.is_empty()).then(|| median(&self.baselines))
    }

    /// Of each round to its own baseline: what the machine does to both cancels out.
    pub(super) fn ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> = self
            .values
            .iter()
            .zip(&self.baselines)
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }

    fn reaches(&self, target: Target) -> bool {
        let measured = match target.of {
            Of::Value => self.value(),
            Of::Ratio => self.ratio().unwrap_or(f64::NAN),
        };
        if target.at_least {
            measured >= target.value
        } else {
            measured <= target.value
        }
    }

    pub(super) fn reached(&self) -> Option<bool> {
        self.target.map(|target| self.reaches(target))
    }

    pub(super) fn reaches_moonshot(&self) -> Option<bool> {
        self.moonshot.map(|target| self.reaches(target))
    }

    fn words(&self, target: Option<Target>) -> String {
        let Some(Target { of, at_least, value }) = target else {
            return String::new();
        };
        let sign = if at_least { ">=" } else { "<=" };
        match of {
            Of::Ratio => format!("{sign} {value} x"),
            Of::Value => format!("{sign} {} {}", figure(value), self.unit),
        }
    }

    pub(super) fn target_words(&self) -> String {
        self.words(self.target)
    }

    pub(super) fn moonshot_words(&self) -> String {
        self.words(self.moonshot)
    }
}

/// Of an even number of values, what is between the two in the middle.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => 0.0,
        Some(upper) if sorted.len() % 2 == 1 => *upper,
        Some(upper) => f64::midpoint(sorted[middle - 1], *upper),
    }
}

/// The value that a share of all does not exceed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index into what is in memory"
)]
pub(super) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(0.0)
}

/// A count, as people write it: 3, 200, 10 k, 1 M.
pub(super) fn count(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e4 => (v / 1e3, " k"),
        v => (v, ""),
    };
    let digits = format!("{value:.1}");
    format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Three digits that count.
pub(super) fn figure(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e4 => format!("{:.1} k", v / 1e3),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        0.0 => "0".into(),
        v => format!("{v:.2}"),
    }
}

pub(super) fn table(rows: &[Row], about: &str) -> String {
    let mut out = format!("{about}\n\n");
    let _ = writeln!(
        out,
        "{:<22} {:>10} {:<11} {:<21} {:>10} {:>7}  {:<14} {:<4} {:>8} {:>8} {:>6} {:>6} {:>5}",
        "regime",
        "median",
        "",
        "least..most",
        "baseline",
        "ratio",
        "to reach",
        "",
        "redis us",
        "client us",
        "cmds",
        "B each",
        "MB"
    );
    for row in rows {
        let spread = format!("{}..{}", figure(row.least()), figure(row.most()));
        let reached = row.reached().map_or("", |reached| if reached { "yes" } else { "no" });
        let baseline = row.baseline().map(figure).unwrap_or_default();
        let ratio = row.ratio().map(|ratio| format!("{ratio:.2} x")).unwrap_or_default();
        let cost = row.cost.unwrap_or_default();
        let shown = |value: f64, text: String| if value > 0.0 { text } else { String::new() };
        let _ = write!(
            out,
            "{:<22} {:>10} {:<11} {spread:<21} {baseline:>10} {ratio:>7}  {:<14} {reached:<4} {:>8} {:>8} {:>6} {:>6} {:>5}",
            row.regime,
            figure(row.value()),
            row.unit,
            row.target_words(),
            shown(cost.redis_cpu, format!("{:.2}", cost.redis_cpu)),
            shown(cost.client_cpu, format!("{:.2}", cost.client_cpu)),
            shown(cost.commands, format!("{:.3}", cost.commands)),
            shown(cost.queued_bytes, format!("{:.0}", cost.queued_bytes)),
            shown(cost.peak_rss, format!("{:.0}", cost.peak_rss)),
        );
        let note = if row.note.is_empty() {
            String::new()
        } else {
            format!("  {}", row.note)
        };
        out.truncate(out.trim_end_matches(' ').len());
        out.push_str(&note);
        out.push('\n');
    }
    out
}

pub(super) fn json(rows: &[Row]) -> String {
    let objects: Vec<String> = rows.iter().map(object).collect();
    format!("[\n{}\n]\n", objects.join(",\n"))
}

fn object(row: &Row) -> String {
    let mut out = String::from("{");
    json::text(&mut out, "regime", &row.regime);
    real(&mut out, "value", Some(row.value()));
    json::text(&mut out, "unit", row.unit);
    real(&mut out, "least", Some(row.least()));
    real(&mut out, "most", Some(row.most()));
    real(&mut out, "rounds", Some(super::raw::float(row.values.len() as u64)));
    real(&mut out, "baseline", row.baseline());
    real(&mut out, "ratio", row.ratio());
    for (name, words, reached) in [
        ("target", row.target_words(), row.reached()),
        ("moonshot", row.moonshot_words(), row.reaches_moonshot()),
    ] {
        let flag = if name == "target" {
            "reached"
        } else {
            "moonshot_reached"
        };
        match reached {
            Some(reached) => {
                json::text(&mut out, name, &words);
                let _ = write!(out, ",\"{flag}\":{reached}");
            }
            None => _ = write!(out, ",\"{name}\":null,\"{flag}\":null"),
        }
    }
    let cost = row.cost.unwrap_or_default();
    for (name, value) in [
        ("redis_cpu_us", cost.redis_cpu),
        ("client_cpu_us", cost.client_cpu),
        ("commands", cost.commands),
        ("queued_bytes", cost.queued_bytes),
        ("peak_rss_mb", cost.peak_rss),
    ] {
        real(&mut out, name, (value > 0.0).then_some(value));
    }
    json::text(&mut out, "note", &row.note);
    out.push('}');
    out
}

/// A number with a fraction; what was not measured is null.
fn real(out: &mut String, name: &str, value: Option<f64>) {
    let value = value.filter(|value| value.is_finite());
    let _ = match value {
        Some(value) => write!(out, ",\"{name}\":{}", (value * 1e4).round() / 1e4),
        None => write!(out, ",\"{name}\":null"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_each_round_to_its_own_baseline() {
        // The machine halved its speed after the first round: the ratio did not change.
        let row = Row::new("r", "messages/s", vec![200.0, 100.0, 100.0])
            .beside(vec![100.0, 50.0, 50.0])
            .target(ratio_at_least(2.0))
            .moonshot(ratio_at_least(2.1));
        assert_eq!(
            (row.ratio(), row.reached(), row.reaches_moonshot()),
            (Some(2.0), Some(true), Some(false))
        );
        assert!(object(&row).contains("\"target\":\">= 2 x\",\"reached\":true"));
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let text = object(&Row::new("r", "ms", vec![1.0]));
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&value["value"], &value["baseline"]),
            (&serde_json::json!(1), &serde_json::Value::Null)
        );
    }

    #[test]
    fn a_count_has_no_more_digits_than_it_needs() {
        let counts = [1.0, 0.1, 10.0, 4096.0, 10_000.0, 32_768.0, 1_000_000.0];
        assert_eq!(counts.map(count), ["1", "0.1", "10", "4096", "10 k", "32.8 k", "1 M"]);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (0..=100).map(f64::from).rev().collect();
        assert_eq!(
            (percentile(&values, 0.99), median(&values), median(&[])),
            (99.0, 50.0, 0.0)
        );
        assert!((median(&[1.0, 2.0, 4.0, 9.0]) - 3.0).abs() < f64::EPSILON);
    }
}
