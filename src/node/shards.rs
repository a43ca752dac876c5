//! A node that works on several shards: a membership, a lane and a pool in each; one generator, and as many slots as ever for all.
//!
//! What a shard does to its own membership and messages stays there: each has what it has seen, its lease, its calls. The home shard is
//! the first; where there is one shard, it is all there is.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{
    Context, Handle, Handler, Home, Ids, Meter, Observer, Reopening, Requests, Seat, Share, Slots, Standing, crashed,
    watch,
};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::event::{Entry, Event};
use crate::node::membership::Membership;
use crate::settings::Settings;

/// What the parts of the node share, and its membership, in each shard. Where it worked before a reshard, it goes on from what it has seen (`before`).
pub(super) fn contexts<E: Engine>(
    shards: Vec<Arc<E>>,
    settings: Settings,
    observer: &Arc<dyn Observer>,
    meter: &Arc<Meter>,
    reopening: &Reopening,
    before: &[Arc<Requests>],
) -> Result<Vec<(Context<E>, Membership<E>)>> {
    let count = shards.len();
    let mut ids = if count > 1 { Ids::of(count) } else { Vec::new() }.into_iter();
    let settings = if count > 1 {
        shared_by(settings.names.shards_now(), settings)?
    } else {
        settings
    };
    let mut home: Option<Context<E>> = None;
    let mut contexts = Vec::with_capacity(count);
    for (shard, engine) in shards.into_iter().enumerate() {
        let standing = watch::Sender::new(Standing::default());
        let observer: Arc<dyn Observer> = match shard {
            0 => observer.clone(),
            _ => Arc::new(InShard {
                observer: observer.clone(),
                shard,
            }),
        };
        let context = Context {
            engine,
            settings: Arc::new(Settings {
                names: settings.names.in_shard(shard),
                ..settings.clone()
            }),
            observer,
            requests: before
                .get(shard)
                .map_or_else(Arc::default, |before| Arc::new(Requests::after(before))),
            told: Arc::default(),
            meter: meter.clone(),
            standing: standing.subscribe(),
            shutdown: reopening.shutdown.clone(),
            reopening: reopening.clone(),
        };
        let of_home = home.as_ref().map(|home| Home {
            standing: home.standing.clone(),
            requests: home.requests.clone(),
        });
        let seat = Seat::new(ids.next(), of_home);
        home.get_or_insert_with(|| context.clone());
        let membership = Membership::new(context.clone(), standing, seat);
        contexts.push((context, membership));
    }
    Ok(contexts)
}

/// The room of the queue and its limit are shared out.
fn shared_by(shards: usize, settings: Settings) -> Result<Settings> {
    let part = |most: u64| most.div_ceil(shards as u64);
    let limits = settings.limits.map(|limits| limits.shared_by(shards)).transpose();
    Ok(Settings {
        backlog_max: part(settings.backlog_max),
        errors_max: settings.errors_max.map(part),
        limits: limits.map_err(|reason| Error::Setting {
            setting: "limits",
            reason,
        })?,
        ..settings
    })
}

/// What handles the messages of each shard.
pub(super) fn handlers<E: Engine, H: Handle>(contexts: Vec<Context<E>>, handle: &Arc<H>) -> Vec<Handler<E, H>> {
    let count = contexts.len();
    let concurrency = contexts.first().map_or(0, |home| home.settings.concurrency as usize);
    let slots = (count > 1).then(|| Arc::new(Slots::new(concurrency, count)));
    let of = |(lane, context)| {
        let share = slots.clone().map(|slots| Share { slots, lane });
        Handler::new(context, handle.clone(), share)
    };
    contexts.into_iter().enumerate().map(of).collect()
}

/// Runs a part of the node in all shards, until all have ended, or one with an error.
pub(super) async fn all<T: Send + 'static, F>(mut parts: Vec<T>, run: impl Fn(T) -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return run(only).await;
    }
    let mut running: JoinSet<_> = JoinSet::new();
    for part in parts {
        running.spawn(run(part));
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap_or_else(|_| Err(crashed("part")))?;
    }
    Ok(())
}

/// Tells what happens in a shard other than the home shard. Membership and crown are told of the home shard; of the others what somebody should
/// look at, with the number of the shard.
struct InShard {
    observer: Arc<dyn Observer>,
    shard: usize,
}

impl InShard {
    fn told(&self, event: &Event) -> Option<Event> {
        let shard = self.shard;
        match event {
            Event::Joined
            | Event::Left
            | Event::Elected { .. }
            | Event::Deposed { epoch: Some(_) }
            | Event::Paused { .. }
            | Event::Resumed
            | Event::Purged => None,
            Event::Away { reason } => Some(Event::Away {
                reason: format!("shard {shard}: {reason}"),
            }),
            Event::Damaged { what } => Some(Event::Damaged {
                what: format!("shard {shard}: {what}"),
            }),
            event => Some(event.clone()),
        }
    }
}

impl Observer for InShard {
    fn wants_messages(&self) -> bool {
        self.observer.wants_messages()
    }

    fn wants_starts(&self) -> bool {
        self.observer.wants_starts()
    }

    fn observe(&self, node: &str, events: &[Event]) {
        self.observer.observe_shard(node, events);
        if events.iter().all(Event::is_per_message) {
            self.observer.observe(node, events);
            return;
        }
        let told: Vec<Event> = events.iter().filter_map(|event| self.told(event)).collect();
        if !told.is_empty() {
            self.observer.observe(node, &told);
        }
    }

    fn keeps_ledger(&self) -> bool {
        self.observer.keeps_ledger()
    }

    fn intends(&self, node: &str, entries: &[Entry]) {
        self.observer.intends(node, entries);
    }

    fn refuses(&self, node: &str) {
        self.observer.refuses(node);
    }

    fn confirms(&self, node: &str, entries: &[Entry]) {
        self.observer.confirms(node, entries);
    }
}
