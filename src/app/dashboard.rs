//! The dashboard: one page, the API behind it, and events for those who look. Everything is in the binary.
//!
//! | file | |
//! | --- | --- |
//! | `api` | what is served where |
//! | `access` | who may: Host, Origin, token, sessions |
//! | `ask`, `reply` | requests and answers, their limits and headers |
//! | `errors` | the failed messages, in bounded steps |
//! | `live` | one sampler for all who look |
//! | `view`, `past` | a look as JSON, and what was |
//! | `tls` | certificates |
//! | `page` | what the browser gets |
//!
//! `openapi.json` describes the API; a test holds it against the server.

mod access;
mod api;
mod ask;
mod errors;
mod live;
mod page;
mod past;
mod reply;
mod tls;
mod view;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

pub use access::is_loopback;
pub use tls::acceptor;

use crate::app::args::value::Token;
use crate::app::http::{Handler, serve};
use crate::engine::Engine;
use crate::node::shutdown::Shutdown;
use crate::settings::{Settings, ms};
use access::Access;
use live::{Live, Sightings};
use reply::Reply;
use view::{Look, Problem, Rater, Sample, StoreFacts};

/// How often the store is asked about itself.
const FACTS_EVERY: Duration = Duration::from_secs(5);

/// How it is served.
#[derive(Clone, Default)]
pub struct Options {
    pub token: Option<Token>,
    pub read_only: bool,
    /// Names under which it may be reached, besides addresses and localhost.
    pub hosts: Vec<String>,
    pub tls: Option<TlsAcceptor>,
}

/// A dashboard that is bound to its place, and not yet served.
pub struct Bound {
    listener: TcpListener,
    options: Options,
    pub url: String,
}

/// Takes the place, so that a mistake shows before anything else begins.
pub async fn bind(listen: SocketAddr, options: Options) -> io::Result<Bound> {
    let listener = TcpListener::bind(listen).await?;
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}/", listener.local_addr()?);
    Ok(Bound { listener, options, url })
}

pub(crate) struct Dashboard<E> {
    engine: Arc<E>,
    settings: Settings,
    /// The store, for people.
    address: String,
    access: Access,
    live: Live,
    past: past::HistoryCache,
    sightings: Sightings,
    shutdown: Shutdown,
}

impl Bound {
    /// Serves until told to stop. A store that goes away does not end it.
    pub async fn serve<E: Engine>(self, engine: Arc<E>, settings: Settings, address: String, shutdown: Shutdown) {
        let Options {
            token,
            read_only,
            hosts,
            tls,
        } = self.options;
        let port = self.listener.local_addr().map_or(0, |address| address.port());
        let dashboard = Arc::new(Dashboard {
            engine,
            settings,
            address,
            access: Access::new(token, read_only, &hosts, port, tls.is_some()),
            live: Live::new(),
            past: past::HistoryCache::default(),
            sightings: Sightings::default(),
            shutdown: shutdown.clone(),
        });
        tokio::select! {
            () = serve(self.listener, tls, dashboard.clone(), shutdown) => {}
            () = dashboard.sample() => {}
        }
    }
}

impl<E: Engine> Handler for Dashboard<E> {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        self.reply(request).await
    }
}

impl<E: Engine> Dashboard<E> {
    async fn sample(&self) {
        let mut pace = Rater::default();
        let mut facts: Option<(Instant, StoreFacts)> = None;
        loop {
            self.live.awaited().await;
            let next = Instant::now() + live::EVERY;
            let mut sample = self.take(&mut pace).await;
            if sample.problem.is_none() && facts.as_ref().is_none_or(|(seen, _)| seen.elapsed() > FACTS_EVERY) {
                // What cannot be told now, for lack of rights for example, is told without.
                facts = self
                    .engine
                    .store_info()
                    .await
                    .ok()
                    .map(|told| (Instant::now(), told.into()));
            }
            sample.facts = facts.as_ref().map(|(_, facts)| facts.clone());
            self.live.tell(sample);
            tokio::time::sleep_until(next).await;
        }
    }

    async fn take(&self, pace: &mut Rater) -> Sample {
        let looked = self.engine.status().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut sample = Sample {
            now_ms: ms(now),
            every_ms: ms(live::EVERY),
            status: None,
            problem: None,
            facts: None,
        };
        match looked {
            Ok(status) => {
                let counts = status.clone();
                self.past.notice(&status);
                sample.now_ms = status.time_ms;
                sample.status = Some(Look::new(&self.settings.queue, &self.address, status, Some(pace)));
                pace.note(&counts);
            }
            Err(error) => sample.problem = Some(Problem::from(reply::Refusal::from(error))),
        }
        sample
    }
}
