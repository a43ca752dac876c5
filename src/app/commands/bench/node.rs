//! `bench-node`: nodes whose generator and handler can be told more than those of `start`.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::app::args::BenchNode;
use crate::app::args::sources::{Resolved, Store, Work};
use crate::app::commands::start::stop_when_stdin_closes;
use crate::app::exit::Failure;
use crate::app::on_engine::QueueAt;
use crate::app::run::runtime;
use crate::message::Message;
use crate::node::Node;
use crate::node::generate::{Draft, Generate, Made, Next};
use crate::node::handle::{Handle, Handled};
use crate::node::shutdown;

/// A number, and as many more bytes as are wanted.
pub(super) fn fill(payload: &mut Vec<u8>, number: u64, bytes: usize) {
    payload.clear();
    // Writing to a Vec cannot fail.
    let _ = write!(payload, "{number}");
    payload.resize(payload.len().max(bytes), b'x');
}

pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whether messages are slow at this time.
pub(super) fn is_slow(time: Duration, window: Duration) -> bool {
    (time.as_nanos() / window.as_nanos().max(1)) % 2 == 1
}

/// Generates and handles as the flags say.
#[derive(Clone)]
struct Told {
    flags: Arc<BenchNode>,
    work: Work,
}

impl Generate for Told {
    async fn generate(&mut self, next: Next, draft: &mut Draft) -> Made {
        let number = if self.flags.stamp {
            u64::try_from(now().as_nanos()).unwrap_or(0)
        } else {
            next.number
        };
        fill(&mut draft.payload, number, self.flags.payload);
        if self.flags.groups > 0 {
            draft.group = Some(format!("group {}", next.made % self.flags.groups));
        }
        Made::Message
    }
}

impl Handle for Told {
    async fn handle(&self, message: Message) -> Handled {
        let flags = &self.flags;
        if flags.stamp {
            let made = std::str::from_utf8(&message.payload)
                .ok()
                .and_then(|text| text.parse().ok());
            let age = now().saturating_sub(Duration::from_nanos(made.unwrap_or(0)));
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "{}", age.as_nanos()).and_then(|()| out.flush());
        }
        let slow = match (flags.slow_every, flags.window) {
            (Some(every), _) => message.number.is_multiple_of(every.max(1)),
            (None, Some(window)) => is_slow(now(), window),
            (None, None) => false,
        };
        if slow {
            tokio::time::sleep(flags.slow).await;
        } else if !self.work.is_zero() {
            tokio::time::sleep(self.work.sample()).await;
        }
        Ok(Vec::new())
    }
}

pub(in crate::app::commands) fn run(resolved: &Resolved, flags: &BenchNode) -> Result<ExitCode, Failure> {
    let Store::Redis(place) = &resolved.store else {
        return Err(Failure::usage("bench-node works on Redis only"));
    };
    let runtime = runtime()?;
    let settings = &resolved.settings;
    let queue = QueueAt::of(resolved, Duration::ZERO);
    let told = Told {
        flags: Arc::new(flags.clone()),
        work: resolved.work,
    };
    let (stopper, shutdown) = shutdown::channel();
    stop_when_stdin_closes(stopper)?;
    runtime.block_on(async {
        let mut nodes = tokio::task::JoinSet::new();
        for _ in 0..flags.nodes {
            let (settings, generate, handle) = (settings.clone(), told.clone(), told.clone());
            if settings.names.shards > 1 {
                let node = Node::new(Arc::new(queue.servers().await?), settings, generate, handle);
                nodes.spawn(node.run(shutdown.clone()));
            } else {
                let node = Node::new(Arc::new(queue.redis(place)?), settings, generate, handle);
                nodes.spawn(node.run(shutdown.clone()));
            }
        }
        while let Some(ended) = nodes.join_next().await {
            ended.map_err(|error| Failure::cannot("run a node", error))??;
        }
        Ok(ExitCode::SUCCESS)
    })
}
