//! The text form of Prometheus, read strictly: every sample has a type and a help, names and labels are as the format has
//! them, counters end in `_total`, and histograms are cumulative and end in +Inf.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
pub struct Sample {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

impl Sample {
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Default)]
pub struct Scrape {
    kinds: BTreeMap<String, Kind>,
    pub samples: Vec<Sample>,
}

impl Scrape {
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line has no end".into());
        }
        let (mut scrape, mut helped, mut closed) = (Self::default(), BTreeSet::new(), BTreeSet::new());
        let mut family = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').ok_or(format!("no help: {line}"))?;
                if help.is_empty() || !helped.insert(name.to_string()) {
                    return Err(format!("helps twice, or not at all: {line}"));
                }
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').ok_or(format!("no type: {line}"))?;
                let kind = match kind {
                    "counter" => Kind::Counter,
                    "gauge" => Kind::Gauge,
                    "histogram" => Kind::Histogram,
                    _ => return Err(format!("unknown type: {line}")),
                };
                if !is_name(name) || !helped.contains(name) || (kind == Kind::Counter) != name.ends_with("_total") {
                    return Err(format!("bad name, no help, or no counter: {line}"));
                }
                if !closed.insert(name.to_string()) {
                    return Err(format!("a family in two places: {line}"));
                }
                scrape.kinds.insert(name.to_string(), kind);
                family = name.to_string();
            } else {
                let sample = sample(line)?;
                if scrape.family(&sample.name).map(|(name, _)| name) != Some(family.as_str()) {
                    return Err(format!("a sample outside its family: {line}"));
                }
                scrape.samples.push(sample);
            }
        }
        scrape.check_histograms()?;
        Ok(scrape)
    }

    fn family(&self, name: &str) -> Option<(&str, Kind)> {
        if let Some((name, kind)) = self.kinds.get_key_value(name) {
            return Some((name, *kind));
        }
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|part| name.strip_suffix(part))?;
        let (base, kind) = self.kinds.get_key_value(base)?;
        (*kind == Kind::Histogram).then_some((base, *kind))
    }

    /// The kind of the family that a name belongs to, if there is a sample of that name.
    pub fn kind(&self, name: &str) -> Option<Kind> {
        let there = self.samples.iter().any(|sample| sample.name == name);
        self.family(name).map(|(_, kind)| kind).filter(|_| there)
    }

    /// The value of the only sample of this name.
    pub fn value(&self, name: &str) -> Option<f64> {
        let mut found = self.samples.iter().filter(|sample| sample.name == name);
        found.next().map(|sample| sample.value)
    }

    /// How many messages are in this state.
    pub fn state(&self, state: &str) -> Option<f64> {
        let mut found = self
            .samples
            .iter()
            .filter(|sample| sample.label("state") == Some(state));
        found.next().map(|sample| sample.value)
    }

    fn check_histograms(&self) -> Result<(), String> {
        for (name, _) in self.kinds.iter().filter(|(_, kind)| **kind == Kind::Histogram) {
            let bucket = format!("{name}_bucket");
            let buckets = self.samples.iter().filter(|sample| sample.name == bucket);
            let mut last = (f64::NEG_INFINITY, 0.0);
            for sample in buckets {
                let bound = sample.label("le").ok_or(format!("{name}: a bucket without a bound"))?;
                let bound = if bound == "+Inf" { f64::INFINITY } else { number(bound)? };
                if bound <= last.0 || sample.value < last.1 {
                    return Err(format!("{name}: not cumulative at {bound}"));
                }
                last = (bound, sample.value);
            }
            let count = self.value(&format!("{name}_count"));
            if !last.0.is_infinite()
                || last.0 < 0.0
                || count != Some(last.1)
                || self.value(&format!("{name}_sum")).is_none()
            {
                return Err(format!("{name}: no end, or sum and count are missing or differ"));
            }
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("no number: {text}"))
}

/// `name{label="value",…} number`
fn sample(line: &str) -> Result<Sample, String> {
    let wrong = || format!("no sample: {line:?}");
    let end = line.find(['{', ' ']).ok_or_else(wrong)?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").ok_or_else(wrong)?;
            let (mut value, mut characters) = (String::new(), after.char_indices());
            let end = loop {
                match characters.next().ok_or_else(wrong)? {
                    (end, '"') => break end,
                    (_, '\\') => match characters.next().ok_or_else(wrong)? {
                        (_, 'n') => value.push('\n'),
                        (_, c @ ('\\' | '"')) => value.push(c),
                        _ => return Err(wrong()),
                    },
                    (_, c) => value.push(c),
                }
            };
            if !is_name(label) || labels.iter().any(|(other, _)| other == label) {
                return Err(wrong());
            }
            labels.push((label.to_string(), value));
            rest = &after[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').ok_or_else(wrong)?;
    if !is_name(name) {
        return Err(wrong());
    }
    Ok(Sample {
        name: name.to_string(),
        labels,
        value: number(value)?,
    })
}

#[test]
fn what_is_no_exposition_is_refused() {
    let good = "# HELP a_total A.\n# TYPE a_total counter\na_total{b=\"c\\\"\"} 1\n";
    assert!(Scrape::parse(good).is_ok());
    for bad in [
        "a_total 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        "# TYPE a gauge\na 1\n",
        "# HELP a A.\n# TYPE a gauge\na x\n",
        "# HELP a A.\n# TYPE a gauge\na{b=\"c} 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
        "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
    ] {
        assert!(Scrape::parse(bad).is_err(), "{bad}");
    }
}
