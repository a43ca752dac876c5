//! Several queues under one roof (`--all-queues`): `/q/NAME/` is the dashboard of another queue of the same store, with the same page,
//! the same API and the same rights.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::{Request, StatusCode, Uri};
use serde::Serialize;
use tokio::time::Instant;

use super::reply::{Answer, Refusal, ok};
use super::request::decode;
use super::{Dashboard, Parts};
use crate::app::exit::Failure;
use crate::app::on_engine::Opener;
use crate::app::queues::Found;
use crate::engine::Engine;

/// The names are good for this time, however often they are asked for.
const FIND_AGAIN: Duration = Duration::from_secs(5);
/// How many queues are looked at, at most, as long as the dashboard runs: each has connections of its own.
const OPEN_MAX: usize = 100;

type Find = dyn Fn() -> Result<Found, Failure> + Send + Sync;
/// The dashboards of other queues, by name.
type Opened<E> = BTreeMap<String, Arc<Dashboard<E>>>;

/// How other queues of the store are found, which may block, and opened.
pub struct Others<E> {
    pub find: Box<Find>,
    pub open: Opener<E>,
}

/// What all dashboards of a process share.
pub(super) struct Roof<E> {
    others: Option<Arc<Others<E>>>,
    open: Mutex<Opened<E>>,
    found: tokio::sync::Mutex<Option<(Instant, Found)>>,
}

/// `GET /api/v1/queues`.
#[derive(Serialize)]
struct Queues<'a> {
    queues: &'a [String],
    /// There may be more than are listed.
    more: bool,
}

impl<E: Engine> Roof<E> {
    pub(super) fn new(others: Option<Others<E>>) -> Self {
        Self {
            others: others.map(Arc::new),
            open: Mutex::default(),
            found: tokio::sync::Mutex::default(),
        }
    }

    /// The queues that one can switch to.
    pub(super) async fn tell(&self, own: &str) -> Answer {
        let Some(found) = self.found().await? else {
            return Ok(ok(&Queues {
                queues: &[own.to_string()],
                more: false,
            }));
        };
        Ok(ok(&Queues {
            queues: &found.names,
            more: found.may_be_more,
        }))
    }

    /// None: there is only one queue here.
    async fn found(&self) -> Result<Option<Found>, Refusal> {
        let Some(others) = self.others.clone() else {
            return Ok(None);
        };
        let mut last = self.found.lock().await;
        if let Some((_, found)) = last.as_ref().filter(|(at, _)| at.elapsed() < FIND_AGAIN) {
            return Ok(Some(found.clone()));
        }
        let found = tokio::task::spawn_blocking(move || (others.find)()).await;
        let found = found.unwrap_or_else(|_| Err(Failure::failed("cannot look for queues")));
        let found = found.map_err(|failure| Refusal::new(StatusCode::BAD_GATEWAY, "store", failure.line))?;
        *last = Some((Instant::now(), found.clone()));
        Ok(Some(found))
    }

    /// The dashboard of another queue, which must be there.
    pub(super) async fn dashboard(self: &Arc<Self>, name: &str, parts: Parts) -> Result<Arc<Dashboard<E>>, Refusal> {
        let absent = || Refusal::missing("there is no such queue here; see /api/v1/queues");
        let opened = |roof: &Self| roof.lock().get(name).cloned();
        if let Some(open) = opened(self) {
            return Ok(open);
        }
        let (Some(others), Some(found)) = (&self.others, self.found().await?) else {
            return Err(absent());
        };
        if !found.names.iter().any(|found| found == name) {
            return Err(absent());
        }
        self.has_room()?;
        let engine = (others.open)(name).await;
        let engine = engine.map_err(|failure| Refusal::new(StatusCode::BAD_GATEWAY, "store", failure.line))?;
        // Somebody else may have opened it meanwhile.
        self.has_room()?;
        let mut open = self.lock();
        let dashboard = open.entry(name.into()).or_insert_with(|| {
            let dashboard = Arc::new(Dashboard::new(engine, name, parts, self.clone()));
            let sampled = dashboard.clone();
            tokio::spawn(async move { sampled.sample().await });
            dashboard
        });
        Ok(dashboard.clone())
    }

    fn has_room(&self) -> Result<(), Refusal> {
        if self.lock().len() < OPEN_MAX {
            return Ok(());
        }
        let line = format!("{OPEN_MAX} queues are open already: start another dashboard, with -q");
        Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "queues", line))
    }

    fn lock(&self) -> MutexGuard<'_, Opened<E>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of `/q/NAME/rest` the name, and the request as it would be for that queue alone.
pub(super) fn elsewhere<B>(request: &mut Request<B>) -> Option<Result<String, Refusal>> {
    let (name, rest) = request.uri().path().strip_prefix("/q/")?.split_once('/')?;
    let query = request.uri().query().map_or(String::new(), |query| format!("?{query}"));
    let name = decode(name).map(std::borrow::Cow::into_owned);
    match format!("/{rest}{query}").parse::<Uri>() {
        Ok(uri) => *request.uri_mut() = uri,
        Err(_) => return Some(Err(Refusal::missing("there is nothing here; see /api/v1/openapi.json"))),
    }
    Some(name)
}
