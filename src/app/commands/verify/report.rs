//! What is said in the end: a table or JSON, and all of it once more in the directory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use super::several::Switch;
use crate::app::lab::ledger::checks::{Sample, Verdict};
use crate::app::lab::ledger::history::History;
use crate::app::lab::ledger::times;
use crate::app::lab::test_bed::Directory;
use crate::app::output::json;
use crate::node::event::escape;

/// Findings that are printed; all are in the directory.
const PRINTED_MAX: usize = 20;

/// Times, from the shortest to the longest.
struct Times(Vec<u64>);

impl Times {
    fn new(mut ms: Vec<u64>) -> Self {
        ms.sort_unstable();
        Self(ms)
    }

    /// The smallest value that this percentage of all values does not exceed.
    fn percentile(&self, percent: usize) -> u64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or(0)
    }
}

/// What a count means that people would take for a fault.
fn meaning(name: &str) -> Option<&'static str> {
    match name {
        "failed" => Some("as --error-rate asks; each is among the errors once"),
        "handled_more_than_once" => {
            Some("allowed: a handler began again after its node was lost; each has one outcome")
        }
        _ => None,
    }
}

pub(super) struct Report {
    store: String,
    seed: Option<u64>,
    counts: Vec<(&'static str, u64)>,
    seconds: f64,
    rate: f64,
    failovers: Times,
    redeliveries: Times,
    /// Of each change of the primary: how long nothing was told to be published, when another primary was there, and when all
    /// followed it.
    switches: Switched,
    faults: BTreeMap<&'static str, u64>,
    pub(super) findings: Vec<String>,
}

/// What changes of the primary cost, in milliseconds.
struct Switched {
    /// The longest time around each in which nothing was told to be published.
    silences: Times,
    /// Until another primary was there, and then until the next message; the same for when all followed it.
    ready: Times,
    after_ready: Times,
    together: Times,
    after_together: Times,
    /// Until the next message once one could be told again, where all copies were well.
    all_well: Times,
}

impl Switched {
    fn new(told_ms: &[u64], switches: &[Switch]) -> Self {
        let windows: Vec<(u64, u64)> = switches.iter().map(|switch| (switch.struck, switch.together)).collect();
        let own =
            |at: fn(&Switch) -> u64| Times::new(switches.iter().map(|switch| at(switch) - switch.struck).collect());
        let after = |at: fn(&Switch) -> u64| Times::new(times::waits_ms(told_ms.to_vec(), switches.iter().map(at)));
        Self {
            silences: Times::new(times::silences_ms(told_ms.to_vec(), &windows)),
            ready: own(|switch| switch.ready),
            after_ready: after(|switch| switch.ready),
            together: own(|switch| switch.together),
            after_together: after(|switch| switch.together),
            all_well: Times::new(times::waits_ms(
                told_ms.to_vec(),
                switches.iter().filter(|switch| switch.all_well).map(Switch::usable),
            )),
        }
    }
}

impl Report {
    pub(super) fn new(
        history: &History,
        verdict: Verdict,
        seconds: f64,
        seed: Option<u64>,
        store: &str,
        faults: BTreeMap<&'static str, u64>,
        switches: &[Switch],
    ) -> Self {
        let account = &verdict.account;
        let reigns = &history.recorded.reigns;
        let published = reigns.values().filter_map(|reign| reign.published_ms);
        let settled = account.done + account.in_doubt + account.errors;
        #[allow(clippy::cast_precision_loss)]
        let rate = settled as f64 / seconds;
        Self {
            store: store.to_string(),
            seed,
            counts: vec![
                ("published", account.generated),
                ("done", account.done + account.in_doubt),
                ("failed", account.errors),
                ("lost", account.lost),
                ("settled_twice", account.twice),
                ("handled_more_than_once", verdict.handled_more_than_once),
                ("effects_twice", verdict.effects_twice),
                ("chains_complete", verdict.chains),
                ("groups_in_order", verdict.in_order),
                ("generators", reigns.len() as u64),
            ],
            seconds,
            rate,
            failovers: Times::new(times::failover_gaps_ms(published)),
            redeliveries: Times::new(times::redelivery_delays_ms(history)),
            switches: Switched::new(&history.recorded.told_ms, switches),
            faults,
            findings: verdict.findings,
        }
    }

    /// Nobody need be listening, and the exit code says the same; but a result that could not be written is none.
    pub(super) fn keep_and_print(&self, directory: &Directory, as_json: bool) -> std::io::Result<()> {
        let (table, json) = (self.table(directory.kept()), self.json());
        for (name, text) in [("result.txt", &table), ("result.json", &json)] {
            // The directory is for later; the verdict is printed all the same.
            let _ = std::fs::write(directory.path.join(name), text);
        }
        let printed = std::io::stdout().write_all(if as_json { json } else { table }.as_bytes());
        for finding in self.findings.iter().take(PRINTED_MAX) {
            let _ = writeln!(std::io::stderr(), "queenright: {}", escape(finding.as_bytes()));
        }
        printed.or_else(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })
    }

    // Writing to a String cannot fail.
    fn table(&self, kept: Option<&Path>) -> String {
        let mut out = format!("verified on {}", self.store);
        if let Some(seed) = self.seed {
            let _ = write!(out, ", seed {seed}");
        }
        out.push('\n');
        let mut row = |name: &str, value: String| _ = writeln!(out, "  {name:<28}{value}");
        for (name, count) in &self.counts {
            let meaning = meaning(name).filter(|_| *count > 0);
            let meaning = meaning.map_or(String::new(), |text| format!("  ({text})"));
            row(&name.replace('_', " "), format!("{count}{meaning}"));
        }
        row("time", format!("{:.2} s", self.seconds));
        row("messages/s", format!("{:.0}", self.rate));
        for (name, times, what) in [
            ("failovers", &self.failovers, "from the last message to the next"),
            ("redeliveries", &self.redeliveries, "from the fault to the next holder"),
        ] {
            let count = times.0.len();
            row(
                name,
                match count {
                    0 => "0".into(),
                    _ => format!(
                        "{count}  ({what}: median {} ms, p99 {} ms, max {} ms)",
                        times.percentile(50),
                        times.percentile(99),
                        times.percentile(100)
                    ),
                },
            );
        }
        let Switched {
            silences,
            ready,
            after_ready,
            together,
            after_together,
            all_well,
        } = &self.switches;
        if !silences.0.is_empty() {
            let most = |times: &Times| {
                format!(
                    "median {} ms, p99 {} ms, max {} ms",
                    times.percentile(50),
                    times.percentile(99),
                    times.percentile(100)
                )
            };
            row(
                "primaries changed",
                format!("{}  (silence: {})", silences.0.len(), most(silences)),
            );
            for (name, until, own, after) in [
                ("- Redis' own time", "another primary was there", ready, after_ready),
                ("", "all followed it", together, after_together),
            ] {
                row(name, format!("until {until}: {}", most(own)));
                row("", format!("the next message after that: {}", most(after)));
            }
            let count = all_well.0.len();
            row(
                "- all copies well",
                format!(
                    "{count}  (no copy had been killed or stopped for a lease; from the primary, with its replicas if they are waited for, to the next message: {})",
                    most(all_well)
                ),
            );
        }
        if !self.faults.is_empty() {
            row("faults", self.faults.values().sum::<u64>().to_string());
            for (name, count) in self.faults.iter().filter(|(_, count)| **count > 0) {
                row(&format!("- {}", name.replace('_', " ")), count.to_string());
            }
            let missing = self.faults.iter().filter(|(_, count)| **count == 0);
            let missing: Vec<String> = missing.map(|(name, _)| name.replace('_', " ")).collect();
            if !missing.is_empty() {
                let text = format!("{}  (a longer --duration has all)", missing.join(", "));
                row("faults that did not come", text);
            }
        }
        let verdict = if self.findings.is_empty() {
            "every message has one outcome; nothing was lost, nothing settled twice".to_string()
        } else {
            let count = self.findings.len();
            let plural = if count == 1 { "" } else { "s" };
            format!("NOT verified: {count} finding{plural}, named on stderr and in result.json")
        };
        let _ = writeln!(out, "{verdict}");
        if let Some(kept) = kept {
            let _ = writeln!(out, "plan, books, logs and samples are in {}", kept.display());
        }
        out
    }

    fn json(&self) -> String {
        let mut out = String::from("{");
        for (name, count) in &self.counts {
            json::number(&mut out, name, *count);
        }
        let _ = write!(
            out,
            ",\"seconds\":{:.3},\"messages_per_second\":{:.0}",
            self.seconds, self.rate
        );
        let switches = &self.switches;
        for (name, times) in [
            ("failovers", &self.failovers),
            ("redeliveries", &self.redeliveries),
            ("primaries_changed", &switches.silences),
            ("primaries_ready", &switches.ready),
            ("went_on_after_ready", &switches.after_ready),
            ("primaries_followed", &switches.together),
            ("went_on_after_followed", &switches.after_together),
            ("went_on_with_all_copies_well", &switches.all_well),
        ] {
            let _ = write!(
                out,
                ",\"{name}\":{{\"count\":{},\"p50_ms\":{},\"p99_ms\":{},\"max_ms\":{}}}",
                times.0.len(),
                times.percentile(50),
                times.percentile(99),
                times.percentile(100)
            );
        }
        out.push_str(",\"faults\":{");
        for (name, count) in &self.faults {
            json::number(&mut out, name, *count);
        }
        out.push('}');
        if let Some(seed) = self.seed {
            json::number(&mut out, "seed", seed);
        }
        json::text(&mut out, "store", &self.store);
        let findings: Vec<String> = self.findings.iter().map(|finding| json::quoted(finding)).collect();
        let _ = writeln!(out, ",\"findings\":[{}]}}", findings.join(","));
        out
    }
}

pub(super) fn write_samples(directory: &Path, samples: &[Sample]) -> std::io::Result<()> {
    let lines: String = samples.iter().map(|sample| json::for_terminal(sample) + "\n").collect();
    std::fs::write(directory.join("samples.jsonl"), lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(handled_more_than_once: u64, faults: &[(&'static str, u64)]) -> Report {
        Report {
            store: "a file".into(),
            seed: Some(7),
            counts: vec![
                ("published", 9),
                ("failed", 0),
                ("handled_more_than_once", handled_more_than_once),
            ],
            seconds: 1.0,
            rate: 9.0,
            failovers: Times::new(Vec::new()),
            redeliveries: Times::new(Vec::new()),
            switches: Switched::new(
                &[0, 1000, 5200],
                &[Switch {
                    struck: 1200,
                    ready: 4200,
                    together: 4700,
                    all_well: true,
                    needs_replicas: false,
                }],
            ),
            faults: faults.iter().copied().collect(),
            findings: Vec::new(),
        }
    }

    fn row(table: &str, name: &str) -> Option<String> {
        let row = table.lines().find_map(|line| line.trim_start().strip_prefix(name));
        row.map(|rest| rest.trim().into())
    }

    #[test]
    fn handling_that_began_again_is_said_to_be_allowed() {
        let table = report(3, &[]).table(None);
        let row = row(&table, "handled more than once").expect("a row");
        for words in ["3 ", "allowed", "its node was lost", "one outcome"] {
            assert!(row.contains(words), "{words}: {table}");
        }
    }

    #[test]
    fn what_was_redis_own_time_is_told_apart() {
        let table = report(0, &[]).table(None);
        for words in [
            "1  (silence: median 4200 ms",
            "until another primary was there: median 3000 ms",
            "after that: median 1000 ms",
            "until all followed it: median 3500 ms",
            "after that: median 500 ms",
            "1  (no copy had been killed or stopped for a lease; from the primary, with its replicas if they are waited for, to the next message: median 1000 ms",
        ] {
            assert!(table.contains(words), "{words}: {table}");
        }
    }

    #[test]
    fn what_did_not_occur_needs_no_words() {
        let table = report(0, &[]).table(None);
        assert_eq!(row(&table, "handled more than once").as_deref(), Some("0"), "{table}");
        assert_eq!(row(&table, "failed").as_deref(), Some("0"), "{table}");
        assert!(!table.contains("faults"), "{table}");
    }

    #[test]
    fn faults_of_the_plan_that_did_not_come_are_named() {
        let faults = [
            ("generator_killed", 2),
            ("redis_slept", 0),
            ("no_candidates", 0),
            ("reader_killed", 1),
        ];
        let table = report(0, &faults).table(None);
        assert_eq!(row(&table, "faults ").as_deref(), Some("3"), "{table}");
        assert_eq!(row(&table, "- generator killed").as_deref(), Some("2"), "{table}");
        let missing = row(&table, "faults that did not come").expect("a row");
        assert_eq!(missing, "no candidates, redis slept  (a longer --duration has all)");
        assert_eq!(row(&table, "- redis slept"), None, "{table}");
        let all_came = report(0, &[("generator_killed", 2)]).table(None);
        assert!(!all_came.contains("did not come"), "{all_came}");
        // Programs find all of them, by their names.
        assert!(report(0, &faults).json().contains("\"redis_slept\":0"));
    }
}
