//! Someone outside who pushes all the time, through every fault, and keeps what the store told. Now and then it cancels a message, or limits for a while how fast
//! messages are taken.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::fleet::{proxies, urls};
use crate::app::args::sources::Store;
use crate::app::exit::Failure;
use crate::app::lab::ledger::{checks, print_of};
use crate::app::lab::proxy::Proxy;
use crate::app::lab::test_bed::TestBed;
use crate::app::on_engine::{OnEngine, QueueAt};
use crate::app::output::time::now_ms;
use crate::engine::any::StoreUrl;
use crate::engine::{Engine, Item, Limits, Push, Pushed, Rate};
use crate::node::id::new_id;
use crate::settings::Settings;

/// Between two pushes, or two tries of one.
const PAUSE: Duration = Duration::from_millis(50);
/// How many messages go into one push, and of how many one is for later.
const ITEMS_MAX: u64 = 20;
/// After so many pushes, one of the messages is cancelled.
const CANCEL_EACH: u64 = 3;
const DELAYED_EACH: u64 = 8;
const DELAY_MS_MAX: u64 = 2000;
/// Of how many messages one belongs to a group, and how many groups there are: so many that none has much to do.
const GROUPED_EACH: u64 = 4;
const GROUPS: u64 = 50;
/// Of so many outcomes that were asked for it is looked in the end whether they are known: far fewer than are kept.
const ASKED_MAX: usize = 1000;

/// After so many pushes a limit is set, and after so many more it is removed.
const LIMIT_EACH: u64 = 120;
const LIMIT_FOR: u64 = 40;
/// Of the whole fleet and of each group, a second.
const LIMIT_RATE: u32 = 5000;
const LIMIT_GROUP: u32 = 20;

/// Number, payload, the group if its order is known, and when that was told, in milliseconds since 1970.
type Told = (u64, String, Option<u64>, u64);

pub(super) struct Pusher {
    /// One before each store.
    pub(super) proxies: Vec<Proxy>,
    stop: Arc<AtomicBool>,
    told: Arc<Mutex<Vec<Told>>>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Pusher {
    /// Pushes until it is told to stop, through a proxy of its own where one can stand.
    pub(super) fn start(bed: &TestBed, settings: &Settings) -> std::io::Result<Self> {
        let proxies = proxies(bed)?;
        let mut stores = match &bed.store {
            Store::Redis(_) => urls(bed, &proxies).split(' ').map(store_at).collect::<Result<_, _>>()?,
            file @ Store::Sqlite(_) => vec![file.clone()],
        };
        let store = stores.remove(0);
        let others: Vec<(Store, String)> = stores
            .into_iter()
            .map(|store| (store, "another shard".into()))
            .collect();
        let (stop, told) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let pushing = Pushing {
            settings: settings.clone(),
            stop: stop.clone(),
            told: told.clone(),
        };
        let (settings, address) = (settings.clone(), bed.address.clone());
        let thread = std::thread::Builder::new().name("pusher".into()).spawn(move || {
            let queue = QueueAt {
                store: &store,
                password: None,
                address: &address,
                others: &others,
                settings: &settings,
                answer_min: Duration::ZERO,
                only_looks: false,
                any_shards: false,
            };
            queue.run(pushing)
        })?;
        Ok(Self {
            proxies,
            stop,
            told,
            thread: Some(thread),
        })
    }

    /// Lets the last push come to its end. What went wrong, if something did.
    pub(super) async fn end(&mut self) -> Option<String> {
        self.stop.store(true, Ordering::Relaxed);
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            tokio::time::sleep(PAUSE).await;
        }
        match self.thread.take()?.join() {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some(format!("a push came to no end: {}", failure.line)),
            Err(_) => Some("the pusher panicked".into()),
        }
    }

    /// The last messages whose outcomes were asked for.
    pub(super) fn asked(&self) -> Vec<u64> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = told.iter().rev().filter(|(_, payload, ..)| is_asked(payload));
        asked.map(|(number, ..)| *number).take(ASKED_MAX).collect()
    }

    /// The number that each message was told to have, and the print of its payload. Writes it all down.
    pub(super) fn told(&self, directory: &Path) -> std::io::Result<Vec<checks::Push>> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (number, payload, group, ms) in told.iter() {
            let group = group.map_or_else(|| "-".into(), |group| group.to_string());
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{ms} {number} {group} {payload}");
        }
        std::fs::write(directory.join("pushes.txt"), text)?;
        let pushes = told.iter().map(|(number, payload, group, ms)| checks::Push {
            number: *number,
            payload: print_of(*number, payload.as_bytes()),
            ms: *ms,
            group: *group,
        });
        Ok(pushes.collect())
    }
}

fn store_at(url: &str) -> std::io::Result<Store> {
    match StoreUrl::parse(url).map_err(std::io::Error::other)? {
        StoreUrl::Redis(url) => Ok(Store::Redis(Box::new(url.place().map_err(std::io::Error::other)?))),
        _ => unreachable!("a Redis stays one"),
    }
}

struct Pushing {
    settings: Settings,
    stop: Arc<AtomicBool>,
    told: Arc<Mutex<Vec<Told>>>,
}

impl OnEngine for Pushing {
    type Output = ();

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<(), Failure> {
        let (mut made, mut pushes) = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            let payloads: Vec<(String, Option<u64>)> = (0..=made % ITEMS_MAX)
                .map(|item| {
                    let group = (fastrand::u64(..GROUPED_EACH) == 0).then(|| fastrand::u64(..GROUPS));
                    (format!("pushed {}", made + item), group)
                })
                .collect();
            made += payloads.len() as u64;
            let push = Push {
                call: new_id(),
                keep_ms: 0,
                backlog_max: u64::MAX / 2,
                birth: new_id(),
                step_ms: self.settings.step_ms(),
                server: String::new(),
                only_known: false,
                items: payloads.iter().map(|(payload, group)| item(payload, *group)).collect(),
            };
            // What is put off is in order only once it is due.
            let at_once = push.items.iter().map(|item| item.delay_ms == 0);
            let sent = payloads.into_iter().zip(at_once);
            let sent = sent.map(|((payload, group), at_once)| (payload, group.filter(|_| at_once)));
            self.send(&*engine, &push, sent.collect()).await?;
            pushes += 1;
            if pushes % CANCEL_EACH == 0
                && let Some(number) = self.last_asked()
            {
                // Whether it arrives or not: then it is an error, or what its handler makes of it.
                drop(engine.cancel(&[number]).await);
            }
            // Whether it arrives or not: the next one says otherwise.
            match pushes % LIMIT_EACH {
                0 => drop(engine.limit(&limits()).await),
                LIMIT_FOR => drop(engine.limit(&Limits::NONE).await),
                _ => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
        let give_up = Instant::now() + PATIENCE;
        while let Err(error) = engine.limit(&Limits::NONE).await {
            if Instant::now() >= give_up {
                return Err(error.into());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}

impl Pushing {
    /// Of these the store can tell when they have ended, and so no cancel outlives its message.
    fn last_asked(&self) -> Option<u64> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut asked = told.iter().rev().take(usize::try_from(ITEMS_MAX).expect("few"));
        asked
            .find(|(_, payload, ..)| is_asked(payload))
            .map(|(number, ..)| *number)
    }

    /// The same call until it is answered, whatever is broken.
    async fn send<E: Engine>(&self, engine: &E, push: &Push, sent: Vec<(String, Option<u64>)>) -> Result<(), Failure> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match engine.push(push).await {
                Ok(Pushed::Ok(receipts)) => {
                    let numbers = receipts.iter().map(|receipt| receipt.number);
                    let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                    let now = now_ms();
                    let all = numbers.zip(sent);
                    told.extend(all.map(|(number, (payload, group))| (number, payload, group, now)));
                    return Ok(());
                }
                Err(error) if Instant::now() >= give_up => return Err(error.into()),
                Ok(Pushed::Full | Pushed::Part(_) | Pushed::Unheard) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

fn limits() -> Limits {
    let rate = |messages| {
        let per_ms = 1000;
        Some(Rate { messages, per_ms })
    };
    Limits {
        rate: rate(LIMIT_RATE),
        burst: 0,
        group: rate(LIMIT_GROUP),
    }
}

/// Of one in five.
fn is_asked(payload: &str) -> bool {
    payload.ends_with(['0', '5'])
}

fn item(payload: &str, group: Option<u64>) -> Item {
    let mut item = Item::new(payload.to_string());
    item.group = group.map(|group| format!("group {group}"));
    item.asked = is_asked(payload);
    if fastrand::u64(..DELAYED_EACH) == 0 {
        item.delay_ms = fastrand::u64(..DELAY_MS_MAX);
    }
    item
}
