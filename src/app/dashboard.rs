//! The dashboard: one page, the API behind it, and events for those who look. Everything is in the binary.
//!
//! | file | |
//! | --- | --- |
//! | `route`, `api` | what is served where |
//! | `roof` | several queues in one dashboard |
//! | `access`, `session` | who may: Host, Origin, token, logging in |
//! | `request`, `reply` | requests and answers, their limits and headers |
//! | `sample`, `live` | the state of the queue twice a second, one sampler for all who look |
//! | `history` | what was, for charts |
//! | `held` | what nodes have in hand |
//! | `messages` | what is pushed |
//! | `noted` | what was changed, for the log |
//! | `scale` | how many copies the queue needs, for autoscalers |
//! | `errors` | the failed messages, in bounded steps |
//! | `tls` | certificates |
//! | `page` | what the browser gets |
//!
//! `openapi.json` describes the API; a test holds it against the server.

mod access;
mod api;
mod errors;
mod held;
mod history;
mod live;
mod messages;
mod noted;
mod page;
mod reply;
mod request;
mod roof;
mod route;
mod sample;
mod scale;
mod session;
mod tls;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

pub use roof::Others;
pub use tls::acceptor;

use crate::app::args::token::Tokens;
use crate::app::http::{self, serve};
use crate::app::otel::Traces;
use crate::app::output::log::Log;
use crate::app::output::time::now_ms;
use crate::app::output::view::StoreView;
use crate::engine::{Engine, Status};
use crate::error::Error;
use crate::node::shutdown::Shutdown;
use crate::settings::{Settings, ms};
use access::Access;
use held::Sightings;
use history::HistoryCache;
use live::Live;
use roof::Roof;
use sample::{Rater, Sample, StatusView};

/// How often the store is asked about itself.
const STORE_INFO_EVERY: Duration = Duration::from_secs(5);

/// How it is served.
#[derive(Clone, Default)]
pub struct Options {
    pub tokens: Tokens,
    pub read_only: bool,
    /// Names under which it may be reached, besides addresses and localhost.
    pub hosts: Vec<String>,
    pub tls: Option<TlsAcceptor>,
    /// A proxy in front of it speaks TLS.
    pub behind_tls: bool,
}

/// A dashboard that is bound to its place, and not yet served.
pub struct Bound {
    listener: TcpListener,
    pub options: Options,
    pub url: String,
}

/// Takes the place, so that a mistake shows before anything else begins; why not, in words.
pub fn bind(listen: SocketAddr, options: Options) -> Result<Bound, String> {
    let (listener, bound) = http::bind(&listen.to_string())?;
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{bound}/");
    Ok(Bound { listener, options, url })
}

pub(crate) struct Dashboard<E> {
    engine: Arc<E>,
    settings: Settings,
    /// The store, for people.
    address: String,
    access: Arc<Access>,
    serves_tls: bool,
    live: Live,
    history: HistoryCache,
    sightings: Sightings,
    shutdown: Shutdown,
    roof: Arc<Roof<E>>,
    traces: Option<Traces>,
}

/// What the dashboards of all queues of one process have in common.
#[derive(Clone)]
struct Parts {
    settings: Settings,
    address: String,
    access: Arc<Access>,
    serves_tls: bool,
    shutdown: Shutdown,
    traces: Option<Traces>,
}

impl Bound {
    /// Serves until told to stop, with other queues to switch to, if there are any. A store that goes away does not end it.
    pub async fn serve<E: Engine>(
        self,
        engine: Arc<E>,
        settings: Settings,
        address: String,
        log: Arc<Log>,
        shutdown: Shutdown,
        others: Option<Others<E>>,
    ) {
        let options = self.options;
        let port = self.listener.local_addr().map_or(0, |address| address.port());
        let queue = settings.queue.clone();
        let noting = log.clone();
        let traces = Traces::of_environment(&queue, move |line: &str| noting.note(line));
        let parts = Parts {
            settings,
            address,
            access: Arc::new(Access::new(&options, port, log)),
            serves_tls: options.tls.is_some(),
            shutdown: shutdown.clone(),
            traces: traces.clone(),
        };
        let roof = Arc::new(Roof::new(others));
        let dashboard = Arc::new(Dashboard::new(engine, &queue, parts, roof));
        tokio::select! {
            () = serve(self.listener, options.tls, dashboard.clone(), shutdown) => {}
            () = dashboard.sample() => {}
        }
        if let Some(traces) = traces {
            let _ = tokio::task::spawn_blocking(move || traces.end()).await;
        }
    }
}

impl<E: Engine> Dashboard<E> {
    fn new(engine: Arc<E>, queue: &str, parts: Parts, roof: Arc<Roof<E>>) -> Self {
        let mut settings = parts.settings;
        settings.queue = queue.into();
        Self {
            engine,
            settings,
            address: parts.address,
            access: parts.access,
            serves_tls: parts.serves_tls,
            live: Live::default(),
            history: HistoryCache::default(),
            sightings: Sightings::default(),
            shutdown: parts.shutdown,
            roof,
            traces: parts.traces.map(|traces| traces.of_queue(queue)),
        }
    }

    fn parts(&self) -> Parts {
        Parts {
            settings: self.settings.clone(),
            address: self.address.clone(),
            access: self.access.clone(),
            serves_tls: self.serves_tls,
            shutdown: self.shutdown.clone(),
            traces: self.traces.clone(),
        }
    }

    /// One sampler for all who look.
    async fn sample(&self) {
        let mut rater = Rater::default();
        let mut store: Option<(Instant, StoreView)> = None;
        loop {
            self.live.awaited().await;
            let next = Instant::now() + live::EVERY;
            let looked = self.engine.status().await;
            let is_old = store.as_ref().is_none_or(|(seen, _)| seen.elapsed() > STORE_INFO_EVERY);
            if looked.is_ok() && is_old {
                // What cannot be told now, for lack of rights for example, is told without.
                let told = self.engine.store_info().await.ok();
                store = told.map(|told| (Instant::now(), StoreView::from(&told)));
            }
            let facts = store.as_ref().map(|(_, facts)| facts.clone());
            self.live.tell(self.told(looked, facts, &mut rater));
            tokio::time::sleep_until(next).await;
        }
    }

    fn told(&self, looked: Result<Status, Error>, facts: Option<StoreView>, rater: &mut Rater) -> Sample {
        let mut sample = Sample {
            now_ms: now_ms(),
            every_ms: ms(live::EVERY),
            status: None,
            problem: None,
            facts,
        };
        match looked {
            Ok(status) => {
                self.history.notice(&status);
                sample.now_ms = status.time_ms;
                sample.status = Some(self.view(&status, Some(rater)));
                rater.note(&status);
            }
            Err(error) => sample.problem = Some(error.into()),
        }
        sample
    }

    fn view(&self, status: &Status, rater: Option<&Rater>) -> StatusView {
        StatusView::new(&self.settings.queue, &self.address, status, rater)
    }
}
