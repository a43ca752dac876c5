//! Those who come with an errand and go: operators, and others who push messages.

use std::sync::Arc;
use std::time::Duration;

use queenright::engine::{Engine, Failed, Item, Limits, Purged, Receipt};
use queenright::error::{Error, Result};
use queenright::failed::{Filter, scan};
use queenright::settings::Names;
use queenright::{Settings, push};

use super::process::{Kind, add, wire};
use super::wire::Wire;
use super::world::{Inner, World, sleep_ms};

/// How often someone at a terminal tries again.
const TRIES: u32 = 200;

/// What an operator comes for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    Pause(Option<bool>, Option<bool>),
    PauseGroup(String, bool),
    Limit(Limits),
    Cancel(Vec<u64>),
    CancelGroup(String),
    Handover(Option<String>),
    Requeue,
    Discard,
    /// While nodes work on it.
    TryPurge,
    /// Whoever may still be there.
    Purge,
}

/// Someone at a terminal.
pub fn start_operator(world: &Arc<World>, errand: Errand) {
    let process = add(world, Kind::Operator, Names::default());
    let (wire, over) = (wire(world, process), world.clone());
    tokio::spawn(async move {
        let ended = run(&wire, errand).await;
        over.with(|inner| inner.comes_back(process, ended));
    });
}

async fn run(wire: &Wire, errand: Errand) -> Result<()> {
    match errand {
        Errand::Pause(generator, handlers) => patiently(|| wire.pause(generator, handlers)).await.map(drop),
        Errand::PauseGroup(group, paused) => patiently(|| wire.pause_group(&group, paused)).await.map(drop),
        Errand::Limit(limits) => patiently(|| wire.limit(&limits)).await,
        Errand::Cancel(numbers) => {
            patiently(|| wire.cancel(&numbers)).await?;
            // Some do it twice.
            if numbers.len().is_multiple_of(2) {
                sleep_ms(wire.world.plan.lease_ms() / 4).await;
                patiently(|| wire.cancel(&numbers)).await?;
            }
            Ok(())
        }
        Errand::CancelGroup(group) => patiently(|| wire.cancel_group(&group)).await.map(drop),
        Errand::Handover(to) => {
            patiently(|| wire.handover(to.as_deref())).await?;
            sleep_ms(wire.world.plan.lease_ms() / 2).await;
            patiently(|| wire.handover(Some(""))).await.map(drop)
        }
        Errand::Requeue => {
            let numbers = some_errors(wire).await?;
            patiently(|| wire.requeue(&numbers)).await.map(drop)
        }
        Errand::Discard => {
            let numbers = some_errors(wire).await?;
            patiently(|| wire.discard(&numbers)).await.map(drop)
        }
        Errand::TryPurge => patiently(|| wire.purge(false)).await.map(drop),
        Errand::Purge => {
            // The hive clock stands still while nobody beats, and so does the lease of one that was killed.
            if patiently(|| wire.purge(false)).await? != Purged::Gone {
                patiently(|| wire.purge(true)).await?;
            }
            Ok(())
        }
    }
}

async fn some_errors(wire: &Wire) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    let from = wire.world.with(|inner| inner.rng.u64(..8));
    let filter = Filter {
        from,
        ..Filter::default()
    };
    let add = |failed: &[Failed]| numbers.extend(failed.iter().map(|failed| failed.number));
    scan(wire, &filter, Some(3), add).await?;
    Ok(numbers)
}

/// Tries until there is an answer.
async fn patiently<T, Answer: Future<Output = Result<T>>>(call: impl Fn() -> Answer) -> Result<T> {
    let mut answer = call().await;
    for _ in 0..TRIES {
        if !answer.as_ref().is_err_and(Error::is_away) {
            break;
        }
        sleep_ms(50).await;
        answer = call().await;
    }
    answer
}

/// Someone pushes a few messages, and perhaps all of them again.
pub fn start_pusher(world: &Arc<World>, names: Names) -> usize {
    let process = add(world, Kind::Pusher, names);
    let (wire, over) = (wire(world, process), world.clone());
    let settings: Settings = world.plan.settings.clone();
    let (items, keep, times) = world.with(|inner| inner.draw_items(process));
    tokio::spawn(async move {
        let mut ended = Ok(Vec::new());
        for pause in times {
            sleep_ms(pause).await;
            ended = push::push(&*wire, &settings, keep, &items).await;
            over.with(|inner| inner.has_pushed(&items, &ended));
        }
        over.with(|inner| inner.comes_back(process, ended.map(drop)));
    });
    process
}

impl Inner {
    /// What to push, for how long keys are kept, and how long to wait before each time.
    fn draw_items(&mut self, process: usize) -> (Vec<Item>, Duration, Vec<u64>) {
        let lease = self.plan.lease_ms();
        let keyed = self.rng.bool();
        let items = (0..self.rng.u64(1..=3)).map(|index| {
            let mut item = Item::new(format!("push {process} {index}"));
            if keyed && self.rng.u8(..4) > 0 {
                item = item.key(self.rng.u8(..4).to_string());
            }
            if self.rng.u8(..4) == 0 {
                item = item.delay(Duration::from_millis(self.rng.u64(1..=lease)));
            }
            // Drawn from what the push is, so that plans without groups stay as they were.
            if let Some(group) = self.plan.group(process as u64 + 16 * index) {
                item = item.group(group);
            }
            if self.plan.asks && (process as u64 + index).is_multiple_of(2) {
                item = item.ask();
            }
            item
        });
        let items = items.collect();
        let keep = if self.rng.bool() { lease / 4 } else { 3_600_000 };
        let mut times = vec![0];
        if keyed && self.rng.bool() {
            times.extend([self.rng.u64(..lease / 8), self.rng.u64(..lease)]);
        }
        (items, Duration::from_millis(keep), times)
    }

    /// What a pusher is told is so.
    fn has_pushed(&mut self, items: &[Item], pushed: &Result<Vec<Receipt>>) {
        let Ok(receipts) = pushed else { return };
        let there = |(item, receipt): (&Item, &Receipt)| {
            let payload = self.book.pushed.get(&receipt.number);
            payload.is_some_and(|payload| receipt.repeated || *payload == item.payload)
        };
        let right = items.len() == receipts.len() && items.iter().zip(receipts).all(there);
        if !right && !self.rewound {
            self.fail(&format!("{items:?} are told to be in the queue as {receipts:?}"));
        }
    }

    fn comes_back(&mut self, process: usize, ended: Result<()>) {
        self.note(|| format!("{process}: ends with {ended:?}"));
        let visitor = &mut self.processes[process];
        let strange = visitor.names != self.state.names;
        let right = match &ended {
            Err(Error::OtherNames { .. }) => strange,
            Err(Error::NewerLayout { .. }) => self.plan.newer,
            Err(Error::Away { .. }) => true,
            Err(Error::Full { .. }) => visitor.kind == Kind::Pusher && !strange,
            Err(Error::NoQueue { .. }) => visitor.kind == Kind::Operator || strange,
            Err(_) => false,
            Ok(()) => !strange,
        };
        let kind = visitor.kind;
        if !right {
            self.fail(&format!("a {kind:?} ends with {ended:?}"));
        }
        self.processes[process].ended = Some(ended.map_err(|error| error.to_string()));
    }

    /// Whether everyone who came with an errand has gone.
    pub fn errands_are_over(&self) -> bool {
        let comes = |kind| matches!(kind, Kind::Operator | Kind::Pusher | Kind::Burst);
        self.processes
            .iter()
            .all(|process| !comes(process.kind) || process.dead || process.ended.is_some())
    }
}
