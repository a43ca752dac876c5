//! What changes of the primary cost: each by itself, and all together.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::report::Times;
use super::several::{Switch, What};
use crate::app::lab::ledger::times;

/// All times are in milliseconds.
pub(super) struct Switched {
    /// The longest time around each in which nothing was told to be published.
    silences: Times,
    /// Until another primary was there, and then until the next message; the same for when all followed it.
    ready: Times,
    after_ready: Times,
    together: Times,
    after_together: Times,
    /// Until the next message once one could be told again, where all copies were well; the same for each kind of change.
    all_well: Times,
    kinds: BTreeMap<What, Times>,
    /// A line for each.
    each: String,
}

impl Switched {
    pub(super) fn new(told_ms: &[u64], switches: &[Switch]) -> Self {
        // A slot that moves leaves its server in place.
        let replaced: Vec<Switch> = switches
            .iter()
            .copied()
            .filter(|switch| switch.what != What::SlotMoved)
            .collect();
        let told = || told_ms.to_vec();
        let silences = |switches: &[Switch]| {
            let windows: Vec<(u64, u64)> = switches.iter().map(|switch| (switch.struck, switch.together)).collect();
            times::silences_ms(told(), &windows)
        };
        let own =
            |at: fn(&Switch) -> u64| Times::new(replaced.iter().map(|switch| at(switch) - switch.struck).collect());
        let after = |at: fn(&Switch) -> u64| Times::new(times::waits_ms(told(), replaced.iter().map(at)));
        let well = |switches: &[Switch], what: Option<What>| {
            let well = switches
                .iter()
                .filter(|switch| switch.all_well && what.is_none_or(|what| switch.what == what));
            Times::new(times::waits_ms(told(), well.map(Switch::usable)))
        };
        let mut each = String::from("struck_ms what own_ms followed_ms silence_ms next_ms all_copies_well\n");
        for (switch, silence) in switches.iter().zip(silences(switches)) {
            let next = times::waits_ms(told(), std::iter::once(switch.usable()));
            let next = next.first().map_or("none".into(), u64::to_string);
            let Switch { struck, what, .. } = switch;
            // Writing to a String cannot fail.
            let _ = writeln!(
                each,
                "{struck} {} {} {} {silence} {next} {}",
                what.name(),
                switch.ready - struck,
                switch.together - struck,
                switch.all_well
            );
        }
        Self {
            silences: Times::new(silences(&replaced)),
            ready: own(|switch| switch.ready),
            after_ready: after(|switch| switch.ready),
            together: own(|switch| switch.together),
            after_together: after(|switch| switch.together),
            all_well: well(&replaced, None),
            kinds: switches
                .iter()
                .map(|switch| (switch.what, well(switches, Some(switch.what))))
                .collect(),
            each,
        }
    }

    /// For `switches.txt`, if there were any.
    pub(super) fn each(&self) -> Option<&String> {
        (self.each.lines().count() > 1).then_some(&self.each)
    }

    /// By the names that programs find them under.
    pub(super) fn times(&self) -> impl Iterator<Item = (String, &Times)> {
        let all = [
            ("primaries_changed", &self.silences),
            ("primaries_ready", &self.ready),
            ("went_on_after_ready", &self.after_ready),
            ("primaries_followed", &self.together),
            ("went_on_after_followed", &self.after_together),
            ("went_on_with_all_copies_well", &self.all_well),
        ];
        let kinds = self.kinds.iter();
        let kinds = kinds.map(|(what, times)| (format!("went_on_with_all_copies_well_{}", what.name()), times));
        all.into_iter()
            .map(|(name, times)| (name.to_string(), times))
            .chain(kinds)
    }

    /// For the table: the name of each row, and what it says.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        if self.each().is_none() {
            return Vec::new();
        }
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut row = |name: &str, value: String| rows.push((name.into(), value));
        let silences = &self.silences;
        row(
            "primaries changed",
            format!("{}  (silence: {})", silences.len(), silences.told()),
        );
        for (name, until, own, after) in [
            (
                "- Redis' own time",
                "another primary was there",
                &self.ready,
                &self.after_ready,
            ),
            ("", "all followed it", &self.together, &self.after_together),
        ] {
            row(name, format!("until {until}: {}", own.told()));
            row("", format!("the next message after that: {}", after.told()));
        }
        row(
            "- all copies well",
            format!(
                "{}  (no copy had been killed or stopped for a lease; from the primary, with its replicas if they are waited for, to the next message: {})",
                self.all_well.len(),
                self.all_well.told()
            ),
        );
        for (what, times) in self.kinds.iter().filter(|(_, times)| times.len() > 0) {
            let name = format!("  - {}", what.name().replace('_', " "));
            row(&name, format!("{}  ({})", times.len(), times.told()));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(struck: u64, what: What, all_well: bool) -> Switch {
        Switch {
            what,
            struck,
            ready: struck + 3000,
            together: struck + 3500,
            all_well,
            needs_replicas: true,
        }
    }

    #[test]
    fn each_kind_is_told_by_itself_and_each_change_has_a_line() {
        let told = [0, 1000, 5200, 11_000, 21_000];
        let switched = Switched::new(
            &told,
            &[
                switch(1200, What::Killed, true),
                switch(6000, What::AskedFor, false),
                switch(16_000, What::SlotMoved, true),
            ],
        );
        let rows: Vec<String> = switched
            .rows()
            .iter()
            .map(|(name, said)| format!("{name}: {said}"))
            .collect();
        let has = |words: &str| assert!(rows.iter().any(|row| row.contains(words)), "{words}: {rows:?}");
        // A slot that moves replaces no primary.
        has("primaries changed: 2");
        has("- all copies well: 1");
        has("  - killed: 1  (median 500 ms");
        has("  - slot moved: 1  (median 1500 ms");
        assert!(!rows.iter().any(|row| row.contains("asked for")), "{rows:?}");
        let lines: Vec<&str> = switched.each().expect("three").lines().collect();
        assert_eq!(lines[1], "1200 killed 3000 3500 4200 500 true");
        assert_eq!(lines[2], "6000 asked_for 3000 3500 5800 1500 false");
        assert_eq!(lines.len(), 4);
        let none = Switched::new(&told, &[]);
        assert!(none.rows().is_empty() && none.each().is_none());
    }
}
