//! How values are written. A complaint says what to write instead.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use super::program::{Program, Source};
use super::url::Url;
use crate::api::cron::Missed;
use crate::engine::Rate;
use crate::settings::Prefer;

/// Where the dashboard is served unless told otherwise.
pub const LISTEN: &str = "127.0.0.1:8077";

/// Longer than this is a slip of the pen.
const DURATION_MAX: Duration = Duration::from_hours(366 * 24);

/// How long the built-in handler works on one message: any time in between, all equally likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    pub low: Duration,
    pub high: Duration,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            low: Duration::ZERO,
            high: Duration::from_secs(1),
        }
    }
}

impl Work {
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.high.is_zero()
    }

    /// A random time within the range.
    #[must_use]
    pub fn sample(&self) -> Duration {
        if self.low == self.high {
            return self.low;
        }
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(fastrand::u64(nanos(self.low)..=nanos(self.high)))
    }
}

/// What the built-in generator makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    Counter,
    Text,
    /// The time of the tick.
    Tick,
}

/// Who generates messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Generating {
    Builtin(Builtin),
    /// The lines of a child that lives on, or of stdin.
    Lines(Source),
    /// A process for each message.
    Each(Program),
}

/// Who handles messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handling {
    /// The handler of the task.
    Builtin,
    /// One child that lives on.
    Child(Program),
    /// A process for each message.
    Each(Program),
    /// A POST for each message.
    Http(Url),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Where a copy serves the dashboard; `true` is the usual place.
pub fn dashboard(text: &str) -> Result<SocketAddr, String> {
    listen(if text == "true" { LISTEN } else { text })
}

/// An address with a port. Names are not looked up, but for the one that everybody types.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into());
    }
    text.parse()
        .map_err(|_| format!("write an address and a port, as {LISTEN} or [::1]:8077"))
}

pub fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text} needs a unit: write {text}ms or {text}s"));
    }
    match humantime::parse_duration(text) {
        Ok(time) if time <= DURATION_MAX => Ok(time),
        Ok(_) => Err("must be at most a year".into()),
        Err(_) => Err(format!("'{text}' is no duration: write 500ms, 2s, 1m or 0")),
    }
}

/// `LOW..HIGH`, or one duration for both.
pub fn work(text: &str) -> Result<Work, String> {
    let Some((low, high)) = text.split_once("..") else {
        let time = duration(text)?;
        return Ok(Work { low: time, high: time });
    };
    if low.trim().is_empty() || high.trim().is_empty() {
        return Err(format!("'{text}' lacks an end: write 0..1s"));
    }
    let (low, high) = (duration(low.trim())?, duration(high.trim())?);
    if low > high {
        return Err(format!("'{text}' begins above its end: write the shorter time first"));
    }
    Ok(Work { low, high })
}

pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate.abs()),
        _ => Err(format!("'{text}' is no rate: write a number from 0 to 1, such as 0.15")),
    }
}

/// `NAME=VALUE`.
pub fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

/// A rate, or none, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateOrNone(pub Option<Rate>);

impl FromStr for RateOrNone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        limit(text).map(Self)
    }
}

/// A rate, or none.
pub fn limit(text: &str) -> Result<Option<Rate>, String> {
    match text {
        "none" => Ok(None),
        text => text.parse().map(Some).map_err(|why: String| format!("{why}, or none")),
    }
}

/// A number that is too large for a `u32` or less becomes the largest: whoever checks it says how large it may be.
pub fn within<T: FromStr>(text: &str, largest: T) -> Result<T, String> {
    whole::<u64>(text).map(|_| text.parse().unwrap_or(largest))
}

pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{text}' is no whole number: write digits only"));
    }
    text.parse().map_err(|_| format!("{text} is too large"))
}

/// Where to listen: a host or an address, and a port. Port 0 is any that is free.
pub fn place(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_string()),
        _ => Err(format!(
            "'{text}' is no place to listen at: write 127.0.0.1:9464 or [::1]:9464"
        )),
    }
}

/// Kubernetes sets `REDIS_PORT=tcp://10.0.0.1:6379` where a service is called redis.
pub fn port(text: &str) -> Result<u16, String> {
    let service = text.strip_prefix("tcp://").and_then(|place| place.rsplit(':').next());
    match service.unwrap_or(text).parse() {
        Ok(0) | Err(_) => Err(format!("'{text}' is no port: write a number from 1 to 65535")),
        Ok(port) => Ok(port),
    }
}

pub fn db(text: &str) -> Result<i64, String> {
    whole::<i64>(text).map_err(|_| format!("'{text}' is no database: write its number, such as 0"))
}

pub fn yes(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

/// For what is on unless told otherwise.
pub fn no(text: &str) -> Result<bool, String> {
    yes(text).map(|yes| !yes)
}

/// One of these words; the complaint lists them.
fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    let (last, others) = words.split_last().expect("there is something to choose");
    Err(format!("'{text}' is not known: write {} or {last}", others.join(", ")))
}

pub fn prefer(text: &str) -> Result<Prefer, String> {
    let choices = [
        ("generator", Prefer::Generator),
        ("either", Prefer::Either),
        ("handler", Prefer::Handler),
        ("never", Prefer::Never),
    ];
    choice(text, &choices)
}

/// A built-in generator, `-` for stdin, or else a command.
pub fn generator(text: &str) -> Result<Generating, String> {
    match text {
        "counter" => Ok(Generating::Builtin(Builtin::Counter)),
        "text" => Ok(Generating::Builtin(Builtin::Text)),
        "tick" => Ok(Generating::Builtin(Builtin::Tick)),
        "-" => Ok(Generating::Lines(Source::Stdin)),
        _ => Program::parse(text).map(|program| Generating::Lines(Source::Program(program))),
    }
}

pub fn missed(text: &str) -> Result<Missed, String> {
    choice(text, &[("once", Missed::Once), ("skip", Missed::Skip)])
}

/// A URL, or else a command.
pub fn handler(text: &str) -> Result<Handling, String> {
    if Url::is_meant(text) {
        Url::parse(text).map(Handling::Http)
    } else {
        Program::parse(text).map(Handling::Child)
    }
}

pub fn log(text: &str) -> Result<LogFormat, String> {
    choice(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_except_zero() {
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1m"), Ok(Duration::from_mins(1)));
        assert_eq!(duration("500").unwrap_err(), "500 needs a unit: write 500ms or 500s");
        for wrong in ["", "abc", "-1s", "1 parsec", "99999999999999999999s", "9999years"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn work_is_a_range_or_one_time() {
        assert_eq!(work("0..1s"), Ok(Work::default()));
        assert!(work("0").unwrap().is_zero());
        assert_eq!(work("20ms").unwrap().low, work("20ms").unwrap().high);
        for wrong in ["1s..0", "..1s", "1s..", "0..1", "0...1s", "5"] {
            assert!(work(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn samples_stay_within_the_range() {
        let work = work("10ms..20ms").unwrap();
        for _ in 0..1000 {
            let time = work.sample();
            assert!(time >= work.low && time <= work.high, "{time:?}");
        }
    }

    #[test]
    fn rates_are_from_0_to_1() {
        assert_eq!(rate("0.15"), Ok(0.15));
        assert_eq!(rate("1"), Ok(1.0));
        for wrong in ["15%", "-0.1", "1.01", "NaN", "inf", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_digits_and_fit() {
        assert_eq!(whole::<u32>("10000"), Ok(10_000));
        assert_eq!(whole::<u16>("70000").unwrap_err(), "70000 is too large");
        for wrong in ["", "+1", "-1", "1.5", "x"] {
            assert!(whole::<u32>(wrong).is_err(), "{wrong}");
        }
        assert!(port("0").is_err() && port("65536").is_err() && port("6379").is_ok());
        assert_eq!(port("tcp://10.0.0.1:6379"), Ok(6379));
        assert!(db("-1").is_err() && db("15").is_ok());
    }

    #[test]
    fn a_place_is_an_address_and_a_port() {
        for (text, wanted) in [
            ("127.0.0.1:8077", "127.0.0.1:8077"),
            ("[::1]:0", "[::1]:0"),
            ("localhost:80", "127.0.0.1:80"),
        ] {
            assert_eq!(listen(text), Ok(wanted.parse().unwrap()));
        }
        for wrong in [
            "",
            "8077",
            ":8077",
            "127.0.0.1",
            "example.org:80",
            "localhost:",
            "127.0.0.1:99999",
        ] {
            assert!(listen(wrong).is_err(), "{wrong}");
        }
    }
}
