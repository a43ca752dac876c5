//! Figures for Prometheus and its relatives: the text form of its exposition format, and the server that a node has with
//! `--metrics`. Names and units follow the conventions there: seconds, `_total` for what only grows.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use crate::app::http::{self, Body, Handler};
use crate::engine::history::{BOUNDS_US, Times};
use crate::engine::{Engine, Status};
use crate::node::meter::Meter;
use crate::node::shutdown::Shutdown;
use crate::settings::Settings;

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// A look at the queue is good for this time, however often it is asked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// And it may take so long: whoever scrapes waits for ten seconds by default.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// The figures of one queue, as text.
pub(crate) struct Text {
    out: String,
    /// `queue="…"`
    queue: String,
}

impl Text {
    pub(crate) fn new(queue: &str) -> Self {
        let mut text = Self {
            out: String::new(),
            queue: format!("queue=\"{}\"", label(queue)),
        };
        let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
        text.head("queenright_build_info", "gauge", "The version that runs.");
        text.line("queenright_build_info", &version, "1");
        text
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let _ = writeln!(self.out, "{name}{{{}{comma}{labels}}} {value}", self.queue);
    }

    fn one(&mut self, kind: &str, name: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        self.line(name, "", &value.to_string());
    }

    fn times(&mut self, name: &str, help: &str, times: &Times) {
        self.head(name, "histogram", help);
        let (bucket, mut below) = (format!("{name}_bucket"), 0);
        for (count, bound) in times.counts.iter().zip(BOUNDS_US) {
            below += count;
            self.line(&bucket, &format!("le=\"{}\"", seconds(bound)), &below.to_string());
        }
        self.line(&bucket, "le=\"+Inf\"", &times.count().to_string());
        self.line(&format!("{name}_sum"), "", &seconds(times.sum_us));
        self.line(&format!("{name}_count"), "", &times.count().to_string());
    }

    /// What a node counts of itself.
    pub(crate) fn node(&mut self, meter: &Meter, settings: &Settings) {
        let figures = meter.totals();
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        self.head(
            "process_start_time_seconds",
            "gauge",
            "When this process started, in seconds since 1970.",
        );
        self.line("process_start_time_seconds", "", &seconds(meter.started_ms * 1000));
        for (name, help, value) in [
            (
                "queenright_messages_published_total",
                "Messages that this node generated and the store confirmed.",
                figures.published,
            ),
            (
                "queenright_messages_done_total",
                "Messages that this node settled as done.",
                figures.done,
            ),
            (
                "queenright_messages_failed_total",
                "Messages that this node settled as errors.",
                figures.failed,
            ),
            (
                "queenright_messages_retried_total",
                "Messages that failed on this node and were put off to be tried again.",
                figures.retried,
            ),
            (
                "queenright_messages_redelivered_total",
                "Messages that this node took and another had taken before it.",
                load(&meter.redelivered),
            ),
            (
                "queenright_elections_total",
                "How often this node became the generator.",
                load(&meter.elections),
            ),
        ] {
            self.one("counter", name, help, value);
        }
        self.times(
            "queenright_handle_seconds",
            "What the handler took for a message.",
            &figures.handle,
        );
        self.times(
            "queenright_wait_seconds",
            "From publishing a message to the start of its first handling, exact to a millisecond.",
            &figures.wait,
        );
        for (name, help, value) in [
            (
                "queenright_node_messages_in_hand",
                "Messages that this node has taken and not settled.",
                load(&meter.in_hand),
            ),
            (
                "queenright_node_concurrency",
                "How many messages this node handles at once.",
                settings.concurrency.into(),
            ),
            (
                "queenright_node_generates",
                "1 while this node is the generator.",
                meter.generates.load(Ordering::Relaxed).into(),
            ),
            (
                "queenright_store_up",
                "1 while the store answers this node.",
                is_up(meter, settings).into(),
            ),
        ] {
            self.one("gauge", name, help, value);
        }
    }

    /// How the queue is: the same from wherever it is looked at.
    pub(crate) fn queue(&mut self, status: &Status) {
        let name = "queenright_queue_messages";
        self.head(name, "gauge", "Messages in the store, by where they are.");
        for (state, value) in [
            ("queued", status.queued),
            ("in_hand", status.in_hand),
            ("later", status.later),
            ("errors", status.errors),
        ] {
            self.line(name, &format!("state=\"{state}\""), &value.to_string());
        }
        for (name, help, value) in [
            (
                "queenright_queue_published_total",
                "Messages published or pushed, by all nodes.",
                status.published,
            ),
            (
                "queenright_queue_done_total",
                "Messages done, by all nodes.",
                status.done,
            ),
            (
                "queenright_queue_failed_total",
                "Messages that became errors, by all nodes.",
                status.failed,
            ),
            (
                "queenright_queue_requeued_total",
                "Errors that were given another life.",
                status.requeued,
            ),
            (
                "queenright_queue_trimmed_total",
                "Errors that were removed because there were too many.",
                status.trimmed,
            ),
            (
                "queenright_queue_rewinds_total",
                "How often the store was found to have lost acknowledged writes.",
                status.rewinds,
            ),
        ] {
            self.one("counter", name, help, value);
        }
        let name = "queenright_queue_paused";
        self.head(name, "gauge", "1 while this part stands still.");
        for (part, paused) in [
            ("generator", status.paused.generator),
            ("handlers", status.paused.handlers),
        ] {
            self.line(name, &format!("part=\"{part}\""), &u64::from(paused).to_string());
        }
        for (name, help, value) in [
            (
                "queenright_queue_nodes",
                "Nodes that are alive.",
                status.nodes.len() as u64,
            ),
            (
                "queenright_queue_has_generator",
                "1 while there is a generator.",
                status.generator.is_some().into(),
            ),
            (
                "queenright_queue_epoch",
                "The number of the present reign: one more with each election.",
                status.epoch,
            ),
        ] {
            self.one("gauge", name, help, value);
        }
    }
}

/// A label's value as the format has it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Microseconds as seconds, without the noise of a float.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let text = text.trim_end_matches('0');
    text.trim_end_matches('.').to_string()
}

/// The store has answered within twice the time in which a node must be heard.
fn is_up(meter: &Meter, settings: &Settings) -> bool {
    meter.silence().is_some_and(|silence| silence < 2 * settings.lease)
}

/// What a node serves with `--metrics`.
pub(crate) struct Metrics<E> {
    pub engine: Arc<E>,
    pub meter: Arc<Meter>,
    pub settings: Settings,
    /// The node's, not the server's: that one answers until the node is gone.
    pub shutdown: Shutdown,
    pub looked: tokio::sync::Mutex<Option<(Instant, Status)>>,
}

impl<E: Engine> Metrics<E> {
    /// One node is enough to tell how the queue is, and the generator is one.
    async fn look(&self) -> Option<Status> {
        if !self.meter.generates.load(Ordering::Relaxed) {
            return None;
        }
        let mut looked = self.looked.lock().await;
        if looked.as_ref().is_none_or(|(at, _)| at.elapsed() >= LOOK_AGAIN) {
            let look = tokio::time::timeout(LOOK_MAX, self.engine.status()).await;
            *looked = look.ok().and_then(Result::ok).map(|status| (Instant::now(), status));
        }
        looked.as_ref().map(|(_, status)| status.clone())
    }

    fn readiness(&self) -> Result<(), &'static str> {
        if self.shutdown.is_stopping() {
            return Err("stopping\n");
        }
        match self.meter.silence() {
            None => Err("not a member yet\n"),
            Some(_) if !is_up(&self.meter, &self.settings) => Err("the store does not answer\n"),
            Some(_) => Ok(()),
        }
    }
}

impl<E: Engine> Handler for Metrics<E> {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return http::text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        match request.uri().path() {
            "/metrics" => {
                let mut text = Text::new(&self.settings.queue);
                text.node(&self.meter, &self.settings);
                if let Some(status) = self.look().await {
                    text.queue(&status);
                }
                http::answer(StatusCode::OK, CONTENT_TYPE, text.finish())
            }
            "/healthz" => http::text(StatusCode::OK, "ok\n"),
            "/readyz" => match self.readiness() {
                Ok(()) => http::text(StatusCode::OK, "ready\n"),
                Err(why) => http::text(StatusCode::SERVICE_UNAVAILABLE, why),
            },
            _ => http::text(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_as_short_as_they_can_be() {
        for (us, text) in [
            (0, "0"),
            (10, "0.00001"),
            (1_500_000, "1.5"),
            (100_000_000, "100"),
            (123_456, "0.123456"),
        ] {
            assert_eq!(seconds(us), text);
        }
    }

    #[test]
    fn the_name_of_a_queue_cannot_leave_its_quotes() {
        let mut text = Text::new("a\"b\\c\nd");
        text.one("gauge", "queenright_x", "X.", 1);
        let text = text.finish();
        assert!(text.ends_with("queenright_x{queue=\"a\\\"b\\\\c\\nd\"} 1\n"), "{text}");
    }
}
