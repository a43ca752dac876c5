//! `start`: one copy, with the generators and the handler of the original task.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::{FAILED, Failure};
use crate::engine::Engine;
use crate::error::Error;
use crate::generate::{Generate, Next};
use crate::handle::{Handle, Handled};
use crate::log::Log;
use crate::message::Message;
use crate::node::Node;
use crate::shutdown::{self, Stopper};
use crate::sources::{Builtin, Resolved, Work};

/// How often to look for a Redis that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(super) async fn run<E: Engine>(engine: Arc<E>, resolved: &Resolved, log: Arc<Log>) -> Result<(), Failure> {
    let (stopper, mut shutdown) = shutdown::channel();
    stop_on_signal(stopper)?;
    if resolved.verbose > 0 {
        say_settings(resolved, &log);
    }
    tokio::select! {
        found = find_store(&*engine, resolved, &log) => found?,
        () = shutdown.stopping() => return Ok(()),
    }
    let generate = BuiltinGenerate(resolved.generate);
    let handle = BuiltinHandle {
        work: resolved.work,
        error_rate: resolved.error_rate,
    };
    let ticking = tick(log.clone());
    let node = Node::new(engine, resolved.settings.clone(), generate, handle).observer(log);
    tokio::select! {
        ended = node.run(shutdown) => ended.map_err(Failure::from),
        () = ticking => unreachable!("ticks without end"),
    }
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
        ("pid", std::process::id().to_string()),
    ];
    let fields: Vec<(&'static str, &str)> = fields.iter().map(|(key, value)| (*key, value.as_str())).collect();
    log.say(false, "settings", &fields);
}

/// Wrappers such as timeout(1) send the same signal twice in a row; that is one.
const SAME_SIGNAL: Duration = Duration::from_millis(250);

/// The first signal stops the node in good order; the second leaves at once. On a thread of its own, so that it works
/// whatever the rest of the program is stuck in.
fn stop_on_signal(stopper: Stopper) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure {
        line: format!("cannot listen to signals: {error}"),
        code: FAILED,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let entered = runtime.enter();
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    drop(entered);
    let listen = async move {
        let mut stopping: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            match stopping {
                Some(first) if first.elapsed() > SAME_SIGNAL => std::process::exit(FAILED.into()),
                Some(_) => {}
                None => {
                    stopping = Some(Instant::now());
                    stopper.stop();
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || runtime.block_on(listen)).map_err(failed)?;
    Ok(())
}

/// Waits for a store that is not there yet, unless told not to; refuses one on which the promises would not hold.
async fn find_store<E: Engine>(engine: &E, resolved: &Resolved, log: &Log) -> Result<(), Error> {
    let mut said = false;
    loop {
        match engine.check().await {
            Err(error) if error.is_away() && !resolved.no_wait => {
                if !said {
                    said = true;
                    log.note(&format!(
                        "{error}; waiting for it to come (start redis-server there, give another address with --url or \
                         --host, or stay on one machine with --url sqlite:queue.db; --no-wait exits instead)"
                    ));
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            found => return found,
        }
    }
}

/// The generators that come with the program.
struct BuiltinGenerate(Builtin);

impl Generate for BuiltinGenerate {
    async fn generate(&mut self, next: Next, payload: &mut Vec<u8>) {
        use std::io::Write;
        // Writing to a Vec cannot fail.
        let _ = match self.0 {
            Builtin::Counter => write!(payload, "{}", next.number),
            Builtin::Text => write!(payload, "{} epoch={} number={}", words(), next.epoch, next.number),
        };
    }
}

fn words() -> String {
    const WORDS: [&str; 32] = [
        "amber", "bloom", "brood", "cell", "clover", "comb", "dance", "drone", "field", "flight", "garden", "heather",
        "hive", "honey", "hum", "lavender", "linden", "meadow", "nectar", "orchard", "pollen", "propolis", "queen",
        "royal", "scout", "smoke", "summer", "swarm", "thyme", "wax", "willow", "wing",
    ];
    let mut words = [""; 4];
    for word in &mut words {
        *word = WORDS[fastrand::usize(..WORDS.len())];
    }
    words.join(" ")
}

/// The handler of the task: takes a while, and fails now and then.
struct BuiltinHandle {
    work: Work,
    error_rate: f64,
}

impl Handle for BuiltinHandle {
    async fn handle(&self, _: Message) -> Handled {
        if !self.work.is_zero() {
            tokio::time::sleep(self.work.sample()).await;
        }
        if self.error_rate > 0.0 && fastrand::f64() < self.error_rate {
            return Err("the handler failed, as it is told to now and then (--error-rate)".into());
        }
        Ok(Vec::new())
    }
}
