//! `start`: one copy. `roles` says who generates and who handles, `beside` serves metrics and the dashboard.

mod beside;
pub(super) mod roles;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::dashboard;
use crate::app::args::program::Source;
use crate::app::args::sources::{Generating, Handling, Resolved};
use crate::app::args::token::Tokens;
use crate::app::exit::{FAILED, Failure};
use crate::app::health;
use crate::app::lab::ledger::Recorder;
use crate::app::otel::Traces;
use crate::app::output::log::Log;
use crate::app::outside::{self, Secrets};
use crate::app::run::on_signals;
use crate::app::systemd::{Service, Telling};
use crate::engine::Engine;
use crate::error::Error;
use crate::node::Node;
use crate::node::event::{Entry, Event, Observer};
use crate::node::id::new_id;
use crate::node::meter::Meter;
use crate::node::shutdown::{self, Shutdown, Stopper};
use beside::Beside;

/// How long children may take to end after the node has: longer than each of them is given.
const CHILDREN_GRACE: Duration = Duration::from_secs(4);
/// How often to look for a Redis that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(super) async fn run<E: Engine>(engine: Arc<E>, resolved: &Resolved, log: Arc<Log>) -> Result<(), Failure> {
    let (stopper, mut shutdown) = shutdown::channel();
    if resolved.until_stdin_closes {
        stop_when_stdin_closes(stopper.clone())?;
    }
    stop_on_signal(stopper)?;
    let service = service(&log);
    let observer = told(service.as_ref(), observer(resolved, log.clone())?);
    if resolved.verbose {
        say_settings(resolved, &log);
    }
    let tokens = match resolved.dashboard {
        Some(_) => dashboard::tokens(resolved)?,
        None => Tokens::default(),
    };
    let secrets = Secrets::of(resolved, &tokens);
    let traces = traces(resolved, &log);
    let generator = roles::generator(resolved, &secrets, traces.clone(), &log)?;
    let handler = roles::handler(resolved, &secrets, traces.clone(), &log)?;
    let mut settings = resolved.settings.clone();
    if handler.outside.is_some() {
        // They keep the time themselves, since they have more to end than a future.
        settings.timeout = None;
    }
    if starts_commands(resolved)
        && let Err(error) = outside::set_watcher()
    {
        log.note(&format!(
            "cannot start a process that ends the commands if this one is killed: {error}"
        ));
    }
    let node = Node::new(engine.clone(), settings, generator, handler).observer(observer);
    answer_healthchecks(node.meter(), &shutdown, &log);
    if let Some(service) = service {
        let (lease, shutdown) = (resolved.settings.lease, shutdown.clone());
        tokio::spawn(service.keep(node.meter(), lease, shutdown));
    }
    let beside = Beside::bind(resolved, node.meter(), &shutdown, &log)?;
    let serving = beside.map(|beside| beside.serve(resolved, &log)).transpose()?;
    tokio::select! {
        found = find_store(&engine, resolved, &log) => found?,
        () = shutdown.stopping() => return Ok(()),
    }
    if resolved.only_handles {
        let text = "handles what others push or generate; with --generate or --cron it would generate, too";
        log.say(false, "worker", &[("message", text)]);
    }
    let ticking = tick(log.clone());
    let ended = tokio::select! {
        ended = node.run(shutdown) => ended.map_err(Failure::from),
        () = ticking => unreachable!("ticks without end"),
    };
    outside::stop_all(CHILDREN_GRACE).await;
    if let Some(traces) = traces {
        // On another thread: this one may have others to serve.
        let _ = tokio::task::spawn_blocking(move || traces.end()).await;
    }
    if let Some(serving) = serving {
        serving.stop().await;
    }
    ended
}

/// Where the environment names a collector of traces.
fn traces(resolved: &Resolved, log: &Arc<Log>) -> Option<Arc<Traces>> {
    let log = log.clone();
    let traces = Traces::of_environment(&resolved.settings.queue, move |line: &str| log.note(line));
    traces.map(Arc::new)
}

fn starts_commands(resolved: &Resolved) -> bool {
    let handles = matches!(resolved.handle, Handling::Child(_) | Handling::Each(_));
    let lines = matches!(resolved.generate, Generating::Lines(Source::Program(_)));
    handles || lines || matches!(resolved.generate, Generating::Each(_))
}

/// None: this is no service of systemd that is to tell it anything.
fn service(log: &Log) -> Option<Arc<Service>> {
    match Service::of_environment() {
        Ok(service) => service.map(Arc::new),
        Err(error) => {
            log.note(&format!("systemd is told nothing: NOTIFY_SOCKET: {error}"));
            None
        }
    }
}

fn told(service: Option<&Arc<Service>>, next: Arc<dyn Observer>) -> Arc<dyn Observer> {
    match service {
        None => next,
        Some(service) => Arc::new(Telling {
            service: service.clone(),
            next,
        }),
    }
}

/// For `healthcheck`. A node works without it, too.
fn answer_healthchecks(meter: Arc<Meter>, shutdown: &Shutdown, log: &Log) {
    let shutdown = shutdown.clone();
    let about = move || {
        let role = match meter.generates.load(Ordering::Relaxed) {
            _ if shutdown.is_stopping() => "stops",
            true => "generates",
            false => "handles",
        };
        match meter.silence() {
            None => "waits for the store".into(),
            Some(silence) => format!("{role}, heard of the store {} ms ago", silence.as_millis()),
        }
    };
    if let Err(error) = health::listen(about) {
        log.note(&format!("healthcheck will not find this process: {error}"));
    }
}

/// The log, and the book if one is to be kept.
fn observer(resolved: &Resolved, log: Arc<Log>) -> Result<Arc<dyn Observer>, Failure> {
    let Some(path) = &resolved.ledger else {
        return Ok(log);
    };
    // Copies that cannot be told different names, in containers, write one each into a directory.
    let path = if path.is_dir() {
        let machine = gethostname::gethostname();
        &path.join(format!("{}-{}", machine.to_string_lossy(), std::process::id()))
    } else {
        path
    };
    let recorder = Recorder::of_shards(path, resolved.settings.names.shards as usize)
        .map_err(|error| Failure::failed(format!("--ledger: cannot write {}: {error}", path.display())))?;
    Ok(Arc::new(Both { log, recorder }))
}

struct Both {
    log: Arc<Log>,
    recorder: Recorder,
}

impl Observer for Both {
    fn wants_messages(&self) -> bool {
        self.log.wants_messages()
    }

    fn wants_starts(&self) -> bool {
        true
    }

    fn observe(&self, node: &str, events: &[Event]) {
        self.recorder.observe(node, events);
        self.log.observe(node, events);
    }

    fn observe_shard(&self, node: &str, events: &[Event]) {
        self.recorder.observe_shard(node, events);
    }

    fn keeps_ledger(&self) -> bool {
        true
    }

    fn intends(&self, node: &str, entries: &[Entry]) {
        self.recorder.intends(node, entries);
    }

    fn refuses(&self, node: &str) {
        self.recorder.refuses(node);
    }

    fn confirms(&self, node: &str, entries: &[Entry]) {
        self.recorder.confirms(node, entries);
    }
}

/// How long a copy may take to stop once its parent is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// The end of stdin means that the parent is gone, however it died: stops in good order, and after a second at once.
pub(super) fn stop_when_stdin_closes(stopper: Stopper) -> Result<(), Failure> {
    // A copy that is frozen cannot see the end of stdin. Elsewhere the system wakes orphans that are stopped.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::CONT));
    let thread = std::thread::Builder::new().name("parent".into());
    let watch = move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        stopper.stop();
        std::thread::sleep(ORPHAN_GRACE);
        outside::kill_all();
        std::process::exit(FAILED.into());
    };
    let started = thread.spawn(watch).map(drop);
    started.map_err(|error| Failure::cannot("watch stdin", error))
}

/// Keeps the `rate` line going when nothing else happens.
async fn tick(log: Arc<Log>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        log.tick();
    }
}

fn say_settings(resolved: &Resolved, log: &Log) {
    let settings = &resolved.settings;
    let fields = [
        ("store", resolved.address.clone()),
        ("queue", settings.queue.clone()),
        ("concurrency", settings.concurrency.to_string()),
        ("interval", format!("{:?}", settings.interval)),
        ("lease", format!("{:?}", settings.lease)),
        ("crown_lease", format!("{}ms", settings.crown_ms())),
        ("max_backlog", settings.backlog_max.to_string()),
        ("max_deliveries", settings.deliveries_max.to_string()),
        (
            "max_errors",
            settings.errors_max.map_or("none".into(), |errors| errors.to_string()),
        ),
        ("retries", settings.retries.to_string()),
        ("group_concurrency", settings.group_concurrency.to_string()),
        ("group_skip_retries", settings.group_skip_retries.to_string()),
        (
            "limit",
            settings.limits.map_or("as it is".into(), |limits| limits.to_string()),
        ),
        ("backoff", format!("{:?}", settings.backoff)),
        ("pid", std::process::id().to_string()),
    ];
    let fields: Vec<(&'static str, &str)> = fields.iter().map(|(key, value)| (*key, value.as_str())).collect();
    log.say(false, "settings", &fields);
}

/// The first signal stops the node in good order (graceful shutdown); the second leaves at once.
pub(super) fn stop_on_signal(stopper: Stopper) -> Result<(), Failure> {
    let leave = || {
        outside::kill_all();
        std::process::exit(FAILED.into());
    };
    on_signals(move || stopper.stop(), leave)
}

/// Whether a node can work there. What a join would be refused for is found here, where it is one line and an exit code. Of several shards, only the
/// first must be there: the others may be away for a while.
async fn usable<E: Engine>(engine: &Arc<E>) -> Result<(), Error> {
    // Its shards are those that there are now.
    match engine.published().await {
        Err(error) if !error.may_pass() && !matches!(error, Error::NoQueue { .. }) => return Err(error),
        _ => {}
    }
    for (shard, engine) in E::shards(engine).iter().enumerate() {
        match usable_shard(&**engine).await {
            Err(error) if shard > 0 && error.may_pass() => {}
            found => found?,
        }
    }
    Ok(())
}

async fn usable_shard<E: Engine>(engine: &E) -> Result<(), Error> {
    engine.check().await?;
    match engine.published().await {
        Err(Error::NoQueue { .. }) => {}
        found => drop(found?),
    }
    // Changes nothing for a reader that is none; but a replica, and a server that cannot write, refuse it.
    engine.hold(&new_id(), 0).await.map(drop)
}

/// Waits for a store that is not there yet, unless told not to; refuses one on which the promises would not hold.
async fn find_store<E: Engine>(engine: &Arc<E>, resolved: &Resolved, log: &Log) -> Result<(), Error> {
    let mut said = false;
    loop {
        match usable(engine).await {
            Err(error) if error.may_pass() && !resolved.no_wait => {
                if !said {
                    said = true;
                    log.note(&format!(
                        "{error}; waiting for it to come, or exit with --no-wait (install and start Redis there, give \
                         another address with --url or --host, stay on one machine with --url sqlite:queue.db, or watch \
                         queenright demo)"
                    ));
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            found => return found,
        }
    }
}
