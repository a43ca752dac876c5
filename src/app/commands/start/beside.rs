//! What a copy serves beside its work: metrics and the dashboard. On a thread and a runtime of their own, and over connections of
//! their own to the store: whatever clients do to them, the work does not wait for it.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::app::args::sources::Resolved;
use crate::app::commands::dashboard;
use crate::app::dashboard::Bound;
use crate::app::exit::Failure;
use crate::app::http;
use crate::app::metrics::Metrics;
use crate::app::on_engine::{OnEngine, QueueAt};
use crate::app::output::log::Log;
use crate::engine::Engine;
use crate::node::meter::Meter;
use crate::node::shutdown::{self, Shutdown, Stopper};

/// Where the scheduler of the system lets others go first: the work, above all.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// What is to be served, bound to its places.
pub(super) struct Beside {
    metrics: Option<TcpListener>,
    dashboard: Option<Bound>,
    meter: Arc<Meter>,
    /// The node's. Metrics are served until the node is gone.
    shutdown: Shutdown,
}

impl Beside {
    /// None: nothing is to be served.
    pub(super) fn bind(
        resolved: &Resolved,
        meter: Arc<Meter>,
        shutdown: &Shutdown,
        log: &Log,
    ) -> Result<Option<Self>, Failure> {
        let metrics = match &resolved.metrics {
            None => None,
            Some(place) => {
                let bound = http::bind(place).map_err(|why| Failure::failed(format!("--metrics: {why}")));
                let (listener, bound) = bound?;
                log.say(false, "metrics", &[("at", &format!("http://{bound}/metrics"))]);
                Some(listener)
            }
        };
        let dashboard = match resolved.dashboard {
            None => None,
            Some(listen) => {
                let bound = dashboard::open("--dashboard", listen, resolved, log)?;
                log.say(false, "dashboard", &[("url", &bound.url)]);
                Some(bound)
            }
        };
        let shutdown = shutdown.clone();
        Ok((metrics.is_some() || dashboard.is_some()).then_some(Self {
            metrics,
            dashboard,
            meter,
            shutdown,
        }))
    }

    /// Serves until told to stop: also while there is no store yet.
    pub(super) fn serve(self, resolved: &Resolved, log: &Arc<Log>) -> Result<Serving, Failure> {
        let (stopper, stopping) = shutdown::channel();
        let (ended, end) = oneshot::channel();
        let (resolved, log) = (Arc::new(resolved.clone()), log.clone());
        let serve = move || {
            #[cfg(target_os = "linux")]
            let _ = rustix::process::setpriority_process(None, NICE);
            let work = Work {
                beside: self,
                resolved: resolved.clone(),
                log: log.clone(),
                stopping,
            };
            if let Err(failure) = QueueAt::of(&resolved, Duration::ZERO).run(work) {
                log.note(&failure.line);
            }
            let _ = ended.send(());
        };
        let thread = std::thread::Builder::new().name("serving".into()).spawn(serve);
        thread.map_err(|error| Failure::cannot("start a thread", error))?;
        Ok(Serving { stopper, end })
    }
}

/// Metrics and dashboard, on their thread.
pub(super) struct Serving {
    stopper: Stopper,
    end: oneshot::Receiver<()>,
}

impl Serving {
    /// Lets answers that are on their way finish.
    pub(super) async fn stop(self) {
        self.stopper.stop();
        let _ = self.end.await;
    }
}

struct Work {
    beside: Beside,
    resolved: Arc<Resolved>,
    log: Arc<Log>,
    stopping: Shutdown,
}

impl OnEngine for Work {
    type Output = ();

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<(), Failure> {
        let Self {
            beside,
            resolved,
            log,
            stopping,
        } = self;
        let settings = &resolved.settings;
        let metrics = async {
            if let Some(listener) = beside.metrics {
                let hosts = &resolved.serving.allow_host;
                let (engine, shutdown) = (engine.clone(), beside.shutdown.clone());
                let metrics = Metrics::new(engine, beside.meter, settings.clone(), shutdown, hosts);
                http::serve(listener, None, Arc::new(metrics), stopping).await;
            }
        };
        let dashboard = async {
            if let Some(bound) = beside.dashboard {
                let (address, shutdown) = (resolved.address.clone(), beside.shutdown.clone());
                bound
                    .serve(engine.clone(), settings.clone(), address, log, shutdown, None)
                    .await;
            }
        };
        tokio::join!(metrics, dashboard);
        Ok(())
    }
}
