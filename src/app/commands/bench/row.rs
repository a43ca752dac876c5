//! One figure beside its baseline.

use super::cost::Cost;
use super::figures::{figure, median};

pub(super) struct Row {
    pub(super) regime: String,
    pub(super) unit: &'static str,
    pub(super) values: Vec<f64>,
    baselines: Vec<f64>,
    pub(super) target: Option<Target>,
    pub(super) moonshot: Option<Target>,
    pub(super) cost: Option<Cost>,
    pub(super) note: String,
}

/// What is to be reached: by the ratio to the baseline, or by the value itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    AtMost(f64),
    AtLeast(f64),
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

    pub(super) fn reaches(&self, target: Target) -> bool {
        let ratio = self.ratio().unwrap_or(f64::NAN);
        match target {
            Target::RatioAtLeast(least) => ratio >= least,
            Target::RatioAtMost(most) => ratio <= most,
            Target::AtMost(most) => self.value() <= most,
            Target::AtLeast(least) => self.value() >= least,
        }
    }

    /// In words; nothing where there is no target.
    pub(super) fn words(&self, target: Option<Target>) -> String {
        match target {
            None => String::new(),
            Some(Target::RatioAtLeast(least)) => format!(">= {least} x"),
            Some(Target::RatioAtMost(most)) => format!("<= {most} x"),
            Some(Target::AtMost(most)) => format!("<= {} {}", figure(most), self.unit),
            Some(Target::AtLeast(least)) => format!(">= {} {}", figure(least), self.unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_each_round_to_its_own_baseline() {
        // The machine halved its speed after the first round: the ratio did not change.
        let row = Row::new("r", "messages/s", vec![200.0, 100.0, 100.0])
            .beside(vec![100.0, 50.0, 50.0])
            .target(Target::RatioAtLeast(2.0))
            .moonshot(Target::RatioAtLeast(2.1));
        let reached = |target| row.reaches(target);
        assert_eq!(
            (row.ratio(), row.target.map(reached), row.moonshot.map(reached)),
            (Some(2.0), Some(true), Some(false))
        );
        assert_eq!(row.words(row.target), ">= 2 x");
    }
}
