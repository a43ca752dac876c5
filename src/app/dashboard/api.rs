//! What is served where: the page, the API, and what machines ask for.

use std::net::SocketAddr;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::Dashboard;
use super::access::Person;
use super::noted::Noted;
use super::reply::{Answer, Refusal, Reply, json, ok, protect, whole};
use super::request::{Query, body};
use super::roof::elsewhere;
use super::route::Route;
use super::{errors, messages, page, scale};
use crate::api::cancel;
use crate::app::args::token::Right;
use crate::app::http::{Admitted, Handler, text};
use crate::app::metrics;
use crate::app::output::cancelled::word;
use crate::app::output::view::{LimitView, PausedView, StoreView};
use crate::engine::{
    CANCELLED_GROUPS_MAX, CancelledGroup, Engine, Handover, Limits, PAUSED_GROUPS_MAX, PausedGroup, Rate,
};
use crate::error::Error;
use crate::message::wrong_group;

const OPENAPI: &str = include_str!("openapi.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pause {
    generator: Option<bool>,
    handlers: Option<bool>,
    /// Only this group, which is paused or goes on.
    group: Option<String>,
    paused: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    /// What is null or left out is not limited.
    rate: Option<String>,
    burst: Option<u32>,
    group: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    numbers: Option<Vec<u64>>,
    group: Option<String>,
}

/// How many messages one request cancels.
const CANCELS_AT_ONCE_MAX: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct To {
    node: Option<String>,
}

/// Who asks, and from where.
struct Asker {
    person: Person,
    from: SocketAddr,
}

impl<E: Engine> Handler for Dashboard<E> {
    async fn answer(&self, from: SocketAddr, mut request: Request<Incoming>) -> Reply {
        let answer = match elsewhere(&mut request) {
            None => self.route(from, request).await,
            Some(Ok(name)) => self.of_other(&name, from, request).await,
            Some(Err(refusal)) => Err(refusal),
        };
        let mut reply = answer.unwrap_or_else(Reply::from);
        protect(&mut reply, self.serves_tls);
        reply
    }
}

impl<E: Engine> Dashboard<E> {
    /// Answers for another queue. Nobody has one opened who is not admitted; the page is the same for all.
    async fn of_other(&self, name: &str, from: SocketAddr, request: Request<Incoming>) -> Answer {
        let is_page = page::find(request.uri().path()).is_some();
        if is_page || name == self.settings.queue || self.access.person(request.headers()).is_none() {
            return self.route(from, request).await;
        }
        self.access.check_place(&request)?;
        let other = self.roof.dashboard(name, self.parts()).await?;
        other.route(from, request).await
    }

    async fn route(&self, from: SocketAddr, request: Request<Incoming>) -> Answer {
        self.access.check_place(&request)?;
        let path = request.uri().path().to_string();
        let looks = matches!(*request.method(), Method::GET | Method::HEAD);
        let health = || (path == "/healthz").then(|| text(StatusCode::OK, "ok\n"));
        if let Some(fixed) = page::find(&path).or_else(health) {
            return looks.then_some(fixed).ok_or_else(|| Refusal::method("GET, HEAD"));
        }
        if looks && matches!(&*path, "/metrics" | "/readyz") {
            self.access.check_person(from, request.headers(), Right::Read).await?;
            return Ok(self.for_machines(&path).await);
        }
        let route = path.strip_prefix("/api/v1/").map(Route::of);
        let person = match route {
            Some(Some(route)) if route.is_open() => Person::Anyone,
            Some(Some(route)) => self.access.check_person(from, request.headers(), route.right()).await?,
            _ => self.access.check_person(from, request.headers(), Right::Read).await?,
        };
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
        let known = !route.is_open();
        let mut reply = self.serve(route, &Asker { person, from }, request).await?;
        if known {
            reply.extensions_mut().insert(Admitted);
        }
        Ok(reply)
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

    async fn serve(&self, route: Route, asker: &Asker, request: Request<Incoming>) -> Answer {
        let (engine, query) = (&*self.engine, request.uri().query().map(str::to_string));
        let query = query.as_deref();
        if route.takes_no_parameters() {
            Query::of(query, &[])?;
        }
        match route {
            Route::Document => Ok(whole(StatusCode::OK, "application/json", OPENAPI)),
            Route::Session => self.access.log_in_or_out(asker.from, request).await,
            Route::Status => Ok(ok(&self.view(&engine.status().await?, None))),
            Route::History => self.history.tell(&self.engine, query).await,
            Route::Queues => self.roof.tell(&self.settings.queue).await,
            Route::Store => Ok(ok(&StoreView::from(&engine.store_info().await?))),
            Route::Held => self.sightings.tell(engine).await,
            Route::Events => self.live.events(asker.person.clone(), self.shutdown.clone()),
            Route::Errors => errors::list(engine, query).await,
            Route::Error(number) => errors::show(engine, number).await,
            Route::Export => errors::export(self.engine.clone(), asker.person.clone(), query),
            Route::Requeue | Route::Delete => {
                let note = |change: &str| self.note(asker, change);
                errors::change(engine, body(request).await?, route == Route::Requeue, note).await
            }
            Route::Messages => {
                let note = |change: &str| self.note(asker, change);
                messages::push(engine, &self.settings, self.traces.as_ref(), request, note).await
            }
            Route::Message(number) => messages::find(engine, number).await,
            Route::Scale => scale::tell(engine, query).await,
            Route::Pause => {
                let pause: Pause = body(request).await?;
                if let Pause {
                    group: Some(group),
                    paused: Some(paused),
                    generator: None,
                    handlers: None,
                } = &pause
                {
                    return self.pause_group(asker, group, *paused).await;
                }
                if pause.group.is_some() || pause.paused.is_some() {
                    return Err(Refusal::bad(
                        "a group is paused by \"group\" and \"paused\" alone, all else by \"generator\" and \"handlers\"",
                    ));
                }
                self.pause(asker, pause.generator, pause.handlers).await
            }
            Route::Limit => self.limit(asker, body(request).await?).await,
            Route::Cancel => self.cancel(asker, body(request).await?).await,
            Route::Handover => self.hand_over(asker, body(request).await?).await,
        }
    }

    async fn pause(&self, asker: &Asker, generator: Option<bool>, handlers: Option<bool>) -> Answer {
        let wanted = |part: Option<bool>| part.map_or("as it is".to_string(), |paused| paused.to_string());
        let (one, other) = (wanted(generator), wanted(handlers));
        let noted = self.asked(asker, format!("paused: generator {one}, handlers {other}"));
        let paused = self.engine.pause(generator, handlers).await?;
        let (generator, handlers) = (paused.generator, paused.handlers);
        noted.done(&format!("paused: generator {generator}, handlers {handlers}"));
        Ok(ok(&PausedView::from(paused)))
    }

    async fn hand_over(&self, asker: &Asker, to: To) -> Answer {
        if to.node.as_deref() == Some("") {
            return Err(Refusal::bad("node must be the id of a node, or left out"));
        }
        let heir = to.node.as_deref().unwrap_or("any other");
        let noted = self.asked(asker, format!("handover to {heir}"));
        let answer = self.engine.handover(to.node.as_deref()).await?;
        noted.done(&format!("handover to {heir}: {answer:?}"));
        match answer {
            Handover::Asked => Ok(json(StatusCode::ACCEPTED, &json!({ "reigns": false }))),
            // This node generates already.
            Handover::Reigns => Ok(ok(&json!({ "reigns": true }))),
            Handover::Unknown => Err(Refusal::missing("there is no such node")),
        }
    }

    async fn limit(&self, asker: &Asker, wanted: Limit) -> Answer {
        let rate = |name: &str, text: Option<String>| {
            let rate = text.map(|text| text.parse::<Rate>()).transpose();
            rate.map_err(|why| Refusal::bad(format!("{name} {why}")))
        };
        if wanted.burst == Some(0) {
            return Err(Refusal::bad("burst must be at least 1, or left out"));
        }
        let limits = Limits {
            rate: rate("rate", wanted.rate)?,
            burst: wanted.burst.unwrap_or(0),
            group: rate("group", wanted.group)?,
        };
        limits.check().map_err(Refusal::bad)?;
        let limits = limits.with_burst();
        let what = format!("limit: {limits}");
        let noted = self.asked(asker, what.clone());
        self.engine.limit(&limits).await?;
        noted.done(&what);
        // It is set, whether or not the store can be looked at behind that.
        let limits = self.engine.status().await.map_or(limits, |status| status.limits);
        Ok(ok(&LimitView::from(limits)))
    }

    async fn cancel(&self, asker: &Asker, wanted: Cancel) -> Answer {
        let (numbers, group) = match wanted {
            Cancel {
                numbers: Some(numbers),
                group: None,
            } => (numbers, None),
            Cancel {
                numbers: None,
                group: Some(group),
            } => (Vec::new(), Some(group)),
            _ => return Err(Refusal::bad("messages are cancelled by \"numbers\" or by \"group\"")),
        };
        // A queue of a newer layout is refused.
        self.engine.published().await?;
        if let Some(group) = group {
            if let Some(why) = wrong_group(&group) {
                return Err(Refusal::bad(format!("group {why}")));
            }
            let what = format!("cancelled: group {group:?}");
            let noted = self.asked(asker, what.clone());
            let CancelledGroup::Asked { waiting } = cancel::cancel_group(&*self.engine, &group).await? else {
                noted.undone();
                return Err(Refusal::bad(format!(
                    "{CANCELLED_GROUPS_MAX} groups are cancelled already"
                )));
            };
            noted.done(&what);
            return Ok(ok(&json!({ "group": group, "state": "cancelled", "waiting": waiting })));
        }
        if numbers.is_empty() || numbers.len() > CANCELS_AT_ONCE_MAX {
            return Err(Refusal::bad(format!("numbers must be 1 to {CANCELS_AT_ONCE_MAX}")));
        }
        let what = format!("cancelled: messages {numbers:?}");
        let noted = self.asked(asker, what.clone());
        let answers = cancel::cancel(&*self.engine, &numbers).await?;
        noted.done(&what);
        let each = numbers.iter().zip(answers);
        let each = each.map(|(number, answer)| json!({ "number": number, "state": word(answer) }));
        Ok(ok(&json!({ "messages": each.collect::<Vec<_>>() })))
    }

    async fn pause_group(&self, asker: &Asker, group: &str, paused: bool) -> Answer {
        if let Some(why) = wrong_group(group) {
            return Err(Refusal::bad(format!("group {why}")));
        }
        let what = format!("group {group:?} paused: {paused}");
        let noted = self.asked(asker, what.clone());
        let PausedGroup::Ok { waiting } = self.engine.pause_group(group, paused).await? else {
            noted.undone();
            return Err(Refusal::bad(format!(
                "{PAUSED_GROUPS_MAX} groups are paused: resume some"
            )));
        };
        noted.done(&what);
        Ok(ok(&json!({ "group": group, "paused": paused, "waiting": waiting })))
    }

    /// To be kept while the store is asked for a change.
    fn asked<'a>(&'a self, asker: &'a Asker, what: String) -> Noted<impl Fn(&str) + 'a> {
        Noted::asked(|change: &str| self.note(asker, change), what)
    }

    fn note(&self, asker: &Asker, change: &str) {
        self.access.note(&asker.person, asker.from, change);
    }
}
