//! The rows as a table for people, and as JSON.

use std::fmt::Write;

use super::figures::figure;
use super::raw::float;
use super::row::Row;
use crate::app::output::json;

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
        let reached = row
            .target
            .map_or("", |target| if row.reaches(target) { "yes" } else { "no" });
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
            row.words(row.target),
            shown(cost.redis_cpu, format!("{:.2}", cost.redis_cpu)),
            shown(cost.client_cpu, format!("{:.2}", cost.client_cpu)),
            shown(cost.commands, format!("{:.3}", cost.commands)),
            shown(cost.queued_bytes, format!("{:.0}", cost.queued_bytes)),
            shown(cost.peak_rss, format!("{:.0}", cost.peak_rss)),
        );
        out.truncate(out.trim_end_matches(' ').len());
        if !row.note.is_empty() {
            let _ = write!(out, "  {}", row.note);
        }
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
    real(&mut out, "rounds", Some(float(row.values.len() as u64)));
    real(&mut out, "baseline", row.baseline());
    real(&mut out, "ratio", row.ratio());
    for (name, reached, target) in [
        ("target", "reached", row.target),
        ("moonshot", "moonshot_reached", row.moonshot),
    ] {
        if let Some(target) = target {
            json::text(&mut out, name, &row.words(Some(target)));
            let _ = write!(out, ",\"{reached}\":{}", row.reaches(target));
        } else {
            let _ = write!(out, ",\"{name}\":null,\"{reached}\":null");
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
    use super::super::row::Target::RatioAtLeast;
    use super::*;

    #[test]
    fn a_target_is_told_with_whether_it_was_reached() {
        let row = Row::new("r", "messages/s", vec![200.0]).beside(vec![100.0]);
        let text = object(&row.target(RatioAtLeast(2.0)));
        assert!(text.contains("\"target\":\">= 2 x\",\"reached\":true"), "{text}");
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
}
