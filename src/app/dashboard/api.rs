//! What is served where: the page, the API, and what machines ask for.

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::Dashboard;
use super::reply::{Answer, Refusal, Reply, json, ok, protect, whole};
use super::request::{Query, body};
use super::route::Route;
use super::{errors, page};
use crate::api::push::{KEEP, push};
use crate::app::base64;
use crate::app::http::{Handler, text};
use crate::app::metrics;
use crate::app::output::view::{PausedView, StoreView};
use crate::engine::{Engine, Handover, Item};
use crate::error::Error;

const OPENAPI: &str = include_str!("openapi.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    payload: Option<String>,
    payload_base64: Option<String>,
    key: Option<String>,
    delay_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pause {
    generator: Option<bool>,
    handlers: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct To {
    node: Option<String>,
}

impl<E: Engine> Handler for Dashboard<E> {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let mut reply = self.route(request).await.unwrap_or_else(Reply::from);
        protect(&mut reply);
        reply
    }
}

impl<E: Engine> Dashboard<E> {
    async fn route(&self, request: Request<Incoming>) -> Answer {
        self.access.check_place(request.uri(), request.headers())?;
        let path = request.uri().path().to_string();
        let looks = matches!(*request.method(), Method::GET | Method::HEAD);
        let health = || (path == "/healthz").then(|| text(StatusCode::OK, "ok\n"));
        if let Some(fixed) = page::find(&path).or_else(health) {
            return looks.then_some(fixed).ok_or_else(|| Refusal::method("GET, HEAD"));
        }
        if looks && matches!(&*path, "/metrics" | "/readyz") {
            self.access.check_person(request.headers())?;
            return Ok(self.for_machines(&path).await);
        }
        let route = path.strip_prefix("/api/v1/").map(Route::of);
        if !matches!(route, Some(Some(route)) if route.is_open()) {
            self.access.check_person(request.headers())?;
        }
        let Some(route) = route.flatten() else {
            return Err(Refusal::missing("there is nothing here; see /api/v1/openapi.json"));
        };
        let served = route.methods();
        if !served.split(", ").any(|method| method == request.method().as_str()) {
            return Err(Refusal::method(served));
        }
        if self.access.read_only && !looks && route != Route::Session {
            let line = "this dashboard is read-only (--read-only)";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "read_only", line));
        }
        self.serve(route, request).await
    }

    /// The queue for Prometheus, and whether the store answers. What a node counts of itself, it serves with `--metrics`.
    async fn for_machines(&self, path: &str) -> Reply {
        let looked = self.engine.status().await;
        if path == "/readyz" {
            return match looked {
                Ok(_) | Err(Error::NoQueue { .. }) => text(StatusCode::OK, "ready\n"),
                Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n"),
            };
        }
        let figures = metrics::of_queue(&self.settings.queue, looked.ok().as_ref());
        whole(StatusCode::OK, metrics::CONTENT_TYPE, figures)
    }

    async fn serve(&self, route: Route, request: Request<Incoming>) -> Answer {
        let (engine, query) = (&*self.engine, request.uri().query().map(str::to_string));
        let query = query.as_deref();
        if route.takes_no_parameters() {
            Query::of(query, &[])?;
        }
        match route {
            Route::Document => Ok(whole(StatusCode::OK, "application/json", OPENAPI)),
            Route::Session => self.access.log_in_or_out(request).await,
            Route::Status => Ok(ok(&self.view(&engine.status().await?, None))),
            Route::History => self.history.tell(&self.engine, query).await,
            Route::Store => Ok(ok(&StoreView::from(&engine.store_info().await?))),
            Route::Held => self.sightings.tell(engine).await,
            Route::Events => self.live.events(self.shutdown.clone()),
            Route::Errors => errors::list(engine, query).await,
            Route::Error(number) => errors::show(engine, number).await,
            Route::Export => errors::export(self.engine.clone(), query),
            Route::Requeue => errors::change(engine, body(request).await?, true).await,
            Route::Delete => errors::change(engine, body(request).await?, false).await,
            Route::Messages => self.push(body(request).await?).await,
            Route::Pause => {
                let pause: Pause = body(request).await?;
                let paused = engine.pause(pause.generator, pause.handlers).await?;
                Ok(ok(&PausedView::from(paused)))
            }
            Route::Handover => {
                let to: To = body(request).await?;
                if to.node.as_deref() == Some("") {
                    return Err(Refusal::bad("node must be the id of a node, or left out"));
                }
                match engine.handover(to.node.as_deref()).await? {
                    Handover::Asked => Ok(json(StatusCode::ACCEPTED, &json!({ "reigns": false }))),
                    // This node generates already.
                    Handover::Reigns => Ok(ok(&json!({ "reigns": true }))),
                    Handover::Unknown => Err(Refusal::missing("there is no such node")),
                }
            }
        }
    }

    async fn push(&self, message: Message) -> Answer {
        let payload = match (message.payload, message.payload_base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => base64::decode(&text).ok_or_else(|| Refusal::bad("payload_base64 is no base64"))?,
            _ => return Err(Refusal::bad("give either payload or payload_base64")),
        };
        let mut item = Item::new(payload);
        item.key = message.key;
        item.delay_ms = message.delay_ms.unwrap_or(0);
        let pushed = push(&*self.engine, &self.settings, KEEP, &[item]).await?;
        let receipt = pushed.first().ok_or_else(|| Refusal::bad("nothing was pushed"))?;
        let pushed = json!({ "number": receipt.number, "repeated": receipt.repeated });
        Ok(json(StatusCode::CREATED, &pushed))
    }
}
