//! Medians and percentiles, and numbers as people write them.

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

#[cfg(test)]
mod tests {
    use super::*;

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
