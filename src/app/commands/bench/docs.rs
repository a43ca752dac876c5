//! Writes the tables into docs/benchmarks.md, between marks, and the plots beside it.

use std::fmt::Write;
use std::io;
use std::path::Path;

use super::figures::{count, figure};
use super::growth::Curve;
use super::row::Row;
use super::session::About;
use crate::app::output::time::{now_ms, utc_short};

pub(super) fn write(path: &Path, rows: &[Row], curves: &[Curve], about: &About) -> io::Result<()> {
    let mut text = std::fs::read_to_string(path)?;
    let today = utc_short(now_ms());
    let dated = about.on_the_day(today.split('T').next().unwrap_or_default());
    if !rows.is_empty() {
        text = between(&text, "figures", &(dated.clone() + &figures(rows)))?;
    }
    if !curves.is_empty() {
        text = between(&text, "growth", &(dated + &growth(curves)))?;
        let beside = path.parent().unwrap_or(Path::new("."));
        for curve in curves {
            std::fs::write(
                beside.join(format!("growth-{}.svg", curve.name)),
                super::plot::svg(curve),
            )?;
        }
    }
    std::fs::write(path, text)
}

/// Puts a text between `<!-- name -->` and `<!-- /name -->`.
fn between(text: &str, name: &str, new: &str) -> io::Result<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let parts = text.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{begin}{new}{end}{after}"))
    });
    parts.ok_or_else(|| io::Error::other(format!("it has no marks {} and {end}", begin.trim_end())))
}

fn figures(rows: &[Row]) -> String {
    let mut out = String::from(
        "| regime | median | least .. most | baseline | ratio | to reach | | moonshot | |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let told = |target| if row.reaches(target) { "yes" } else { "**no**" };
        let ratio = row.ratio().map(|ratio| format!("{ratio:.2} ×")).unwrap_or_default();
        let baseline = row.baseline().map(figure).unwrap_or_default();
        let note = if row.note.is_empty() {
            String::new()
        } else {
            format!(" ({})", row.note)
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {}{note} | {} {} | {} .. {} | {baseline} | {ratio} | {} | {} | {} | {} |",
            row.regime,
            figure(row.value()),
            row.unit,
            figure(row.least()),
            figure(row.most()),
            row.words(row.target),
            row.target.map_or("", told),
            row.words(row.moonshot),
            row.moonshot.map_or("", told),
        );
    }
    out.push_str(
        "\n| regime | Redis CPU | clients' CPU | commands | bytes in Redis | largest process |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let Some(cost) = row.cost else { continue };
        let shown = |value: f64, text: String| if value > 0.0 { text } else { String::new() };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            row.regime,
            shown(cost.redis_cpu, format!("{:.2} µs", cost.redis_cpu)),
            shown(cost.client_cpu, format!("{:.2} µs", cost.client_cpu)),
            shown(cost.commands, format!("{:.3}", cost.commands)),
            shown(cost.queued_bytes, format!("{:.0}", cost.queued_bytes)),
            shown(cost.peak_rss, format!("{:.1} MB", cost.peak_rss)),
        );
    }
    out
}

fn growth(curves: &[Curve]) -> String {
    let mut out = String::new();
    for curve in curves {
        let _ = writeln!(out, "![{}](growth-{}.svg)\n", curve.name, curve.name);
        let _ = writeln!(
            out,
            "| {} | messages/s | Redis, µs each | clients, µs each |\n| --- | --- | --- | --- |",
            curve.cause
        );
        for point in &curve.points {
            let (rate, cost) = (figure(point.rate), point.cost);
            let _ = writeln!(
                out,
                "| {} | {rate} | {:.2} | {:.2} |",
                count(point.at),
                cost.redis_cpu,
                cost.client_cpu
            );
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_the_marks_is_replaced_and_nothing_else() {
        let text = "a\n<!-- x -->\nold\n<!-- /x -->\nb";
        assert_eq!(
            between(text, "x", "new\n").unwrap(),
            "a\n<!-- x -->\nnew\n<!-- /x -->\nb"
        );
        assert!(between(text, "y", "").unwrap_err().to_string().contains("<!-- y -->"));
    }
}
