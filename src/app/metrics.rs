//! The server that a node has with `--metrics`: `api::metrics` has the figures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use crate::api::metrics;
use crate::app::http::host::Hosts;
use crate::app::http::{self, Body, Handler};
use crate::engine::{Engine, Status};
use crate::node::meter::Meter;
use crate::node::shutdown::Shutdown;
use crate::settings::Settings;

pub(in crate::app) use crate::api::metrics::{CONTENT_TYPE, of_queue};

/// A status of the queue is good for this time, however often it is asked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long it may take: Prometheus waits for ten seconds by default.
const LOOK_MAX: Duration = Duration::from_secs(2);

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
        metrics::of_node(&self.settings, &self.meter, self.status().await.as_ref())
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

    fn readiness(&self) -> Result<(), &'static str> {
        if self.shutdown.is_stopping() {
            Err("stopping\n")
        } else if self.meter.silence().is_none() {
            Err("not a member yet\n")
        } else if !metrics::store_is_up(&self.settings, &self.meter) {
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
