//! What is served where: the page, the API, and who may.

use hyper::body::Incoming;
use hyper::header::SET_COOKIE;
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};

use super::Dashboard;
use super::ask::{NUMBER_MAX, Query, body};
use super::reply::{Answer, Refusal, Reply, json, ok, protect, whole};
use super::view::StatusView;
use super::{errors, page};
use crate::api::push::{KEEP, push};
use crate::app::base64;
use crate::app::http::text;
use crate::app::metrics;
use crate::app::output::view::{PausedView, StoreView};
use crate::engine::{Engine, Handover, Item};
use crate::error::Error;

const OPENAPI: &str = include_str!("openapi.json");
/// Whoever gives a wrong token waits before the answer: guessing takes ages.
const WRONG_TOKEN_WAIT: std::time::Duration = std::time::Duration::from_millis(500);
/// So many pieces in hand are listed.
const HELD_MAX: u32 = 200;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    Document,
    Session,
    Status,
    History,
    Store,
    Held,
    Events,
    Errors,
    Export,
    Error(u64),
    Requeue,
    Delete,
    Messages,
    Pause,
    Handover,
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "openapi.json" => Self::Document,
            "session" => Self::Session,
            "status" => Self::Status,
            "history" => Self::History,
            "store" => Self::Store,
            "held" => Self::Held,
            "events" => Self::Events,
            "errors" => Self::Errors,
            "errors/export" => Self::Export,
            "errors/requeue" => Self::Requeue,
            "errors/delete" => Self::Delete,
            "messages" => Self::Messages,
            "pause" => Self::Pause,
            "handover" => Self::Handover,
            _ => {
                let number = path.strip_prefix("errors/")?;
                let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
                Self::Error(number.parse().ok().filter(|number| digits && *number <= NUMBER_MAX)?)
            }
        })
    }

    fn methods(self) -> &'static str {
        match self {
            Self::Session => "GET, POST, DELETE",
            Self::Requeue | Self::Delete | Self::Messages | Self::Pause | Self::Handover => "POST",
            _ => "GET",
        }
    }

    /// Without a token one may read how to ask, and log in.
    fn is_open(self) -> bool {
        matches!(self, Self::Document | Self::Session)
    }
}

#[derive(Serialize)]
struct Session {
    /// Whether a token is needed.
    token: bool,
    /// Whether this one may look.
    admitted: bool,
    read_only: bool,
    version: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    payload: Option<String>,
    payload_base64: Option<String>,
    key: Option<String>,
    delay_ms: Option<u64>,
}

#[derive(Serialize)]
struct Pushed {
    number: u64,
    repeated: bool,
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

#[derive(Serialize)]
struct Asked {
    /// Whether this node generates already.
    reigns: bool,
}

#[derive(Serialize)]
struct InHand {
    pieces: Vec<Piece>,
    /// Whether there are more than are listed.
    more: bool,
}

#[derive(Serialize)]
struct Piece {
    node: String,
    first: u64,
    count: u64,
    attempt: u16,
    failures: u16,
    published_ms: u64,
    /// For how long this dashboard has seen it there: it may have been there before.
    seen_ms: u64,
    start: String,
}

impl<E: Engine> Dashboard<E> {
    /// Answers one request, whatever it is.
    pub(super) async fn reply(&self, request: Request<Incoming>) -> Reply {
        let mut reply = self.route(request).await.unwrap_or_else(Reply::from);
        protect(&mut reply);
        reply
    }

    async fn route(&self, request: Request<Incoming>) -> Answer {
        self.access.check_place(request.uri(), request.headers())?;
        let path = request.uri().path().to_string();
        let looks = matches!(*request.method(), Method::GET | Method::HEAD);
        if let Some(file) = page::find(&path) {
            return if looks {
                Ok(file)
            } else {
                Err(Refusal::method("GET, HEAD"))
            };
        }
        if path == "/healthz" {
            return if looks {
                Ok(text(StatusCode::OK, "ok\n"))
            } else {
                Err(Refusal::method("GET, HEAD"))
            };
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
            let line = "this dashboard only looks (--read-only)";
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
        let mut figures = metrics::Text::new(&self.settings.queue);
        if let Ok(status) = looked {
            figures.queue(&status);
        }
        whole(StatusCode::OK, metrics::CONTENT_TYPE, figures.finish())
    }

    async fn serve(&self, route: Route, request: Request<Incoming>) -> Answer {
        let (engine, query) = (&*self.engine, request.uri().query().map(str::to_string));
        let query = query.as_deref();
        let plain = || Query::of(query, &[]).map(drop);
        match route {
            Route::Document => Ok(whole(StatusCode::OK, "application/json", OPENAPI)),
            Route::Session => self.session(request).await,
            Route::Status => {
                plain()?;
                let status = engine.status().await?;
                Ok(ok(&StatusView::new(&self.settings.queue, &self.address, &status, None)))
            }
            Route::History => self.past.tell(&self.engine, query).await,
            Route::Store => {
                plain()?;
                Ok(ok(&StoreView::from(&engine.store_info().await?)))
            }
            Route::Held => {
                plain()?;
                self.held().await
            }
            Route::Events => {
                plain()?;
                self.live.events(self.shutdown.clone())
            }
            Route::Errors => errors::list(engine, query).await,
            Route::Error(number) => {
                plain()?;
                errors::show(engine, number).await
            }
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
                    Handover::Asked => Ok(json(StatusCode::ACCEPTED, &Asked { reigns: false })),
                    Handover::Reigns => Ok(ok(&Asked { reigns: true })),
                    Handover::Unknown => Err(Refusal::missing("there is no such node")),
                }
            }
        }
    }

    async fn session(&self, request: Request<Incoming>) -> Answer {
        let mut admitted = self.access.knows(request.headers());
        let mut cookie = None;
        if request.method() == Method::POST {
            let login: Login = body(request).await?;
            cookie = self.access.log_in(&login.token);
            if cookie.is_none() && self.access.wants_token() {
                tokio::time::sleep(WRONG_TOKEN_WAIT).await;
                let line = "this is not the token";
                return Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", line));
            }
            admitted = true;
        } else if request.method() == Method::DELETE {
            cookie = self.access.log_out(request.headers());
            admitted = !self.access.wants_token();
        }
        let mut reply = ok(&Session {
            token: self.access.wants_token(),
            admitted,
            read_only: self.access.read_only,
            version: env!("CARGO_PKG_VERSION"),
        });
        if let Some(cookie) = cookie {
            reply.headers_mut().insert(SET_COOKIE, cookie);
        }
        Ok(reply)
    }

    /// Who holds what: bounded, the oldest of each node first.
    async fn held(&self) -> Answer {
        let (mut pieces, mut more) = (Vec::new(), false);
        for node in self.engine.status().await?.nodes {
            if node.in_hand == 0 {
                continue;
            }
            let room = HELD_MAX - u32::try_from(pieces.len()).expect("bounded");
            let held = self.engine.held(&node.node, room + 1).await?;
            more = held.len() > room as usize;
            for piece in held.into_iter().take(room as usize) {
                let sight = (node.node.clone(), piece.first, piece.attempt);
                pieces.push(Piece {
                    node: node.node.clone(),
                    first: piece.first,
                    count: piece.count,
                    attempt: piece.attempt,
                    failures: piece.failures,
                    published_ms: piece.published_ms,
                    seen_ms: crate::settings::ms(self.sightings.see(sight)),
                    start: String::from_utf8_lossy(&piece.start).into_owned(),
                });
            }
            if more {
                break;
            }
        }
        Ok(ok(&InHand { pieces, more }))
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
        let pushed = Pushed {
            number: receipt.number,
            repeated: receipt.repeated,
        };
        Ok(json(StatusCode::CREATED, &pushed))
    }
}
