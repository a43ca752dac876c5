//! Figures for Prometheus and its relatives, and the server that a node has with `--metrics`. `table` has every metric,
//! `text` the format.

mod table;
mod text;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use crate::app::http::host::Hosts;
use crate::app::http::{self, Body, Handler};
use crate::engine::{Engine, Status};
use crate::node::meter::Meter;
use crate::node::shutdown::Shutdown;
use crate::settings::Settings;
use table::{BUILD, NODE, Node, QUEUE};
use text::Text;

pub(in crate::app) use text::CONTENT_TYPE;

/// A status of the queue is good for this time, however often it is asked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long it may take: Prometheus waits for ten seconds by default.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// The figures of a queue alone.
pub(crate) fn of_queue(name: &str, status: Option<&Status>) -> String {
    of(name, None, status)
}

fn of(queue: &str, node: Option<&Node>, status: Option<&Status>) -> String {
    let mut text = Text::new(queue);
    text.add(BUILD, &());
    if let Some(node) = node {
        text.add(NODE, node);
    }
    if let Some(status) = status {
        text.add(QUEUE, status);
    }
    text.finish()
}

/// What a node serves with `--metrics`.
pub(crate) struct Metrics<E> {
    engine: Arc<E>,
    meter: Arc<Meter>,
    settings: Settings,
    /// The node's, not the server's: that one answers until the node is gone.
    shutdown: Shutdown,
    hosts: Hosts,
    looked: tokio::sync::Mutex<Option<(Instant, Status)>>,
}

impl<E: Engine> Metrics<E> {
    pub(crate) fn new(
        engine: Arc<E>,
        meter: Arc<Meter>,
        settings: Settings,
        shutdown: Shutdown,
        hosts: &[String],
    ) -> Self {
        Self {
            engine,
            meter,
            settings,
            shutdown,
            hosts: Hosts::new(hosts),
            looked: tokio::sync::Mutex::new(None),
        }
    }

    async fn text(&self) -> String {
        let node = Node {
            totals: self.meter.totals(),
            meter: self.meter.clone(),
            concurrency: self.settings.concurrency,
            store_is_up: self.store_is_up(),
        };
        of(&self.settings.queue, Some(&node), self.status().await.as_ref())
    }

    /// One node is enough to tell how the queue is, and the generator is one.
    async fn status(&self) -> Option<Status> {
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

    /// The store has answered within twice the time in which a node must be heard.
    fn store_is_up(&self) -> bool {
        let silence = self.meter.silence();
        silence.is_some_and(|silence| silence < 2 * self.settings.lease)
    }

    fn readiness(&self) -> Result<(), &'static str> {
        if self.shutdown.is_stopping() {
            Err("stopping\n")
        } else if self.meter.silence().is_none() {
            Err("not a member yet\n")
        } else if !self.store_is_up() {
            Err("the store does not answer\n")
        } else {
            Ok(())
        }
    }
}

impl<E: Engine> Handler for Metrics<E> {
    async fn answer(&self, _: SocketAddr, request: Request<Incoming>) -> Response<Body> {
        if let Err(wrong) = self.hosts.check(request.uri(), request.headers()) {
            return http::text(StatusCode::FORBIDDEN, format!("{wrong}\n"));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return http::text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        match request.uri().path() {
            "/metrics" => http::answer(StatusCode::OK, CONTENT_TYPE, self.text().await),
            "/healthz" => http::text(StatusCode::OK, "ok\n"),
            "/readyz" => match self.readiness() {
                Ok(()) => http::text(StatusCode::OK, "ready\n"),
                Err(why) => http::text(StatusCode::SERVICE_UNAVAILABLE, why),
            },
            _ => http::text(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n"),
        }
    }
}
