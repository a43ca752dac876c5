//! A plot as SVG: rate and CPU a message against one cause, both axes logarithmic.

use std::fmt::Write;

use super::figures::count;
use super::growth::{Curve, Point};

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 40.0;
const RIGHT: f64 = 16.0;

/// Two panels side by side: the rate, and what a message costs.
pub(super) fn svg(curve: &Curve) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        2.0 * WIDTH
    );
    let rate: Line = ("messages/s", "#1f6feb", |point| point.rate);
    let redis: Line = ("Redis, us each", "#d1242f", |point| point.cost.redis_cpu);
    let client: Line = ("clients, us each", "#1a7f37", |point| point.cost.client_cpu);
    panel(&mut out, curve, 0.0, &[rate]);
    panel(&mut out, curve, WIDTH, &[redis, client]);
    out.push_str("</svg>\n");
    out
}

type Line = (&'static str, &'static str, fn(&Point) -> f64);

fn panel(out: &mut String, curve: &Curve, left: f64, lines: &[Line]) {
    let values = |line: &Line| curve.points.iter().map(line.2).collect::<Vec<_>>();
    let all: Vec<f64> = lines.iter().flat_map(values).filter(|value| *value > 0.0).collect();
    let (low, high) = decades(&all);
    let (first, last) = decades(&curve.points.iter().map(|point| point.at).collect::<Vec<_>>());
    let x = |at: f64| left + LEFT + (at.log10() - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - (value.log10() - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    // Writing to a String cannot fail.
    for decade in marks(low, high) {
        let (value, at) = (count(10f64.powf(decade)), y(10f64.powf(decade)));
        let (from, to) = (left + LEFT, left + WIDTH - RIGHT);
        let _ = writeln!(out, "<path d=\"M{from} {at:.1}H{to}\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            from - 4.0,
            at + 4.0
        );
    }
    for point in &curve.points {
        let (at, below) = (x(point.at), HEIGHT - BOTTOM + 14.0);
        let _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
            count(point.at)
        );
    }
    let (middle, bottom) = (left + f64::midpoint(WIDTH, LEFT), HEIGHT - 8.0);
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{bottom}\" text-anchor=\"middle\">{}</text>",
        curve.cause
    );
    for (index, line) in lines.iter().enumerate() {
        let (name, colour, value) = *line;
        let points = curve.points.iter().filter(|point| value(point) > 0.0);
        let path: Vec<String> = points
            .map(|point| format!("{:.1},{:.1}", x(point.at), y(value(point))))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for place in &path {
            let (at, high) = place.split_once(',').unwrap_or_default();
            let _ = writeln!(out, "<circle cx=\"{at}\" cy=\"{high}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let (at, top) = (left + LEFT + if index == 0 { 0.0 } else { 110.0 }, 16.0);
        let _ = writeln!(out, "<text x=\"{at}\" y=\"{top}\" fill=\"{colour}\">{name}</text>");
    }
}

/// Whole powers of ten around the values.
fn decades(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min).log10().floor();
    let high = values.iter().copied().fold(0.0, f64::max).log10().ceil();
    if low.is_finite() && high.is_finite() {
        (low, high.max(low + 1.0))
    } else {
        (0.0, 1.0)
    }
}

fn marks(low: f64, high: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(low), move |mark| (*mark < high).then_some(mark + 1.0))
}
